#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The ways in which programs end, fork and turn into others.  The client notes a
# line "image COPIES" for each process that copies; the trace must have a row for
# each, with that many copies.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

run_end() { # STATUS HOW...
	local status=$1
	shift
	E2E_JOURNAL=$PWD/journal expect_status "$status" record -o t.db -- "$clients/ends" "$@"
}

copies_per_process="
	SELECT 'image ' || count(t.id) FROM process p
	LEFT JOIN transfer t ON t.process_id = p.id GROUP BY p.id"

compare_images() { # TRACE...
	local trace
	for trace in "$@"; do
		query "$trace" "$copies_per_process"
	done | sort >found
	sort journal >expected
	diff expected found || fail "the trace does not hold every process with its calls"
	for trace in "$@"; do
		expect_equal "lost records" 0 "$(query "$trace" "SELECT count(*) FROM gap")"
		expect_equal "complete" 1 \
			"$(query "$trace" "SELECT value FROM meta WHERE key = 'complete'")"
	done
	expect_no_session
}

ended() { # TRACE: how its processes ended, "status/signal"
	query "$1" "SELECT coalesce(exit_status, '-') || '/' || coalesce(exit_signal, '-')
		FROM process ORDER BY id" | paste -sd' '
}

# The same end under a bare preload: the traces appear beside the program.
run_end_bare() { # STATUS HOW...
	local status=$1
	shift
	E2E_JOURNAL=$PWD/journal LD_PRELOAD=$preload \
		expect_status "$status" bounded "$clients/ends" "$@"
}

bare_traces() {
	wait_for_trace 'custody.*.db' | sort -u
}

# ---------------------------------------------------------------- one process

it_keeps_the_trace_of_a_program_that_exits() {
	run_end 0 exit
	compare_images t.db
	expect_equal "end" 0/- "$(ended t.db)"
}

it_keeps_an_exit_status() {
	run_end 3 exit 3
	compare_images t.db
	expect_equal "end" 3/- "$(ended t.db)"
}

it_keeps_the_trace_of_a_program_that_calls__exit() {
	run_end 7 _exit 7
	compare_images t.db
}

it_keeps_the_trace_of_a_program_that_aborts() {
	run_end 134 abort
	compare_images t.db
	expect_equal "end" -/6 "$(ended t.db)"
}

it_keeps_the_trace_of_a_program_that_is_killed() {
	run_end 137 kill
	compare_images t.db
	expect_equal "end" -/9 "$(ended t.db)"
}

it_keeps_the_trace_of_a_program_that_crashes() {
	plain_build_only
	run_end 139 segv
	compare_images t.db
}

it_keeps_the_trace_of_a_program_that_closes_every_descriptor() {
	run_end 0 close-all
	compare_images t.db
}

it_keeps_calls_made_by_exit_handlers() {
	run_end 0 atexit
	compare_images t.db
}

it_keeps_calls_made_by_destructors() {
	run_end 0 destructor
	compare_images t.db
}

it_keeps_calls_made_while_the_data_of_a_thread_is_destroyed() {
	run_end 0 thread-data
	compare_images t.db
}

it_keeps_counts_of_threads_that_never_ended() {
	run_end 0 pending-counters
	compare_images t.db
	expect_equal "queries" 1000 "$(query t.db "SELECT sum(calls) FROM api_call c
		JOIN api ON api.id = c.api_id WHERE name = 'cuCtxGetCurrent'")"
}

it_keeps_counts_of_threads_that_come_and_go() {
	run_end 0 threads
	compare_images t.db
	expect_equal "queries" 256 "$(query t.db "SELECT sum(calls) FROM api_call c
		JOIN api ON api.id = c.api_id WHERE name = 'cuCtxGetCurrent'")"
	expect_equal "threads" 65 "$(query t.db "SELECT count(*) FROM thread")"
}

# ------------------------------------------------------------- turning into others

it_records_both_images_when_one_CUDA_program_turns_into_another() {
	run_end 0 exec "$clients/ends" exit
	compare_images t.db
	expect_equal "images" "0 1" \
		"$(query t.db "SELECT exec_serial FROM process ORDER BY id" | paste -sd' ')"
	expect_equal "pids" 1 "$(query t.db "SELECT count(DISTINCT pid) FROM process")"
}

it_keeps_the_first_image_when_a_program_turns_into_one_without_CUDA() {
	plain_build_only
	run_end 0 exec /bin/true
	compare_images t.db
}

it_goes_on_when_exec_fails() {
	run_end 0 exec-fails
	compare_images t.db
}

