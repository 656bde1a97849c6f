/* SPDX-License-Identifier: Apache-2.0 */
#include "report/collect.h"
#include "report/command.h"
#include "report/program.h"
#include "report/record_run.h"
#include "report/record_summary.h"
#include "report/session_name.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *output;
static const char *frees;
static const char *max_pending;
static const char *max_pending_ratio;
static const char *children;
static const char *deepbind;
static const char *limit;
static const char *fail_nth;
static bool want_gpu_times;
static bool replace;
static bool simulate;

static const struct options_row rows[] = {
	{ "output", 'o', OPTIONS_TEXT, "FILE",
	  "the trace; knows %p pid, %h host, %e program, %q{VARIABLE}", &output,
	  OPTIONS_TWIN(OPTION_OUTPUT) },
	{ "force", 'f', OPTIONS_FLAG, NULL, "replace an existing file", &replace, 0 },
	{ "frees", 0, OPTIONS_TEXT, "POLICY", "what a free does: immediate, deferred or nowait",
	  &frees, OPTIONS_TWIN(OPTION_FREES) },
	{ "max-pending", 0, OPTIONS_TEXT, "N",
	  "frees that a queue of a context holds; one more starts a pass", &max_pending,
	  OPTIONS_TWIN(OPTION_MAX_PENDING) },
	{ "max-pending-ratio", 0, OPTIONS_TEXT, "R",
	  "share of the memory that may wait; more starts a pass", &max_pending_ratio,
	  OPTIONS_TWIN(OPTION_MAX_PENDING_RATIO) },
	{ "children", 0, OPTIONS_TEXT, "all|none",
	  "whether processes the program starts are recorded too", &children,
	  OPTIONS_TWIN(OPTION_CHILDREN) },
	{ "gpu-times", 0, OPTIONS_FLAG, NULL,
	  "ask CUPTI when devices copied, set and computed", &want_gpu_times,
	  OPTIONS_TWIN(OPTION_GPU_TIMES) },
	{ "limit", 0, OPTIONS_TEXT, "SIZE",
	  "let each device look no larger: a program on a smaller card", &limit,
	  OPTIONS_TWIN(OPTION_LIMIT) },
	{ "fail-nth", 0, OPTIONS_TEXT, "N",
	  "fail the N-th allocating call of each process, out of memory", &fail_nth,
	  OPTIONS_TWIN(OPTION_FAIL_NTH) },
	{ "deepbind", 0, OPTIONS_TEXT, "pass|clear",
	  "whether libraries opened with RTLD_DEEPBIND are made to be seen", &deepbind,
	  OPTIONS_TWIN(OPTION_DEEPBIND) },
	{ "simulate", 0, OPTIONS_FLAG, NULL, "run on the simulated driver: no GPU is needed",
	  &simulate, 0 },
	{ NULL, 0, OPTIONS_FLAG, NULL, NULL, NULL, 0 },
};

static void find_program(const char *name, char *path)
{
	int error = program_find(name, path, PATH_MAX);

	if (error == ENOENT)
		message_die(EXIT_NOT_FOUND, "%s: not found", name);
	if (error)
		message_die(EXIT_NOT_EXECUTABLE, "%s: cannot be executed", name);
}

static void set_variable(const char *name, const char *value)
{
	if (setenv(name, value, 1))
		message_die(EXIT_COULD_NOT, "out of memory");
}

/* Put a path before what a variable names already; `separators` end one entry of it. */
static void prepend(const char *variable, const char *path, const char *separators)
{
	const char *before = getenv(variable);
	char *value = NULL;

	if (strpbrk(path, separators))
		message_die(EXIT_COULD_NOT,
			    "%s cannot name %s: the path has a blank or colon in it", variable,
			    path);
	if (asprintf(&value, "%s%s%s", path, before && *before ? ":" : "",
		     before && *before ? before : "") < 0)
		message_die(EXIT_COULD_NOT, "out of memory");
	set_variable(variable, value);
	free(value);
}

/* Under a `record` already: its preload serves for ours. */
static bool is_preloaded(const char *preload)
{
	const char *before = getenv("LD_PRELOAD");
	const char *found = before ? strstr(before, preload) : NULL;
	char end = found ? found[strlen(preload)] : '\0';

	return found && (!end || strchr(" :", end));
}

/* Said once here, and not again by every process that is recorded. */
static void mend_environment(void)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_info *info = option_info(id);
		const char *variable = options_variable(id);
		char why[256];

		if (!variable || option_is_valid(id, getenv(variable), why, sizeof(why)))
			continue;
		message_warn("%s is ignored: %s; %s is used", variable, why, info->default_value);
		/* Ours comes first, so another's is left as it is for whom it is meant. */
		set_variable(info->variable, info->default_value);
	}
}

static void set_options(void)
{
	static const struct {
		enum option_id id;
		const char **value;
	} given[] = {
		{ OPTION_FREES, &frees },
		{ OPTION_MAX_PENDING, &max_pending },
		{ OPTION_MAX_PENDING_RATIO, &max_pending_ratio },
		{ OPTION_CHILDREN, &children },
		{ OPTION_DEEPBIND, &deepbind },
		{ OPTION_LIMIT, &limit },
		{ OPTION_FAIL_NTH, &fail_nth },
	};

	for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++)
		if (*given[i].value)
			set_variable(option_info(given[i].id)->variable, *given[i].value);
	if (want_gpu_times)
		set_variable(option_info(OPTION_GPU_TIMES)->variable, "1");
}

