/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_table.h - one shard of the tracker: pages of the address space, each
 * with a sorted list of the blocks that overlap it.
 *
 * A page is 8 KiB, 2 MiB or 1 GiB by the size of its blocks (its level), so
 * that no list gets long and no block has many pages; a handle is a page of its
 * own.  A block is copied into every page it overlaps.  The copy in the page
 * where it begins is the one that counts: who takes that one out has the block.
 *
 * Nothing here locks: the tracker holds the shard's lock around every call.
 */
#ifndef CUSTODY_CORE_BLOCK_TABLE_H
#define CUSTODY_CORE_BLOCK_TABLE_H

#include "core/lock.h"
#include "core/slab.h"
#include "core/tracker.h"

#include <string.h>

enum block_level { LEVEL_SMALL, LEVEL_MIDDLE, LEVEL_LARGE, LEVEL_ARRAY, LEVEL_HANDLE };

enum { SMALL_SHIFT = 13, MIDDLE_SHIFT = 21, LARGE_SHIFT = 30, LARGE_BUCKETS = 1024 };

struct block_page {
	uint64_t number; /* address >> shift of its level */
	struct block *blocks;
	uint32_t count;
	uint32_t capacity;
	uint32_t level;
	uint32_t is_used; /* empty pages stay until the table is rebuilt */
};

struct block_shard {
	_Alignas(128) struct lock lock; /* no two shards in a line, nor in a pair of lines */
	_Alignas(64) uint32_t mask; /* slots - 1; who waits for the lock leaves this line be */
	uint32_t used;			/* slots with a page, empty or not */
	struct block_page *pages;
	uint64_t count; /* blocks that begin here */
	struct tracker_traffic traffic;
	struct slab_spares spares;
};

/*
 * How many copies of large blocks there are in pages of 1 GiB, by the low bits of
 * the page's number: mostly none, and then nobody locks a shard to look for one.
 */
extern _Atomic uint32_t block_table_large[LARGE_BUCKETS];

static inline bool block_table_has_large(uint64_t number)
{
	return atomic_load_explicit(&block_table_large[number % LARGE_BUCKETS],
				    memory_order_relaxed) != 0;
}

static inline unsigned int block_table_shift(enum block_level level)
{
	static const uint8_t shifts[] = { SMALL_SHIFT, MIDDLE_SHIFT, LARGE_SHIFT, 0, 0 };

	return shifts[level];
}

/* Behind the last byte; a block of no bytes covers the one it is at. */
static inline uint64_t block_table_end(const struct block *block)
{
	uint64_t end = block->address + (block->bytes ? block->bytes : 1);

	return end > block->address ? end : UINT64_MAX;
}

/*
 * The slot that holds the page, or the free one where it would go; the table has
 * one free slot at least.  This and what follows is inline: it is most of what
 * an allocation and a free cost.
 */
static inline struct block_page *block_table_seek(const struct block_shard *shard,
						  enum block_level level, uint64_t number)
{
	uint64_t mixed = (number ^ (uint64_t)level << 60) * UINT64_C(0xd6e8feb86659fd93);

	for (uint32_t at = (uint32_t)(mixed >> 32);; at++) {
		struct block_page *page = &shard->pages[at & shard->mask];

		if ((page->number == number && page->level == level) || !page->is_used)
			return page;
	}
}

/* The page, or NULL. */
static inline struct block_page *block_table_find(const struct block_shard *shard,
						  enum block_level level, uint64_t number)
{
	struct block_page *page = shard->pages ? block_table_seek(shard, level, number) : NULL;

	return page && page->is_used ? page : NULL;
}

/* How many blocks of the page begin at or before `address`; often it is the last one's. */
static inline uint32_t block_table_count(const struct block_page *page, uint64_t address)
{
	uint32_t low = 0, high = page->count;

	if (high && page->blocks[high - 1].address <= address)
		return high;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (page->blocks[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The block in the page that covers `address`, or NULL. */
static inline struct block *block_table_cover(const struct block_page *page, uint64_t address)
{
	uint32_t before = block_table_count(page, address);
	struct block *block = before ? &page->blocks[before - 1] : NULL;

	return block && address < block_table_end(block) ? block : NULL;
}

/* A block in the page that overlaps from..end, or NULL. */
static inline struct block *block_table_overlap(const struct block_page *page, uint64_t from,
						uint64_t end)
{
	uint32_t before = block_table_count(page, from);

	if (before && from < block_table_end(&page->blocks[before - 1]))
		return &page->blocks[before - 1];
	if (before < page->count && page->blocks[before].address < end)
		return &page->blocks[before];
	return NULL;
}

/* Copy the block into the page, which is made if need be.  Returns 0, or -1: no memory. */
int block_table_insert(struct block_shard *shard, enum block_level level, uint64_t number,
		       const struct block *block);

/* Whether this copy is the one in the page where the block begins. */
static inline bool block_table_begins(const struct block_page *page, const struct block *block)
{
	return block->address >> block_table_shift((enum block_level)page->level) == page->number;
}

/* Whether the block can go before the `at`-th of the page: there is a place, and no overlap. */
static inline bool block_table_fits(const struct block_page *page, uint32_t at,
				    const struct block *block)
{
	return page->count < page->capacity &&
	       (!at || block_table_end(&page->blocks[at - 1]) <= block->address) &&
	       (at == page->count || page->blocks[at].address >= block_table_end(block));
}

/* Of kinds that the driver packs into pages of its own. */
static inline bool block_table_is_packed(const struct block *block)
{
	return block->kind == BLOCK_DEVICE || block->kind == BLOCK_PITCH ||
	       block->kind == BLOCK_ARRAY;
}

/* Put it there; `at` is what block_table_count() says. */
static inline void block_table_put(struct block_shard *shard, struct block_page *page, uint32_t at,
				   const struct block *block)
{
	if (at < page->count)
		memmove(&page->blocks[at + 1], &page->blocks[at],
			(page->count - at) * sizeof(*page->blocks));
	page->blocks[at] = *block;
	page->count++;
	shard->count += block_table_begins(page, block);
	shard->traffic.come += block_table_begins(page, block) && block_table_is_packed(block);
	if (__builtin_expect(page->level == LEVEL_LARGE, 0))
		block_table_large[page->number % LARGE_BUCKETS]++;
}

/* Take the copy out; `block` points into page->blocks. */
static inline void block_table_remove(struct block_shard *shard, struct block_page *page,
				      struct block *block)
{
	size_t behind = (size_t)(page->blocks + page->count - (block + 1));

	shard->count -= block_table_begins(page, block);
	shard->traffic.gone += block_table_begins(page, block) && block_table_is_packed(block);
	if (__builtin_expect(page->level == LEVEL_LARGE, 0))
		block_table_large[page->number % LARGE_BUCKETS]--;
	if (behind)
		memmove(block, block + 1, behind * sizeof(*block));
	page->count--;
}

/* Whether the shard is in order. */
bool block_table_check(const struct block_shard *shard);

#endif
