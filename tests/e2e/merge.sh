#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs that were recorded apart, in one file: what all of them did is what it says.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

mib=$((1 << 20)) copy=$((1 << 16))

# Several ranks that hold their blocks at one time: each is recorded by itself.
start_rank() { # RANK MEBIBYTES COPIES [OPTIONS]
	RANK=$1 record ${4:-} -o 'rank.%q{RANK}.db' -- "$clients/rank" $(($2 * mib)) "$3" \
		<gate >ready.$1 2>>err 7>&- &
}

all_ready() { # COUNT
	[ "$(cat ready.* 2>/dev/null | grep -c ready)" = "$1" ]
}

run_ranks() {
	mkfifo gate
	exec 7<>gate
	start_rank 0 100 3
	start_rank 1 60 5 --frees=nowait
	wait_until 30 all_ready 2 || fail "not all ranks came up: $(cat err)"
	# The ranks see the end of their input when nobody holds the other end any more.
	exec 7>&-
	wait
	rm gate
	[ -f rank.0.db ] && [ -f rank.1.db ] || fail "not all ranks left a trace: $(cat err)"
}

json() { # TRACE PATH
	"$custody" report --format=json "$1" | "$PYTHON3" -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
print(value)' "$2"
}

peak_of() { # TRACE PROCESS DEVICE
	query "$1" "SELECT bytes FROM peak WHERE process_id IS $2 AND device_id IS $3"
}

it_shows_ranks_that_ran_together_as_one_whole() {
	run_ranks
	"$custody" merge -o run.db rank.*.db 2>say
	expect_match "what it says" '2 traces in run.db' "$(cat say)"
	expect_equal "peak" $((160 * mib)) "$(peak_of run.db NULL NULL)"
	expect_equal "peak of rank 0" $((100 * mib)) "$(peak_of run.db 1 NULL)"
	expect_equal "peak of rank 1" $((60 * mib)) "$(peak_of run.db 2 NULL)"
	expect_equal "copies" "8 $((8 * copy))" "$(query run.db "
		SELECT count(*) || ' ' || sum(bytes) FROM transfer WHERE kind = 'H2D'")"
	expect_equal "sums of copies" "8 $((8 * copy))" "$(query run.db "
		SELECT sum(count) || ' ' || sum(bytes) FROM transfer_by_kind WHERE kind = 'H2D'")"
	expect_equal "copies of rank 1" 5 "$(query run.db "
		SELECT count(*) FROM transfer t JOIN process p ON p.id = t.process_id
		JOIN source s ON s.id = p.source_id WHERE s.path = 'rank.1.db'")"
	expect_equal "copies that hit their block" 8 "$(query run.db "
		SELECT count(*) FROM transfer t JOIN allocation a ON a.id = t.target_allocation_id
		WHERE a.process_id = t.process_id AND a.address = t.target_address")"
	expect_equal "leaks" "1 777,2 777" "$(query run.db "
		SELECT process_id || ' ' || bytes FROM leak ORDER BY 1" | paste -sd,)"
	expect_equal "calls" 4 "$(query run.db "
		SELECT sum(calls) FROM api_total WHERE name = 'cuMemAlloc_v2'")"
	expect_equal "policies" deferred,nowait "$(query run.db "
		SELECT policy FROM process ORDER BY id" | paste -sd,)"
	# One boot, one clock.
	expect_equal "moved" 0,0 "$(query run.db "SELECT moved_ns FROM source" | paste -sd,)"
	expect_equal "times" "$(query rank.1.db "SELECT start_ns FROM process")" \
		"$(query run.db "SELECT start_ns FROM process WHERE id = 2")"
}

it_shows_their_device_once() {
	[ -n "$PYTHON3" ] || skip "there is no python3"
	run_ranks
	"$custody" merge -q -o run.db rank.0.db rank.1.db
	expect_equal "processes on it" 2 "$(json run.db physical_devices.0.processes)"
	expect_equal "its peak" $((160 * mib)) "$(json run.db physical_devices.0.peak_bytes)"
	expect_equal "peak of the report" $((160 * mib)) "$(json run.db memory.peak_bytes)"
	expect_equal "live at exit" $((2 * 777)) "$(json run.db memory.live_at_exit_bytes)"
}

