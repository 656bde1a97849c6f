/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_free.c - what frees cost: the time spent in those that can wait for the
 * device, who made them, what was put off and for how long, and what it would
 * save, or has saved, that no free waits.
 */
#include "report/query.h"

#include "report/format.h"
#include "report/holder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Worth a hint: a hundredth of the run, and frees that are seen to wait. */
enum { HINT_SHARE = 100, HINT_NS = 100000, WHOLE_RUN = 10000 };

/* Of fewer blocks than these nobody wants to know how the slowest of a hundred fared. */
enum { FEW = 100 };

/* The functions that wait until the context is idle, and whose wait custody can spare. */
#define CAN_WAIT                                                                                   \
	"(deferred > 0 OR api_id IN (SELECT id FROM api WHERE name IN ('cuMemFree',"               \
	" 'cuMemFree_v2', 'cuMemFreeHost', 'cuArrayDestroy', 'cuMipmappedArrayDestroy',"           \
	" 'cuModuleUnload')))"

static const struct rows_column free_columns[] = {
	{ NULL, "policy", ROWS_TEXT },
	{ NULL, "frees", ROWS_TEXT },
	{ NULL, "deferred", ROWS_TEXT },
	{ NULL, "waited", ROWS_TEXT },
	{ NULL, "at exit", ROWS_TEXT },
	{ NULL, "nowait", ROWS_TEXT },
	{ "policy", NULL, ROWS_TEXT },
	{ "calls", NULL, ROWS_COUNT },
	{ "host_ns", NULL, ROWS_DURATION },
	{ "longest_ns", NULL, ROWS_DURATION },
	{ "deferred", NULL, ROWS_COUNT },
	{ "deferred_bytes", NULL, ROWS_BYTES },
	{ "free_waited_ns", NULL, ROWS_DURATION },
	{ "longest_wait_ns", NULL, ROWS_DURATION },
	{ "nowait_at_most_ns", NULL, ROWS_DURATION },
	{ "pending_median_ns", NULL, ROWS_DURATION },
	{ "pending_p99_ns", NULL, ROWS_DURATION },
	{ "pending_longest_ns", NULL, ROWS_DURATION },
	{ "pending_at_exit_blocks", NULL, ROWS_COUNT },
	{ "pending_at_exit_bytes", NULL, ROWS_BYTES },
	{ "longest_flush_ns", NULL, ROWS_DURATION },
	{ "flush_waited_ns", NULL, ROWS_DURATION },
	{ "failed_releases", NULL, ROWS_COUNT },
	{ "waited_ns", NULL, ROWS_DURATION },
	{ NULL, NULL, ROWS_TEXT },
};

enum free_column {
	POLICY_TEXT, FREES_TEXT, DEFERRED_TEXT, WAITED_TEXT, EXIT_TEXT, NOWAIT_TEXT,
	POLICY, CALLS, HOST_NS, LONGEST, DEFERRED, DEFERRED_BYTES, FREE_WAITED, LONGEST_WAIT,
	NOWAIT, MEDIAN, P99, LONGEST_PENDING, EXIT_BLOCKS, EXIT_BYTES, LONGEST_FLUSH,
	FLUSH_WAITED, FAILED, WAITED
};

/*
 * From CALLS on.  What nowait would spare is the time of frees that the driver did
 * there and then, and the wait of those that waited under our hands; where they
 * did not wait, what they would have waited is in saved_ns.
 */
static const char select_frees[] =
	"SELECT COALESCE(sum(count), 0), COALESCE(sum(host_ns), 0), COALESCE(max(max_ns), 0),"
	" COALESCE(sum(deferred), 0), COALESCE(sum(deferred_bytes), 0),"
	" COALESCE(sum(waited_ns), 0), COALESCE(max(waited_max_ns), 0),"
	" COALESCE(sum(CASE policy WHEN 'nowait' THEN saved_ns ELSE forwarded_ns + waited_ns"
	"  END), 0)"
	" FROM free_total LEFT JOIN process ON process.id = process_id WHERE " CAN_WAIT;

static const char select_pending[] =
	"SELECT COALESCE(median_ns, 0), COALESCE(p99_ns, 0), COALESCE(longest_ns, 0), exit_count,"
	" exit_bytes FROM pending_total";

static const char select_flushes[] =
	"SELECT COALESCE(max(duration_ns), 0), COALESCE(sum(waited_ns), 0),"
	" COALESCE(sum(failed), 0) FROM flush";

