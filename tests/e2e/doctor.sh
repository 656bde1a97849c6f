#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What `custody doctor` says of a program and of the environment: what cannot be
# recorded, with status 1, and what should be known, with status 0.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

: "${CC:=cc}"

build() { # NAME FLAGS...: a program from x.c
	local name=$1
	shift
	[ -f x.c ] || echo 'int main(void) { return 0; }' >x.c
	$CC -o "$name" x.c "$@" 2>cc.err ||
		skip "no such program can be built here: $(tail -1 cc.err)"
}

ask() { # STATUS PROGRAM...: what doctor says, in `out`
	local wanted=$1 status=0
	shift
	bounded "$custody" doctor "$@" >out 2>err || status=$?
	[ "$status" = "$wanted" ] || fail "doctor: status $status, not $wanted: $(cat out err)"
}

expect_said() { # MARK PATTERN: a line with this mark, in a terminal's words or plain
	grep -E "^$1" out | grep -Eq -- "$2" || fail "no line like '$1 $2' in: $(cat out)"
}

it_is_content_with_a_program_that_can_be_recorded() {
	ask 0 "$clients/door_lazy"
	expect_said ok 'door_lazy can be recorded'
	expect_said ok 'linked with the driver'
	! grep -q '^BAD' out || fail "something is bad: $(cat out)"
}

it_names_a_static_program() {
	plain_build_only
	build static -static
	ask 1 ./static
	expect_said BAD 'statically linked'
}

it_names_a_program_for_musl() {
	plain_build_only
	build musl -Wl,--dynamic-linker=/lib/ld-musl-$(uname -m).so.1
	ask 1 ./musl
	expect_said BAD 'made for musl'
	build other -Wl,--dynamic-linker=/system/bin/linker64
	ask 1 ./other
	expect_said BAD "does not use glibc's loader"
}

it_names_a_program_for_another_processor() {
	printf '\177ELF\1\1\1%057d' 0 >narrow
	printf '\177ELF\2\2\1%057d' 0 >foreign
	chmod +x narrow foreign
	ask 1 ./narrow
	expect_said BAD '32-bit program'
	ask 1 ./foreign
	expect_said BAD 'another kind of processor'
}

it_names_a_program_that_gains_rights() {
	plain_build_only
	[ "$(id -u)" = 0 ] || skip "only root can make such a program"
	build gains
	chown 65534:65534 gains
	chmod 4755 gains
	[ "$(setpriv --reuid=65533 --clear-groups stat -c %a gains 2>/dev/null)" = 4755 ] ||
		[ -u gains ] || skip "the file system has no such rights"
	! findmnt -no OPTIONS -T . 2>/dev/null | grep -qw nosuid || skip "nosuid holds here"
	ask 1 ./gains
	expect_said BAD 'set-user-id'
	chmod 2755 gains
	ask 1 ./gains
	expect_said BAD 'set-group-id'
	chmod 755 gains
	ask 0 ./gains
}

it_names_a_program_that_uses_dlmopen() {
	plain_build_only
	cat >x.c <<-'EOF'
		#define _GNU_SOURCE
		#include <dlfcn.h>
		int main(int count, char **names)
		{
			return !dlmopen(LM_ID_NEWLM, names[count - 1], RTLD_LAZY) + !dlerror();
		}
	EOF
	build opens -ldl
	ask 0 ./opens
	expect_said note 'uses dlmopen'
}

it_names_what_RTLD_DEEPBIND_hides() {
	plain_build_only
	cat >x.c <<-'EOF'
		#include <dlfcn.h>
		int main(int count, char **names)
		{
			return !dlopen(names[count - 1], RTLD_LAZY);
		}
	EOF
	build opens -ldl
	ask 0 ./opens
	expect_said ok 'RTLD_DEEPBIND is seen only with CUSTODY_DEEPBIND=clear'
	export CUSTODY_DEEPBIND=clear
	ask 0 ./opens
	! grep -q 'is seen only with' out || fail "doctor does not know the option: $(cat out)"
	expect_said ok 'RTLD_DEEPBIND are opened without it'
	export CUSTODY_DEEPBIND=perhaps
	ask 0 ./opens
	expect_said note 'CUSTODY_DEEPBIND: .*the default is used'
}

it_looks_at_the_interpreter_of_a_script() {
	plain_build_only
	build static -static
	printf '#!%s\n' "$PWD/static" >script
	chmod +x script
	ask 1 ./script
	expect_said ok 'script is a script, run by .*/static'
	expect_said BAD 'statically linked'
}

it_says_that_a_program_is_not_there() {
	ask 1 ./nothing
	expect_said BAD 'nothing cannot be run: No such file'
	echo text >plain
	ask 1 ./plain
	expect_said BAD 'plain cannot be run: Permission denied'
	chmod +x plain
	ask 1 ./plain
	expect_said BAD 'neither an ELF program nor a script'
	ask 2 ./plain ./plain
}

it_names_other_tools_in_the_environment() {
	plain_build_only
	CUDA_INJECTION64_PATH=/opt/nsys/libToolsInjection64.so CUSTODY_GPU_TIMES=1 ask 0
	expect_said note 'CUDA_INJECTION64_PATH is set already .*Nsight Systems'
	expect_said note 'CUDA_INJECTION64_PATH names no file'
	expect_said note 'CUPTI is likely to be held by Nsight Systems'
	CUDA_INJECTION64_PATH=/opt/nsys/libToolsInjection64.so ask 0
	! grep -q 'likely to be held' out || fail "GPU times are spoken of: $(cat out)"
	LD_PRELOAD=$neighbours/neighbour_next.so ask 0
	expect_said note 'LD_PRELOAD is set already .*neighbour_next.so'
	ask 0
	! grep -Eq 'is set already' out || fail "something is set: $(cat out)"
}

run_behaviours "${1:-}"
