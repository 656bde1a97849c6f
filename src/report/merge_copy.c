/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of one source behind those of the sources before it.  What a column
 * means is read off the schema - its key, its REFERENCES, its name - so that a
 * table that is new there comes along without a word here.
 */
#include "report/merge.h"

#include "report/ingest_table.h"
#include "report/message.h"

#include <stdlib.h>
#include <string.h>

/* A table and the highest id in it before the source came: what is added to the source's. */
struct table {
	char *name;
	int64_t offset;
	bool has_id;
};

struct copy {
	struct merge *merge;
	const struct merge_source *source;
	struct table *table;
	int tables;
	bool has_same_apis; /* functions have the same ids on both sides */
};

bool merge_copy_is_derived(const char *table)
{
	static const char *const derived[] = {
		"meta", "ingest", "sample", "peak", "peak_block", "allocation_total", "free_total",
		"pending_total", "transfer_total", "gpu_total", "oom", "oom_holder",
	};

	for (size_t i = 0; i < sizeof(derived) / sizeof(*derived); i++)
		if (!strcmp(table, derived[i]))
			return true;
	return false;
}

bool merge_copy_is_moment(const char *column)
{
	static const char *const words[] = {
		"at", "from", "to", "start", "end", "created", "destroyed", "seen", "alloc",
		"requested", "ready", "released", "ended",
	};
	size_t length = strlen(column);
	size_t begin;

	if (length < 4 || strcmp(column + length - 3, "_ns"))
		return false;
	length -= 3;
	for (begin = length; begin && column[begin - 1] != '_'; begin--)
		;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strlen(words[i]) == length - begin &&
		    !memcmp(words[i], column + begin, length - begin))
			return true;
	return false;
}

static sqlite3_stmt *ask(struct copy *copy, const char *sql, const char *first, const char *second)
{
	sqlite3_stmt *query = NULL;

	if (sqlite3_prepare_v2(copy->merge->store->db, sql, -1, &query, NULL) != SQLITE_OK)
		merge_source_fail(copy->merge, copy->source);
	if (first)
		sqlite3_bind_text(query, 1, first, -1, SQLITE_STATIC);
	if (second)
		sqlite3_bind_text(query, 2, second, -1, SQLITE_STATIC);
	return query;
}

static bool next(struct copy *copy, sqlite3_stmt *query)
{
	int status = sqlite3_step(query);

	if (status != SQLITE_ROW && status != SQLITE_DONE)
		merge_source_fail(copy->merge, copy->source);
	return status == SQLITE_ROW;
}

static int64_t ask_number(struct copy *copy, const char *sql, const char *first)
{
	sqlite3_stmt *query = ask(copy, sql, first, NULL);
	int64_t number = next(copy, query) ? sqlite3_column_int64(query, 0) : 0;

	sqlite3_finalize(query);
	return number;
}

static const char select_tables[] =
	"SELECT name, (SELECT count(*) = 1 AND max(name = 'id' AND type = 'INTEGER')"
	"  FROM pragma_table_info(t.name, 'main') WHERE pk)"
	" FROM main.sqlite_schema t WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'";

static void find_tables(struct copy *copy)
{
	sqlite3_stmt *query = ask(copy, select_tables, NULL, NULL);
	char sql[256];

	while (next(copy, query)) {
		struct table *table;

		copy->table = ingest_table_memory(copy->table, (size_t)copy->tables + 1,
						  sizeof(*copy->table));
		table = &copy->table[copy->tables++];
		*table = (struct table){ .has_id = sqlite3_column_int(query, 1) };
		table->name = strdup((const char *)sqlite3_column_text(query, 0));
		if (!table->name)
			message_die(EXIT_COULD_NOT, "out of memory");
		if (!table->has_id)
			continue;
		sqlite3_snprintf(sizeof(sql), sql, "SELECT max(id) FROM main.\"%w\"", table->name);
		table->offset = ask_number(copy, sql, NULL);
	}
	sqlite3_finalize(query);
}

static void forget_tables(struct copy *copy)
{
	for (int i = 0; i < copy->tables; i++)
		free(copy->table[i].name);
	free(copy->table);
}

/* Functions are the same by their names; a version that knows more of them numbers otherwise. */
static void match_apis(struct copy *copy)
{
	merge_run(copy->merge, copy->source,
		  "CREATE TEMP TABLE IF NOT EXISTS api_map(old INTEGER PRIMARY KEY, new);"
		  "DELETE FROM temp.api_map;"
		  "INSERT INTO main.api(id, name) SELECT id, name FROM input.api i"
		  " WHERE NOT EXISTS (SELECT 1 FROM main.api WHERE name = i.name)"
		  " AND NOT EXISTS (SELECT 1 FROM main.api WHERE id = i.id);"
		  "INSERT INTO main.api(name) SELECT name FROM input.api i"
		  " WHERE NOT EXISTS (SELECT 1 FROM main.api WHERE name = i.name) ORDER BY id;"
		  "INSERT INTO temp.api_map SELECT i.id, m.id"
		  " FROM input.api i JOIN main.api m ON m.name = i.name");
	copy->has_same_apis =
		!ask_number(copy, "SELECT count(*) FROM temp.api_map WHERE old <> new", NULL);
}

/* "device_id" and "source_device_id" name rows of the table device. */
static bool names(const char *column, const char *table)
{
	size_t length = strlen(column), name = strlen(table);
	const char *at;

	if (length < name + 3 || strcmp(column + length - 3, "_id"))
		return false;
	at = column + length - 3 - name;
	return !memcmp(at, table, name) && (at == column || at[-1] == '_');
}

