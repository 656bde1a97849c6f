#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every program of examples/ that is linked with libcustody, on the simulated
# driver: what it prints, and what the trace that it writes of itself tells.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

examples=$top_builddir/examples
kernels=$top_builddir/tests/library/.libs/example_kernels.so

# example NAME [ARGUMENTS...]: recorded into NAME.db, what it prints into NAME.out.
example() {
	local name=$1
	shift
	CUSTODY_OUTPUT=$PWD/$name.db bounded "$examples/$name" "$@" >"$name.out" 2>"$name.err" ||
		fail "$name ended with $?: $(cat "$name.err" "$name.out")"
	expect_empty "standard error of $name" "$name.err"
	wait_until 20 is_complete "$name.db" || fail "$name.db was never completed"
	expect_equal "lost records of $name" 0 "$(query "$name.db" "SELECT count(*) FROM gap")"
	expect_equal "findings in $name" 0 "$(query "$name.db" "SELECT count(*) FROM finding")"
}

says() { # NAME PATTERN...: lines of the output, in order
	local name=$1 pattern
	local -i number=0
	shift
	expect_equal "lines of $name" $# "$(wc -l <"$name.out")"
	for pattern; do
		number+=1
		expect_match "line $number of $name" "^$pattern\$" \
			"$(sed -n "${number}p" "$name.out")"
	done
}

# blocks NAME: kind, bytes and how many, of all blocks of the trace.
blocks() {
	query "$1.db" "SELECT kind || ' ' || bytes || ' x' || count(*) FROM allocation
		WHERE kind <> 'module' GROUP BY kind, bytes ORDER BY kind, bytes" | paste -sd,
}

# Everything was freed by the program; what was not released is on its way at the end.
freed_all() {
	expect_equal "blocks that $1 has not freed" 0 "$(query "$1.db" "SELECT count(*)
		FROM allocation WHERE free_requested_ns IS NULL AND kind <> 'module'")"
}

calls() { # NAME FUNCTION: how often it was called, recorded as an operation
	query "$1.db" "SELECT count(*) FROM operation JOIN api a ON a.id = api_id
		WHERE a.name LIKE '$2%'"
}

it_shows_the_shortest_whole_program() {
	example quick_start
	says quick_start 'device      .*, GPU-[0-9a-f-]{36}' \
		'round trip  4000 bytes, row 3 filled with -1'
	expect_equal "blocks" "device 4000 x1" "$(blocks quick_start)"
	expect_equal "transfers" "D2H 4000,H2D 4000,MEMSET 200" "$(query quick_start.db "
		SELECT kind || ' ' || bytes FROM transfer ORDER BY kind" | paste -sd,)"
	freed_all quick_start
}

it_runs_a_kernel_on_memory_of_two_resources() {
	SIMCUDA_KERNELS=$kernels example memory_resources
	says memory_resources 'kernel      pinned\[5\] is 15, as the device left it' \
		'copy        4096 bytes from device to pinned memory'
	expect_equal "blocks" "device 4096 x1,pinned 4096 x1" "$(blocks memory_resources)"
	freed_all memory_resources
}

it_shares_a_buffer_and_a_pool_with_another_process() {
	CUSTODY_OUTPUT=$PWD/ipc.%p.db bounded "$examples/ipc_pair" >ipc.out 2>ipc.err ||
		fail "ipc_pair ended with $?: $(cat ipc.err ipc.out)"
	expect_equal "output" "answered    1048576 bytes of a buffer and as many of a pool" \
		"$(cat ipc.out)"
	expect_empty "standard error" ipc.err
	local -a traces
	mapfile -t traces < <(wait_for_trace 'ipc.*.db')
	expect_equal "traces" 2 ${#traces[@]}
	"$custody" merge -o merged.db "${traces[@]}" >merge.out 2>&1 || fail "$(cat merge.out)"
	expect_equal "opened by the other process" 2 "$(query merged.db "
		SELECT count(*) FROM allocation WHERE kind = 'ipc' AND bytes >= 1048576")"
}

# The scope is between the first and the last free of the loop.
it_releases_nothing_inside_a_defer_scope() {
	example defer_cleanup_loop
	says defer_cleanup_loop 'inside      40 freed, none of them released' \
		'behind      40 released'
	local loop="WITH loop AS (SELECT * FROM allocation WHERE kind = 'device'
		AND bytes = 1048576 ORDER BY alloc_ns LIMIT -1 OFFSET 1)"
	expect_equal "freed in the loop" 40 "$(query defer_cleanup_loop.db "$loop
		SELECT count(free_requested_ns) FROM loop")"
	expect_equal "released before the last free of the loop" 0 "$(query defer_cleanup_loop.db "
		$loop SELECT count(*) FROM loop
		WHERE released_ns <= (SELECT max(free_requested_ns) FROM loop)")"
	expect_equal "released behind it" 40 "$(query defer_cleanup_loop.db "$loop
		SELECT count(*) FROM loop
		WHERE released_ns > (SELECT max(free_requested_ns) FROM loop)")"
}

it_exchanges_arrays_with_numpy() {
	plain_build_only
	local python=${E2E_PYTHON:-$PYTHON3}
	[ -n "$python" ] || skip "there is no python3"
	"$python" -c 'import numpy' 2>/dev/null ||
		skip "$python has no numpy (PyPI); E2E_PYTHON names one that has"
	PYTHONDONTWRITEBYTECODE=1 bounded "$python" "$top_srcdir/examples/dlpack_numpy.py" \
		"$examples/.libs/dlpack_numpy.so" >said 2>err || fail "$(cat said err)"
	expect_match "NumPy" 'numpy       has 4000 bytes of page-locked memory' "$(cat said)"
	expect_match "custody" "custody     has summed NumPy's array: 4950" "$(cat said)"
}

