#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Memory that runs out, and contexts that end, while blocks are pending.
# shellcheck disable=SC2034 # frees_common.sh reads bare_status and trouble
. "${top_srcdir:-.}/tests/e2e/harness.sh"
. "$e2e_src/frees_common.sh"

# ---------------------------------------------------------------- every call that allocates

names() {
	"$clients/frees_oom" names
}

# Each of them fails once, the first time that it is called for this.
failing() {
	names | sed 's/$/:1:2/' | paste -sd,
}

attempts() { # TRACE ORIGIN: functions that were told that memory is out
	query "$1" "SELECT DISTINCT api.name FROM failure f JOIN api ON api.id = f.api_id
		WHERE f.origin = '$2' AND f.result = 2" | sort
}

it_tries_every_allocation_twice_where_something_is_pending() {
	local policy
	export SIMCUDA_FAIL_PROFILED=1
	SIMCUDA_FAIL=$(failing) run_bare frees_oom calls pending
	expect_equal "bare: calls that succeed" "" "$(grep -v ': 2$' bare.out)"
	SIMCUDA_FAIL=$(failing) same_under immediate frees_oom calls pending
	for policy in deferred nowait; do
		SIMCUDA_FAIL=$(failing) run_under "$policy" frees_oom calls pending
		expect_equal "$policy: calls that fail" "" "$(grep -v ': 0$' "$policy.out")"
		expect_equal "first attempts" "$(names | sort)" "$(attempts "$policy.db" custody)"
		expect_equal "failures of the program" "" "$(attempts "$policy.db" program)"
		expect_equal "passes" "$(names | wc -l)" "$(query "$policy.db" "
			SELECT count(*) FROM flush WHERE cause = 'oom'")"
	done
}

it_tries_them_twice_inside_a_scope_too() {
	local policy
	export SIMCUDA_FAIL_PROFILED=1
	SIMCUDA_FAIL=$(failing) run_bare frees_oom scoped pending
	[ "$bare_status" != 77 ] || skip "the CUDA headers have no NVTX"
	for policy in deferred nowait; do
		SIMCUDA_FAIL=$(failing) run_under "$policy" frees_oom scoped pending
		expect_equal "$policy: calls that fail" "" "$(grep -v ': 0$' "$policy.out")"
		expect_equal "first attempts" "$(names | sort)" "$(attempts "$policy.db" custody)"
	done
	# Nothing but memory that runs out ends what is put off in a scope.
	expect_equal "causes of passes" oom "$(query nowait.db "SELECT DISTINCT cause FROM flush
		WHERE start_ns < (SELECT max(alloc_ns) FROM allocation)")"
}

it_tells_the_program_at_once_where_nothing_is_pending() {
	local policy
	export SIMCUDA_FAIL_PROFILED=1
	for policy in $policies; do
		SIMCUDA_FAIL=$(failing) same_under "$policy" frees_oom calls clean
		expect_equal "failures of the program" "$(names | sort)" \
			"$(attempts "$policy.db" program)"
		expect_equal "attempts of ours" "" "$(attempts "$policy.db" custody)"
	done
}

# The second attempt fails as well: that is what the program is told, once.
it_tells_the_program_when_the_second_attempt_fails_too() {
	local policy
	export SIMCUDA_FAIL_PROFILED=1 SIMCUDA_FAIL='cuMemAlloc_v2:1+:2'
	for policy in deferred nowait; do
		same_under "$policy" frees_oom calls pending
		expect_equal "attempts of ours" cuMemAlloc_v2 "$(attempts "$policy.db" custody)"
		expect_equal "failures of the program" cuMemAlloc_v2 \
			"$(attempts "$policy.db" program)"
	done
}

# ---------------------------------------------------------------- a device that is full

it_finds_memory_wherever_bare_does() {
	export SIMCUDA_MEMORY=64M SIMCUDA_CONTEXT=2M
	same_under "$policies" frees_oom full
	SIMCUDA_FREE_PLAIN=0 same_under 'deferred nowait' frees_oom full
}

it_keeps_a_device_nearly_full_as_well_as_bare() {
	local seed
	export SIMCUDA_MEMORY=256M SIMCUDA_CONTEXT=2M
	for seed in 1 2 3; do
		same_under "$policies" frees_oom seeded $seed 1500
		expect_equal "bare" "0 of 1500 rounds failed" "$(cat bare.out)"
	done
	SIMCUDA_FREE_PLAIN=0 same_under 'deferred nowait' frees_oom seeded 4 1500
	SIMCUDA_FREE_PLAIN=2 same_under 'deferred nowait' frees_oom seeded 5 1500
}

# What another thread has freed is there for the next one at once.
it_finds_memory_that_another_thread_has_freed() {
	export SIMCUDA_MEMORY=128M SIMCUDA_CONTEXT=2M
	same_under "$policies" frees_oom crowded 400
	expect_equal "bare" "0 allocations failed" "$(cat bare.out)"
	SIMCUDA_FREE_PLAIN=0 same_under nowait frees_oom crowded 400
}

it_does_nothing_about_it_while_a_capture_is_live() {
	export SIMCUDA_MEMORY=64M SIMCUDA_CONTEXT=2M
	same_under 'immediate deferred' frees_oom capture
	expect_equal "bare" "in a capture: 0" "$(sed -n 2p bare.out)"
	run_under nowait frees_oom capture
	expect_equal "nowait" "in a capture: 2
its end: 0
afterwards: 0" "$(tail -n 3 nowait.out)"
}

# ---------------------------------------------------------------- contexts that end

# Handles of what is destroyed come back at once, or are kept back for long.
both_ways() { # CASE
	local quarantine
	for quarantine in 0 256; do
		SIMCUDA_QUARANTINE=$quarantine same_under "$policies" frees_context "$1"
	done
}

closed_by() { # TRACE CAUSE: put-off blocks that ended so
	query "$1" "SELECT count(*) FROM allocation
		WHERE release_cause = '$2' AND free_waited_ns IS NOT NULL"
}

it_drops_what_is_pending_with_its_context() {
	both_ways destroy
	expect_equal "blocks that went with it" 35 "$(closed_by nowait.db context)"
	# Pinned memory is not put off there.
	expect_equal "the same under deferred" 30 "$(closed_by deferred.db context)"
	same_under "$policies" frees_context busy
}

it_knows_a_dead_contexts_blocks_no_more() {
	trouble=yes
	both_ways late
}

it_drops_what_is_pending_with_the_last_reference_to_a_primary_context() {
	both_ways release
	expect_equal "blocks that went with it" 28 "$(closed_by nowait.db context)"
}

it_drops_what_is_pending_at_a_reset() {
	both_ways reset
	expect_equal "blocks that went with it" 28 "$(closed_by nowait.db reset)"
}

it_goes_on_where_the_end_of_a_context_fails() {
	SIMCUDA_FAIL=cuCtxDestroy_v2:1:999 same_under "$policies" frees_context survives
}

it_follows_contexts_that_come_and_go_in_many_threads() {
	both_ways threads
}

it_keeps_devices_apart() {
	SIMCUDA_DEVICES=2 same_under "$policies" frees_context devices
}

it_puts_nothing_off_where_peers_have_access() {
	local policy
	SIMCUDA_DEVICES=2 same_under "$policies" frees_context peers
	for policy in deferred nowait; do
		expect_equal "causes under $policy" freed:6 "$(causes "$policy.db")"
	done
}

run_behaviours "${1:-}"
