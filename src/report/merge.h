/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - several traces become one file.
 *
 *	merge		one source after the other, then the sums of the whole
 *	merge_source	what is known of a source before it is copied; the one clock
 *	merge_copy	the rows of a source, with ids, references and times moved
 *	merge_meta	meta of the whole, and what each source's meta said
 *	merge_file	the file appears complete or not at all
 *
 * Sources are untrusted: they are attached for reading only, and whatever is
 * wrong with one ends the program with one sentence that names it.
 */
#ifndef CUSTODY_REPORT_MERGE_H
#define CUSTODY_REPORT_MERGE_H

#include "report/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct merge_source {
	const char *name; /* as the user gave it */
	char *path;	  /* the file; another one where the name is that of a session */
	struct stat file;
	char *host, *boot; /* NULL: not told */
	int64_t wall_offset_ns;
	bool has_wall;
	bool is_complete;
	int64_t clock_ns; /* wall_offset_ns of its boot: the same for all sources of one */
	int64_t moved_ns; /* to be added to its times */
};

struct merge {
	struct store *store;
	struct merge_source *source;
	int sources;
	int base; /* the source whose clock is that of the whole */
};

/* Look at the traces of the command line; ends the program where one cannot be merged. */
void merge_source_read(struct merge *merge, char **names, int count);
void merge_source_free(struct merge *merge);

/* Choose the clock of the whole: sets `base`, and moved_ns of each source. */
void merge_source_align(struct merge *merge);

/* A failed step while a source was read: it or the output is to blame. */
_Noreturn void merge_source_fail(struct merge *merge, const struct merge_source *source);

/* The source is there as schema "source" between the two. */
void merge_copy_attach(struct merge *merge, const struct merge_source *source);
void merge_copy_detach(struct merge *merge, const struct merge_source *source);

/* All rows of all tables but those that merge_copy_is_derived() tells. */
void merge_copy_rows(struct merge *merge, const struct merge_source *source);

/* Made anew for the whole, or of no use in it. */
bool merge_copy_is_derived(const char *table);

/* Whether a column of time is a point in it; else it is how long something took. */
bool merge_copy_is_moment(const char *column);

/* The row(s) of this source in `source`, and which of its processes belong to them. */
void merge_meta_source(struct merge *merge, const struct merge_source *source);

/* Meta of the whole, when all sources are there. */
void merge_meta_whole(struct merge *merge);

/* Statements in SQLite's format, while `source` is to blame for what they find. */
void merge_run(struct merge *merge, const struct merge_source *source, const char *format, ...);

/* All of it into the empty file `draft`, which will become `output`. */
void merge_run_all(struct merge *merge, const char *draft, const char *output);

/*
 * merge_file.c: the name of a new file beside `output`, which is removed when the
 * program ends before merge_file_finish() has given it its name.
 */
const char *merge_file_begin(const char *output, bool replace);
void merge_file_finish(const char *output, bool replace);

#endif
