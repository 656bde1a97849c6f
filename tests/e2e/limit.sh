#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# --limit: a program finds what it would find on a smaller device.  So it runs
# bare on one, and then under a limit on a larger one, and must see the same.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

policies=${E2E_POLICIES:-immediate deferred nowait}
export SIMCUDA_CONTEXT=60M

small() { # SIZE ARGUMENT...: on a device of that size, into bare.out
	SIMCUDA_MEMORY=$1 bounded "$clients/scarce_room" "${@:2}" >bare.out 2>bare.err
	expect_empty "standard error of $* alone" bare.err
}

limited() { # POLICY SIZE ARGUMENT...: on a larger device, into POLICY.out
	SIMCUDA_MEMORY=${larger:-2G} record -f --frees="$1" --limit="$2" -o "$1.db" -- \
		"$clients/scarce_room" "${@:3}" >"$1.out" 2>"$1.err"
	expect_empty "standard error of ${*:3} under $1" "$1.err"
}

same_as_smaller() { # SIZE ARGUMENT...
	local policy
	small "$@"
	for policy in $policies; do
		limited "$policy" "$@"
		diff bare.out "$policy.out" || fail "$policy: not what a smaller device is like"
		expect_equal "$policy: attempts the driver refused" 0 "$(query "$policy.db" "
			SELECT count(*) FROM failure WHERE result = 2 AND origin = 'program'")"
	done
}

refused() { # TRACE
	query "$1" "SELECT count(*) FROM failure WHERE origin = 'limit' AND result = 2"
}

it_lets_a_program_find_exactly_the_room_that_there_is() {
	same_as_smaller 512M search
	expect_equal "total" "total: $((512 << 20))" "$(head -1 bare.out)"
	expect_equal "linear" "linear: $((452 << 20)) of $((452 << 20))" "$(sed -n 2p bare.out)"
	[ "$(refused deferred.db)" -gt 50 ] || fail "nothing was refused"
	same_as_smaller 300M search $((100 << 20))
}

it_tells_the_same_in_every_form() {
	same_as_smaller 512M info
	larger=6G same_as_smaller 3G info
	larger=16G same_as_smaller 5G info
}

it_rounds_down_to_whole_pages() {
	small 512M info
	limited deferred $(((512 << 20) + 12345)) info
	diff bare.out deferred.out
}

it_changes_nothing_where_the_device_is_no_larger() {
	small 256M search
	larger=256M limited deferred 1G search
	diff bare.out deferred.out
	expect_equal "refused" 0 "$(refused deferred.db)"
}

it_gives_out_pages_that_small_blocks_share_to_the_last() {
	same_as_smaller 96M fill 4096
	same_as_smaller 96M fill $((1 << 20))
	same_as_smaller 96M fill 100000
	same_as_smaller 96M fill $((3 << 20))
}

it_limits_pools_too() {
	same_as_smaller 256M pool $((4 << 20))
	same_as_smaller 250M pool $((30 << 20))
	same_as_smaller 250M pool 1000
}

beyond() { # TRACE MIB: the highest reading, and whether it is so far beyond 512 MiB
	query "$1" "SELECT max(total_bytes - free_bytes) / 1048576 AS most,
		max(total_bytes - free_bytes) > ((512 + $2) << 20) AS is_beyond FROM reading"
}

# 128 MiB, of which chunks that wait for a stream are the most, and one call's chunk.
it_lets_pools_whose_idle_bytes_are_in_pieces_grow_no_further() {
	local policy
	for policy in $policies; do
		limited "$policy" 512M pieces 5000
		expect_equal "$policy" "0 threads got nothing" "$(cat "$policy.out")"
		expect_match "$policy: MiB in use at most" ',0$' "$(beyond "$policy.db" 160)"
		[ "$(refused "$policy.db")" -gt 100 ] || fail "$policy: nothing was refused"
	done
}

it_takes_back_what_pools_keep() {
	local policy
	for policy in $policies; do
		limited "$policy" 256M kept
		expect_equal "$policy" "all as one block: 0" "$(tail -1 "$policy.out")"
	done
}

it_counts_what_is_pending_as_free() {
	same_as_smaller 128M pending 50
}

it_gives_threads_all_and_no_more() {
	same_as_smaller 160M threads 2000
}

it_limits_each_device_wherever_the_program_is() {
	SIMCUDA_DEVICES=2 same_as_smaller 256M devices
}

it_leaves_the_host_alone() {
	same_as_smaller 256M host
}

it_counts_what_other_processes_use() {
	SIMCUDA_OTHERS=100M same_as_smaller 512M search
	expect_equal "linear" "linear: $((352 << 20)) of $((352 << 20))" "$(sed -n 2p bare.out)"
}

it_works_on_an_older_driver() {
	LD_LIBRARY_PATH=$top_builddir/tests/support/simdriver/old same_as_smaller 256M search
	SIMCUDA_POOLS=0 small 256M fill 4096
	SIMCUDA_POOLS=0 limited nowait 256M fill 4096
	diff bare.out nowait.out
}

it_spoils_no_capture() {
	same_as_smaller 256M capture
}

it_holds_in_children() {
	same_as_smaller 128M fork
}

it_says_so_once_where_a_context_takes_more_than_all() {
	local policy
	for policy in $policies; do
		record -f --frees="$policy" --limit=32M -o tiny.db -- "$clients/scarce_room" tiny \
			>out 2>err
		expect_equal "$policy" "free: 0 a block: 2 a block: 2 a block: 2" \
			"$(paste -sd' ' out)"
		expect_equal "lines" 1 "$(wc -l <err)"
		expect_match "sentence" 'limit of 32M leaves nothing.*60 MiB' "$(cat err)"
		expect_equal "refused" 3 "$(refused tiny.db)"
	done
}

it_tells_in_the_report_what_it_has_refused() {
	limited deferred 256M search
	expect_match "options" 'limit=256M( |$)' \
		"$(query deferred.db "SELECT value FROM meta WHERE key = 'options'")"
	"$custody" report deferred.db | tr -s '\n ' ' ' >report
	expect_match "sentence" '--limit.*driver was not asked' "$(cat report)"
}

it_works_where_the_interposer_is_loaded_bare() {
	small 256M info
	SIMCUDA_MEMORY=1G CUSTODY_LIMIT=256M CUSTODY_OUTPUT=t.db LD_PRELOAD=$preload \
		bounded "$clients/scarce_room" info >out
	diff bare.out out
	wait_for_trace t.db >/dev/null
}

run_behaviours "${1:-}"
