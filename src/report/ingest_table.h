/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_table.h - a number to a pointer: open addressing, grows by doubling.
 * One thread; the pointers belong to the caller.
 */
#ifndef CUSTODY_REPORT_INGEST_TABLE_H
#define CUSTODY_REPORT_INGEST_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct ingest_table {
	struct ingest_table_slot {
		uint64_t key;
		void *value; /* NULL: empty */
	} *slot;
	size_t capacity; /* power of two, 0 before the first entry */
	size_t count;
};

void *ingest_table_find(const struct ingest_table *table, uint64_t key);

/* Replaces what the key had; returns that or NULL. */
void *ingest_table_put(struct ingest_table *table, uint64_t key, void *value);

/* Takes the entry out and returns it, NULL if there is none. */
void *ingest_table_take(struct ingest_table *table, uint64_t key);

/* The next entry at or behind slot `*at`, which moves on; NULL at the end. */
void *ingest_table_next(const struct ingest_table *table, size_t *at);

/* Frees the table; `release` is called for every value, if given. */
void ingest_table_free(struct ingest_table *table, void (*release)(void *value));

/* malloc and friends that end the program with a sentence rather than return NULL. */
void *ingest_table_memory(void *old, size_t count, size_t bytes);

#endif
