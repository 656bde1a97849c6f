#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A driver that is newer than our table: what we do not know passes through
# untouched, and the trace says that it was there.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

newer=${simulated%/lib}/new

run_both() { # CLIENT [WAY]: bare, then recorded into t.db
	local client=$clients/$1
	shift
	LD_LIBRARY_PATH=$newer "$client" "$@" >bare || fail "bare: status $?: $(cat bare)"
	LD_LIBRARY_PATH=$newer record -o t.db -- "$client" "$@" >out 2>err ||
		fail "recorded: status $?: $(cat err)"
	diff bare out || fail "the program's output differs"
	expect_empty "standard error" err
	expect_match "the driver" 'driver 13020, start 0' "$(cat out)"
	expect_match "the newer functions" 'new thing 0, newer allocation 0' "$(cat out)"
}

expect_uncovered() { # NAME...: those, and no others
	printf '%s\n' "$@" | sort >expected
	query t.db "SELECT DISTINCT name || ' ' || coalesce(version, 0) FROM uncovered" |
		sort >found
	diff expected found || fail "other functions are named as not covered"
	expect_match "report" "2 functions that custody does not know were given to the program" \
		"$("$custody" report t.db | tr -s '\n ' ' ')"
}

# What we know goes on being recorded, and the block we did not see is freed as one.
expect_the_rest() {
	expect_equal "blocks" 4096 "$(query t.db "SELECT bytes FROM allocation")"
	expect_equal "frees of the program" 2 "$(query t.db "SELECT sum(calls) FROM api_call
		JOIN api ON api.id = api_id WHERE name = 'cuMemFree_v2'")"
	expect_equal "version" 13020 "$(query t.db "SELECT driver_version FROM process")"
}

it_passes_on_what_dlsym_finds() {
	run_both newer dlsym
	expect_uncovered 'cuMemAlloc_v3 0' 'cuNewThing 0'
	expect_the_rest
}

it_passes_on_what_cuGetProcAddress_of_four_arguments_finds() {
	run_both newer getproc4
	expect_uncovered 'cuMemAlloc 13020' 'cuNewThing 13020'
	expect_the_rest
}

it_passes_on_what_cuGetProcAddress_of_five_arguments_finds() {
	run_both newer getproc5
	expect_uncovered 'cuMemAlloc 13020' 'cuNewThing 13020'
	expect_the_rest
}

it_names_what_a_program_is_linked_with() {
	run_both newer_linked
	expect_uncovered 'cuMemAlloc_v3 0' 'cuNewThing 0'
	expect_the_rest
}

it_names_what_a_plugin_is_linked_with_that_came_later() {
	plain_build_only
	LD_LIBRARY_PATH=$newer "$clients/newer" dlsym "$neighbours/newer_plugin.so" >/dev/null ||
		fail "bare: status $?"
	LD_LIBRARY_PATH=$newer record -o t.db -- "$clients/newer" dlsym \
		"$neighbours/newer_plugin.so" >/dev/null
	expect_uncovered_plugin
}

expect_uncovered_plugin() {
	expect_equal "functions of the plugin" cuNewOtherThing "$(query t.db "
		SELECT name FROM uncovered WHERE name LIKE '%Other%'")"
}

it_answers_look_ups_as_the_newer_driver_does() {
	awk -F' *[|] *' '!/^#/ && NF > 3 { print $1, $2, ($3 == "-" ? 0 : $3), $4 }' \
		"$top_srcdir/tests/support/simdriver/exports.tbl" \
		"$top_srcdir/tests/support/simdriver/newer.tbl" >list
	LD_LIBRARY_PATH=$newer "$clients/lookups" list >bare
	E2E_JOURNAL=$PWD/answered LD_LIBRARY_PATH=$newer record -o t.db -- \
		"$clients/lookups" list >watched
	diff bare watched || fail "look-ups are answered in another way when watched"
	expect_match "answers" '^cuNewThing 13010 0: 0 same' "$(cat bare)"
}

# A driver of CUDA 12.4 lacks functions of ours: they must seem to be missing.
it_lends_an_older_driver_nothing() {
	local older=${simulated%/lib}/old
	awk -F' *[|] *' '!/^#/ && NF > 3 { print $1, $2, ($3 == "-" ? 0 : $3), $4 }' \
		"$top_srcdir/tests/support/simdriver/exports.tbl" >list
	LD_LIBRARY_PATH=$older "$clients/lookups" list >bare
	E2E_JOURNAL=$PWD/answered LD_LIBRARY_PATH=$older record -o t.db -- \
		"$clients/lookups" list >watched
	diff bare watched || fail "look-ups are answered in another way when watched"
	expect_match "answers" '^cuCtxRecordEvent: missing' "$(cat watched)"
	E2E_JOURNAL=$PWD/journal LD_LIBRARY_PATH=$older record -f -o t.db -- \
		"$clients/door_lookup" getproc5
	compare_rows t.db journal
	expect_equal "version" 12040 "$(query t.db "SELECT driver_version FROM process")"
}

run_behaviours "${1:-}"
