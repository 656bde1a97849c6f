/* SPDX-License-Identifier: Apache-2.0 */
/* query_oom.c - the black box: what there was when device memory first ran out. */
#include "report/query.h"

#include "report/format.h"
#include "report/holder.h"

static const struct rows_column oom_columns[] = {
	{ NULL, "failed", ROWS_TEXT },
	{ NULL, "the driver said", ROWS_TEXT },
	{ NULL, "the program had", ROWS_TEXT },
	{ "process_id", NULL, ROWS_ID },
	{ "device_id", NULL, ROWS_ID },
	{ "device", NULL, ROWS_ID },
	{ "at_ns", NULL, ROWS_MOMENT },
	{ "api", NULL, ROWS_TEXT },
	{ "origin", NULL, ROWS_TEXT },
	{ "requested_bytes", NULL, ROWS_BYTES },
	{ "free_bytes", NULL, ROWS_BYTES },
	{ "total_bytes", NULL, ROWS_BYTES },
	{ "live_bytes", NULL, ROWS_BYTES },
	{ "pending_bytes", NULL, ROWS_BYTES },
	{ "pools_reserved_bytes", NULL, ROWS_BYTES },
	{ "largest_free_bytes", NULL, ROWS_BYTES },
	{ NULL, NULL, ROWS_TEXT },
};

enum oom_column {
	FAILED_TEXT, DRIVER_TEXT, HAD_TEXT,
	PROCESS, DEVICE, ORDINAL, AT, API, ORIGIN, REQUESTED, FREE, TOTAL, LIVE, PENDING, POOLS,
	LARGEST
};

/* The columns from PROCESS on, then the id. */
static const char select_ooms[] =
	"SELECT o.process_id, o.device_id, d.ordinal, o.at_ns, api.name, f.origin,"
	" o.requested_bytes, o.free_bytes, o.total_bytes, o.live_bytes, o.pending_bytes,"
	" o.pools_reserved, o.largest_free_bytes, o.id"
	" FROM oom o LEFT JOIN failure f ON f.id = o.failure_id LEFT JOIN api ON api.id = f.api_id"
	" LEFT JOIN device d ON d.id = o.device_id ORDER BY o.at_ns, o.id";

static const struct rows_column holder_columns[] = {
	HOLDER_COLUMNS("holders when memory ran out"),
	{ "process_id", NULL, ROWS_ID },
	{ "kind", "kind", ROWS_TEXT },
	{ "count", "blocks", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ NULL, "share", ROWS_SHARE },
	{ NULL, NULL, ROWS_TEXT },
};

/* "cuMemAlloc_v2 of 40.0 GiB on device 0 at 8.211 s" */
static void write_failed(const struct report *report, struct rows_value *value)
{
	char bytes[FORMAT_BYTES], moment[FORMAT_BYTES];

	format_bytes(bytes, value[REQUESTED].number);
	rows_format(&value[FAILED_TEXT], "%s%s%s, at %s%s",
		    value[API].is_set ? value[API].text : "a call",
		    value[REQUESTED].number ? " of " : "", value[REQUESTED].number ? bytes : "",
		    format_moment(moment, rows_minus(value[AT].number, report->start_ns)),
		    value[ORIGIN].is_set && value[ORIGIN].text[0] == 'l' ?
			    "; it was refused by --limit" : "");
}

static void write_texts(const struct report *report, struct rows_value *value)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES], c[FORMAT_BYTES];

	write_failed(report, value);
	if (value[FREE].is_set)
		rows_format(&value[DRIVER_TEXT], "%s free of %s",
			    format_bytes(a, value[FREE].number),
			    format_bytes(b, value[TOTAL].number));
	else
		rows_text(&value[DRIVER_TEXT], "nothing: it could not be asked");
	format_bytes(c, value[POOLS].number);
	rows_format(&value[HAD_TEXT], "%s live, %s freed and not released yet%s%s%s",
		    format_bytes(a, value[LIVE].number), format_bytes(b, value[PENDING].number),
		    value[POOLS].number ? "; its pools reserve " : "",
		    value[POOLS].number ? c : "", value[POOLS].number ? " in all" : "");
}

static void add_holders(struct query *query, struct report_section *section, int64_t oom_id,
			const struct rows_value *oom)
{
	struct holder_list list;
	char sql[192];

	sqlite3_snprintf(sizeof(sql), sql,
			 "SELECT process_id, caller, kind, bytes, count FROM oom_holder"
			 " JOIN oom ON oom.id = oom_id WHERE oom_id = %lld", (long long)oom_id);
	holder_load(&list, query, sql);
	for (size_t i = 0; i < list.count; i++) {
		struct rows_value *value =
			holder_write(&list.holder[i], query, rows_add(&section->rows));

		value[0] = oom[PROCESS];
		rows_text(&value[1], list.holder[i].kinds);
		rows_number(&value[2], list.holder[i].sum[1]);
		rows_number(&value[3], list.holder[i].sum[0]);
		rows_number(&value[4], rows_share(list.holder[i].sum[0], oom[LIVE].number));
	}
	holder_free(&list);
}

/* Programs get all of them in two lists, people each with its holders. */
static void show_oom(struct query *query, struct report *report, const struct rows_value *oom,
		     int64_t id, bool is_first)
{
	struct report_section *fields = report_add(report, NULL, "", REPORT_FIELDS, oom_columns);
	struct report_section *holders =
		report_add(report, NULL, "", REPORT_LIST, holder_columns);
	struct rows_value *value = rows_add(&fields->rows);

	fields->heading = is_first ? "OUT OF MEMORY" : NULL;
	for (int i = FAILED_TEXT; i <= HAD_TEXT; i++)
		rows_text(&value[i], oom[i].text);
	add_holders(query, holders, id, oom);
	rows_cut(&holders->rows, query->most_rows);
}

void query_oom(struct query *query, struct report *report)
{
	struct report_section *all, *holders;
	sqlite3_stmt *statement;

	if (!report_wants(report, REPORT_MEMORY))
		return;
	all = report_add(report, "oom", NULL, REPORT_LIST, oom_columns);
	holders = report_add(report, "oom_holders", NULL, REPORT_LIST, holder_columns);
	statement = query_prepare(query, select_ooms);
	while (query_step(query, statement)) {
		struct rows_value *value = rows_add(&all->rows);
		int64_t id = sqlite3_column_int64(statement, LARGEST - PROCESS + 1);

		for (int i = PROCESS; i <= LARGEST; i++)
			query_set(&value[i], oom_columns[i].type, statement, i - PROCESS);
		write_texts(report, value);
		add_holders(query, holders, id, value);
		show_oom(query, report, value, id, all->rows.count == 1);
	}
	sqlite3_finalize(statement);
}
