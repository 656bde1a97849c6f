/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - options by table: parsing and help come from the same rows.
 * Parsing stops at the first operand, or behind "--".
 */
#ifndef CUSTODY_REPORT_OPTIONS_H
#define CUSTODY_REPORT_OPTIONS_H

#include "core/option.h"

#include <stdint.h>

struct command;

enum options_kind {
	OPTIONS_FLAG,	/* bool: set to true */
	OPTIONS_TEXT,	/* const char *: points into argv */
	OPTIONS_NUMBER, /* uint64_t, decimal */
	OPTIONS_SIZE,	/* uint64_t, bytes with a unit */
};

struct options_row {
	const char *name;     /* long form without the dashes; NULL ends the table */
	char letter;	      /* short form, 0: none */
	enum options_kind kind;
	const char *argument; /* what help calls it; for a choice "text|json"; NULL for a flag */
	const char *help;     /* one line */
	void *target;
	int twin; /* OPTIONS_TWIN() of the environment's, which also checks the value; 0: none */
};

#define OPTIONS_TWIN(id) ((int)(id) + 1)

enum options_color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

/* --color, which every verb takes, as do -q and -v (message_level). */
extern enum options_color options_color;

/*
 * Parse the options of `command` (argv[0] is the verb) and those every verb
 * takes.  Returns the index of the first operand.  --help prints and exits 0;
 * anything wrong is said in one sentence and exits 2.
 */
int options_parse(const struct command *command, int argc, char **argv);

/*
 * The environment variable whose value holds for `id`: ours, or where that is
 * unset the other one that is honoured.  NULL: neither is set.
 */
const char *options_variable(enum option_id id);

/* What --help prints, on standard output. */
void options_help(const struct command *command);

#endif
