/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_call.c - the driver functions that took the host's time, and what the
 * queue of deferred frees did.
 */
#include "report/query.h"

#include "report/format.h"

#include <stdlib.h>

static const struct rows_column call_columns[] = {
	{ "name", "driver function", ROWS_TEXT },
	{ "calls", "calls", ROWS_COUNT },
	{ "errors", "errors", ROWS_COUNT },
	{ "total_ns", "host time", ROWS_DURATION },
	{ NULL, "mean", ROWS_DURATION },
	{ "max_ns", "longest", ROWS_DURATION },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_calls[] =
	"SELECT name, sum(calls) AS calls, sum(errors), sum(total_ns) AS total,"
	" sum(total_ns) / NULLIF(sum(calls) FILTER (WHERE total_ns IS NOT NULL), 0), max(max_ns)"
	" FROM api_call JOIN api ON api.id = api_id GROUP BY name ORDER BY total DESC, calls DESC";

static const struct rows_column frees_columns[] = {
	{ "policy", NULL, ROWS_TEXT },
	{ NULL, "deferred frees", ROWS_TEXT },
	{ "longest_flush_ns", NULL, ROWS_DURATION },
	{ "waited_ns", NULL, ROWS_DURATION },
	{ NULL, NULL, ROWS_TEXT },
};

static const struct rows_column flush_columns[] = {
	{ "cause", "flushes", ROWS_TEXT },
	{ "passes", "passes", ROWS_COUNT },
	{ "count", "blocks", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ "failed", "failed", ROWS_COUNT },
	{ "duration_ns", "host time", ROWS_DURATION },
	{ "waited_ns", "waited", ROWS_DURATION },
	{ NULL, NULL, ROWS_TEXT },
};

static void add_frees(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "frees", NULL, REPORT_FIELDS, frees_columns);
	struct rows_value *value = rows_add(&section->rows);
	char *policy = query_text(query, "SELECT group_concat(DISTINCT policy) FROM process");
	char longest[FORMAT_BYTES], waited[FORMAT_BYTES];
	struct report_section *flushes;

	rows_text(&value[0], policy);
	free(policy);
	rows_number(&value[2], query_number(query, "SELECT max(duration_ns) FROM flush", 0));
	rows_number(&value[3], query_number(query, "SELECT sum(waited_ns) FROM flush", 0));
	flushes = report_add(report, "frees.flushes", "", REPORT_MAP, flush_columns);
	query_fill(query, &flushes->rows,
		   "SELECT COALESCE(cause, '?'), count(*), sum(count), sum(bytes), sum(failed),"
		   " sum(duration_ns), sum(waited_ns) FROM flush GROUP BY 1 ORDER BY 6 DESC");
	if (!flushes->rows.count)
		return;
	section->title = "";
	rows_format(&value[1], "longest flush %s, waited %s in all",
		    format_duration(longest, value[2].number),
		    format_duration(waited, value[3].number));
}

void query_call(struct query *query, struct report *report)
{
	struct report_section *section;

	if (!report_wants(report, REPORT_MEMORY))
		return;
	add_frees(query, report);
	if (report->parts != REPORT_EVERYTHING)
		return;
	section = report_add(report, "calls", "", REPORT_LIST, call_columns);
	section->heading = "DRIVER CALLS";
	query_fill(query, &section->rows, select_calls);
	rows_cut(&section->rows, query->most_rows);
}
