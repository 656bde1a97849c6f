/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_merge.c - custody merge: the traces of several runs or ranks in one file. */
#include "report/command.h"

#include "report/collect.h"
#include "report/merge.h"
#include "report/session.h"

#include <stdio.h>
#include <string.h>

static const char *output;
static bool replace;

static const struct options_row options[] = {
	{ "output", 'o', OPTIONS_TEXT, "FILE", "write there, all of it or nothing", &output, 0 },
	{ "force", 'f', OPTIONS_FLAG, NULL, "replace FILE if it exists", &replace, 0 },
	{ NULL, 0, OPTIONS_FLAG, NULL, NULL, NULL, 0 },
};

static bool is_same_file(const char *a, const char *b)
{
	struct stat first, second;

	return !stat(a, &first) && !stat(b, &second) && first.st_ino == second.st_ino &&
	       first.st_dev == second.st_dev;
}

_Noreturn static void refuse_output(void)
{
	message_die(EXIT_USAGE, "merge: %s is one of the traces to be merged", output);
}

/* Before anything is read: what cannot be written need not wait for a recording to end. */
static void check_output(int argc, char **argv)
{
	if (!output || !*output)
		message_die(EXIT_USAGE, "merge: -o FILE is wanted; 'custody merge --help' tells "
					"more");
	for (int i = 0; i < argc; i++)
		if (is_same_file(output, argv[i]))
			refuse_output();
	if (replace && (session_find_writer(output) || collect_settle_is_busy(output)))
		message_die(EXIT_COULD_NOT, "%s is being recorded", output);
}

/* A session has named its trace by now. */
static void check_sources(const struct merge *merge)
{
	for (int i = 0; i < merge->sources; i++) {
		if (is_same_file(output, merge->source[i].path))
			refuse_output();
		if (!merge->source[i].is_complete)
			message_warn("%s is incomplete, and so is what is made of it",
				     merge->source[i].name);
	}
}

static void say_result(const struct merge *merge)
{
	message_say("%d trace%s in %s; 'custody report %s' shows them", merge->sources,
		    merge->sources == 1 ? "" : "s", output, output);
}

static int run(int argc, char **argv)
{
	struct merge merge = { 0 };
	const char *draft;

	if (!argc)
		message_die(EXIT_USAGE,
			    "merge: TRACES are wanted; 'custody merge --help' tells more");
	check_output(argc, argv);
	draft = merge_file_begin(output, replace);
	merge_source_read(&merge, argv, argc);
	merge_source_align(&merge);
	check_sources(&merge);
	merge_run_all(&merge, draft, output);
	merge_file_finish(output, replace);
	say_result(&merge);
	merge_source_free(&merge);
	return EXIT_GOOD;
}

const struct command cmd_merge = {
	.name = "merge",
	.summary = "Put the traces of several runs or ranks into one file",
	.operands = "-o FILE TRACE...",
	.options = options,
	.run = run,
};
