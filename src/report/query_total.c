/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_total.c - the tables of sums that the collector leaves in a finished
 * trace, made in TEMP from the rows of one that was not finished.  A TEMP table
 * hides the one of the file with the same name, so nobody else need know.
 */
#include "report/query.h"

#include "report/message.h"
#include "report/store.h"
#include "report/total.h"
#include "report/total_free.h"
#include "report/total_oom.h"
#include "report/total_gpu.h"

/* Slices of time in `sample`. */
#define SLICES "480"

#define IS_OWNER "parent_id IS NULL AND kind <> 'ipc'"
#define IS_HOST "kind IN ('pinned', 'registered')"
#define LIVES_FROM "alloc_ns + alloc_duration_ns"
#define IS_LAUNCH "name LIKE 'cuGraphLaunch%'"
#define DEVICE_OF "CASE WHEN " IS_HOST " THEN NULL ELSE device_id END"
#define PENDING_FROM "free_requested_ns + free_waited_ns" /* NULL: it is never */
#define IS_PENDING PENDING_FROM " < COALESCE(released_ns, 1 << 62)"

/* Every moment at which the bytes of a process, device and kind change. */
static const char make_changes[] =
	"CREATE TEMP TABLE change AS"
	" SELECT " LIVES_FROM " AS at_ns, process_id, " DEVICE_OF " AS device_id, kind, bytes,"
	"  0 AS pending FROM allocation WHERE " IS_OWNER
	" UNION ALL SELECT CASE WHEN " IS_PENDING " THEN " PENDING_FROM " ELSE released_ns END,"
	"  process_id, " DEVICE_OF ", kind, -bytes, CASE WHEN " IS_PENDING " THEN bytes ELSE 0 END"
	"  FROM allocation WHERE " IS_OWNER " AND (released_ns IS NOT NULL OR " IS_PENDING ")"
	" UNION ALL SELECT released_ns, process_id, " DEVICE_OF ", kind, 0, -bytes"
	"  FROM allocation WHERE " IS_OWNER " AND " PENDING_FROM " < released_ns";

/* A window over equal moments takes them all at once: a block freed at T is not live at T. */
static const char make_peaks[] =
	"CREATE TEMP TABLE peak AS"
	" SELECT NULL AS process_id, NULL AS device_id, at_ns, max(live) AS bytes,"
	"  0 AS pending_peak_bytes, 0 AS held_peak_bytes"
	"  FROM (SELECT at_ns, sum(bytes) OVER (ORDER BY at_ns) AS live"
	"   FROM change WHERE NOT " IS_HOST ") GROUP BY NULL"
	" UNION ALL SELECT process_id, NULL, at_ns, max(live), 0, 0"
	"  FROM (SELECT process_id, at_ns, sum(bytes) OVER (PARTITION BY process_id ORDER BY at_ns)"
	"   AS live FROM change WHERE NOT " IS_HOST ") GROUP BY process_id"
	" UNION ALL SELECT process_id, device_id, at_ns, max(live), 0, 0"
	"  FROM (SELECT process_id, device_id, at_ns,"
	"    sum(bytes) OVER (PARTITION BY process_id, device_id ORDER BY at_ns) AS live"
	"   FROM change WHERE device_id IS NOT NULL) GROUP BY process_id, device_id"
	" UNION ALL SELECT NULL, physical_id, at_ns, max(live), 0, 0"
	"  FROM (SELECT physical_id, at_ns,"
	"    sum(bytes) OVER (PARTITION BY physical_id ORDER BY at_ns) AS live"
	"   FROM change JOIN physical_device USING (device_id) WHERE physical_id IN"
	"    (SELECT physical_id FROM physical_device GROUP BY 1 HAVING count(*) > 1))"
	"  GROUP BY physical_id;"
	"UPDATE peak SET (pending_peak_bytes, held_peak_bytes) ="
	"  (SELECT COALESCE(max(waiting), 0), COALESCE(max(held), 0)"
	"   FROM (SELECT sum(pending) OVER moment AS waiting,"
	"     sum(bytes + pending) OVER moment AS held"
	"    FROM change WHERE NOT " IS_HOST " WINDOW moment AS (ORDER BY at_ns)))"
	"  WHERE process_id IS NULL";

