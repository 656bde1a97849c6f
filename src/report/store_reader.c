/* SPDX-License-Identifier: Apache-2.0 */
/* The reading side of store.h: what is not a sound trace is refused in one sentence. */
#include "report/store.h"

#include "report/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 100 };

static uint32_t big_endian(const unsigned char *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

/* The header of the file format says how long the file is; offsets are SQLite's. */
static const char *judge_header(const unsigned char *header, uint64_t file_bytes, bool is_logged)
{
	uint64_t page = (uint64_t)header[16] << 8 | header[17];

	if (memcmp(header, "SQLite format 3", 16))
		return "is not a trace: it is no SQLite file";
	if (big_endian(header + 68) != STORE_APPLICATION_ID)
		return is_logged ? NULL : "is not a trace: another program made this SQLite file";
	if (big_endian(header + 60) > STORE_VERSION)
		return "is of a newer version of custody; this one cannot read it";
	if (page == 1)
		page = 65536;
	if (!is_logged && file_bytes < page * big_endian(header + 28))
		return "is damaged: the file is shorter than it says it is";
	return NULL;
}

static bool has_log(const char *path)
{
	char log[4096];

	snprintf(log, sizeof(log), "%s-wal", path);
	return !access(log, F_OK);
}

/*
 * The log is looked for first: a collector that finishes meanwhile moves it into
 * the file and removes it, and a header that is older than that says too little.
 */
static const char *judge_file(const char *path)
{
	bool is_logged = has_log(path);
	unsigned char header[HEADER_BYTES];
	struct stat status;
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return strerror(errno);
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		return "is not a trace: it is no regular file";
	}
	got = pread(fd, header, sizeof(header), 0);
	close(fd);
	if (got == 0)
		return "is empty: nothing has been recorded into it yet";
	if (got != (ssize_t)sizeof(header))
		return "is not a trace: it is too short";
	return judge_header(header, (uint64_t)status.st_size, is_logged);
}

_Noreturn void store_reader_fail(sqlite3 *db, const char *path)
{
	int code = sqlite3_errcode(db) & 0xff;

	if (code == SQLITE_CANTOPEN && has_log(path))
		message_die(EXIT_COULD_NOT,
			    "cannot read %s: a part of it is in %s-wal, which is read only where "
			    "files can be made beside it; copy both to such a place",
			    path, path);
	if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
		message_die(EXIT_COULD_NOT, "%s is damaged: %s", path, sqlite3_errmsg(db));
	message_die(EXIT_COULD_NOT, "cannot read %s: %s", path, sqlite3_errmsg(db));
}

/* Ask through SQLite too: the header may be older than the log beside it. */
static void check_identity(sqlite3 *db, const char *path)
{
	sqlite3_stmt *statement;
	int64_t application, version;

	if (sqlite3_prepare_v2(db,
			       "SELECT application_id, user_version, "
			       "(SELECT count(*) FROM sqlite_master WHERE name = 'allocation') "
			       "FROM pragma_application_id, pragma_user_version",
			       -1, &statement, NULL) != SQLITE_OK ||
	    sqlite3_step(statement) != SQLITE_ROW)
		store_reader_fail(db, path);
	application = sqlite3_column_int64(statement, 0);
	version = sqlite3_column_int64(statement, 1);
	if (application != STORE_APPLICATION_ID)
		message_die(EXIT_COULD_NOT, "%s is not a trace of custody", path);
	if (!sqlite3_column_int64(statement, 2))
		message_die(EXIT_COULD_NOT,
			    "%s is empty: nothing has been recorded into it yet", path);
	if (version > STORE_VERSION)
		message_die(EXIT_COULD_NOT,
			    "%s is of a newer version of custody; this one cannot read it", path);
	sqlite3_finalize(statement);
}

sqlite3 *store_reader_open(const char *path)
{
	const char *why = judge_file(path);
	sqlite3 *db;

	if (why && !strncmp(why, "is ", 3))
		message_die(EXIT_COULD_NOT, "%s %s", path, why);
	if (why)
		message_die(EXIT_COULD_NOT, "cannot read %s: %s", path, why);
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK)
		store_reader_fail(db, path);
	sqlite3_busy_timeout(db, 10000);
	check_identity(db, path);
	if (sqlite3_exec(db, "PRAGMA query_only = 1; PRAGMA trusted_schema = OFF;"
			     "PRAGMA cell_size_check = 1",
			 NULL, NULL, NULL) != SQLITE_OK)
		store_reader_fail(db, path);
	return db;
}

/* The value of a meta key of a file that may be anything, to be freed; NULL without a word. */
static char *peek(const char *path, const char *key)
{
	sqlite3_stmt *query = NULL;
	sqlite3 *db = NULL;
	char *value = NULL;

	if (!judge_file(path) &&
	    sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) ==
		    SQLITE_OK &&
	    sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = ?", -1, &query, NULL) ==
		    SQLITE_OK &&
	    sqlite3_bind_text(query, 1, key, -1, SQLITE_STATIC) == SQLITE_OK &&
	    sqlite3_step(query) == SQLITE_ROW && sqlite3_column_text(query, 0))
		value = strdup((const char *)sqlite3_column_text(query, 0));
	sqlite3_finalize(query);
	sqlite3_close(db);
	return value;
}

bool store_reader_is_complete(const char *path)
{
	char *value = peek(path, "complete");
	bool is_complete = value && !strcmp(value, "1");

	free(value);
	return is_complete;
}

char *store_reader_session(const char *path)
{
	return peek(path, "session");
}
