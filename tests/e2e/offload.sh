#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A program that nobody here wrote: GNU's OpenMP run-time goes through the driver to
# a device.  Its plug-in is Debian's libgomp-plugin-nvptx1; gcc-*-offload-nvptx makes
# code for the device, which the simulated one loads, links and launches for nothing.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

# The run-time looks at the sizes of its own variables.
SIMCUDA_GLOBALS=__gomp_device_num=4,__nvptx_clocktick=8,counter=4
# Never quietly on the host instead.
OMP_TARGET_OFFLOAD=MANDATORY
export SIMCUDA_GLOBALS OMP_TARGET_OFFLOAD

# A toolkit's ptxas would be asked to check code for devices that it has forgotten.
compile() { # OUTPUT OPTIONS...
	local output=$1
	shift
	PATH=/usr/bin:/bin gcc -std=gnu11 -O1 -fopenmp "$@" -o "$output" "$e2e_src/offload.c" \
		>log 2>&1
}

has_device() { # PROGRAM
	local status=0
	plain_build_only
	OMP_TARGET_OFFLOAD=DEFAULT bounded "$1" >bare || status=$?
	[ "$status" != 77 ] ||
		skip "the OpenMP run-time reaches no device here (Debian: libgomp-plugin-nvptx1)"
	[ "$status" = 0 ] || skip "without custody the program ends with status $status here"
}

# Copies of a few bytes are the run-time's own: pointers, arguments, clocks.
compare_copies() {
	grep -E '^(H2D|D2H|D2D) ' said | sort >expected
	query t.db "SELECT kind || ' ' || bytes FROM transfer
		WHERE result = 0 AND bytes > 16" | sort >found
	diff -u expected found || fail "the trace does not show what the program did"
}

compare_blocks() {
	local bytes
	for bytes in $(sed -n 's/^block //p' said | sort -u); do
		expect_equal "blocks of $bytes bytes" "$(grep -c "^block $bytes$" said)" "$(
			query t.db "SELECT count(*) FROM allocation
				WHERE kind = 'device' AND bytes = $bytes")"
	done
	expect_equal "blocks that were not given back" 0 "$(query t.db "
		SELECT count(*) FROM allocation WHERE released_ns IS NULL")"
	expect_equal "copies that belong to no block" 0 "$(query t.db "
		SELECT count(*) FROM transfer WHERE kind IN ('H2D', 'D2H', 'D2D')
		AND coalesce(target_allocation_id, source_allocation_id) IS NULL")"
}

run_under() { # POLICY PROGRAM
	record -f --frees="$1" -o t.db -- "$2" >said
	diff bare said || fail "the recording changes what the program says"
	compare_copies
	compare_blocks
}

it_records_the_device_memory_and_data_regions_of_OpenMP() {
	local policy
	compile ./offload -foffload=disable || skip "gcc makes no OpenMP programs here"
	has_device ./offload
	for policy in immediate deferred nowait; do
		run_under $policy ./offload
		expect_equal "blocks in all" "$(grep -cE '^(block|mapped)' said)" "$(query t.db "
			SELECT count(*) FROM allocation WHERE kind = 'device'")"
		expect_equal "functions that failed" cuCtxGetDevice "$(query t.db "
			SELECT DISTINCT name FROM api_total WHERE errors > 0")"
	done
}

it_records_regions_that_run_on_the_device() {
	local policy
	compile ./offload -DOFFLOADED -foffload=nvptx-none ||
		skip "gcc makes no code for devices here (Debian: gcc-offload-nvptx)"
	has_device ./offload
	for policy in immediate deferred nowait; do
		run_under $policy ./offload
		expect_equal "launches" "$(grep -c region said)" "$(query t.db "
			SELECT sum(calls) FROM api_total WHERE name = 'cuLaunchKernel'")"
		expect_equal "code that was loaded" 1 "$(query t.db "
			SELECT sum(calls) FROM api_total WHERE name = 'cuModuleLoadData'")"
		[ "$(query t.db "SELECT count(*) FROM allocation WHERE kind = 'module'")" -gt 0 ] ||
			fail "no variable of the code was recorded"
	done
}

run_behaviours "${1:-}"