/* What is said of one function, by caller and by library. */
#define API_COLUMNS                                                                                \
	{ "api", NULL, ROWS_TEXT }, { "count", "calls", ROWS_COUNT },                              \
	{ "deferred", "deferred", ROWS_COUNT }, { "host_ns", "host time", ROWS_DURATION },         \
	{ "waited_ns", "waited", ROWS_DURATION }, { "saved_ns", "saved", ROWS_DURATION }

static const struct rows_column caller_columns[] = {
	HOLDER_COLUMNS("frees that can wait"),
	API_COLUMNS,
	{ NULL, NULL, ROWS_TEXT },
};

static const struct rows_column module_columns[] = {
	{ "module", "by library", ROWS_TEXT },
	API_COLUMNS,
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_callers[] =
	"SELECT process_id, caller, COALESCE((SELECT name FROM api WHERE id = api_id), ''),"
	" sum(host_ns) + sum(saved_ns), sum(count), sum(deferred), sum(waited_ns), sum(saved_ns)"
	" FROM free_total WHERE " CAN_WAIT " GROUP BY 1, 2, 3";

enum caller_sum { SUM_COST, SUM_COUNT, SUM_DEFERRED, SUM_WAITED, SUM_SAVED };

static const struct rows_column flush_columns[] = {
	{ "cause", "passes", ROWS_TEXT },
	{ "passes", "times", ROWS_COUNT },
	{ "count", "blocks", ROWS_COUNT },
	{ "bytes", "bytes", ROWS_BYTES },
	{ "failed", "failed", ROWS_COUNT },
	{ "duration_ns", "host time", ROWS_DURATION },
	{ "longest_ns", "longest", ROWS_DURATION },
	{ "waited_ns", "waited", ROWS_DURATION },
	{ NULL, NULL, ROWS_TEXT },
};

static void read_columns(struct query *query, struct rows_value *value, int first, const char *sql)
{
	sqlite3_stmt *statement = query_prepare(query, sql);
	int columns = sqlite3_column_count(statement);
	bool is_there = query_step(query, statement);

	for (int i = 0; i < columns; i++) {
		rows_number(&value[first + i], 0);
		if (is_there)
			query_set(&value[first + i], free_columns[first + i].type, statement, i);
	}
	sqlite3_finalize(statement);
}

static void write_policy(struct rows_value *value, const char *policy)
{
	static const struct {
		const char *policy, *meaning;
	} known[] = {
		{ "immediate", "each free goes to the driver at once" },
		{ "deferred", "a free waits as it would have; plain memory is released later" },
		{ "nowait", "no free waits, memory is released later" },
	};
	const char *meaning = NULL;

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(policy, known[i].policy))
			meaning = known[i].meaning;
	/* Those of the library never wait, whatever the policy is for all others. */
	rows_format(&value[POLICY_TEXT], "%s%s%s%s", policy, meaning ? ": " : "",
		    meaning ? meaning : "",
		    value[DEFERRED].number && !strcmp(policy, "immediate") ?
			    ", but for those of libcustody" : "");
}

static void write_calls(struct query *query, struct rows_value *value)
{
	char calls[FORMAT_BYTES], spent[FORMAT_BYTES], longest[FORMAT_BYTES];

	if (!value[CALLS].number) {
		rows_text(&value[FREES_TEXT],
			  query->lost > 0 ?
				  "none that can wait is among the records that were kept" :
				  "none that can wait for the device");
		return;
	}
	rows_format(&value[FREES_TEXT],
		    "%s of those that can wait for the device, %s of host time; the longest %s",
		    format_count(calls, value[CALLS].number),
		    format_duration(spent, value[HOST_NS].number),
		    format_duration(longest, value[LONGEST].number));
}

/* "pending for 31.9 us in the median, 105 us at most"; of one block just for how long. */
static void write_pending(struct query *query, const struct rows_value *value, char *text,
			  size_t bytes)
{
	int64_t released = query_number(query, "SELECT released FROM pending_total", 0);
	char median[FORMAT_BYTES], p99[FORMAT_BYTES], longest[FORMAT_BYTES];

	*text = '\0';
	if (!value[LONGEST_PENDING].number)
		return;
	format_duration(longest, value[LONGEST_PENDING].number);
	format_duration(median, value[MEDIAN].number);
	format_duration(p99, value[P99].number);
	if (released == 1)
		snprintf(text, bytes, "; pending for %s", longest);
	else if (released < FEW)
		snprintf(text, bytes, "; pending for %s in the median, %s at most", median,
			 longest);
	else
		snprintf(text, bytes,
			 "; pending for %s in the median, %s for 99 of 100, %s at most", median,
			 p99, longest);
}

