#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Where the trace goes, and what happens where it cannot go.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

client() {
	echo "$clients/ends" exit
}

ran() { # whether the program of a test ran: it appends to a journal
	[ -s journal ]
}

refuses() { # PATTERN COMMAND...: exit 1, one sentence, and the program never starts
	local pattern=$1
	shift
	E2E_JOURNAL=$PWD/journal expect_status 1 "$@" >out 2>err
	ran && fail "the program ran all the same"
	expect_equal "lines on standard error" 1 "$(wc -l <err)"
	expect_match "message" "$pattern" "$(cat err)"
	expect_no_session
}

# ----------------------------------------------------------------------- names

it_names_the_trace_after_program_and_pid() {
	record -- $(client)
	expect_match "files" '^custody\.ends\.[0-9]+\.db$' "$(ls)"
}

it_fills_in_placeholders() {
	WHAT=this record -o 'x-%e-%h-%q{WHAT}-100%%-%p.db' -- $(client)
	expect_match "files" "^x-ends-$(uname -n)-this-100%-[0-9]+\.db\$" "$(ls)"
}

it_takes_the_name_from_the_environment() {
	CUSTODY_OUTPUT=there.db record -- $(client)
	expect_equal "files" there.db "$(ls)"
	CUSTODY_OUTPUT=elsewhere.db record -o here.db -- $(client)
	[ -e here.db ] || fail "the option does not win over the environment"
	[ ! -e elsewhere.db ] || fail "the environment won over the option"
}

it_leaves_one_file_and_nothing_beside_it() {
	record -o t.db -- $(client)
	expect_equal "files" t.db "$(ls -A)"
	expect_equal "type" "SQLite format 3" "$(head -c 15 t.db)"
}

it_does_not_overwrite_a_file() {
	echo precious >t.db
	refuses 't\.db' "$custody" record -o t.db -- $(client)
	expect_equal "file" precious "$(cat t.db)"
}

it_overwrites_a_file_when_told_to() {
	echo worthless >t.db
	record -f -o t.db -- $(client)
	expect_equal "copies" 25 "$(query t.db "SELECT count(*) FROM transfer")"
}

it_replaces_no_trace_that_is_being_recorded() {
	local first
	mkfifo go
	record -o t.db -- bash -c 'read -r _ <go; exec "$@"' - $(client) &
	first=$!
	wait_until 10 is_collected || fail "no session has a collector"
	expect_status 1 "$custody" record -f -o t.db -- $(client) 2>err
	expect_match "message" 't\.db is being recorded by another run' "$(cat err)"
	echo >go
	wait "$first" || fail "the first run ended with $?: $(cat err)"
	expect_equal "copies" 25 "$(query t.db "SELECT count(*) FROM transfer")"
	record -f -o t.db -- $(client)
}

is_collected() { # the one session there is
	local lock
	lock=$(compgen -G "$XDG_RUNTIME_DIR/custody-*/lock") && [ -n "$(holder_of "$lock")" ]
}

it_gives_a_second_bare_run_a_name_of_its_own() {
	local i
	for i in 1 2 3; do
		CUSTODY_OUTPUT=t.db LD_PRELOAD=$preload bounded $(client)
	done
	wait_until 20 test -e t.3.db || fail "found $(ls)"
	wait_for_trace 't*.db' >/dev/null
	expect_equal "files" "t.2.db t.3.db t.db" "$(ls | paste -sd' ')"
}

it_gives_two_bare_runs_at_once_two_files() {
	local i
	for i in 1 2 3 4; do
		CUSTODY_OUTPUT=t.db LD_PRELOAD=$preload bounded $(client) &
	done
	wait
	wait_until 20 test -e t.4.db || fail "found $(ls)"
	wait_for_trace 't*.db' >/dev/null
	for i in t*.db; do
		expect_equal "copies in $i" 25 "$(query "$i" "SELECT count(*) FROM transfer")"
	done
}

it_refuses_one_of_two_recordings_into_one_name() {
	hold "$custody" record -q -o t.db -- "$clients/ends" wait
	E2E_JOURNAL=$PWD/journal expect_status 1 "$custody" record -o t.db -- $(client) 2>second.err
	ran && fail "the second program ran all the same"
	expect_match "message" 't\.db' "$(cat second.err)"
	let_go
	expect_status 0 wait "$held"
	expect_equal "copies" 30 "$(query t.db "SELECT count(*) FROM transfer")"
}

# ---------------------------------------------------------------- no such place

it_refuses_a_directory_that_does_not_exist() {
	refuses 'nowhere' "$custody" record -o nowhere/t.db -- $(client)
}

it_refuses_a_directory_it_may_not_write() {
	mkdir locked
	chmod 555 locked
	if [ "$(id -u)" = 0 ]; then
		setpriv --help 2>/dev/null | grep -q reuid || skip "setpriv is needed as root"
		setpriv --reuid=65534 --clear-groups test -x "$custody" ||
			skip "the build directory is closed to other users"
		chmod 755 "$scratch" .
		chmod 777 "$XDG_RUNTIME_DIR"
		refuses 'locked' setpriv --reuid=65534 --clear-groups \
			env E2E_JOURNAL= "$custody" record -o locked/t.db -- $(client)
	else
		refuses 'locked' "$custody" record -o locked/t.db -- $(client)
	fi
}

it_refuses_a_directory_as_file() {
	mkdir t.db
	refuses 't\.db' "$custody" record -f -o t.db -- $(client)
}

