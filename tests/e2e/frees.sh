#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a program sees of its own frees under each policy, when the queue lets go
# of them, and what the trace tells of it.
# shellcheck disable=SC2034 # frees_common.sh reads bare_status and trouble
. "${top_srcdir:-.}/tests/e2e/harness.sh"
. "$e2e_src/frees_common.sh"

# ---------------------------------------------------------------- waiting

it_waits_where_a_bare_free_waits_unless_told_not_to() {
	same_under 'immediate deferred' frees_wait poll
	expect_equal "bare" "the free returns after the flag is set" "$(head -n 1 bare.out)"
	run_under nowait frees_wait poll
	expect_equal "nowait" "the free returns before the flag is set
the other stream is idle before" "$(cat nowait.out)"
}

# Bare this program stands for ever: nobody else would set the flag.
it_lets_a_program_free_and_allocate_while_a_kernel_polls() {
	bare_status=0
	run_under nowait frees_wait alone
	expect_equal "output" "done" "$(cat nowait.out)"
}

it_waits_for_every_kind_that_is_freed_as_bare() {
	same_under 'immediate deferred' frees_wait kinds
	expect_equal "bare: what does not wait" 0 "$(grep -vc 'after' bare.out)"
	run_under nowait frees_wait kinds
	expect_equal "nowait: what waits" "" "$(grep -v 'before' nowait.out)"
}

# The wait of a put-off free is in the trace; nowait has none.
it_tells_how_long_a_free_waited() {
	bare_status=0
	run_under deferred frees_wait poll
	expect_equal "frees that waited longer than 100 ms" 1 "$(query deferred.db "
		SELECT count(*) FROM allocation WHERE free_waited_ns > 100000000")"
	run_under nowait frees_wait poll
	expect_equal "frees that waited" 0 "$(query nowait.db "
		SELECT count(*) FROM allocation WHERE free_waited_ns > 0")"
}

it_gives_programs_that_lean_on_the_wait_what_they_expect() {
	same_under 'immediate deferred' frees_wait mapped
	expect_equal "bare" "20 of 20 results were there" "$(cat bare.out)"
	same_under 'immediate deferred' frees_wait order
	expect_equal "bare" "20 of 20 copies were right" "$(cat bare.out)"
	# What these tests would show if nothing waited; ThreadSanitizer says it its own way.
	[ "$SANITIZE" != thread ] || return 0
	run_under nowait frees_wait order
	! diff -q bare.out nowait.out >/dev/null || fail "the program does not lean on the wait"
}

it_holds_up_no_other_thread_while_a_free_waits() {
	same_under immediate frees_wait others
	expect_equal "bare" "the other thread stands still" "$(cat bare.out)"
	run_under deferred frees_wait others
	expect_equal "deferred" "the other thread goes on" "$(cat deferred.out)"
	run_under nowait frees_wait others
	expect_equal "nowait" "the other thread goes on" "$(cat nowait.out)"
}

# ---------------------------------------------------------------- what was freed

it_answers_about_freed_blocks_as_the_driver() {
	local which policy
	trouble=yes
	for which in device kinds never; do
		same_under "$policies" frees_wrong "$which"
		expect_equal "findings where nothing is put off" 0 "$(query immediate.db "
			SELECT count(*) FROM finding")"
	done
	run_bare frees_wrong device
	for policy in deferred nowait; do
		run_under "$policy" frees_wrong device
		expect_match "findings under $policy" '^double free:[0-9]+ use after free:[0-9]+$' \
			"$(query "$policy.db" "SELECT kind || ':' || count(*) FROM finding
				GROUP BY kind ORDER BY kind" | paste -sd' ')"
	done
}

# Bare the driver takes the address for the host's, and the program crashes.
it_refuses_unified_copies_of_freed_blocks() {
	local policy
	trouble=yes bare_status=0
	for policy in deferred nowait; do
		run_under "$policy" frees_wrong unified
		expect_equal "answers" "to it: 1
from it later: 1" "$(cat "$policy.out")"
	done
}

it_tells_of_free_memory_what_the_driver_would_tell() {
	same_under "$policies" frees_wrong info
	SIMCUDA_FREE_PLAIN=0 same_under "$policies" frees_wrong info
}

it_can_be_told_to_tell_what_the_driver_tells() {
	bare_status=0
	CUSTODY_MEMINFO=driver run_under nowait frees_queue count 4 0x1000000
	run_bare frees_wrong info
	CUSTODY_MEMINFO=driver run_under nowait frees_wrong info
	! diff -q bare.out nowait.out >/dev/null || fail "pending blocks were not seen"
}

# ---------------------------------------------------------------- the limits

