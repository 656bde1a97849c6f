/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every address the driver knows, found from any pointer into it.  The address space
 * is cut into cells of 2 MiB; a cell lists the blocks that touch it, by address.
 * Cells are guarded in stripes, so that look-ups of different threads seldom meet.
 */
#include "sim.h"

enum { LEAF_BITS = 13, ROOT_BITS = 47 - PAGE_BITS - LEAF_BITS, STRIPES = 256 };

struct cell {
	struct block **blocks;	/* by base, not overlapping */
	unsigned count, room;
};

struct leaf {
	struct cell cells[1 << LEAF_BITS];
};

static _Atomic(struct leaf *) root[1 << ROOT_BITS];
static struct { pthread_mutex_t lock; char pad[64]; } stripes[STRIPES] = {
	[0 ... STRIPES - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER },
};

static pthread_mutex_t *stripe_of(size_t number)
{
	return &stripes[number % STRIPES].lock;
}

static struct leaf *make_leaf(_Atomic(struct leaf *) *place)
{
	struct leaf *fresh = calloc(1, sizeof(*fresh)), *there = NULL;

	if (!fresh)
		config_die("no memory for the list of blocks");
	if (atomic_compare_exchange_strong(place, &there, fresh))
		return fresh;
	free(fresh);
	return there;
}

/* NULL when nothing was ever registered nearby, or the address is no user address. */
static struct cell *find_cell(size_t number, bool make)
{
	size_t index = number >> LEAF_BITS;
	struct leaf *leaf;

	if (index >= (size_t)1 << ROOT_BITS)
		return NULL;
	leaf = atomic_load_explicit(&root[index], memory_order_acquire);
	if (!leaf && make)
		leaf = make_leaf(&root[index]);
	return leaf ? &leaf->cells[number & ((1 << LEAF_BITS) - 1)] : NULL;
}

/* The first block that ends behind the address. */
static unsigned find_index(const struct cell *cell, const char *address)
{
	unsigned low = 0, high = cell->count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (cell->blocks[middle]->base + cell->blocks[middle]->size > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void put_in_cell(struct cell *cell, struct block *block)
{
	unsigned index;

	if (cell->count == cell->room) {
		cell->room = cell->room ? cell->room * 2 : 1;
		cell->blocks = realloc(cell->blocks, cell->room * sizeof(*cell->blocks));
		if (!cell->blocks)
			config_die("no memory for the list of blocks");
	}
	index = find_index(cell, block->base);
	memmove(&cell->blocks[index + 1], &cell->blocks[index],
		(cell->count - index) * sizeof(*cell->blocks));
	cell->blocks[index] = block;
	cell->count++;
}

static void take_from_cell(struct cell *cell, struct block *block)
{
	unsigned index = find_index(cell, block->base);

	if (index >= cell->count || cell->blocks[index] != block)
		config_die("block %p is not where it was registered", (void *)block->base);
	cell->count--;
	memmove(&cell->blocks[index], &cell->blocks[index + 1],
		(cell->count - index) * sizeof(*cell->blocks));
}

static void for_cells(struct block *block, bool make, void (*act)(struct cell *, struct block *))
{
	size_t first = (size_t)block->base >> PAGE_BITS;
	size_t last = ((size_t)block->base + block->size - 1) >> PAGE_BITS;

	for (size_t number = first; number <= last; number++) {
		struct cell *cell = find_cell(number, make);

		if (!cell)
			config_die("address %p is outside what can be registered",
				   (void *)block->base);
		pthread_mutex_lock(stripe_of(number));
		act(cell, block);
		pthread_mutex_unlock(stripe_of(number));
	}
}

void registry_add(struct block *block)
{
	for_cells(block, true, put_in_cell);
}

void registry_remove(struct block *block)
{
	for_cells(block, false, take_from_cell);
}

struct block *registry_find_any(const void *address)
{
	size_t number = (size_t)address >> PAGE_BITS;
	struct cell *cell = find_cell(number, false);
	struct block *block = NULL;
	unsigned index;

	if (!cell)
		return NULL;
	pthread_mutex_lock(stripe_of(number));
	index = find_index(cell, address);
	if (index < cell->count && cell->blocks[index]->base <= (const char *)address)
		block = cell->blocks[index];
	pthread_mutex_unlock(stripe_of(number));
	return block;
}

struct block *registry_find(const void *address)
{
	struct block *block = registry_find_any(address);

	if (block && block->kind == BLOCK_GRAPH && !atomic_load(&block->live))
		return NULL;
	return block;
}

bool registry_overlaps(const void *address, size_t bytes)
{
	const char *from = address, *to = from + bytes;
	bool found = false;

	for (size_t number = (size_t)from >> PAGE_BITS;
	     number <= (size_t)(to - 1) >> PAGE_BITS && !found; number++) {
		struct cell *cell = find_cell(number, false);
		unsigned index;

		if (!cell)
			continue;
		pthread_mutex_lock(stripe_of(number));
		index = find_index(cell, from);
		found = index < cell->count && cell->blocks[index]->base < to;
		pthread_mutex_unlock(stripe_of(number));
	}
	return found;
}
