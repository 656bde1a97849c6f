/* SPDX-License-Identifier: Apache-2.0 */
#include "report/output_table.h"

#include "report/format.h"
#include "report/message.h"
#include "report/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { INDENT = 2, BETWEEN = 2, NARROWEST = 16, BAR = 24, COLUMNS_MOST = 24 };

struct layout {
	const struct rows *rows;
	const struct terminal *terminal;
	char **cell; /* clean text, count * columns; NULL in columns that are not shown */
	size_t width[COLUMNS_MOST]; /* 0: not shown */
};

#define DIM "\033[2m"
#define PLAIN "\033[0m"

static bool stands_right(enum rows_type type)
{
	return type != ROWS_TEXT && type != ROWS_BAR;
}

/* Units of one width let the figures stand under each other. */
static void pad_unit(char *text)
{
	size_t length = strlen(text);

	if (length > 2 && !strcmp(text + length - 2, " B"))
		strcat(text, "  ");
	else if (length > 2 && !strcmp(text + length - 2, " s"))
		strcat(text, " ");
}

static void draw_bar(char *text, int64_t share, bool has_utf8)
{
	static const char *const part[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	int64_t eighths = (share * BAR * 8 + 9999) / 10000;

	*text = '\0';
	if (eighths > BAR * 8)
		eighths = BAR * 8;
	if (!has_utf8) {
		memset(text, '#', (size_t)(eighths + 7) / 8);
		text[(eighths + 7) / 8] = '\0';
		return;
	}
	for (; eighths >= 8; eighths -= 8)
		text = stpcpy(text, "█");
	strcpy(text, part[eighths]);
}

/* `text` has room for a bar of three bytes a column. */
static void format_cell(char *text, const struct rows_value *value, enum rows_type type,
			const struct report *report, bool has_utf8)
{
	if (!value->is_set || (!value->number && type != ROWS_ID && type != ROWS_MOMENT))
		strcpy(text, type == ROWS_BAR ? "" : "-");
	else if (type == ROWS_BYTES)
		pad_unit(format_bytes(text, value->number));
	else if (type == ROWS_DURATION)
		pad_unit(format_duration(text, value->number));
	else if (type == ROWS_MOMENT)
		format_moment(text, rows_minus(value->number, report->start_ns));
	else if (type == ROWS_RATE)
		format_rate(text, value->number);
	else if (type == ROWS_SHARE)
		format_share(text, value->number);
	else if (type == ROWS_BAR)
		draw_bar(text, value->number, has_utf8);
	else if (type == ROWS_COUNT)
		format_count(text, value->number);
	else
		snprintf(text, FORMAT_BYTES, type == ROWS_ADDRESS ? "0x%" PRIx64 : "%" PRId64,
			 value->number);
}

static char *make_cell(const struct rows_value *value, enum rows_type type,
		       const struct report *report, bool has_utf8)
{
	char text[3 * BAR + FORMAT_BYTES];
	char *cell;

	if (type == ROWS_TEXT)
		return text_clean(value->text ? value->text : "-");
	format_cell(text, value, type, report, has_utf8);
	cell = strdup(text);
	if (!cell)
		message_die(EXIT_COULD_NOT, "out of memory");
	return cell;
}

static bool has_anything(const struct rows *rows, size_t column)
{
	for (size_t row = 0; row < rows->count; row++) {
		const struct rows_value *value = &rows_at(rows, row)[column];

		if (value->is_set && (value->number || value->text ||
				      rows->column[column].type == ROWS_ID ||
				      rows->column[column].type == ROWS_MOMENT))
			return true;
	}
	return false;
}

static void lay_column(struct layout *layout, size_t column, const struct report *report)
{
	const struct rows *rows = layout->rows;
	const struct rows_column *is = &rows->column[column];
	size_t width = is->type == ROWS_BAR ? BAR : text_width(is->title);

	for (size_t row = 0; row < rows->count; row++) {
		char *cell = make_cell(&rows_at(rows, row)[column], is->type, report,
				       layout->terminal->has_utf8);

		layout->cell[row * rows->columns + column] = cell;
		if (text_width(cell) > width)
			width = text_width(cell);
	}
	layout->width[column] = width;
}

static size_t measure(const struct layout *layout)
{
	size_t total = INDENT - BETWEEN;

	for (size_t i = 0; i < layout->rows->columns; i++)
		if (layout->width[i])
			total += layout->width[i] + BETWEEN;
	return total;
}

/* The widest column of this type; the number of columns if there is none. */
static size_t find_widest(const struct layout *layout, enum rows_type type)
{
	size_t widest = layout->rows->columns;

	for (size_t i = 0; i < layout->rows->columns; i++)
		if (layout->width[i] && layout->rows->column[i].type == type &&
		    (widest == layout->rows->columns || layout->width[i] > layout->width[widest]))
			widest = i;
	return widest;
}

/* Text gives way first, the widest column of it; then a drawn bar does without. */
static void fit(struct layout *layout)
{
	size_t limit = (size_t)layout->terminal->width, total;
	size_t column = find_widest(layout, ROWS_TEXT);

	while ((total = measure(layout)) > limit && column < layout->rows->columns &&
	       layout->width[column] > NARROWEST) {
		layout->width[column]--;
		column = find_widest(layout, ROWS_TEXT);
	}
	column = find_widest(layout, ROWS_BAR);
	if (total > limit && column < layout->rows->columns)
		layout->width[column] = 0;
}

static void print_cell(const struct layout *layout, size_t column, const char *text, bool is_last,
		       FILE *stream)
{
	size_t width = layout->width[column];
	char *shown = text_shorten(text, width, layout->terminal->has_utf8 ? "…" : "...");
	int pad = (int)(width - text_width(shown));

	/* The padding of a unit is for the columns behind it. */
	for (char *end = shown + strlen(shown); is_last && end > shown && end[-1] == ' '; end--)
		end[-1] = '\0';
	if (stands_right(layout->rows->column[column].type))
		fprintf(stream, "%*s%s", pad, "", shown);
	else
		fprintf(stream, "%s%*s", shown, is_last ? 0 : pad, "");
	free(shown);
}

/* One line: row `row`, or the titles for `rows->count`. */
static void print_line(const struct layout *layout, size_t row, FILE *stream)
{
	const struct rows *rows = layout->rows;
	size_t last = rows->columns;
	int between = INDENT;

	while (last && !layout->width[last - 1])
		last--;
	for (size_t i = 0; i < last; i++) {
		if (!layout->width[i])
			continue;
		fprintf(stream, "%*s", between, "");
		print_cell(layout, i,
			   row == rows->count ? rows->column[i].title :
						layout->cell[row * rows->columns + i],
			   i + 1 == last, stream);
		between = BETWEEN;
	}
	fputc('\n', stream);
}

static void free_cells(struct layout *layout)
{
	for (size_t i = 0; i < layout->rows->count * layout->rows->columns; i++)
		free(layout->cell[i]);
	free(layout->cell);
}

void output_table(const struct report *report, const struct report_section *section,
		  const struct terminal *terminal, FILE *stream)
{
	struct layout layout = { .rows = &section->rows, .terminal = terminal };
	const struct rows *rows = &section->rows;
	char count[FORMAT_BYTES];

	layout.cell = calloc(rows->count * rows->columns, sizeof(*layout.cell));
	if (!layout.cell)
		message_die(EXIT_COULD_NOT, "out of memory");
	for (size_t i = 0; i < rows->columns && i < COLUMNS_MOST; i++)
		if (rows->column[i].title && has_anything(rows, i))
			lay_column(&layout, i, report);
	fit(&layout);
	fputs(terminal->has_color ? DIM : "", stream);
	print_line(&layout, rows->count, stream);
	fputs(terminal->has_color ? PLAIN : "", stream);
	for (size_t row = 0; row < rows->count; row++)
		print_line(&layout, row, stream);
	if (rows->left_out)
		fprintf(stream, "%*sand %s more (-n shows more rows)\n", INDENT, "",
			format_count(count, (int64_t)rows->left_out));
	free_cells(&layout);
}
