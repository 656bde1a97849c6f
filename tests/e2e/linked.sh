#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Programs that are linked with libcustody: recorded by a variable, by a call, and
# under `custody record` whatever its policy, they leave the same trace; what the
# library frees never waits, what the program frees follows the policy.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

library=$top_builddir/.libs/libcustody.so.0
policies=${E2E_POLICIES:-immediate deferred nowait}

# What is to be the same in all traces of one program: blocks and who freed them,
# copies and fills.
same="
SELECT 'block ' || a.kind || ' ' || a.bytes || ' ' || api.name || ' ' || iif(a.free_requested_ns
	IS NULL, 'kept', 'freed') || ' ' || count(*)
FROM allocation a JOIN api ON api.id = a.api_id GROUP BY a.kind, a.bytes, api.name,
	a.free_requested_ns IS NULL
UNION ALL
SELECT 'transfer ' || t.kind || ' ' || t.bytes || ' ' || api.name || ' ' || count(*)
FROM transfer t JOIN api ON api.id = t.api_id GROUP BY t.kind, t.bytes, api.name
UNION ALL
SELECT 'operation ' || api.name || ' ' || count(*) FROM operation o
	JOIN api ON api.id = o.api_id WHERE api.name LIKE 'cuStream%' OR api.name LIKE 'cuEvent%'
	GROUP BY api.name
ORDER BY 1"

# Of what the library does: blocks of its sizes.
of_library='bytes % 4096 = 0'

# A line for whatever contradicts itself.
contradictions="
SELECT 'address twice alive ' || a.address FROM allocation a JOIN allocation b
	ON a.process_id = b.process_id AND a.address = b.address AND a.id < b.id
	AND a.alloc_ns < b.alloc_ns AND b.alloc_ns < coalesce(a.released_ns, 1 << 62)
UNION ALL
SELECT 'a free of the library waited' FROM allocation
	WHERE $of_library AND free_waited_ns > 0
UNION ALL
SELECT 'a pass waited' FROM flush WHERE waited_ns > 0
UNION ALL
SELECT 'a release failed' FROM flush WHERE failed > 0
UNION ALL
SELECT 'finding' FROM finding
UNION ALL
SELECT 'gap' FROM gap"

linked() { # ARGUMENT...: as a program that nobody records
	bounded "$clients/linked" "$@"
}

expect_good_trace() { # TRACE
	expect_equal "contradictions in $1" "" "$(query "$1" "$contradictions")"
	expect_equal "rows of the process in $1" 1 "$(query "$1" "SELECT count(*) FROM process")"
	expect_equal "frees put off in $1" 13 "$(query "$1" "SELECT count(*) FROM allocation
		WHERE $of_library AND free_waited_ns IS NOT NULL")"
	expect_equal "items of passes over the library's queue in $1" yes "$(query "$1" "
		SELECT iif(sum(count) >= 11, 'yes', 'no') FROM flush WHERE cause = 'count'
		AND queue = 'memory'")"
	"$custody" report "$1" >report || fail "no report of $1"
	expect_match "who holds the memory in $1" 'linked\+0x[0-9a-f]+ .*device +14' "$(cat report)"
}

compare_with() { # TRACE: with what a.rows holds
	query "$1" "$same" >b.rows
	diff -u a.rows b.rows || fail "$1 shows something else"
}

it_records_nothing_unless_it_is_asked() {
	linked both >out 2>err
	expect_empty "standard error" err
	expect_equal "files" "err out" "$(echo *)"
	expect_no_session
}

it_leaves_the_same_trace_however_it_is_recorded() {
	linked work >bare
	CUSTODY_OUTPUT=a.db linked work >out 2>err
	expect_empty "standard error" err
	expect_empty "difference" <(diff bare out)
	wait_for_trace a.db >/dev/null
	expect_good_trace a.db
	query a.db "$same" >a.rows
	expect_match "rows" 'block device 53248 cuMemAlloc_v2 freed 1' "$(cat a.rows)"
	expect_match "rows" 'block device 57344 cuMemAlloc_v2 kept 1' "$(cat a.rows)"
	expect_match "rows" 'operation cuStreamDestroy_v2 1' "$(cat a.rows)"
	linked work b.db >out 2>err
	expect_empty "standard error" err
	wait_for_trace b.db >/dev/null
	expect_good_trace b.db
	compare_with b.db
	expect_no_session
}

