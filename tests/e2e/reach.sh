#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a preload does not reach: programs without it, other namespaces, libraries
# opened with RTLD_DEEPBIND.  The driver tells of them, through the library that
# CUDA_INJECTION64_PATH names.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

plugin=$neighbours/plugin.so
injection=${preload%/*}/libcustody-inject.so

notes() { # TRACE
	query "$1" "SELECT coalesce(note, 'none') FROM process ORDER BY id"
}

it_tells_of_a_program_that_lost_the_preload() {
	plain_build_only
	"$clients/door_lookup" dlsym >bare
	record -o t.db -- env -u LD_PRELOAD "$clients/door_lookup" dlsym >out 2>err
	diff bare out || fail "the program's output differs"
	expect_match "standard error" 'without the preload: LD_PRELOAD does not name it' \
		"$(cat err)"
	expect_equal "lines of standard error" 1 "$(wc -l <err)"
	expect_equal "notes" "not preloaded: LD_PRELOAD does not name it" "$(notes t.db)"
	expect_equal "blocks" 0 "$(query t.db 'SELECT count(*) FROM allocation')"
	expect_match "report" "Nothing of process [0-9]+ .*lookup.* is recorded: not preloaded" \
		"$("$custody" report t.db | tr -s '\n ' ' ')"
	expect_no_session
}

it_tells_a_lost_process_from_those_that_are_recorded() {
	plain_build_only
	E2E_JOURNAL=$PWD/journal bounded "$custody" record -o t.db -- sh -c \
		"'$clients/door_lookup' dlsym; env -u LD_PRELOAD -u E2E_JOURNAL \
		'$clients/door_lookup' dlsym; true" >out 2>err
	compare_rows t.db journal
	expect_equal "processes without a note" 1 "$(notes t.db | grep -c '^none$')"
	expect_equal "processes with one" 1 "$(notes t.db | grep -c '^not preloaded')"
	expect_match "summary" 'unseen +1 process was not recorded or only in part' "$(cat err)"
}

it_says_nothing_where_the_preload_is() {
	E2E_JOURNAL=$PWD/journal record -o t.db -- "$clients/door_lookup" dlsym >out 2>err
	expect_empty "standard error" err
	compare_rows t.db journal
	expect_equal "notes" none "$(notes t.db)"
	# The preload itself may be named, too.
	CUDA_INJECTION64_PATH=$preload record -f -o t.db -- "$clients/door_lookup" dlsym \
		>out 2>err
	expect_empty "standard error" err
	expect_equal "notes" none "$(notes t.db)"
}

it_leaves_the_variable_of_a_profiler_alone() {
	CUDA_INJECTION64_PATH=/opt/profiler.so record -o t.db -- sh -c \
		'echo "$CUDA_INJECTION64_PATH"' >out
	expect_equal "variable of the program" /opt/profiler.so "$(cat out)"
	record -o t.db -- sh -c 'echo "$CUDA_INJECTION64_PATH"' >out
	expect_equal "variable of the program" "$injection" "$(cat out)"
}

it_says_nothing_of_children_that_nobody_wants() {
	plain_build_only
	record --children=none -o t.db -- sh -c \
		"env -u LD_PRELOAD '$clients/door_lookup' dlsym; true" >out 2>err
	expect_empty "standard error" err
}

it_warns_without_a_session_too() {
	CUDA_INJECTION64_PATH=$injection sh -c '"$1" dlsym; true' - "$clients/door_lookup" \
		>out 2>err
	expect_match "standard error" 'without the preload' "$(cat err)"
	expect_no_session
}

# It is loaded late: what is there by then may be a file that the program writes.
it_writes_to_no_descriptor_that_was_opened_since() {
	plain_build_only
	record -o t.db -- sh -c 'exec env -u LD_PRELOAD "$@" 2>data' - \
		"$clients/door_lookup" dlsym >out
	expect_empty "the program's data" data
	expect_equal "notes" "not preloaded: LD_PRELOAD does not name it" "$(notes t.db)"
}

it_tells_of_a_driver_in_another_namespace() {
	plain_build_only
	"$clients/door_plugin" "$plugin" namespace >bare
	record -o t.db -- "$clients/door_plugin" "$plugin" namespace >out 2>err
	diff bare out || fail "the program's output differs"
	expect_match "standard error" 'dlmopen' "$(cat err)"
	expect_match "notes" '^not preloaded: another namespace' "$(notes t.db)"
}

it_tells_of_a_library_that_is_bound_past_it() {
	plain_build_only
	"$clients/door_plugin" "$plugin" deepbind >bare
	record -o t.db -- "$clients/door_plugin" "$plugin" deepbind >out 2>err
	diff bare out || fail "the program's output differs"
	expect_match "standard error" 'RTLD_DEEPBIND.*CUSTODY_DEEPBIND=clear' "$(cat err)"
	expect_equal "lines of standard error" 1 "$(wc -l <err)"
	expect_equal "notes" "driver started past the preload" "$(notes t.db)"
	expect_equal "blocks" 0 "$(query t.db 'SELECT count(*) FROM allocation')"
	expect_match "report" "Not all of process [0-9]+ .* is +recorded" \
		"$("$custody" report t.db | tr -s '\n ' ' ')"
}

it_sees_such_a_library_where_that_was_asked_for() {
	plain_build_only
	"$clients/door_plugin" "$plugin" deepbind >bare
	E2E_JOURNAL=$PWD/journal record --deepbind=clear -o t.db -- \
		"$clients/door_plugin" "$plugin" deepbind >out 2>err
	diff bare out || fail "the program's output differs"
	expect_empty "standard error" err
	compare_rows t.db journal
	expect_equal "notes" none "$(notes t.db)"
	E2E_JOURNAL=$PWD/journal.preload CUSTODY_DEEPBIND=clear CUSTODY_OUTPUT=preloaded.db \
		LD_PRELOAD=$preload bounded "$clients/door_plugin" "$plugin" deepbind >out
	wait_for_trace preloaded.db
	compare_rows preloaded.db journal.preload
}

# Profilers have an entry of the same name: the preload must not stand in front of it.
it_leaves_other_tools_their_entry() {
	plain_build_only
	build_tool
	./uses_tool >bare
	expect_equal "bare" "none its own" "$(tr '\n' ' ' <bare | sed 's/ $//')"
	record -o t.db -- ./uses_tool >out 2>err
	diff bare out || fail "the program's output differs"
	expect_empty "standard error" err
}

build_tool() {
	[ -n "${CC:-}" ] || skip "no compiler is told"
	cat >tool.c <<-'EOF'
		#include <stdio.h>
		int InitializeInjection(void)
		{
			return puts("its own");
		}
	EOF
	cat >uses_tool.c <<-'EOF'
		#include <stdio.h>
		extern int InitializeInjection(void) __attribute__((weak));
		#ifdef TOOL
		void start(void)
		{
			InitializeInjection();
		}
		#else
		#include <dlfcn.h>
		int main(void)
		{
			void *tool = dlopen("./tool.so", RTLD_NOW);
			void (*start)(void) = tool ? (void (*)(void))dlsym(tool, "start") : NULL;

			puts(InitializeInjection || dlsym(RTLD_DEFAULT, "InitializeInjection") ?
				     "there" : "none");
			if (start)
				start();
			return !start;
		}
		#endif
	EOF
	$CC -shared -fPIC -DTOOL -o tool.so tool.c uses_tool.c &&
		$CC -fPIC -pie -o uses_tool uses_tool.c -ldl || skip "no program can be built"
}

# The search path of the program that opens, not that of the preload, counts.
it_opens_libraries_as_the_program_itself_does() {
	plain_build_only
	mkdir own
	cp "$plugin" own/libfound_by_path.so
	patch_free_client
	expect_equal "bare" "found" "$(./opens)"
	expect_equal "preloaded" "found" "$(LD_PRELOAD=$preload ./opens)"
	expect_equal "cleared" "found" "$(CUSTODY_DEEPBIND=clear LD_PRELOAD=$preload ./opens)"
}

patch_free_client() {
	[ -n "${CC:-}" ] || skip "no compiler is told"
	cat >opens.c <<-'EOF'
		#include <dlfcn.h>
		#include <stdio.h>
		int main(void)
		{
			puts(dlopen("libfound_by_path.so", RTLD_LAZY) ? "found" : dlerror());
			return 0;
		}
	EOF
	$CC -o opens opens.c -ldl -Wl,-rpath,"$PWD/own" || skip "no program can be built"
}

# A neighbour that watches what is opened goes on seeing it.
it_leads_dlopen_past_a_neighbour() {
	plain_build_only
	local list
	E2E_NEIGHBOUR=$PWD/bare.seen LD_PRELOAD=$neighbours/neighbour_open.so \
		"$clients/door_plugin" "$plugin" >/dev/null
	[ -s bare.seen ] || fail "the neighbour alone sees nothing"
	for list in "$preload:$neighbours/neighbour_open.so" \
		"$neighbours/neighbour_open.so:$preload"; do
		rm -f seen
		E2E_NEIGHBOUR=$PWD/seen CUSTODY_OUTPUT=t%p.db LD_PRELOAD=$list \
			bounded "$clients/door_plugin" "$plugin" >/dev/null
		diff bare.seen seen || fail "the neighbour does not see what it saw alone: $list"
	done
}

run_behaviours "${1:-}"
