/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tracker.h"
#include "intercept/current.h"
#include "intercept/limit.h"

enum { SHARED_PAGES = 1024, GRANULE = 512, PAGE_SHIFT = 21 };

/*
 * What linear blocks take of pages that they do not fill, by page in open
 * addressing; and small arrays, whose addresses nobody knows, in all.
 */
struct shared {
	int device;
	uint32_t context;
	uint32_t count;
	bool is_known;
	struct tracker_traffic traffic; /* when that was so, and ... */
	uint64_t taken;			/* ... what has been promised until then */
	uint64_t array_bytes;
	struct {
		uint64_t page;
		uint64_t bytes;
	} pages[SHARED_PAGES];
};

static void take_of_page(struct shared *shared, uint64_t page, uint64_t bytes)
{
	uint64_t at = page * UINT64_C(0x9e3779b97f4a7c15) >> 54;

	while (shared->pages[at].page && shared->pages[at].page != page)
		at = (at + 1) % SHARED_PAGES;
	if (!shared->pages[at].page && shared->count++ > SHARED_PAGES / 2)
		return; /* so many pages are enough to tell */
	shared->pages[at].page = page;
	shared->pages[at].bytes += bytes;
}

/* The first and the last page; those between are the block's own. */
static void take_of_pages(struct shared *shared, const struct block *block)
{
	uint64_t bytes = (block->bytes + GRANULE - 1) / GRANULE * GRANULE;
	uint64_t end = block->address + bytes, first = block->address >> PAGE_SHIFT;
	uint64_t last = (end - 1) >> PAGE_SHIFT;

	if (!bytes)
		return;
	if (first == last) {
		take_of_page(shared, first, bytes);
		return;
	}
	take_of_page(shared, first, LIMIT_PAGE - block->address % LIMIT_PAGE);
	take_of_page(shared, last, end - (last << PAGE_SHIFT));
}

static void add_shared(const struct block *block, void *argument)
{
	struct shared *shared = argument;

	if (block->device != shared->device || block->context != shared->context)
		return;
	if (block->kind == BLOCK_DEVICE || block->kind == BLOCK_PITCH)
		take_of_pages(shared, block);
	else if (block->kind == BLOCK_ARRAY && block->bytes < LIMIT_PAGE && !block->parent)
		shared->array_bytes += block->bytes;
}

/* What was found; what has been promised since then is taken of it. */
static struct shared found;
static uint64_t taken; /* rooms, ever */

void limit_share_forget(void)
{
	found.is_known = false;
}

static void look_for_shared(int device, uint32_t context)
{
	found = (struct shared){
		.device = device,
		.context = context,
		.is_known = true,
		.taken = taken,
	};
	tracker_count_traffic(&found.traffic);
	tracker_walk(add_shared, &found);
}

static bool is_known_of(int device, uint32_t context)
{
	return found.is_known && found.device == device && found.context == context;
}

/*
 * Blocks that leave make room, and so do blocks that come, but for those whose
 * room was promised: without either, nothing is found that was not found before.
 */
static bool has_changed(void)
{
	struct tracker_traffic now;

	tracker_count_traffic(&now);
	return now.gone != found.traffic.gone ||
	       now.come - found.traffic.come > taken - found.taken;
}

static bool find_room(bool is_array, uint64_t bytes)
{
	if (is_array) {
		found.array_bytes %= LIMIT_PAGE;
		if (!found.array_bytes || found.array_bytes + bytes > LIMIT_PAGE)
			return false;
		found.array_bytes += bytes;
		return true;
	}
	for (int i = 0; i < SHARED_PAGES; i++) {
		if (!found.pages[i].page || found.pages[i].bytes + bytes > LIMIT_PAGE)
			continue;
		found.pages[i].bytes += bytes;
		return true;
	}
	return false;
}

static bool take_room(bool is_array, uint64_t bytes)
{
	bool is_taken = find_room(is_array, bytes);

	taken += is_taken;
	return is_taken;
}

/* All blocks are looked at once for many calls: there may be very many. */
bool limit_share_take(int device, bool is_array, uint64_t bytes)
{
	uint32_t context = current_number();

	bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
	if (is_known_of(device, context)) {
		if (take_room(is_array, bytes))
			return true;
		if (!has_changed())
			return false;
	}
	look_for_shared(device, context);
	return take_room(is_array, bytes);
}
