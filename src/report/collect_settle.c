/* SPDX-License-Identifier: Apache-2.0 */
/* For readers: wait for a collector, or be the successor of one that has died. */
#include "report/collect.h"

#include "report/message.h"
#include "report/store.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_AGAIN_MS = 50, PATIENCE_MS = 1000 };

static char *copy_text(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		message_die(EXIT_COULD_NOT, "out of memory");
	return copy;
}

static bool exists(const char *path)
{
	struct stat status;

	return !stat(path, &status);
}

/* True once the lock is ours, false when the session is gone: its collector has finished. */
static bool await_lock(struct session *session, const char *trace)
{
	struct timespec pause = { .tv_nsec = LOOK_AGAIN_MS * 1000000L };

	for (int waited_ms = 0;; waited_ms += LOOK_AGAIN_MS) {
		struct session now;

		if (!session_read(&now, session->directory))
			return false;
		/* The name may have been chosen since. */
		*session = now;
		if (session_lock(session))
			return true;
		if (waited_ms == PATIENCE_MS)
			message_say("%s is still being recorded; waiting for its end", trace);
		nanosleep(&pause, NULL);
	}
}

static bool settle_session(struct session *session, const char *trace)
{
	struct collect_link link = { -1, -1, false };

	if (!await_lock(session, trace))
		return true;
	message_say("reading what was left in %s", session->directory);
	link.show_progress = isatty(STDERR_FILENO) && message_level >= MESSAGE_NORMAL;
	return collect_run(session, &link);
}

/* The directory of a session that the trace says it belongs to; NULL: it is complete. */
static char *find_session(const char *trace)
{
	sqlite3 *db = store_reader_open(trace);
	sqlite3_stmt *query = NULL;
	char *directory = NULL;

	if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = 'session'", -1, &query,
			       NULL) != SQLITE_OK)
		store_reader_fail(db, trace);
	if (sqlite3_step(query) == SQLITE_ROW && sqlite3_column_text(query, 0))
		directory = copy_text((const char *)sqlite3_column_text(query, 0));
	sqlite3_finalize(query);
	sqlite3_close(db);
	return directory;
}

static void warn_if_incomplete(const char *trace)
{
	char *directory = find_session(trace);

	if (directory)
		message_warn("%s is not complete, and the rest of what was recorded is gone",
			     trace);
	free(directory);
}

static char *settle_file(const char *trace)
{
	char *directory = find_session(trace);
	char real[PATH_MAX];
	struct session session;

	if (directory && session_read(&session, directory) && realpath(trace, real)) {
		/* It may have been moved since, and the session must name it from everywhere. */
		session_note_trace(&session, real);
		settle_session(&session, trace);
	} else if (directory) {
		warn_if_incomplete(trace);
	}
	free(directory);
	return copy_text(trace);
}

/* A trace made from a directory comes beside the reader unless it was begun elsewhere. */
static char *settle_directory(const char *directory)
{
	struct session session;
	char trace[PATH_MAX];

	if (!session_read(&session, directory))
		message_die(EXIT_COULD_NOT, "%s is no session of custody", directory);
	if (!settle_session(&session, directory))
		message_die(EXIT_COULD_NOT, "%s holds no records", directory);
	snprintf(trace, sizeof(trace), "%s", session.trace);
	if (!*trace || !exists(trace))
		message_die(EXIT_COULD_NOT,
			    "the collector of %s has just finished; its trace is %s", directory,
			    *session.output ? session.output : "where it was to be");
	message_say("the trace is now %s", trace);
	return copy_text(trace);
}

char *collect_settle(const char *trace)
{
	struct stat status;

	if (stat(trace, &status))
		message_die(EXIT_COULD_NOT, "cannot read %s: %s", trace, strerror(errno));
	return S_ISDIR(status.st_mode) ? settle_directory(trace) : settle_file(trace);
}

bool collect_settle_is_busy(const char *trace)
{
	char *directory = store_reader_session(trace);
	struct session session;
	bool is_busy = false;

	if (directory && session_read(&session, directory)) {
		is_busy = !session_lock(&session) && exists(session.directory);
		if (session.lock >= 0)
			close(session.lock);
	}
	free(directory);
	return is_busy;
}
