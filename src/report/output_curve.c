/* SPDX-License-Identifier: Apache-2.0 */
/* output_curve.c - bytes in use over time, drawn with the blocks of a text screen. */
#include "report/output_table.h"

#include "report/format.h"
#include "report/text.h"

#include <inttypes.h>
#include <string.h>

enum { INDENT = 2, LABEL = 9, HEIGHT = 4, LEVELS = 8, WIDEST = 120 };

struct curve {
	int64_t live[WIDEST]; /* highest in each column */
	int64_t held[WIDEST]; /* and with it what was freed and is not released */
	int width;
	int64_t most;
	bool has_band; /* pending memory is to be seen */
};

/* The column of a moment; the whole run is as wide as the curve. */
static int find_column(const struct report *report, int64_t at, int width)
{
	double run = (double)report->end_ns - (double)report->start_ns;
	double part = ((double)at - (double)report->start_ns) / (run > 0 ? run : 1) * width;

	return part < 0 ? 0 : part >= width ? width - 1 : (int)part;
}

static int64_t at_least_none(int64_t bytes)
{
	return bytes > 0 ? bytes : 0;
}

static void raise_to(int64_t *highest, int64_t value)
{
	if (value > *highest)
		*highest = value;
}

/* Between two moments the use is that of the earlier one. */
static void gather(struct curve *curve, const struct report *report, const struct rows *rows)
{
	int64_t live = 0, held = 0;
	int column = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct rows_value *value = rows_at(rows, i);
		int at = find_column(report, value[0].number, curve->width);

		while (column < at) {
			curve->held[++column] = held;
			curve->live[column] = live;
		}
		live = at_least_none(value[1].number);
		held = rows_plus(live, at_least_none(value[2].number));
		raise_to(&curve->live[column], live);
		raise_to(&curve->held[column], held);
		raise_to(&curve->most, held);
	}
	while (column + 1 < curve->width) {
		curve->held[++column] = held;
		curve->live[column] = live;
	}
}

static const char *const band[] = { "-", "░" }; /* of a plain screen, and of one with UTF-8 */

/* What line `line` (0 is the lowest) shows of a point: nothing, a part, or all of its height. */
static const char *draw(const struct curve *curve, int column, int line, bool has_utf8)
{
	static const char *const block[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { " ", ".", ".", ".", ":", ":", ":", ":", "#" };
	double part = (double)curve->held[column] / (double)curve->most * HEIGHT * LEVELS;
	int level = (int)part + (part > (int)part) - line * LEVELS;
	double used = (double)curve->live[column] / (double)curve->most * HEIGHT;

	level = level < 0 ? 0 : level > LEVELS ? LEVELS : level;
	/* The upper part is what is pending, where that fills half a line and more. */
	if (level > LEVELS / 2 && used < line + 0.5 && curve->held[column] > curve->live[column])
		return band[has_utf8];
	return has_utf8 ? block[level] : ascii[level];
}

static void print_line(struct curve *curve, int line, bool has_utf8, FILE *stream)
{
	char label[FORMAT_BYTES] = "";
	int end = curve->width;

	if (line == HEIGHT - 1)
		format_bytes(label, curve->most);
	else if (line == 0)
		strcpy(label, "0");
	fprintf(stream, "%*s%*s %s", INDENT, "", LABEL, label, has_utf8 ? "│" : "|");
	while (end && *draw(curve, end - 1, line, has_utf8) == ' ')
		end--;
	for (int column = 0; column < end; column++) {
		const char *drawn = draw(curve, column, line, has_utf8);

		curve->has_band |= drawn == band[has_utf8];
		fputs(drawn, stream);
	}
	fputc('\n', stream);
}

void output_curve(const struct report *report, const struct report_section *section,
		  const struct terminal *terminal, FILE *stream)
{
	struct curve curve = { .width = terminal->width - INDENT - LABEL - 3 };
	char lasted[FORMAT_BYTES];

	if (curve.width > WIDEST)
		curve.width = WIDEST;
	gather(&curve, report, &section->rows);
	if (curve.most <= 0)
		return;
	fprintf(stream, "%*s%s\n", INDENT, "", section->title);
	for (int line = HEIGHT - 1; line >= 0; line--)
		print_line(&curve, line, terminal->has_utf8, stream);
	format_duration(lasted, rows_minus(report->end_ns, report->start_ns));
	fprintf(stream, "%*s%s0 s%*s\n", INDENT + LABEL + 1, "", terminal->has_utf8 ? "└" : "+",
		curve.width - 3, lasted);
	if (curve.has_band)
		fprintf(stream, "%*s%s pending: freed by the program, not yet released\n",
			INDENT + LABEL + 2, "", band[terminal->has_utf8]);
}
