#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ledgers: whatever kind of memory a program uses, the bands are what it used, and
# nothing is left over of what the simulated driver says is in use.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

MIB=$((1 << 20))
[ -n "$PYTHON3" ] || { echo "there is no python3"; exit 77; }

# Other processes have 100 MiB before there is a context.
export SIMCUDA_MEMORY=4G SIMCUDA_CONTEXT=300M SIMCUDA_OTHERS=100M
export CUSTODY_NVML=$top_builddir/tests/support/fake/libnvidia-ml.so.1

say_free() { # MIB
	echo "GPU-73696d75-6c61-7465-642d-6770752d0000 $(($1 * MIB))" >free
	export FAKE_NVML=$PWD/free
}

# "MOMENT BAND BYTES" of a trace, but empty bands and what rounding takes.
bands() { # TRACE
	"$custody" report --format=json "$1" | "$PYTHON3" -c '
import json, sys
for row in json.load(sys.stdin)["memory"]["ledger"]:
    for key, value in row.items():
        if key.endswith("_bytes") and value and key not in ("total_bytes", "rounding_bytes"):
            print(row["moment"], key[:-6], value)'
}

close_ledger() { # KIND [OPTION...]: t.db is its trace
	local kind=$1
	shift
	say_free $((4096 - 100))
	# The collector is in time: cuInit takes a while, as it does on hardware.
	SIMCUDA_DELAY=cuInit:700000 record -o t.db "${@:---frees=immediate}" -- \
		"$clients/ledger" "$kind" >out
	bands t.db | sort >found
	{
		grep -v '^used ' out | sed 's/^\(highest contexts\) .*/\1 2/'
		grep -q '^highest contexts' out || echo "highest contexts 1"
		echo "last contexts 1"
	} | awk -v context=$((300 * MIB)) '$2 == "contexts" { $3 *= context } { print }' >expected
	for moment in highest last; do
		echo "$moment other_processes $((100 * MIB))"
	done >>expected
	# What is pending counts as free for the program, and not for the driver.
	echo "highest used $(($(sed -n 's/^used //p' out) + ${hidden:-0} * MIB))" >>expected
	grep -v '^last used ' found >compared || true
	diff <(sort expected) compared || fail "the ledger of $kind is wrong"
	! grep unaccounted found || fail "something is left over"
}

it_closes_for_small_blocks() { close_ledger small; }
it_closes_for_large_blocks() { close_ledger large; }
it_closes_for_pools() { close_ledger pool; }
it_closes_for_blocks_that_outlive_their_pool() { close_ledger outlived; }
it_closes_for_virtual_memory() { close_ledger vmm; }
it_closes_for_arrays() { close_ledger array; }

it_gives_managed_memory_what_is_left() {
	SIMCUDA_MANAGED=2 close_ledger managed
	expect_match "report" 'managed, at most' "$("$custody" report t.db)"
}

# Nobody knows where it lies: on the host, or on the device.
it_takes_memory_of_a_managed_pool_for_managed() {
	close_ledger managed_pool
	SIMCUDA_MANAGED=2 close_ledger managed_pool -f --frees=immediate
	expect_equal "kind of the block" "managed $((10 * MIB))" "$(query t.db "
		SELECT kind || ' ' || bytes FROM allocation WHERE bytes = $((10 * MIB))")"
	# Its free waits for nothing, so it is not put off.
	record -f --frees=nowait -o t.db -- "$clients/ledger" managed_pool >out
	expect_equal "puts off" "0" "$(query t.db "
		SELECT count(free_waited_ns) FROM allocation WHERE kind = 'managed'")"
	[ "$(query t.db "SELECT count(free_waited_ns) FROM allocation")" -gt 0 ] ||
		fail "nothing is put off"
}

it_closes_for_graphs() {
	SIMCUDA_GRAPH=4M close_ledger graph
}

it_closes_for_code_loaded_at_once() {
	SIMCUDA_MODULE=8M close_ledger code
	expect_equal "rows of overhead" "code $((8 * MIB))" "$(query t.db "
		SELECT kind || ' ' || bytes FROM overhead WHERE kind <> 'context' AND bytes > 0")"
}

it_closes_for_code_loaded_at_its_first_launch() {
	SIMCUDA_MODULE=8M SIMCUDA_LAZY=1 close_ledger code
}

it_closes_for_streams() {
	SIMCUDA_STREAM=2M close_ledger streams
}

it_closes_for_several_contexts() {
	SIMCUDA_CONTEXT=300M close_ledger contexts
}

it_closes_while_frees_are_pending() {
	hidden=10 close_ledger pending --frees=nowait
}

# The second one comes and goes while the first stays where it uses most.
it_tells_processes_of_one_device_apart() {
	say_free $((4096 - 100))
	export SIMCUDA_SHARED=$PWD/free
	SIMCUDA_DELAY=cuInit:700000 record --frees=immediate -o t.db -- sh -c '
		LEDGER_HOLD_MS=4000 "$0" large &
		sleep 1.2
		"$0" vmm
		wait' "$clients/ledger" >out
	bands t.db >found
	! grep unaccounted found || fail "something is left over: $(cat found)"
	expect_equal "contexts" 4 "$(grep -c " contexts $((300 * MIB))" found)"
	expect_equal "others" 4 "$(grep -c " other_processes $((100 * MIB))" found)"
	# What the second one sees of the first is a context, and what the first one held.
	expect_equal "the other's" "$((300 * MIB))" "$(query t.db "
		SELECT max(recorded_bytes) - (SELECT max(held_bytes) FROM reading
				WHERE process_id <> r.process_id)
			FROM reading r WHERE EXISTS (SELECT 1 FROM reading_kind k
				WHERE k.reading_id = r.id AND k.kind = 'vmm')")"
}

it_says_so_where_nothing_tells_contexts_from_others() {
	CUSTODY_NVML=none record -o t.db -- "$clients/ledger" large >out
	expect_equal "bands" "highest contexts_and_others $((400 * MIB))
last contexts_and_others $((400 * MIB))" "$(bands t.db | grep contexts)"
	! bands t.db | grep unaccounted || fail "something is left over"
	expect_match "report" 'needs NVML' "$("$custody" report t.db | tr -s ' \n' ' ')"
}

it_tells_what_there_was_when_memory_ran_out() {
	SIMCUDA_MEMORY=405M CUSTODY_NVML=none \
		expect_status 1 record -o t.db -- "$clients/ledger" large 2>err
	expect_match "the program" OUT_OF_MEMORY\|2 "$(cat err)"
	expect_equal "black box" "$((10 * MIB + 1)) $((3 * MIB)) 1" "$(query t.db "
		SELECT requested_bytes || ' ' || live_bytes || ' ' || count(*)
			FROM oom JOIN oom_holder ON oom_id = oom.id")"
	expect_match "report" 'OUT OF MEMORY' "$("$custody" report t.db)"
}

run_behaviours "${1:-}"
