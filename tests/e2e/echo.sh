#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Transparency of every wrapper, on a driver that notes its arguments.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

LD_LIBRARY_PATH=$clients/echo

only() { # WORD FILE
	grep "^$1 " "$2" | sort
}

check_all() { # RESULT [dlvsym]
	bounded "$clients/echo_client" "$@" >bare || fail "bare: $(cat bare)"
	E2E_JOURNAL=$PWD/journal record -o t.db -- "$clients/echo_client" "$@" >watched ||
		fail "not every argument or result went through: $(head -20 watched)"
	diff bare watched
}

it_passes_every_argument_and_result_of_calls_that_fail() {
	check_all 999
	query t.db "$(cat "$e2e_src/rows.sql")" >found
	# Our look-ups are not the program's calls; its own of cuGetProcAddress are.
	diff <(only call journal) <(only call found) || fail "calls were lost or invented"
	diff <(only failure journal) <(only failure found) || fail "failures were lost or invented"
	expect_equal "blocks" 0 "$(query t.db "SELECT count(*) FROM allocation")"
}

it_sees_calls_of_functions_that_dlvsym_found() {
	check_all 999 dlvsym
	query t.db "$(cat "$e2e_src/rows.sql")" >found
	diff <(only call journal) <(only call found) || fail "calls were lost or invented"
}

it_survives_a_driver_that_succeeds_and_says_nothing() {
	check_all 0
	query t.db "$(cat "$e2e_src/rows.sql")" >found
	diff <(only call journal) <(only call found) || fail "calls were lost or invented"
	expect_equal "failures" 0 "$(query t.db "SELECT count(*) FROM failure")"
}

run_behaviours "${1:-}"
