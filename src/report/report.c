/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "report/message.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void report_init(struct report *report, unsigned parts)
{
	memset(report, 0, sizeof(*report));
	report->parts = parts;
	report->end = &report->first;
}

static void free_notes(struct report_note *note)
{
	while (note) {
		struct report_note *next = note->next;

		free(note->text);
		free(note);
		note = next;
	}
}

void report_free(struct report *report)
{
	struct report_section *section = report->first;

	while (section) {
		struct report_section *next = section->next;

		free_notes(section->notes);
		rows_free(&section->rows);
		free(section);
		section = next;
	}
	report_init(report, 0);
}

bool report_wants(const struct report *report, unsigned parts)
{
	return parts == REPORT_ALWAYS || report->parts & parts;
}

struct report_section *report_add(struct report *report, const char *path, const char *title,
				  enum report_shape shape, const struct rows_column *column)
{
	struct report_section *section = calloc(1, sizeof(*section));

	if (!section)
		message_die(EXIT_COULD_NOT, "out of memory");
	section->path = path;
	section->title = title;
	section->shape = shape;
	rows_init(&section->rows, column);
	*report->end = section;
	report->end = &section->next;
	return section;
}

void report_note(struct report_section *section, enum report_tone tone, const char *format, ...)
{
	struct report_note **end = &section->notes;
	struct report_note *note = calloc(1, sizeof(*note));
	va_list arguments;

	va_start(arguments, format);
	if (!note || vasprintf(&note->text, format, arguments) < 0)
		message_die(EXIT_COULD_NOT, "out of memory");
	va_end(arguments);
	note->tone = tone;
	while (*end)
		end = &(*end)->next;
	*end = note;
}
