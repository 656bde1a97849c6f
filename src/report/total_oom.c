/* SPDX-License-Identifier: Apache-2.0 */
#include "report/total_oom.h"

#include <stddef.h>

const char total_oom_columns[] =
	"id INTEGER PRIMARY KEY, process_id INTEGER NOT NULL, failure_id INTEGER NOT NULL,"
	" device_id INTEGER, reading_id INTEGER, at_ns INTEGER NOT NULL, requested_bytes INTEGER,"
	" free_bytes INTEGER, total_bytes INTEGER, live_bytes INTEGER, pending_bytes INTEGER,"
	" pools_reserved INTEGER, largest_free_bytes INTEGER";

const char total_oom_holder_columns[] =
	"oom_id INTEGER NOT NULL, kind TEXT NOT NULL, caller INTEGER, count INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL";

#define OUT_OF_MEMORY "2"

/* What was refused on purpose, by --fail-nth, says nothing of the device. */
#define IS_OURS_NOT "origin IN ('program', 'limit')"

/*
 * The reading that belongs to a failure is the first of its thread behind the start of
 * the call, unless another call failed in between: then there is none.
 */
static const char add_failures[] =
	"INSERT INTO %s.oom(process_id, failure_id, device_id, reading_id, at_ns, requested_bytes,"
	" free_bytes, total_bytes, pools_reserved)"
	" SELECT f.process_id, f.id, coalesce(r.device_id, c.device_id), r.id,"
	"  coalesce(r.at_ns, f.at_ns), f.bytes, r.free_bytes, r.total_bytes, r.pools_reserved"
	" FROM (SELECT process_id, id, thread_id, context_id, bytes, min(at_ns) AS at_ns"
	"  FROM failure WHERE result = " OUT_OF_MEMORY " AND " IS_OURS_NOT
	"  GROUP BY process_id ORDER BY min(at_ns) LIMIT %d) f"
	" LEFT JOIN context c ON c.id = f.context_id"
	" LEFT JOIN reading r ON r.id = (SELECT q.id FROM reading q"
	"  WHERE q.process_id = f.process_id AND q.moment = 'oom' AND q.thread_id IS f.thread_id"
	"   AND q.at_ns >= f.at_ns AND NOT EXISTS (SELECT 1 FROM failure g"
	"    WHERE g.thread_id IS f.thread_id AND g.process_id = f.process_id AND g.id <> f.id"
	"     AND g.result = " OUT_OF_MEMORY " AND " IS_OURS_NOT
	"     AND g.at_ns BETWEEN f.at_ns AND q.at_ns)"
	"  ORDER BY q.at_ns LIMIT 1)"
	" ORDER BY f.at_ns";

/* Blocks `a` that their process had on the device of the failure `o` in that moment. */
#define IS_ITS                                                                                     \
	"a.process_id = o.process_id AND (o.device_id IS NULL OR a.device_id = o.device_id)"       \
	" AND a.parent_id IS NULL AND a.kind NOT IN ('pinned', 'registered', 'ipc', 'unknown')"
#define WAS_HELD                                                                                   \
	IS_ITS " AND a.alloc_ns + a.alloc_duration_ns <= o.at_ns"                                  \
	       " AND (a.released_ns IS NULL OR a.released_ns > o.at_ns)"
#define WAS_PENDING "coalesce(a.free_requested_ns + a.free_waited_ns <= o.at_ns, 0)"

static const char add_sums[] =
	"UPDATE %s.oom AS o SET (live_bytes, pending_bytes) ="
	" (SELECT coalesce(sum(CASE WHEN " WAS_PENDING " THEN 0 ELSE a.bytes END), 0),"
	"  coalesce(sum(CASE WHEN " WAS_PENDING " THEN a.bytes END), 0)"
	"  FROM allocation a WHERE " WAS_HELD ")";

static const char add_holders[] =
	"INSERT INTO %s.oom_holder SELECT oom_id, kind, caller, count, bytes FROM"
	" (SELECT *, row_number() OVER (PARTITION BY oom_id ORDER BY bytes DESC, kind, caller)"
	"  AS place FROM (SELECT o.id AS oom_id, a.kind AS kind, a.caller AS caller,"
	"   count(*) AS count, sum(a.bytes) AS bytes FROM %s.oom o JOIN allocation a ON " WAS_HELD
	"   WHERE NOT " WAS_PENDING " GROUP BY 1, 2, 3))"
	" WHERE place <= %d ORDER BY oom_id, place";

/* Takes `sql` over. */
static int run(sqlite3 *db, char *sql)
{
	int status = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;

	sqlite3_free(sql);
	return status;
}

int total_oom(sqlite3 *db, const char *schema)
{
	int status = run(db, sqlite3_mprintf(add_failures, schema, TOTAL_OOM_PROCESSES));

	if (status == SQLITE_OK && !sqlite3_changes(db))
		return SQLITE_OK;
	if (status == SQLITE_OK)
		status = run(db, sqlite3_mprintf(add_sums, schema));
	if (status == SQLITE_OK)
		status = run(db, sqlite3_mprintf(add_holders, schema, schema, TOTAL_OOM_HOLDERS));
	return status;
}
