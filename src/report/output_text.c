/* SPDX-License-Identifier: Apache-2.0 */
/* output_text.c - a report as people read it, in the width of their terminal. */
#include "report/report.h"

#include "report/output_table.h"
#include "report/terminal.h"
#include "report/text.h"

#include <stdlib.h>
#include <string.h>

enum { INDENT = 2 };

static const char *style(const struct terminal *terminal, const char *code)
{
	return terminal->has_color ? code : "";
}

#define BOLD "\033[1m"
#define YELLOW "\033[33m"
#define CYAN "\033[36m"
#define PLAIN "\033[0m"

/* Where a line of `width` that starts at `text` ends; a word that is longer stands alone. */
static const char *find_break(const char *text, size_t width)
{
	const char *blank = NULL, *at = text;
	size_t column = 0;

	for (; *at; at++) {
		if (*at == ' ' && column > width)
			return blank ? blank : at;
		if (*at == ' ')
			blank = at;
		column += (*at & 0xC0) != 0x80;
	}
	return column > width && blank ? blank : at;
}

/* Words in lines; those behind the first begin at column `indent`. */
static void print_wrapped(FILE *stream, const char *text, int indent, int width)
{
	char *clean = text_clean(text);
	const char *at = clean;

	while (*at) {
		const char *end = find_break(at, (size_t)(width - indent));

		fprintf(stream, "%.*s\n", (int)(end - at), at);
		at = end + (*end == ' ');
		if (*at)
			fprintf(stream, "%*s", indent, "");
	}
	free(clean);
}

static void print_fields(const struct report_section *section, const struct terminal *terminal,
			 FILE *stream)
{
	const struct rows *rows = &section->rows;
	const struct rows_value *value = rows_at(rows, 0);
	int widest = 0;

	for (size_t i = 0; i < rows->columns; i++)
		if (rows->column[i].title && value[i].is_set &&
		    (int)strlen(rows->column[i].title) > widest)
			widest = (int)strlen(rows->column[i].title);
	for (size_t i = 0; i < rows->columns; i++) {
		if (!rows->column[i].title || !value[i].is_set)
			continue;
		fprintf(stream, "%*s%-*s  ", INDENT, "", widest, rows->column[i].title);
		print_wrapped(stream, value[i].text, INDENT + widest + 2, terminal->width);
	}
}

static void print_notes(const struct report_section *section, const struct terminal *terminal,
			FILE *stream)
{
	static const char *const color[] = {
		[REPORT_REMARK] = "", [REPORT_HINT] = CYAN, [REPORT_WARNING] = YELLOW
	};
	static const char *const lead[] = {
		[REPORT_REMARK] = "", [REPORT_HINT] = "hint: ", [REPORT_WARNING] = "warning: "
	};
	const struct report_note *note;

	for (note = section->notes; note; note = note->next) {
		fprintf(stream, "%*s%s%s%s", INDENT, "", style(terminal, color[note->tone]),
			lead[note->tone],
			style(terminal, note->tone == REPORT_REMARK ? "" : PLAIN));
		print_wrapped(stream, note->text, INDENT + (int)strlen(lead[note->tone]),
			      terminal->width);
	}
}

static bool is_shown(const struct report_section *section)
{
	return section->title && (section->rows.count || section->nothing || section->notes);
}

static void print_section(const struct report *report, const struct report_section *section,
			  const struct terminal *terminal, FILE *stream)
{
	if (!section->rows.count && section->nothing)
		fprintf(stream, "%*s%s\n", INDENT, "", section->nothing);
	else if (!section->rows.count)
		;
	else if (section->shape == REPORT_FIELDS)
		print_fields(section, terminal, stream);
	else if (section->shape == REPORT_CURVE)
		output_curve(report, section, terminal, stream);
	else
		output_table(report, section, terminal, stream);
	print_notes(section, terminal, stream);
}

bool output_text(const struct report *report, FILE *stream)
{
	const struct report_section *section;
	const char *heading = NULL;
	struct terminal terminal;
	bool is_first = true;

	terminal_probe(&terminal, stream);
	for (section = report->first; section; section = section->next) {
		/* The heading of a section that is not shown stands over the next one. */
		if (section->heading)
			heading = section->heading;
		if (!is_shown(section))
			continue;
		if (!is_first)
			fputc('\n', stream);
		if (heading)
			fprintf(stream, "%s%s%s\n", style(&terminal, BOLD), heading,
				style(&terminal, PLAIN));
		print_section(report, section, &terminal, stream);
		is_first = false;
		heading = NULL;
	}
	return !ferror(stream) && !fflush(stream);
}
