/* SPDX-License-Identifier: Apache-2.0 */
/* The session that writes a trace, found without the trace's help. */
#include "report/session.h"

#include "core/session_dir.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_same_file(const char *path, const struct stat *file)
{
	struct stat there;

	return !stat(path, &there) && there.st_ino == file->st_ino &&
	       there.st_dev == file->st_dev;
}

/* A collector at work holds the lock of its session. */
static bool has_collector(struct session *session)
{
	bool is_free = session_lock(session);

	if (session->lock >= 0)
		close(session->lock);
	return !is_free && session_dir_exists(session->directory);
}

static bool is_writer(const char *directory, const struct stat *trace)
{
	struct session session;

	return session_read(&session, directory) && *session.trace &&
	       is_same_file(session.trace, trace) && has_collector(&session);
}

static bool find_in(const char *place, const struct stat *trace)
{
	char prefix[64], path[PATH_MAX];
	DIR *stream = place ? opendir(place) : NULL;
	struct dirent *entry;
	bool is_found = false;

	if (!stream)
		return false;
	snprintf(prefix, sizeof(prefix), "custody-%u-", (unsigned int)geteuid());
	while (!is_found && (entry = readdir(stream)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)) &&
		    snprintf(path, sizeof(path), "%s/%s", place, entry->d_name) < PATH_MAX)
			is_found = is_writer(path, trace);
	closedir(stream);
	return is_found;
}

/* The places are those of session_dir_make(). */
bool session_find_writer(const char *trace)
{
	char beside[PATH_MAX];
	struct stat status;
	char *slash;

	if (stat(trace, &status))
		return false;
	snprintf(beside, sizeof(beside), "%s", trace);
	slash = strrchr(beside, '/');
	if (slash)
		slash[slash == beside] = '\0';
	return find_in(getenv("XDG_RUNTIME_DIR"), &status) || find_in("/dev/shm", &status) ||
	       find_in(slash ? beside : ".", &status);
}
