/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_tools.c - other tools that the environment has a program load.  They
 * and the recording go together; but the driver loads one injection only, and
 * one tool at a time is told by CUPTI what a device does.
 */
#include "report/doctor.h"

#include "core/option.h"
#include "report/program.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct tool {
	const char *mark; /* in the name of a library */
	const char *name;
	bool holds_cupti;
} tools[] = {
	{ "libToolsInjection", "Nsight Systems", true },
	{ "libnsight", "an Nsight tool", true },
	{ "libsanitizer", "compute-sanitizer", false },
	{ "libTreeLauncher", "compute-sanitizer or Nsight Compute", false },
	{ "cuda-injection", "Nsight Compute", true },
	{ "libcupti", "a tool made of CUPTI", true },
	{ "nvbit", "NVBit", true },
};

static const struct tool *find_tool(const char *text)
{
	for (size_t i = 0; text && i < sizeof(tools) / sizeof(*tools); i++)
		if (strstr(text, tools[i].mark))
			return &tools[i];
	return NULL;
}

static void judge_injection(struct doctor *doctor, const char *path)
{
	const struct tool *tool = find_tool(path);

	doctor_say(doctor, DOCTOR_NOTE,
		   "%s is set already (%s%s%s): 'custody record' leaves it alone, and programs "
		   "that the preload does not reach are not told of",
		   INJECTION_VARIABLE, path, tool ? ", " : "", tool ? tool->name : "");
	if (access(path, R_OK))
		doctor_say(doctor, DOCTOR_NOTE, "%s names no file that can be read",
			   INJECTION_VARIABLE);
}

static void judge_preloads(struct doctor *doctor, const char *list)
{
	const struct tool *tool = find_tool(list);

	doctor_say(doctor, DOCTOR_NOTE,
		   "LD_PRELOAD is set already (%s%s%s); 'custody record' keeps it and comes first",
		   list, tool ? ", " : "", tool ? tool->name : "");
}

/* Who would have CUPTI when the recording asks for it. */
static void judge_holder(struct doctor *doctor, const char *injection, const char *list)
{
	const struct tool *tool = find_tool(injection);

	if (!tool || !tool->holds_cupti)
		tool = find_tool(list);
	if (tool && tool->holds_cupti && option_number(OPTION_GPU_TIMES))
		doctor_say(doctor, DOCTOR_NOTE,
			   "CUPTI is likely to be held by %s: GPU times are then not recorded",
			   tool->name);
}

void doctor_tools(struct doctor *doctor)
{
	const char *injection = getenv(INJECTION_VARIABLE), *list = getenv("LD_PRELOAD");

	if (list && *list)
		judge_preloads(doctor, list);
	if (injection && *injection)
		judge_injection(doctor, injection);
	judge_holder(doctor, injection, list);
	if (!strcmp(option_text(OPTION_DEEPBIND), "clear"))
		doctor_say(doctor, DOCTOR_GOOD,
			   "libraries that are opened with RTLD_DEEPBIND are opened without it "
			   "(CUSTODY_DEEPBIND)");
}
