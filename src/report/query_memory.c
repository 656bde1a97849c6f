/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_memory.c - peak, use over time, kinds, holders at the peak.  "Device
 * memory" is what owns bytes on a device: views of another block (a mapping of
 * VMM memory, an opened IPC handle) are never part of a sum, and page-locked
 * host memory is told apart.  What the program has freed is not in use any more,
 * whether it is released or pending.
 */
#include "report/query.h"

#include "report/format.h"
#include "report/holder.h"
#include "report/usage.h"

#define IS_OWNER "NOT is_view AND kind <> 'ipc'"
#define IS_DEVICE IS_OWNER " AND kind NOT IN ('pinned', 'registered')"
#define IS_HOST "kind IN ('pinned', 'registered')"

static const struct rows_column memory_columns[] = {
	{ NULL, "peak", ROWS_TEXT },
	{ NULL, "held", ROWS_TEXT },
	{ NULL, "live at exit", ROWS_TEXT },
	{ NULL, "allocations", ROWS_TEXT },
	{ NULL, "host time", ROWS_TEXT },
	{ "peak_bytes", NULL, ROWS_BYTES },
	{ "peak_at_ns", NULL, ROWS_MOMENT },
	{ "peak_footprint_bytes", NULL, ROWS_BYTES },
	{ "pending_peak_bytes", NULL, ROWS_BYTES },
	{ "held_peak_bytes", NULL, ROWS_BYTES },
	{ "live_at_exit_bytes", NULL, ROWS_BYTES },
	{ "live_at_exit_blocks", NULL, ROWS_COUNT },
	{ "host_live_at_exit_bytes", NULL, ROWS_BYTES },
	{ "allocations", NULL, ROWS_COUNT },
	{ "allocated_bytes", NULL, ROWS_BYTES },
	{ "frees", NULL, ROWS_COUNT },
	{ "views", NULL, ROWS_COUNT },
	{ "alloc_host_ns", NULL, ROWS_DURATION },
	{ "free_host_ns", NULL, ROWS_DURATION },
	{ "longest_free_ns", NULL, ROWS_DURATION },
	{ NULL, NULL, ROWS_TEXT },
};

enum memory_column {
	PEAK_TEXT, HELD_TEXT, EXIT_TEXT, ALLOCATIONS_TEXT, HOST_TIME_TEXT,
	PEAK_BYTES, PEAK_AT, PEAK_FOOTPRINT, PENDING_PEAK, HELD_PEAK,
	EXIT_BYTES, EXIT_BLOCKS, HOST_EXIT_BYTES,
	ALLOCATIONS, ALLOCATED_BYTES, FREES, VIEWS, ALLOC_NS, FREE_NS, LONGEST_FREE,
};

/* The columns of the section from PEAK_BYTES on. */
static const char select_memory[] =
	"SELECT COALESCE((SELECT bytes FROM peak WHERE process_id IS NULL"
	"  AND device_id IS NULL), 0),"
	" (SELECT at_ns FROM peak WHERE process_id IS NULL AND device_id IS NULL),"
	" COALESCE(sum(peak_footprint_bytes) FILTER (WHERE " IS_DEVICE "), 0),"
	" COALESCE((SELECT pending_peak_bytes FROM peak WHERE process_id IS NULL"
	"  AND device_id IS NULL), 0),"
	" COALESCE((SELECT held_peak_bytes FROM peak WHERE process_id IS NULL"
	"  AND device_id IS NULL), 0),"
	" COALESCE(sum(exit_bytes) FILTER (WHERE " IS_DEVICE " AND kind <> 'module'), 0),"
	" COALESCE(sum(exit_count) FILTER (WHERE " IS_DEVICE " AND kind <> 'module'), 0),"
	" COALESCE(sum(exit_bytes) FILTER (WHERE " IS_OWNER " AND " IS_HOST "), 0),"
	" COALESCE(sum(count) FILTER (WHERE " IS_OWNER "), 0),"
	" COALESCE(sum(bytes) FILTER (WHERE " IS_OWNER "), 0),"
	" COALESCE(sum(frees) FILTER (WHERE " IS_OWNER "), 0),"
	" COALESCE(sum(count) FILTER (WHERE NOT (" IS_OWNER ")), 0),"
	" COALESCE(sum(alloc_ns), 0), COALESCE(sum(free_ns), 0), COALESCE(max(free_max_ns), 0)"
	" FROM allocation_total";

static const struct rows_column kind_columns[] = {
	{ "kind", "kind", ROWS_TEXT },
	{ "count", "blocks", ROWS_COUNT },
	{ "bytes", "bytes in all", ROWS_BYTES },
	{ "frees", "freed", ROWS_COUNT },
	{ "highest_bytes", "own peak", ROWS_BYTES },
	{ "peak_count", NULL, ROWS_COUNT },
	{ "peak_bytes", "at the peak", ROWS_BYTES },
	{ NULL, "share", ROWS_SHARE },
	{ "live_at_exit_count", NULL, ROWS_COUNT },
	{ "live_at_exit_bytes", "at exit", ROWS_BYTES },
	{ "is_host", NULL, ROWS_FLAG },
	{ NULL, NULL, ROWS_TEXT },
};

