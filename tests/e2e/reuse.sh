#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Addresses come back, ids do not, and copies belong to the block that was there.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

check_joins() { # BLOCKS
	expect_equal "blocks" "$1" "$(query t.db "SELECT count(*) FROM allocation")"
	expect_equal "blocks freed" "$1" \
		"$(query t.db "SELECT count(*) FROM allocation WHERE free_requested_ns > 0")"
	expect_equal "copies" "$1" "$(query t.db "SELECT count(*) FROM transfer")"
	expect_equal "copies joined to a block of another" 0 "$(query t.db "
		SELECT count(*) FROM transfer t
		LEFT JOIN allocation a ON a.id = t.target_allocation_id
		WHERE a.id IS NULL OR a.bytes <> 2 * t.bytes OR a.thread_id <> t.thread_id
			OR t.target_address <> a.address + t.bytes")"
	expect_equal "blocks that overlap in space and time" 0 "$(query t.db "
		SELECT count(*) FROM allocation a JOIN allocation b ON a.address = b.address
			AND a.id < b.id
		WHERE a.alloc_ns + a.alloc_duration_ns < b.free_requested_ns
			AND b.alloc_ns + b.alloc_duration_ns < a.free_requested_ns")"
}

it_gives_each_block_an_id_of_its_own_when_one_address_is_used_again_and_again() {
	record -o t.db -- "$clients/reuse" 1 4000
	check_joins 4000
	[ "$(query t.db "SELECT count(DISTINCT address) < 2000 FROM allocation")" = 1 ] ||
		fail "the driver did not reuse addresses: nothing was shown"
}

it_joins_copies_to_the_right_block_under_eight_threads() {
	record -o t.db -- "$clients/reuse" 8 1000
	check_joins 8000
	expect_equal "threads" 8 "$(query t.db "
		SELECT count(DISTINCT thread_id) FROM allocation")"
	[ "$(query t.db "SELECT count(DISTINCT address) < 8000 FROM allocation")" = 1 ] ||
		fail "the driver did not reuse addresses: nothing was shown"
}

it_joins_them_when_the_driver_takes_its_time() {
	SIMCUDA_COPY_US=20 record -o t.db -- "$clients/reuse" 8 200
	check_joins 1600
}

run_behaviours "${1:-}"
