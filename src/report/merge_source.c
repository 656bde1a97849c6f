/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of each source before its rows are copied, and the clock of them all. */
#include "report/merge.h"

#include "report/collect.h"
#include "report/ingest_table.h"
#include "report/message.h"
#include "report/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* No two wall clocks are further apart; beyond it the sums of times would overflow. */
#define FARTHEST_NS (INT64_C(1000000000) * 3600 * 24 * 366 * 100)

/* A boot that lasts no longer than this is one too many: steps of the wall clock are smaller. */
#define SAME_BOOT_NS INT64_C(10000000000)

/* The value of a meta key as text, to be freed; NULL where there is none. */
static char *read_text(sqlite3 *db, const char *path, const char *key)
{
	sqlite3_stmt *query = NULL;
	char *text = NULL;

	if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = ?", -1, &query, NULL) !=
	    SQLITE_OK)
		store_reader_fail(db, path);
	sqlite3_bind_text(query, 1, key, -1, SQLITE_STATIC);
	switch (sqlite3_step(query)) {
	case SQLITE_ROW:
		if (sqlite3_column_text(query, 0))
			text = strdup((const char *)sqlite3_column_text(query, 0));
		break;
	case SQLITE_DONE:
		break;
	default:
		store_reader_fail(db, path);
	}
	sqlite3_finalize(query);
	return text;
}

static bool read_number(sqlite3 *db, const char *path, const char *key, int64_t *number)
{
	char *text = read_text(db, path, key);
	bool is_there = text != NULL;

	if (is_there)
		*number = strtoll(text, NULL, 10);
	free(text);
	return is_there;
}

static void read_one(struct merge_source *source, const char *name)
{
	int64_t is_complete = 0;
	sqlite3 *db;

	source->name = name;
	source->path = collect_settle(name);
	db = store_reader_open(source->path);
	if (stat(source->path, &source->file))
		message_die(EXIT_COULD_NOT, "cannot read %s: %s", name, strerror(errno));
	source->host = read_text(db, source->path, "host");
	source->boot = read_text(db, source->path, "boot");
	source->has_wall =
		read_number(db, source->path, "wall_offset_ns", &source->wall_offset_ns);
	read_number(db, source->path, "complete", &is_complete);
	source->is_complete = is_complete == 1;
	sqlite3_close(db);
	if (source->wall_offset_ns > FARTHEST_NS || source->wall_offset_ns < -FARTHEST_NS)
		message_die(EXIT_COULD_NOT, "%s is damaged: its clock is centuries away", name);
}

static void refuse_twins(const struct merge *merge)
{
	for (int i = 0; i < merge->sources; i++)
		for (int j = 0; j < i; j++)
			if (merge->source[i].file.st_ino == merge->source[j].file.st_ino &&
			    merge->source[i].file.st_dev == merge->source[j].file.st_dev)
				message_die(EXIT_USAGE, "merge: %s and %s are the same trace",
					    merge->source[j].name, merge->source[i].name);
}

void merge_source_read(struct merge *merge, char **names, int count)
{
	merge->source = ingest_table_memory(NULL, (size_t)count, sizeof(*merge->source));
	memset(merge->source, 0, (size_t)count * sizeof(*merge->source));
	merge->sources = count;
	for (int i = 0; i < count; i++)
		read_one(&merge->source[i], names[i]);
	refuse_twins(merge);
}

void merge_source_free(struct merge *merge)
{
	for (int i = 0; i < merge->sources; i++) {
		free(merge->source[i].path);
		free(merge->source[i].host);
		free(merge->source[i].boot);
	}
	free(merge->source);
}

/*
 * Traces of one boot have one CLOCK_MONOTONIC, whatever was done to the wall clock
 * between them.  Those of before traces told their boot are known by their host,
 * and by a distance to the wall clock that no two boots share.
 */
static bool is_same_boot(const struct merge_source *a, const struct merge_source *b)
{
	int64_t apart = rows_minus(a->wall_offset_ns, b->wall_offset_ns);

	if (a->boot && b->boot)
		return !strcmp(a->boot, b->boot);
	return a->host && b->host && !strcmp(a->host, b->host) && apart < SAME_BOOT_NS &&
	       apart > -SAME_BOOT_NS;
}

static void find_clock(struct merge *merge, int number)
{
	struct merge_source *source = &merge->source[number];

	source->clock_ns = source->wall_offset_ns;
	for (int i = 0; i < number; i++) {
		if (!merge->source[i].has_wall || !is_same_boot(source, &merge->source[i]))
			continue;
		source->clock_ns = merge->source[i].clock_ns;
		return;
	}
}

/* The clock that has run longest serves for all, so that times grow and never become negative. */
void merge_source_align(struct merge *merge)
{
	merge->base = -1;
	for (int i = 0; i < merge->sources; i++) {
		if (!merge->source[i].has_wall)
			continue;
		find_clock(merge, i);
		if (merge->base < 0 ||
		    merge->source[i].clock_ns < merge->source[merge->base].clock_ns)
			merge->base = i;
	}
	if (merge->base < 0)
		merge->base = 0;
	for (int i = 0; i < merge->sources; i++) {
		struct merge_source *source = &merge->source[i];

		if (source->has_wall)
			source->moved_ns = source->clock_ns - merge->source[merge->base].clock_ns;
		else if (merge->sources > 1)
			message_warn("%s does not tell the time of day; its times stay as they are",
				     source->name);
	}
}
