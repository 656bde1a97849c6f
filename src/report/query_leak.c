/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_leak.c - what was never given back: blocks that were live when their
 * process ended.  Blocks that died with their context are no leaks of the
 * process, but nobody freed them either, so they are told of; the globals of a
 * module belong to the module, which programs seldom unload.
 */
#include "report/query.h"

#include "report/format.h"
#include "report/holder.h"

#define IS_OWNER "NOT is_view AND kind <> 'ipc'"
#define IS_LEAK IS_OWNER " AND kind <> 'module'"

static const struct rows_column leak_columns[] = {
	HOLDER_COLUMNS("live at exit"),
	{ "kind", "kind", ROWS_TEXT },
	{ "count", "blocks", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_leaks[] =
	"SELECT process_id, caller, kind, sum(exit_bytes), sum(exit_count), 0"
	" FROM allocation_total WHERE exit_count > 0 AND " IS_LEAK " GROUP BY 1, 2, 3";

static void note_others(struct query *query, struct report_section *section)
{
	int64_t views = query_number(
		query, "SELECT sum(exit_count) FROM allocation_total WHERE NOT (" IS_OWNER ")", 0);
	int64_t ended = query_number(
		query, "SELECT sum(ended_count) FROM allocation_total WHERE " IS_OWNER, 0);
	int64_t ended_bytes = query_number(
		query, "SELECT sum(ended_bytes) FROM allocation_total WHERE " IS_OWNER, 0);
	int64_t modules = query_number(
		query, "SELECT sum(exit_bytes) FROM allocation_total WHERE kind = 'module'", 0);
	char count[FORMAT_BYTES], bytes[FORMAT_BYTES];

	if (section->rows.count &&
	    query_number(query, "SELECT count(*) FROM process WHERE exit_signal > 0", 0))
		report_note(section, REPORT_REMARK,
			    "A process was ended by a signal: what it held then is among these.");
	if (modules)
		report_note(section, REPORT_REMARK,
			    "Modules that were still loaded held %s of globals.",
			    format_bytes(bytes, modules));
	if (ended) {
		if (query->lost <= 0)
			section->nothing = "No block was live when its process ended.";
		report_note(section, REPORT_REMARK,
			    "%s block%s (%s) %s never freed by the program, but died with %s "
			    "context.",
			    format_count(count, ended), ended == 1 ? "" : "s",
			    format_bytes(bytes, ended_bytes), ended == 1 ? "was" : "were",
			    ended == 1 ? "its" : "their");
	}
	if (views)
		report_note(section, REPORT_REMARK,
			    "%s mappings or opened handles of other blocks were left open; they "
			    "own no bytes.",
			    format_count(count, views));
	if (!query->is_complete)
		report_note(section, REPORT_WARNING,
			    "The trace ends early: blocks that were freed later count as live "
			    "here.");
	if (query->lost > 0)
		report_note(section, REPORT_WARNING,
			    "Records were lost: blocks whose allocation was among them are missing "
			    "here, those whose release was among them count as live.");
}

void query_leak(struct query *query, struct report *report)
{
	struct report_section *section;
	struct holder_list list;

	if (!report_wants(report, REPORT_LEAKS | REPORT_MEMORY))
		return;
	section = report_add(report, "memory.leaks", "", REPORT_LIST, leak_columns);
	section->heading = "LEAKS";
	section->nothing = query->lost > 0 ? "No block is known to have been live at the end." :
					     "Every block was freed before its process ended.";
	holder_load(&list, query, select_leaks);
	for (size_t i = 0; i < list.count && i < query->most_rows; i++) {
		struct rows_value *value =
			holder_write(&list.holder[i], query, rows_add(&section->rows));

		rows_text(&value[0], list.holder[i].kinds);
		rows_number(&value[1], list.holder[i].sum[1]);
		rows_number(&value[2], list.holder[i].sum[0]);
	}
	section->rows.left_out = list.count - section->rows.count;
	holder_free(&list);
	note_others(query, section);
}
