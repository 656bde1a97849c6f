/* SPDX-License-Identifier: Apache-2.0 */
/* What is written when recording has ended: use over time, peaks and sums. */
#include "report/ingest.h"

#include "core/trace_names.h"
#include "report/total.h"
#include "report/total_oom.h"
#include "report/total_gpu.h"

#include <stdlib.h>

enum { LOOK_AHEAD_NS = 1000000000 };

/* Blocks that count, and since when one is pending; NULL: it is never. */
#define COUNTS "parent_id IS NULL AND kind <> 'ipc' AND bytes BETWEEN 0 AND 1 << 50 "
#define PENDING_NS "free_requested_ns + free_waited_ns"
#define IS_PENDING PENDING_NS " < coalesce(released_ns, 1 << 62) "

/* Every change of use that rows tell of, in the order of time; the end of a process last. */
static const char all_changes[] =
	"SELECT process_id, device_id, kind, alloc_ns + alloc_duration_ns, 1, 0, 0, address, "
	"bytes, alloc_duration_ns FROM allocation WHERE " COUNTS "UNION ALL "
	"SELECT process_id, device_id, kind, CASE WHEN " IS_PENDING "THEN " PENDING_NS
	" ELSE released_ns END, -1, " IS_PENDING ", 0, address, bytes, 0 "
	"FROM allocation WHERE " COUNTS "AND (released_ns IS NOT NULL OR " IS_PENDING ") "
	"UNION ALL "
	"SELECT process_id, device_id, kind, released_ns, 0, -1, 0, address, bytes, 0 "
	"FROM allocation WHERE " COUNTS "AND " PENDING_NS " < released_ns "
	"UNION ALL "
	"SELECT DISTINCT p.id, a.device_id, a.kind, p.end_ns, 0, 0, 1, 0, 0, 0 "
	"FROM process p JOIN allocation a ON a.process_id = p.id WHERE p.end_ns IS NOT NULL "
	"ORDER BY 4, 7";

/* Devices that several processes have. */
static void find_shared(struct ingest *ingest)
{
	sqlite3_stmt *devices = NULL;

	if (sqlite3_prepare_v2(ingest->store->db,
			       "SELECT device_id, physical_id FROM physical_device "
			       "WHERE physical_id <> device_id", -1, &devices, NULL) != SQLITE_OK)
		store_fail(ingest->store);
	while (store_next(ingest->store, devices))
		ingest_peak_share(&ingest->peak, (uint32_t)sqlite3_column_int64(devices, 0),
				  (uint32_t)sqlite3_column_int64(devices, 1));
	sqlite3_finalize(devices);
}

/* Of a merged trace that holds nonsense: far from all real moments, and safe to subtract. */
static int64_t clamp_moment(int64_t at_ns)
{
	const int64_t farthest = INT64_C(1) << 61;

	return at_ns > farthest ? farthest : at_ns < -farthest ? -farthest : at_ns;
}

/*
 * A row of all_changes has its turn.  Changes wait a while, so that a reading in whose
 * moment a block was being made sees it coming.
 */
static void repeat_change(struct ingest_peak *peak, sqlite3_stmt *change)
{
	uint32_t process_id = (uint32_t)sqlite3_column_int64(change, 0);
	int64_t at_ns = clamp_moment(sqlite3_column_int64(change, 3));
	int live = sqlite3_column_int(change, 4), pending = sqlite3_column_int(change, 5);
	uint64_t address = (uint64_t)sqlite3_column_int64(change, 7);
	int64_t bytes = sqlite3_column_int64(change, 8);
	enum block_kind kind =
		ingest_resume_kind((const char *)sqlite3_column_text(change, 2));
	struct ingest_peak_footprint footprint =
		ingest_peak_page_footprint(kind, address, (uint64_t)bytes);

	ingest_peak_apply(peak, at_ns - LOOK_AHEAD_NS);
	if (sqlite3_column_int(change, 6))
		ingest_peak_end(peak, process_id, at_ns);
	else
		ingest_peak_block(peak,
				  ingest_peak_series(peak, process_id,
						     (uint32_t)sqlite3_column_int64(change, 1),
						     kind),
				  at_ns, bytes,
				  (struct ingest_peak_step){ live, pending, live + pending,
							     sqlite3_column_int64(change, 9) },
				  &footprint);
}

