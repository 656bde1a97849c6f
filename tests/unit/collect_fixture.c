/* SPDX-License-Identifier: Apache-2.0 */
#include "collect_fixture.h"

#include "core/api_names.h"
#include "report/collect.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char fixture_session[PATH_MAX];
char fixture_trace[64];
struct session_writer fixture_writer;
sqlite3 *fixture_db;

void fixture_make_session(void)
{
	snprintf(fixture_trace, sizeof(fixture_trace), "/tmp/custody-unit-%d.db", (int)getpid());
	unlink(fixture_trace);
	session_writer_session(fixture_session, fixture_trace);
	session_writer_open(&fixture_writer, fixture_session, FIXTURE_GONE, 0);
	fixture_writer.control->apis = API_NAMES;
}

void fixture_remove_session(void)
{
	char command[PATH_MAX + 128];

	if (fixture_db)
		sqlite3_close(fixture_db);
	snprintf(command, sizeof(command), "rm -rf %s %s*", fixture_session, fixture_trace);
	ck_assert_int_eq(system(command), 0);
}

void fixture_collect(void)
{
	char *path = collect_settle(fixture_session);

	ck_assert_str_eq(path, fixture_trace);
	free(path);
	fixture_db = store_reader_open(fixture_trace);
}

int64_t fixture_ask(const char *sql)
{
	sqlite3_stmt *query;
	int64_t number = INT64_MIN;

	ck_assert_msg(!sqlite3_prepare_v2(fixture_db, sql, -1, &query, NULL), "%s",
		      sqlite3_errmsg(fixture_db));
	if (sqlite3_step(query) == SQLITE_ROW && sqlite3_column_type(query, 0) != SQLITE_NULL)
		number = sqlite3_column_int64(query, 0);
	sqlite3_finalize(query);
	return number;
}

const char *fixture_ask_text(const char *sql)
{
	static char text[256];
	sqlite3_stmt *query;

	text[0] = '\0';
	ck_assert_msg(!sqlite3_prepare_v2(fixture_db, sql, -1, &query, NULL), "%s",
		      sqlite3_errmsg(fixture_db));
	if (sqlite3_step(query) == SQLITE_ROW && sqlite3_column_text(query, 0))
		snprintf(text, sizeof(text), "%s", sqlite3_column_text(query, 0));
	sqlite3_finalize(query);
	return text;
}

void fixture_put(uint32_t thread, struct record record)
{
	session_writer_put(&fixture_writer, thread, record);
}

uint16_t fixture_api_of(const char *symbol)
{
	for (uint16_t i = 0; i < API_NAMES; i++)
		if (!strcmp(api_names[i].symbol, symbol))
			return i;
	ck_abort_msg("%s is in no table", symbol);
}
