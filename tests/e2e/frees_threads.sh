#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Captures that live while others free, many threads, addresses that come back,
# and drivers that lack what a deferred free is made of.
# shellcheck disable=SC2034 # frees_common.sh reads bare_status and trouble
. "${top_srcdir:-.}/tests/e2e/harness.sh"
. "$e2e_src/frees_common.sh"

# ---------------------------------------------------------------- captures

survives() { # CASE MODE
	same_under "$policies" frees_capture "$1" "$2"
	expect_equal "bare" "captures lost for nothing: 0" "$(head -n 1 bare.out)"
}

it_spoils_no_capture_of_mode_global() {
	survives polite global
	survives relaxed global
	survives rough global
}

it_spoils_no_capture_of_mode_thread_local() {
	survives polite thread-local
	survives relaxed thread-local
	survives rough thread-local
}

it_spoils_no_capture_of_mode_relaxed() {
	survives polite relaxed
	survives relaxed relaxed
	survives rough relaxed
}

it_lets_a_capture_begin_while_a_free_waits() {
	local mode
	for mode in global thread-local relaxed; do
		same_under "$policies" frees_capture waiting "$mode"
		expect_equal "ends that failed" "" "$(grep -v '^end: 0$' bare.out)"
	done
}

# The gate is open again after every kind of end: frees are put off as before.
it_puts_frees_off_again_after_captures() {
	bare_status=0
	run_under nowait frees_capture polite global
	expect_equal "frees put off after the last capture" 1 "$(query nowait.db "
		SELECT count(*) > 0 FROM allocation WHERE free_waited_ns IS NOT NULL
			AND free_requested_ns > (SELECT max(start_ns) FROM operation o
				JOIN api ON api.id = o.api_id
				WHERE api.name LIKE 'cuStreamBeginCapture%')")"
}

# ---------------------------------------------------------------- threads and addresses

it_keeps_the_contents_of_64_threads_apart() {
	same_under "$policies" frees_threads churn 64 12
	expect_equal "bare" "64 threads, 12 rounds, 0 words wrong" "$(cat bare.out)"
	export SIMCUDA_MEMORY=1G SIMCUDA_FREE_PLAIN=2
	same_under 'deferred nowait' frees_threads churn 16 30
}

it_knows_an_address_that_comes_back() {
	local plain
	for plain in 0 1 2; do
		SIMCUDA_FREE_PLAIN=$plain same_under 'deferred nowait' frees_threads again 300
		[ "$(query nowait.db "SELECT count(DISTINCT address) < count(*) FROM allocation
			WHERE kind = 'device'")" = 1 ] || fail "no address came back"
	done
}

it_joins_copies_to_the_right_block_under_every_policy() {
	local policy
	for policy in deferred nowait; do
		SIMCUDA_FREE_PLAIN=2 same_under "$policy" reuse 8 400
		expect_equal "copies joined to a block of another" 0 "$(query "$policy.db" "
			SELECT count(*) FROM transfer t
			LEFT JOIN allocation a ON a.id = t.target_allocation_id
			WHERE a.id IS NULL OR a.bytes <> 2 * t.bytes OR a.thread_id <> t.thread_id
				OR t.target_address <> a.address + t.bytes")"
	done
}

# ---------------------------------------------------------------- older drivers

on_old_driver() { # the driver of CUDA 12.4, which has no cuCtxRecordEvent
	LD_LIBRARY_PATH=$old_driver "$@"
}

# Nothing is put off where its wait could not be kept.
it_forwards_frees_under_deferred_without_events_of_a_context() {
	on_old_driver same_under deferred frees_wait poll
	expect_equal "causes" "freed:1" "$(causes deferred.db "kind = 'device'")"
	on_old_driver same_under deferred frees_wait mapped
	on_old_driver same_under deferred frees_queue kinds 5
	on_old_driver same_under deferred frees_threads churn 16 20
}

it_releases_when_idle_without_events_of_a_context() {
	bare_status=0
	on_old_driver run_under nowait frees_wait poll
	expect_equal "output" "the free returns before the flag is set" "$(head -n 1 nowait.out)"
	bare_status=137
	on_old_driver run_under nowait frees_queue sync 5 context
	expect_equal "causes" idle:5 "$(causes nowait.db)"
	on_old_driver same_under nowait frees_queue kinds 5
	on_old_driver same_under nowait frees_threads churn 16 20
	on_old_driver same_under nowait frees_threads again 200
	export SIMCUDA_MEMORY=64M SIMCUDA_CONTEXT=2M
	on_old_driver same_under nowait frees_oom full
	unset SIMCUDA_CONTEXT
	SIMCUDA_MEMORY=256M on_old_driver same_under nowait frees_oom seeded 1 500
}

it_spoils_no_capture_without_events_of_a_context() {
	local mode
	for mode in global thread-local relaxed; do
		on_old_driver same_under 'deferred nowait' frees_capture polite "$mode"
	done
}

it_does_without_stream_ordered_release() {
	SIMCUDA_FREE_PLAIN=0 same_under "$policies" frees_threads churn 16 20
	SIMCUDA_POOLS=0 same_under "$policies" frees_threads churn 16 20
	SIMCUDA_FREE_PLAIN=0 same_under 'deferred nowait' frees_capture polite global
	bare_status=0
	SIMCUDA_FREE_PLAIN=0 run_under nowait frees_wait poll
	expect_equal "output" "the free returns before the flag is set" "$(head -n 1 nowait.out)"
}

run_behaviours "${1:-}"