static void write_deferred(struct query *query, struct rows_value *value, const char *policy)
{
	int64_t most = query_number(query, "SELECT pending_peak_bytes FROM peak"
					   " WHERE process_id IS NULL AND device_id IS NULL", 0);
	char a[FORMAT_BYTES], b[FORMAT_BYTES], times[4 * FORMAT_BYTES + 64];
	char at_a_time[FORMAT_BYTES + 32] = "";

	/* A driver may lack what it takes, or no block was of a kind that is put off. */
	if (!value[DEFERRED].number && value[CALLS].number && strcmp(policy, "immediate"))
		rows_text(&value[DEFERRED_TEXT], "none of them");
	if (!value[DEFERRED].number)
		return;
	if (most && value[DEFERRED].number > 1)
		snprintf(at_a_time, sizeof(at_a_time), " (at most %s at a time)",
			 format_bytes(a, most));
	write_pending(query, value, times, sizeof(times));
	rows_format(&value[DEFERRED_TEXT], "%s of them, %s%s%s",
		    format_count(a, value[DEFERRED].number),
		    format_bytes(b, value[DEFERRED_BYTES].number), at_a_time, times);
	if (value[EXIT_BLOCKS].number)
		rows_format(&value[EXIT_TEXT], "%s block%s, %s, still pending: the driver has them",
			    format_count(a, value[EXIT_BLOCKS].number),
			    value[EXIT_BLOCKS].number == 1 ? "" : "s",
			    format_bytes(b, value[EXIT_BYTES].number));
}

static void write_waited(struct rows_value *value)
{
	bool has_both = value[FREE_WAITED].number && value[FLUSH_WAITED].number;
	char frees[2 * FORMAT_BYTES] = "", passes[2 * FORMAT_BYTES] = "";
	char a[FORMAT_BYTES], b[FORMAT_BYTES];

	if (!value[DEFERRED].number && !value[FLUSH_WAITED].number)
		return;
	if (value[FREE_WAITED].number)
		snprintf(frees, sizeof(frees), "%s in frees, the longest %s",
			 format_duration(a, value[FREE_WAITED].number),
			 format_duration(b, value[LONGEST_WAIT].number));
	if (value[FLUSH_WAITED].number)
		snprintf(passes, sizeof(passes), "%s in passes",
			 format_duration(a, value[FLUSH_WAITED].number));
	rows_format(&value[WAITED_TEXT], "%s%s%s%s", frees, has_both ? "; " : "", passes,
		    *frees || *passes ? "" : "not at all");
}

static const char select_synchronized[] =
	"SELECT COALESCE(sum(total_ns), 0) FROM api_call JOIN api ON api.id = api_id WHERE name IN"
	" ('cuCtxSynchronize', 'cuCtxSynchronize_v2', 'cuStreamSynchronize',"
	" 'cuStreamSynchronize_ptsz', 'cuEventSynchronize')";

/* Less waiting is no shorter run where the device is what the program waits for in the end. */
static void note_what_is_gained(struct query *query, struct report_section *section, bool is_on)
{
	int64_t synchronized_ns = query_number(query, select_synchronized, 0);
	char own[FORMAT_BYTES];

	if (is_on && synchronized_ns > 0)
		report_note(section, REPORT_REMARK,
			    "At most: a free counts until custody saw the device done, and the "
			    "program may have waited for that itself (%s in its own synchronising "
			    "calls).",
			    format_duration(own, synchronized_ns));
	else if (is_on)
		report_note(section, REPORT_REMARK,
			    "At most: a free counts until custody saw the device done.");
	else
		report_note(section, REPORT_HINT,
			    "'custody record --frees=nowait' spares the program this waiting, "
			    "unless it leans on it: see custody-preload(7). The run gains what the "
			    "program does meanwhile; its next synchronise may wait instead.");
}

/* An upper bound: what a free costs that waits for nothing is among it. */
static void write_nowait(struct query *query, struct report_section *section,
			 struct rows_value *value, const char *policy)
{
	static const char of_run[] = " of the run";
	bool is_on = !strcmp(policy, "nowait");
	int64_t share = rows_share(value[NOWAIT].number,
				   rows_minus(query->end_ns, query->start_ns));
	char saved[FORMAT_BYTES], part[FORMAT_BYTES + sizeof(of_run)];