it_records_a_program_started_by_vfork_and_exec() {
	run_end 0 vfork-exec "$clients/ends" exit
	compare_images t.db
}

it_records_a_program_started_by_a_shell() {
	plain_build_only
	E2E_JOURNAL=$PWD/journal record -o t.db -- \
		/bin/sh -c "'$clients/ends' exit; '$clients/ends' _exit; exit 5" || status=$?
	expect_equal "status" 5 "$status"
	compare_images t.db
}

# ------------------------------------------------------------------- fork

has_parent() { # TRACE COPIES: the process with that many copies has a traced parent
	query "$1" "SELECT count(*) FROM process p JOIN process q ON q.id = p.parent_id
		WHERE q.pid = p.parent_pid
		AND (SELECT count(*) FROM transfer t WHERE t.process_id = p.id) = $2"
}

it_records_a_child_forked_before_CUDA_started() {
	run_end 0 fork-before
	compare_images t.db
}

it_records_the_calls_of_a_child_forked_after_CUDA_started() {
	run_end 0 fork-after
	compare_images t.db
	expect_equal "children with a parent" 1 "$(has_parent t.db 7)"
	expect_equal "blocks of the child" 0 "$(query t.db "
		SELECT count(*) FROM allocation a JOIN process p ON p.id = a.process_id
		WHERE p.parent_id IS NOT NULL")"
}

it_keeps_parent_and_child_apart_when_both_go_on() {
	run_end 0 fork-both
	compare_images t.db
}

it_records_children_forked_while_other_threads_go_on() {
	run_end 0 fork-threads
	compare_images t.db
}

it_records_a_child_made_by_a_raw_system_call() {
	run_end 0 fork-raw
	query t.db "$copies_per_process" | sort >found
	printf 'image %d\n' 50 9 | sort >expected
	diff expected found || fail "the raw child was not told apart"
	expect_equal "children with a parent" 1 "$(has_parent t.db 9)"
	expect_no_session
}

it_makes_no_row_for_a_child_that_calls_nothing() {
	run_end 0 fork-idle
	compare_images t.db
}

it_records_no_children_when_told_so() {
	E2E_JOURNAL=$PWD/journal record --children=none -o t.db -- "$clients/ends" fork-both
	expect_equal "processes" "image 2000" "$(query t.db "$copies_per_process")"
	rm t.db
	E2E_JOURNAL=$PWD/journal CUSTODY_CHILDREN=none record -o t.db -- "$clients/ends" fork-both
	expect_equal "processes" "image 2000" "$(query t.db "$copies_per_process")"
	expect_no_session
}

it_follows_the_program_through_exec_without_its_children() {
	E2E_JOURNAL=$PWD/journal record --children=none -o t.db -- \
		"$clients/ends" exec "$clients/ends" exit
	compare_images t.db
}

it_records_a_daemon_that_closed_everything() {
	E2E_JOURNAL=$PWD/journal bounded "$custody" record -o t.db -- "$clients/ends" daemon 2>err
	wait_for_trace t.db
	compare_images t.db
}

# Inside, the program is process 1, or a number that is somebody else outside.
it_records_a_program_in_a_name_space_of_its_own() {
	plain_build_only
	unshare -pf --mount-proc true 2>/dev/null || skip "unshare cannot make a name space here"
	E2E_JOURNAL=$PWD/journal record -o t.db -- unshare -pf --mount-proc \
		/bin/sh -c "'$clients/ends' exit; '$clients/ends' kill" || status=$?
	expect_equal "status" 137 "$status"
	compare_images t.db
}

it_records_a_program_in_a_name_space_that_takes_its_time() {
	plain_build_only
	unshare -pf --mount-proc true 2>/dev/null || skip "unshare cannot make a name space here"
	hold "$custody" record -q -o t.db -- unshare -pf --mount-proc "$clients/ends" wait
	sleep 1
	let_go
	expect_status 0 wait "$held"
	expect_equal "copies" 30 "$(query t.db "SELECT count(*) FROM transfer")"
	expect_equal "complete" 1 "$(query t.db "SELECT value FROM meta WHERE key = 'complete'")"
	expect_no_session
}

it_records_under_another_recording() {
	E2E_JOURNAL=$PWD/journal bounded "$custody" record -o outer.db -- \
		"$custody" record -q -o t.db -- "$clients/ends" exit 4 2>err || status=$?
	expect_equal "status" 4 "$status"
	[ ! -e outer.db ] || fail "the outer recording has something too"
	grep -q 'the program made none' err && fail "the outer recording tells an untruth"
	compare_images t.db
}

# ----------------------------------------------------------------- bare preload