enum { KIND_NAME = 0, KIND_HIGHEST = 4, KIND_PEAK_BYTES = 6, KIND_SHARE = 7, KIND_IS_HOST = 10 };

static const char select_kinds[] =
	"SELECT kind, sum(count), sum(bytes), sum(frees), NULL, COALESCE(sum(peak_count), 0),"
	" COALESCE(sum(peak_bytes), 0), NULL, COALESCE(sum(exit_count), 0),"
	" COALESCE(sum(exit_bytes), 0), " IS_HOST
	" FROM allocation_total WHERE " IS_OWNER
	" GROUP BY kind HAVING kind <> 'module' OR sum(bytes) > 0"
	" ORDER BY " IS_HOST ", 7 DESC, 3 DESC";

static const struct rows_column top_columns[] = {
	HOLDER_COLUMNS("holders at the peak"),
	{ "kind", "kind", ROWS_TEXT },
	{ "count", "blocks", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ "footprint_bytes", NULL, ROWS_BYTES },
	{ NULL, "share", ROWS_SHARE },
	{ NULL, NULL, ROWS_TEXT },
};

static const struct rows_column module_columns[] = {
	{ "module", "libraries at the peak", ROWS_TEXT },
	{ "kind", "kind", ROWS_TEXT },
	{ "count", "blocks", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ "footprint_bytes", NULL, ROWS_BYTES },
	{ NULL, "share", ROWS_SHARE },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_holders[] =
	"SELECT process_id, caller, kind, sum(peak_bytes), sum(peak_count),"
	" sum(peak_footprint_bytes)"
	" FROM allocation_total WHERE peak_bytes > 0 AND " IS_DEVICE " GROUP BY 1, 2, 3";

static const struct rows_column sample_columns[] = {
	{ "at_ns", NULL, ROWS_MOMENT },	    { "process_id", NULL, ROWS_ID },
	{ "device_id", NULL, ROWS_ID },	    { "kind", NULL, ROWS_TEXT },
	{ "live_bytes", NULL, ROWS_BYTES }, { "pending_bytes", NULL, ROWS_BYTES },
	{ NULL, NULL, ROWS_TEXT },
};

/* "3.42 GiB at 8.211 s (66 % into the run), 2.4 % of the device" */
static void write_peak(struct query *query, struct rows_value *value)
{
	int64_t at = rows_minus(value[PEAK_AT].number, query->start_ns);
	int64_t devices = query_number(
		query, "SELECT count(DISTINCT physical_id) FROM physical_device JOIN device"
		       " ON device.id = device_id WHERE uuid IS NOT NULL", 0);
	int64_t total = query_number(query, "SELECT max(total_bytes) FROM device", 0);
	char bytes[FORMAT_BYTES], moment[FORMAT_BYTES], share[FORMAT_BYTES], of[FORMAT_BYTES];

	if (!value[PEAK_AT].is_set) {
		rows_text(&value[PEAK_TEXT], query->lost > 0 ?
						     "unknown: records were lost" :
						     "no device memory was allocated");
		return;
	}
	format_share(of, rows_share(value[PEAK_BYTES].number, total));
	rows_format(&value[PEAK_TEXT], "%s at %s, %s into the run%s%s%s",
		    format_bytes(bytes, value[PEAK_BYTES].number), format_moment(moment, at),
		    format_share(share, rows_share(at, rows_minus(query->end_ns, query->start_ns))),
		    devices == 1 && total > 0 ? "; " : "", devices == 1 && total > 0 ? of : "",
		    devices == 1 && total > 0 ? " of the device" : "");
}

static void write_summary(struct query *query, struct rows_value *value)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES], c[FORMAT_BYTES];

	write_peak(query, value);
	if (value[HELD_PEAK].number > value[PEAK_BYTES].number)
		rows_format(&value[HELD_TEXT],
			    "%s at most, with what was freed and not released yet",
			    format_bytes(a, value[HELD_PEAK].number));
	format_bytes(c, value[HOST_EXIT_BYTES].number);
	rows_format(&value[EXIT_TEXT], "%s in %s block%s%s%s%s",
		    format_bytes(a, value[EXIT_BYTES].number),
		    format_count(b, value[EXIT_BLOCKS].number),
		    value[EXIT_BLOCKS].number == 1 ? "" : "s",
		    value[HOST_EXIT_BYTES].number ? ", and " : "",
		    value[HOST_EXIT_BYTES].number ? c : "",
		    value[HOST_EXIT_BYTES].number ? " of page-locked host memory" : "");
	rows_format(&value[ALLOCATIONS_TEXT], "%s block%s, %s in all; %s freed by the program",
		    format_count(a, value[ALLOCATIONS].number),
		    value[ALLOCATIONS].number == 1 ? "" : "s",
		    format_bytes(b, value[ALLOCATED_BYTES].number),
		    format_count(c, value[FREES].number));
	format_duration(a, value[ALLOC_NS].number);
	if (value[FREES].number)
		rows_format(&value[HOST_TIME_TEXT],
			    "%s allocating, %s freeing; the longest free %s", a,
			    format_duration(b, value[FREE_NS].number),
			    format_duration(c, value[LONGEST_FREE].number));
	else if (value[ALLOCATIONS].number)
		rows_format(&value[HOST_TIME_TEXT], "%s allocating", a);
}

