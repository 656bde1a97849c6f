/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notice.h - the one line that a traced process may get on its standard error.
 */
#ifndef CUSTODY_CORE_NOTICE_H
#define CUSTODY_CORE_NOTICE_H

#include <stdbool.h>

/*
 * Write "custody: ..." and a newline to descriptor 2, unless this process or the
 * one that forked it has had its line, or the descriptor is no longer what it
 * was.  Never blocks, raises no SIGPIPE and preserves errno.
 */
void notice_once(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether the line has been used up; saves the making of a text nobody will see. */
bool notice_is_spent(void);

/*
 * Descriptor 2 is standard error as long as it is the file that it was when we
 * were loaded: a daemon that closes it may get it back for its data.
 */
bool notice_has_stderr(void);

/* What is at descriptor 2 now is standard error; done on loading, and by tests. */
void notice_remember_stderr(void);

/* What an errno means, without the locks and allocations of strerror(). */
const char *notice_error(int error);

#endif
