/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_report.c - custody report: query, rows, renderer. */
#include "report/command.h"

#include "report/output_file.h"
#include "report/query.h"
#include "report/report.h"
#include "report/symbol.h"

#include <string.h>

static bool want_memory;
static bool want_transfers;
static bool want_leaks;
static bool want_peak;
static const char *format = "text";
static const char *output;
static uint64_t most_rows = 10;

static const struct options_row options[] = {
	{ "memory", 0, OPTIONS_FLAG, NULL, "memory: use over time, kinds, holders, leaks",
	  &want_memory, 0 },
	{ "transfers", 0, OPTIONS_FLAG, NULL, "copies, memsets and prefetches", &want_transfers,
	  0 },
	{ "leaks", 0, OPTIONS_FLAG, NULL, "what was live when its process ended", &want_leaks, 0 },
	{ "peak", 0, OPTIONS_FLAG, NULL, "the peak and who held it", &want_peak, 0 },
	{ "format", 0, OPTIONS_TEXT, "text|json", "for people (default) or for programs", &format,
	  0 },
	{ "output", 'o', OPTIONS_TEXT, "FILE", "write there, at once or not at all", &output, 0 },
	{ "rows", 'n', OPTIONS_NUMBER, "ROWS", "rows of the long lists (default 10)", &most_rows,
	  0 },
	{ NULL, 0, OPTIONS_FLAG, NULL, NULL, NULL, 0 },
};

static unsigned chosen_parts(void)
{
	unsigned parts = (want_memory ? REPORT_MEMORY : 0) | (want_peak ? REPORT_PEAK : 0) |
			 (want_leaks ? REPORT_LEAKS : 0) |
			 (want_transfers ? REPORT_TRANSFERS : 0);

	return parts ? parts : REPORT_EVERYTHING;
}

static void fill_report(struct query *query, struct report *report)
{
	query_total(query);
	query->symbols = symbol_open(query);
	query_process(query, report);
	query_memory(query, report);
	query_ledger(query, report);
	query_oom(query, report);
	query_leak(query, report);
	query_free(query, report);
	query_transfer(query, report);
	query_call(query, report);
	query_trouble(query, report);
}

static int run(int argc, char **argv)
{
	struct report report;
	struct query query;

	if (argc != 1)
		message_die(EXIT_USAGE,
			    "report: one TRACE is wanted; 'custody report --help' tells more");
	if (!most_rows)
		message_die(EXIT_USAGE, "report: --rows: at least 1 is wanted");
	query_open(&query, argv[0]);
	query.most_rows = most_rows;
	report_init(&report, chosen_parts());
	fill_report(&query, &report);
	output_file(output, &report, strcmp(format, "json") ? output_text : output_json);
	report_free(&report);
	query_close(&query);
	return EXIT_GOOD;
}

const struct command cmd_report = {
	.name = "report",
	.summary = "Tell what held memory and what the copies cost",
	.operands = "TRACE",
	.options = options,
	.run = run,
};
