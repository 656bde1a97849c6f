/* SPDX-License-Identifier: Apache-2.0 */
#include "report/output_sql.h"

#include "report/message.h"
#include "report/text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LOOK_AHEAD = 500, /* rows the widths of a table are taken from; later cells may stick out */
	LINE_MOST = 80,	  /* under a title */
};

struct table {
	int columns;
	size_t *width;
	bool *stands_right;
	char **cell; /* of the rows that are held back */
	int rows;
	int printed;
};

static void *require(void *memory)
{
	if (!memory)
		message_die(EXIT_COULD_NOT, "out of memory");
	return memory;
}

/* What a column holds, made fit to be shown; a blob as its length. */
static char *read_cell(sqlite3_stmt *statement, int column, char *(*fit)(const char *))
{
	char *text;

	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_NULL:
		return require(strdup(""));
	case SQLITE_BLOB:
		if (asprintf(&text, "(%d bytes)", sqlite3_column_bytes(statement, column)) < 0)
			text = NULL;
		return require(text);
	default:
		return fit(require((void *)sqlite3_column_text(statement, column)));
	}
}

static void print_line(const struct table *table, char *const *cell)
{
	int last = table->columns - 1;

	for (int i = 0; i <= last; i++) {
		size_t width = text_width(cell[i]);
		int pad = width < table->width[i] ? (int)(table->width[i] - width) : 0;

		if (table->stands_right[i])
			printf("%*s%s%s", pad, "", cell[i], i == last ? "\n" : "  ");
		else
			printf("%s%*s%s", cell[i], i == last ? 0 : pad, "",
			       i == last ? "\n" : "  ");
	}
}

static void print_titles(const struct table *table, sqlite3_stmt *statement)
{
	char **title = require(calloc((size_t)table->columns, sizeof(*title)));

	for (int i = 0; i < table->columns; i++)
		title[i] = text_clean(sqlite3_column_name(statement, i));
	print_line(table, title);
	for (int i = 0; i < table->columns; i++)
		free(title[i]);
	free(title);
	for (int i = 0; i < table->columns; i++) {
		size_t width = table->width[i], dash = 0;

		for (; dash < width && dash < LINE_MOST; dash++)
			putchar('-');
		printf("%*s", i + 1 == table->columns ? 0 : (int)(width - dash), "");
		fputs(i + 1 == table->columns ? "\n" : "  ", stdout);
	}
}

/* Print what was held back, with the titles over it the first time. */
static void flush_rows(struct table *table, sqlite3_stmt *statement)
{
	if (!table->printed)
		print_titles(table, statement);
	for (int row = 0; row < table->rows; row++) {
		print_line(table, table->cell + (size_t)row * (size_t)table->columns);
		for (int i = 0; i < table->columns; i++)
			free(table->cell[row * table->columns + i]);
	}
	table->printed += table->rows;
	table->rows = 0;
}

static void hold_row(struct table *table, sqlite3_stmt *statement)
{
	char **cell = table->cell + (size_t)table->rows * (size_t)table->columns;

	for (int i = 0; i < table->columns; i++) {
		int type = sqlite3_column_type(statement, i);

		cell[i] = read_cell(statement, i, text_clean);
		if (table->printed)
			continue;
		if (text_width(cell[i]) > table->width[i])
			table->width[i] = text_width(cell[i]);
		if (type == SQLITE_TEXT || type == SQLITE_BLOB)
			table->stands_right[i] = false;
	}
	table->rows++;
	if (table->printed || table->rows == LOOK_AHEAD)
		flush_rows(table, statement);
}

static int print_text(sqlite3_stmt *statement)
{
	struct table table = { .columns = sqlite3_column_count(statement) };
	size_t columns = (size_t)table.columns;
	int status;

	table.width = require(calloc(columns, sizeof(*table.width)));
	table.stands_right = require(calloc(columns, sizeof(*table.stands_right)));
	table.cell = require(calloc(columns * LOOK_AHEAD, sizeof(*table.cell)));
	for (int i = 0; i < table.columns; i++) {
		char *name = text_clean(sqlite3_column_name(statement, i));

		table.width[i] = text_width(name);
		table.stands_right[i] = true;
		free(name);
	}
	while ((status = sqlite3_step(statement)) == SQLITE_ROW)
		hold_row(&table, statement);
	flush_rows(&table, statement);
	free(table.cell);
	free(table.stands_right);
	free(table.width);
	return status;
}

/* Quoted where the rules of CSV ask for it; bytes go out as they are. */
static void print_csv_cell(const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	putchar('"');
}

static char *leave(const char *text)
{
	return require(strdup(text));
}

static int print_csv(sqlite3_stmt *statement)
{
	int columns = sqlite3_column_count(statement);
	int status;

	for (int i = 0; i < columns; i++) {
		print_csv_cell(sqlite3_column_name(statement, i));
		putchar(i + 1 == columns ? '\n' : ',');
	}
	while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
		for (int i = 0; i < columns; i++) {
			char *text = read_cell(statement, i, leave);

			print_csv_cell(text);
			free(text);
			putchar(i + 1 == columns ? '\n' : ',');
		}
	}
	return status;
}

static json_t *make_value(sqlite3_stmt *statement, int column)
{
	json_t *value;
	char *text;

	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_NULL:
		return json_null();
	case SQLITE_INTEGER:
		return json_integer(sqlite3_column_int64(statement, column));
	case SQLITE_FLOAT:
		/* Infinity has no form in JSON. */
		value = json_real(sqlite3_column_double(statement, column));
		return value ? value : json_null();
	default:
		text = read_cell(statement, column, text_valid);
		value = require(json_string(text));
		free(text);
		return value;
	}
}

static int print_json(sqlite3_stmt *statement)
{
	int status;

	while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
		json_t *row = require(json_object());

		for (int i = 0; i < sqlite3_column_count(statement); i++) {
			char *name = text_valid(sqlite3_column_name(statement, i));

			json_object_set_new(row, name, make_value(statement, i));
			free(name);
		}
		json_dumpf(row, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(row);
	}
	return status;
}

/* Text that is laid out already, as the statements of a schema. */
static int print_raw(sqlite3_stmt *statement)
{
	int status;

	while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
		char *text = read_cell(statement, 0, text_clean_lines);

		puts(text);
		free(text);
	}
	return status;
}

int output_sql(sqlite3_stmt *statement, const char *format)
{
	if (!sqlite3_column_count(statement))
		return sqlite3_step(statement);
	if (!strcmp(format, "json"))
		return print_json(statement);
	if (!strcmp(format, "csv"))
		return print_csv(statement);
	if (!strcmp(format, "raw"))
		return print_raw(statement);
	return print_text(statement);
}
