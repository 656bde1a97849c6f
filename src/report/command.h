/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - a verb of the program `custody`.  Each stands in cmd_<verb>.c as
 * `const struct command cmd_<verb>`; main.c holds the table of them all.
 */
#ifndef CUSTODY_REPORT_COMMAND_H
#define CUSTODY_REPORT_COMMAND_H

#include "report/message.h"
#include "report/options.h"

#include <stdbool.h>

struct command {
	const char *name;
	const char *summary;		  /* one line, no period */
	const char *operands;		  /* for the usage line: "[--] PROGRAM [ARGUMENTS]" */
	const struct options_row *options; /* ends with a row without a name; NULL: none */
	/*
	 * Runs after the options have been parsed into their targets: `argv` holds
	 * `argc` operands only and a NULL behind them.  Returns the exit status.
	 */
	int (*run)(int argc, char **argv);
	bool hidden; /* not in the list of verbs: for our own processes only */
};

extern const struct command cmd_record;
extern const struct command cmd_collect;
extern const struct command cmd_report;
extern const struct command cmd_sql;
extern const struct command cmd_merge;
extern const struct command cmd_doctor;
extern const struct command cmd_env;
extern const struct command cmd_probe;

#endif