it_pins_memory_for_a_while() {
	example pinned_scope
	says pinned_scope 'inside      both copies are on their way' \
		'again       the range overlaps one that is registered' \
		'behind      the bytes are there'
	expect_equal "blocks" "device 8388608 x1,registered 8388608 x2" "$(blocks pinned_scope)"
	expect_equal "copies of registered memory" "D2H registered,H2D registered" "$(
		query pinned_scope.db "SELECT kind || ' ' || CASE kind WHEN 'H2D' THEN source_kind
			ELSE target_kind END FROM transfer ORDER BY kind" | paste -sd,)"
	freed_all pinned_scope
}

it_maps_memory_for_a_while() {
	example mapped_scope
	says mapped_scope 'inside      the device wrote numbers\[100\] to \[199\]' \
		"behind      they are the host's alone"
	expect_equal "blocks" "registered 4000 x1" "$(blocks mapped_scope)"
	freed_all mapped_scope
}

# The last job has the least to do, and is done first.
it_waits_for_streams_by_poll() {
	SIMCUDA_MEMSET_US=20000 example completion_poll
	says completion_poll 'begun       3 jobs' 'done        job 2' 'done        job 1' \
		'done        job 0'
	expect_equal "waits for a stream or the device ahead of the jobs' end" 0 "$(
		query completion_poll.db "SELECT count(*) FROM operation JOIN api a ON a.id = api_id
			WHERE (a.name LIKE 'cuStreamSync%' OR a.name LIKE 'cuCtxSync%')
			AND duration_ns > 100000000")"
	freed_all completion_poll
}

it_grows_a_buffer_without_a_copy() {
	example growing_buffer
	expect_match "first line" '^at first    asked for 1 MiB, got 2$' \
		"$(head -n 1 growing_buffer.out)"
	expect_match "last line" '^contents    24 chunks, each as it was written$' \
		"$(tail -n 1 growing_buffer.out)"
	expect_equal "copies from device to device" 0 "$(query growing_buffer.db "
		SELECT count(*) FROM transfer WHERE kind IN ('D2D', 'P2P')")"
	expect_equal "physical memory" "$((24 << 20))" "$(query growing_buffer.db "
		SELECT sum(bytes) FROM allocation WHERE kind = 'vmm' AND parent_id IS NULL")"
	freed_all growing_buffer
}

it_allocates_inside_a_graph() {
	example graph_memory
	says graph_memory 'run         3 times, memory of the graph in each'
	expect_equal "launches" 3 "$(calls graph_memory cuGraphLaunch)"
}

it_asks_the_program_when_memory_runs_out() {
	SIMCUDA_MEMORY=2G example out_of_memory
	expect_match "first line" '^cached      8 blocks' "$(head -n 1 out_of_memory.out)"
	expect_equal "blocks let go" 8 "$(grep -c '^full ' out_of_memory.out)"
	expect_match "success" '^had         4 blocks more, [45] of the cache are left$' \
		"$(grep '^had' out_of_memory.out)"
	expect_match "failure" '^too much    .+' "$(tail -n 1 out_of_memory.out)"
}

it_keeps_memory_for_the_stream_that_reads_it() {
	SIMCUDA_COPY_US=5000 example two_streams
	says two_streams 'rounds      16, each read what it wrote'
	expect_equal "blocks" "pinned 67108864 x1,pool 4194304 x16" "$(blocks two_streams)"
	freed_all two_streams
}

it_shows_fields_of_records() {
	example records
	says records \
		'position    2 axes, 100 by 3, a record of 24 bytes from one to the next' \
		'mass        of record 7 is 80.5, and nothing else has changed'
	expect_equal "blocks" "device 2400 x1" "$(blocks records)"
	freed_all records
}

it_moves_managed_memory() {
	example managed
	says managed 'sum         3145728, without a copy in the program'
	expect_equal "blocks" "managed 4194304 x1" "$(blocks managed)"
	expect_equal "copies" 0 "$(query managed.db "
		SELECT count(*) FROM transfer WHERE kind IN ('H2D', 'D2H')")"
	freed_all managed
}

it_records_itself() {
	bounded "$examples/trace_myself" mine.db >out 2>err || fail "$(cat out err)"
	expect_equal "output" "recorded    mine.db" "$(cat out)"
	expect_empty "standard error" err
	wait_until 20 is_complete mine.db || fail "mine.db was never completed"
	"$custody" report mine.db >report || fail "no report"
	expect_match "the report" 'live at exit +3.00 MiB in 1 block' "$(cat report)"
	expect_match "who asked for it" '/trace_myself$' "$(query mine.db "
		SELECT m.path FROM allocation a JOIN module m ON a.caller BETWEEN m.base
			AND m.base + m.size WHERE a.bytes = 3 << 20")"
	expect_match "who freed the others" '/trace_myself$' "$(query mine.db "
		SELECT DISTINCT m.path FROM allocation a JOIN module m ON a.free_caller
			BETWEEN m.base AND m.base + m.size WHERE a.bytes = 4096")"
}

it_says_so_where_there_is_no_driver() {
	! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' || skip "this machine has a driver"
	mkdir empty
	LD_LIBRARY_PATH=$PWD/empty expect_status 77 "$examples/quick_start" >out 2>err
	expect_empty "output" out
	expect_match "standard error" 'libcuda' "$(cat err)"
}

run_behaviours "$@"
