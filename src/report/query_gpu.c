/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_gpu.c - what devices did, where CUPTI was asked: the rates that copies
 * reached, kernels, migrations of managed memory.  Times are those of the device;
 * pieces of work may overlap, so a sum of them can be longer than the run.
 */
#include "report/query.h"

#include "report/format.h"
#include "report/symbol.h"
#include "report/symbol_name.h"

#include <stdlib.h>

static const struct rows_column copy_columns[] = {
	{ "kind", "on the device", ROWS_TEXT },
	{ "host_memory", "host memory", ROWS_TEXT },
	{ "count", "copies", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ "gpu_ns", "device time", ROWS_DURATION },
	{ "longest_ns", "longest", ROWS_DURATION },
	{ "bytes_per_second", "rate", ROWS_RATE },
	{ NULL, NULL, ROWS_TEXT },
};

/* Host memory is that of the end which lies there. */
static const char select_copies[] =
	"SELECT direction, CASE WHEN direction IN ('H2D', 'H2H') THEN source_kind"
	"  WHEN direction = 'D2H' THEN target_kind END AS place,"
	" sum(count), sum(bytes), sum(gpu_ns), max(max_ns),"
	" CAST(sum(bytes) * 1e9 / NULLIF(sum(gpu_ns), 0) AS INTEGER)"
	" FROM gpu_total WHERE kind IN ('copy', 'memset') GROUP BY 1, 2 ORDER BY 5 DESC";

static const struct rows_column migration_columns[] = {
	{ "kind", "migrations", ROWS_TEXT },
	{ "count", "times", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ "gpu_ns", "time", ROWS_DURATION },
	{ "bytes_per_second", "rate", ROWS_RATE },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_migrations[] =
	"SELECT direction, sum(count), sum(bytes), sum(gpu_ns),"
	" CAST(sum(bytes) * 1e9 / NULLIF(sum(gpu_ns), 0) AS INTEGER)"
	" FROM gpu_total WHERE kind = 'migration' GROUP BY 1 ORDER BY 3 DESC";

static const struct rows_column total_columns[] = {
	{ NULL, "in all", ROWS_TEXT },
	{ "count", NULL, ROWS_COUNT },
	{ "gpu_ns", NULL, ROWS_DURATION },
	{ NULL, NULL, ROWS_TEXT },
};

static const struct rows_column kernel_columns[] = {
	{ NULL, "most time on devices", ROWS_TEXT },
	{ "name", NULL, ROWS_TEXT },
	{ "mangled", NULL, ROWS_TEXT },
	{ "count", "launches", ROWS_COUNT },
	{ "gpu_ns", "device time", ROWS_DURATION },
	{ NULL, "share", ROWS_SHARE },
	{ NULL, "mean", ROWS_DURATION },
	{ "longest_ns", "longest", ROWS_DURATION },
	{ NULL, NULL, ROWS_TEXT },
};

enum { KERNEL_SHORT, KERNEL_NAME, KERNEL_MANGLED, KERNEL_COUNT, KERNEL_NS, KERNEL_SHARE,
       KERNEL_MEAN, KERNEL_LONGEST };

static const char select_kernels[] =
	"SELECT name, sum(count), sum(gpu_ns), max(max_ns) FROM gpu_total WHERE kind = 'kernel'"
	" GROUP BY name ORDER BY 3 DESC, 1";

/* Between the two, times are those of the part of a process that was heard. */
static const char select_troubles[] =
	"SELECT p.pid, g.start_ns IS NULL, g.why, g.lost FROM gpu_times g"
	" JOIN process p ON p.id = g.process_id WHERE g.why IS NOT NULL OR g.lost ORDER BY p.id";

static void note_troubles(struct query *query, struct report_section *section)
{
	sqlite3_stmt *statement = query_prepare(query, select_troubles);
	char count[FORMAT_BYTES];

	while (query_step(query, statement)) {
		long long pid = sqlite3_column_int64(statement, 0);
		const char *why = (const char *)sqlite3_column_text(statement, 2);
		int64_t lost = sqlite3_column_int64(statement, 3);

		if (why)
			report_note(section, REPORT_REMARK, "Process %lld %s: %.400s.", pid,
				    sqlite3_column_int(statement, 1) ? "has no GPU times" :
								       "has them to a point",
				    why);
		if (lost)
			report_note(section, REPORT_WARNING,
				    "CUPTI had no room for %s pieces of work of process %lld.",
				    format_count(count, lost), pid);
	}
	sqlite3_finalize(statement);
}

static void add_copies(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "transfers.gpu", "", REPORT_LIST, copy_columns);

	query_fill(query, &section->rows, select_copies);
	note_troubles(query, section);
}

