/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of a merged file come from, and what holds for the whole of it. */
#include "config.h"

#include "report/merge.h"

#include "report/message.h"

#include <string.h>

/* A file that was merged itself brings the rows of its sources along. */
static bool was_merged(struct merge *merge)
{
	return store_number(merge->store, "SELECT count(*) FROM input.sqlite_schema"
					  " WHERE type = 'table' AND name = 'source'") &&
	       store_number(merge->store, "SELECT count(*) FROM input.source");
}

/* Two files that hold one run: a copy under another name, or a part that is in a merged file. */
static const char select_twins[] =
	"SELECT s.path, t.path, p.pid FROM main.process p JOIN main.source s ON s.id = p.source_id"
	" JOIN main.process q ON q.pid = p.pid AND q.exec_serial = p.exec_serial"
	"  AND q.start_ns = p.start_ns AND q.id > p.id"
	" JOIN main.source t ON t.id = q.source_id"
	"  AND coalesce(t.boot, t.host) IS coalesce(s.boot, s.host)"
	" WHERE s.id <> t.id LIMIT 1";

static void refuse_twins(struct merge *merge, const struct merge_source *source)
{
	sqlite3_stmt *query = NULL;

	if (sqlite3_prepare_v2(merge->store->db, select_twins, -1, &query, NULL) != SQLITE_OK)
		merge_source_fail(merge, source);
	if (sqlite3_step(query) == SQLITE_ROW)
		message_die(EXIT_COULD_NOT, "%s and %s hold the same run of process %lld",
			    (const char *)sqlite3_column_text(query, 0),
			    (const char *)sqlite3_column_text(query, 1),
			    sqlite3_column_int64(query, 2));
	sqlite3_finalize(query);
}

void merge_meta_source(struct merge *merge, const struct merge_source *source)
{
	sqlite3_int64 moved_ns = source->moved_ns;

	if (was_merged(merge)) {
		/* Its rows have been copied; what was added to their times has grown. */
		merge_run(merge, source,
			  "UPDATE main.source SET moved_ns = moved_ns + %lld"
			  " WHERE id > (SELECT max(id) FROM main.source) -"
			  " (SELECT max(id) FROM input.source)", moved_ns);
	} else {
		merge_run(merge, source,
			  "INSERT INTO main.source(path, host, boot, moved_ns, is_complete)"
			  " VALUES (%Q, %Q, %Q, %lld, %d)", source->name, source->host,
			  source->boot, moved_ns, source->is_complete);
		merge_run(merge, source,
			  "INSERT INTO main.source_meta SELECT"
			  " (SELECT max(id) FROM main.source), key, value FROM input.meta");
		merge_run(merge, source,
			  "UPDATE main.process SET source_id = (SELECT max(id) FROM main.source)"
			  " WHERE source_id IS NULL");
	}
	refuse_twins(merge, source);
}

/* What all say is kept; where they differ the words of each stand behind one another. */
static const char join_values[] =
	"INSERT OR REPLACE INTO main.meta SELECT key,"
	" CASE count(*) WHEN 1 THEN max(value) ELSE group_concat(value, '; ') END FROM"
	" (SELECT key, value FROM main.source_meta WHERE key NOT IN ('complete', 'session',"
	"  'schema_version', 'wall_offset_ns', 'boot', 'merged_by')"
	"  GROUP BY key, value ORDER BY min(source_id)) GROUP BY key";

/* Run before store_complete(), which knows of one trace only: see merge_run_all(). */
void merge_meta_whole(struct merge *merge)
{
	const struct merge_source *base = &merge->source[merge->base];

	store_run(merge->store, join_values);
	if (base->has_wall)
		store_set_number(merge->store, "wall_offset_ns", base->clock_ns);
	if (base->boot)
		store_set_text(merge->store, "boot", base->boot);
	store_set_text(merge->store, "merged_by", PACKAGE_VERSION);
}
