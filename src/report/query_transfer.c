/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_transfer.c - what copies, memsets and prefetches cost the host.  Times
 * are those of the calls: a call that returned early tells nothing of the copy,
 * so rates are given for synchronous ones only, and for those with pageable
 * memory, whose call lasts until the driver has staged the bytes.
 */
#include "report/query.h"

#include "report/format.h"
#include "report/holder.h"

#include <stdio.h>
#include <string.h>

/* What a graph's launch copies has no host time, and is part of no rate. */
#define IS_IN_GRAPH                                                                                \
	" COALESCE(api_id, 0) IN (SELECT id FROM api WHERE name LIKE 'cuGraphLaunch%')"

#define SYNC_RATE                                                                                  \
	" CAST(sum(bytes) FILTER (WHERE NOT is_async) * 1e9"                                      \
	" / NULLIF(sum(host_ns) FILTER (WHERE NOT is_async), 0) AS INTEGER)"

static const struct rows_column kind_columns[] = {
	{ "kind", "direction", ROWS_TEXT },
	{ "count", "count", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ "host_ns", "host time", ROWS_DURATION },
	{ "longest_ns", "longest", ROWS_DURATION },
	{ "async_count", "async", ROWS_COUNT },
	{ "sync_bytes_per_second", "sync rate", ROWS_RATE },
	{ "failed", "failed", ROWS_COUNT },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_kinds[] =
	"SELECT kind, sum(count), sum(bytes), sum(host_ns), max(max_ns),"
	" COALESCE(sum(count) FILTER (WHERE is_async), 0)," SYNC_RATE ", sum(failed)"
	" FROM transfer_total GROUP BY kind ORDER BY 4 DESC, 3 DESC";

static const struct rows_column place_columns[] = {
	{ "kind", "direction", ROWS_TEXT },
	{ "host_memory", "host memory", ROWS_TEXT },
	{ "is_async", NULL, ROWS_FLAG },
	{ NULL, "call", ROWS_TEXT },
	{ "count", "count", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ "host_ns", "host time", ROWS_DURATION },
	{ "longest_ns", "longest", ROWS_DURATION },
	{ "bytes_per_second", "rate", ROWS_RATE },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_places[] =
	"SELECT kind, CASE kind WHEN 'D2H' THEN target_kind ELSE source_kind END AS place,"
	" is_async,"
	" CASE WHEN is_async THEN 'async' ELSE 'sync' END, sum(count), sum(bytes), sum(host_ns),"
	" max(max_ns), CAST(sum(bytes) FILTER (WHERE NOT is_async OR ("
	"  CASE kind WHEN 'D2H' THEN target_kind ELSE source_kind END = 'pageable'"
	"  AND NOT" IS_IN_GRAPH ")) * 1e9"
	"  / NULLIF(sum(host_ns), 0) AS INTEGER)"
	" FROM transfer_total WHERE kind IN ('H2D', 'D2H') GROUP BY kind, place, is_async"
	" ORDER BY 7 DESC";

static const struct rows_column size_columns[] = {
	{ NULL, "size", ROWS_TEXT },
	{ "min_bytes", NULL, ROWS_BYTES },
	{ "max_bytes", NULL, ROWS_BYTES },
	{ "count", "count", ROWS_COUNT },
	{ NULL, "share of the count", ROWS_BAR },
	{ "bytes", "bytes", ROWS_BYTES },
	{ "host_ns", "host time", ROWS_DURATION },
	{ NULL, NULL, ROWS_TEXT },
};

/* Classes of a factor of 4, so that 64 KiB, below which the driver stages copies, is a border. */
static const char select_sizes[] =
	"SELECT CASE WHEN size_class < 0 THEN -1 ELSE size_class / 2 * 2 END AS class,"
	" sum(count), sum(bytes), sum(host_ns) FROM transfer_total GROUP BY class ORDER BY class";

static const struct rows_column top_columns[] = {
	HOLDER_COLUMNS("most time in transfers"),
	{ "kind", "kind", ROWS_TEXT },
	{ "count", "count", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ "host_ns", "host time", ROWS_DURATION },
	{ NULL, "share", ROWS_SHARE },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_holders[] =
	"SELECT process_id, caller, kind, sum(host_ns), sum(count), sum(bytes)"
	" FROM transfer_total GROUP BY 1, 2, 3";

static const struct rows_column total_columns[] = {
	{ NULL, "in all", ROWS_TEXT },
	{ "count", NULL, ROWS_COUNT },
	{ "bytes", NULL, ROWS_BYTES },
	{ "host_ns", NULL, ROWS_DURATION },
	{ "in_graphs", NULL, ROWS_COUNT },
	{ "in_graphs_bytes", NULL, ROWS_BYTES },
	{ "captured", NULL, ROWS_COUNT },
	{ "uncounted_launches", NULL, ROWS_COUNT },
	{ NULL, NULL, ROWS_TEXT },
};

enum {
	TOTAL_TEXT, TOTAL_COUNT, TOTAL_BYTES, TOTAL_NS,
	TOTAL_IN_GRAPHS, TOTAL_IN_GRAPHS_BYTES, TOTAL_CAPTURED, TOTAL_UNCOUNTED,
};

static int64_t sum_of_graphs(struct query *query, const char *what)
{
	char sql[200];

	snprintf(sql, sizeof(sql), "SELECT sum(%s) FROM transfer_total WHERE%s", what,
		 IS_IN_GRAPH);
	return query_number(query, sql, 0);
}

/* What is copied inside of graphs passes no call of its own, and is counted launch by launch. */
static void add_graphs(struct query *query, struct report_section *section,
		       struct rows_value *value)
{
	int64_t copies = sum_of_graphs(query, "count"), moved = sum_of_graphs(query, "bytes");
	char count[FORMAT_BYTES], bytes[FORMAT_BYTES];

	rows_number(&value[TOTAL_IN_GRAPHS], copies);
	rows_number(&value[TOTAL_IN_GRAPHS_BYTES], moved);
	if (copies)
		report_note(section, REPORT_REMARK,
			    "%s of these (%s) ran inside of graphs: the launches are "
			    "counted, and their host time is not among this.",
			    format_count(count, copies), format_bytes(bytes, moved));
}

/* A graph runs such a copy at each of its launches, which are counted. */
static void add_captured(struct query *query, struct report_section *section,
			 struct rows_value *value)
{
	int64_t captured = query_number(
		query, "SELECT sum(copies) FROM transfer WHERE is_captured", 0);
	char count[FORMAT_BYTES];

	rows_number(&value[TOTAL_CAPTURED], captured);
	if (captured)
		report_note(section, REPORT_REMARK,
			    "%s of these %s captured into a graph, which moved nothing.",
			    format_count(count, captured), captured == 1 ? "was" : "were");
}

/* How many launches have a row without a number of copies: of a graph that was read, or not. */
static int64_t count_uncounted(struct query *query, bool was_read)
{
	char sql[200];

	snprintf(sql, sizeof(sql),
		 "SELECT count(*) FROM (SELECT 1 FROM transfer WHERE copies = 0"
		 " AND kind %s 'UNKNOWN' GROUP BY process_id, thread_id, start_ns)",
		 was_read ? "<>" : "=");
	return query_number(query, sql, 0);
}

/* Bodies of conditional nodes run as often as the device says, which it tells nobody. */
static void add_uncounted(struct query *query, struct report_section *section,
			  struct rows_value *value)
{
	int64_t conditional = count_uncounted(query, true);
	int64_t unread = count_uncounted(query, false);
	char count[FORMAT_BYTES];

	rows_number(&value[TOTAL_UNCOUNTED], conditional + unread);
	if (conditional)
		report_note(section, REPORT_REMARK,
			    "%s launch%s ran graphs with copies in conditional nodes: nobody "
			    "knows how often those ran, they are not counted.",
			    format_count(count, conditional), conditional == 1 ? "" : "es");
	if (unread)
		report_note(section, REPORT_REMARK,
			    "%s launch%s ran graphs that could not be read: what they copied is "
			    "not counted.",
			    format_count(count, unread), unread == 1 ? "" : "es");
}

/* The sites are few: only where there are such, all transfers are walked through. */
static void add_unmoved(struct query *query, struct report_section *section,
			struct rows_value *value)
{
	rows_number(&value[TOTAL_CAPTURED], 0);
	rows_number(&value[TOTAL_UNCOUNTED], 0);
	if (!query_number(query, "SELECT max(is_captured) FROM transfer_site", 0))
		return;
	add_captured(query, section, value);
	add_uncounted(query, section, value);
}

/* Returns the host time of all. */
static int64_t add_total(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "transfers", "", REPORT_FIELDS, total_columns);
	struct rows_value *value = rows_add(&section->rows);
	char count[FORMAT_BYTES], bytes[FORMAT_BYTES], ns[FORMAT_BYTES], share[FORMAT_BYTES];
	int64_t run = rows_minus(query->end_ns, query->start_ns);

	section->heading = "TRANSFERS";
	rows_number(&value[TOTAL_COUNT],
		    query_number(query, "SELECT sum(count) FROM transfer_total", 0));
	rows_number(&value[TOTAL_BYTES],
		    query_number(query, "SELECT sum(bytes) FROM transfer_total", 0));
	rows_number(&value[TOTAL_NS],
		    query_number(query, "SELECT sum(host_ns) FROM transfer_total", 0));
	if (!value[TOTAL_COUNT].number)
		rows_text(&value[TOTAL_TEXT], "no copies, no memsets");
	else
		rows_format(&value[TOTAL_TEXT], "%s transfers, %s, %s of host time (%s of the run)",
			    format_count(count, value[TOTAL_COUNT].number),
			    format_bytes(bytes, value[TOTAL_BYTES].number),
			    format_duration(ns, value[TOTAL_NS].number),
			    format_share(share, rows_share(value[TOTAL_NS].number, run)));
	add_graphs(query, section, value);
	add_unmoved(query, section, value);
	return value[TOTAL_NS].number;
}

/* What one way of copying did in all directions. */
struct way {
	int64_t count, bytes, ns, sync_bytes, sync_ns;
};

static void sum_way(struct query *query, const char *place, struct way *way)
{
	sqlite3_stmt *statement = query_prepare(
		query, "SELECT COALESCE(sum(count), 0), COALESCE(sum(bytes), 0),"
		       " COALESCE(sum(host_ns), 0),"
		       " COALESCE(sum(bytes) FILTER (WHERE NOT is_async), 0),"
		       " COALESCE(sum(host_ns) FILTER (WHERE NOT is_async), 0) FROM transfer_total"
		       " WHERE kind IN ('H2D', 'D2H') AND NOT" IS_IN_GRAPH
		       " AND CASE kind WHEN 'D2H' THEN target_kind ELSE source_kind END = ?");

	memset(way, 0, sizeof(*way));
	sqlite3_bind_text(statement, 1, place, -1, SQLITE_STATIC);
	if (query_step(query, statement)) {
		way->count = sqlite3_column_int64(statement, 0);
		way->bytes = sqlite3_column_int64(statement, 1);
		way->ns = sqlite3_column_int64(statement, 2);
		way->sync_bytes = sqlite3_column_int64(statement, 3);
		way->sync_ns = sqlite3_column_int64(statement, 4);
	}
	sqlite3_finalize(statement);
}

/* What pageable memory costs, with this run's own figures where it has both kinds. */
static void note_pageable(struct query *query, struct report_section *section)
{
	char count[FORMAT_BYTES], bytes[FORMAT_BYTES], ns[FORMAT_BYTES];
	char slow[FORMAT_BYTES], fast[FORMAT_BYTES];
	struct way pageable, pinned;

	sum_way(query, "pageable", &pageable);
	sum_way(query, "pinned", &pinned);
	if (!pageable.count)
		return;
	report_note(section, REPORT_HINT,
		    "%s copies (%s) touch pageable memory and took %s of host time: the driver "
		    "stages them, and an async one may return only when it is staged.",
		    format_count(count, pageable.count), format_bytes(bytes, pageable.bytes),
		    format_duration(ns, pageable.ns));
	if (pageable.sync_bytes >= 1 << 20 && pinned.sync_bytes >= 1 << 20)
		report_note(section, REPORT_HINT,
			    "Synchronous copies ran at %s from and to pageable memory, at %s with "
			    "pinned memory.",
			    format_rate(slow, rows_rate(pageable.sync_bytes, pageable.sync_ns)),
			    format_rate(fast, rows_rate(pinned.sync_bytes, pinned.sync_ns)));
}

static void add_places(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "transfers.by_host_memory", "", REPORT_LIST, place_columns);

	query_fill(query, &section->rows, select_places);
	note_pageable(query, section);
}

/* 2 to the power of `class`, as a whole number of the largest unit. */
static char *print_power(char *text, int64_t class)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };

	snprintf(text, FORMAT_BYTES, "%d %s", 1 << class % 10, unit[class / 10]);
	return text;
}

