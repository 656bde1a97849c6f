/* SPDX-License-Identifier: Apache-2.0 */
#include "report/options.h"

#include "report/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum options_color options_color = COLOR_AUTO;

static bool want_help;
static bool want_quiet;
static bool want_verbose;
static const char *color_text;

static const struct options_row common_rows[] = {
	{ "quiet", 'q', OPTIONS_FLAG, NULL, "say nothing but errors", &want_quiet, 0 },
	{ "verbose", 'v', OPTIONS_FLAG, NULL, "say more", &want_verbose, 0 },
	{ "color", 0, OPTIONS_TEXT, "auto|always|never", "colour the output", &color_text, 0 },
	{ "help", 'h', OPTIONS_FLAG, NULL, "print this and exit", &want_help, 0 },
	{ NULL, 0, OPTIONS_FLAG, NULL, NULL, NULL, 0 },
};

static const struct options_row *find_long(const struct options_row *rows, const char *name,
					   size_t length)
{
	for (; rows && rows->name; rows++)
		if (strlen(rows->name) == length && !memcmp(rows->name, name, length))
			return rows;
	return NULL;
}

static const struct options_row *find_short(const struct options_row *rows, char letter)
{
	for (; rows && rows->name; rows++)
		if (rows->letter == letter)
			return rows;
	return NULL;
}

_Noreturn static void refuse(const struct command *command, const char *what, const char *option)
{
	message_die(EXIT_USAGE, "%s: %s %s; 'custody %s --help' lists the options", command->name,
		    what, option, command->name);
}

static bool is_choice(const char *choices, const char *value)
{
	size_t length = strlen(value);

	while (length) {
		size_t next = strcspn(choices, "|");

		if (next == length && !memcmp(choices, value, length))
			return true;
		if (!choices[next])
			break;
		choices += next + 1;
	}
	return false;
}

static bool parse_number(const char *value, uint64_t *number)
{
	char *end;

	if (*value < '0' || *value > '9')
		return false;
	errno = 0;
	*number = strtoull(value, &end, 10);
	return !errno && !*end;
}

/* Why the value is not good goes to `why`; empty when it is. */
static void set_value(const struct options_row *row, const char *value, char *why, size_t bytes)
{
	*why = '\0';
	if (row->twin && !option_is_valid((enum option_id)(row->twin - 1), value, why, bytes))
		return;
	if (row->kind == OPTIONS_NUMBER && !parse_number(value, row->target))
		snprintf(why, bytes, "'%s' is not a number", value);
	if (row->kind == OPTIONS_SIZE && !option_parse_size(value, row->target))
		snprintf(why, bytes, "'%s' is not a size", value);
	if (row->kind != OPTIONS_TEXT)
		return;
	if (strchr(row->argument, '|') && !is_choice(row->argument, value))
		snprintf(why, bytes, "'%s' is not one of %s", value, row->argument);
	*(const char **)row->target = value;
}

static void set_checked(const struct command *command, const struct options_row *row,
			const char *value)
{
	char why[256];

	set_value(row, value, why, sizeof(why));
	if (*why)
		message_die(EXIT_USAGE, "%s: --%s: %s", command->name, row->name, why);
}

/* Returns how many words of argv were used. */
static int parse_long(const struct command *command, char **argv)
{
	const char *name = argv[0] + 2;
	size_t length = strcspn(name, "=");
	const struct options_row *row = find_long(command->options, name, length);

	if (!row)
		row = find_long(common_rows, name, length);
	if (!row)
		refuse(command, "unknown option", argv[0]);
	if (row->kind == OPTIONS_FLAG) {
		if (name[length])
			refuse(command, "no value belongs to", argv[0]);
		*(bool *)row->target = true;
		return 1;
	}
	if (name[length]) {
		set_checked(command, row, name + length + 1);
		return 1;
	}
	if (!argv[1])
		refuse(command, "a value is missing behind", argv[0]);
	set_checked(command, row, argv[1]);
	return 2;
}

/* A cluster such as -qf or -n20; returns how many words of argv were used. */
static int parse_short(const struct command *command, char **argv)
{
	const char *letter = argv[0] + 1;

	for (; *letter; letter++) {
		const struct options_row *row = find_short(command->options, *letter);

		if (!row)
			row = find_short(common_rows, *letter);
		if (!row)
			refuse(command, "unknown option", argv[0]);
		if (row->kind == OPTIONS_FLAG) {
			*(bool *)row->target = true;
			continue;
		}
		if (letter[1]) {
			set_checked(command, row, letter + 1);
			return 1;
		}
		if (!argv[1])
			refuse(command, "a value is missing behind", argv[0]);
		set_checked(command, row, argv[1]);
		return 2;
	}
	return 1;
}

static void apply_common(const struct command *command)
{
	if (want_help) {
		options_help(command);
		exit(EXIT_GOOD);
	}
	if (want_verbose)
		message_level = MESSAGE_VERBOSE;
	if (want_quiet)
		message_level = MESSAGE_QUIET;
	if (color_text)
		options_color = *color_text == 'n'    ? COLOR_NEVER :
				color_text[1] == 'l' ? COLOR_ALWAYS :
							COLOR_AUTO;
}

int options_parse(const struct command *command, int argc, char **argv)
{
	int at = 1;

	while (at < argc && argv[at][0] == '-' && argv[at][1]) {
		if (!strcmp(argv[at], "--")) {
			at++;
			break;
		}
		at += argv[at][1] == '-' ? parse_long(command, argv + at) :
					   parse_short(command, argv + at);
	}
	apply_common(command);
	return at;
}

const char *options_variable(enum option_id id)
{
	const struct option_info *info = option_info(id);

	if (getenv(info->variable))
		return info->variable;
	for (int i = 0; i < OPTION_OTHERS && info->other_variables[i]; i++)
		if (getenv(info->other_variables[i]))
			return info->other_variables[i];
	return NULL;
}

static void help_row(const struct options_row *row)
{
	char left[80];
	int used = 0;

	if (row->letter)
		used = snprintf(left, sizeof(left), "-%c, ", row->letter);
	snprintf(left + used, sizeof(left) - used, "--%s%s%s", row->name, row->argument ? "=" : "",
		 row->argument ? row->argument : "");
	printf("  %-30s %s", left, row->help);
	if (row->twin)
		printf(" [%s]", option_info((enum option_id)(row->twin - 1))->variable);
	putchar('\n');
}

void options_help(const struct command *command)
{
	const struct options_row *row;

	printf("Usage: custody %s [options] %s\n\n%s.\n\nOptions:\n", command->name,
	       command->operands, command->summary);
	for (row = command->options; row && row->name; row++)
		help_row(row);
	for (row = common_rows; row->name; row++)
		help_row(row);
}