static const struct rows_value *add_summary(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "memory", "", REPORT_FIELDS, memory_columns);
	struct rows_value *value = rows_add(&section->rows);
	sqlite3_stmt *statement = query_prepare(query, select_memory);
	char bytes[FORMAT_BYTES];

	section->heading = "MEMORY";
	if (query_step(query, statement))
		for (int i = PEAK_BYTES; i <= LONGEST_FREE; i++)
			query_set(&value[i], memory_columns[i].type, statement, i - PEAK_BYTES);
	sqlite3_finalize(statement);
	write_summary(query, value);
	if (value[PEAK_FOOTPRINT].number > value[PEAK_BYTES].number)
		report_note(section, REPORT_REMARK,
			    "By the driver's page rules the blocks of the peak take %s.",
			    format_bytes(bytes, value[PEAK_FOOTPRINT].number));
	return value;
}

static void add_kinds(struct query *query, struct report *report, const struct usage *usage,
		      int64_t peak)
{
	struct report_section *section =
		report_add(report, "memory.by_kind", "by kind", REPORT_MAP, kind_columns);
	int64_t views = query_number(
		query, "SELECT sum(count) FROM allocation_total WHERE NOT (" IS_OWNER ")", 0);
	char count[FORMAT_BYTES];

	query_fill(query, &section->rows, select_kinds);
	for (size_t i = 0; i < section->rows.count; i++) {
		struct rows_value *value = rows_at(&section->rows, i);

		rows_number(&value[KIND_HIGHEST], usage_highest(usage, value[KIND_NAME].text));
		if (!value[KIND_IS_HOST].number)
			rows_number(&value[KIND_SHARE],
				    rows_share(value[KIND_PEAK_BYTES].number, peak));
	}
	if (usage_has_bounds(usage))
		report_note(section, REPORT_REMARK,
			    "Of a kind that several processes or devices used, the own peak is an "
			    "upper bound: the sum of what each had at most in one slice of time.");
	if (views)
		report_note(section, REPORT_REMARK,
			    "%s mappings and opened handles of other blocks are not counted again.",
			    format_count(count, views));
}

static void write_holder(struct rows_value *value, const struct holder *holder, int64_t peak)
{
	rows_text(&value[0], holder->kinds);
	rows_number(&value[1], holder->sum[1]);
	rows_number(&value[2], holder->sum[0]);
	rows_number(&value[3], holder->sum[2]);
	rows_number(&value[4], rows_share(holder->sum[0], peak));
}

/* Who made the blocks that were live at the peak: by place, then by file. */
static void add_holders(struct query *query, struct report *report, int64_t peak)
{
	struct report_section *top = report_add(report, "memory.top", "", REPORT_LIST, top_columns);
	struct report_section *by_module =
		report_add(report, "memory.by_module", "", REPORT_LIST, module_columns);
	struct holder_list list;
	size_t most = query->most_rows;

	holder_load(&list, query, select_holders);
	for (size_t i = 0; i < list.count && i < most; i++)
		write_holder(holder_write(&list.holder[i], query, rows_add(&top->rows)),
			     &list.holder[i], peak);
	top->rows.left_out = list.count > most ? list.count - most : 0;
	holder_join_files(&list);
	for (size_t i = 0; i < list.count; i++) {
		struct rows_value *value = rows_add(&by_module->rows);

		rows_text(&value[0], list.holder[i].path ? list.holder[i].path : "unknown");
		write_holder(value + 1, &list.holder[i], peak);
	}
	rows_cut(&by_module->rows, most);
	holder_free(&list);
}

static void add_samples(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "memory.samples", NULL, REPORT_LIST, sample_columns);

	query_fill(query, &section->rows,
		   "SELECT at_ns, process_id, device_id, kind, live_bytes, pending_bytes"
		   " FROM sample ORDER BY at_ns, process_id, device_id, kind");
}

void query_memory(struct query *query, struct report *report)
{
	const struct rows_value *summary;
	struct report_section *curve;
	struct usage usage;
	int64_t peak;

	if (!report_wants(report, REPORT_MEMORY | REPORT_PEAK))
		return;
	summary = add_summary(query, report);
	peak = summary[PEAK_BYTES].number;
	curve = report_add(report, NULL, "device memory in use over time", REPORT_CURVE,
			   usage_columns);
	usage_load(&usage, query, &curve->rows, peak, summary[HELD_PEAK].number);
	if (report_wants(report, REPORT_MEMORY))
		add_samples(query, report);
	add_kinds(query, report, &usage, peak);
	usage_free(&usage);
	add_holders(query, report, peak);
}
