/* SPDX-License-Identifier: Apache-2.0 */
#include "report/doctor.h"

#include "report/message.h"
#include "report/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void doctor_say(struct doctor *doctor, enum doctor_finding finding, const char *format, ...)
{
	static const char *const mark[][2] = {
		[DOCTOR_GOOD] = { "ok  ", "✓" },
		[DOCTOR_NOTE] = { "note", "•" },
		[DOCTOR_BAD] = { "BAD ", "✗" },
	};
	static const char *const color[] = {
		[DOCTOR_GOOD] = "\033[32m", [DOCTOR_NOTE] = "\033[36m", [DOCTOR_BAD] = "\033[31m"
	};
	va_list arguments;
	char *text, *clean;

	doctor->bad += finding == DOCTOR_BAD;
	if (message_level < MESSAGE_NORMAL && finding != DOCTOR_BAD)
		return;
	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		message_die(EXIT_COULD_NOT, "out of memory");
	va_end(arguments);
	clean = text_clean(text);
	printf("%s%s%s %s\n", doctor->terminal.has_color ? color[finding] : "",
	       mark[finding][doctor->terminal.has_utf8],
	       doctor->terminal.has_color ? "\033[0m" : "", clean);
	free(clean);
	free(text);
}
