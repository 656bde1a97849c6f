/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.h - what a test program knows that it did: calls and bytes, kept by
 * the program itself and compared with the trace afterwards.  C and C++.
 *
 * The file named by JOURNAL gets one JSON object a line:
 *
 *	{"check":"allocation","api":"cuMemAlloc_v2","count":3,"bytes":4096}
 *	{"check":"transfer","kind":"H2D","count":7,"bytes":28672}
 *	{"check":"live","kind":"device","bytes":12345,"at":1234567890}
 */
#ifndef CUSTODY_DEVICE_JOURNAL_H
#define CUSTODY_DEVICE_JOURNAL_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { JOURNAL_ROWS = 160 };

struct journal_row {
	const char *check; /* a table of the trace */
	const char *by;	   /* "api" or "kind" */
	const char *value;
	unsigned long long count;
	unsigned long long bytes;
};

static struct journal_row journal_row[JOURNAL_ROWS];
static int journal_rows;
static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;

static inline struct journal_row *journal_find(const char *check, const char *by, const char *value)
{
	struct journal_row *row = journal_row;

	for (; row < journal_row + journal_rows; row++) {
		if (!strcmp(row->check, check) && !strcmp(row->by, by) &&
		    !strcmp(row->value, value))
			return row;
	}
	if (journal_rows == JOURNAL_ROWS) {
		fprintf(stderr, "journal: more than %d rows\n", JOURNAL_ROWS);
		exit(1);
	}
	journal_rows++;
	row->check = check;
	row->by = by;
	row->value = value;
	return row;
}

/* One call more; NULL for `value` notes nothing.  Any thread. */
static inline void journal_add(const char *check, const char *by, const char *value, size_t bytes)
{
	struct journal_row *row;

	if (!value)
		return;
	pthread_mutex_lock(&journal_lock);
	row = journal_find(check, by, value);
	row->count++;
	row->bytes += bytes;
	pthread_mutex_unlock(&journal_lock);
}

static inline void journal_allocation(const char *api, const char *kind, size_t bytes)
{
	journal_add("allocation", "api", api, bytes);
	journal_add("allocation", "kind", kind, bytes);
}

static inline void journal_transfer(const char *api, const char *kind, size_t bytes)
{
	journal_add("transfer", "api", api, bytes);
	journal_add("transfer", "kind", kind, bytes);
}

static inline FILE *journal_open(void)
{
	const char *path = getenv("JOURNAL");

	return path ? fopen(path, "a") : NULL;
}

/* Bytes of a kind that are live at this moment. */
static inline void journal_live(const char *kind, size_t bytes)
{
	FILE *file = journal_open();
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!file)
		return;
	fprintf(file, "{\"check\":\"live\",\"kind\":\"%s\",\"bytes\":%zu,\"at\":%lld}\n", kind,
		bytes, (long long)now.tv_sec * 1000000000 + now.tv_nsec);
	fclose(file);
}

/* Write all rows; the last act of the program. */
static inline void journal_close(void)
{
	FILE *file = journal_open();

	for (int i = 0; file && i < journal_rows; i++) {
		const struct journal_row *row = &journal_row[i];

		fprintf(file, "{\"check\":\"%s\",\"%s\":\"%s\",\"count\":%llu,\"bytes\":%llu}\n",
			row->check, row->by, row->value, row->count, row->bytes);
	}
	if (file)
		fclose(file);
}

#endif