it_leaves_a_trace_in_place_without_the_program_custody() {
	run_end_bare 0 exit
	compare_images $(bare_traces)
	expect_match "name" '^custody\.ends\.[0-9]+\.db$' "$(bare_traces)"
}

it_leaves_a_trace_when_a_bare_program_is_killed() {
	run_end_bare 137 kill
	compare_images $(bare_traces)
}

it_leaves_a_trace_when_a_bare_program_closes_every_descriptor() {
	run_end_bare 0 close-all
	compare_images $(bare_traces)
}

it_leaves_two_traces_when_a_bare_program_turns_into_another() {
	run_end_bare 0 exec "$clients/ends" exit
	wait_until 20 two_files || fail "there are not two traces: $(ls)"
	expect_match "second name" '\.2\.db$' "$(ls | sort | head -1)"
	compare_images $(bare_traces)
}

it_leaves_a_trace_of_a_bare_child_of_its_own() {
	run_end_bare 0 fork-after
	wait_until 20 two_files || fail "there are not two traces: $(ls)"
	compare_images $(bare_traces)
}

two_files() {
	[ "$(compgen -G 'custody.*.db' | wc -l)" = 2 ]
}

it_leaves_a_trace_of_a_bare_daemon() {
	run_end_bare 0 daemon
	compare_images $(bare_traces)
}

it_writes_into_no_file_that_the_program_opened_as_descriptor_2() {
	CUSTODY_BUFFER=plenty run_end_bare 0 own-descriptors
	expect_equal "file of the program" DATA "$(cat data.bin)"
	compare_images $(bare_traces)
	expect_equal "file of the program" DATA "$(cat data.bin)"
}

it_leaves_no_zombie_to_a_bare_program() {
	hold env LD_PRELOAD="$preload" "$clients/ends" wait
	expect_equal "children" "" "$(cat "/proc/$program/task/$program/children")"
	let_go
	expect_status 0 wait "$held"
	bare_traces >/dev/null
}

# -------------------------------------------------------------------- collectors

collector_of() { # PID of custody record: its collector is its child that is not the program
	local pid
	for pid in $(cat "/proc/$1/task/$1/children"); do
		case $(cat "/proc/$pid/comm") in
		ends | timeout) ;;
		*) echo "$pid" ;;
		esac
	done
}

it_replaces_a_collector_that_was_killed() {
	local collector
	hold "$custody" record -q -o t.db -- "$clients/ends" wait
	collector=$(collector_of "$held")
	[ -n "$collector" ] || fail "there is no collector"
	kill -KILL "$collector"
	let_go
	expect_status 0 wait "$held"
	expect_equal "copies" 30 "$(query t.db "SELECT count(*) FROM transfer")"
	expect_equal "blocks" 2 "$(query t.db "SELECT count(*) FROM allocation")"
	expect_equal "complete" 1 "$(query t.db "SELECT value FROM meta WHERE key = 'complete'")"
	expect_equal "lost records" 0 "$(query t.db "SELECT count(*) FROM gap")"
	expect_no_session
}

it_reads_what_killed_collectors_left_behind() {
	local session collector
	hold env CUSTODY_OUTPUT="$PWD/t.db" LD_PRELOAD="$preload" "$clients/ends" wait
	session=$(echo "$XDG_RUNTIME_DIR"/custody-*)
	[ -d "$session" ] || fail "there is no session"
	# Its successor goes on with the file only where the session names it.
	wait_until 10 grep -qs '^trace=.*/t\.db$' "$session/session" ||
		fail "the collector did not begin"
	collector=$(holder_of "$session/lock")
	[ -n "$collector" ] || fail "nobody holds the lock of the session"
	kill -KILL "$collector"
	let_go
	expect_status 0 wait "$held"
	bounded "$custody" report "$session" >report 2>err || fail "report: $(cat err)"
	expect_match "report" 'peak|Peak' "$(cat report)"
	wait_for_trace t.db
	expect_equal "copies" 30 "$(query t.db "SELECT count(*) FROM transfer")"
	expect_equal "blocks" 2 "$(query t.db "SELECT count(*) FROM allocation")"
	expect_no_session
}

it_keeps_recording_when_its_own_process_is_killed() {
	hold "$custody" record -q -o t.db -- "$clients/ends" wait
	kill -KILL "$held"
	let_go
	wait "$held" || true
	wait_until 20 gone "$program" || fail "the program did not end"
	wait_for_trace t.db
	expect_equal "copies" 30 "$(query t.db "SELECT count(*) FROM transfer")"
	expect_no_session
}

gone() { # PID
	! kill -0 "$1" 2>/dev/null
}

run_behaviours "${1:-}"
