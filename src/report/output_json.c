/* SPDX-License-Identifier: Apache-2.0 */
/* output_json.c - a report as one object: names for programs, integers, clean UTF-8. */
#include "report/report.h"

#include "report/message.h"
#include "report/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *require(json_t *value)
{
	if (!value)
		message_die(EXIT_COULD_NOT, "out of memory");
	return value;
}

/* Jansson takes the reference, also when it fails. */
static void put(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, require(value)))
		message_die(EXIT_COULD_NOT, "out of memory");
}

static json_t *make_text(const char *text)
{
	char *clean = text_valid(text);
	json_t *value = json_string(clean);

	free(clean);
	return value;
}

static json_t *make_value(const struct rows_value *value, enum rows_type type)
{
	if (!value->is_set)
		return json_null();
	if (type == ROWS_TEXT)
		return make_text(value->text);
	if (type == ROWS_FLAG)
		return json_boolean(value->number != 0);
	return json_integer(value->number);
}

static void put_row(json_t *object, const struct rows *rows, size_t row, size_t first)
{
	const struct rows_value *value = rows_at(rows, row);

	for (size_t i = first; i < rows->columns; i++)
		if (rows->column[i].key)
			put(object, rows->column[i].key,
			    make_value(&value[i], rows->column[i].type));
}

static json_t *make_list(const struct rows *rows)
{
	json_t *list = require(json_array());

	for (size_t row = 0; row < rows->count; row++) {
		json_t *object = require(json_object());

		put_row(object, rows, row, 0);
		if (json_array_append_new(list, object))
			message_die(EXIT_COULD_NOT, "out of memory");
	}
	return list;
}

/* Rows by the name in their first column. */
static json_t *make_map(const struct rows *rows)
{
	json_t *map = require(json_object());

	for (size_t row = 0; row < rows->count; row++) {
		const char *text = rows_at(rows, row)[0].text;
		char *key = text_valid(text ? text : "unknown");
		json_t *object = require(json_object());

		put_row(object, rows, row, 1);
		put(map, key, object);
		free(key);
	}
	return map;
}

/* The object of that name in `parent`, made where it is missing. */
static json_t *find_object(json_t *parent, const char *name)
{
	json_t *object = json_object_get(parent, name);

	if (!object) {
		put(parent, name, json_object());
		object = json_object_get(parent, name);
	}
	return object;
}

/* Goes down a path such as "memory.by_kind" to its last name, which `path` is moved to. */
static json_t *find_parent(json_t *root, const char **path)
{
	const char *dot;

	while ((dot = strchr(*path, '.'))) {
		char *name = strndup(*path, (size_t)(dot - *path));

		if (!name)
			message_die(EXIT_COULD_NOT, "out of memory");
		root = find_object(root, name);
		free(name);
		*path = dot + 1;
	}
	return root;
}

static void put_section(json_t *root, const struct report_section *section)
{
	const char *name = section->path;
	json_t *parent = find_parent(root, &name);

	if (section->shape == REPORT_MAP)
		put(parent, name, make_map(&section->rows));
	else if (section->shape == REPORT_LIST)
		put(parent, name, make_list(&section->rows));
	else if (section->rows.count)
		put_row(find_object(parent, name), &section->rows, 0, 0);
}

bool output_json(const struct report *report, FILE *stream)
{
	json_t *root = require(json_object());
	const struct report_section *section;
	bool is_good;

	for (section = report->first; section; section = section->next)
		if (section->path)
			put_section(root, section);
	is_good = !json_dumpf(root, stream, JSON_INDENT(2)) && fputc('\n', stream) != EOF;
	json_decref(root);
	return is_good;
}
