/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - the trace as an SQLite file: made, continued, completed, opened.
 * Whatever goes wrong with it ends the program with one sentence and exit 1;
 * what was recorded and is not in the file yet stays in the session.
 */
#ifndef CUSTODY_REPORT_STORE_H
#define CUSTODY_REPORT_STORE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	STORE_APPLICATION_ID = 0x43757374, /* "Cust" */
	STORE_VERSION = 1,
};

/* Generated from schema.sql and schema_end.sql. */
extern const char store_schema[];
extern const char store_schema_end[];

/* The view physical_device for a file of before there were merged ones: it is of one machine. */
extern const char store_physical_device[];

struct store {
	sqlite3 *db;
	char *path;
	char *kept; /* where records stay if this file cannot be written; may be NULL */
	sqlite3_stmt **statements[64]; /* to be finalized; see store_prepare() */
	int statement_count;
	bool is_open; /* a transaction is */
};

/*
 * Make the trace in a file that is empty or does not exist, or go on with the one
 * in it: `*is_new` tells which.  `kept`, the session, stands in meta until the
 * trace is complete.
 */
struct store *store_open(const char *path, const char *kept, bool *is_new);

void store_begin(struct store *store);
void store_commit(struct store *store);

/* Make indexes and views, drop what only the collector needs, leave one plain file. */
void store_complete(struct store *store);

void store_close(struct store *store);

/* The statement of `sql`, prepared once and kept in `*statement` until store_close(). */
sqlite3_stmt *store_prepare(struct store *store, sqlite3_stmt **statement, const char *sql);

/* Finalize a statement before that. */
void store_forget(struct store *store, sqlite3_stmt **statement);

/* Run to the end and reset.  `what` is for the sentence. */
void store_step(struct store *store, sqlite3_stmt *statement);

/* The next row of a query: true, or false and reset at its end. */
bool store_next(struct store *store, sqlite3_stmt *statement);

/* A number, or NULL: where it names no row, or is not known. */
static inline void store_bind_if(sqlite3_stmt *statement, int at, bool is_known, uint64_t number)
{
	if (is_known)
		sqlite3_bind_int64(statement, at, (int64_t)number);
	else
		sqlite3_bind_null(statement, at);
}

static inline void store_bind_id(sqlite3_stmt *statement, int at, uint64_t id)
{
	store_bind_if(statement, at, id, id);
}

void store_run(struct store *store, const char *sql);
int64_t store_number(struct store *store, const char *sql);

void store_set_text(struct store *store, const char *key, const char *value);
void store_set_number(struct store *store, const char *key, int64_t value);

/* The value of a meta key, to be freed; NULL where there is none. */
char *store_text(struct store *store, const char *key);

_Noreturn void store_fail(struct store *store);

/*
 * For readers: a complete or unfinished trace, read-only.  Anything else - no
 * file, another kind of file, a damaged one, one of a newer version - ends the
 * program with one sentence and exit 1.
 */
sqlite3 *store_reader_open(const char *path);

/* Whether the file is a complete trace; false for anything else, without a word. */
bool store_reader_is_complete(const char *path);

/* The session that still belongs to the trace, to be freed; NULL: none, or no trace. */
char *store_reader_session(const char *path);

/* A query on it has failed: the same way out. */
_Noreturn void store_reader_fail(sqlite3 *db, const char *path);

#endif