it_finds_its_collector_by_itself() {
	plain_build_only
	env -u CUSTODY_PROGRAM CUSTODY_OUTPUT=a.db "$clients/linked" work >out 2>err
	expect_empty "standard error" err
	wait_for_trace a.db >/dev/null
	expect_good_trace a.db
}

it_is_recorded_once_under_custody_record() {
	plain_build_only
	linked both >bare
	CUSTODY_OUTPUT=a.db linked work >out
	wait_for_trace a.db >/dev/null
	query a.db "$same" >a.rows
	for policy in $policies; do
		record -f --frees="$policy" -o c.db -- "$clients/linked" work >out 2>err
		expect_empty "standard error under $policy" err
		expect_good_trace c.db
		compare_with c.db
		# The program's own calls are there too then.
		record -f --frees="$policy" -o d.db -- "$clients/linked" both >out 2>err
		diff bare out || fail "the output differs under $policy"
		expect_good_trace d.db
		expect_equal "blocks of the program under $policy" 3 "$(query d.db "
			SELECT count(*) FROM allocation WHERE bytes = 100000
			AND free_requested_ns IS NOT NULL")"
		expect_equal "of them put off under $policy" \
			"$([ "$policy" = immediate ] && echo 0 || echo 3)" "$(query d.db "
			SELECT count(*) FROM allocation WHERE bytes = 100000
			AND free_waited_ns IS NOT NULL")"
	done
	expect_no_session
}

it_goes_on_with_the_recording_that_is_there() {
	plain_build_only
	record -o t.db -- "$clients/linked" started other.db >out 2>err
	expect_empty "standard error" err
	expect_match "output" 'is on: 1' "$(cat out)"
	expect_match "output" 'again: 1' "$(cat out)"
	expect_equal "files" "err out t.db" "$(echo *)"
	expect_good_trace t.db
	linked started mine.db >out
	expect_match "output" 'is on: 1' "$(cat out)"
	wait_for_trace mine.db >/dev/null
	expect_good_trace mine.db
}

it_frees_without_a_wait_whatever_the_program_does() {
	plain_build_only
	printf 'library: at once\nprogram: waited\n' >waits
	printf 'library: at once\nprogram: at once\n' >goes_on
	linked busy >out
	diff waits out || fail "by itself"
	for policy in $policies; do
		record -f --frees="$policy" -o t.db -- "$clients/linked" busy >out 2>err
		expect_empty "standard error under $policy" err
		diff "$([ "$policy" = nowait ] && echo goes_on || echo waits)" out ||
			fail "under $policy"
		"$custody" report t.db | tr -s '\n ' ' ' >report
		if [ "$policy" = immediate ]; then
			expect_match "report" 'to the driver at once, but for those of libcustody' \
				"$(cat report)"
		fi
		expect_equal "frees of the library that waited under $policy" 0 "$(query t.db "
			SELECT count(*) FROM allocation WHERE bytes = 4096 AND free_waited_ns > 0")"
	done
}

it_leaves_a_child_of_fork_alone() {
	linked fork >bare 2>err
	expect_empty "standard error" err
	expect_equal "what the child found" "child: 0" "$(grep child bare)"
	CUSTODY_OUTPUT=a.db linked fork >out 2>err
	expect_empty "standard error" err
	diff bare out || fail "the output differs"
	wait_for_trace a.db >/dev/null
	expect_equal "processes" 1 "$(query a.db "SELECT count(*) FROM process")"
	expect_equal "frees put off" 26 "$(query a.db "SELECT count(*) FROM allocation
		WHERE free_waited_ns = 0")"
	expect_equal "traces" a.db "$(echo *.db)"
}

