#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The command line: verbs, options, their environment twins, exit statuses.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

usage_error() { # COMMAND...: exit 2, a sentence, nothing on standard output
	expect_status 2 bounded "$@" >out 2>err
	expect_empty "standard output of $*" out
	[ -s err ] || fail "$* says nothing"
}

it_explains_itself_and_every_verb() {
	local verb
	"$custody" --help >out
	expect_match "help" 'record' "$(cat out)"
	for verb in record report sql doctor env; do
		grep -q "$verb" out || fail "--help does not name $verb"
		"$custody" "$verb" --help >verb.out 2>err
		expect_match "help of $verb" "custody $verb" "$(cat verb.out)"
		expect_empty "standard error of $verb --help" err
	done
}

it_says_its_version() {
	expect_match "version" '^custody [0-9]+\.[0-9]+\.[0-9]+' "$("$custody" --version)"
}

it_refuses_what_it_does_not_know_with_status_2() {
	usage_error "$custody"
	usage_error "$custody" no-such-verb
	usage_error "$custody" --no-such-option
	usage_error "$custody" record
	usage_error "$custody" record --no-such-option -- true
	usage_error "$custody" record --frees=sometimes -- true
	usage_error "$custody" record --children=some -- true
	usage_error "$custody" record --children
	usage_error "$custody" record -o '%z.db' -- true
	usage_error "$custody" record -o '' -- true
	usage_error "$custody" record --color=blue -- true
	usage_error "$custody" report
	usage_error "$custody" report --format=yaml t.db
	usage_error "$custody" report -n many t.db
	usage_error "$custody" report a.db b.db
	usage_error "$custody" sql
	usage_error "$custody" env surplus
}

# An option that is announced for later is unknown until it works.
it_does_not_accept_options_before_they_work() {
	local option
	for option in --frees=reuse --stacks=native; do
		usage_error "$custody" record "$option" -- true
	done
	for option in export diff check top; do
		usage_error "$custody" "$option" t.db
	done
}

it_returns_the_status_of_the_program() {
	local status
	for status in 0 1 2 3 126 127 255; do
		E2E_JOURNAL= expect_status $status record -o "$status.db" -- \
			"$clients/ends" exit $status
	done
	E2E_JOURNAL= expect_status 137 record -o k.db -- "$clients/ends" kill
	E2E_JOURNAL= expect_status 5 record -o n.db -- "$clients/ends" never-used 5
}

it_returns_127_and_126_like_a_shell() {
	expect_status 127 bounded "$custody" record -o t.db -- no-such-program-anywhere 2>err
	expect_equal "sentences" 1 "$(wc -l <err)"
	expect_status 127 bounded "$custody" record -o t.db -- ./no-such-file 2>err
	echo text >plain
	expect_status 126 bounded "$custody" record -o t.db -- ./plain 2>err
	expect_equal "sentences" 1 "$(wc -l <err)"
	expect_status 126 bounded "$custody" record -o t.db -- / 2>err
	[ ! -e t.db ] || fail "a trace was made of nothing"
	expect_no_session
}

it_leaves_the_program_its_options() {
	plain_build_only
	expect_equal "arguments" "-n,--help,-o,x," \
		"$(bounded "$custody" record -q -- /bin/sh -c 'printf %s, "$@"' - -n --help -o x)"
	expect_equal "arguments without the dashes" "-q,y," \
		"$(bounded "$custody" record -q /bin/sh -c 'printf %s, "$@"' - -q y)"
}

it_leaves_standard_input_and_output_alone() {
	plain_build_only
	head -c 300000 /dev/urandom >input
	bounded "$custody" record -q -- /bin/cat <input >output 2>err
	cmp input output
	expect_empty "standard error" err
	bounded "$custody" record -q -- "$clients/ends" exit >output 2>err
	expect_empty "standard output" output
	expect_empty "standard error" err
}