/* The slow way, for a collector that went on where another had died, or was told too late. */
static void rebuild_peaks(struct ingest *ingest)
{
	struct ingest_peak *peak = &ingest->peak;
	sqlite3_stmt *changes = NULL;

	ingest_peak_free(peak);
	find_shared(ingest);
	ingest_reading_rebuild(ingest);
	if (sqlite3_prepare_v2(ingest->store->db, all_changes, -1, &changes, NULL) != SQLITE_OK)
		store_fail(ingest->store);
	while (store_next(ingest->store, changes))
		repeat_change(peak, changes);
	sqlite3_finalize(changes);
	ingest_peak_apply(peak, INT64_MAX);
}

static sqlite3_stmt *prepare(struct ingest *ingest, const char *sql)
{
	sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(ingest->store->db, sql, -1, &statement, NULL) != SQLITE_OK)
		store_fail(ingest->store);
	return statement;
}

/* A slice is written where it differs from the one before: readers hold the last value. */
static void write_series(struct ingest *ingest, sqlite3_stmt *insert,
			 const struct ingest_peak_series *series)
{
	const struct ingest_peak_slice *before = NULL;

	for (uint32_t i = 0; i < series->slices; i++) {
		const struct ingest_peak_slice *slice = &series->slice[i];

		if (before && before->live == slice->live && before->pending == slice->pending)
			continue;
		before = slice;
		sqlite3_bind_int64(insert, 1,
				   ingest_peak_slice_ns(&ingest->peak, series->first + i));
		sqlite3_bind_int64(insert, 2, series->process_id);
		store_bind_id(insert, 3, series->device_id);
		sqlite3_bind_text(insert, 4, block_kind_name(series->kind), -1, SQLITE_STATIC);
		sqlite3_bind_int64(insert, 5, slice->live);
		sqlite3_bind_int64(insert, 6, slice->pending);
		store_step(ingest->store, insert);
	}
}

static void write_samples(struct ingest *ingest)
{
	sqlite3_stmt *insert = prepare(ingest, "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?)");

	for (uint32_t i = 0; i < ingest->peak.series_count; i++)
		write_series(ingest, insert, &ingest->peak.series[i]);
	sqlite3_finalize(insert);
}

static void write_peaks(struct ingest *ingest)
{
	sqlite3_stmt *insert =
		prepare(ingest, "INSERT INTO peak(process_id, device_id, at_ns, bytes, "
				"pending_peak_bytes, held_peak_bytes) VALUES (?, ?, ?, ?, ?, ?)");

	for (uint32_t i = 0; i < ingest->peak.group_count; i++) {
		const struct ingest_peak_group *group = &ingest->peak.group[i];

		if (!group->process_id && group->device_id &&
		    !ingest_peak_is_shared(&ingest->peak, group->device_id))
			continue;
		store_bind_id(insert, 1, group->process_id);
		store_bind_id(insert, 2, group->device_id);
		sqlite3_bind_int64(insert, 3, group->peak_ns);
		sqlite3_bind_int64(insert, 4, group->peak);
		sqlite3_bind_int64(insert, 5, group->pending_peak);
		sqlite3_bind_int64(insert, 6, group->held_peak);
		store_step(ingest->store, insert);
	}
	sqlite3_finalize(insert);
}

/*
 * The blocks that were live at each peak: one pass over all blocks, and for each
 * that lived between the first and the last of all peaks the few of its process.
 */
static const char peak_blocks[] =
	"INSERT INTO peak_block SELECT p.process_id, p.device_id, a.id "
	"FROM allocation a CROSS JOIN peak p ON p.process_id IN (a.process_id, 0) "
	"WHERE a.alloc_ns <= (SELECT max(at_ns) FROM peak) "
	"AND (a.released_ns IS NULL OR a.released_ns > (SELECT min(at_ns) FROM peak)) "
	"AND a.parent_id IS NULL "
	"AND a.kind NOT IN ('pinned', 'registered', 'ipc', 'unknown') "
	"AND (p.device_id IS NULL OR p.device_id = CASE p.process_id WHEN 0 THEN "
	"(SELECT physical_id FROM physical WHERE device_id = a.device_id) "
	"ELSE a.device_id END) "
	"AND a.alloc_ns + a.alloc_duration_ns <= p.at_ns "
	"AND (a.released_ns IS NULL OR a.released_ns > p.at_ns) "
	"AND (a.free_waited_ns IS NULL OR a.free_requested_ns + a.free_waited_ns > p.at_ns) "
	"AND NOT EXISTS (SELECT 1 FROM process e WHERE e.id = a.process_id "
	"AND e.end_ns < p.at_ns)";

