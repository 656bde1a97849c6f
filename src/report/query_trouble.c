/* SPDX-License-Identifier: Apache-2.0 */
/* query_trouble.c - calls that failed, and what a trace does not tell. */
#include "report/query.h"

#include "core/trace_names.h"
#include "report/holder.h"
#include "report/symbol.h"

#include <inttypes.h>
#include <string.h>

static const struct rows_column failure_columns[] = {
	{ "api", "failed calls", ROWS_TEXT },
	{ "result", NULL, ROWS_ID },
	{ "result_name", NULL, ROWS_TEXT },
	{ NULL, "result", ROWS_TEXT },
	{ "origin", NULL, ROWS_TEXT },
	{ "count", "calls", ROWS_COUNT },
	{ "first_at_ns", "first at", ROWS_MOMENT },
	{ "largest_bytes", "largest", ROWS_BYTES },
	{ NULL, NULL, ROWS_TEXT },
};

enum { RESULT = 1, RESULT_NAME = 2, RESULT_SHOWN = 3, ORIGIN = 4 };

static const char select_failures[] =
	"SELECT COALESCE(name, '?'), result, NULL, NULL, origin, count(*), min(at_ns),"
	" NULLIF(max(bytes), 0) FROM failure LEFT JOIN api ON api.id = api_id"
	" GROUP BY 1, result, origin ORDER BY 6 DESC, 7";

static const struct rows_column lost_columns[] = {
	{ "process_id", NULL, ROWS_ID },      { "thread_id", NULL, ROWS_ID },
	{ NULL, "thread", ROWS_TEXT },	      { "count", "records lost", ROWS_COUNT },
	{ "from_ns", "from", ROWS_MOMENT },   { "to_ns", "to", ROWS_MOMENT },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_gaps[] =
	"SELECT gap.process_id, thread_id, COALESCE('thread ' || tid, 'several threads'), count,"
	" from_ns, to_ns FROM gap LEFT JOIN thread ON thread.id = thread_id"
	" ORDER BY from_ns";

/* What all names begin with is left out for people: the rest is long enough. */
static void name_results(struct rows *rows)
{
	static const char prefix[] = "CUDA_ERROR_";

	for (size_t i = 0; i < rows->count; i++) {
		struct rows_value *value = rows_at(rows, i);
		int64_t result = value[RESULT].number;
		const char *name =
			result >= 0 && result <= UINT16_MAX ? result_name((unsigned)result) : NULL;

		rows_text(&value[RESULT_NAME], name);
		if (!name)
			rows_format(&value[RESULT_SHOWN], "error %" PRId64, result);
		else if (strncmp(name, prefix, sizeof(prefix) - 1))
			rows_text(&value[RESULT_SHOWN], name);
		else
			rows_text(&value[RESULT_SHOWN], name + sizeof(prefix) - 1);
	}
}

static const char select_turns[] =
	"SELECT failure.process_id, caller, pid, COALESCE(name, '?') FROM failure"
	" JOIN process ON process.id = failure.process_id LEFT JOIN api ON api.id = api_id"
	" WHERE origin = 'fail-nth' ORDER BY at_ns";

/* From where in the program the call came whose turn it was to fail. */
static void note_turn(struct query *query, struct report_section *section, sqlite3_stmt *turn)
{
	static const struct rows_column columns[] = { HOLDER_COLUMNS("by"),
						      { NULL, NULL, ROWS_TEXT } };
	uint64_t caller = (uint64_t)sqlite3_column_int64(turn, 1);
	struct symbol_place place = { NULL, 0 };
	struct holder holder = { 0 };
	struct rows by;

	if (caller)
		symbol_locate(query->symbols, sqlite3_column_int64(turn, 0), caller, &place);
	holder.path = place.path;
	holder.offset = place.offset;
	rows_init(&by, columns);
	holder_write(&holder, query, rows_add(&by));
	report_note(section, REPORT_REMARK,
		    "In process %d it was the turn of %s, called by %s, to fail (--fail-nth): the "
		    "driver was not asked.",
		    sqlite3_column_int(turn, 2), (const char *)sqlite3_column_text(turn, 3),
		    rows_at(&by, 0)->text);
	rows_free(&by);
}

static void note_turns(struct query *query, struct report_section *section)
{
	sqlite3_stmt *turn = query_prepare(query, select_turns);

	while (query_step(query, turn))
		note_turn(query, section, turn);
	sqlite3_finalize(turn);
}

/* Ours are worth a word of their own: the program did not make them. */
static void note_origin(struct report_section *section)
{
	int64_t ours = 0;

	for (size_t i = 0; i < section->rows.count; i++) {
		const char *origin = rows_at(&section->rows, i)[ORIGIN].text;

		if (origin && origin[0] == 'c')
			ours++;
	}
	if (ours)
		report_note(section, REPORT_WARNING,
			    "%" PRId64 " of these rows are calls that custody made itself.", ours);
}

/* A device that was made to look smaller was full; how small it was stands in the options. */
static void note_limit(struct query *query, struct report_section *section)
{
	static const char count[] = "SELECT count(*) FROM failure WHERE origin = 'limit'";
	int64_t calls = query_number(query, count, 0);

	if (calls)
		report_note(section, REPORT_REMARK,
			    "%" PRId64 " of these calls would have gone beyond the limit "
			    "(--limit): the driver was not asked.",
			    calls);
}

static void add_failures(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "failures", "", REPORT_LIST, failure_columns);

	section->nothing = query->lost > 0 ?
				   "No failed call is among the records that were kept." :
				   "No driver call failed.";
	query_fill(query, &section->rows, select_failures);
	name_results(&section->rows);
	note_origin(section);
	note_turns(query, section);
	note_limit(query, section);
}

static void add_lost(struct query *query, struct report *report)
{
	struct report_section *section = report_add(report, "lost", "", REPORT_LIST, lost_columns);

	query_fill(query, &section->rows, select_gaps);
	rows_cut(&section->rows, query->most_rows);
	if (query->lost > 0)
		report_note(section, REPORT_WARNING,
			    "Between these moments records were lost: what they told is missing in "
			    "every figure above.");
}

void query_trouble(struct query *query, struct report *report)
{
	static const struct rows_column advice_columns[] = {
		{ "text", NULL, ROWS_TEXT },
		{ NULL, NULL, ROWS_TEXT },
	};

	query_finding(query, report);
	add_failures(query, report);
	add_lost(query, report);
	query_uncovered(query, report);
	report_add(report, "advice", NULL, REPORT_LIST, advice_columns);
}
