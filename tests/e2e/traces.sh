#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Traces that are no good: one sentence, exit status 1, never a crash.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

verbs='report sql merge'

ask() { # VERB TRACE
	case $1 in
	report) bounded "$custody" report "$2" ;;
	json) bounded "$custody" report --format=json "$2" ;;
	merge) bounded "$custody" merge -q -f -o merged.db "$2" ;;
	sql) bounded "$custody" sql "$2" "SELECT count(*) FROM allocation" ;;
	esac
}

refused() { # PATTERN TRACE
	local verb
	for verb in $verbs; do
		expect_status 1 ask "$verb" "$2" >out 2>err
		expect_empty "output of $verb" out
		expect_equal "lines that $verb says" 1 "$(wc -l <err)"
		expect_match "what $verb says" "$1" "$(cat err)"
		expect_match "whom $verb names" "${2##*/}" "$(cat err)"
	done
}

make_trace() { # FILE
	record -o "$1" -- "$clients/reuse" 2 300 >/dev/null
}

it_refuses_a_file_that_is_not_there() {
	refused 'no such file|does not exist|not there' "$PWD/missing.db"
}

it_refuses_a_file_that_is_no_database() {
	echo 'this is a text and by no means a database, however long it may grow' >t.db
	refused 'not a|no ' "$PWD/t.db"
}

it_refuses_an_empty_file() {
	: >t.db
	refused . "$PWD/t.db"
}

it_refuses_a_database_of_somebody_else() {
	[ -n "$PYTHON3" ] || skip "there is no python3"
	"$PYTHON3" -c 'import sqlite3; d = sqlite3.connect("t.db")
d.execute("CREATE TABLE allocation (id)"); d.commit()' || skip "python3 has no sqlite3"
	refused 'not a' "$PWD/t.db"
}

it_refuses_a_trace_from_a_newer_version() {
	make_trace t.db
	# user_version stands in bytes 60 to 63 of the file, big end first.
	printf '\0\0\0\143' | dd of=t.db bs=1 seek=60 conv=notrunc status=none
	refused 'newer|version' "$PWD/t.db"
}

it_refuses_a_truncated_trace() {
	make_trace whole.db
	local size
	size=$(stat -c %s whole.db)
	head -c $((size / 2)) whole.db >t.db
	refused . "$PWD/t.db"
	head -c 100 whole.db >t.db
	refused . "$PWD/t.db"
	head -c 10 whole.db >t.db
	refused . "$PWD/t.db"
}

it_refuses_a_directory_that_is_no_session() {
	mkdir t.db
	refused . "$PWD/t.db"
	echo x >t.db/y
	refused . "$PWD/t.db"
}

# Damage somewhere inside may go unseen or be told; it may not crash or hang.
it_never_crashes_on_a_corrupt_trace() {
	make_trace whole.db
	local size round verb status
	size=$(stat -c %s whole.db)
	for round in $(seq 1 25); do
		cp whole.db t.db
		damage t.db "$size" $((round % 5 + 1))
		for verb in report json sql merge; do
			status=0
			ask "$verb" t.db >out 2>err || status=$?
			[ "$status" -le 1 ] || fail "$round, $verb: status $status: $(cat err)"
			[ "$status" = 0 ] || [ "$(wc -l <err)" = 1 ] ||
				fail "$round, $verb: more than one sentence: $(cat err)"
		done
	done
}

damage() { # FILE SIZE PLACES
	local place
	for ((place = 0; place < $3; place++)); do
		head -c $((RANDOM % 600 + 1)) /dev/urandom |
			dd of="$1" bs=1 seek=$(((RANDOM * 32768 + RANDOM) % $2)) conv=notrunc \
				status=none
	done
	truncate -s "$2" "$1"
}

it_opens_a_trace_that_cannot_be_written() {
	make_trace t.db
	chmod 444 t.db
	expect_equal "copies" 600 "$(query t.db "SELECT count(*) FROM transfer")"
	ask report t.db >/dev/null
}

it_changes_nothing_in_a_trace_that_it_reads() {
	make_trace t.db
	local before
	before=$(cksum <t.db)
	ask report t.db >/dev/null
	query t.db "SELECT count(*) FROM transfer" >/dev/null
	expect_status 1 "$custody" sql t.db "DELETE FROM transfer" 2>err
	expect_status 1 "$custody" sql t.db "CREATE TABLE x (y)" 2>>err
	expect_status 1 "$custody" sql t.db "ATTACH 'other.db' AS other" 2>>err
	expect_status 1 "$custody" sql t.db "PRAGMA user_version = 9" 2>>err
	expect_equal "sentences" 4 "$(wc -l <err)"
	expect_equal "contents" "$before" "$(cksum <t.db)"
	expect_equal "files" "err t.db" "$(ls | paste -sd' ')"
}

run_behaviours "${1:-}"
