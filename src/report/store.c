/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "report/store.h"

#include "report/ingest_table.h"
#include "report/message.h"
#include "report/total_free.h"
#include "report/total_oom.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEAVE_LOG_TRIES = 100 };

_Noreturn void store_fail(struct store *store)
{
	int code = sqlite3_extended_errcode(store->db);
	const char *why = sqlite3_errmsg(store->db);

	if (code == SQLITE_FULL)
		why = "no space is left there";
	else if ((code & 0xff) == SQLITE_IOERR && sqlite3_system_errno(store->db))
		why = strerror(sqlite3_system_errno(store->db));
	if (store->kept)
		message_die(EXIT_COULD_NOT,
			    "cannot write %s: %s; what was recorded stays in %s, and "
			    "'custody report %s' reads it",
			    store->path, why, store->kept, store->kept);
	message_die(EXIT_COULD_NOT, "cannot write %s: %s", store->path, why);
}

static void check(struct store *store, int code)
{
	if (code != SQLITE_OK)
		store_fail(store);
}

void store_run(struct store *store, const char *sql)
{
	check(store, sqlite3_exec(store->db, sql, NULL, NULL, NULL));
}

sqlite3_stmt *store_prepare(struct store *store, sqlite3_stmt **statement, const char *sql)
{
	if (*statement)
		return *statement;
	check(store, sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, statement,
					NULL));
	if (store->statement_count == sizeof(store->statements) / sizeof(*store->statements))
		message_die(EXIT_COULD_NOT, "too many prepared statements");
	store->statements[store->statement_count++] = statement;
	return *statement;
}

void store_forget(struct store *store, sqlite3_stmt **statement)
{
	for (int i = 0; i < store->statement_count; i++)
		if (store->statements[i] == statement)
			store->statements[i] = store->statements[--store->statement_count];
	sqlite3_finalize(*statement);
	*statement = NULL;
}

void store_step(struct store *store, sqlite3_stmt *statement)
{
	if (sqlite3_step(statement) != SQLITE_DONE)
		store_fail(store);
	sqlite3_reset(statement);
}

bool store_next(struct store *store, sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);

	if (code == SQLITE_ROW)
		return true;
	if (code != SQLITE_DONE)
		store_fail(store);
	sqlite3_reset(statement);
	return false;
}

static char *copy_text(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		message_die(EXIT_COULD_NOT, "out of memory");
	return copy;
}

