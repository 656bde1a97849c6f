#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# To the program a freed block is gone, whether or not the driver has it still:
# what it may ask and do is answered as without custody, under every policy.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

policies="immediate deferred nowait"
kinds="device small pitch managed pinned"

# Under `deferred` what is not plain memory is released at once.
is_put_off() { # POLICY KIND
	case $1 in
	immediate) false ;;
	deferred) [ "$2" != managed ] && [ "$2" != pinned ] ;;
	*) true ;;
	esac
}

findings() { # KIND
	query t.db "SELECT count(*) FROM finding WHERE kind = '$1'"
}

answers_stay() { # FAMILY FINDING HOW-MANY
	local kind policy
	for kind in $kinds; do
		bounded "$clients/freed" "$1" "$kind" >bare
		for policy in $policies; do
			record -f -o t.db --frees="$policy" -- \
				"$clients/freed" "$1" "$kind" >answers
			diff bare answers >difference ||
				fail "$1 about $kind memory under $policy: $(cat difference)"
			if is_put_off "$policy" "$kind"; then
				expect_equal "findings, $kind, $policy" "$3" "$(findings "$2")"
			else
				expect_equal "findings, $kind, $policy" 0 "$(findings "$2")"
			fi
		done
	done
}

it_answers_questions_and_exports_of_a_freed_block_as_ever() {
	answers_stay question "use after free" 0
}

it_refuses_a_second_free_in_each_of_its_forms() {
	answers_stay twice "double free" 3
}

it_refuses_copies_that_name_a_freed_block() {
	answers_stay copy "use after free" 10
}

it_refuses_copies_of_boxes_and_between_contexts() {
	answers_stay box "use after free" 11
}

it_lets_through_what_moves_nothing() {
	answers_stay nothing "use after free" 0
}

it_refuses_fills_and_prefetches() {
	answers_stay fill "use after free" 10
}

it_refuses_memory_operations_of_streams() {
	answers_stay wait "use after free" 5
}

it_refuses_nodes_of_graphs() {
	answers_stay graph "use after free" 8
}

# What is unused is released before a capture begins; what is not stays pending.
it_leaves_a_capture_alive_that_names_a_freed_block() {
	local kind policy
	for kind in $kinds; do
		bounded "$clients/freed" capture "$kind" >bare
		for policy in $policies; do
			SIMCUDA_COPY_US=200000 record -f -o t.db --frees="$policy" -- \
				"$clients/freed" capture "$kind" >answers
			diff bare answers >difference ||
				fail "$kind memory under $policy: $(cat difference)"
		done
		expect_equal "findings, $kind" "3 1" \
			"$(findings 'use after free') $(findings 'double free')"
	done
}

it_asks_the_driver_about_an_address_that_nobody_has() {
	local family
	for family in question copy box fill wait graph twice; do
		bounded "$clients/freed" "$family" nobody >nobody
		bounded "$clients/freed" "$family" device >bare
		diff bare nobody || fail "the driver tells a freed block from 0x100: $family"
	done
}

it_spares_a_program_the_crash_where_addresses_are_unified() {
	record -o t.db --frees=nowait -- "$clients/freed" unified device >answers
	expect_equal "refused" 4 "$(grep -c '^cuMemcpy.* 1$' answers)"
	expect_equal "findings" 4 "$(findings 'use after free')"
	record -f -o t.db --frees=nowait -- "$clients/freed" batch device >answers
	expect_equal "findings" 2 "$(findings 'use after free')"
}

it_tells_which_block_and_which_call_it_was() {
	record -o t.db --frees=nowait -- "$clients/freed" copy device >answers
	expect_equal "finding" "cuMemcpyHtoD_v2 1000 4194304" "$(query t.db "
		SELECT p.name || ' ' || (f.address - a.address) || ' ' || a.bytes FROM finding f
		JOIN api p ON p.id = f.api_id JOIN allocation a ON a.id = f.allocation_id
		WHERE f.address <> a.address")"
	expect_equal "transfers refused" 10 \
		"$(query t.db "SELECT count(*) FROM transfer WHERE result = 1")"
}

# ---------------------------------------------------------------------- scopes

flushes() { # CAUSE: how often, and how many blocks
	query t.db "SELECT count(*) || ' ' || coalesce(sum(count), 0) FROM flush
		WHERE cause = '$1'"
}

run_scope() { # ARGUMENTS...
	local status=0
	record -f -o t.db --frees=nowait --max-pending=10 -- "$clients/scope" "$@" || status=$?
	[ "$status" -ne 77 ] || skip "NVTX's header was not found"
	expect_equal "exit status" 0 "$status"
}

it_flushes_in_a_range_of_another_name() {
	run_scope none
	[ "$(query t.db "SELECT count(*) > 0 FROM flush WHERE cause = 'count'")" = 1 ] ||
		fail "nothing was flushed: the other scopes show nothing"
	expect_equal "flushes by scope" "0 0" "$(flushes scope)"
}

it_suspends_flushing_in_a_range_of_that_name() {
	local how
	for how in push start domain; do
		run_scope "$how"
		expect_equal "flushes by count, $how" "0 0" "$(flushes count)"
		expect_equal "flushes by scope, $how" "1 20" "$(flushes scope)"
	done
}

it_hears_of_ranges_in_every_module() {
	run_scope push "$neighbours/scope_plugin.so"
	expect_equal "flushes by scope" "1 20" "$(flushes scope)"
	run_scope start "$neighbours/scope_plugin.so"
	expect_equal "flushes by scope" "1 20" "$(flushes scope)"
}

it_leaves_the_variable_to_whoever_has_set_it() {
	NVTX_INJECTION64_PATH=/nowhere run_scope push
	expect_equal "flushes by scope" "0 0" "$(flushes scope)"
}

it_hears_of_ranges_under_a_bare_preload() {
	local trace status=0
	NVTX_INJECTION64_PATH=$preload LD_PRELOAD=$preload CUSTODY_FREES=nowait \
		CUSTODY_MAX_PENDING=10 CUSTODY_OUTPUT=$PWD/t.db \
		bounded "$clients/scope" push || status=$?
	[ "$status" -ne 77 ] || skip "NVTX's header was not found"
	expect_equal "exit status" 0 "$status"
	trace=$(wait_for_trace "$PWD/t.db")
	expect_equal "trace" "$PWD/t.db" "$trace"
	expect_equal "flushes by scope" "1 20" "$(flushes scope)"
}

# ------------------------------------------------------------------ exclusions

it_puts_nothing_off_under_a_memory_checker() {
	plain_build_only
	mkdir checker
	cp "$neighbours/scope_plugin.so" checker/libsanitizer-collection.so
	LD_PRELOAD=$PWD/checker/libsanitizer-collection.so \
		record -o t.db --frees=nowait -- "$clients/freed" copy device >answers
	expect_equal "findings" 0 "$(findings 'use after free')"
	expect_equal "put off" 0 "$(query t.db "
		SELECT count(*) FROM allocation WHERE release_cause <> 'freed'
			AND kind = 'device' AND bytes = 4194304")"
}

run_behaviours "${1:-}"
