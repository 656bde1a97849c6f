#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Many threads on every resource of libcustody, some seconds each: as it is, while it
# records itself, preloaded, and under valgrind where there is one.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

stress=$top_builddir/tests/library/stress
seconds=${STRESS_SECONDS:-2}

it_leaves_nothing_behind_64_threads() {
	bounded "$stress" "$seconds" 64 >out 2>err || fail "status $?: $(cat err out)"
	expect_equal "lines of output" 1 "$(wc -l <out)"
	expect_match "output" '^stress: 64 threads, [0-9]+ steps, [0-9]+ contents checked$' \
		"$(cat out)"
	expect_empty "standard error" err
}

it_does_so_with_work_that_takes_its_time() {
	SIMCUDA_COPY_US=300 SIMCUDA_MEMSET_US=200 bounded "$stress" "$seconds" 64 2 >out 2>err ||
		fail "status $?: $(cat err out)"
}

it_does_so_where_little_is_queued() {
	CUSTODY_MAX_PENDING=1 CUSTODY_MAX_PENDING_RATIO=0.0001 bounded "$stress" "$seconds" 16 3 \
		>out 2>err || fail "status $?: $(cat err out)"
}

it_records_what_64_threads_do() {
	CUSTODY_OUTPUT=$PWD/t.db bounded "$stress" "$seconds" 64 4 >out 2>err ||
		fail "status $?: $(cat err out)"
	wait_until 60 is_complete t.db || fail "t.db was never completed"
	expect_equal "findings" 0 "$(query t.db "SELECT count(*) FROM finding")"
}

it_runs_preloaded() {
	plain_build_only
	record --frees=nowait -f -o t.db -- "$stress" "$seconds" 64 5 >out 2>err ||
		fail "status $?: $(cat err out)"
	expect_equal "findings" 0 "$(query t.db "SELECT count(*) FROM finding")"
}

it_is_clean_under_valgrind() {
	plain_build_only
	command -v valgrind >/dev/null || skip "there is no valgrind"
	# Past libtool's script, which is a shell's and not ours; all memory is looked through.
	SIMCUDA_MEMORY=512M LD_LIBRARY_PATH=$top_builddir/.libs:$LD_LIBRARY_PATH E2E_LIMIT=240 \
		bounded valgrind -q --error-exitcode=9 --leak-check=full \
		--errors-for-leak-kinds=definite --show-leak-kinds=definite \
		"${stress%/*}/.libs/${stress##*/}" 1 8 >out 2>err ||
		fail "status $?: $(head -n 40 err) $(cat out)"
}

run_behaviours "$@"
