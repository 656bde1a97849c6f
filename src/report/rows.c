/* SPDX-License-Identifier: Apache-2.0 */
#include "report/rows.h"

#include "report/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rows_init(struct rows *rows, const struct rows_column *column)
{
	memset(rows, 0, sizeof(*rows));
	rows->column = column;
	while (column[rows->columns].key || column[rows->columns].title)
		rows->columns++;
}

static void grow(struct rows *rows)
{
	size_t room = rows->room ? 2 * rows->room : 16;
	struct rows_value *value =
		reallocarray(rows->value, room * rows->columns, sizeof(*rows->value));

	if (!value)
		message_die(EXIT_COULD_NOT, "out of memory");
	rows->value = value;
	rows->room = room;
}

struct rows_value *rows_add(struct rows *rows)
{
	struct rows_value *value;

	if (rows->count == rows->room)
		grow(rows);
	value = rows_at(rows, rows->count++);
	memset(value, 0, rows->columns * sizeof(*value));
	return value;
}

struct rows_value *rows_at(const struct rows *rows, size_t row)
{
	return rows->value + row * rows->columns;
}

void rows_number(struct rows_value *value, int64_t number)
{
	value->number = number;
	value->is_set = true;
}

void rows_text(struct rows_value *value, const char *text)
{
	if (!text)
		return;
	free(value->text);
	value->text = strdup(text);
	if (!value->text)
		message_die(EXIT_COULD_NOT, "out of memory");
	value->is_set = true;
}

void rows_format(struct rows_value *value, const char *format, ...)
{
	va_list arguments;

	free(value->text);
	va_start(arguments, format);
	if (vasprintf(&value->text, format, arguments) < 0)
		message_die(EXIT_COULD_NOT, "out of memory");
	va_end(arguments);
	value->is_set = true;
}

static void free_row(struct rows *rows, size_t row)
{
	for (size_t i = 0; i < rows->columns; i++)
		free(rows_at(rows, row)[i].text);
}

void rows_cut(struct rows *rows, size_t most)
{
	while (rows->count > most) {
		free_row(rows, --rows->count);
		rows->left_out++;
	}
}

void rows_free(struct rows *rows)
{
	rows_cut(rows, 0);
	free(rows->value);
	memset(rows, 0, sizeof(*rows));
}

int64_t rows_share(int64_t part, int64_t whole)
{
	double share;

	if (whole <= 0 || part <= 0)
		return 0;
	share = (double)part * 10000 / (double)whole;
	/* Little is not nothing. */
	return share < 1 ? 1 : share < 1e9 ? (int64_t)(share + 0.5) : 1000000000;
}

int64_t rows_plus(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

int64_t rows_minus(int64_t a, int64_t b)
{
	int64_t difference;

	if (__builtin_sub_overflow(a, b, &difference))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return difference;
}

int64_t rows_rate(int64_t bytes, int64_t ns)
{
	double rate;

	if (bytes <= 0 || ns <= 0)
		return 0;
	rate = (double)bytes * 1e9 / (double)ns;
	return rate < 9e18 ? (int64_t)rate : INT64_MAX;
}