static void write_size(struct rows_value *value, int64_t class)
{
	char from[FORMAT_BYTES], to[FORMAT_BYTES];

	if (class < 0) {
		rows_text(&value[0], "nothing");
		rows_number(&value[1], 0);
		rows_number(&value[2], 0);
		return;
	}
	rows_number(&value[1], INT64_C(1) << class);
	rows_number(&value[2], class > 60 ? INT64_MAX : (INT64_C(4) << class) - 1);
	rows_format(&value[0], "%s to %s", print_power(from, class), print_power(to, class + 2));
}

static void add_sizes(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "transfers.by_size", "", REPORT_LIST, size_columns);
	int64_t all = query_number(query, "SELECT sum(count) FROM transfer_total", 0);
	sqlite3_stmt *statement = query_prepare(query, select_sizes);

	while (query_step(query, statement)) {
		struct rows_value *value = rows_add(&section->rows);
		int64_t class = sqlite3_column_int64(statement, 0);

		write_size(value, class < -1 ? -1 : class > 62 ? 62 : class);
		query_set(&value[3], ROWS_COUNT, statement, 1);
		rows_number(&value[4], rows_share(value[3].number, all));
		query_set(&value[5], ROWS_BYTES, statement, 2);
		query_set(&value[6], ROWS_DURATION, statement, 3);
	}
	sqlite3_finalize(statement);
}

