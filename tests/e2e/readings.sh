#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Readings of a device's memory: when they are taken, and what they weigh.  The
# simulated driver takes as much for everything as its settings say, so what a
# reading must show is known to the byte.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

policies=${E2E_POLICIES:-immediate deferred nowait}
export SIMCUDA_CONTEXT=60M SIMCUDA_MODULE=4M SIMCUDA_STREAM=512K SIMCUDA_GRAPH=1M

grow() { # POLICY CASE: bare and under a policy, with the same output
	bounded "$clients/growth" "$2" >bare.out
	record -f --frees="$1" -o trace.db -- "$clients/growth" "$2" >out 2>err
	diff bare.out out || fail "$1: $2 saw something else than alone"
	expect_empty "standard error of $2 under $1" err
}

ask() { # SQL
	query trace.db "$1"
}

growth_of() { # KIND: KiB of each weighing, in order
	ask "SELECT growth_bytes / 1024 FROM reading WHERE moment = 'after' AND weighed = '$1'
		ORDER BY at_ns" | xargs
}

moments() { # moments in order of time
	ask "SELECT moment FROM reading ORDER BY at_ns" | xargs
}

# In use beyond what the columns explain, at each reading, in order of time.
unexplained() {
	ask "SELECT DISTINCT total_bytes - free_bytes - held_bytes - pool_bytes - graph_bytes -
		COALESCE(context_bytes, 60 << 20) - code_bytes - driver_bytes FROM reading" | xargs
}

in_pairs() { # of what has changed something; the rest is not kept
	expect_equal "readings before" "$(ask "
		SELECT count(*) FROM reading
		WHERE moment = 'after' AND weighed <> 'context' AND growth_bytes <> 0")" \
		"$(ask "SELECT count(*) FROM reading WHERE moment = 'before'")"
}

it_weighs_modules() {
	local policy
	for policy in $policies; do
		grow "$policy" code
		in_pairs
		expect_equal "$policy: loads and unloads" "4096 4096 -4096 -4096" \
			"$(growth_of code)"
	done
}

it_weighs_a_function_at_its_first_launch() {
	local policy
	export SIMCUDA_LAZY=1
	for policy in $policies; do
		grow "$policy" lazy
		in_pairs
		expect_equal "$policy: growth" "0 0 0 0 4096 4096 4096" "$(growth_of code)"
	done
}

it_weighs_streams() {
	grow deferred stream
	in_pairs
	expect_equal "growth" $((4 * 512 - 4 * 512)) "$(ask "
		SELECT sum(growth_bytes) / 1024 FROM reading WHERE weighed = 'stream'")"
	expect_equal "weighings" 8 "$(ask "
		SELECT count(*) FROM reading WHERE weighed = 'stream' AND moment = 'after'")"
}

# Of many launches only the first one takes something.
it_weighs_a_graph_at_its_first_launch() {
	grow deferred graph
	in_pairs
	# The driver may hold it a moment longer than its last launch.
	expect_match "instantiate, launch, destroy" "^0 1024 (-1024|0)$" "$(growth_of graph)"
}

it_weighs_limits() {
	grow immediate setting
	in_pairs
	[ "$(ask "SELECT sum(growth_bytes) FROM reading WHERE weighed = 'setting'")" -gt 0 ] ||
		fail "limits weigh nothing"
}

it_reads_a_context_behind_its_making_and_before_its_end() {
	local policy
	for policy in $policies; do
		grow "$policy" context
		expect_equal "$policy: contexts read" 2 "$(ask "
			SELECT count(DISTINCT context_id) FROM reading
			WHERE moment = 'after' AND weighed = 'context'")"
		expect_equal "$policy: in use when the second was made" 120 "$(ask "
			SELECT max((total_bytes - free_bytes) >> 20) FROM reading
			WHERE weighed = 'context'")"
		# With its block, which goes with it.
		expect_equal "$policy: before its end" 126 "$(ask "
			SELECT max((total_bytes - free_bytes) >> 20) FROM reading
			WHERE moment = 'quiet'")"
	done
}

it_reads_every_device_at_the_end() {
	local policy
	export SIMCUDA_DEVICES=2
	for policy in $policies; do
		grow "$policy" devices
		expect_equal "$policy: in use at the end" "0:68 1:76" "$(ask "
			SELECT ordinal || ':' || ((reading.total_bytes - free_bytes) >> 20)
			FROM reading JOIN device ON device.id = device_id
			WHERE moment = 'exit' ORDER BY ordinal" | xargs)"
	done
}

it_reads_pools_and_lets_them_go() {
	local policy
	for policy in $policies; do
		grow "$policy" pool
		# A pool that is gone with a block in it cannot be asked: what the others keep
		# beside their blocks is told from then on.
		expect_equal "$policy: reserved, or kept" "64 27 27" "$(ask "
			SELECT coalesce(pools_reserved, pools_cached) >> 20 FROM reading
			WHERE moment = 'asked' ORDER BY at_ns" | xargs)"
	done
}

it_reads_now_and_then_of_its_own_accord() {
	local policy count
	for policy in $policies; do
		grow "$policy" quiet
		count=$(ask "SELECT count(*) FROM reading WHERE moment = 'quiet'")
		[ "$count" -ge 5 ] || fail "$policy: $count readings only"
		[ "$count" -le 500 ] || fail "$policy: $count readings of 4005 calls"
		expect_equal "$policy: unexplained" 0 "$(unexplained)"
	done
}

it_reads_when_memory_has_run_out() {
	local policy
	for policy in $policies; do
		grow "$policy" oom
		expect_equal "$policy: in use" 160 "$(ask "
			SELECT (total_bytes - free_bytes) >> 20 FROM reading WHERE moment = 'oom'")"
	done
}

# Nothing may be asked while a capture is live, and none may begin while something is.
it_spoils_no_capture() {
	local policy
	for policy in $policies; do
		grow "$policy" capture
		expect_equal "$policy: captures" "150 captured" "$(cat out)"
		[ "$(ask "SELECT count(*) FROM reading WHERE moment = 'after'")" -gt 20 ] ||
			fail "$policy: nothing was weighed beside the captures"
		expect_equal "$policy: failures" 0 "$(ask "SELECT count(*) FROM failure")"
	done
}

it_leaves_a_child_of_fork_alone() {
	grow deferred fork
	expect_equal "processes" 1 "$(ask "SELECT count(*) FROM process")"
	expect_equal "moments" "after exit" "$(moments)"
}

it_reads_while_the_driver_still_answers() {
	grow immediate release
	expect_equal "moments" "after exit" "$(moments | cut -d' ' -f1-2)"
}

# A thread that destroys a context waits for a question that is put in it.
it_asks_at_the_end_in_no_context_that_is_gone() {
	export SIMCUDA_DELAY=cuCtxPushCurrent_v2:1:200000
	grow immediate leave
	expect_match "moments" "^after( quiet)? exit$" "$(moments)"
}

# Our own questions are none of the program's.
it_counts_no_question_of_its_own() {
	grow immediate quiet
	expect_equal "calls of cuMemGetInfo" 0 "$(ask "
		SELECT COALESCE(sum(calls), 0) FROM api_call JOIN api ON api.id = api_id
		WHERE name LIKE 'cuMemGetInfo%'")"
}

run_behaviours "${1:-}"
