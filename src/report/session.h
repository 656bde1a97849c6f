/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - the directory in which traced processes and the collector meet,
 * and the name of the trace that comes of it.
 *
 * The directory holds `session` (key=value lines, below), `lock` (held by the
 * living collector) and a directory for each traced process image.  Keys:
 *
 *	mode	record, or preload for a program that was started without us
 *	pid	of the program
 *	output	name of the trace with its placeholders, absolute
 *	trace	its final name, once it is known
 *	frees, children, limits	options in force: what session_dir_limits() says of the last
 */
#ifndef CUSTODY_REPORT_SESSION_H
#define CUSTODY_REPORT_SESSION_H

#include "core/session_dir.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct session {
	char directory[PATH_MAX];
	char output[PATH_MAX];
	char trace[PATH_MAX]; /* "": not known yet */
	char frees[64];
	char children[64];
	char limits[SESSION_DIR_LIMITS]; /* of queues and memory; "": none */
	int pid;
	bool is_bare;
	int lock; /* descriptor, -1: not held */
};

/*
 * Make the directory for a run of `pid` whose trace is `trace`.  Ends the
 * program with one sentence where no place can be had.
 */
void session_create(struct session *session, const char *trace, int pid);

/* Read what is known of the one in `directory`; false: it is no session. */
bool session_read(struct session *session, const char *directory);

/* Say in the directory that this is the trace, so that a later collector goes on with it. */
void session_note_trace(struct session *session, const char *trace);

/* Whether a collector of this user works on this file, which may still be empty. */
bool session_find_writer(const char *trace);

/* Be its collector; false: another one lives.  The lock ends with the process. */
bool session_lock(struct session *session);

/* Remove the directory and all that belongs into it. */
void session_remove(struct session *session);

/*
 * Reserve the file `path` for the trace: it is made, empty.  An existing one is
 * refused, or replaced if `force`.  False with one clause in `why`.
 */
bool session_reserve(const char *path, bool force, char *why, size_t bytes);

/* The same, but where the name is taken with .2, .3 ... before its ending. */
bool session_reserve_next(char path[PATH_MAX], char *why, size_t bytes);

/* What SQLite left beside an older trace must not be taken for a part of the new one. */
void session_remove_companions(const char *path);

#endif
