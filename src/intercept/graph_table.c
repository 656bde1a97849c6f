/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/graph_table.h"
#include "core/slab.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum { FIRST_SLOTS = 1024 };

/* A slot that was given up: others may stand behind it. */
#define SLOT_GIVEN UINT64_C(1)

struct slot {
	_Atomic uint64_t exec; /* 0: never used */
	_Atomic(struct graph_work *) work;
};

/*
 * Open addressing.  A table that was outgrown is not given back: somebody may be
 * reading it.
 */
struct table {
	uint32_t capacity; /* a power of two */
	uint32_t used;	   /* slots that are not 0 */
	struct slot *slot;
};

static struct slot first_slots[FIRST_SLOTS];
static struct table first_table = { .capacity = FIRST_SLOTS, .slot = first_slots };
static _Atomic(struct table *) current = &first_table;
static struct slab_spares spares;

static struct slot *slot_at(const struct table *table, uint64_t exec, uint32_t i)
{
	uint64_t home = exec * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	return &table->slot[(home + i) & (table->capacity - 1)];
}

/* The slot of `exec`, or the empty one that ends the search. */
static struct slot *find_slot(const struct table *table, uint64_t exec)
{
	for (uint32_t i = 0; i < table->capacity; i++) {
		struct slot *slot = slot_at(table, exec, i);
		uint64_t there = atomic_load_explicit(&slot->exec, memory_order_acquire);

		if (there == exec || !there)
			return slot;
	}
	return NULL;
}

struct graph_work *graph_table_find(uint64_t exec)
{
	const struct table *table = atomic_load_explicit(&current, memory_order_acquire);
	struct slot *slot = find_slot(table, exec);

	if (!slot || atomic_load_explicit(&slot->exec, memory_order_relaxed) != exec)
		return NULL;
	return atomic_load_explicit(&slot->work, memory_order_acquire);
}

/* The first slot that can be had, `exec` not being there. */
static struct slot *free_slot(struct table *table, uint64_t exec)
{
	for (uint32_t i = 0; i < table->capacity; i++) {
		struct slot *slot = slot_at(table, exec, i);
		uint64_t there = atomic_load_explicit(&slot->exec, memory_order_relaxed);

		if (!there)
			table->used++;
		if (!there || there == SLOT_GIVEN)
			return slot;
	}
	return NULL;
}

static void fill_slot(struct slot *slot, uint64_t exec, struct graph_work *work)
{
	atomic_store_explicit(&slot->work, work, memory_order_release);
	atomic_store_explicit(&slot->exec, exec, memory_order_release);
}

static bool grow_table(const struct table *old)
{
	uint32_t capacity = 2 * old->capacity;
	size_t bytes = capacity * sizeof(struct slot);
	struct table *table = slab_take(&spares, slab_class(sizeof(*table)));

	if (!table)
		return false;
	*table = (struct table){ .capacity = capacity };
	table->slot = slab_take(&spares, slab_class(bytes));
	if (!table->slot)
		return false;
	memset(table->slot, 0, bytes);
	for (uint32_t i = 0; i < old->capacity; i++) {
		uint64_t exec = atomic_load_explicit(&old->slot[i].exec, memory_order_relaxed);

		if (exec > SLOT_GIVEN)
			fill_slot(free_slot(table, exec), exec,
				  atomic_load_explicit(&old->slot[i].work, memory_order_relaxed));
	}
	atomic_store_explicit(&current, table, memory_order_release);
	return true;
}

bool graph_table_enter(uint64_t exec, struct graph_work *work)
{
	struct table *table = atomic_load_explicit(&current, memory_order_relaxed);
	struct slot *slot;

	if (2 * table->used >= table->capacity && grow_table(table))
		table = atomic_load_explicit(&current, memory_order_relaxed);
	slot = free_slot(table, exec);
	if (slot)
		fill_slot(slot, exec, work);
	return slot != NULL;
}

/* Slots that were given up and that nothing stands behind are as good as new. */
static void clear_given(struct table *table, uint32_t at)
{
	const uint32_t mask = table->capacity - 1;

	if (atomic_load_explicit(&table->slot[(at + 1) & mask].exec, memory_order_relaxed))
		return;
	while (atomic_load_explicit(&table->slot[at].exec, memory_order_relaxed) == SLOT_GIVEN) {
		atomic_store_explicit(&table->slot[at].exec, 0, memory_order_release);
		table->used--;
		at = (at - 1) & mask;
	}
}

struct graph_work *graph_table_take(uint64_t exec)
{
	struct table *table = atomic_load_explicit(&current, memory_order_relaxed);
	struct slot *slot = find_slot(table, exec);
	struct graph_work *work;

	if (!slot || atomic_load_explicit(&slot->exec, memory_order_relaxed) != exec)
		return NULL;
	work = atomic_load_explicit(&slot->work, memory_order_relaxed);
	atomic_store_explicit(&slot->exec, SLOT_GIVEN, memory_order_release);
	clear_given(table, (uint32_t)(slot - table->slot));
	return work;
}

void graph_table_reset(void)
{
	memset(first_slots, 0, sizeof(first_slots));
	memset(&spares, 0, sizeof(spares));
	first_table.used = 0;
	atomic_store(&current, &first_table);
}
