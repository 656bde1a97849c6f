/* SPDX-License-Identifier: Apache-2.0 */
#include "report/query.h"

#include "report/collect.h"
#include "report/store.h"
#include "report/symbol.h"

#include <stdlib.h>
#include <string.h>

/* Far above what we write, far below what a crafted file could ask for. */
enum { LONGEST_VALUE = 1 << 24 };

_Noreturn static void complain(struct query *query)
{
	store_reader_fail(query->db, query->path);
}

static const char select_complete[] =
	"SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'complete'";

void query_open(struct query *query, const char *trace)
{
	memset(query, 0, sizeof(*query));
	query->path = collect_settle(trace);
	query->most_rows = 10;
	query->db = store_reader_open(query->path);
	sqlite3_db_config(query->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_limit(query->db, SQLITE_LIMIT_LENGTH, LONGEST_VALUE);
	sqlite3_limit(query->db, SQLITE_LIMIT_ATTACHED, 0);
	query->is_complete = query_number(query, select_complete, 0) == 1;
	query->lost = query_number(query, "SELECT sum(count) FROM gap", 0);
}

void query_close(struct query *query)
{
	symbol_close(query->symbols);
	sqlite3_close(query->db);
	free(query->path);
	memset(query, 0, sizeof(*query));
}

sqlite3_stmt *query_prepare(struct query *query, const char *sql)
{
	sqlite3_stmt *statement;

	if (sqlite3_prepare_v2(query->db, sql, -1, &statement, NULL) != SQLITE_OK)
		complain(query);
	return statement;
}

bool query_step(struct query *query, sqlite3_stmt *statement)
{
	switch (sqlite3_step(statement)) {
	case SQLITE_ROW:
		return true;
	case SQLITE_DONE:
		return false;
	default:
		complain(query);
	}
}

void query_run(struct query *query, const char *sql)
{
	if (sqlite3_exec(query->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		complain(query);
}

int64_t query_number(struct query *query, const char *sql, int64_t otherwise)
{
	sqlite3_stmt *statement = query_prepare(query, sql);
	int64_t number = otherwise;

	if (query_step(query, statement) && sqlite3_column_type(statement, 0) != SQLITE_NULL)
		number = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return number;
}

char *query_text(struct query *query, const char *sql)
{
	sqlite3_stmt *statement = query_prepare(query, sql);
	char *text = NULL;

	if (query_step(query, statement) && sqlite3_column_text(statement, 0))
		text = strdup((const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
	return text;
}

void query_set(struct rows_value *value, enum rows_type type, sqlite3_stmt *statement, int column)
{
	if (sqlite3_column_type(statement, column) == SQLITE_NULL)
		return;
	if (type == ROWS_TEXT)
		rows_text(value, (const char *)sqlite3_column_text(statement, column));
	else
		rows_number(value, sqlite3_column_int64(statement, column));
}

void query_fill(struct query *query, struct rows *rows, const char *sql)
{
	sqlite3_stmt *statement = query_prepare(query, sql);
	int columns = sqlite3_column_count(statement);

	while (query_step(query, statement)) {
		struct rows_value *value = rows_add(rows);

		for (int i = 0; i < columns && i < (int)rows->columns; i++)
			query_set(&value[i], rows->column[i].type, statement, i);
	}
	sqlite3_finalize(statement);
}
