#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# GPU times on the simulated driver, with a CUPTI that stands in for NVIDIA's:
# what devices did is joined to the calls, and the program's own use of CUPTI goes
# before ours.
# shellcheck source=tests/e2e/harness.sh
. "$(dirname "$0")/harness.sh"

fake=$top_builddir/tests/support/fake
CUSTODY_CUPTI=$fake/libcupti.so.13
FAKE_CUPTI_LOG=log
export CUSTODY_CUPTI FAKE_CUPTI_LOG

record_times() { # TRACE PROGRAM...
	local trace=$1
	shift
	bounded "$custody" record -q --gpu-times -o "$trace" -- "$@" >out 2>err
}

# Each transfer that a device did has times, and they lie behind the call's start.
expect_all_joined() { # TRACE [CONDITION]
	expect_equal "transfers without GPU times" 0 "$(query "$1" "SELECT count(*) FROM transfer
		WHERE NOT is_captured AND NOT result AND kind <> 'PREFETCH'
		AND gpu_start_ns IS NULL AND ${2:-1}")"
	expect_equal "work without a call" 0 "$(query "$1" "SELECT count(*) FROM gpu_work
		WHERE kind IN ('copy', 'memset') AND transfer_id IS NULL")"
	expect_equal "work ahead of its call" 0 "$(query "$1" "SELECT count(*) FROM transfer
		WHERE gpu_start_ns < start_ns - 1000 AND ${2:-1}")"
}

it_joins_what_the_device_did_to_every_transfer() {
	SIMCUDA_COPY_US=200 record_times t.db "$clients/gpu_work"
	expect_empty "standard error" err
	expect_all_joined t.db
	expect_equal "copies" 1 "$(query t.db "
		SELECT min(gpu_duration_ns) >= 190000 FROM transfer
		 WHERE bytes BETWEEN 1000 AND 5000")"
	expect_equal "subscribed as" "subscribe custody" "$(grep subscribe log)"
	expect_equal "begin and end" "1||0" "$(query t.db "SELECT (start_ns > 0) || '|' ||
		coalesce(why, '') || '|' || lost FROM gpu_times")"
}

# CUPTI tells of the three as of one copy, of the kind of the first.
it_divides_the_time_of_a_batch_by_bytes() {
	SIMCUDA_COPY_GBPS=0.001 record_times t.db "$clients/gpu_work"
	expect_equal "shares of 100" "9 27 63 1" "$(query t.db "
		SELECT group_concat(share, ' ') || ' ' || min(ns >= 1100000)
		FROM (SELECT gpu_duration_ns * 100 / sum(gpu_duration_ns) OVER () AS share,
			sum(gpu_duration_ns) OVER () AS ns FROM transfer t
			JOIN api a ON a.id = t.api_id
			WHERE a.name LIKE 'cuMemcpyBatch%' ORDER BY t.bytes)")"
}

it_sums_the_work_of_each_launch_of_a_graph() {
	SIMCUDA_COPY_GBPS=0.0001 record_times t.db "$clients/gpu_work"
	expect_equal "launches" "3 3 3" "$(query t.db "SELECT group_concat(n, ' ') FROM (
		SELECT count(gpu_start_ns) AS n FROM transfer t JOIN api a ON a.id = t.api_id
		WHERE a.name = 'cuGraphLaunch' GROUP BY kind)")"
	expect_equal "330 us for 33 bytes" "1 1" "$(query t.db "
		SELECT group_concat(d, ' ') FROM (SELECT min(gpu_duration_ns) >= 330000 AS d
		FROM transfer t JOIN api a ON a.id = t.api_id
		WHERE a.name = 'cuGraphLaunch' AND kind <> 'MEMSET'
		GROUP BY kind)")"
}