/* Directories may be links, the file itself may not: SQLite would refuse both alike. */
static void resolve(const char *path, char real[PATH_MAX])
{
	char directory[PATH_MAX], resolved[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int length = slash ? (int)(slash - path) + 1 : 2;

	snprintf(directory, sizeof(directory), "%.*s", length, slash ? path : "./");
	if (!realpath(directory, resolved) ||
	    snprintf(real, PATH_MAX, "%s/%s", resolved, slash ? slash + 1 : path) >= PATH_MAX)
		message_die(EXIT_COULD_NOT, "cannot write %s: %s", path, strerror(errno));
}

static struct store *open_file(const char *path, const char *kept)
{
	struct store *store = ingest_table_memory(NULL, 1, sizeof(*store));
	char real[PATH_MAX];

	memset(store, 0, sizeof(*store));
	store->path = copy_text(path);
	store->kept = kept ? copy_text(kept) : NULL;
	resolve(path, real);
	check(store, sqlite3_open_v2(real, &store->db,
				     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
					     SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
					     SQLITE_OPEN_URI,
				     NULL));
	sqlite3_busy_timeout(store->db, 60000);
	return store;
}

/*
 * Nothing here must survive a crash of the machine, all must survive one of the
 * collector: the log is written, but nobody waits for the disk.  Whose file it
 * is stands in it before there is a log: a reader may come at any moment.
 */
static void set_recording_modes(struct store *store)
{
	char identity[64];

	snprintf(identity, sizeof(identity), "PRAGMA application_id = %d", STORE_APPLICATION_ID);
	store_run(store, "PRAGMA page_size = 8192;" /* heard by an empty file only */
			 "PRAGMA synchronous = OFF;");
	if (!store_number(store, "PRAGMA application_id"))
		store_run(store, identity);
	store_run(store, "PRAGMA journal_mode = WAL;"
			 "PRAGMA wal_autocheckpoint = 4000;"
			 "PRAGMA cache_size = -8192;"
			 "PRAGMA temp_store = FILE;"
			 "PRAGMA foreign_keys = OFF;");
}

static void make_schema(struct store *store)
{
	store_begin(store);
	store_run(store, store_schema);
	store_set_number(store, "schema_version", STORE_VERSION);
	store_set_text(store, "custody_version", PACKAGE_VERSION);
	store_set_number(store, "complete", 0);
	if (store->kept)
		store_set_text(store, "session", store->kept);
	store_commit(store);
}

static void make_table(struct store *store, const char *name, const char *columns)
{
	char *sql = sqlite3_mprintf("CREATE TABLE IF NOT EXISTS %s(%s)", name, columns);

	if (!sql)
		message_die(EXIT_COULD_NOT, "out of memory");
	store_run(store, sql);
	sqlite3_free(sql);
}

const char store_physical_device[] =
	"SELECT d.id AS device_id, coalesce((SELECT min(e.id) FROM device e "
	"WHERE e.uuid = d.uuid), d.id) AS physical_id, NULL AS host FROM device d";

static void make_view(struct store *store, const char *name, const char *select)
{
	char *sql = sqlite3_mprintf("CREATE VIEW IF NOT EXISTS %s AS %s", name, select);

	if (!sql)
		message_die(EXIT_COULD_NOT, "out of memory");
	store_run(store, sql);
	sqlite3_free(sql);
}

/* Statements of the schema begin lines with this. */
static const char create[] = "\nCREATE ";

/* One of them, up to the next one's beginning, where there is nothing of that name yet. */
static void make_one(struct store *store, const char *text, const char *end)
{
	const char *name = strchr(text + sizeof(create) - 1, ' ');
	char *sql = sqlite3_mprintf("%.*s IF NOT EXISTS%.*s", (int)(name - text), text,
				    (int)(end - name), name);

	if (!sql)
		message_die(EXIT_COULD_NOT, "out of memory");
	store_run(store, sql);
	sqlite3_free(sql);
}

static void make_missing(struct store *store)
{
	const char *text = strstr(store_schema, create);

	while (text) {
		const char *next = strstr(text + 1, create);

		make_one(store, text, next ? next : text + strlen(text));
		text = next;
	}
}

/* Older ones know copies of calls only, not those of graphs. */
static void complete_transfers(struct store *store)
{
	if (store_number(store, "SELECT count(*) FROM pragma_table_info('transfer') "
				"WHERE name = 'copies'"))
		return;
	if (!store_number(store, "SELECT count(*) FROM pragma_table_info('transfer_site') "
				 "WHERE name = 'copies'"))
		store_run(store, "ALTER TABLE transfer_site ADD COLUMN copies INTEGER NOT NULL "
				 "DEFAULT 1");
	store_run(store, "DROP VIEW IF EXISTS transfer");
}

/* What a trace lacks that an older version has begun; its rows stay as they are. */
static void complete_schema(struct store *store)
{
	complete_transfers(store);
	make_table(store, "free_total", total_free_columns);
	make_table(store, "pending_total", total_free_pending_columns);
	make_table(store, "oom", total_oom_columns);
	make_table(store, "oom_holder", total_oom_holder_columns);
	make_view(store, "physical_device", store_physical_device);
	if (!store_number(store, "SELECT count(*) FROM pragma_table_info('allocation') "
				 "WHERE name = 'free_waited_ns'"))
		store_run(store, "ALTER TABLE allocation ADD COLUMN free_waited_ns INTEGER;"
				 "ALTER TABLE allocation ADD COLUMN ready_ns INTEGER;"
				 "ALTER TABLE allocation ADD COLUMN free_saved_ns INTEGER;");
	if (!store_number(store, "SELECT count(*) FROM pragma_table_info('operation') "
				 "WHERE name = 'caller'"))
		store_run(store, "ALTER TABLE operation ADD COLUMN caller INTEGER;"
				 "CREATE INDEX operation_unload ON operation(process_id, api_id, "
				 "caller) WHERE caller IS NOT NULL;");
	if (!store_number(store, "SELECT count(*) FROM pragma_table_info('operation') "
				 "WHERE name = 'detail'"))
		store_run(store, "ALTER TABLE operation ADD COLUMN detail INTEGER;"
				 "ALTER TABLE operation ADD COLUMN bytes INTEGER;");
	if (!store_number(store, "SELECT count(*) FROM pragma_table_info('context') "
				 "WHERE name = 'is_green'"))
		store_run(store, "ALTER TABLE context ADD COLUMN is_green INTEGER NOT NULL "
				 "DEFAULT 0;");
	if (!store_number(store, "SELECT count(*) FROM pragma_table_info('process') "
				 "WHERE name = 'note'"))
		store_run(store, "ALTER TABLE process ADD COLUMN note TEXT;");
	if (!store_number(store, "SELECT count(*) FROM pragma_table_info('peak') "
				 "WHERE name = 'held_peak_bytes'"))
		store_run(store, "ALTER TABLE peak ADD COLUMN held_peak_bytes INTEGER NOT NULL "
				 "DEFAULT 0;");
	store_run(store,
		  "CREATE TABLE IF NOT EXISTS finding(id INTEGER PRIMARY KEY, "
		  "process_id INTEGER NOT NULL, kind TEXT NOT NULL, api_id INTEGER, "
		  "allocation_id INTEGER, address INTEGER, at_ns INTEGER NOT NULL, "
		  "thread_id INTEGER, context_id INTEGER, caller INTEGER);"
		  "CREATE TABLE IF NOT EXISTS reading(id INTEGER PRIMARY KEY, process_id, "
		  "device_id, context_id, thread_id, at_ns, moment, weighed, free_bytes, "
		  "total_bytes, pools_reserved, graphs_reserved, held_bytes, pool_bytes, "
		  "graph_bytes, context_bytes, code_bytes, driver_bytes, recorded_bytes, "
		  "foreign_bytes, growth_bytes, pools_cached);"
		  "CREATE TABLE IF NOT EXISTS reading_kind(reading_id, kind, live_bytes, "
		  "pending_bytes, held_bytes, PRIMARY KEY(reading_id, kind));"
		  "CREATE TABLE IF NOT EXISTS overhead(id INTEGER PRIMARY KEY, process_id, "
		  "device_id, context_id, kind, bytes, count, created_ns, ended_ns);"
		  "CREATE TABLE IF NOT EXISTS overhead_step(process_id, device_id, context_id, "
		  "kind, at_ns, bytes, calls, PRIMARY KEY(context_id, kind, at_ns));"
		  "CREATE TABLE IF NOT EXISTS device_sample(id INTEGER PRIMARY KEY, at_ns, uuid, "
		  "free_bytes)");
	make_missing(store);
}

/* A collector that was killed at once leaves a database without tables. */
struct store *store_open(const char *path, const char *kept, bool *is_new)
{
	struct store *store = open_file(path, kept);

	set_recording_modes(store);
	*is_new = !store_number(store, "SELECT count(*) FROM sqlite_master");
	if (*is_new)
		make_schema(store);
	else
		complete_schema(store);
	return store;
}

void store_begin(struct store *store)
{
	if (!store->is_open)
		store_run(store, "BEGIN IMMEDIATE");
	store->is_open = true;
}

void store_commit(struct store *store)
{
	if (store->is_open)
		store_run(store, "COMMIT");
	store->is_open = false;
}

/*
 * One plain file is nicer to carry, but whoever reads it right now keeps it from
 * becoming one; the last of them to close it folds the log in as well.
 */
static void leave_log(struct store *store)
{
	struct timespec pause = { .tv_nsec = 20000000 };

	sqlite3_busy_timeout(store->db, 0);
	for (int i = 0; i < LEAVE_LOG_TRIES; i++) {
		if (sqlite3_exec(store->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) ==
		    SQLITE_OK)
			return;
		if ((sqlite3_errcode(store->db) & 0xff) != SQLITE_BUSY)
			store_fail(store);
		nanosleep(&pause, NULL);
	}
}

void store_complete(struct store *store)
{
	store_begin(store);
	store_run(store, store_schema_end);
	store_run(store, "DELETE FROM ingest; DELETE FROM meta WHERE key = 'session';"
			 "UPDATE meta SET value = 1 WHERE key = 'complete';");
	store_commit(store);
	leave_log(store);
}

void store_close(struct store *store)
{
	for (int i = 0; i < store->statement_count; i++) {
		sqlite3_finalize(*store->statements[i]);
		*store->statements[i] = NULL;
	}
	if (sqlite3_close(store->db) != SQLITE_OK)
		store_fail(store);
	free(store->path);
	free(store->kept);
	free(store);
}

int64_t store_number(struct store *store, const char *sql)
{
	sqlite3_stmt *statement;
	int64_t number = 0;

	check(store, sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL));
	if (store_next(store, statement))
		number = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return number;
}

static sqlite3_stmt *prepare_meta(struct store *store, const char *key)
{
	sqlite3_stmt *statement;

	check(store, sqlite3_prepare_v2(store->db, "INSERT OR REPLACE INTO meta VALUES (?1, ?2)",
					-1, &statement, NULL));
	sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
	return statement;
}

void store_set_text(struct store *store, const char *key, const char *value)
{
	sqlite3_stmt *statement = prepare_meta(store, key);

	sqlite3_bind_text(statement, 2, value, -1, SQLITE_STATIC);
	store_step(store, statement);
	sqlite3_finalize(statement);
}

void store_set_number(struct store *store, const char *key, int64_t value)
{
	sqlite3_stmt *statement = prepare_meta(store, key);

	sqlite3_bind_int64(statement, 2, value);
	store_step(store, statement);
	sqlite3_finalize(statement);
}

char *store_text(struct store *store, const char *key)
{
	sqlite3_stmt *statement;
	char *text = NULL;

	check(store, sqlite3_prepare_v2(store->db, "SELECT value FROM meta WHERE key = ?1", -1,
					&statement, NULL));
	sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
	if (store_next(store, statement) && sqlite3_column_text(statement, 0))
		text = copy_text((const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
	return text;
}