static void add_migrations(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "transfers.migrations", "", REPORT_LIST, migration_columns);

	query_fill(query, &section->rows, select_migrations);
}

static void write_kernel(struct query *query, struct rows_value *value, sqlite3_stmt *statement,
			 int64_t all_ns)
{
	const char *raw = (const char *)sqlite3_column_text(statement, 0);
	const char *readable = raw ? symbol_readable(query->symbols, raw) : NULL;
	char *shorter = symbol_name_shorten(readable ? readable : "one of many");

	rows_text(&value[KERNEL_SHORT], shorter);
	free(shorter);
	rows_text(&value[KERNEL_NAME], readable);
	rows_text(&value[KERNEL_MANGLED], raw);
	query_set(&value[KERNEL_COUNT], ROWS_COUNT, statement, 1);
	query_set(&value[KERNEL_NS], ROWS_DURATION, statement, 2);
	rows_number(&value[KERNEL_SHARE], rows_share(value[KERNEL_NS].number, all_ns));
	if (value[KERNEL_COUNT].number > 0)
		rows_number(&value[KERNEL_MEAN],
			    value[KERNEL_NS].number / value[KERNEL_COUNT].number);
	query_set(&value[KERNEL_LONGEST], ROWS_DURATION, statement, 3);
}

static void add_top(struct query *query, struct report *report, int64_t all_ns)
{
	struct report_section *section =
		report_add(report, "kernels.top", "", REPORT_LIST, kernel_columns);
	sqlite3_stmt *statement = query_prepare(query, select_kernels);
	size_t left_out = 0;

	while (query_step(query, statement))
		if (section->rows.count < query->most_rows)
			write_kernel(query, rows_add(&section->rows), statement, all_ns);
		else
			left_out++;
	section->rows.left_out = left_out;
	sqlite3_finalize(statement);
}

static void add_kernels(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "kernels", "", REPORT_FIELDS, total_columns);
	struct rows_value *value = rows_add(&section->rows);
	char count[FORMAT_BYTES], ns[FORMAT_BYTES], share[FORMAT_BYTES];
	int64_t run = rows_minus(query->end_ns, query->start_ns);

	section->heading = "KERNELS";
	rows_number(&value[1], query_number(query, "SELECT sum(count) FROM gpu_total"
						   " WHERE kind = 'kernel'", 0));
	rows_number(&value[2], query_number(query, "SELECT sum(gpu_ns) FROM gpu_total"
						   " WHERE kind = 'kernel'", 0));
	if (value[1].number)
		rows_format(&value[0], "%s launches, %s of device time (%s of the run)",
			    format_count(count, value[1].number),
			    format_duration(ns, value[2].number),
			    format_share(share, rows_share(value[2].number, run)));
	else
		rows_text(&value[0], "no kernels");
	add_top(query, report, value[2].number);
}

/* Without GPU times a report says nothing of them. */
void query_gpu(struct query *query, struct report *report)
{
	if (!query_number(query, "SELECT count(*) FROM gpu_times", 0))
		return;
	add_copies(query, report);
	if (!query_number(query, "SELECT count(*) FROM gpu_times WHERE start_ns IS NOT NULL", 0))
		return;
	add_migrations(query, report);
	add_kernels(query, report);
}
