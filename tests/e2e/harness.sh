# SPDX-License-Identifier: Apache-2.0
#
# harness.sh - sourced by every end-to-end test.
#
# A test file holds functions named it_<sentence of behaviour>; the last line
# calls run_behaviours, which runs each of them in a directory and a subshell of
# its own, in the order of the file.  An argument picks those whose name matches.
# A behaviour fails by a command that fails (set -e) or by fail(); skip() says
# why it cannot be shown here.
#
# Nothing here has a fixed name: tests run beside each other.

set -u
passed=0 failed=0
LC_ALL=C
export LC_ALL

: "${top_srcdir:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${top_builddir:=$PWD}"
: "${SANITIZE:=}"
: "${PYTHON3:=python3}"
e2e_src=$top_srcdir/tests/e2e
clients=$top_builddir/tests/e2e
neighbours=$clients/.libs
custody=${E2E_CUSTODY:-$top_builddir/custody}
preload=${E2E_PRELOAD:-$top_builddir/.libs/libcustody-preload.so}
simulated=${E2E_SIMDRIVER:-$top_builddir/tests/support/simdriver/lib}

for variable in $(compgen -e); do
	case $variable in
	CUSTODY_* | CUDA_INJECTION64_PATH | NUMBA_CUDA_* | SIMCUDA_* | LD_PRELOAD)
		unset "$variable" ;;
	esac
done

scratch=$(mktemp -d "${TMPDIR:-/tmp}/custody-e2e.XXXXXX")
# Sessions live where a test may look for what is left behind.
runtime=$(mktemp -d /dev/shm/custody-e2e.XXXXXX 2>/dev/null || echo "$scratch/run")
LD_LIBRARY_PATH=$simulated
CUSTODY_PROGRAM=$custody
export LD_LIBRARY_PATH CUSTODY_PROGRAM
if [ -n "$SANITIZE" ]; then
	# A preload that needs the sanitizer's runtime stands before it in the list.
	# Findings go to files: a collector's standard error is nobody's.
	findings=log_path=$scratch/finding
	ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0:$findings
	UBSAN_OPTIONS=print_stacktrace=1:$findings
	TSAN_OPTIONS=$findings${TSAN_OPTIONS:+:$TSAN_OPTIONS}
	export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS
fi

clean_up() {
	rm -rf "$scratch" "$runtime"
}
trap clean_up EXIT
trap 'exit 129' HUP INT TERM

fail() {
	cut -c1-2000 <<<"$*" | head -n 50 >&2
	exit 1
}

skip() {
	echo "$*"
	exit 77
}

plain_build_only() {
	[ -z "$SANITIZE" ] || skip "a preload built with $SANITIZE cannot enter a foreign program"
}

expect_equal() { # WHAT EXPECTED FOUND
	[ "$2" = "$3" ] || fail "$1: expected '$2', found '$3'"
}

expect_match() { # WHAT PATTERN TEXT
	grep -Eiq -e "$2" <<<"$3" || fail "$1: expected something like '$2', found '$3'"
}

expect_empty() { # WHAT FILE
	[ ! -s "$2" ] || fail "$1: expected nothing, found: $(head -5 "$2")"
}

expect_status() { # STATUS COMMAND...
	local wanted=$1 status=0
	shift
	"$@" || status=$?
	expect_equal "exit status of $*" "$wanted" "$status"
}

# Every program of a test runs under a limit; a hang is a failure, not a stop.
bounded() {
	timeout --foreground -k 5 "${E2E_LIMIT:-60}" "$@"
}

record() { # custody record with the simulated driver in LD_LIBRARY_PATH
	bounded "$custody" record -q "$@"
}

# Thousands of times in a run of all tests: it starts no more processes than it must.
query() { # TRACE SQL: lines without a head, of one column
	local line sql=
	while read -r line; do
		[[ $line == --* ]] || sql+="$line "
	done <<<"$2"
	"$custody" sql --format=csv "$1" "$sql" | sed -n '1d; s/\r//g; s/^"\(.*\)"$/\1/; p'
}

# Wait until a condition holds; a collector may finish after its program.
wait_until() { # SECONDS COMMAND...
	local tries=$(($1 * 50))
	shift
	while ! "$@"; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || return 1
		sleep 0.02
	done
}

is_complete() { # TRACE
	[ -f "$1" ] && [ ! -e "$1-wal" ] && [ ! -e "$1-journal" ] &&
		[ "$(query "$1" "SELECT value FROM meta WHERE key = 'complete'" 2>/dev/null)" = 1 ]
}

