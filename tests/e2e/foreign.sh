#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A preload for another processor: every door, every family of functions and
# the neighbours, in an emulator.  Needs what scripts/test-aarch64 sets up.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

[ -n "${FOREIGN_CUSTODY:-}" ] || {
	echo "there is no build for another processor; scripts/test-aarch64 makes one"
	exit 77
}

# As in doors.sh, but that a preload without a session is not tried: an emulator
# refuses to clone() as the start of a collector needs it.
run_foreign_row() { # CLIENT ARGUMENTS ENVIRONMENT
	local arguments=${2//@SIM@/$simulated}
	arguments=${arguments//@PLUGIN@/$neighbours/plugin.so}
	env $3 "$clients/$1" $arguments >bare.out 2>bare.err ||
		fail "bare: status $?: $(cat bare.err)"
	E2E_JOURNAL=$PWD/journal bounded env $3 "$custody" record -q -o t.db -- \
		"$clients/$1" $arguments >out 2>err || fail "recorded: status $?: $(cat err)"
	diff bare.out out || fail "the program's output differs"
	expect_empty "standard error of the bare run" bare.err
	expect_empty "standard error of the recorded run" err
	compare_rows t.db journal
	expect_no_session
}

with_neighbour() { # NEIGHBOUR ORDER CLIENT
	local list=$preload:$neighbours/neighbour_$1.so
	[ "$2" = first ] && list=$neighbours/neighbour_$1.so:$preload
	"$clients/$3" >bare.out
	E2E_NEIGHBOUR=$PWD/bare.seen LD_PRELOAD=$neighbours/neighbour_$1.so \
		"$clients/$3" >/dev/null || fail "the neighbour alone: status $?"
	E2E_JOURNAL=$PWD/journal E2E_NEIGHBOUR=$PWD/seen FOREIGN_PRELOAD=$list \
		bounded "$custody" record -q -o t.db -- "$clients/$3" >out 2>err ||
		fail "status $?: $(cat err)"
	diff bare.out out || fail "the program's output differs"
	expect_empty "standard error" err
	compare_rows t.db journal
	diff bare.seen seen || fail "the neighbour does not see what it saw alone"
}

it_goes_well_with_neighbours_on_both_sides() {
	local neighbour order
	for neighbour in next:door_lazy next:door_now handle:door_lazy getproc:door_getproc; do
		for order in first last; do
			with_neighbour "${neighbour%:*}" "$order" "${neighbour#*:}"
			rm -f t.db journal seen bare.seen
		done
	done
}

it_opens_RTLD_DEEPBIND_libraries_so_that_they_are_seen() {
	run_foreign_row door_plugin '@PLUGIN@ deepbind' CUSTODY_DEEPBIND=clear
}

run_rows door run_foreign_row "${1:-}"
run_rows cover run_foreign_row "${1:-}"
run_behaviours "${1:-}"
