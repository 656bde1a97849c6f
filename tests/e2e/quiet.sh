#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Programs that never touch CUDA: nothing is written, nothing is said, and they
# do not notice.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

stays_quiet() { # COMMAND...
	mkdir work
	(cd work && "$@") >bare.out 2>bare.err
	rm -rf work
	mkdir work
	(cd work && LD_PRELOAD=$preload bounded "$@") >out 2>err || fail "status $?: $(cat err)"
	diff bare.out out || fail "the output differs"
	diff bare.err err || fail "standard error differs"
	[ -z "$(find work -name '*.db*')" ] || fail "left: $(find work)"
	no_session_left || fail "left: $(find "$XDG_RUNTIME_DIR")"
}

it_leaves_bash_alone() {
	plain_build_only
	stays_quiet /bin/bash -c 'echo one; (echo two) | cat; exec /bin/echo three'
}

it_leaves_the_compiler_alone() {
	plain_build_only
	echo 'int main(void) { return 0; }' >"$PWD/x.c"
	stays_quiet ${CC:-cc} -O2 -o x "$PWD/x.c"
}

it_leaves_python_alone() {
	plain_build_only
	[ -n "$PYTHON3" ] || skip "there is no python3"
	stays_quiet "$PYTHON3" -c 'import json, subprocess, ctypes
print(json.dumps({"a": 1}))
print(subprocess.check_output(["echo", "child"]).decode())
print(ctypes.CDLL(None).getpid() > 0)'
}

it_leaves_a_shell_pipeline_with_many_processes_alone() {
	plain_build_only
	stays_quiet /bin/sh -c \
		'for i in 1 2 3 4 5 6 7 8 9 10; do (echo $i | tr 0-9 a-j); done | sort'
}

it_leaves_no_file_when_a_program_looks_but_does_not_call() {
	E2E_JOURNAL= stays_quiet "$clients/ends" never-used
}

it_records_nothing_of_a_program_without_CUDA_and_says_so() {
	plain_build_only
	bounded "$custody" record -o t.db -- /bin/echo hello >out 2>err
	expect_equal "output" hello "$(cat out)"
	expect_match "message" 'CUDA' "$(cat err)"
	no_session_left
}

run_behaviours "${1:-}"
