/* SPDX-License-Identifier: Apache-2.0 */
#include "report/merge.h"

#include "report/ingest.h"
#include "report/message.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void merge_source_fail(struct merge *merge, const struct merge_source *source)
{
	switch (sqlite3_errcode(merge->store->db) & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_CONSTRAINT:
	case SQLITE_MISMATCH:
	case SQLITE_TOOBIG:
	case SQLITE_ERROR:
		message_die(EXIT_COULD_NOT, "%s is damaged: %s", source->name,
			    sqlite3_errmsg(merge->store->db));
	default:
		store_fail(merge->store);
	}
}

void merge_run(struct merge *merge, const struct merge_source *source, const char *format, ...)
{
	va_list arguments;
	char *sql;

	va_start(arguments, format);
	sql = sqlite3_vmprintf(format, arguments);
	va_end(arguments);
	if (!sql)
		message_die(EXIT_COULD_NOT, "out of memory");
	if (sqlite3_exec(merge->store->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		merge_source_fail(merge, source);
	sqlite3_free(sql);
}

/* What goes wrong is said of the file that was asked for, not of the one it is made in. */
static void open_output(struct merge *merge, const char *draft, const char *output)
{
	bool is_new;

	merge->store = store_open(draft, NULL, &is_new);
	free(merge->store->path);
	merge->store->path = strdup(output);
	if (!merge->store->path)
		message_die(EXIT_COULD_NOT, "out of memory");
	/* Nobody knows the file before it is done, so there is nothing to go back to. */
	store_run(merge->store, "PRAGMA journal_mode = DELETE; PRAGMA journal_mode = OFF;"
				"PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = 1");
	sqlite3_db_config(merge->store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
}

static void take_source(struct merge *merge, const struct merge_source *source)
{
	if (message_level >= MESSAGE_VERBOSE)
		message_say("reading %s", source->name);
	merge_copy_attach(merge, source);
	store_begin(merge->store);
	merge_copy_rows(merge, source);
	merge_meta_source(merge, source);
	store_commit(merge->store);
	merge_copy_detach(merge, source);
}

/* As at the end of a recording whose collector has seen no row pass. */
static void make_totals(struct merge *merge)
{
	struct ingest ingest;

	ingest_start(&ingest, merge->store);
	ingest.is_resumed = true;
	ingest.readings.is_final = true;
	ingest_resume_sites(&ingest);
	ingest_finish_totals(&ingest);
	ingest_free(&ingest);
}

static bool is_complete(const struct merge *merge)
{
	for (int i = 0; i < merge->sources; i++)
		if (!merge->source[i].is_complete)
			return false;
	return true;
}

void merge_run_all(struct merge *merge, const char *draft, const char *output)
{
	open_output(merge, draft, output);
	for (int i = 0; i < merge->sources; i++)
		take_source(merge, &merge->source[i]);
	merge_meta_whole(merge);
	make_totals(merge);
	store_complete(merge->store);
	store_set_number(merge->store, "complete", is_complete(merge));
	store_close(merge->store);
}
