# SPDX-License-Identifier: Apache-2.0
#
# frees_common.sh - sourced by the tests of deferred frees, after harness.sh.
#
# A client runs bare, which shows what the driver does, and then under policies;
# whatever it prints then is compared.  Every trace is asked whether it agrees
# with itself.

SIMCUDA_KERNELS=$neighbours/frees_kernels.so
export SIMCUDA_KERNELS
old_driver=$top_builddir/tests/support/simdriver/old
policies=${E2E_POLICIES:-immediate deferred nowait}
bare_status=0
trouble=no # the next runs: findings and failures of our own are expected

run_bare() { # CLIENT ARGUMENT...: prints into bare.out
	bare_status=0
	timeout --foreground -k 5 60 "$clients/$1" "${@:2}" >bare.out 2>bare.err ||
		bare_status=$?
	expect_empty "standard error of $* alone" bare.err
}

run_under() { # POLICY CLIENT ARGUMENT...: prints into POLICY.out, trace in POLICY.db
	local status=0
	record -f --frees="$1" -o "$1.db" -- "$clients/$2" "${@:3}" >"$1.out" 2>"$1.err" ||
		status=$?
	expect_empty "standard error of ${*:2} under $1" "$1.err"
	expect_equal "exit status of ${*:2} under $1" "$bare_status" "$status"
	if [ "$trouble" = yes ]; then
		expect_sound "$1.db" "$inconsistencies $(other_policy "$1")"
	else
		expect_sound "$1.db" "$inconsistencies $(other_policy "$1") $troubles"
	fi
}

compare_with_bare() { # POLICY
	diff bare.out "$1.out" || fail "under $1 the program sees something else"
}

# The program runs bare, then under each of the policies, and sees the same.
same_under() { # POLICIES CLIENT ARGUMENT...
	local policy
	run_bare "${@:2}"
	for policy in $1; do
		run_under "$policy" "${@:2}"
		compare_with_bare "$policy"
	done
}

# A line for everything in the trace that contradicts itself.
inconsistencies="
WITH
put_off AS (SELECT * FROM allocation WHERE free_waited_ns IS NOT NULL),
flushed AS (
	SELECT context_id, cause, sum(count) AS items, sum(failed) AS failed
	FROM flush GROUP BY 1, 2
),
released AS (
	SELECT context_id, release_cause AS cause, count(*) AS items FROM put_off
	WHERE release_cause IN ('count', 'bytes', 'oom', 'idle', 'explicit', 'scope') GROUP BY 1, 2
),
-- Items of passes that no block tells of: issued to the driver and not seen back
-- when the context ended; modules, which are no blocks.
unseen AS (
	SELECT (SELECT count(*) FROM put_off
			WHERE release_cause IN ('exit', 'context', 'reset', 'failed'))
		+ (SELECT count(*) FROM operation o JOIN api ON api.id = o.api_id
			WHERE api.name = 'cuModuleUnload' AND o.result = 0) AS items
),
change AS (
	SELECT device_id, kind, bytes, alloc_ns + alloc_duration_ns AS at FROM allocation
	WHERE parent_id IS NULL
UNION ALL
	SELECT device_id, kind, -bytes, max(released_ns, alloc_ns + alloc_duration_ns)
	FROM allocation WHERE parent_id IS NULL AND released_ns IS NOT NULL
),
live AS (
	SELECT sum(bytes) OVER (PARTITION BY device_id, kind ORDER BY at, bytes < 0) AS bytes
	FROM change
),
given AS (
	SELECT alloc_ns + alloc_duration_ns AS begins,
		lag(coalesce(free_requested_ns, released_ns, 1 << 62)) OVER (
			PARTITION BY process_id, kind, address ORDER BY alloc_ns + alloc_duration_ns
		) AS other_ends
	FROM allocation WHERE kind IN ('device', 'managed', 'pinned')
)
SELECT 'put off, and its release is not told: ' || count(*) AS complaint FROM put_off
	WHERE released_ns IS NULL OR release_cause IS NULL HAVING count(*)
UNION ALL SELECT 'freed, and no cause is told: ' || count(*) FROM allocation
	WHERE free_requested_ns IS NOT NULL AND release_cause IS NULL HAVING count(*)