# The eleventh item triggers a pass, and goes with it.
it_releases_all_eleven_at_the_eleventh() {
	expect_equal "ten" "" "$(run_limited 10 4096)"
	expect_equal "causes" exit:10 "$(causes t.db)"
	expect_equal "eleven" count:11 "$(run_limited 11 4096)"
	expect_equal "twenty-one" count:11 "$(run_limited 21 4096)"
	expect_equal "twenty-two" "count:11 count:11" "$(run_limited 22 4096)"
	export SIMCUDA_FREE_PLAIN=0
	expect_equal "twelve, by cuMemFree" count:11 "$(run_limited 12 4096)"
	expect_equal "causes" "count:11 exit:1" "$(causes t.db)"
}

it_counts_as_it_is_told_to() {
	expect_equal "two, by option" "count:3" "$(
		run_limited 3 4096 --max-pending=2)"
	expect_equal "two, by variable" "count:3" "$(
		CUSTODY_MAX_PENDING=2 run_limited 3 4096)"
	expect_equal "two, by Numba's variable" "count:3" "$(
		NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT=2 run_limited 3 4096)"
	expect_equal "ours before Numba's" "" "$(
		NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT=2 CUSTODY_MAX_PENDING=20 run_limited 15 4096)"
	expect_equal "none" "count:1 count:1 count:1" "$(
		run_limited 3 4096 --max-pending=0)"
}

run_limited() { # COUNT BYTES OPTION...: the passes
	record -f --frees=nowait -o t.db "${@:3}" -- \
		"$clients/frees_queue" count "$1" "$2" >/dev/null
	expect_consistent t.db
	passes t.db
}

# A quarter of 1 GiB is four blocks of 64 MiB: that much may be pending, one byte more not.
it_weighs_bytes_against_the_memory_of_the_device() {
	export SIMCUDA_MEMORY=1G
	expect_equal "as many as may be" "" "$(
		run_limited 4 0x4000000 --max-pending-ratio=0.25)"
	expect_equal "one more" "bytes:5" "$(
		run_limited 5 0x4000000 --max-pending-ratio=0.25)"
	expect_equal "by variable" "bytes:5" "$(
		CUSTODY_MAX_PENDING_RATIO=0.25 run_limited 5 0x4000000)"
	expect_equal "by Numba's variable" "bytes:5" "$(
		NUMBA_CUDA_MAX_PENDING_DEALLOCS_RATIO=0.25 run_limited 5 0x4000000)"
	expect_equal "a fifth, unless told otherwise" "bytes:4" "$(
		run_limited 4 0x4000000)"
}

# A twentieth of 1 GiB is less than one block: two are more than twice that.
it_waits_at_twice_the_byte_limit_only() {
	export SIMCUDA_MEMORY=1G CUSTODY_MAX_PENDING_RATIO=0.05
	bare_status=0
	run_under nowait frees_queue twice
	expect_equal "output" "first: before
second: after" "$(cat nowait.out)"
	expect_equal "passes that waited" "bytes" "$(query nowait.db "
		SELECT cause FROM flush WHERE waited_ns > 20000000")"
}

it_counts_under_deferred_too() {
	run_bare frees_queue count 11 4096
	run_under deferred frees_queue count 11 4096
	expect_equal "passes" "count:11" "$(passes deferred.db)"
}

# ---------------------------------------------------------------- where the program waits anyway

it_takes_memory_back_where_the_program_waits() {
	local how policy
	for policy in deferred nowait; do
		for how in context stream event copy info; do
			bare_status=137
			run_under "$policy" frees_queue sync 5 "$how"
			expect_equal "$policy, $how" "idle:5 / idle:5" \
				"$(passes "$policy.db") / $(causes "$policy.db")"
		done
		run_under "$policy" frees_queue sync 5 nothing
		expect_equal "$policy, nothing" " / exit:5" \
			"$(passes "$policy.db") / $(causes "$policy.db")"
	done
}

# More than ten are pending while the stream stands: they stay, and go when it is done.
it_keeps_what_may_be_in_use_above_the_limit_too() {
	bare_status=0
	run_under nowait frees_queue busy 25
	expect_equal "causes" "idle:25" "$(causes nowait.db)"
	SIMCUDA_FREE_PLAIN=0 run_under nowait frees_queue busy 25
	expect_equal "causes" "idle:25" "$(causes nowait.db)"
}

it_puts_off_every_kind_that_waits() {
	local policy
	same_under "$policies" frees_queue kinds 8
	for policy in deferred nowait; do
		query "$policy.db" "SELECT DISTINCT kind FROM allocation
			WHERE free_waited_ns IS NOT NULL ORDER BY kind" >"$policy.kinds"
	done
	expect_equal "nowait" "array managed pinned pitch" "$(paste -sd' ' nowait.kinds)"
	# After a free that waited the others would have to be waited for again.
	expect_equal "deferred" pitch "$(cat deferred.kinds)"
}

# ---------------------------------------------------------------- the end