# The same in one recording: the collector adds up as it goes.
it_shows_a_device_of_two_processes_of_one_recording_once() {
	mkfifo gate
	exec 7<>gate
	record -o t.db -- sh -c "'$clients/rank' $((100 * mib)) 1 <gate >ready.0 &
		'$clients/rank' $((60 * mib)) 1 <gate >ready.1 & wait" 2>err 7>&- &
	wait_until 30 all_ready 2 || fail "not all ranks came up: $(cat err)"
	exec 7>&-
	wait
	expect_equal "peak" $((160 * mib)) "$(peak_of t.db NULL NULL)"
	expect_equal "physical devices" 1 "$(query t.db "
		SELECT count(DISTINCT physical_id) FROM physical_device")"
	expect_equal "its peak" $((160 * mib)) "$(query t.db "
		SELECT bytes FROM peak WHERE process_id IS NULL AND device_id IS NOT NULL")"
	expect_equal "live at its peak" $((160 * mib)) "$(query t.db "
		SELECT sum(bytes) FROM live_at_peak
		WHERE peak_process_id IS NULL AND peak_device_id IS NOT NULL")"
}

# A rank may be ready before its collector has begun the trace: then there is nothing
# to merge yet, which is said, and is asked again.
merge_waits() {
	grep -q "still being recorded" say && return
	kill -0 "$merge" 2>/dev/null || merge_rank
	return 1
}

merge_rank() {
	"$custody" merge -o run.db rank.0.db 2>say 7>&- &
	merge=$!
}

it_waits_for_a_trace_that_is_still_recorded() {
	mkfifo gate
	exec 7<>gate
	start_rank 0 10 1
	wait_until 30 all_ready 1 || fail "the rank did not come up: $(cat err)"
	merge_rank
	wait_until 20 merge_waits || fail "it does not wait: $(cat say)"
	[ ! -e run.db ] || fail "there is a file already"
	exec 7>&-
	wait
	expect_equal "peak" $((10 * mib)) "$(peak_of run.db NULL NULL)"
	expect_equal "complete" 1 "$(query run.db "SELECT value FROM meta WHERE key = 'complete'")"
}

# What its collector had written when both were killed is a part like any other.
it_takes_a_trace_that_did_not_come_to_its_end() {
	record -o whole.db -- "$clients/rank" $((5 * mib)) 1 </dev/null >/dev/null
	cp whole.db part.db
	[ -n "$PYTHON3" ] || skip "there is no python3"
	"$PYTHON3" -c 'import sqlite3; d = sqlite3.connect("part.db")
d.executescript("UPDATE meta SET value = 0 WHERE key = \"complete\";"
                "INSERT INTO meta VALUES (\"session\", \"/nowhere\");"
                "UPDATE process SET pid = 1;"
                "DELETE FROM peak; DELETE FROM sample")' || skip "python3 has no sqlite3"
	"$custody" merge -o run.db whole.db part.db 2>say
	expect_match "what it says" 'part.db is incomplete' "$(cat say)"
	expect_equal "complete" 0 "$(query run.db "SELECT value FROM meta WHERE key = 'complete'")"
	"$custody" report run.db >out
	expect_match "the report" 'trace is incomplete' "$(cat out)"
	expect_match "the report" '10.0 MiB' "$(cat out)"
}

it_leaves_no_file_where_it_fails() {
	record -o t.db -- "$clients/rank" $((5 * mib)) 1 </dev/null >/dev/null
	head -c 20000 t.db >short.db
	expect_status 1 "$custody" merge -o run.db t.db short.db 2>err
	expect_status 1 "$custody" merge -o run.db t.db missing.db 2>>err
	expect_status 1 "$custody" merge -o t.db short.db 2>>err
	expect_status 2 "$custody" merge -f -o t.db t.db 2>>err
	expect_equal "sentences" 4 "$(wc -l <err)"
	expect_equal "files" "err short.db t.db" "$(ls | paste -sd' ')"
}

run_behaviours "${1:-}"
