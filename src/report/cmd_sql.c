/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_sql.c - custody sql: read-only SQL on a trace.  Not only is the file
 * opened for reading: an authorizer refuses whatever is no query, so that a
 * statement gets a clear answer before it does anything.
 */
#include "report/command.h"

#include "report/output_sql.h"
#include "report/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *format = "text";

static const struct options_row options[] = {
	{ "format", 0, OPTIONS_TEXT, "text|json|csv", "a table (default), or for programs", &format,
	  0 },
	{ NULL, 0, OPTIONS_FLAG, NULL, NULL, NULL, 0 },
};

/* Pragmas that tell of the schema and change nothing. */
static int authorize_pragma(const char *name)
{
	static const char *const harmless[] = {
		"table_info", "table_xinfo", "table_list", "index_list", "index_info",
		"index_xinfo", "foreign_key_list", "user_version", "application_id", "page_count",
		"page_size", "integrity_check", "quick_check", "database_list", "compile_options",
	};

	for (size_t i = 0; name && i < sizeof(harmless) / sizeof(*harmless); i++)
		if (!strcasecmp(name, harmless[i]))
			return SQLITE_OK;
	return SQLITE_DENY;
}

static int authorize(void *unused, int action, const char *first, const char *second,
		     const char *database, const char *trigger)
{
	(void)unused, (void)database, (void)trigger;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		return second && !strcasecmp(second, "load_extension") ? SQLITE_DENY : SQLITE_OK;
	case SQLITE_UPDATE:
		/* Asked for when SQLite declares table_info as a table; nothing is written. */
		return first && !strcmp(first, "sqlite_master") ? SQLITE_OK : SQLITE_DENY;
	case SQLITE_PRAGMA:
		/* A value could only set something; table_info(name) has one too, and is fine. */
		return authorize_pragma(first);
	default:
		return SQLITE_DENY;
	}
}

/* Where in the statement the mistake is; -1: SQLite does not tell, or is too old to. */
static int find_mistake(sqlite3 *db)
{
#if SQLITE_VERSION_NUMBER >= 3038000
	return sqlite3_error_offset(db);
#else
	(void)db;
	return -1;
#endif
}

_Noreturn static void complain(struct query *query, const char *all, const char *at)
{
	int offset = find_mistake(query->db);
	const char *where = offset < 0 ? at : at + offset;
	int line = 1, column = 1;

	if (sqlite3_errcode(query->db) == SQLITE_AUTH)
		message_die(EXIT_COULD_NOT, "sql: not authorized: a trace can only be read");
	for (const char *c = all; c < where; c++) {
		column = *c == '\n' ? 1 : column + 1;
		line += *c == '\n';
	}
	message_die(EXIT_COULD_NOT, "sql: line %d, column %d: %s", line, column,
		    sqlite3_errmsg(query->db));
}

/* Every statement of the text, one after the other. */
static void run_statements(struct query *query, const char *all)
{
	const char *at = all, *next;
	sqlite3_stmt *statement;

	for (; *at; at = next) {
		while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r' || *at == ';')
			at++;
		if (!*at)
			break;
		if (sqlite3_prepare_v2(query->db, at, -1, &statement, &next) != SQLITE_OK)
			complain(query, all, at);
		/* A comment is no statement. */
		if (statement && output_sql(statement, format) != SQLITE_DONE)
			complain(query, all, at);
		sqlite3_finalize(statement);
	}
	if (fflush(stdout) || ferror(stdout))
		message_die(EXIT_COULD_NOT, "cannot write to standard output");
}

static char *read_input(void)
{
	char *text = NULL;
	size_t room = 0;

	if (getdelim(&text, &room, '\0', stdin) < 0) {
		free(text);
		return strdup("");
	}
	return text;
}

static const char select_tables[] =
	"SELECT m.type, m.name, group_concat(i.name, ' ') AS columns"
	" FROM sqlite_master m, pragma_table_info(m.name) i WHERE m.type IN ('table', 'view')"
	" GROUP BY m.type, m.name ORDER BY m.type, m.name";

static const char select_schema[] =
	"SELECT sql || ';' AS schema FROM sqlite_master WHERE sql IS NOT NULL";

/* The two words that people know from the sqlite3 shell, as queries. */
static const char *translate(const char *text)
{
	if (!strcmp(text, ".tables"))
		return select_tables;
	if (strcmp(text, ".schema"))
		return text;
	if (!strcmp(format, "text"))
		format = "raw";
	return select_schema;
}

static int run(int argc, char **argv)
{
	struct query query;
	char *input = NULL;

	if (argc < 1 || argc > 2)
		message_die(EXIT_USAGE, "sql: TRACE and at most one QUERY are wanted; "
					"'custody sql --help' tells more");
	query_open(&query, argv[0]);
	sqlite3_set_authorizer(query.db, authorize, NULL);
	if (argc < 2 && !isatty(STDIN_FILENO))
		input = read_input();
	run_statements(&query, input ? input : argc < 2 ? select_tables : translate(argv[1]));
	free(input);
	query_close(&query);
	return EXIT_GOOD;
}

const struct command cmd_sql = {
	.name = "sql",
	.summary = "Ask a trace in SQL (.tables and .schema tell what is there)",
	.operands = "TRACE [QUERY]",
	.options = options,
	.run = run,
};
