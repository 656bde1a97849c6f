#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every way in which a program comes to a driver function, and every family of
# functions: rows of cases.tbl.  A client runs bare first: its output and exit
# status must be the same when it is watched.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

# Arguments as in the row, with what they stand for.
expand() {
	local text=${1//@SIM@/$simulated}
	echo "${text//@PLUGIN@/$neighbours/plugin.so}"
}

run_bare() {
	env $3 "$clients/$1" $2 >bare.out 2>bare.err || fail "bare: status $?: $(cat bare.err)"
	expect_empty "standard error of the bare run" bare.err
}

run_recorded() { # CLIENT ARGUMENTS ENVIRONMENT POLICY
	rm -f journal
	E2E_JOURNAL=$PWD/journal bounded env $3 "$custody" record -q --frees="$4" -o "$4.db" -- \
		"$clients/$1" $2 >recorded.out 2>recorded.err ||
		fail "recorded under $4: status $?: $(cat recorded.err)"
	diff bare.out recorded.out || fail "the program's output differs under $4"
	expect_empty "standard error of the run recorded under $4" recorded.err
	compare_rows "$4.db" journal
}

run_preloaded() {
	E2E_JOURNAL=$PWD/journal.preload bounded env $3 CUSTODY_OUTPUT=preloaded.db \
		LD_PRELOAD="$preload" "$clients/$1" $2 >preloaded.out 2>preloaded.err ||
		fail "preloaded: status $?: $(cat preloaded.err)"
	diff bare.out preloaded.out || fail "the program's output differs"
	expect_empty "standard error of the preloaded run" preloaded.err
	wait_for_trace preloaded.db
	compare_rows preloaded.db journal.preload
}

# A row whose environment names a policy says that the others are not for it.
run_row() { # CLIENT ARGUMENTS ENVIRONMENT
	local arguments policy policies='immediate deferred nowait'
	case $3 in *CUSTODY_FREES=*) policies=${3#*CUSTODY_FREES=} policies=${policies%% *} ;; esac
	arguments=$(expand "$2")
	run_bare "$1" "$arguments" "$3"
	for policy in $policies; do
		run_recorded "$1" "$arguments" "$3" "$policy"
	done
	run_preloaded "$1" "$arguments" "$3"
	expect_no_session
}

it_records_a_Python_program_that_uses_ctypes() {
	plain_build_only
	[ -n "$PYTHON3" ] || skip "there is no python3"
	"$PYTHON3" "$e2e_src/ctypes_client.py" >bare.out
	record -o t.db -- "$PYTHON3" "$e2e_src/ctypes_client.py" >out 2>err
	diff bare.out out
	expect_empty "standard error" err
	expect_equal "rows" "$(cat out)" "$(query t.db "
		SELECT 'H2D ' || (SELECT bytes FROM transfer WHERE kind = 'H2D')
			|| ' D2H ' || (SELECT bytes FROM transfer WHERE kind = 'D2H')
			|| ' device ' || (SELECT bytes FROM allocation
				WHERE kind = 'device' AND free_requested_ns > 0)")"
}

it_records_with_the_simulated_driver_that_it_brings() {
	E2E_JOURNAL=$PWD/journal bounded env -u LD_LIBRARY_PATH "$custody" record -q --simulate \
		-o t.db -- "$clients/door_lookup" dlsym
	compare_rows t.db journal
}

it_knows_the_devices_of_both_ends_of_a_copy() {
	SIMCUDA_DEVICES=2 record -o t.db -- "$clients/cover_shape"
	expect_equal "devices of copies between devices" "0>1 1>0" "$(query t.db "
		SELECT DISTINCT s.ordinal || '>' || g.ordinal AS pair FROM transfer t
		JOIN device s ON s.id = t.source_device_id
		JOIN device g ON g.id = t.target_device_id
		WHERE t.kind = 'P2P' ORDER BY pair" | paste -sd' ')"
	expect_equal "copies between devices" 0 "$(query t.db "
		SELECT count(*) FROM transfer
		WHERE kind = 'P2P' AND source_device_id IS target_device_id")"
	expect_equal "blocks on the second device" 1048576 "$(query t.db "
		SELECT sum(bytes) FROM allocation a JOIN device d ON d.id = a.device_id
		WHERE d.ordinal = 1")"
	expect_equal "devices" "2 2" "$(query t.db "
		SELECT count(*) || ' ' || count(DISTINCT uuid) FROM device WHERE total_bytes > 0")"
}

it_knows_which_blocks_were_exported() {
	record -o t.db -- "$clients/cover_module"
	expect_equal "exported blocks" 65536 "$(query t.db "
		SELECT bytes FROM allocation WHERE is_exported AND kind = 'device'")"
}

it_knows_which_handles_were_exported() {
	record -o t.db -- "$clients/cover_vmm"
	expect_equal "exported handles of all" "1 of 5" "$(query t.db "
		SELECT sum(is_exported) || ' of ' || count(*)
		FROM allocation WHERE parent_id IS NULL")"
	expect_equal "size of the exported one, of the smallest" 3 "$(query t.db "
		SELECT max(is_exported * bytes) / min(bytes) FROM allocation")"
}

run_rows door run_row "${1:-}"
run_rows cover run_row "${1:-}"
run_behaviours "${1:-}"
