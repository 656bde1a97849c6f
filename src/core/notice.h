/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notice.h - the one line that a traced process may get on its standard error.
 */
#ifndef CUSTODY_CORE_NOTICE_H
#define CUSTODY_CORE_NOTICE_H

#include <stdbool.h>

/*
 * Write "custody: ..." and a newline to descriptor 2, unless this process or the
 * one that forked it has had its line.  Never blocks, raises no SIGPIPE and
 * preserves errno.
 */
void notice_once(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether the line has been used up; saves the making of a text nobody will see. */
bool notice_is_spent(void);

/* What an errno means, without the locks and allocations of strerror(). */
const char *notice_error(int error);

#endif
