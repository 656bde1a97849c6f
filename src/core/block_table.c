/* SPDX-License-Identifier: Apache-2.0 */
#include "core/block_table.h"

#include <string.h>

enum { LEAST_SLOTS = 16 };

_Atomic uint32_t block_table_large[LARGE_BUCKETS];

static uint32_t count_filled(const struct block_shard *shard)
{
	uint32_t filled = 0;

	for (uint32_t i = 0; shard->pages && i <= shard->mask; i++)
		filled += shard->pages[i].count != 0;
	return filled;
}

static void give_blocks(struct block_shard *shard, struct block_page *page)
{
	if (page->capacity)
		slab_give(&shard->spares, page->blocks,
			  slab_class(page->capacity * sizeof(struct block)));
}

/* Move the filled pages over; what the empty ones hold goes back. */
static void move_pages(struct block_shard *shard, struct block_page *old, uint32_t slots)
{
	shard->used = 0;
	for (uint32_t i = 0; i < slots; i++) {
		if (!old[i].count) {
			give_blocks(shard, &old[i]);
			continue;
		}
		*block_table_seek(shard, (enum block_level)old[i].level, old[i].number) = old[i];
		shard->used++;
	}
}

/* Make the table at least twice as large as what it holds; addresses that went stale leave. */
static int rebuild(struct block_shard *shard)
{
	uint32_t slots = LEAST_SLOTS, old_slots = shard->pages ? shard->mask + 1 : 0;
	uint32_t filled = count_filled(shard);
	struct block_page *old = shard->pages, *pages;

	while (slots < filled * 2 + 2)
		slots *= 2;
	pages = slab_take(&shard->spares, slab_class(slots * sizeof(*pages)));
	if (!pages)
		return -1;
	memset(pages, 0, slots * sizeof(*pages));
	shard->pages = pages;
	shard->mask = slots - 1;
	if (old) {
		move_pages(shard, old, old_slots);
		slab_give(&shard->spares, old, slab_class(old_slots * sizeof(*old)));
	}
	return 0;
}

static struct block_page *make_page(struct block_shard *shard, enum block_level level,
				    uint64_t number)
{
	struct block_page *page = block_table_find(shard, level, number);

	if (page)
		return page;
	if ((!shard->pages || shard->used >= shard->mask - shard->mask / 4) && rebuild(shard))
		return NULL;
	page = block_table_seek(shard, level, number);
	*page = (struct block_page){ .number = number, .level = level, .is_used = 1 };
	shard->used++;
	return page;
}

/* Room for one more block in the page's list. */
static int extend(struct block_shard *shard, struct block_page *page)
{
	unsigned int class = slab_class((page->count + 1) * sizeof(struct block));
	struct block *blocks = slab_take(&shard->spares, class);

	if (!blocks)
		return -1;
	if (page->count)
		memcpy(blocks, page->blocks, page->count * sizeof(*blocks));
	give_blocks(shard, page);
	page->blocks = blocks;
	page->capacity = (uint32_t)(slab_bytes(class) / sizeof(*blocks));
	return 0;
}

int block_table_insert(struct block_shard *shard, enum block_level level, uint64_t number,
		       const struct block *block)
{
	struct block_page *page = make_page(shard, level, number);

	if (!page || (page->count == page->capacity && extend(shard, page)))
		return -1;
	block_table_put(shard, page, block_table_count(page, block->address), block);
	return 0;
}

static bool is_page_good(const struct block_page *page)
{
	unsigned int shift = block_table_shift((enum block_level)page->level);

	if (page->count > page->capacity)
		return false;
	for (uint32_t i = 0; i < page->count; i++) {
		const struct block *block = &page->blocks[i];

		if (block->address >> shift > page->number ||
		    (block_table_end(block) - 1) >> shift < page->number)
			return false;
		if (i && block_table_end(block - 1) > block->address)
			return false;
	}
	return true;
}

bool block_table_check(const struct block_shard *shard)
{
	uint32_t used = 0;
	uint64_t count = 0;

	for (uint32_t i = 0; shard->pages && i <= shard->mask; i++) {
		const struct block_page *page = &shard->pages[i];

		if (!page->is_used)
			continue;
		if (!is_page_good(page) ||
		    block_table_find(shard, (enum block_level)page->level, page->number) != page)
			return false;
		used++;
		for (uint32_t j = 0; j < page->count; j++)
			count += block_table_begins(page, &page->blocks[j]);
	}
	return used == shard->used && count == shard->count;
}
