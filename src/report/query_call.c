/* SPDX-License-Identifier: Apache-2.0 */
/* query_call.c - the driver functions that took the host's time. */
#include "report/query.h"

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

void query_call(struct query *query, struct report *report)
{
	struct report_section *section;

	if (report->parts != REPORT_EVERYTHING)
		return;
	section = report_add(report, "calls", "", REPORT_LIST, call_columns);
	section->heading = "DRIVER CALLS";
	query_fill(query, &section->rows, select_calls);
	rows_cut(&section->rows, query->most_rows);
}