it_records_what_is_pending_at_the_end() {
	local how policy
	for how in exit _exit abort kill; do
		run_bare frees_queue end "$how" 5
		for policy in deferred nowait; do
			run_under "$policy" frees_queue end "$how" 5
			compare_with_bare "$policy"
			expect_equal "$policy, $how" "exit:5" "$(causes "$policy.db")"
			expect_equal "blocks that were never freed" "4096 3145728" "$(
				query "$policy.db" "SELECT bytes FROM allocation
					WHERE kind = 'device' AND free_requested_ns IS NULL
					ORDER BY bytes" | paste -sd' ')"
		done
	done
}

it_records_what_is_pending_at_the_end_of_a_bare_preload() {
	local how
	for how in exit kill; do
		CUSTODY_FREES=nowait CUSTODY_OUTPUT=$how.db LD_PRELOAD=$preload \
			bounded "$clients/frees_queue" end "$how" 5 >/dev/null 2>err || true
		wait_for_trace "$how.db" >/dev/null
		expect_consistent "$how.db"
		expect_equal "$how" "exit:5" "$(causes "$how.db")"
	done
}

it_leaves_nothing_pending_to_a_child() {
	local policy
	for policy in $policies; do
		same_under "$policy" frees_queue fork 5
		expect_equal "processes under $policy" 2 "$(query "$policy.db" "
			SELECT count(*) FROM process")"
		expect_equal "blocks freed under $policy" 6 "$(query "$policy.db" "
			SELECT count(*) FROM allocation WHERE free_requested_ns > 0")"
	done
}

it_frees_in_exit_handlers_as_bare() {
	same_under "$policies" frees_queue late
	expect_equal "bare: in a destructor" 4 \
		"$(sed -n 's/free in a destructor: //p' bare.out)"
}

it_puts_off_only_what_it_knows() {
	local policy
	same_under "$policies" frees_queue forwarded
	for policy in deferred nowait; do
		expect_equal "causes under $policy" freed:4 \
			"$(causes "$policy.db" "kind IN ('device', 'pool')")"
	done
}

# ---------------------------------------------------------------- errors

# Whatever call of ours fails, wherever: the program notices nothing.
it_survives_an_error_at_every_position_of_a_pass() {
	local call n
	trouble=yes
	run_bare frees_queue inject 12 2
	for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
		inject nowait "cuMemFreeAsync:$n:999"
		inject deferred "cuMemFreeAsync:$n:999"
	done
	for call in cuEventQuery cuEventCreate cuStreamCreate cuStreamSynchronize; do
		for n in 1 2 3 5 8 11 12; do
			inject nowait "$call:$n:999"
		done
	done
	for n in 1 6 11; do
		for call in cuCtxRecordEvent cuThreadExchangeStreamCaptureMode cuEventDestroy_v2 \
			cuPointerGetAttribute; do
			inject nowait "$call:$n:999"
			inject deferred "$call:$n:999"
		done
	done
}

# The client makes two streams itself: those calls are passed over.
inject() { # POLICY NAME:N:CODE
	local policy=$1 rule=$2 name=${2%%:*} rest=${2#*:}
	case $name in
	cuStreamCreate) rule=$name:$((${rest%%:*} + 2)):${rest#*:} ;;
	esac
	SIMCUDA_FAIL=$rule run_under "$policy" frees_queue inject 12 2
	diff bare.out "$policy.out" >/dev/null ||
		fail "after $rule under $policy the program sees something else"
}

it_tells_of_a_release_that_failed() {
	local n
	trouble=yes
	run_bare frees_queue inject 12 2
	for n in 2 4 9; do
		SIMCUDA_FAIL=cuMemFreeAsync:$n:999 run_under nowait frees_queue inject 12 2
		compare_with_bare nowait
		expect_equal "failed releases" "1 1" "$(query nowait.db "
			SELECT (SELECT count(*) FROM allocation WHERE release_cause = 'failed')
				|| ' ' || (SELECT sum(failed) FROM flush)")"
		expect_equal "failures" "custody 999" "$(query nowait.db "
			SELECT origin || ' ' || result FROM failure")"
	done
}

it_tells_of_a_release_that_failed_without_cuMemFreeAsync() {
	local n
	trouble=yes
	run_bare frees_queue inject 12 2
	for n in 1 4 11; do
		SIMCUDA_FREE_PLAIN=0 SIMCUDA_FAIL=cuMemFree_v2:$((n + 1)):999 \
			run_under nowait frees_queue inject 12 2
		compare_with_bare nowait
		expect_equal "failed releases" "1 1" "$(query nowait.db "
			SELECT (SELECT count(*) FROM allocation WHERE release_cause = 'failed')
				|| ' ' || (SELECT sum(failed) FROM flush)")"
	done
}

# An error of the device is the free's result, as it is bare.
it_gives_the_error_of_the_device_to_the_free_that_waited() {
	trouble=yes
	SIMCUDA_FAIL=cuMemFree_v2:7:700 run_bare frees_queue fault
	expect_equal "bare" "free: 700" "$(grep '^free:' bare.out)"
	SIMCUDA_FAIL=cuEventSynchronize:1:700 run_under deferred frees_queue fault
	compare_with_bare deferred
}

run_behaviours "${1:-}"
