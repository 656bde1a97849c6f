/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_dir.h - the directory of a session: for its owner alone, on a memory
 * file system where there is one.
 */
#ifndef CUSTODY_CORE_SESSION_DIR_H
#define CUSTODY_CORE_SESSION_DIR_H

#include <stdbool.h>
#include <stddef.h>

enum { SESSION_DIR_LIMITS = 256 }; /* bytes of session_dir_limits() */

/*
 * Make an empty session directory in the first place that can be written and
 * has room: $XDG_RUNTIME_DIR, /dev/shm, else `beside`.  Its absolute path goes to
 * `path`.  Returns 0, or -1 with errno.
 */
int session_dir_make(char *path, size_t bytes, const char *beside);

/*
 * Make one for a program that was not started by `custody record`, with the file
 * `session` in it that tells the collector what it needs to know.
 */
int session_dir_create(char *path, size_t bytes);

/*
 * The file is one of lines; a newline or backslash in a value is written as two
 * characters.  False: `bytes` are too few.
 */
bool session_dir_escape(const char *value, char *text, size_t bytes);
void session_dir_unescape(char *text);

/* Options as text: the limits of what may be pending; "" where no free is put off. */
void session_dir_limits(char *text, size_t bytes);

bool session_dir_exists(const char *path);

#endif
