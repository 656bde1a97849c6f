/* SPDX-License-Identifier: Apache-2.0 */
#include "core/children.h"
#include "core/option.h"
#include "core/raw_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ENVIRONMENT_BYTES = 1 << 20 };

/* Whether a preload of ours is among those named after "LD_PRELOAD=". */
static bool names_preload(const char *entry)
{
	return !strncmp(entry, "LD_PRELOAD=", 11) && strstr(entry, "libcustody-preload");
}

/* Walk what the parent was started with; entries are separated by NULs. */
static bool is_under_preload(const char *environment, size_t bytes)
{
	bool has_preload = false, has_none = false;

	for (size_t at = 0; at < bytes; at += strlen(environment + at) + 1) {
		has_preload |= names_preload(environment + at);
		has_none |= !strcmp(environment + at, "CUSTODY_CHILDREN=none");
	}
	return has_preload && has_none;
}

static bool has_recorded_parent(void)
{
	char *environment = mmap(NULL, ENVIRONMENT_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char path[64];
	ssize_t bytes;
	bool is_recorded;

	if (environment == MAP_FAILED)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)getppid());
	bytes = raw_file_read(path, environment, ENVIRONMENT_BYTES);
	is_recorded = bytes > 0 && is_under_preload(environment, (size_t)bytes);
	munmap(environment, ENVIRONMENT_BYTES);
	return is_recorded;
}

bool children_allow(bool is_forked)
{
	const char *root = option_environment(OPTION_ENV_ROOT);

	if (strcmp(option_text(OPTION_CHILDREN), "none"))
		return true;
	if (root && option_environment(OPTION_ENV_SESSION))
		return atoi(root) == getpid();
	return !is_forked && !has_recorded_parent();
}