/* The peak of all processes stands there as that of process 0 meanwhile: NULL joins nothing. */
static void write_peak_blocks(struct ingest *ingest)
{
	store_run(ingest->store, "UPDATE peak SET process_id = 0 WHERE process_id IS NULL;"
				 "CREATE INDEX peak_process ON peak(process_id);"
				 "CREATE TEMP TABLE physical AS SELECT * FROM physical_device;"
				 "CREATE INDEX temp.physical_of ON physical(device_id)");
	store_run(ingest->store, peak_blocks);
	store_run(ingest->store,
		  "UPDATE peak SET process_id = NULL WHERE process_id = 0;"
		  "UPDATE peak_block SET process_id = NULL WHERE process_id = 0;"
		  "DROP INDEX peak_process; DROP TABLE temp.physical");
}

static const char sum_columns[] =
	"INSERT INTO transfer_total SELECT s.process_id, s.kind, s.api_id, s.source_kind, "
	"s.target_kind, s.source_device_id, s.target_device_id, t.size_class, s.is_async, "
	"s.caller, sum(t.count), sum(t.bytes), sum(t.host_ns), max(t.max_ns), sum(t.failed) "
	"FROM transfer_sum t JOIN transfer_site s ON s.id = t.site_id "
	"GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10";

static void write_sums(struct ingest *ingest)
{
	sqlite3_stmt *insert =
		prepare(ingest, "INSERT INTO transfer_sum VALUES (?, ?, ?, ?, ?, ?, ?)");
	const struct ingest_total_sum *sum;
	size_t at = 0;

	while ((sum = ingest_table_next(&ingest->total.sums, &at))) {
		sqlite3_bind_int64(
			insert, 1,
			(int64_t)ingest_total_site_row(&ingest->total, sum->site));
		sqlite3_bind_int64(insert, 2, sum->size_class);
		sqlite3_bind_int64(insert, 3, (int64_t)sum->count);
		sqlite3_bind_int64(insert, 4, (int64_t)sum->bytes);
		sqlite3_bind_int64(insert, 5, sum->host_ns);
		sqlite3_bind_int64(insert, 6, sum->max_ns);
		sqlite3_bind_int64(insert, 7, (int64_t)sum->failed);
		store_step(ingest->store, insert);
	}
	sqlite3_finalize(insert);
}

/* The same sums from rows: this collector has not seen all of them pass. */
static void rebuild_sums(struct ingest *ingest)
{
	sqlite3_stmt *rows =
		prepare(ingest, "SELECT r.site_id, r.bytes, r.duration_ns "
				"FROM transfer_row r JOIN transfer_site s ON s.id = r.site_id");

	ingest_table_free(&ingest->total.sums, free);
	while (store_next(ingest->store, rows)) {
		uint64_t row = (uint64_t)sqlite3_column_int64(rows, 0);
		uint32_t site = ingest_total_find_site(&ingest->total, row);

		if (site)
			ingest_total_transfer(&ingest->total, site,
					      (uint64_t)sqlite3_column_int64(rows, 1),
					      sqlite3_column_int64(rows, 2));
	}
	sqlite3_finalize(rows);
}

static void write_transfer_totals(struct ingest *ingest)
{
	if (ingest->is_resumed)
		rebuild_sums(ingest);
	store_run(ingest->store,
		  "CREATE TEMP TABLE transfer_sum(site_id, size_class, count, bytes, "
		  "host_ns, max_ns, failed)");
	write_sums(ingest);
	store_run(ingest->store, sum_columns);
	store_run(ingest->store, "DROP TABLE transfer_sum");
}

void ingest_finish_totals(struct ingest *ingest)
{
	store_begin(ingest->store);
	ingest_peak_apply(&ingest->peak, INT64_MAX);
	if (ingest->is_resumed || ingest->peak.disordered)
		rebuild_peaks(ingest);
	ingest_reading_row_save(ingest);
	store_run(ingest->store,
		  "DELETE FROM sample; DELETE FROM peak; DELETE FROM peak_block;"
		  "DELETE FROM transfer_total; DELETE FROM allocation_total;"
		  "DELETE FROM free_total; DELETE FROM pending_total;"
		  "DELETE FROM oom; DELETE FROM oom_holder;"
		  "DELETE FROM gpu_total;");
	write_samples(ingest);
	write_peaks(ingest);
	write_peak_blocks(ingest);
	if (total_allocations(ingest->store->db, "main") != SQLITE_OK ||
	    total_oom(ingest->store->db, "main") != SQLITE_OK)
		store_fail(ingest->store);
	write_transfer_totals(ingest);
	if (total_gpu(ingest->store->db, "main") != SQLITE_OK)
		store_fail(ingest->store);
}

void ingest_finish(struct ingest *ingest)
{
	ingest_commit(ingest);
	ingest_finish_totals(ingest);
	store_complete(ingest->store);
}
