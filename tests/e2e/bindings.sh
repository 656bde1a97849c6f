#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Python programs on packages that nobody here wrote: NVIDIA's own bindings of the
# driver, and Numba.  E2E_PYTHON is a Python that has them (scripts/test makes one).
. "${top_srcdir:-.}/tests/e2e/harness.sh"

python=${E2E_PYTHON:-$PYTHON3}
PYTHONDONTWRITEBYTECODE=1
# Numba keeps nothing in the home of whoever runs this.
NUMBA_CACHE_DIR=$scratch/numba
export PYTHONDONTWRITEBYTECODE NUMBA_CACHE_DIR

has_package() { # MODULE PACKAGE
	plain_build_only
	[ -n "$python" ] || skip "there is no python3"
	"$python" -c "import $1" 2>/dev/null ||
		skip "$python has no $2 (PyPI); E2E_PYTHON names one that has"
}

# Both call a function by its plain name.
plain_names() {
	sed -E 's/_ptsz( |$)/\1/g; s/_v[0-9]+( |$)/\1/g'
}

compare() { # PATTERN SQL
	grep -E "$1" said | sort >expected
	query t.db "$2" | plain_names | sort >found
	diff -u expected found || fail "the trace does not show what the program did"
}

is_all_given_back() {
	expect_equal "blocks that were not given back" 0 "$(query t.db "
		SELECT count(*) FROM allocation WHERE released_ns IS NULL")"
	expect_equal "lost records" 0 "$(query t.db "SELECT count(*) FROM gap")"
}

it_records_what_programs_do_through_NVIDIAs_bindings() {
	has_package cuda.bindings.driver cuda-bindings
	local policy client=$e2e_src/bindings_client.py
	bounded "$python" "$client" >bare
	for policy in immediate deferred nowait; do
		record -f --frees=$policy -o t.db -- "$python" "$client" >said
		diff bare said || fail "the recording changes what the program says"
		compare ^alloc "SELECT 'alloc ' || kind || ' ' || bytes || ' ' || a.name || ' ' ||
			f.name FROM allocation JOIN api a ON a.id = api_id
			JOIN api f ON f.id = free_api_id"
		compare ^transfer "SELECT 'transfer ' || kind || ' ' || bytes || ' ' || a.name ||
			' ' || is_captured FROM transfer JOIN api a ON a.id = api_id"
		# The bindings look functions up, many of which this driver does not have.
		compare ^call "SELECT 'call ' || name || ' ' || sum(calls) || ' ' || sum(errors)
			FROM api_total WHERE name NOT LIKE 'cuGetProcAddress%' GROUP BY name"
		expect_equal "calls that failed" cuMemFree_v2 "$(query t.db "
			SELECT name FROM failure JOIN api a ON a.id = api_id
			WHERE name NOT LIKE 'cuGetProcAddress%'")"
		is_all_given_back
	done
}

it_records_Numbas_arrays_streams_and_pinned_memory() {
	has_package numba.cuda numba-cuda
	local policy client=$e2e_src/numba_client.py
	bounded "$python" "$client" >bare
	for policy in immediate nowait; do
		record -f --frees=$policy -o t.db -- "$python" "$client" >said
		diff bare said || fail "the recording changes what the program says"
		compare ^alloc "SELECT 'alloc ' || kind || ' ' || bytes FROM allocation"
		compare ^transfer "SELECT 'transfer ' || kind || ' ' || bytes || ' ' || a.name
			FROM transfer JOIN api a ON a.id = api_id"
		expect_equal "blocks that the program did not free" 0 "$(query t.db "
			SELECT count(*) FROM allocation WHERE free_requested_ns IS NULL")"
		expect_equal "copies that belong to no block" 0 "$(query t.db "
			SELECT count(*) FROM transfer
			WHERE coalesce(target_allocation_id, source_allocation_id) IS NULL")"
		is_all_given_back
	done
}

run_behaviours "${1:-}"
