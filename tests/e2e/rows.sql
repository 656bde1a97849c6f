-- SPDX-License-Identifier: Apache-2.0
-- What a trace holds, as the lines that journal.c writes; harness.sh sorts both
-- by their first word and compares them.  Inside one kind the order is that of
-- time.  Parameters: none; one process is expected.  A block whose release is put
-- off was freed when the program freed it.
WITH
ranked AS (
	SELECT id, row_number() OVER (ORDER BY process_id, alloc_ns + alloc_duration_ns, id) AS n
	FROM allocation
),
line AS (
	SELECT 'alloc' AS word, a.alloc_ns AS at, r.n AS tie,
		r.n || ' ' || a.kind || ' ' || a.address || ' ' || a.bytes || ' ' || api.name
		|| ' ' || coalesce(p.n, '-') AS rest
	FROM allocation a JOIN ranked r USING (id) JOIN api ON api.id = a.api_id
	LEFT JOIN ranked p ON p.id = a.parent_id
UNION ALL
	SELECT 'free', a.free_requested_ns, r.n,
		r.n || ' ' || iif(a.free_waited_ns IS NULL, a.release_cause, 'freed') || ' '
		|| coalesce(api.name, '-')
	FROM allocation a JOIN ranked r USING (id) LEFT JOIN api ON api.id = a.free_api_id
	WHERE a.release_cause = 'freed' OR a.free_waited_ns IS NOT NULL
UNION ALL
	SELECT 'end', 0, r.n, r.n || ' ' || coalesce(a.release_cause, '-')
	FROM allocation a JOIN ranked r USING (id)
	WHERE a.release_cause IS NOT 'freed' AND a.free_waited_ns IS NULL
UNION ALL
	SELECT 'transfer', t.start_ns, t.id,
		t.kind || ' ' || t.bytes || ' ' || api.name
		|| CASE t.is_async WHEN 1 THEN ' async ' ELSE ' sync ' END
		|| coalesce(t.source_kind, '-') || ':' || coalesce(t.source_address, '-') || ':'
		|| coalesce(s.n, '-') || ' '
		|| coalesce(t.target_kind, '-') || ':' || coalesce(t.target_address, '-') || ':'
		|| coalesce(g.n, '-') || ' '
		|| CASE stream.handle WHEN 1 THEN 'legacy' WHEN 2 THEN 'per-thread'
			ELSE iif(stream.handle IS NULL, 'none', 'own') END
		|| ' ' || t.copies || ' ' || t.is_captured || ' ' || t.result
	FROM transfer t JOIN api ON api.id = t.api_id
	LEFT JOIN ranked s ON s.id = t.source_allocation_id
	LEFT JOIN ranked g ON g.id = t.target_allocation_id
	LEFT JOIN stream ON stream.id = t.stream_id
UNION ALL
	SELECT 'operation', o.start_ns, o.id,
		api.name || ' '
		|| CASE stream.handle WHEN 1 THEN 'legacy' WHEN 2 THEN 'per-thread'
			ELSE iif(stream.handle IS NULL, 'none', 'own') END
		|| ' ' || o.result
	FROM operation o JOIN api ON api.id = o.api_id
	LEFT JOIN stream ON stream.id = o.stream_id
UNION ALL
	SELECT 'failure', f.at_ns, f.id, api.name || ' ' || f.result
	FROM failure f JOIN api ON api.id = f.api_id
	WHERE f.origin = 'program'
UNION ALL
	SELECT 'call', 0, 0, api.name || ' ' || sum(c.calls) || ' ' || sum(c.errors)
	FROM api_call c JOIN api ON api.id = c.api_id GROUP BY c.api_id
UNION ALL
	SELECT 'gap', 0, 0, count FROM gap
)
SELECT word || ' ' || rest FROM line ORDER BY word, at, tie
