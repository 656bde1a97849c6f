/* SPDX-License-Identifier: Apache-2.0 */
#include "report/collect_survivor.h"

#include "core/option.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether a file of /proc holds a line, ended by `separator`, that `judge` likes. */
static bool has_line(const char *pid, const char *name, int separator,
		     bool (*judge)(const char *line, const char *wanted), const char *wanted)
{
	char path[PATH_MAX];
	char *line = NULL;
	size_t bytes = 0;
	bool is_found = false;
	FILE *stream;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
	stream = fopen(path, "re");
	if (!stream)
		return false;
	while (!is_found && getdelim(&line, &bytes, separator, stream) > 0)
		is_found = judge(line, wanted);
	free(line);
	fclose(stream);
	return is_found;
}

static bool is_equal(const char *line, const char *wanted)
{
	return !strcmp(line, wanted);
}

static bool contains(const char *line, const char *wanted)
{
	return strstr(line, wanted) != NULL;
}

static enum collect_survivor judge_process(const char *pid, const char *variable)
{
	if (pid[0] < '0' || pid[0] > '9' || atoi(pid) == (int)getpid() ||
	    !has_line(pid, "environ", '\0', is_equal, variable))
		return SURVIVOR_NONE;
	return has_line(pid, "maps", '\n', contains, "/libcuda.so") ? SURVIVOR_DRIVER :
								     SURVIVOR_IDLE;
}

enum collect_survivor collect_survivor_find(const char *session)
{
	char variable[PATH_MAX + 32];
	enum collect_survivor most = SURVIVOR_NONE;
	DIR *stream = opendir("/proc");
	struct dirent *entry;

	if (!stream)
		return SURVIVOR_NONE;
	snprintf(variable, sizeof(variable), "%s=%s", OPTION_ENV_SESSION, session);
	while (most != SURVIVOR_DRIVER && (entry = readdir(stream))) {
		enum collect_survivor survivor = judge_process(entry->d_name, variable);

		if (survivor > most)
			most = survivor;
	}
	closedir(stream);
	return most;
}