UNION ALL SELECT 'released before it was freed: ' || count(*) FROM allocation
	WHERE released_ns < free_requested_ns HAVING count(*)
UNION ALL SELECT 'released before it was ready: ' || count(*) FROM put_off
	WHERE released_ns < ready_ns OR ready_ns < free_requested_ns HAVING count(*)
UNION ALL SELECT 'waited longer than the call took: ' || count(*) FROM put_off
	WHERE free_waited_ns > free_duration_ns HAVING count(*)
UNION ALL SELECT 'put off under immediate: ' || count(*) FROM put_off
	JOIN process p ON p.id = process_id WHERE p.policy = 'immediate' HAVING count(*)
UNION ALL SELECT 'released by no pass, cause ' || r.cause || ': ' || r.items
	FROM released r LEFT JOIN flushed f ON f.cause = r.cause AND f.context_id IS r.context_id
	WHERE r.items > coalesce(f.items, 0)
UNION ALL SELECT 'passes released ' || p.n || ', blocks say ' || b.n || ' and ' || u.items
	FROM (SELECT coalesce(sum(items), 0) AS n FROM flushed) p,
		(SELECT coalesce(sum(items), 0) AS n FROM released) b, unseen u
	WHERE p.n NOT BETWEEN b.n AND b.n + u.items
UNION ALL SELECT 'failed releases: ' || f.n || ' of passes, ' || a.n || ' of blocks'
	FROM (SELECT coalesce(sum(failed), 0) AS n FROM flushed) f,
		(SELECT count(*) AS n FROM put_off WHERE release_cause = 'failed') a
	WHERE f.n <> a.n
UNION ALL SELECT 'a pass of cause freed: ' || count(*) FROM flush
	WHERE cause NOT IN ('count', 'bytes', 'oom', 'idle', 'explicit', 'scope') HAVING count(*)
UNION ALL SELECT 'a pass that waited longer than it took: ' || count(*) FROM flush
	WHERE waited_ns > duration_ns HAVING count(*)
UNION ALL SELECT 'fewer bytes than none are live: ' || min(bytes) FROM live HAVING min(bytes) < 0
UNION ALL SELECT 'a sample with fewer bytes than none: ' || count(*) FROM sample
	WHERE live_bytes < 0 OR pending_bytes < 0 HAVING count(*)
UNION ALL SELECT 'blocks given out at an address that was not free: ' || count(*) FROM given
	WHERE begins < other_ends HAVING count(*)
UNION ALL SELECT 'records lost: ' || sum(count) FROM gap HAVING sum(count)
UNION ALL SELECT 'complete is not 1: ' || count(*) FROM meta
	WHERE key = 'complete' AND value = 1 HAVING count(*) <> 1"

# And what no program brings about that makes no mistake.
troubles="
UNION ALL SELECT 'findings: ' || count(*) FROM finding HAVING count(*)
UNION ALL SELECT 'failures of custody''s own: ' || coalesce(api.name, '') || ' ' || f.result
	FROM failure f LEFT JOIN api ON api.id = f.api_id
	WHERE f.origin = 'custody' AND f.result <> 2"

other_policy() { # POLICY
	echo "UNION ALL SELECT 'the policy is ' || coalesce(max(policy), 'none') FROM process
		WHERE id = (SELECT min(id) FROM process) HAVING max(policy) IS NOT '$1'"
}

# Nothing but the head of the answer: all was asked in one question, and got through.
expect_sound() { # TRACE SQL
	local complaints
	complaints=$("$custody" sql --format=csv "$1" "$2") || fail "$1 cannot be asked"
	expect_equal "what $1 contradicts itself in" complaint "$(tr -d '\r' <<<"$complaints")"
}

expect_consistent() { # TRACE
	expect_sound "$1" "$inconsistencies"
}

# How the blocks that the program freed were released: "cause:count ...".
causes() { # TRACE [CONDITION]
	query "$1" "SELECT release_cause || ':' || count(*) FROM allocation
		WHERE free_requested_ns IS NOT NULL AND ${2:-1}
		GROUP BY release_cause ORDER BY release_cause" | paste -sd' '
}

# The passes: "cause:items ..." in order.
passes() { # TRACE
	query "$1" "SELECT cause || ':' || count FROM flush ORDER BY start_ns, id" | paste -sd' '
}