it_refuses_or_writes_a_name_that_is_very_long() {
	local name status=0
	name=$PWD/$(printf 'd%.0s' {1..200})/$(printf 'e%.0s' {1..200})
	mkdir -p "$name"
	name=$name/$(printf 'f%.0s' {1..200}).db
	E2E_JOURNAL=$PWD/journal bounded "$custody" record -q -o "$name" -- $(client) \
		2>err || status=$?
	if [ "$status" = 0 ]; then
		expect_equal "copies" 25 "$(query "$name" "SELECT count(*) FROM transfer")"
	else
		ran && fail "the program ran all the same"
		expect_equal "status" 1 "$status"
	fi
}

it_lets_a_bare_program_run_where_nothing_can_be_written() {
	CUSTODY_OUTPUT=/proc/nowhere/t.db LD_PRELOAD=$preload bounded $(client) >out 2>err
	expect_empty "output" out
	[ "$(wc -l <err)" -le 1 ] || fail "more than one line: $(cat err)"
}

# -------------------------------------------------------------------- limits

it_survives_a_small_limit_on_file_sizes() {
	plain_build_only
	E2E_JOURNAL=$PWD/journal bounded bash -c 'ulimit -f 256; exec "$@"' - env \
		CUSTODY_OUTPUT="$PWD/t.db" LD_PRELOAD="$preload" $(client) >out 2>err ||
		fail "status $?: $(cat err)"
	ran || fail "the program did not run to its end"
	[ "$(wc -l <err)" -le 1 ] || fail "more than one line: $(cat err)"
}

it_records_under_a_small_limit_on_file_sizes_or_says_that_it_cannot() {
	plain_build_only
	E2E_JOURNAL=$PWD/journal bounded bash -c 'ulimit -f 2048; exec "$@"' - \
		"$custody" record -o t.db -- $(client) >out 2>err || fail "status $?: $(cat err)"
	ran || fail "the program did not run to its end"
	[ ! -e t.db ] || expect_equal "copies" 25 "$(query t.db "SELECT count(*) FROM transfer")"
	[ -e t.db ] || [ -s err ] || fail "nothing was recorded and nothing was said"
}

it_counts_what_a_small_buffer_loses() {
	plain_build_only
	local copies lost
	# The collector is stopped, so nothing is given back and the buffer fills.
	hold env CUSTODY_BUFFER=1MiB "$custody" record -q -o t.db -- "$clients/flood" 60000
	stop_children_but "$held" flood STOP
	echo go >&8
	read -r _ _ <&9
	stop_children_but "$held" flood CONT
	let_go
	expect_status 0 wait "$held"
	copies=$(query t.db "SELECT count(*) FROM transfer")
	lost=$(query t.db "SELECT coalesce(sum(count), 0) FROM gap")
	[ "$lost" -gt 0 ] || fail "a buffer of 1 MiB held all of 60000 records"
	expect_equal "recorded and lost together" 60000 $((copies + lost))
	expect_equal "lost records of the process" "$lost" \
		"$(query t.db "SELECT sum(lost_records) FROM process")"
	"$custody" report t.db >report
	expect_match "report" 'lost' "$(cat report)"
	# Nothing may be called certain that the lost records could refute.
	grep -q 'Every block was freed' report && fail "the report says more than it can know"
	true
}

stop_children_but() { # PARENT NAME SIGNAL
	local pid
	for pid in $(cat "/proc/$1/task/$1/children"); do
		[ "$(cat "/proc/$pid/comm")" = "$2" ] || kill "-$3" "$pid"
	done
}

it_survives_a_full_memory_file_system() {
	[ "$(id -u)" = 0 ] || skip "mounting needs root"
	mkdir full
	mount -t tmpfs -o size=12m tmpfs full 2>/dev/null || skip "tmpfs cannot be mounted here"
	head -c 3000000 /dev/zero >full/fill
	XDG_RUNTIME_DIR=$PWD/full E2E_JOURNAL=$PWD/journal \
		bounded "$custody" record -o t.db -- "$clients/flood" 200000 </dev/null >out 2>err
	local status=$? copies lost
	umount full || umount -l full
	expect_equal "status" 0 "$status"
	copies=$(query t.db "SELECT count(*) FROM transfer")
	lost=$(query t.db "SELECT coalesce(sum(count), 0) FROM gap")
	expect_equal "recorded and lost together" 200000 $((copies + lost))
}

it_passes_over_a_memory_file_system_without_room() {
	[ "$(id -u)" = 0 ] || skip "mounting needs root"
	mkdir full
	mount -t tmpfs -o size=64k tmpfs full 2>/dev/null || skip "tmpfs cannot be mounted here"
	XDG_RUNTIME_DIR=$PWD/full E2E_JOURNAL=$PWD/journal record -o t.db -- $(client) || true
	umount full || umount -l full
	expect_equal "copies" 25 "$(query t.db "SELECT count(*) FROM transfer")"
}

# ------------------------------------------------------------------ sessions

it_keeps_sessions_to_their_owner() {
	hold "$custody" record -q -o t.db -- "$clients/ends" wait
	expect_equal "mode of the session" 700 "$(stat -c %a "$XDG_RUNTIME_DIR"/custody-*)"
	let_go
	expect_status 0 wait "$held"
	expect_no_session
}

it_works_without_a_runtime_directory() {
	E2E_JOURNAL=$PWD/journal bounded env -u XDG_RUNTIME_DIR "$custody" record -q -o t.db -- \
		$(client)
	expect_equal "copies" 25 "$(query t.db "SELECT count(*) FROM transfer")"
}

it_works_where_the_runtime_directory_is_gone() {
	XDG_RUNTIME_DIR=$PWD/gone record -o t.db -- $(client)
	expect_equal "copies" 25 "$(query t.db "SELECT count(*) FROM transfer")"
}

run_behaviours "${1:-}"
