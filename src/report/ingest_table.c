/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_table.h"

#include "report/message.h"

#include <stdlib.h>

void *ingest_table_memory(void *old, size_t count, size_t bytes)
{
	void *memory = reallocarray(old, count, bytes);

	if (!memory)
		message_die(EXIT_COULD_NOT, "out of memory while reading what was recorded");
	return memory;
}

static size_t home_of(const struct ingest_table *table, uint64_t key)
{
	key ^= key >> 32;
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(key >> 20) & (table->capacity - 1);
}

/* The slot that holds the key, or the empty one where it would go. */
static struct ingest_table_slot *probe(const struct ingest_table *table, uint64_t key)
{
	size_t at = home_of(table, key);

	while (table->slot[at].value && table->slot[at].key != key)
		at = (at + 1) & (table->capacity - 1);
	return &table->slot[at];
}

static void grow(struct ingest_table *table)
{
	struct ingest_table old = *table;

	table->capacity = old.capacity ? old.capacity * 2 : 16;
	table->slot = ingest_table_memory(NULL, table->capacity, sizeof(*table->slot));
	for (size_t i = 0; i < table->capacity; i++)
		table->slot[i].value = NULL;
	for (size_t i = 0; i < old.capacity; i++)
		if (old.slot[i].value)
			*probe(table, old.slot[i].key) = old.slot[i];
	free(old.slot);
}

void *ingest_table_find(const struct ingest_table *table, uint64_t key)
{
	return table->capacity ? probe(table, key)->value : NULL;
}

void *ingest_table_put(struct ingest_table *table, uint64_t key, void *value)
{
	struct ingest_table_slot *slot;
	void *before;

	if ((table->count + 1) * 4 > table->capacity * 3)
		grow(table);
	slot = probe(table, key);
	before = slot->value;
	table->count += !before;
	slot->key = key;
	slot->value = value;
	return before;
}

/* Close the hole, so that no entry behind it is cut off from its home. */
static void shift_back(struct ingest_table *table, size_t hole)
{
	size_t mask = table->capacity - 1;
	size_t at = hole;

	for (;;) {
		size_t home;

		at = (at + 1) & mask;
		if (!table->slot[at].value)
			break;
		home = home_of(table, table->slot[at].key);
		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		table->slot[hole] = table->slot[at];
		hole = at;
	}
	table->slot[hole].value = NULL;
}

void *ingest_table_take(struct ingest_table *table, uint64_t key)
{
	struct ingest_table_slot *slot;
	void *value;

	if (!table->capacity)
		return NULL;
	slot = probe(table, key);
	value = slot->value;
	if (!value)
		return NULL;
	table->count--;
	shift_back(table, (size_t)(slot - table->slot));
	return value;
}

void *ingest_table_next(const struct ingest_table *table, size_t *at)
{
	while (*at < table->capacity) {
		void *value = table->slot[(*at)++].value;

		if (value)
			return value;
	}
	return NULL;
}

void ingest_table_free(struct ingest_table *table, void (*release)(void *value))
{
	for (size_t i = 0; release && i < table->capacity; i++)
		if (table->slot[i].value)
			release(table->slot[i].value);
	free(table->slot);
	*table = (struct ingest_table){ 0 };
}
