/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_env.c - custody env: the environment twin of every option. */
#include "report/command.h"

#include "core/option.h"
#include "report/report.h"

#include <stdlib.h>

static const struct rows_column columns[] = {
	{ NULL, "variable", ROWS_TEXT }, { NULL, "default", ROWS_TEXT },
	{ NULL, "now", ROWS_TEXT },	 { NULL, NULL, ROWS_TEXT },
};

enum { VARIABLE, DEFAULT, NOW };

static void add_option(struct report_section *section, enum option_id id)
{
	const struct option_info *info = option_info(id);
	const char *variable = options_variable(id);
	struct rows_value *row = rows_add(&section->rows);
	char why[256];

	rows_text(&row[VARIABLE], info->variable);
	rows_text(&row[DEFAULT], info->default_value);
	rows_text(&row[NOW], option_text(id));
	report_note(section, REPORT_REMARK, "%s=%s: %s", info->variable, info->values,
		    info->meaning);
	for (int i = 0; i < OPTION_OTHERS && info->other_variables[i]; i++)
		report_note(section, REPORT_REMARK, "  %s holds where %s unset",
			    info->other_variables[i], i ? "both are" : "it is");
	if (variable && !option_is_valid(id, getenv(variable), why, sizeof(why)))
		report_note(section, REPORT_WARNING, "%s: %s; the default is used", variable, why);
}

static int run(int argc, char **argv)
{
	struct report report;
	struct report_section *section;

	if (argc)
		message_die(EXIT_USAGE, "env: no operand is wanted, '%s' was given", argv[0]);
	report_init(&report, REPORT_EVERYTHING);
	section = report_add(&report, NULL, "", REPORT_LIST, columns);
	for (int id = 0; id < OPTION_COUNT; id++)
		add_option(section, (enum option_id)id);
	if (!output_text(&report, stdout))
		message_die(EXIT_COULD_NOT, "cannot write to standard output");
	report_free(&report);
	return EXIT_GOOD;
}

const struct command cmd_env = {
	.name = "env",
	.summary = "Tell the environment twin of every option, its default and its value now",
	.operands = "",
	.run = run,
};
