#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The same as installed: everything finds everything from the places where
# make install puts it, and none of it from the build tree.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

unset MAKEFLAGS MFLAGS MAKELEVEL CUSTODY_PROGRAM
root=$scratch/root
prefix=$(sed -n 's/^prefix = //p' "$top_builddir/Makefile")
installed=$root$prefix/bin/custody
installed_preload=$(sed -n 's/^libdir = //p' "$top_builddir/Makefile")
installed_preload=${installed_preload//'${exec_prefix}'/$prefix}
installed_preload=$root${installed_preload//'${prefix}'/$prefix}/libcustody-preload.so

it_can_be_installed_anywhere() {
	make -s -C "$top_builddir" install DESTDIR="$root" >log 2>&1 || fail "$(tail -20 log)"
	[ -x "$installed" ] || fail "there is no $installed"
	[ -f "$installed_preload" ] || fail "there is no $installed_preload"
	[ -z "$(find "$root" -name '*.la')" ] || fail "libtool's files are installed"
}

it_records_from_where_it_is_installed() {
	E2E_JOURNAL=$PWD/journal bounded "$installed" record -q -o t.db -- "$clients/door_lazy"
	compare_rows t.db journal
	expect_equal "preload" "$installed_preload" "$(realpath "$(query t.db "
		SELECT path FROM module WHERE path LIKE '%libcustody-preload%'")")"
}

it_brings_the_simulated_driver() {
	E2E_JOURNAL=$PWD/journal bounded env -u LD_LIBRARY_PATH "$installed" record -q --simulate \
		-o t.db -- "$clients/door_lookup" dlsym
	compare_rows t.db journal
}

it_has_what_a_program_is_linked_with() {
	plain_build_only
	command -v pkg-config >/dev/null || skip "there is no pkg-config"
	local library=${installed_preload%/*}
	# shellcheck disable=SC2046 # flags are words
	${CC:-cc} -o quick "$top_srcdir/examples/quick_start.c" $(PKG_CONFIG_SYSROOT_DIR=$root \
		PKG_CONFIG_PATH=$library/pkgconfig pkg-config --cflags --libs custody) \
		-I"$CUDA_INCLUDE_DIR" 2>log || fail "$(cat log)"
	LD_LIBRARY_PATH=$library:$simulated CUSTODY_OUTPUT=q.db bounded ./quick >out 2>err ||
		fail "$(cat err out)"
	expect_match "output" '^round trip  4000 bytes' "$(cat out)"
	wait_for_trace q.db >/dev/null
	expect_equal "blocks" 1 "$(query q.db "SELECT count(*) FROM allocation
		WHERE kind = 'device'")"
}

it_leaves_a_trace_of_a_bare_program() {
	E2E_JOURNAL=$PWD/journal CUSTODY_OUTPUT=t.db LD_PRELOAD=$installed_preload \
		bounded "$clients/door_lazy" 2>err
	expect_empty "standard error" err
	wait_for_trace t.db >/dev/null
	compare_rows t.db journal
}

# LD_PRELOAD takes a blank for the end of a name.
it_works_from_a_place_with_a_blank_in_its_name_or_says_why_not() {
	mkdir "a place"
	cp -r "$root" "a place/root"
	local status=0
	E2E_JOURNAL=$PWD/journal bounded "a place/root$prefix/bin/custody" record -q -o t.db -- \
		"$clients/door_lazy" 2>err || status=$?
	if [ "$status" = 0 ]; then
		compare_rows t.db journal
	else
		expect_equal "status" 1 "$status"
		expect_equal "sentences" 1 "$(wc -l <err)"
		[ ! -e journal ] || fail "the program ran all the same"
	fi
}

it_proves_itself() {
	bounded "$installed" doctor >out 2>err || fail "doctor: $(cat out err)"
}

it_can_be_removed_again() {
	make -s -C "$top_builddir" uninstall DESTDIR="$root" >log 2>&1 || fail "$(tail -20 log)"
	[ -z "$(find "$root" ! -type d)" ] || fail "left behind: $(find "$root" ! -type d)"
}

run_behaviours