wait_for_trace() { # PATTERN: prints the name of the one trace that matches
	wait_until 20 has_match "$1" ||
		fail "no file $1 appeared in $PWD"
	local file
	for file in $(compgen -G "$1"); do
		case $file in *-wal | *-shm | *-journal) continue ;; esac
		wait_until 20 is_complete "$file" || fail "$file was never completed"
		echo "$file"
	done
}

has_match() {
	[ -n "$(compgen -G "$1")" ]
}

no_session_left() {
	[ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]
}

expect_no_session() {
	wait_until 10 no_session_left || fail "left behind: $(find "$XDG_RUNTIME_DIR")"
}

# The process that holds a flock on the file, by its inode in /proc/locks.
holder_of() { # FILE
	local inode
	inode=$(stat -c %i "$1")
	awk -v inode=":$inode\$" '$6 ~ inode { print $5 }' /proc/locks | head -1
}

# Start a program that says "ready PID" and then waits for the end of its input.
# Sets `held`, the process started, and `program`, the one that spoke.
hold() { # COMMAND...
	rm -f in out
	mkfifo in out
	"$@" <in >out 2>err &
	held=$!
	exec 8>in 9<out
	read -r _ program <&9
}

let_go() {
	exec 8>&- 9<&-
}

# The journal's order is that of the calls; the trace is asked in order of time.
sort_lines() {
	sort -s -k1,1 "$1" | awk '
		$1 == "end" { ends[++count] = $0; next }
		$1 == "call" { print | "sort"; next }
		{ print }
		END { for (i = 1; i <= count; i++) print ends[i] | "sort -k2,2n" }' | sort -s -k1,1
}

compare_rows() { # TRACE JOURNAL
	query "$1" "$(cat "$e2e_src/rows.sql")" >found.raw
	sort_lines found.raw >found
	sort_lines "$2" >expected
	diff -u expected found || fail "$1 does not show what the program did"
}

# A behaviour runs as a process group of its own; what is left of it goes with it.
end_group() { # PID
	kill -KILL "-$1" 2>/dev/null && sleep 0.05
	true
}

run_one() { # SENTENCE COMMAND...
	local sentence=$1 directory=$scratch/${1//[^A-Za-z0-9]/_} status
	shift
	mkdir -p "$directory"
	set -m
	(
		set +m
		set -e
		XDG_RUNTIME_DIR=$runtime/${directory##*/}
		mkdir -p "$XDG_RUNTIME_DIR"
		export XDG_RUNTIME_DIR
		cd "$directory"
		"$@"
	) >"$directory.log" 2>&1 &
	wait $!
	status=$?
	set +m
	end_group $!
	case $status in
	0) echo "ok - $sentence"; passed=$((passed + 1)) ;;
	77) echo "ok - $sentence # SKIP $(tail -n 1 "$directory.log")" ;;
	*)
		echo "not ok - $sentence (status $status)"
		cut -c1-300 "$directory.log" | sed 's/^/#   /; 60q'
		failed=$((failed + 1))
		;;
	esac
	[ -n "${E2E_KEEP:-}" ] || rm -rf "$directory" "$runtime/${directory##*/}"
}

run_functions() { # [PATTERN]
	local name sentence
	for name in $(sed -n 's/^\(it_[A-Za-z0-9_]*\)() *{.*/\1/p' "$0"); do
		sentence=${name#it_}
		sentence=${sentence//_/ }
		[[ $sentence =~ ${1:-.} ]] && run_one "$sentence" "$name"
	done
}

# Rows "sentence | client | arguments | environment" of cases.tbl that belong to
# a family: COMMAND gets client, arguments and environment.
run_rows() { # FAMILY COMMAND [PATTERN]
	local family sentence client arguments environment
	while IFS='|' read -r family sentence client arguments environment; do
		[ "$(trim "$family")" = "$1" ] || continue
		sentence=$(trim "$sentence")
		[[ $sentence =~ ${3:-.} ]] || continue
		run_one "$sentence" "$2" "$(trim "$client")" "$(trim "$arguments")" \
			"$(trim "$environment")"
	done < <(grep -v '^#' "$e2e_src/cases.tbl")
}

trim() {
	local text=$1
	text=${text#"${text%%[![:space:]]*}"}
	echo "${text%"${text##*[![:space:]]}"}"
}

finish() {
	local finding
	for finding in $(compgen -G "$scratch/finding.*"); do
		echo "not ok - no sanitizer finds anything"
		sed 's/^/#   /; 40q' "$finding"
		failed=$((failed + 1))
	done
	[ "$failed" -eq 0 ] || exit 1
	[ "$passed" -gt 0 ] || exit 77
	exit 0
}

run_behaviours() { # [PATTERN]
	run_functions "${1:-}"
	finish
}