/* NVTX loads what this names when a program opens its first range: scopes are such. */
static void hear_ranges(const char *preload)
{
	if (!getenv("NVTX_INJECTION64_PATH") && strcmp(option_text(OPTION_FREES), "immediate"))
		set_variable("NVTX_INJECTION64_PATH", preload);
}

/*
 * The driver loads what this names when it starts, into programs too that a
 * preload does not reach: those are told of.  A profiler that has set it goes on.
 */
static void notice_unreached(const char *preload)
{
	char path[PATH_MAX];

	if (!getenv(INJECTION_VARIABLE) && program_find_injection(preload, path, sizeof(path)))
		set_variable(INJECTION_VARIABLE, path);
}

static void prepare_environment(void)
{
	char path[PATH_MAX];

	mend_environment();
	if (!program_find_preload(path, sizeof(path)))
		message_die(EXIT_COULD_NOT, "libcustody-preload.so was not found; set "
			    "CUSTODY_PRELOAD to its path");
	if (!is_preloaded(path))
		prepend("LD_PRELOAD", path, " :");
	set_options();
	hear_ranges(path);
	notice_unreached(path);
	if (!simulate)
		return;
	if (!program_find_simdriver(path, sizeof(path)))
		message_die(EXIT_COULD_NOT, "the simulated driver was not found; set "
			    "CUSTODY_SIMDRIVER to the directory of its libcuda.so.1");
	prepend("LD_LIBRARY_PATH", path, ":;");
	/* A real GPU's memory says nothing about a simulated one. */
	setenv("CUSTODY_NVML", "none", 0);
}

/* The template with all that is known: where it is relative, from here. */
static char *find_trace(const char *program, pid_t pid)
{
	const char *template = output ? output : option_text(OPTION_OUTPUT);
	char here[PATH_MAX];
	const char *why = NULL;
	char *name = session_name_expand(template, pid, program, &why);
	char *path = NULL;

	if (!name)
		message_die(EXIT_USAGE, "record: --output: '%s': %s", template, why);
	if (name[0] == '/')
		return name;
	if (!getcwd(here, sizeof(here)) || asprintf(&path, "%s/%s", here, name) < 0)
		message_die(EXIT_COULD_NOT, "the current directory cannot be named: %s",
			    strerror(errno));
	free(name);
	return path;
}

/* The program has its pid but has not begun: refusing costs it nothing. */
static void prepare_session(struct record_run *run)
{
	char *trace = find_trace(run->path, run->program);
	char why[PATH_MAX + 256];

	if (replace && (session_find_writer(trace) || collect_settle_is_busy(trace)))
		snprintf(why, sizeof(why), "%s is being recorded by another run", trace);
	else if (session_reserve(trace, replace, why, sizeof(why)))
		why[0] = '\0';
	if (why[0]) {
		record_run_cancel(run);
		message_die(EXIT_COULD_NOT, "%s", why);
	}
	session_create(&run->session, trace, run->program);
	free(trace);
}

static void drop_empty(const char *trace)
{
	struct stat status;

	if (!stat(trace, &status) && !status.st_size)
		unlink(trace);
}

static void explain_nothing(const struct record_run *run)
{
	char subject[PATH_MAX];
	enum program_obstacle obstacle = program_inspect(run->path, subject, sizeof(subject));

	drop_empty(run->session.trace);
	if (obstacle == PROGRAM_GOOD)
		message_say("no CUDA call was recorded, so there is no trace");
	else
		message_say("no CUDA call was recorded: %s %s; there is no trace", subject,
			    program_explain(obstacle));
}

/* From here if that is shorter. */
static const char *shorten(const char *path)
{
	char here[PATH_MAX];
	size_t length;

	if (!getcwd(here, sizeof(here)))
		return path;
	length = strlen(here);
	return !strncmp(path, here, length) && path[length] == '/' ? path + length + 1 : path;
}

static int conclude(const struct record_run *run, enum record_outcome outcome)
{
	const char *trace = shorten(run->session.trace);
	int code = record_run_exit_code(run);

	switch (outcome) {
	case RECORD_TRACED:
		record_summary_print(trace);
		break;
	case RECORD_NOTHING:
		explain_nothing(run);
		break;
	case RECORD_GOES_ON:
		message_say(
			"processes that %s has started still run; %s is completed when they end",
			run->argv[0], trace);
		break;
	case RECORD_BROKEN:
		return code ? code : EXIT_COULD_NOT;
	}
	return code;
}

static int run_record(int argc, char **argv)
{
	struct record_run run = { .argv = argv, .to_collector = -1, .from_collector = -1 };
	char path[PATH_MAX];

	if (!argc)
		message_die(EXIT_USAGE, "record: no program was named; 'custody record --help' "
			    "tells how");
	find_program(argv[0], path);
	run.path = path;
	run.show_progress = isatty(STDERR_FILENO) && message_level >= MESSAGE_NORMAL;
	prepare_environment();
	record_run_prepare(&run);
	prepare_session(&run);
	return conclude(&run, record_run_start(&run));
}

const struct command cmd_record = {
	.name = "record",
	.summary = "Run a program and record what it does with CUDA memory",
	.operands = "[--] PROGRAM [ARGUMENTS]",
	.options = rows,
	.run = run_record,
};
