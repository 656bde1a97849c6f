/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - what the program says to people: one sentence on standard error,
 * led by "custody: ", and the exit codes that go with it.
 */
#ifndef CUSTODY_REPORT_MESSAGE_H
#define CUSTODY_REPORT_MESSAGE_H

#include <stdbool.h>

enum {
	EXIT_GOOD = 0,
	EXIT_COULD_NOT = 1,
	EXIT_USAGE = 2,
	EXIT_GATE = 3,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

enum message_level { MESSAGE_QUIET = -1, MESSAGE_NORMAL = 0, MESSAGE_VERBOSE = 1 };

/* -q and -v.  Errors are said at every level. */
extern int message_level;

/* News: left out under -q. */
void message_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Something is wrong, but we go on. */
void message_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One sentence, then exit with `code`. */
_Noreturn void message_die(int code, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