/* The table that a column refers to: the schema says so, or its name does; NULL: none. */
static const struct table *find_target(struct copy *copy, const char *table, const char *column)
{
	sqlite3_stmt *query = ask(copy, "SELECT \"table\" FROM pragma_foreign_key_list(?1, 'main')"
				  " WHERE \"from\" = ?2", table, column);
	const char *told = next(copy, query) ? (const char *)sqlite3_column_text(query, 0) : NULL;
	const struct table *found = NULL;

	for (int i = 0; i < copy->tables; i++) {
		const struct table *one = &copy->table[i];

		if (!one->has_id || (told ? strcmp(one->name, told) : !names(column, one->name)))
			continue;
		if (!found || strlen(one->name) > strlen(found->name))
			found = one;
	}
	sqlite3_finalize(query);
	return found;
}

/* What stands in this column of the whole, as an expression over the source's row. */
static void append_value(struct copy *copy, sqlite3_str *values, const struct table *table,
			 const char *column)
{
	const struct table *target = find_target(copy, table->name, column);

	if (table->has_id && !strcmp(column, "id"))
		target = table;
	if (target && !strcmp(target->name, "api") && !copy->has_same_apis)
		sqlite3_str_appendf(values, "(SELECT new FROM temp.api_map WHERE old = \"%w\")",
				    column);
	else if (target && strcmp(target->name, "api") && target->offset)
		sqlite3_str_appendf(values, "\"%w\" + %lld", column,
				    (sqlite3_int64)target->offset);
	else if (merge_copy_is_moment(column) && copy->source->moved_ns)
		sqlite3_str_appendf(values, "\"%w\" + %lld", column,
				    (sqlite3_int64)copy->source->moved_ns);
	else
		sqlite3_str_appendf(values, "\"%w\"", column);
}

/* Columns that only one side has: the older version has left them empty, or knows none. */
static const char select_columns[] =
	"SELECT m.name FROM pragma_table_info(?1, 'main') m"
	" JOIN pragma_table_info(?1, 'input') i ON i.name = m.name ORDER BY m.cid";

static void copy_table(struct copy *copy, const struct table *table)
{
	sqlite3_stmt *query = ask(copy, select_columns, table->name, NULL);
	sqlite3_str *columns = sqlite3_str_new(NULL), *values = sqlite3_str_new(NULL);
	int count = 0;

	for (; next(copy, query); count++) {
		const char *column = (const char *)sqlite3_column_text(query, 0);

		sqlite3_str_appendf(columns, "%s\"%w\"", count ? ", " : "", column);
		sqlite3_str_appendall(values, count ? ", " : "");
		append_value(copy, values, table, column);
	}
	sqlite3_finalize(query);
	if (sqlite3_str_errcode(columns) || sqlite3_str_errcode(values))
		message_die(EXIT_COULD_NOT, "out of memory");
	if (count)
		merge_run(copy->merge, copy->source,
			  "INSERT INTO main.\"%w\"(%s) SELECT %s FROM input.\"%w\"", table->name,
			  sqlite3_str_value(columns), sqlite3_str_value(values), table->name);
	sqlite3_free(sqlite3_str_finish(columns));
	sqlite3_free(sqlite3_str_finish(values));
}

/* A view or a virtual table of that name would run code of the file's author. */
static bool is_plain_table(struct copy *copy, const char *name)
{
	return ask_number(copy, "SELECT count(*) FROM input.sqlite_schema"
				" WHERE type = 'table' AND rootpage > 0 AND name = ?1", name);
}

static void warn_of_unknown(struct copy *copy)
{
	sqlite3_stmt *query =
		ask(copy, "SELECT i.name FROM input.sqlite_schema i WHERE i.type = 'table'"
			  " AND i.name NOT LIKE 'sqlite~_%' ESCAPE '~' AND NOT EXISTS (SELECT 1"
			  " FROM main.sqlite_schema m WHERE m.type = 'table' AND m.name = i.name)",
		    NULL, NULL);

	while (next(copy, query))
		message_warn("%s: the table %s is not known to this version and is left out",
			     copy->source->name, (const char *)sqlite3_column_text(query, 0));
	sqlite3_finalize(query);
}

void merge_copy_rows(struct merge *merge, const struct merge_source *source)
{
	struct copy copy = { .merge = merge, .source = source };

	find_tables(&copy);
	warn_of_unknown(&copy);
	if (is_plain_table(&copy, "api"))
		match_apis(&copy);
	for (int i = 0; i < copy.tables; i++)
		if (!merge_copy_is_derived(copy.table[i].name) &&
		    strcmp(copy.table[i].name, "api") && is_plain_table(&copy, copy.table[i].name))
			copy_table(&copy, &copy.table[i]);
	forget_tables(&copy);
}

/* Only for reading: a log beside it is not folded in by us. */
void merge_copy_attach(struct merge *merge, const struct merge_source *source)
{
	sqlite3_str *uri = sqlite3_str_new(NULL);
	const char *at = source->path;
	char *text;

	sqlite3_str_appendall(uri, *at == '/' ? "file://" : "file:");
	for (; *at; at++)
		if (strchr("%?#", *at))
			sqlite3_str_appendf(uri, "%%%02x", (unsigned char)*at);
		else
			sqlite3_str_appendchar(uri, 1, *at);
	sqlite3_str_appendall(uri, "?mode=ro");
	text = sqlite3_str_finish(uri);
	if (!text)
		message_die(EXIT_COULD_NOT, "out of memory");
	merge_run(merge, source, "ATTACH %Q AS input", text);
	sqlite3_free(text);
}

void merge_copy_detach(struct merge *merge, const struct merge_source *source)
{
	merge_run(merge, source, "DETACH input");
}
