/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory_limit.h"
#include "core/raw_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_BYTES = 4096 };

/* The number in the file; "max", or no such file, is no limit. */
static uint64_t read_limit(const char *path)
{
	char text[64];

	if (raw_file_read(path, text, sizeof(text)) <= 0 || text[0] < '0' || text[0] > '9')
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

/* A limit holds for all groups below, so look at the group and at all above it. */
static uint64_t read_limits(const char *root, char *group, const char *file)
{
	uint64_t least = UINT64_MAX, limit;
	char path[GROUPS_BYTES + PATH_MAX];
	char *slash;

	do {
		snprintf(path, sizeof(path), "%s%s/%s", root, group, file);
		limit = read_limit(path);
		least = limit < least ? limit : least;
		slash = strrchr(group, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
	return least;
}

/* Of lines such as "0::/a/b" and "4:memory:/a/b". */
static uint64_t read_line(char *line)
{
	char *kinds = strchr(line, ':'), *group = kinds ? strchr(kinds + 1, ':') : NULL;

	if (!group)
		return UINT64_MAX;
	*group++ = '\0';
	if (!kinds[1])
		return read_limits("/sys/fs/cgroup", group, "memory.max");
	if (strstr(kinds, "memory"))
		return read_limits("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
	return UINT64_MAX;
}

uint64_t memory_limit_bytes(void)
{
	uint64_t least = UINT64_MAX;
	char text[GROUPS_BYTES];
	char *line = text, *end;

	if (raw_file_read("/proc/self/cgroup", text, sizeof(text)) <= 0)
		return UINT64_MAX;
	for (; (end = strchr(line, '\n')); line = end + 1) {
		uint64_t limit;

		*end = '\0';
		limit = read_line(line);
		least = limit < least ? limit : least;
	}
	return least;
}
