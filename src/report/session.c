/* SPDX-License-Identifier: Apache-2.0 */
#include "report/session.h"

#include "core/option.h"
#include "core/session_dir.h"
#include "report/ingest_map.h"
#include "report/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_BYTES = 4 * PATH_MAX, NAME_TRIES = 10000, NAME_BYTES = 480 };

static bool name_in(const struct session *session, const char *name, char *path)
{
	return snprintf(path, PATH_MAX, "%s/%s", session->directory, name) < PATH_MAX;
}

static void write_description(const struct session *session)
{
	char path[PATH_MAX], output[2 * PATH_MAX], trace[2 * PATH_MAX];
	FILE *stream = NULL;

	session_dir_escape(session->output, output, sizeof(output));
	session_dir_escape(session->trace, trace, sizeof(trace));
	if (name_in(session, "session", path))
		stream = fopen(path, "wxe");
	if (!stream)
		message_die(EXIT_COULD_NOT, "cannot write in %s: %s", session->directory,
			    strerror(errno));
	fprintf(stream,
		"mode=record\npid=%d\noutput=%s\ntrace=%s\nfrees=%s\nchildren=%s\nlimits=%s\n",
		session->pid, output, trace, session->frees, session->children, session->limits);
	if (fclose(stream))
		message_die(EXIT_COULD_NOT, "cannot write %s: %s", path, strerror(errno));
}

void session_create(struct session *session, const char *trace, int pid)
{
	char beside[PATH_MAX];
	char *slash;

	*session = (struct session){ .pid = pid, .lock = -1 };
	snprintf(session->output, sizeof(session->output), "%s", trace);
	snprintf(session->trace, sizeof(session->trace), "%s", trace);
	snprintf(session->frees, sizeof(session->frees), "%s", option_text(OPTION_FREES));
	snprintf(session->children, sizeof(session->children), "%s", option_text(OPTION_CHILDREN));
	session_dir_limits(session->limits, sizeof(session->limits));
	snprintf(beside, sizeof(beside), "%s", trace);
	slash = strrchr(beside, '/');
	if (slash)
		slash[slash == beside] = '\0';
	if (session_dir_make(session->directory, sizeof(session->directory), beside))
		message_die(EXIT_COULD_NOT, "no place can be had for what is recorded: %s",
			    strerror(errno));
	write_description(session);
}

static void take_text(char *field, size_t bytes, char *value)
{
	session_dir_unescape(value);
	snprintf(field, bytes, "%s", value);
}

static void take_line(struct session *session, char *line)
{
	char *value = strchr(line, '=');

	if (!value)
		return;
	*value++ = '\0';
	if (!strcmp(line, "mode"))
		session->is_bare = !strcmp(value, "preload");
	else if (!strcmp(line, "pid"))
		session->pid = atoi(value);
	else if (!strcmp(line, "output"))
		take_text(session->output, sizeof(session->output), value);
	else if (!strcmp(line, "trace"))
		take_text(session->trace, sizeof(session->trace), value);
	else if (!strcmp(line, "frees"))
		take_text(session->frees, sizeof(session->frees), value);
	else if (!strcmp(line, "children"))
		take_text(session->children, sizeof(session->children), value);
	else if (!strcmp(line, "limits"))
		take_text(session->limits, sizeof(session->limits), value);
}