	if (!value[CALLS].number)
		return;
	strcat(format_share(part, share), of_run);
	if (!value[NOWAIT].number) {
		rows_format(&value[NOWAIT_TEXT], "%s: no free %s",
			    is_on ? "has saved nothing" : "would save nothing",
			    is_on ? "would have waited" : "has waited");
		return;
	}
	rows_format(&value[NOWAIT_TEXT], "%s at most %s of %s, %s",
		    is_on			? "has saved" :
		    strstr(policy, "nowait") ? "would save, or has saved," :
						  "would save",
		    format_duration(saved, value[NOWAIT].number),
		    strcmp(policy, "immediate") ? "waiting" : "host time",
		    share > WHOLE_RUN ? "in all threads together" : part);
	/* A free that waits for nothing is short, and is no cheaper when it is put off. */
	if (share >= HINT_SHARE && (is_on || value[LONGEST].number >= HINT_NS))
		note_what_is_gained(query, section, is_on);
}

static void write_place(const struct holder *holder, struct rows_value *value)
{
	rows_text(&value[0], holder->kinds);
	rows_number(&value[1], holder->sum[SUM_COUNT]);
	rows_number(&value[2], holder->sum[SUM_DEFERRED]);
	rows_number(&value[3], rows_minus(holder->sum[SUM_COST], holder->sum[SUM_SAVED]));
	rows_number(&value[4], holder->sum[SUM_WAITED]);
	rows_number(&value[5], holder->sum[SUM_SAVED]);
}

/* Who frees: by place, then by file. */
static void add_callers(struct query *query, struct report *report)
{
	struct report_section *by_caller =
		report_add(report, "frees.by_caller", "", REPORT_LIST, caller_columns);
	struct report_section *by_module =
		report_add(report, "frees.by_module", "", REPORT_LIST, module_columns);
	struct holder_list list;
	size_t most = query->most_rows;

	holder_load(&list, query, select_callers);
	for (size_t i = 0; i < list.count && i < most; i++)
		write_place(&list.holder[i],
			    holder_write(&list.holder[i], query, rows_add(&by_caller->rows)));
	by_caller->rows.left_out = list.count > most ? list.count - most : 0;
	holder_join_files(&list);
	for (size_t i = 0; i < list.count; i++) {
		struct rows_value *value = rows_add(&by_module->rows);

		rows_text(&value[0], list.holder[i].path ? list.holder[i].path : "unknown");
		write_place(&list.holder[i], value + 1);
	}
	rows_cut(&by_module->rows, most);
	/* People have seen it above. */
	if (list.count < 2)
		by_module->title = NULL;
	holder_free(&list);
}

static void add_flushes(struct query *query, struct report *report)
{
	struct report_section *section =
		report_add(report, "frees.flushes", "", REPORT_MAP, flush_columns);

	query_fill(query, &section->rows,
		   "SELECT COALESCE(cause, '?'), count(*), sum(count), sum(bytes), sum(failed),"
		   " sum(duration_ns), max(duration_ns), sum(waited_ns) FROM flush"
		   " GROUP BY 1 ORDER BY 2 DESC, 1");
}

void query_free(struct query *query, struct report *report)
{
	struct report_section *section;
	struct rows_value *value;
	char *policy;

	if (!report_wants(report, REPORT_MEMORY))
		return;
	policy = query_text(query, "SELECT group_concat(policy, ', ') FROM"
				   " (SELECT DISTINCT policy FROM process ORDER BY policy)");
	section = report_add(report, "frees", "", REPORT_FIELDS, free_columns);
	section->heading = "FREES";
	value = rows_add(&section->rows);
	rows_text(&value[POLICY], policy);
	read_columns(query, value, CALLS, select_frees);
	read_columns(query, value, MEDIAN, select_pending);
	read_columns(query, value, LONGEST_FLUSH, select_flushes);
	rows_number(&value[WAITED],
		    rows_plus(value[FREE_WAITED].number, value[FLUSH_WAITED].number));
	write_policy(value, policy ? policy : "immediate");
	write_calls(query, value);
	write_deferred(query, value, policy ? policy : "immediate");
	write_waited(value);
	write_nowait(query, section, value, policy ? policy : "immediate");
	free(policy);
	add_callers(query, report);
	add_flushes(query, report);
}
