#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Reports of real recordings: what the client did is what they say.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

json() { # PATH in the object of report --format=json, of t.db
	"$custody" report --format=json t.db | "$PYTHON3" -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
print(value)' "$1"
}

needs_python() {
	[ -n "$PYTHON3" ] || skip "there is no python3"
}

it_reports_peak_and_leaks_as_the_program_made_them() {
	needs_python
	local policy peak
	for policy in immediate deferred nowait; do
		record -f --frees=$policy -o t.db -- "$clients/cover_memory" >out
		peak=$(sed -n 's/^peak //p' out)
		expect_equal "peak, $policy" "$peak" "$(json memory.peak_bytes)"
		expect_equal "live at exit, $policy" 777 "$(json memory.live_at_exit_bytes)"
		expect_equal "peak by SQL, $policy" "$peak" "$(query t.db "
			SELECT bytes FROM peak WHERE process_id IS NULL AND device_id IS NULL")"
		expect_equal "leaks, $policy" 777 "$(query t.db "SELECT sum(bytes) FROM leak")"
		expect_equal "live at the peak, $policy" "$peak" "$(query t.db "
			SELECT sum(bytes) FROM live_at_peak
				WHERE peak_process_id IS NULL AND peak_device_id IS NULL")"
		[ "$(json memory.held_peak_bytes)" -ge "$peak" ] || fail "less was held than lived"
	done
	# What is pending comes on top.
	[ "$(json memory.held_peak_bytes)" -gt "$peak" ] || fail "nothing was pending under nowait"
}

it_reports_transfers_as_the_program_made_them() {
	needs_python
	E2E_JOURNAL=$PWD/journal record -o t.db -- "$clients/cover_copy"
	local kind
	for kind in H2D D2H D2D H2H MEMSET PREFETCH; do
		# A copy that failed was a call, but moved nothing.
		awk -v kind=$kind '$1 == "transfer" && $2 == kind { n++; if (!$NF) bytes += $3 }
			END { print n, bytes }' journal >expected
		"$custody" report --format=json t.db | "$PYTHON3" -c '
import json, sys
kinds = json.load(sys.stdin)["transfers"]["by_kind"]
row = kinds[sys.argv[1]] if isinstance(kinds, dict) else \
    next(k for k in kinds if k["kind"] == sys.argv[1])
print(row["count"], row["bytes"])' $kind >found
		expect_equal "$kind" "$(cat expected)" "$(cat found)"
	done
}

it_has_the_promised_parts_in_JSON() {
	needs_python
	record -o t.db -- "$clients/cover_stream"
	"$custody" report --format=json t.db | "$PYTHON3" -c '
import json, sys
report = json.load(sys.stdin)
wanted = {
    "memory": ["peak_bytes", "peak_at_ns", "live_at_exit_bytes", "allocations", "frees",
               "pending_peak_bytes", "by_kind", "by_module", "top", "leaks"],
    "transfers": ["by_kind", "by_size", "top"],
    "frees": ["policy", "flushes", "longest_flush_ns", "waited_ns"],
    "process": [], "failures": [], "advice": [],
}
for part, keys in wanted.items():
    assert part in report, part
    for key in keys:
        assert key in report[part], (part, key)'
}

it_tells_the_limits_of_what_may_be_pending() {
	local options="SELECT value FROM meta WHERE key = 'options'"
	record --frees=immediate -o t.db -- "$clients/cover_stream"
	expect_equal "immediate" "frees=immediate children=all" "$(query t.db "$options")"
	NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT=7 CUSTODY_MEMINFO=driver record -f --frees=deferred \
		-o t.db -- "$clients/cover_stream"
	expect_equal "deferred" "frees=deferred children=all max-pending=7 \
max-pending-ratio=0.2 meminfo=driver" "$(query t.db "$options")"
	record -f --frees=nowait --max-pending-ratio=.5 -o t.db -- "$clients/cover_stream"
	expect_equal "nowait" "frees=nowait children=all max-pending=10 \
max-pending-ratio=.5 meminfo=pending" "$(query t.db "$options")"
}

it_names_the_module_that_holds_the_memory() {
	needs_python
	record -o t.db -- "$clients/cover_memory" >/dev/null
	"$custody" report t.db >out
	expect_match "report" 'cover_memory' "$(cat out)"
	expect_equal "module of the caller" cover_memory "$(query t.db "
		SELECT DISTINCT replace(m.path, rtrim(m.path, replace(m.path, '/', '')), '')
		FROM allocation a JOIN module m ON a.caller >= m.base
			AND a.caller < m.base + m.size")"
}

it_prints_only_the_part_that_is_asked_for() {
	record -o t.db -- "$clients/cover_copy"
	local part
	for part in memory transfers leaks peak; do
		"$custody" report --$part t.db >"$part"
		[ -s "$part" ] || fail "--$part prints nothing"
		cmp -s "$part" all 2>/dev/null && fail "--$part prints everything"
	done
	cmp -s memory transfers && fail "two parts are the same"
	true
}

it_writes_no_colour_into_a_file() {
	record -o t.db -- "$clients/cover_copy"
	"$custody" report t.db >out
	grep -q $'\033' out && fail "there are escape sequences in a file"
	"$custody" --color=always report t.db >out 2>/dev/null ||
		"$custody" report --color=always t.db >out
	grep -q $'\033' out || fail "--color=always colours nothing"
	NO_COLOR=1 "$custody" report t.db >out
	grep -q $'\033' out && fail "NO_COLOR is not honoured"
	true
}

it_writes_the_report_into_a_file() {
	record -o t.db -- "$clients/cover_copy"
	"$custody" report -o report.txt t.db >out
	expect_empty "standard output" out
	"$custody" report t.db | diff - report.txt
}

it_sums_what_is_in_the_rows() {
	record -o t.db -- "$clients/reuse" 4 500 >/dev/null
	expect_equal "sums" "$(query t.db "SELECT sum(bytes) || ' ' || count(*) FROM transfer")" \
		"$(query t.db "SELECT sum(bytes) || ' ' || sum(count) FROM transfer_total")"
	expect_equal "calls that made records" "$(query t.db "
		SELECT count(*) FROM transfer")" "$(query t.db "
		SELECT sum(calls) FROM api_call c JOIN api ON api.id = c.api_id
		WHERE name = 'cuMemcpyHtoD_v2'")"
	expect_equal "integrity" ok "$(query t.db "PRAGMA integrity_check")"
	expect_equal "highest sample" \
		"$(query t.db "SELECT max(bytes) FROM peak")" \
		"$(query t.db "SELECT max(live_bytes) FROM sample WHERE kind = 'device'")"
}

it_keeps_time_on_one_clock() {
	local before after
	before=$(date +%s%N)
	record -o t.db -- "$clients/reuse" 2 500 >/dev/null
	after=$(date +%s%N)
	expect_equal "times outside the run, by the wall clock" 0 "$(query t.db "
		SELECT count(*) FROM transfer, (SELECT value AS offset FROM meta
			WHERE key = 'wall_offset_ns')
		WHERE start_ns + offset < $before OR start_ns + duration_ns + offset > $after")"
	expect_equal "blocks freed before they were there" 0 "$(query t.db "
		SELECT count(*) FROM allocation
		WHERE free_requested_ns < alloc_ns + alloc_duration_ns OR released_ns < alloc_ns")"
	expect_equal "copies outside the life of their block" 0 "$(query t.db "
		SELECT count(*) FROM transfer t JOIN allocation a ON a.id = t.target_allocation_id
		WHERE t.start_ns < a.alloc_ns OR t.start_ns > a.free_requested_ns")"
}

run_behaviours "${1:-}"