bool session_read(struct session *session, const char *directory)
{
	char text[TEXT_BYTES + 1];
	char path[PATH_MAX];
	char *line, *next;
	ssize_t got;
	int fd;

	*session = (struct session){ .lock = -1 };
	if (!realpath(directory, session->directory) || !name_in(session, "session", path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return false;
	got = read(fd, text, TEXT_BYTES);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	for (line = text; (next = strchr(line, '\n')); line = next + 1) {
		*next = '\0';
		take_line(session, line);
	}
	return true;
}

void session_note_trace(struct session *session, const char *trace)
{
	char path[PATH_MAX], escaped[2 * PATH_MAX];
	FILE *stream = NULL;

	snprintf(session->trace, sizeof(session->trace), "%s", trace);
	session_dir_escape(trace, escaped, sizeof(escaped));
	if (name_in(session, "session", path))
		stream = fopen(path, "ae");
	if (!stream)
		return; /* a directory we cannot write: nobody will go on with it either */
	fprintf(stream, "trace=%s\n", escaped);
	fclose(stream);
}

/* The collector may have removed the file, and all, between our opening and locking it. */
static bool is_still_there(int lock, const char *path)
{
	struct stat held, there;

	return !fstat(lock, &held) && !stat(path, &there) && held.st_ino == there.st_ino &&
	       held.st_dev == there.st_dev;
}

bool session_lock(struct session *session)
{
	char path[PATH_MAX];

	if (!name_in(session, "lock", path))
		return false;
	session->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* Where nothing can be written, there is no collector to be kept out. */
	if (session->lock < 0)
		return errno == EACCES || errno == EROFS;
	if (!flock(session->lock, LOCK_EX | LOCK_NB) && is_still_there(session->lock, path))
		return true;
	close(session->lock);
	session->lock = -1;
	return false;
}

/*
 * The description goes first: a directory without one is no session, so nobody
 * opens the lock, and thereby makes it again, while the rest is removed.
 */
void session_remove(struct session *session)
{
	static const char *const names[] = { "session", "lock" };
	DIR *stream = opendir(session->directory);
	struct dirent *entry;
	char path[PATH_MAX];

	if (!stream)
		return;
	if (name_in(session, "session", path))
		unlink(path);
	while ((entry = readdir(stream)))
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			if (name_in(session, entry->d_name, path))
				ingest_map_remove(path);
	closedir(stream);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (name_in(session, names[i], path))
			unlink(path);
	rmdir(session->directory);
	if (session->lock >= 0)
		close(session->lock);
	session->lock = -1;
}

static bool make_empty(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* SQLite takes no longer names, and would say so only when the program has run. */
static bool is_short_enough(const char *path, char *why, size_t bytes)
{
	char real[PATH_MAX];

	if (realpath(path, real) && strlen(real) <= NAME_BYTES)
		return true;
	unlink(path);
	snprintf(why, bytes, "cannot write %s: its full name is longer than %d bytes", path,
		 NAME_BYTES);
	return false;
}

void session_remove_companions(const char *path)
{
	static const char *const endings[] = { "-wal", "-shm", "-journal" };
	char name[PATH_MAX + 16];

	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		snprintf(name, sizeof(name), "%s%s", path, endings[i]);
		unlink(name);
	}
}

static bool remove_old(const char *path, char *why, size_t bytes)
{
	struct stat status;

	if (lstat(path, &status))
		return true;
	if (!S_ISREG(status.st_mode)) {
		snprintf(why, bytes, "%s is no regular file", path);
		return false;
	}
	if (unlink(path)) {
		snprintf(why, bytes, "cannot replace %s: %s", path, strerror(errno));
		return false;
	}
	return true;
}

bool session_reserve(const char *path, bool force, char *why, size_t bytes)
{
	if (force && !remove_old(path, why, bytes))
		return false;
	if (make_empty(path)) {
		session_remove_companions(path);
		return is_short_enough(path, why, bytes);
	}
	if (errno == EEXIST)
		snprintf(why, bytes, "%s exists; -f replaces it", path);
	else
		snprintf(why, bytes, "cannot write %s: %s", path, strerror(errno));
	return false;
}

static bool number_name(char path[PATH_MAX], const char *first, int number)
{
	size_t stem = strlen(first);

	if (stem > 3 && !strcmp(first + stem - 3, ".db"))
		stem -= 3;
	return snprintf(path, PATH_MAX, "%.*s.%d%s", (int)stem, first, number, first + stem) <
	       PATH_MAX;
}

bool session_reserve_next(char path[PATH_MAX], char *why, size_t bytes)
{
	char first[PATH_MAX];

	snprintf(first, sizeof(first), "%s", path);
	for (int number = 2; number < NAME_TRIES; number++) {
		if (make_empty(path)) {
			session_remove_companions(path);
			return is_short_enough(path, why, bytes);
		}
		if (errno != EEXIST || !number_name(path, first, number))
			break;
	}
	snprintf(why, bytes, "cannot write %s: %s", path, strerror(errno));
	return false;
}
