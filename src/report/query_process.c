/* SPDX-License-Identifier: Apache-2.0 */
/* query_process.c - the head of a report: what ran, when, where, on what. */
#include "report/query.h"

#include "report/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { UNSEEN_SHOWN = 5 };

static const struct rows_column head_columns[] = {
	{ NULL, "trace", ROWS_TEXT },
	{ NULL, "program", ROWS_TEXT },
	{ NULL, "ended", ROWS_TEXT },
	{ NULL, "recorded", ROWS_TEXT },
	{ NULL, "device", ROWS_TEXT },
	{ NULL, "driver", ROWS_TEXT },
	{ NULL, NULL, ROWS_TEXT },
};

static const struct rows_column trace_columns[] = {
	{ "path", NULL, ROWS_TEXT },	 { "complete", NULL, ROWS_FLAG },
	{ "host", NULL, ROWS_TEXT },	 { "custody_version", NULL, ROWS_TEXT },
	{ "clock", NULL, ROWS_TEXT },	 { "wall_offset_ns", NULL, ROWS_COUNT },
	{ "start_ns", NULL, ROWS_COUNT }, { "duration_ns", NULL, ROWS_DURATION },
	{ NULL, NULL, ROWS_TEXT },
};

static const struct rows_column process_columns[] = {
	{ "id", NULL, ROWS_ID },
	{ "pid", "pid", ROWS_ID },
	{ "executable", NULL, ROWS_TEXT },
	{ "arguments", "program", ROWS_TEXT },
	{ "exec_serial", NULL, ROWS_COUNT },
	{ "parent_id", NULL, ROWS_ID },
	{ "start_ns", "from", ROWS_MOMENT },
	{ "end_ns", "to", ROWS_MOMENT },
	{ "exit_status", "exit", ROWS_ID },
	{ "exit_signal", "signal", ROWS_ID },
	{ "driver_version", NULL, ROWS_ID },
	{ "policy", NULL, ROWS_TEXT },
	{ "lost_records", NULL, ROWS_COUNT },
	{ "peak_bytes", "peak", ROWS_BYTES },
	{ "live_at_exit_bytes", "at exit", ROWS_BYTES },
	{ "note", NULL, ROWS_TEXT },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_processes[] =
	"SELECT id, pid, executable, COALESCE(NULLIF(arguments, ''), executable), exec_serial,"
	" parent_id, start_ns, end_ns, exit_status, exit_signal, driver_version, policy,"
	" lost_records,"
	" COALESCE((SELECT bytes FROM peak WHERE process_id = process.id"
	"  AND device_id IS NULL), 0),"
	" COALESCE((SELECT sum(exit_bytes) FROM allocation_total WHERE process_id = process.id"
	"  AND NOT is_view AND kind NOT IN ('pinned', 'registered', 'ipc', 'module')), 0),"
	" note FROM process";

static const struct rows_column device_columns[] = {
	{ "id", NULL, ROWS_ID },
	{ "process_id", NULL, ROWS_ID },
	{ NULL, "pid", ROWS_ID },
	{ "ordinal", "device", ROWS_ID },
	{ "uuid", NULL, ROWS_TEXT },
	{ "name", "name", ROWS_TEXT },
	{ "total_bytes", "memory", ROWS_BYTES },
	{ "peak_bytes", "peak", ROWS_BYTES },
	{ "peak_at_ns", "at", ROWS_MOMENT },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_devices[] =
	"SELECT device.id, device.process_id,"
	" CASE WHEN (SELECT count(*) FROM process) > 1 THEN pid END, ordinal, uuid, name,"
	" total_bytes, peak.bytes,"
	" peak.at_ns FROM device JOIN process ON process.id = device.process_id LEFT JOIN peak"
	" ON peak.device_id = device.id AND peak.process_id = device.process_id"
	" ORDER BY device.process_id, ordinal";

/* What several processes have is shown once, and with the use of them all. */
static const struct rows_column physical_columns[] = {
	{ "device_id", NULL, ROWS_ID },
	{ "host", "host", ROWS_TEXT },
	{ "ordinals", "device", ROWS_TEXT },
	{ "uuid", NULL, ROWS_TEXT },
	{ "name", "name", ROWS_TEXT },
	{ "total_bytes", "memory", ROWS_BYTES },
	{ "processes", "processes", ROWS_COUNT },
	{ "peak_bytes", "peak", ROWS_BYTES },
	{ "peak_at_ns", "at", ROWS_MOMENT },
	{ NULL, NULL, ROWS_TEXT },
};

static const char select_physical[] =
	"SELECT physical_id,"
	" CASE WHEN (SELECT count(DISTINCT host) FROM physical_device) > 1 THEN host END,"
	" group_concat(DISTINCT ordinal), max(uuid), max(name), max(total_bytes),"
	" count(DISTINCT device.process_id),"
	" COALESCE(all_of_it.bytes, peak.bytes), COALESCE(all_of_it.at_ns, peak.at_ns)"
	" FROM device JOIN physical_device ON physical_device.device_id = device.id"
	" LEFT JOIN peak all_of_it ON all_of_it.device_id = physical_id"
	"  AND all_of_it.process_id IS NULL"
	" LEFT JOIN peak ON peak.device_id = device.id AND peak.process_id = device.process_id"
	" GROUP BY physical_id ORDER BY physical_id";

/* One text of `sql` as "first" or "first and 3 more". */
static void write_first(struct query *query, struct rows_value *value, const char *sql)
{
	sqlite3_stmt *statement = query_prepare(query, sql);
	int more = 0;

	while (query_step(query, statement)) {
		if (!value->is_set)
			rows_text(value, (const char *)sqlite3_column_text(statement, 0));
		else
			more++;
	}
	sqlite3_finalize(statement);
	if (more) {
		char *first = value->text;

		value->text = NULL;
		rows_format(value, "%s and %d more", first, more);
		free(first);
	}
}

static void write_recorded(struct query *query, struct rows_value *value)
{
	int64_t offset = query_number(
		query, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'wall_offset_ns'", 0);
	char *host = query_text(query, "SELECT value FROM meta WHERE key = 'host'");
	time_t seconds = (time_t)(rows_plus(query->start_ns, offset) / 1000000000);
	char when[64] = "", lasted[FORMAT_BYTES];
	struct tm local;

	if (offset && localtime_r(&seconds, &local))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S %Z, ", &local);
	format_duration(lasted, rows_minus(query->end_ns, query->start_ns));
	rows_format(value, "%s%s%s%s", when, lasted, host ? " on " : "", host ? host : "");
	free(host);
}

static void write_driver(struct query *query, struct rows_value *value)
{
	int64_t version = query_number(query, "SELECT max(driver_version) FROM process", 0);
	char *policy = query_text(query, "SELECT group_concat(DISTINCT policy) FROM process");
	char *custody = query_text(query, "SELECT value FROM meta WHERE key = 'custody_version'");
	char text[FORMAT_BYTES];

	rows_format(value, "%s, frees: %s, recorded by custody %s",
		    version > 0 ? format_driver(text, version) : "of unknown version",
		    policy ? policy : "immediate", custody ? custody : "of unknown version");
	free(policy);
	free(custody);
}

static void write_ended(struct query *query, struct rows_value *value)
{
	int64_t images = query_number(query, "SELECT count(*) FROM process", 0);
	int64_t status = query_number(query, "SELECT exit_status FROM process ORDER BY id", -1);
	int64_t signal = query_number(query, "SELECT exit_signal FROM process ORDER BY id", 0);

	if (images != 1)
		return;
	if (signal > 0)
		rows_format(value, "by signal %" PRId64 " (%s)", signal,
			    signal < 65 ? strsignal((int)signal) : "unknown");
	else if (status >= 0)
		rows_format(value, "with exit status %" PRId64, status);
}

/* Whole programs, or parts of them, that this trace knows nothing of. */
static void note_unseen(struct query *query, struct report_section *section)
{
	sqlite3_stmt *statement = query_prepare(
		query, "SELECT pid, COALESCE(executable, '?'), note FROM process"
		       " WHERE note IS NOT NULL ORDER BY id");
	int unseen = 0;

	while (query_step(query, statement)) {
		const char *note = (const char *)sqlite3_column_text(statement, 2);

		if (unseen++ >= UNSEEN_SHOWN)
			continue;
		report_note(section, REPORT_WARNING, "%s of process %d (%s) is recorded: %s.",
			    strncmp(note, "not preloaded", 13) ? "Not all" : "Nothing",
			    sqlite3_column_int(statement, 0), sqlite3_column_text(statement, 1),
			    note);
	}
	sqlite3_finalize(statement);
	if (unseen > UNSEEN_SHOWN)
		report_note(section, REPORT_WARNING,
			    "So it is with %d more processes; 'custody sql' finds them by "
			    "process.note.",
			    unseen - UNSEEN_SHOWN);
}

static void add_head(struct query *query, struct report *report)
{
	struct report_section *section = report_add(report, NULL, "", REPORT_FIELDS, head_columns);
	struct rows_value *value = rows_add(&section->rows);
	char lost[FORMAT_BYTES];

	rows_text(&value[0], query->path);
	write_first(query, &value[1],
		    "SELECT COALESCE(NULLIF(arguments, ''), executable, '?')"
		    " || ' (pid ' || pid || ')'"
		    " FROM process ORDER BY id");
	write_ended(query, &value[2]);
	write_recorded(query, &value[3]);
	write_first(query, &value[4],
		    "SELECT COALESCE(name, 'device ' || ordinal) || CASE WHEN total_bytes > 0 THEN"
		    " printf(', %.1f GiB', total_bytes / 1073741824.0) ELSE '' END FROM device"
		    " JOIN physical_device ON device_id = device.id"
		    " GROUP BY CASE WHEN uuid IS NULL THEN -1 - ordinal ELSE physical_id END"
		    " ORDER BY min(ordinal), min(device.id)");
	write_driver(query, &value[5]);
	report_note(section, REPORT_REMARK,
		    "Sizes are in units of 1024 and, where nothing else is said, as requested.");
	if (!query->is_complete)
		report_note(section, REPORT_WARNING,
			    "This trace is incomplete: recording did not come to its end. What "
			    "follows covers the calls that were written.");
	if (query->lost > 0)
		report_note(section, REPORT_WARNING,
			    "%s records were lost while recording, which said why on standard "
			    "error. Whatever they told is missing below: no figure is sure.",
			    format_count(lost, query->lost));
	note_unseen(query, section);
}

static void add_trace(struct query *query, struct report *report)
{
	struct report_section *section = report_add(report, "trace", NULL, REPORT_FIELDS,
						    trace_columns);
	struct rows_value *value = rows_add(&section->rows);

	rows_text(&value[0], query->path);
	rows_number(&value[1], query->is_complete);
	rows_number(&value[6], query->start_ns);
	rows_number(&value[7], rows_minus(query->end_ns, query->start_ns));
	for (int i = 2; i <= 5; i++) {
		sqlite3_stmt *statement =
			query_prepare(query, "SELECT value FROM meta WHERE key = ?");

		sqlite3_bind_text(statement, 1, trace_columns[i].key, -1, SQLITE_STATIC);
		if (query_step(query, statement))
			query_set(&value[i], trace_columns[i].type, statement, 0);
		sqlite3_finalize(statement);
	}
}

/* The run lasts from the first call of the first process to the end of the last. */
static void find_run(struct query *query, struct report *report)
{
	query->start_ns = query_number(query, "SELECT min(start_ns) FROM process", 0);
	query->end_ns = query_number(query,
				     "SELECT max(at_ns) FROM ("
				     " SELECT max(end_ns) AS at_ns FROM process"
				     " UNION ALL SELECT max(start_ns) FROM process"
				     " UNION ALL SELECT max(at_ns) FROM sample"
				     " UNION ALL SELECT max(at_ns) FROM failure)",
				     query->start_ns);
	report->start_ns = query->start_ns;
	report->end_ns = query->end_ns;
}

/* Programs get all of them, by id; people those that held most, as far as -n goes. */
static void add_processes(struct query *query, struct report *report)
{
	struct report_section *all =
		report_add(report, "process", NULL, REPORT_LIST, process_columns);
	struct report_section *shown;
	char sql[sizeof(select_processes) + 32];

	snprintf(sql, sizeof(sql), "%s ORDER BY id", select_processes);
	query_fill(query, &all->rows, sql);
	if (all->rows.count < 2)
		return;
	shown = report_add(report, NULL, "processes", REPORT_LIST, process_columns);
	snprintf(sql, sizeof(sql), "%s ORDER BY 14 DESC, id", select_processes);
	query_fill(query, &shown->rows, sql);
	rows_cut(&shown->rows, query->most_rows);
}

/*
 * People see either the devices of each process or, where several processes have one,
 * the physical ones.  A single one stands in the head, and its peak is that of memory.
 */
static void add_devices(struct query *query, struct report *report)
{
	struct report_section *each =
		report_add(report, "devices", "devices", REPORT_LIST, device_columns);
	struct report_section *physical =
		report_add(report, "physical_devices", "devices", REPORT_LIST, physical_columns);

	query_fill(query, &each->rows, select_devices);
	query_fill(query, &physical->rows, select_physical);
	if (physical->rows.count < each->rows.count || physical->rows.count < 2)
		each->title = NULL;
	if (physical->rows.count == each->rows.count || physical->rows.count < 2)
		physical->title = NULL;
}

void query_process(struct query *query, struct report *report)
{
	find_run(query, report);
	add_head(query, report);
	add_trace(query, report);
	add_processes(query, report);
	add_devices(query, report);
}