it_says_five_lines_and_the_next_command() {
	bounded "$custody" record -o t.db -- "$clients/ends" exit >out 2>err
	expect_empty "standard output" out
	expect_equal "lines" 6 "$(wc -l <err)"
	expect_match "last line" 'custody report (.*/)?t\.db' "$(tail -n 1 err)"
	local next
	next=$(tail -n 1 err | sed 's/.*\(custody report.*\)/\1/')
	PATH=${custody%/*}:$PATH eval "$next" >report
	expect_match "report" 'H2D|host to device|Transfers' "$(cat report)"
}

it_says_a_next_command_that_can_be_pasted_whatever_the_name() {
	local next
	bounded "$custody" record -o "-it's a \$trace.db" -- "$clients/ends" exit 2>err
	next=$(tail -n 1 err | sed 's/.*\(custody report.*\)/\1/')
	PATH=${custody%/*}:$PATH eval "$next" >report || fail "cannot be pasted: $next"
	[ -s report ] || fail "the report is empty"
}

it_says_nothing_when_told_so() {
	bounded "$custody" record -q -o t.db -- "$clients/ends" exit >out 2>err
	expect_empty "standard output" out
	expect_empty "standard error" err
}

it_reports_a_bad_value_in_the_environment_once() {
	CUSTODY_BUFFER=plenty bounded "$custody" record -o t.db -- "$clients/ends" fork-before \
		>out 2>err
	expect_equal "complaints" 1 "$(grep -c CUSTODY_BUFFER err)"
	expect_equal "processes" 2 "$(query t.db "SELECT count(*) FROM process")"
	# Without the program custody, each process that calls the driver says it.
	CUSTODY_FREES=never CUSTODY_OUTPUT=u.db LD_PRELOAD=$preload \
		bounded "$clients/ends" threads >out 2>err
	expect_equal "complaints" 1 "$(grep -c CUSTODY_FREES err)"
	expect_equal "lines" 1 "$(wc -l <err)"
	wait_for_trace u.db >/dev/null
}

it_lists_every_twin_with_default_and_value() {
	CUSTODY_BUFFER=64MiB "$custody" env >out
	local name
	for name in CUSTODY_OUTPUT CUSTODY_FREES CUSTODY_MAX_PENDING CUSTODY_MAX_PENDING_RATIO \
		CUSTODY_MEMINFO CUSTODY_CHILDREN CUSTODY_BUFFER CUSTODY_GPU_TIMES \
		CUSTODY_LIMIT CUSTODY_FAIL_NTH; do
		grep -q "$name" out || fail "env does not list $name"
	done
	expect_match "value" 'CUSTODY_BUFFER.*256MiB.*64MiB' "$(cat out)"
}

it_honours_the_buffer_of_the_environment() {
	CUSTODY_BUFFER=8MiB record -o t.db -- "$clients/ends" exit
	expect_match "options" '.' "$(query t.db "SELECT value FROM meta WHERE key = 'options'")"
	expect_equal "policy" \
		"$("$custody" env | awk '$1 == "CUSTODY_FREES" { print $3 }')" \
		"$(query t.db "SELECT policy FROM process")"
	CUSTODY_FREES=immediate record -o u.db -- "$clients/ends" exit
	expect_equal "policy" immediate "$(query u.db "SELECT policy FROM process")"
}

# What the processes of a recorded program find in their environment.
environment_of() { # VARIABLE COMMAND...
	bounded "${@:2}" -- /bin/sh -c "printf '%s\n' \"\$$1\"" 2>err
}

it_hands_options_down_in_the_environment() {
	local bad
	plain_build_only
	expect_equal "N" 7 \
		"$(environment_of CUSTODY_MAX_PENDING "$custody" record --max-pending=7)"
	expect_equal "N" -1 \
		"$(environment_of CUSTODY_MAX_PENDING "$custody" record --max-pending -1)"
	expect_equal "R" .5 "$(environment_of CUSTODY_MAX_PENDING_RATIO \
		"$custody" record --max-pending-ratio=.5)"
	expect_equal "policy" nowait \
		"$(environment_of CUSTODY_FREES "$custody" record --frees=nowait)"
	usage_error "$custody" record --max-pending=many -- true
	usage_error "$custody" record --max-pending-ratio=half -- true
	expect_equal "bytes" 3G "$(environment_of CUSTODY_LIMIT "$custody" record --limit=3G)"
	expect_equal "turn" 4 "$(environment_of CUSTODY_FAIL_NTH "$custody" record --fail-nth=4)"
	for bad in --limit=1MiB --limit=0 --limit=small --fail-nth=0 --fail-nth=2k; do
		usage_error "$custody" record $bad -- true
	done
}

it_honours_the_variables_of_numba_where_its_own_are_unset() {
	plain_build_only
	local count=NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT
	export $count=3
	expect_match "env" 'CUSTODY_MAX_PENDING +10 +3$' "$("$custody" env)"
	expect_equal "ours" "" "$(environment_of CUSTODY_MAX_PENDING "$custody" record)"
	expect_equal "theirs" 3 "$(environment_of $count "$custody" record)"
	export $count=many
	expect_match "env" 'CUSTODY_MAX_PENDING +10 +10$' "$("$custody" env)"
	# Said once, and left as it is for whom it is meant.
	expect_equal "ours" 10 "$(environment_of CUSTODY_MAX_PENDING "$custody" record)"
	expect_equal "complaints" 1 "$(grep -c $count err)"
	expect_equal "theirs" many "$(environment_of $count "$custody" record)"
	export CUSTODY_MAX_PENDING=4
	expect_match "env" 'CUSTODY_MAX_PENDING +10 +4$' "$("$custody" env)"
	expect_equal "ours" 4 "$(environment_of CUSTODY_MAX_PENDING "$custody" record)"
	expect_equal "complaints" 0 "$(grep -c $count err)"
	unset $count CUSTODY_MAX_PENDING
}

it_lets_nvtx_find_the_interposer_where_frees_are_put_off() {
	plain_build_only
	local name=NVTX_INJECTION64_PATH policy
	unset $name
	for policy in deferred nowait; do
		expect_equal "$policy" "$preload" \
			"$(environment_of $name "$custody" record --frees=$policy)"
	done
	expect_equal "immediate" "" "$(environment_of $name "$custody" record --frees=immediate)"
	export $name=/theirs.so
	expect_equal "another's" /theirs.so \
		"$(environment_of $name "$custody" record --frees=nowait)"
	CUSTODY_FREES=nowait "$custody" doctor >out 2>err || true
	unset $name
	expect_match "doctor" 'custody.defer_cleanup' "$(cat out)"
}

it_finds_the_program_in_PATH() {
	plain_build_only
	PATH=$clients:$PATH record -o t.db -- reuse 1 10 >/dev/null
	expect_equal "copies" 10 "$(query t.db "SELECT count(*) FROM transfer")"
	expect_match "executable" '/reuse$' "$(query t.db "SELECT executable FROM process")"
	expect_match "arguments" 'reuse 1 10' "$(query t.db "SELECT arguments FROM process")"
}

# As launchers and daemons hand it down: the kernel then reaps children itself.
it_returns_the_status_of_the_program_where_SIGCHLD_is_ignored() {
	plain_build_only
	E2E_JOURNAL= expect_status 3 bounded bash -c 'trap "" CHLD; exec "$@"' - \
		"$custody" record -q -o t.db -- "$clients/ends" exit 3
	expect_equal "copies" 25 "$(query t.db "SELECT count(*) FROM transfer")"
	CUSTODY_OUTPUT=u.db LD_PRELOAD=$preload E2E_JOURNAL= expect_status 3 bounded \
		bash -c 'trap "" CHLD; exec "$@"' - "$clients/ends" exit 3
	wait_for_trace u.db >/dev/null
	expect_equal "copies" 25 "$(query u.db "SELECT count(*) FROM transfer")"
}

# What the program gets of signals is what it would have got without us.
it_hands_ignored_and_blocked_signals_down_as_they_were() {
	plain_build_only
	local show='grep -E "^Sig(Ign|Blk|Cgt)" /proc/self/status; ulimit -n; umask'
	bash -c 'trap "" USR1 PIPE; exec sh -c "$1"' - "$show" >bare
	bash -c 'trap "" USR1 PIPE; exec "$2" record -q sh -c "$1"' - "$show" "$custody" >watched
	diff bare watched || fail "the program starts in another state"
}

it_passes_signals_on_to_the_program() {
	hold "$custody" record -q -o t.db -- "$clients/ends" wait
	kill -TERM "$held"
	expect_status 143 wait "$held"
	let_go
	wait_until 5 program_gone "$program" || fail "the program lives on"
	expect_equal "copies" 25 "$(query t.db "SELECT count(*) FROM transfer")"
}

program_gone() {
	! kill -0 "$1" 2>/dev/null
}

it_proves_with_doctor_that_interception_works() {
	bounded "$custody" doctor >out 2>err || fail "doctor: status $?: $(cat out err)"
	[ -s out ] || fail "doctor says nothing"
	bounded "$custody" doctor "$clients/door_lazy" >out 2>err || fail "doctor: $(cat out err)"
}

run_behaviours "${1:-}"