it_records_functions_that_are_taken_from_it() {
	CUSTODY_OUTPUT=a.db linked functions >out 2>err
	wait_for_trace a.db >/dev/null
	expect_equal "blocks put off" 3 "$(query a.db "SELECT count(*) FROM allocation
		WHERE bytes = 5000 AND free_waited_ns = 0")"
}

it_comes_after_the_program_has_begun() {
	CUSTODY_OUTPUT=a.db linked late >out 2>err
	expect_empty "standard error" err
	wait_for_trace a.db >/dev/null
	expect_good_trace a.db
}

# LD_PRELOAD is lost, the session is not.
it_joins_a_recording_that_lost_its_preload() {
	plain_build_only
	record -o t.db -- env -u LD_PRELOAD "$clients/linked" work >out 2>err
	expect_empty "standard error" err
	expect_good_trace t.db
	expect_equal "notes" none "$(query t.db "SELECT coalesce(note, 'none') FROM process")"
	expect_no_session
}

it_records_nothing_beside_another_preload() {
	plain_build_only
	linked work >bare
	CUSTODY_OUTPUT=a.db LD_PRELOAD=$neighbours/neighbour_version.so linked work >out 2>err
	diff bare out || fail "the output differs"
	expect_match "standard error" 'another version than libcustody' "$(cat err)"
	expect_equal "lines of standard error" 1 "$(wc -l <err)"
	expect_status 1 env LD_PRELOAD="$neighbours/neighbour_version.so" "$clients/linked" \
		work b.db >out 2>err
	expect_match "standard error" 'custody_trace_start' "$(cat err)"
	expect_equal "files" "bare err out" "$(echo *)"
	expect_no_session
}

# What the environment of a program says that gains rights is not the program's to obey.
it_obeys_no_variable_where_rights_are_gained() {
	[ "$(id -u)" = 0 ] && setpriv --reuid 65534 true 2>/dev/null ||
		skip "only root can make such a program"
	cp "$(readlink -f "$clients/linked")" gained
	chmod 755 . gained && chmod u+s gained
	mkdir -m 777 out
	setpriv --reuid 65534 --clear-groups true || skip "no other user can be had"
	(cd out && setpriv --reuid 65534 --clear-groups \
		env CUSTODY_OUTPUT="$PWD/t.db" ../gained work >stdout 2>stderr) ||
		skip "the program does not run there: $(head -1 out/stderr)"
	sleep 0.3
	expect_equal "files" "stderr stdout" "$(ls out | tr '\n' ' ' | sed 's/ $//')"
}

it_can_be_loaded_late() {
	plain_build_only
	local list=
	for name in libcustody libm.so.6 libgomp.so.1 libstdc++.so.6 libuuid.so.1 libblkid.so.1; do
		[ "$name" = libcustody ] || list="$list '$name',"
	done
	"$PYTHON3" - >out 2>err <<-END || fail "$(cat err)"
	import ctypes, ctypes.util, threading
	for name in [$list]:
	    try:
	        ctypes.CDLL(name)
	    except OSError:
	        pass
	custody = ctypes.CDLL("$library")
	context = ctypes.c_void_p()
	assert custody.custody_context_current(0, ctypes.byref(context)) == 0
	resource = ctypes.c_void_p()
	assert custody.custody_resource_device(context, ctypes.byref(resource)) == 0
	def work():
	    for i in range(20):
	        buffer = ctypes.c_void_p()
	        assert custody.custody_buffer_create(resource, ctypes.c_size_t(4096), None,
	            ctypes.byref(buffer)) == 0
	        assert custody.custody_buffer_release(buffer) == 0
	threads = [threading.Thread(target=work) for i in range(4)]
	[thread.start() for thread in threads]
	[thread.join() for thread in threads]
	print("good")
	END
	expect_equal "output" good "$(cat out)"
	expect_empty "standard error" err
}

run_behaviours "$@"
