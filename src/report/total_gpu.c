/* SPDX-License-Identifier: Apache-2.0 */
/* By site: there are few, and grouping millions of rows in SQL would sort them. */
#include "report/total_gpu.h"

#include "report/ingest_table.h"
#include "report/store.h"

#include <stdint.h>
#include <stdlib.h>

const char total_gpu_columns[] =
	"process_id INTEGER NOT NULL, kind TEXT NOT NULL, direction TEXT, source_kind TEXT,"
	" target_kind TEXT, name TEXT, count INTEGER NOT NULL, bytes INTEGER,"
	" gpu_ns INTEGER NOT NULL, max_ns INTEGER NOT NULL, joined INTEGER NOT NULL";

struct sum {
	int64_t site_id;
	uint64_t rows, count, bytes, ns; /* wrap on nonsense rather than overflow */
	int64_t max_ns;
	int has_bytes;
};

/* One way of a device's work into the trace. */
struct way {
	const char *rows;   /* site, how many, bytes, duration */
	const char *insert; /* site, rows, count, bytes, duration, longest */
};

static const struct way ways[] = {
	{ "SELECT site_id, count, bytes, duration_ns FROM main.gpu_work_row",
	  "INSERT INTO \"%w\".gpu_total SELECT process_id, kind, direction, source_kind,"
	  " target_kind, name, ?3, ?4, ?5, ?6, 0 FROM main.gpu_work_site WHERE id = ?1" },
	{ "SELECT r.site_id, 1, r.bytes, g.duration_ns"
	  " FROM main.transfer_gpu g JOIN main.transfer_row r ON r.id = g.transfer_id",
	  "INSERT INTO \"%w\".gpu_total SELECT process_id,"
	  " CASE kind WHEN 'MEMSET' THEN 'memset' ELSE 'copy' END, kind, source_kind,"
	  " target_kind, NULL, ?3 * max(copies, 1), ?4, ?5, ?6, ?2"
	  " FROM main.transfer_site WHERE id = ?1" },
};

static struct sum *find_sum(struct ingest_table *sums, int64_t site_id)
{
	struct sum *sum = ingest_table_find(sums, (uint64_t)site_id);

	if (sum)
		return sum;
	sum = ingest_table_memory(NULL, 1, sizeof(*sum));
	*sum = (struct sum){ .site_id = site_id };
	ingest_table_put(sums, (uint64_t)site_id, sum);
	return sum;
}

static void add_row(struct ingest_table *sums, sqlite3_stmt *row)
{
	struct sum *sum = find_sum(sums, sqlite3_column_int64(row, 0));
	int64_t ns = sqlite3_column_int64(row, 3);

	sum->rows++;
	sum->count += (uint64_t)sqlite3_column_int64(row, 1);
	sum->has_bytes |= sqlite3_column_type(row, 2) != SQLITE_NULL;
	sum->bytes += (uint64_t)sqlite3_column_int64(row, 2);
	sum->ns += (uint64_t)ns;
	if (ns > sum->max_ns)
		sum->max_ns = ns;
}

static int add_rows(sqlite3 *db, const char *sql, struct ingest_table *sums)
{
	sqlite3_stmt *query = NULL;
	int status = sqlite3_prepare_v2(db, sql, -1, &query, NULL);

	while (status == SQLITE_OK || status == SQLITE_ROW) {
		status = sqlite3_step(query);
		if (status == SQLITE_ROW)
			add_row(sums, query);
	}
	sqlite3_finalize(query);
	return status == SQLITE_DONE ? SQLITE_OK : status;
}

static int write_sum(sqlite3_stmt *insert, const struct sum *sum)
{
	sqlite3_bind_int64(insert, 1, sum->site_id);
	sqlite3_bind_int64(insert, 2, (int64_t)sum->rows);
	sqlite3_bind_int64(insert, 3, (int64_t)sum->count);
	store_bind_if(insert, 4, sum->has_bytes, sum->bytes);
	sqlite3_bind_int64(insert, 5, (int64_t)sum->ns);
	sqlite3_bind_int64(insert, 6, sum->max_ns);
	sqlite3_step(insert);
	return sqlite3_reset(insert);
}

static int write_sums(sqlite3 *db, const char *schema, const char *format,
		      const struct ingest_table *sums)
{
	char *sql = sqlite3_mprintf(format, schema);
	sqlite3_stmt *insert = NULL;
	const struct sum *sum;
	size_t at = 0;
	int status = sql ? sqlite3_prepare_v2(db, sql, -1, &insert, NULL) : SQLITE_NOMEM;

	while (status == SQLITE_OK && (sum = ingest_table_next(sums, &at)))
		status = write_sum(insert, sum);
	sqlite3_finalize(insert);
	sqlite3_free(sql);
	return status;
}

int total_gpu(sqlite3 *db, const char *schema)
{
	int status = SQLITE_OK;

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways) && status == SQLITE_OK; i++) {
		struct ingest_table sums = { 0 };

		status = add_rows(db, ways[i].rows, &sums);
		if (status == SQLITE_OK)
			status = write_sums(db, schema, ways[i].insert, &sums);
		ingest_table_free(&sums, free);
	}
	return status;
}