static const char make_samples[] =
	"CREATE TEMP TABLE sample AS"
	" WITH run AS (SELECT min(at_ns) AS first,"
	"   max(1, (max(at_ns) - min(at_ns)) / " SLICES " + 1) AS slice FROM change),"
	" level AS (SELECT at_ns, process_id, device_id, kind,"
	"   sum(bytes) OVER one AS live, sum(pending) OVER one AS waiting FROM change"
	"   WINDOW one AS (PARTITION BY process_id, device_id, kind ORDER BY at_ns))"
	" SELECT first + (at_ns - first) / slice * slice AS at_ns, process_id, device_id, kind,"
	"  max(live) AS live_bytes, max(waiting) AS pending_bytes"
	"  FROM level, run GROUP BY (at_ns - first) / slice, process_id, device_id, kind"
	"  ORDER BY 1";

/* Those of the one peak of all: the report asks for no other.  It is one of device memory. */
static const char make_peak_blocks[] =
	"CREATE TEMP TABLE peak_block AS"
	" SELECT NULL AS process_id, NULL AS device_id, id AS allocation_id"
	"  FROM allocation, (SELECT at_ns FROM peak"
	"   WHERE process_id IS NULL AND device_id IS NULL)"
	"  WHERE NOT " IS_HOST " AND " IS_OWNER
	"  AND " LIVES_FROM " <= at_ns AND (released_ns IS NULL OR released_ns > at_ns)"
	"  AND (free_waited_ns IS NULL OR " PENDING_FROM " > at_ns)";

static const char make_transfer_totals[] =
	"CREATE TEMP TABLE transfer_total AS"
	" SELECT process_id, kind, api_id, source_kind, target_kind, source_device_id,"
	"  target_device_id, size_class(bytes / max(copies, 1)) AS size_class, is_async, caller,"
	"  sum(copies) AS count,"
	"  sum(CASE WHEN result OR is_captured THEN 0 ELSE bytes END) AS bytes,"
	"  sum(duration_ns) AS host_ns, max(duration_ns) AS max_ns, sum(result <> 0) AS failed"
	" FROM transfer GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10";

/* What a launch of a graph copies, allocates and frees are no calls of their own. */
#define NO_LAUNCH(api) " AND " api " NOT IN (SELECT id FROM main.api WHERE " IS_LAUNCH ")"

static const char make_call_totals[] =
	"CREATE TEMP TABLE api_call AS"
	" SELECT process_id, api_id, thread_id, count(*) AS calls, sum(failed) AS errors,"
	"  sum(ns) AS total_ns, max(ns) AS max_ns FROM ("
	"  SELECT process_id, api_id, thread_id, alloc_duration_ns AS ns, 0 AS failed"
	"   FROM main.allocation WHERE api_id IS NOT NULL" NO_LAUNCH("api_id")
	"  UNION ALL SELECT process_id, free_api_id, free_thread_id, free_duration_ns, 0"
	"   FROM main.allocation WHERE free_api_id IS NOT NULL" NO_LAUNCH("free_api_id")
	"  UNION ALL SELECT process_id, api_id, thread_id, duration_ns, result <> 0"
	"   FROM main.transfer WHERE api_id IS NOT NULL" NO_LAUNCH("api_id")
	"  UNION ALL SELECT process_id, api_id, thread_id, duration_ns, result <> 0"
	"   FROM main.operation) GROUP BY 1, 2, 3";

/* floor(log2(bytes)), -1 for none. */
static void size_class(sqlite3_context *context, int count, sqlite3_value **value)
{
	sqlite3_int64 bytes = sqlite3_value_int64(value[0]);
	int power = -1;

	(void)count;
	for (; bytes > 0; bytes >>= 1)
		power++;
	sqlite3_result_int(context, power);
}

static bool has_table(struct query *query, const char *name)
{
	sqlite3_stmt *statement = query_prepare(
		query, "SELECT 1 FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ?");
	bool is_there;

	sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
	is_there = query_step(query, statement);
	sqlite3_finalize(statement);
	return is_there;
}

static bool has_column(struct query *query, const char *table, const char *column)
{
	sqlite3_stmt *statement =
		query_prepare(query, "SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
	bool is_there;

	sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, 2, column, -1, SQLITE_STATIC);
	is_there = query_step(query, statement);
	sqlite3_finalize(statement);
	return is_there;
}

static void make_temporary(struct query *query, const char *format, const char *name,
			   const char *what)
{
	char *sql = sqlite3_mprintf(format, name, what);

	if (!sql)
		message_die(EXIT_COULD_NOT, "out of memory");
	query_run(query, sql);
	sqlite3_free(sql);
}

