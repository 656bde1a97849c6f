/* SPDX-License-Identifier: Apache-2.0 */
#include "report/record_summary.h"

#include "report/format.h"
#include "report/message.h"
#include "report/store.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct summary {
	sqlite3 *db;
	const char *path;
	char text[6][FORMAT_BYTES];
};

static int64_t ask(const struct summary *summary, const char *sql)
{
	sqlite3_stmt *query;
	int64_t number = 0;

	if (sqlite3_prepare_v2(summary->db, sql, -1, &query, NULL) != SQLITE_OK)
		store_reader_fail(summary->db, summary->path);
	if (sqlite3_step(query) == SQLITE_ROW)
		number = sqlite3_column_int64(query, 0);
	sqlite3_finalize(query);
	return number;
}

static const char *plural(int64_t count, const char *one, const char *many)
{
	return count == 1 ? one : many;
}

static void print_run(struct summary *summary)
{
	int64_t processes = ask(summary, "SELECT count(*) FROM process");
	struct stat status = { 0 };

	stat(summary->path, &status);
	message_say(
		"recorded %s %s in %s; the trace is %s (%s)",
		format_count(summary->text[0], processes),
		plural(processes, "process", "processes"),
		format_duration(summary->text[1],
				ask(summary, "SELECT max(end_ns) - min(start_ns) FROM process")),
		summary->path, format_bytes(summary->text[2], status.st_size));
}

static void print_memory(struct summary *summary)
{
	int64_t blocks = ask(summary, "SELECT count(*) FROM allocation WHERE parent_id IS NULL");
	int64_t peak = ask(summary, "SELECT bytes FROM peak WHERE process_id IS NULL "
				    "AND device_id IS NULL");
	int64_t held = ask(summary, "SELECT held_peak_bytes FROM peak WHERE process_id IS NULL "
				    "AND device_id IS NULL");
	char with[FORMAT_BYTES + 64] = "";

	if (held > peak)
		snprintf(with, sizeof(with), ", %s with what was not released yet",
			 format_bytes(summary->text[2], held));
	message_say("  memory     peak %s of device memory%s; %s %s",
		    format_bytes(summary->text[0], peak), with,
		    format_count(summary->text[1], blocks), plural(blocks, "block", "blocks"));
}

static void print_live(struct summary *summary)
{
	int64_t blocks = ask(summary, "SELECT count(*) FROM leak");

	if (!blocks) {
		message_say("  at exit    %s",
			    ask(summary, "SELECT sum(count) FROM gap") ?
				    "unknown: records were lost" :
				    "nothing was left");
		return;
	}
	message_say("  at exit    %s in %s %s never freed",
		    format_bytes(summary->text[0], ask(summary, "SELECT sum(bytes) FROM leak")),
		    format_count(summary->text[1], blocks), plural(blocks, "block", "blocks"));
}

static void print_transfers(struct summary *summary)
{
	char line[256] = "none";
	size_t used = 0;
	sqlite3_stmt *query;

	if (sqlite3_prepare_v2(summary->db,
			       "SELECT kind, sum(count - failed), sum(bytes) FROM transfer_total "
			       "GROUP BY kind ORDER BY 3 DESC, 2 DESC",
			       -1, &query, NULL) != SQLITE_OK)
		store_reader_fail(summary->db, summary->path);
	while (sqlite3_step(query) == SQLITE_ROW && used < sizeof(line))
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %s (%s)",
					 used ? ", " : "", sqlite3_column_text(query, 0),
					 format_bytes(summary->text[0],
						      sqlite3_column_int64(query, 2)),
					 format_count(summary->text[1],
						      sqlite3_column_int64(query, 1)));
	sqlite3_finalize(query);
	message_say("  transfers  %s", line);
}

static void print_unseen(struct summary *summary)
{
	int64_t processes = ask(summary, "SELECT count(*) FROM process WHERE note IS NOT NULL");

	if (processes)
		message_say("  unseen     %s %s not recorded or only in part; the report says why",
			    format_count(summary->text[0], processes),
			    plural(processes, "process was", "processes were"));
}

static void print_trouble(struct summary *summary)
{
	int64_t failures = ask(summary, "SELECT count(*) FROM failure");
	int64_t lost = ask(summary, "SELECT sum(count) FROM gap");
	int64_t uncovered = ask(summary, "SELECT count(DISTINCT name) FROM uncovered");
	int64_t findings = ask(summary, "SELECT count(*) FROM finding");
	char found[FORMAT_BYTES + 64] = "";

	if (!failures && !lost && !uncovered && !findings) {
		message_say("  trouble    none: no call failed, no record was lost");
		return;
	}
	if (findings)
		snprintf(found, sizeof(found), "%s %s of freed memory, ",
			 format_count(summary->text[3], findings),
			 plural(findings, "use", "uses"));
	message_say("  trouble    %s%s failed %s, %s lost %s, %s %s not covered", found,
		    format_count(summary->text[0], failures), plural(failures, "call", "calls"),
		    format_count(summary->text[1], lost), plural(lost, "record", "records"),
		    format_count(summary->text[2], uncovered),
		    plural(uncovered, "function", "functions"));
}

/* To be pasted: what a shell would read otherwise is quoted, a dash is no option. */
static void print_next(const struct summary *summary)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./-+:@,%";
	const char *before = *summary->path == '-' ? "./" : "";
	char quoted[4 * PATH_MAX];
	size_t used = 0;

	if (strspn(summary->path, plain) == strlen(summary->path)) {
		message_say("next: custody report %s%s", before, summary->path);
		return;
	}
	for (const char *c = summary->path; *c && used < sizeof(quoted) - 5; c++)
		used += (size_t)sprintf(quoted + used, "%s%c%s", *c == '\'' ? "'\\" : "", *c,
					*c == '\'' ? "'" : "");
	quoted[used] = '\0';
	message_say("next: custody report '%s%s'", before, quoted);
}

void record_summary_print(const char *path)
{
	struct summary summary = { .path = path };

	if (message_level < MESSAGE_NORMAL)
		return;
	summary.db = store_reader_open(path);
	print_run(&summary);
	print_memory(&summary);
	print_live(&summary);
	print_transfers(&summary);
	print_unseen(&summary);
	print_trouble(&summary);
	print_next(&summary);
	sqlite3_close(summary.db);
}
