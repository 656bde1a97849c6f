/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pending.h"

#include <string.h>

_Atomic uint32_t pending_total;
_Atomic uint32_t pending_large;
_Atomic uint32_t pending_small_pages[PENDING_SLOTS];
_Atomic uint32_t pending_large_pages[PENDING_SLOTS];

static uint64_t last_byte(uint64_t address, uint64_t bytes)
{
	return address + (bytes ? bytes - 1 : 0);
}

/* Add `by` to every page of a size that the block touches. */
static void count_pages(_Atomic uint32_t *pages, unsigned int shift, uint64_t address,
			uint64_t bytes, uint32_t by)
{
	uint64_t last = last_byte(address, bytes) >> shift;

	for (uint64_t page = address >> shift; page <= last; page++)
		atomic_fetch_add_explicit(&pages[pending_slot(page << shift, shift)], by,
					  memory_order_relaxed);
}

/* Handles are looked up by nobody's copy: only addresses are counted by page. */
static void count_block(enum block_space space, uint64_t address, uint64_t bytes, uint32_t by)
{
	if (space == SPACE_ADDRESS && bytes >= PENDING_LARGE_LEAST) {
		atomic_fetch_add_explicit(&pending_large, by, memory_order_relaxed);
		count_pages(pending_large_pages, PENDING_LARGE_SHIFT, address, bytes, by);
	} else if (space == SPACE_ADDRESS) {
		count_pages(pending_small_pages, PENDING_SMALL_SHIFT, address, bytes, by);
	}
	atomic_fetch_add_explicit(&pending_total, by, memory_order_relaxed);
}

static bool any_page(_Atomic uint32_t *pages, unsigned int shift, uint64_t address, uint64_t bytes)
{
	uint64_t last = last_byte(address, bytes) >> shift;
	uint64_t page = address >> shift;

	if (last - page >= PENDING_SLOTS)
		return true;
	for (; page <= last; page++)
		if (atomic_load_explicit(&pages[pending_slot(page << shift, shift)],
					 memory_order_relaxed))
			return true;
	return false;
}

bool pending_may_overlap(uint64_t address, uint64_t bytes)
{
	if (!atomic_load_explicit(&pending_total, memory_order_relaxed))
		return false;
	return any_page(pending_small_pages, PENDING_SMALL_SHIFT, address, bytes) ||
	       (atomic_load_explicit(&pending_large, memory_order_relaxed) &&
		any_page(pending_large_pages, PENDING_LARGE_SHIFT, address, bytes));
}

bool pending_find(enum block_space space, uint64_t address, struct block *block)
{
	if (space == SPACE_ADDRESS && !pending_is_possible(address))
		return false;
	return tracker_find(space, address, block) && block->is_pending;
}

/* Counted before it is marked: whoever sees the mark finds the count. */
bool pending_begin(const struct block *block)
{
	enum block_space space = (enum block_space)block->space;

	count_block(space, block->address, block->bytes, 1);
	if (tracker_mark_pending(space, block->address, block->id))
		return true;
	count_block(space, block->address, block->bytes, UINT32_MAX);
	return false;
}

void pending_cancel(const struct block *block)
{
	enum block_space space = (enum block_space)block->space;

	tracker_unmark_pending(space, block->address, block->id);
	count_block(space, block->address, block->bytes, UINT32_MAX);
}

void pending_close(enum block_space space, uint64_t address, uint64_t bytes, uint64_t id)
{
	tracker_remove_pending(space, address, id);
	count_block(space, address, bytes, UINT32_MAX);
}

void pending_reset(void)
{
	atomic_store_explicit(&pending_total, 0, memory_order_relaxed);
	atomic_store_explicit(&pending_large, 0, memory_order_relaxed);
	memset(pending_small_pages, 0, sizeof(pending_small_pages));
	memset(pending_large_pages, 0, sizeof(pending_large_pages));
}
