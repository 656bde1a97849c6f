/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - a table of typed values with a description of its columns.  A query
 * fills it once; every renderer prints it, each in its own way, so that no
 * format has a query or a loop of its own.
 */
#ifndef CUSTODY_REPORT_ROWS_H
#define CUSTODY_REPORT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rows_type {
	ROWS_TEXT,
	ROWS_COUNT,    /* how many */
	ROWS_ID,       /* a number that is a name: pid, ordinal */
	ROWS_BYTES,
	ROWS_DURATION, /* nanoseconds */
	ROWS_MOMENT,   /* nanoseconds; people read them since the start of the run */
	ROWS_RATE,     /* bytes per second */
	ROWS_SHARE,    /* parts of 10,000 */
	ROWS_BAR,      /* parts of 10,000, drawn */
	ROWS_ADDRESS,
	ROWS_FLAG,
};

struct rows_column {
	const char *key;   /* name for programs; NULL: for people only */
	const char *title; /* name for people; NULL: for programs only */
	enum rows_type type;
};

struct rows_value {
	int64_t number;
	char *text; /* owned; of ROWS_TEXT */
	bool is_set;
};

struct rows {
	const struct rows_column *column; /* lives longer than the rows */
	size_t columns;
	struct rows_value *value; /* count * columns, row after row */
	size_t count;
	size_t room;
	size_t left_out; /* rows that rows_cut() took away */
};

/* `column` ends with one that has neither key nor title. */
void rows_init(struct rows *rows, const struct rows_column *column);

/* One more row, all values unset; the pointer is good until the next call. */
struct rows_value *rows_add(struct rows *rows);

struct rows_value *rows_at(const struct rows *rows, size_t row);
void rows_number(struct rows_value *value, int64_t number);

/* Copies; NULL leaves the value unset. */
void rows_text(struct rows_value *value, const char *text);
void rows_format(struct rows_value *value, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Keep the first `most` rows and remember how many went. */
void rows_cut(struct rows *rows, size_t most);
void rows_free(struct rows *rows);

/* part / whole in parts of 10,000; 0 when there is no whole. */
int64_t rows_share(int64_t part, int64_t whole);

/* Sums that stop at the end of the range: a crafted trace holds any number. */
int64_t rows_plus(int64_t a, int64_t b);
int64_t rows_minus(int64_t a, int64_t b);

/* Bytes per second; 0 when there is no time. */
int64_t rows_rate(int64_t bytes, int64_t ns);

#endif
