#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What look-ups answer: the same as without us, for every function, version and
# flag, on a new driver and on an old one.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

exports=$top_srcdir/tests/support/simdriver/exports.tbl
table=$top_srcdir/src/intercept/driver.tbl

list_exports() {
	awk -F' *[|] *' '!/^#/ && NF > 3 { print $1, $2, ($3 == "-" ? 0 : $3), $4 }' "$exports"
}

compare_answers() { # ENVIRONMENT...
	list_exports >list
	env "$@" "$clients/lookups" list >bare
	E2E_JOURNAL=$PWD/answered bounded env "$@" "$custody" record -q -o t.db -- \
		"$clients/lookups" list >watched
	diff bare watched || fail "look-ups are answered in another way when watched"
}

it_answers_every_look_up_as_the_driver_does() {
	compare_answers SIMCUDA_VERSION=13000
	expect_match "answers" '^cuMemAlloc 3020 0: 0 same, 0 same 0, 0 same$' "$(cat bare)"
	expect_match "answers" '^cuMemAlloc 3019 0: 0 same, 0 same 0, 0 same$' "$(cat bare)"
	expect_match "answers" '^cuMemAllocAsync 12000 2: 0 same' "$(cat bare)"
	expect_match "answers" '^version: same$' "$(cat bare)"
	expect_match "answers" '^cuNoSuchFunction 12000 0: (0 null|500)' "$(cat bare)"
}

it_answers_for_an_old_driver_as_that_does() {
	compare_answers SIMCUDA_VERSION=11080
	expect_match "answers" '^cuMemcpyBatchAsync 12080 0: 1 -, 1 -' "$(cat watched)"
}

# A driver whose file lacks what came after CUDA 11.8.
it_does_not_lend_an_old_driver_functions_that_it_lacks() {
	compare_answers LD_LIBRARY_PATH="$clients/echo_old"
	expect_match "answers" '^cuGetProcAddress_v2: missing' "$(cat watched)"
	expect_match "answers" '^cuMemcpyBatchAsync: missing' "$(cat watched)"
	expect_match "answers" '^cuMemAllocAsync: there same' "$(cat watched)"
}

it_records_on_an_old_driver() {
	E2E_JOURNAL=$PWD/journal bounded env SIMCUDA_VERSION=11080 "$custody" record -q -o t.db \
		-- "$clients/door_lookup" getproc4
	compare_rows t.db journal
}

it_stands_in_front_of_every_function_of_the_table() {
	list_exports >list
	E2E_JOURNAL=$PWD/answered record -o t.db -- "$clients/lookups" list >/dev/null
	sed -n 's/^wrapped //p' answered | sort -u >wrapped
	awk -F' *[|] *' '!/^#/ && NF > 5 { print $1 }' "$table" | sort >known
	sed 's/^[a-z]* //' answered | sort -u >exported
	comm -12 known exported >expected
	diff expected wrapped || fail "not all functions of driver.tbl are wrapped"
	[ "$(wc -l <wrapped)" -gt 500 ] || fail "only $(wc -l <wrapped) functions are wrapped"
}

it_notes_driver_functions_that_it_does_not_know() {
	list_exports >list
	E2E_JOURNAL=$PWD/answered record -o t.db -- "$clients/lookups" list >/dev/null
	sed -n 's/^bare \(cu.*\)/\1/p' answered | sort -u >expected
	# By version a base name is asked for; the trace may add those.
	query t.db "SELECT DISTINCT name FROM uncovered" | sort >found
	comm -23 expected found >missing
	expect_empty "functions handed out without a wrapper and without a word" missing
}

it_shows_nobody_a_driver_that_is_not_there() {
	"$clients/lookups" >bare
	local none='default missing, next missing, next of a version missing, program missing'
	local all='default there, next there, next of a version missing, program there'
	printf 'without: %s\nwith its handle alone: %s\nwith it for all: %s\n' \
		"$none" "$none" "$all" >expected
	diff expected bare || fail "the client itself finds what it should not"
	CUSTODY_OUTPUT=t.db LD_PRELOAD=$preload bounded "$clients/lookups" >watched
	diff bare watched || fail "a look-up without a driver is answered in another way"
}

run_behaviours "${1:-}"
