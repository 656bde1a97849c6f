/* SPDX-License-Identifier: Apache-2.0 */
#include "report/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int message_level = MESSAGE_NORMAL;

/* Names out of a trace may hold anything; on a terminal they must stay one line of text. */
static void blank_controls(char *line)
{
	for (unsigned char *at = (unsigned char *)line; *at; at++) {
		/* The C1 controls are two bytes of UTF-8. */
		if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
			at[0] = at[1] = ' ';
		if (*at < 0x20 || *at == 0x7f)
			*at = ' ';
	}
}

/* One write for the whole line, so that lines of several processes do not mix. */
__attribute__((format(printf, 1, 0)))
static void write_line(const char *format, va_list arguments)
{
	char line[4096];
	int used = vsnprintf(line, sizeof(line), format, arguments);

	if (used < 0)
		return;
	blank_controls(line);
	fflush(stdout);
	fprintf(stderr, "custody: %s\n", line);
}

void message_say(const char *format, ...)
{
	va_list arguments;

	if (message_level < MESSAGE_NORMAL)
		return;
	va_start(arguments, format);
	write_line(format, arguments);
	va_end(arguments);
}

void message_warn(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_line(format, arguments);
	va_end(arguments);
}

void message_die(int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_line(format, arguments);
	va_end(arguments);
	exit(code);
}
