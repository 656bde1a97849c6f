#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# --fail-nth: one allocating call of a process fails, the same one each time.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

policies=${E2E_POLICIES:-immediate deferred nowait}

nth() { # N OUTPUT COMMAND...: under --fail-nth=N, into OUTPUT and its trace
	record -f --frees="${policy:-deferred}" --fail-nth="$1" -o "$2.db" -- "${@:3}" \
		>"$2" 2>"$2.err"
	expect_empty "standard error at $1" "$2.err"
}

failed() { # TRACE: function and result of each failure of this origin
	query "$1" "SELECT api.name || ' ' || result || ' ' || COALESCE(bytes, '-')
		FROM failure JOIN api ON api.id = api_id WHERE origin = 'fail-nth'"
}

# What the N-th line says when its call fails; without the shared block there is no last one.
expected() { # N
	awk -v n="$1" '
		NR == n { $3 = 2 }
		n == 1 && $2 == "cuIpcOpenMemHandle_v2" { print NR " nothing to share"; next }
		{ print }' bare
}

it_fails_each_call_at_its_turn_and_only_that() {
	local policy n calls
	"$clients/scarce_turn" each >bare
	calls=$(wc -l <bare)
	expect_equal "failures without it" "" "$(grep -v ' 0$' bare)"
	[ "$calls" -ge 17 ] || fail "only $calls kinds of calls"
	for policy in $policies; do
		for ((n = 1; n <= calls; n++)); do
			nth $n once "$clients/scarce_turn" each
			diff <(expected $n) once || fail "$policy: another call than the $n. failed"
			expect_equal "$policy: function" \
				"$(sed -n "${n}s/^[0-9]* \(.*\) 0$/\1 2/p" bare)" \
				"$(failed once.db | cut -d' ' -f1-2)"
			expect_equal "$policy: all failures" 1 \
				"$(query once.db "SELECT count(*) FROM failure")"
			expect_equal "$policy: blocks that do not exist" 0 "$(query once.db "
				SELECT count(*) FROM allocation WHERE address = 0")"
		done
	done
}

it_fails_the_same_call_again() {
	local n
	for n in 1 5 14; do
		nth $n once "$clients/scarce_turn" each
		nth $n twice "$clients/scarce_turn" each
		diff once twice
		expect_equal "failure" "$(failed once.db)" "$(failed twice.db)"
		expect_match "options" "fail-nth=$n( |$)" \
			"$(query once.db "SELECT value FROM meta WHERE key = 'options'")"
	done
}

it_changes_nothing_where_there_are_not_so_many() {
	"$clients/scarce_turn" each >bare
	nth $(($(wc -l <bare) + 1)) once "$clients/scarce_turn" each
	diff bare once
	nth 18446744073709551615 once "$clients/scarce_turn" each
	diff bare once
	nth none once "$clients/scarce_turn" each
	diff bare once
	expect_equal "failures" 0 "$(query once.db "SELECT count(*) FROM failure")"
}

it_keeps_the_size_that_was_asked_for() {
	nth 2 once "$clients/scarce_turn" each
	expect_equal "failure" "cuMemAlloc_v2 2 $((3 << 20))" "$(failed once.db)"
	nth 15 once "$clients/scarce_turn" each
	expect_equal "failure" "cuGraphAddNode_v2 2 $((1 << 20))" "$(failed once.db)"
}

asked() { # FILE: calls that the simulated driver has named
	grep -c '^simulated driver: cuMemAlloc_v2$' "$1"
}

it_does_not_ask_the_driver() {
	export SIMCUDA_VERBOSE=1
	"$clients/scarce_turn" each >bare 2>bare.err
	record -f --frees=immediate --fail-nth=2 -o once.db -- "$clients/scarce_turn" each \
		>once 2>once.err
	expect_equal "calls that reach it" $(($(asked bare.err) - 1)) "$(asked once.err)"
}

it_flushes_nothing_and_tries_nothing_again() {
	policy=nowait nth 3 once "$clients/scarce_turn" each
	expect_equal "passes" 0 "$(query once.db "SELECT count(*) FROM flush WHERE cause = 'oom'")"
	expect_equal "failures of ours" 0 \
		"$(query once.db "SELECT count(*) FROM failure WHERE origin = 'custody'")"
}

it_fails_one_call_of_all_threads() {
	local policy
	for policy in $policies; do
		nth 1234 once "$clients/scarce_turn" threads 8 500
		expect_equal "$policy" "1 failures" "$(cat once)"
	done
	nth 4001 once "$clients/scarce_turn" threads 8 500
	expect_equal "one more than there are" "0 failures" "$(cat once)"
}

it_counts_in_every_process_for_itself() {
	local lines='child 1: 0 child 2: 2 child 3: 0 parent 1: 0 parent 2: 2 parent 3: 0'
	nth 2 once "$clients/scarce_turn" fork before
	expect_equal "fork" "$lines" "$(paste -sd' ' once)"
	nth 2 once "$clients/scarce_turn" exec "$clients/scarce_turn" fork before
	expect_equal "exec" "before: 0 $lines" "$(paste -sd' ' once)"
	nth 1 once "$clients/scarce_turn" exec "$clients/scarce_turn" each
	expect_equal "both images" 2 "$(failed once.db | wc -l)"
}

it_tells_in_the_report_which_call_it_was() {
	nth 2 once "$clients/scarce_turn" each
	"$custody" report once.db >report
	expect_match "sentence" 'turn of cuMemAlloc_v2.*turn_alloc.*--fail-nth' \
		"$(tr -s '\n ' ' ' <report)"
	"$custody" report --format=json once.db >json
	expect_match "JSON" '"origin": *"fail-nth"' "$(cat json)"
}

it_works_where_the_interposer_is_loaded_bare() {
	CUSTODY_FAIL_NTH=2 CUSTODY_OUTPUT=bare.db LD_PRELOAD=$preload \
		bounded "$clients/scarce_turn" each >once
	expect_equal "second call" "2 cuMemAlloc_v2 2" "$(sed -n 2p once)"
	wait_for_trace bare.db >/dev/null
	expect_match "options" 'fail-nth=2$' \
		"$(query bare.db "SELECT value FROM meta WHERE key = 'options'")"
}

run_behaviours "${1:-}"
