/* SPDX-License-Identifier: Apache-2.0 */
#include "report/total_gpu.h"

const char total_gpu_columns[] =
	"process_id INTEGER NOT NULL, kind TEXT NOT NULL, direction TEXT, source_kind TEXT,"
	" target_kind TEXT, name TEXT, count INTEGER NOT NULL, bytes INTEGER,"
	" gpu_ns INTEGER NOT NULL, max_ns INTEGER NOT NULL, joined INTEGER NOT NULL";

/* First by site, whose rows name it by a number: texts are looked at once for each. */
const char total_gpu[] =
	"INSERT INTO gpu_total"
	" SELECT s.process_id, CASE s.kind WHEN 'MEMSET' THEN 'memset' ELSE 'copy' END, s.kind,"
	"  s.source_kind, s.target_kind, NULL, sum(t.count * max(s.copies, 1)), sum(t.bytes),"
	"  sum(t.ns), max(t.longest), sum(t.count)"
	"  FROM (SELECT r.site_id, count(*) AS count, sum(r.bytes) AS bytes,"
	"    sum(g.duration_ns) AS ns, max(g.duration_ns) AS longest"
	"   FROM transfer_gpu g JOIN transfer_row r ON r.id = g.transfer_id GROUP BY r.site_id) t"
	"  JOIN transfer_site s ON s.id = t.site_id GROUP BY 1, 2, 3, 4, 5"
	" UNION ALL SELECT s.process_id, s.kind, s.direction, s.source_kind, s.target_kind,"
	"  s.name, t.count, t.bytes, t.ns, t.longest, 0"
	"  FROM (SELECT site_id, sum(count) AS count, sum(bytes) AS bytes, sum(duration_ns) AS ns,"
	"    max(duration_ns) AS longest FROM gpu_work_row GROUP BY site_id) t"
	"  JOIN gpu_work_site s ON s.id = t.site_id";