static void add_holders(struct query *query, struct report *report, int64_t all_ns)
{
	struct report_section *section =
		report_add(report, "transfers.top", "", REPORT_LIST, top_columns);
	struct holder_list list;

	holder_load(&list, query, select_holders);
	for (size_t i = 0; i < list.count && i < query->most_rows; i++) {
		const struct holder *holder = &list.holder[i];
		struct rows_value *value = holder_write(holder, query, rows_add(&section->rows));

		rows_text(&value[0], holder->kinds);
		rows_number(&value[1], holder->sum[1]);
		rows_number(&value[2], holder->sum[2]);
		rows_number(&value[3], holder->sum[0]);
		rows_number(&value[4], rows_share(holder->sum[0], all_ns));
	}
	section->rows.left_out = list.count - section->rows.count;
	holder_free(&list);
}

void query_transfer(struct query *query, struct report *report)
{
	struct report_section *section;
	int64_t all_ns;

	if (!report_wants(report, REPORT_TRANSFERS))
		return;
	all_ns = add_total(query, report);
	section = report_add(report, "transfers.by_kind", "", REPORT_MAP, kind_columns);
	query_fill(query, &section->rows, select_kinds);
	add_places(query, report);
	add_sizes(query, report);
	add_holders(query, report, all_ns);
	query_gpu(query, report);
}
