-- SPDX-License-Identifier: Apache-2.0
-- What is made when recording has ended: rows go in faster without indexes.
-- They are few on purpose: ids follow time, and sums are kept in tables.

CREATE INDEX allocation_live ON allocation(process_id, bytes) WHERE released_ns IS NULL;
CREATE INDEX peak_block_peak ON peak_block(process_id, device_id);
CREATE INDEX sample_series ON sample(process_id, device_id, kind, at_ns);

-- Blocks that were live when their process used most; the peak of a process is
-- that with device_id NULL, the one of all processes has process_id NULL too.
CREATE VIEW live_at_peak AS
SELECT
	p.process_id AS peak_process_id,
	p.device_id AS peak_device_id,
	p.at_ns AS peak_at_ns,
	a.*
FROM peak p
JOIN peak_block b ON b.process_id IS p.process_id AND b.device_id IS p.device_id
JOIN allocation a ON a.id = b.allocation_id;

-- Never freed, and nobody else's bytes.
CREATE VIEW leak AS
SELECT * FROM allocation
WHERE released_ns IS NULL AND free_requested_ns IS NULL AND parent_id IS NULL AND kind <> 'ipc';

CREATE VIEW transfer_by_kind AS
SELECT
	process_id,
	kind,
	sum(count) AS count,
	sum(bytes) AS bytes,
	sum(host_ns) AS host_ns,
	max(max_ns) AS max_ns,
	sum(failed) AS failed
FROM transfer_total
GROUP BY process_id, kind;

CREATE VIEW transfer_by_size AS
SELECT
	process_id,
	kind,
	size_class,
	CASE size_class WHEN -1 THEN 0 ELSE 1 << size_class END AS from_bytes,
	sum(count) AS count,
	sum(bytes) AS bytes,
	sum(host_ns) AS host_ns
FROM transfer_total
GROUP BY process_id, kind, size_class;

CREATE VIEW memory_by_kind AS
SELECT
	process_id,
	device_id,
	kind,
	count(*) AS allocations,
	sum(bytes) AS bytes,
	sum(released_ns IS NULL AND free_requested_ns IS NULL) AS live,
	sum(CASE WHEN released_ns IS NULL AND free_requested_ns IS NULL THEN bytes ELSE 0 END)
		AS live_bytes
FROM allocation
WHERE parent_id IS NULL
GROUP BY process_id, device_id, kind;

CREATE VIEW api_total AS
SELECT
	c.process_id AS process_id,
	a.name AS name,
	sum(c.calls) AS calls,
	sum(c.errors) AS errors,
	sum(c.total_ns) AS total_ns,
	max(c.max_ns) AS max_ns
FROM api_call c JOIN api a ON a.id = c.api_id
GROUP BY c.process_id, c.api_id;
