#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Other preloads beside ours, in both orders: each sees every call once, none
# runs in circles, and the program's results are right.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

with_neighbour() { # NEIGHBOUR ORDER CLIENT
	local list=$preload:$neighbours/neighbour_$1.so
	[ "$2" = first ] && list=$neighbours/neighbour_$1.so:$preload
	"$clients/$3" >bare.out
	E2E_NEIGHBOUR=$PWD/bare.seen LD_PRELOAD=$neighbours/neighbour_$1.so \
		bounded "$clients/$3" >/dev/null || fail "the neighbour alone: status $?"
	E2E_JOURNAL=$PWD/journal E2E_NEIGHBOUR=$PWD/seen CUSTODY_OUTPUT=t.db LD_PRELOAD=$list \
		bounded "$clients/$3" >out 2>err || fail "status $?: $(cat err)"
	diff bare.out out || fail "the program's output differs"
	expect_empty "standard error" err
	wait_for_trace t.db
	compare_rows t.db journal
	diff bare.seen seen || fail "the neighbour does not see what it saw alone"
}

it_sees_what_a_RTLD_NEXT_neighbour_in_front_of_it_sees() {
	with_neighbour next first door_lazy
}

it_sees_what_a_RTLD_NEXT_neighbour_behind_it_sees() {
	with_neighbour next last door_lazy
}

it_sees_what_a_neighbour_in_front_sees_that_asks_a_handle() {
	with_neighbour handle first door_lazy
}

it_sees_what_a_neighbour_behind_sees_that_asks_a_handle() {
	with_neighbour handle last door_lazy
}

it_sees_what_a_neighbour_in_front_sees_that_wraps_cuGetProcAddress() {
	with_neighbour getproc first door_getproc
}

it_sees_what_a_neighbour_behind_sees_that_wraps_cuGetProcAddress() {
	with_neighbour getproc last door_getproc
}

it_leads_a_client_bound_at_start_past_a_neighbour_too() {
	with_neighbour next first door_now
	rm -f t.db journal seen bare.seen
	with_neighbour next last door_now
}

it_keeps_the_preloads_that_the_user_had() {
	E2E_NEIGHBOUR=$PWD/seen E2E_JOURNAL=$PWD/journal \
		LD_PRELOAD=$neighbours/neighbour_next.so record -o t.db -- "$clients/door_lazy"
	compare_rows t.db journal
	expect_equal "allocations seen by the neighbour" \
		"$(sed -n 's/^call cuMemAlloc_v2 \([0-9]*\) .*/\1/p' journal)" \
		"$(grep -c '^cuMemAlloc_v2$' seen)"
}

it_is_harmless_to_be_loaded_twice() {
	E2E_JOURNAL=$PWD/journal LD_PRELOAD=$preload record -o t.db -- "$clients/door_lazy"
	compare_rows t.db journal
}

# One that limits memory must go on doing so where we have nothing to record in.
it_leads_threads_past_a_neighbour_where_nothing_is_recorded() {
	local list=$preload:$neighbours/neighbour_next.so
	E2E_NEIGHBOUR=$PWD/bare.seen LD_PRELOAD=$neighbours/neighbour_next.so \
		"$clients/reuse" 4 3 >bare.out
	E2E_NEIGHBOUR=$PWD/seen CUSTODY_SESSION=/proc LD_PRELOAD=$list \
		bounded "$clients/reuse" 4 3 >out 2>err || fail "status $?: $(cat err)"
	diff bare.out out || fail "the program's output differs"
	expect_match "standard error" 'cannot record in /proc' "$(cat err)"
	diff <(sort bare.seen) <(sort seen) || fail "the neighbour does not see what it saw alone"
}

it_leads_children_that_are_not_recorded_past_a_neighbour() {
	plain_build_only
	E2E_NEIGHBOUR=$PWD/bare.seen LD_PRELOAD=$neighbours/neighbour_next.so \
		sh -c "'$clients/reuse' 4 3; true"
	E2E_NEIGHBOUR=$PWD/seen LD_PRELOAD=$neighbours/neighbour_next.so \
		record --children=none -o t.db -- sh -c "'$clients/reuse' 4 3; true" 2>err
	diff <(sort bare.seen) <(sort seen) || fail "the neighbour does not see what it saw alone"
	[ ! -e t.db ] || expect_equal "blocks" 0 "$(query t.db 'SELECT count(*) FROM allocation')"
}

run_behaviours "${1:-}"