static void make_table(struct query *query, const char *name, const char *columns)
{
	make_temporary(query, "CREATE TEMP TABLE %s(%s)", name, columns);
}

/* A trace of before there was something has had none of it. */
static void make_up_for_age(struct query *query)
{
	if (has_table(query, "allocation") && !has_column(query, "allocation", "free_saved_ns"))
		query_run(query, "CREATE TEMP VIEW allocation AS SELECT *, NULL AS free_waited_ns,"
				 " NULL AS ready_ns, NULL AS free_saved_ns FROM main.allocation");
	if (has_table(query, "process") && !has_column(query, "process", "note"))
		query_run(query, "CREATE TEMP VIEW process AS SELECT *, NULL AS note"
				 " FROM main.process");
	if (has_table(query, "operation") && !has_column(query, "operation", "caller"))
		query_run(query, "CREATE TEMP VIEW operation AS SELECT *, NULL AS caller"
				 " FROM main.operation");
	if (has_table(query, "transfer_site") && !has_column(query, "transfer_site", "copies"))
		query_run(query, "CREATE TEMP VIEW transfer AS SELECT *, 1 AS copies"
				 " FROM main.transfer");
	if (query->is_complete && !has_column(query, "peak", "held_peak_bytes"))
		query_run(query, "CREATE TEMP VIEW peak AS SELECT *, bytes AS held_peak_bytes"
				 " FROM main.peak");
	if (!has_table(query, "physical_device"))
		make_temporary(query, "CREATE TEMP VIEW %s AS %s", "physical_device",
			       store_physical_device);
	if (!has_table(query, "gpu_times"))
		query_run(query, "CREATE TEMP TABLE gpu_times(process_id, start_ns, end_ns, why,"
				 " lost)");
	if (!has_table(query, "finding"))
		query_run(query, "CREATE TEMP TABLE finding(process_id, kind, api_id,"
				 " allocation_id, address, at_ns, thread_id, context_id, caller)");
	if (!has_table(query, "reading"))
		query_run(query, "CREATE TEMP TABLE reading(id, process_id, device_id, thread_id,"
				 " at_ns, moment, free_bytes, total_bytes, pools_reserved,"
				 " held_bytes, pool_bytes, graph_bytes, context_bytes,"
				 " code_bytes, driver_bytes, recorded_bytes, foreign_bytes);"
				 "CREATE TEMP TABLE reading_kind(reading_id, kind, live_bytes,"
				 " pending_bytes, held_bytes)");
}

static void make_allocation_totals(struct query *query)
{
	make_table(query, "allocation_total", total_columns);
	make_table(query, "free_total", total_free_columns);
	make_table(query, "pending_total", total_free_pending_columns);
	if (total_allocations(query->db, "temp") != SQLITE_OK)
		store_reader_fail(query->db, query->path);
}

/* Where no devices were heard, the table stays empty. */
static void make_gpu_totals(struct query *query)
{
	make_table(query, "gpu_total", total_gpu_columns);
	if (has_table(query, "gpu_work_row") && total_gpu(query->db, "temp") != SQLITE_OK)
		store_reader_fail(query->db, query->path);
}

static void make_black_box(struct query *query)
{
	make_table(query, "oom", total_oom_columns);
	make_table(query, "oom_holder", total_oom_holder_columns);
	if (total_oom(query->db, "temp") != SQLITE_OK)
		store_reader_fail(query->db, query->path);
}

static void make_totals(struct query *query)
{
	sqlite3_create_function(query->db, "size_class", 1,
				SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL,
				size_class, NULL, NULL);
	query_run(query, make_changes);
	query_run(query, make_peaks);
	query_run(query, make_samples);
	query_run(query, make_peak_blocks);
	query_run(query, make_transfer_totals);
	query_run(query, make_call_totals);
	query_run(query, "DROP TABLE change");
}

void query_total(struct query *query)
{
	query_run(query, "PRAGMA query_only = 0");
	make_up_for_age(query);
	if (!query->is_complete)
		make_totals(query);
	if (!query->is_complete || !has_table(query, "allocation_total") ||
	    !has_table(query, "free_total") ||
	    !query_number(query, "SELECT count(*) FROM allocation_total", 0))
		make_allocation_totals(query);
	if (!query->is_complete || !has_table(query, "gpu_total"))
		make_gpu_totals(query);
	if (!query->is_complete || !has_table(query, "oom"))
		make_black_box(query);
	query_run(query, "PRAGMA query_only = 1");
}
