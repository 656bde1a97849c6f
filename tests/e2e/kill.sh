#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# SIGKILL at random moments: every call that the program knows to have returned
# is in the trace, or the trace says that records were lost.
. "${top_srcdir:-.}/tests/e2e/harness.sh"

# What a trace holds, per thread, in the order of busy_read's columns.
per_thread="
	SELECT t.tid
		|| ' ' || (SELECT count(*) FROM allocation a WHERE a.thread_id = t.id)
		|| ' ' || (SELECT count(*) FROM allocation a WHERE a.free_thread_id = t.id)
		|| ' ' || (SELECT count(*) FROM transfer x WHERE x.thread_id = t.id
			AND x.kind = 'H2D')
		|| ' ' || (SELECT count(*) FROM transfer x WHERE x.thread_id = t.id
			AND x.kind = 'MEMSET')
		|| ' ' || coalesce((SELECT calls FROM api_call c JOIN api ON api.id = c.api_id
			WHERE c.thread_id = t.id AND api.name = 'cuCtxGetCurrent'), 0)
	FROM thread t ORDER BY t.tid"

# The trace may know one call more of each kind: one that returned, or was about
# to, when the process died.
compare_counts() { # COUNTS TRACE
	"$clients/busy_read" "$1" | sort >"$1.counted"
	query "$2" "$per_thread" | sort >"$1.recorded"
	awk -v trace="$2" '
		function complain(thread, column, returned, recorded) {
			printf "%s: thread %s, column %d: %d returned, %d recorded\n",
				trace, thread, column, returned, recorded
			return 1
		}
		NR == FNR { for (i = 2; i <= NF; i++) seen[$1, i] = $i; next }
		{
			for (i = 2; i <= NF; i++)
				if (seen[$1, i] < $i || seen[$1, i] > $i + 1)
					bad = complain($1, i, $i, seen[$1, i])
		}
		END { exit bad }' "$1.recorded" "$1.counted"
}

has_begun() { # COUNTS
	[ -s "$1" ] && [ -n "$("$clients/busy_read" "$1")" ]
}

# One run: a busy program, a random moment, a comparison.
kill_once() { # NUMBER
	local pid microseconds=$((RANDOM * 4 + RANDOM % 1000))
	"$custody" record -q -o "$1.db" -- "$clients/busy" "$1.counts" 3 &
	local recorder=$!
	wait_until 20 has_begun "$1.counts" || fail "run $1 did not start"
	sleep "0.$(printf '%06d' $((microseconds % 130000)))"
	pid=$(child_of "$recorder" busy)
	[ -n "$pid" ] || fail "run $1: the program is not there"
	kill -KILL "$pid"
	expect_status 137 wait "$recorder"
	local lost
	lost=$(query "$1.db" "SELECT coalesce(sum(count), 0) FROM gap")
	[ "$lost" = 0 ] && { compare_counts "$1.counts" "$1.db" || fail "run $1"; }
	[ "$lost" = 0 ] || gaps=$((gaps + 1))
	expect_equal "complete" 1 "$(query "$1.db" "SELECT value FROM meta WHERE key = 'complete'")"
	expect_equal "how it ended" 9 "$(query "$1.db" "SELECT exit_signal FROM process")"
	rm -f "$1".*
}

child_of() { # PID NAME
	local pid
	for pid in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$2" ] || echo "$pid"
	done
}

kill_many() { # FIRST LAST
	local i gaps=0
	for ((i = $1; i <= $2; i++)); do
		kill_once "$i"
	done
	[ "$gaps" -le 5 ] || fail "$gaps runs lost records"
}

# Under a sanitizer a run costs several times as much, and meets no other moments.
kills=${E2E_KILLS:-200}
[ -z "$SANITIZE" ] || kills=${E2E_KILLS:-60}

it_keeps_every_call_that_returned_before_SIGKILL() {
	kill_many 1 $((kills / 2)) &
	local first=$!
	kill_many $((kills / 2 + 1)) "$kills"
	wait "$first"
	expect_no_session
}

it_keeps_every_call_before_SIGKILL_under_a_bare_preload() {
	local i pid
	for i in 1 2 3 4 5 6 7 8 9 10; do
		CUSTODY_OUTPUT=$i.db LD_PRELOAD=$preload "$clients/busy" "$i.counts" 3 &
		pid=$!
		wait_until 20 has_begun "$i.counts"
		sleep "0.0$((RANDOM % 90 + 10))"
		kill -KILL "$pid"
		wait "$pid" || true
		wait_for_trace "$i.db"
		compare_counts "$i.counts" "$i.db"
	done
	expect_no_session
}

run_behaviours "${1:-}"