it_counts_kernels_and_migrations() {
	SIMCUDA_KERNEL_US=100 record_times t.db "$clients/gpu_work"
	expect_equal "kernels" "_Z5oftenPfS_i 8
once 1" "$(query t.db "SELECT name || ' ' || count(*) FROM gpu_work WHERE kind = 'kernel'
		GROUP BY name ORDER BY 1")"
	expect_equal "migrations" "H2D 2 7000" "$(query t.db "
		SELECT direction || ' ' || count || ' ' || bytes FROM gpu_work
		WHERE kind = 'migration'")"
	"$custody" report t.db >report
	expect_match "kernels" '9 launches' "$(cat report)"
	expect_match "the name of a kernel" '^ +often +8 ' "$(cat report)"
	expect_match "migrations" '^ +H2D +2 +6.84 KiB' "$(cat report)"
}

it_reports_rates_by_direction_and_host_memory() {
	SIMCUDA_COPY_GBPS=0.001 record_times t.db "$clients/gpu_work"
	"$custody" report --format=json t.db >report.json
	"$PYTHON3" - <<'EOF' || fail "$(cat report.json)"
import json
rows = {(r["kind"], r.get("host_memory")): r
        for r in json.load(open("report.json"))["transfers"]["gpu"]}
for key, count, size in ((("H2D", "pageable"), 1, 1000), (("D2H", "pageable"), 1, 4000),
                         (("D2H", "pinned"), 4, 3000 + 3 * 33)):
    row = rows[key]
    assert row["count"] == count and row["bytes"] == size, row
    assert 0 < row["bytes_per_second"] <= 1e6, row
assert rows[("H2D", "pinned")]["bytes"] == 2000 + 100 + 300 + 3 * 33, rows
kernels = json.load(open("report.json"))["kernels"]
assert kernels["count"] == 9 and len(kernels["top"]) == 2, kernels
EOF
}

it_asks_CUPTI_for_nothing_unless_it_is_told_to() {
	record -o t.db -- "$clients/gpu_work"
	[ ! -e log ] || fail "CUPTI was asked: $(cat log)"
	expect_equal "rows" 0 "$(query t.db "SELECT (SELECT count(*) FROM gpu_times) +
		(SELECT count(*) FROM gpu_work)")"
	"$custody" report t.db | grep -iq 'device time\|KERNELS' &&
		fail "a report without GPU times tells of some"
	CUSTODY_GPU_TIMES=1 record -o u.db -- "$clients/gpu_work"
	expect_all_joined u.db
}

it_records_calls_of_few_functions_only() {
	record_times t.db "$clients/gpu_work"
	grep -q 'record cuLaunchKernel$' log && grep -q 'record cuMemcpyHtoDAsync_v2$' log &&
		grep -q 'record cuGraphLaunch_ptsz$' log || fail "$(cat log)"
	grep -Ev '^record cu(Mem(cpy|set)|Launch|GraphLaunch)' log | grep record &&
		fail "more functions than these are recorded"
	grep -q 'enable 4$' log && fail "all functions are recorded"
	true
}

it_says_in_one_sentence_that_there_is_no_CUPTI() {
	CUSTODY_CUPTI=/nowhere/libcupti.so.13 record_times t.db "$clients/gpu_work"
	expect_match "standard error" '^custody: GPU times are not recorded: /nowhere' "$(cat err)"
	expect_equal "lines" 1 "$(wc -l <err)"
	expect_equal "transfers" 1 "$(query t.db "SELECT count(*) > 10 FROM transfer")"
	expect_match "report" 'has no GPU times: /nowhere' \
		"$("$custody" report t.db | tr -s ' \n' ' ')"
}

it_names_who_has_CUPTI() {
	FAKE_CUPTI_HOLDER='CUPTI for nsight' record_times t.db "$clients/gpu_work"
	expect_equal "standard error" \
		"custody: GPU times are not recorded: CUPTI is taken by CUPTI for nsight" \
		"$(cat err)"
	grep -q enable log && fail "something was enabled all the same"
	expect_equal "GPU times" 0 "$(query t.db "SELECT count(*) FROM gpu_work")"
}

it_goes_on_without_what_CUPTI_refuses() {
	FAKE_CUPTI_REFUSE=25 record_times t.db "$clients/gpu_work"
	expect_empty "standard error" err
	expect_all_joined t.db
	rm log
	FAKE_CUPTI_REFUSE=10 record_times u.db "$clients/gpu_work"
	expect_match "standard error" 'CUPTI refuses \(10\)' "$(cat err)"
	expect_equal "and gives the slot back" 1 "$(grep -c unsubscribe log)"
}

# A profiler of the program's own: the same for it as without us, and what we say.
check_giving_way() { # CLIENT
	LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$fake
	"$1" profile >bare
	expect_equal "bare" "subscribed: 0 profiled: 2" "$(tr '\n' ' ' <bare | sed 's/ $//')"
	rm log
	record_times t.db "$1" profile
	diff bare out || fail "the program's profiler fares otherwise"
	expect_equal "standard error" \
		"custody: GPU times end here: the program uses CUPTI itself" "$(cat err)"
	expect_equal "order" "subscribe custody,unsubscribe,subscribe <not provided>," \
		"$(grep subscribe log | sed 's/ $//' | tr '\n' ',')"
	expect_all_joined t.db "bytes <> 8000"
	expect_equal "its own copies" "2 0" "$(query t.db "
		SELECT count(*) || ' ' || count(gpu_start_ns) FROM transfer WHERE bytes = 8000")"
	expect_match "report" 'to a point: the program uses CUPTI' \
		"$("$custody" report t.db | tr -s ' \n' ' ')"
}

it_gives_way_to_a_program_that_looks_CUPTI_up() {
	check_giving_way "$clients/gpu_work"
}

# The copy that is mapped counts, so what CUSTODY_CUPTI names is not opened.
it_gives_way_to_a_program_that_is_linked_with_CUPTI() {
	CUSTODY_CUPTI=/nowhere
	check_giving_way "$clients/gpu_work_linked"
}

it_leaves_CUPTI_to_a_program_that_came_first() {
	LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$fake
	record_times t.db "$clients/gpu_work_linked" early
	expect_match "standard error" 'not recorded: CUPTI is taken by CUPTI for <not provided>$' \
		"$(cat err)"
	expect_match "its profiler" 'profiled: [0-9]{2}' "$(cat out)"
}

# Its constructor runs, with the loader's lock, while we load it.
it_gives_way_while_CUPTI_is_being_loaded() {
	E2E_LIMIT=20 FAKE_CUPTI_EAGER=$preload record_times t.db "$clients/gpu_work"
	expect_equal "standard error" \
		"custody: GPU times are not recorded: the program uses CUPTI itself" "$(cat err)"
	expect_equal "who has it" "subscribe <not provided>" "$(grep subscribe log)"
	expect_equal "GPU times" 0 "$(query t.db "SELECT count(*) FROM gpu_work")"
}

it_changes_nothing_for_profilers_where_it_is_off() {
	LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$fake
	local client
	for client in gpu_work gpu_work_linked; do
		record -f -o t.db -- "$clients/$client" profile >out 2>err
		expect_equal "$client" "subscribed: 0 profiled: 2" \
			"$(tr '\n' ' ' <out | sed 's/ $//')"
		expect_empty "standard error" err
	done
}

it_joins_calls_that_CUPTI_tells_of_late() {
	FAKE_CUPTI_LATE=1 record_times t.db "$clients/gpu_work"
	expect_all_joined t.db
}

# All functions are recorded then, and times come on another clock.
it_makes_do_with_an_older_CUPTI() {
	CUSTODY_CUPTI=$top_builddir/tests/support/fake_old/libcupti.so.12 \
		record_times t.db "$clients/gpu_work"
	expect_empty "standard error" err
	expect_equal "subscribed as" "subscribe <not provided>" "$(grep subscribe log)"
	grep -q 'enable 4$' log || fail "the calls are not recorded: $(cat log)"
	expect_equal "transfers without GPU times" 0 "$(query t.db "SELECT count(*) FROM transfer
		WHERE NOT is_captured AND gpu_start_ns IS NULL")"
	expect_equal "work of another time" 0 "$(query t.db "
		SELECT count(*) FROM gpu_work w JOIN process p ON p.id = w.process_id
		WHERE w.start_ns NOT BETWEEN p.start_ns - 1000000 AND p.end_ns + 1000000")"
}

it_leaves_CUPTI_to_the_parent_in_a_child_of_fork() {
	E2E_LIMIT=20 record_times t.db "$clients/gpu_work" fork
	expect_empty "standard error" err
	expect_all_joined t.db
	expect_equal "flushes" 1 "$(grep -c '^flush 1' log)"
}

collector_of() { # PID of custody record: its collector is its child that is not the program
	local pid
	for pid in $(cat "/proc/$1/task/$1/children"); do
		grep -q gpu_work "/proc/$pid/comm" || echo "$pid"
	done
}

# What was told of before is in the file; what comes later finds its transfers.
it_goes_on_where_a_collector_has_died() {
	"$PYTHON3" -c 'import sqlite3' 2>/dev/null || skip "there is no python3 with sqlite3"
	hold "$custody" record -q --gpu-times -o t.db -- "$clients/gpu_work" hold
	wait_until 10 has_rows t.db || fail "no rows before the collector died"
	kill -KILL "$(collector_of "$held")"
	let_go
	expect_status 0 wait "$held"
	expect_all_joined t.db
	expect_equal "kernels" "_Z5oftenPfS_i 8
once 1" "$(query t.db "SELECT name || ' ' || count(*) FROM gpu_work WHERE kind = 'kernel'
		GROUP BY name ORDER BY 1")"
	expect_equal "kinds of work that stand there twice" 0 "$(query t.db "
		SELECT count(*) - count(DISTINCT kind || coalesce(name, '')) FROM gpu_work_site")"
	expect_equal "sums" "$(query t.db "SELECT sum(count) FROM gpu_work")" \
		"$(query t.db "SELECT sum(count) FROM gpu_total")"
}

# A trace that is being written: custody itself would wait for it.
has_rows() { # TRACE
	"$PYTHON3" - "$1" 2>/dev/null <<'EOF'
import sqlite3
import sys
trace = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
for table in "transfer_gpu", "gpu_work_row":
    assert trace.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 5
EOF
}

it_keeps_the_times_of_each_process_of_a_merged_trace() {
	record_times t.db "$clients/gpu_work"
	record_times u.db "$clients/gpu_work"
	"$custody" merge -o m.db t.db u.db >out 2>err || fail "$(cat out err)"
	expect_all_joined m.db
	expect_equal "work" "$(query t.db "SELECT 2 * count(*) FROM gpu_work")" \
		"$(query m.db "SELECT count(*) FROM gpu_work")"
	expect_equal "sums" "$(query t.db "SELECT 2 * sum(count) FROM gpu_total")" \
		"$(query m.db "SELECT sum(count) FROM gpu_total")"
}

run_behaviours "${1:-}"
