/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "report/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command *const commands[] = {
	&cmd_record,
	&cmd_report,
	&cmd_sql,
	&cmd_merge,
	&cmd_doctor,
	&cmd_env,
	&cmd_collect,
	&cmd_probe,
};

enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

static void print_usage(FILE *stream)
{
	fputs("Usage: custody VERB [options] ...\n\nVerbs:\n", stream);
	for (int i = 0; i < COMMANDS; i++)
		if (!commands[i]->hidden)
			fprintf(stream, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\n'custody VERB --help' tells the options of a verb.\n", stream);
}

static const struct command *find_command(const char *name)
{
	for (int i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct command *command;
	int first;

	if (argc < 2) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("custody " PACKAGE_VERSION);
		return EXIT_GOOD;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_usage(stdout);
		return EXIT_GOOD;
	}
	command = find_command(argv[1]);
	if (!command)
		message_die(EXIT_USAGE, "unknown verb '%s'; 'custody --help' lists them", argv[1]);
	first = options_parse(command, argc - 1, argv + 1) + 1;
	return command->run(argc - first, argv + first);
}
