/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - a report before it has a format: sections of rows, in the order
 * people read them.  Programs find a section by its path ("memory.by_kind").
 */
#ifndef CUSTODY_REPORT_REPORT_H
#define CUSTODY_REPORT_REPORT_H

#include "report/rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What --memory and its like choose; the head and what went wrong are always there. */
enum report_part {
	REPORT_ALWAYS = 0,
	REPORT_MEMORY = 1 << 0,
	REPORT_PEAK = 1 << 1,
	REPORT_LEAKS = 1 << 2,
	REPORT_TRANSFERS = 1 << 3,
	REPORT_EVERYTHING = REPORT_MEMORY | REPORT_PEAK | REPORT_LEAKS | REPORT_TRANSFERS,
};

enum report_shape {
	REPORT_FIELDS, /* one row; its keys belong to the object at `path` */
	REPORT_LIST,   /* an array of objects */
	REPORT_MAP,    /* an object of objects; the first column is the key */
	REPORT_CURVE,  /* a list for programs; people see the columns at, bytes and pending drawn */
};

enum report_tone { REPORT_REMARK, REPORT_HINT, REPORT_WARNING };

struct report_note {
	enum report_tone tone;
	char *text;
	struct report_note *next;
};

struct report_section {
	const char *path;    /* NULL: for people only */
	const char *heading; /* of the chapter that begins here; NULL: goes on */
	const char *title;   /* over the table; "": none; NULL: for programs only */
	const char *nothing; /* what people read when there are no rows; NULL: leave it out */
	enum report_shape shape;
	struct rows rows;
	struct report_note *notes; /* under the table, for people */
	struct report_section *next;
};

struct report {
	struct report_section *first;
	struct report_section **end;
	unsigned parts;
	int64_t start_ns, end_ns; /* what moments are counted from, and the length of a curve */
};

void report_init(struct report *report, unsigned parts);
void report_free(struct report *report);

/* Is this part wanted? */
bool report_wants(const struct report *report, unsigned parts);

/* Appends an empty section; `column` as for rows_init(). */
struct report_section *report_add(struct report *report, const char *path, const char *title,
				  enum report_shape shape, const struct rows_column *column);

void report_note(struct report_section *section, enum report_tone tone, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The renderers: output_text.c, output_json.c.  False: the stream failed. */
bool output_text(const struct report *report, FILE *stream);
bool output_json(const struct report *report, FILE *stream);

#endif
