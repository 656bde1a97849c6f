/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block of many pages is entered page by page from its first one on, each
 * under its own lock; whoever wants such a block asks the page where it begins.
 *
 * Small blocks are hashed by 8 KiB, so that threads whose blocks the driver
 * cuts from one 2 MiB page do not meet at one lock.  What was ever entered into
 * a 2 MiB region stands in `regions`: mostly read, never cleared, and shared by
 * regions of one hash.  It may send a look-up to a page that is empty, never
 * past one that is not.
 */
#include "core/tracker.h"
#include "core/block_table.h"

#include <string.h>

enum {
	SHARDS = 512,
	SHARD_SHIFT = 64 - 9,
	REGIONS = 4096,
	REGION_SHIFT = 64 - 12,
	IDS_AT_ONCE = 64,	 /* a thread takes this many ids from the shared counter */
	PAGES_MOST = 1 << 20,	 /* of 2 MiB, looked at one by one; beyond, all shards are walked */
	MIDDLE_LEAST = 1 << 15,	 /* bytes: a small block has five pages at most */
	LARGE_LEAST = 1 << 30,
};

/* What 2 MiB may hold: a bit for four of its small pages each, and whether blocks of MIDDLE. */
struct region {
	_Atomic uint64_t small;
	_Atomic bool middle;
};

enum { BIT_SHIFT = 2, PAGES_OF_BIT = 1 << BIT_SHIFT };

_Static_assert(MIDDLE_SHIFT - SMALL_SHIFT - BIT_SHIFT == 6, "a region has 64 bits");

static struct block_shard shards[SHARDS];
static struct region regions[REGIONS];
static _Atomic uint64_t next_ids = 1;
_Alignas(64) _Atomic uint32_t tracker_displaced;

/* Threads take ids in batches, so that they do not meet at one counter. */
static __thread struct {
	uint64_t next, end;
} ids __attribute__((tls_model("initial-exec")));

/* Where a block is, its shard locked. */
struct spot {
	struct block_shard *shard;
	struct block_page *page;
	struct block *block;
};

uint64_t tracker_next_id(void)
{
	if (ids.next == ids.end) {
		ids.next = atomic_fetch_add_explicit(&next_ids, IDS_AT_ONCE, memory_order_relaxed);
		ids.end = ids.next + IDS_AT_ONCE;
	}
	return ids.next++;
}

static enum block_level level_of(const struct block *block)
{
	if (block->space == SPACE_ARRAY)
		return LEVEL_ARRAY;
	if (block->space == SPACE_HANDLE)
		return LEVEL_HANDLE;
	if (block->bytes >= LARGE_LEAST)
		return LEVEL_LARGE;
	return block->bytes >= MIDDLE_LEAST ? LEVEL_MIDDLE : LEVEL_SMALL;
}

/* `number` is that of a page of the level. */
static struct block_shard *find_shard(enum block_level level, uint64_t number)
{
	number ^= (uint64_t)level << 60;
	return &shards[number * UINT64_C(0x9e3779b97f4a7c15) >> SHARD_SHIFT];
}

static inline struct block_shard *take_shard(enum block_level level, uint64_t number)
{
	struct block_shard *shard = find_shard(level, number);

	lock_take(&shard->lock);
	return shard;
}

static uint64_t first_page(enum block_level level, const struct block *block)
{
	return block->address >> block_table_shift(level);
}

static uint64_t last_page(enum block_level level, const struct block *block)
{
	return level >= LEVEL_ARRAY ? block->address :
				      (block_table_end(block) - 1) >> block_table_shift(level);
}

/* Of a pending block the first copy is marked, so it counts once. */
static void displace(struct block_shard *shard, struct block_page *page, struct block *block)
{
	if (block->is_pending)
		atomic_fetch_add_explicit(&tracker_displaced, 1, memory_order_relaxed);
	block_table_remove(shard, page, block);
}

/* Take the copy of this very block out of one page; false: it was not there. */
static bool remove_from_page(enum block_level level, uint64_t number, const struct block *block)
{
	struct block_shard *shard = take_shard(level, number);
	struct block_page *page = block_table_find(shard, level, number);
	struct block *found = page ? block_table_overlap(page, block->address,
							 block_table_end(block)) : NULL;
	bool is_there = found && found->id == block->id && found->address == block->address;

	if (is_there)
		displace(shard, page, found);
	lock_give(&shard->lock);
	return is_there;
}

/* The pages behind the first one; whoever took the first copy calls this. */
static void remove_rest(enum block_level level, const struct block *block)
{
	uint64_t last = last_page(level, block);

	for (uint64_t number = first_page(level, block) + 1; number <= last; number++)
		remove_from_page(level, number, block);
}

static void remove_block(const struct block *block)
{
	enum block_level level = level_of(block);

	if (remove_from_page(level, first_page(level, block), block))
		remove_rest(level, block);
}

/* Under the shard's lock: a block other than `block` that overlaps it in this page. */
static struct block *find_stale(const struct block_shard *shard, enum block_level level,
				uint64_t number, const struct block *block)
{
	const struct block_page *page = block_table_find(shard, level, number);
	struct block *found;

	if (!page || !page->count)
		return NULL;
	found = level >= LEVEL_ARRAY ? page->blocks :
				       block_table_overlap(page, block->address,
							   block_table_end(block));
	return found && found->id != block->id ? found : NULL;
}

/*
 * Return with the shard of this page locked and nothing in the page that
 * overlaps `block`.  A stale block is taken out with the lock given, since its
 * pages may be in other shards.
 */
static struct block_shard *clear_page(enum block_level level, uint64_t number,
				      const struct block *block)
{
	for (;;) {
		struct block_shard *shard = take_shard(level, number);
		struct block *found = find_stale(shard, level, number, block);
		struct block stale;

		if (!found)
			return shard;
		stale = *found;
		lock_give(&shard->lock);
		remove_block(&stale);
	}
}

static void clear_pages(enum block_level level, const struct block *block)
{
	uint64_t last = last_page(level, block);

	for (uint64_t number = first_page(level, block); number <= last; number++)
		lock_give(&clear_page(level, number, block)->lock);
}

/* `number` is that of a page of 2 MiB. */
static struct region *find_region(uint64_t number)
{
	return &regions[number * UINT64_C(0x9e3779b97f4a7c15) >> REGION_SHIFT];
}

static uint64_t small_bit(uint64_t number)
{
	return UINT64_C(1) << (number >> BIT_SHIFT & 63);
}

/* Before a block enters a page, so that whoever may find it there knows to look. */
static void mark_region(enum block_level level, uint64_t number)
{
	struct region *region;

	if (level == LEVEL_SMALL) {
		region = find_region(number >> (MIDDLE_SHIFT - SMALL_SHIFT));
		if (!(atomic_load(&region->small) & small_bit(number)))
			atomic_fetch_or(&region->small, small_bit(number));
	} else if (level == LEVEL_MIDDLE) {
		region = find_region(number);
		if (!atomic_load(&region->middle))
			atomic_store(&region->middle, true);
	}
}

/* Small blocks in this 2 MiB that overlap `block` leave. */
static void clear_small(uint64_t number, const struct block *block)
{
	uint64_t seen = atomic_load(&find_region(number)->small);
	uint64_t first = first_page(LEVEL_SMALL, block), last = last_page(LEVEL_SMALL, block);

	for (uint64_t left = seen; left; left &= left - 1) {
		uint64_t at = number << (MIDDLE_SHIFT - SMALL_SHIFT) |
			      (uint64_t)__builtin_ctzll(left) << BIT_SHIFT;

		for (uint64_t end = at + PAGES_OF_BIT; at < end; at++)
			if (at >= first && at <= last)
				lock_give(&clear_page(LEVEL_SMALL, at, block)->lock);
	}
}

/* Blocks of the levels `small` and `middle` that overlap `block` leave. */
static void clear_regions(const struct block *block, bool small, bool middle)
{
	uint64_t last = last_page(LEVEL_MIDDLE, block);

	for (uint64_t number = first_page(LEVEL_MIDDLE, block); number <= last; number++) {
		if (small)
			clear_small(number, block);
		if (middle && atomic_load(&find_region(number)->middle))
			lock_give(&clear_page(LEVEL_MIDDLE, number, block)->lock);
	}
}

/* Take out of every page the blocks for which `is_wanted` holds. */
static void sweep(bool (*is_wanted)(const struct block *, const void *), const void *argument)
{
	for (int i = 0; i < SHARDS; i++) {
		struct block_shard *shard = &shards[i];

		lock_take(&shard->lock);
		for (uint32_t j = 0; shard->pages && j <= shard->mask; j++) {
			struct block_page *page = &shard->pages[j];

			for (uint32_t k = page->count; k-- > 0;)
				if (is_wanted(&page->blocks[k], argument))
					displace(shard, page, &page->blocks[k]);
		}
		lock_give(&shard->lock);
	}
}

static bool is_overlapped(const struct block *block, const void *argument)
{
	const struct block *other = argument;

	return block->space == SPACE_ADDRESS && block->id != other->id &&
	       block->address < block_table_end(other) &&
	       other->address < block_table_end(block);
}

/* Whatever overlaps a large block leaves. */
static void clear_large(const struct block *block)
{
	uint64_t pages = last_page(LEVEL_MIDDLE, block) - first_page(LEVEL_MIDDLE, block);

	if (pages > PAGES_MOST)
		sweep(is_overlapped, block);
	else
		clear_regions(block, true, true);
}

/* Whether a large block may be where this one is, in one or two pages of 1 GiB. */
static inline bool overlaps_large(const struct block *block)
{
	return block_table_has_large(first_page(LEVEL_LARGE, block)) ||
	       block_table_has_large(last_page(LEVEL_LARGE, block));
}

/* What overlaps `block` on other levels than its own leaves. */
static void clear_other_levels(enum block_level level, const struct block *block)
{
	if (level >= LEVEL_ARRAY)
		return;
	if (level == LEVEL_LARGE)
		clear_large(block);
	else
		clear_regions(block, level == LEVEL_MIDDLE, level == LEVEL_SMALL);
	if (level != LEVEL_LARGE && overlaps_large(block))
		clear_pages(LEVEL_LARGE, block);
}

/* Most pages are there, have a place left and nothing stale.  False: nothing was done. */
static inline bool enter_quickly(enum block_level level, uint64_t number,
				 const struct block *block)
{
	struct block_shard *shard = take_shard(level, number);
	struct block_page *page = block_table_find(shard, level, number);
	bool is_entered = false;

	if (page) {
		uint32_t at = block_table_count(page, block->address);

		is_entered = block_table_fits(page, at, block);
		if (is_entered)
			block_table_put(shard, page, at, block);
	}
	lock_give(&shard->lock);
	return is_entered;
}

/* Enter one page's copy. */
static int enter_page(enum block_level level, uint64_t number, const struct block *block)
{
	struct block_shard *shard;
	int failed;

	mark_region(level, number);
	if (enter_quickly(level, number, block))
		return 0;
	shard = clear_page(level, number, block);
	failed = block_table_insert(shard, level, number, block);
	lock_give(&shard->lock);
	return failed;
}

int tracker_add(const struct block *block)
{
	enum block_level level = level_of(block);
	uint64_t first = first_page(level, block), last = last_page(level, block);

	if (last - first > PAGES_MOST)
		return -1;
	clear_other_levels(level, block);
	for (uint64_t number = first; number <= last; number++)
		if (enter_page(level, number, block)) {
			remove_block(block);
			return -1;
		}
	return 0;
}

/* Look in one page, its shard locked. */
static inline bool seek_page(struct spot *spot, enum block_level level, uint64_t address)
{
	spot->page = block_table_find(spot->shard, level, address >> block_table_shift(level));
	spot->block = spot->page ? block_table_cover(spot->page, address) : NULL;
	return spot->block != NULL;
}

/* Lock the shard of `address` in `space` and look for the block that covers it. */
static inline bool hold_level(struct spot *spot, enum block_level level, uint64_t address)
{
	spot->shard = take_shard(level, address >> block_table_shift(level));
	if (seek_page(spot, level, address))
		return true;
	lock_give(&spot->shard->lock);
	return false;
}

/* No two levels hold blocks that overlap, so the first that covers the address is it. */
static inline bool hold_address(struct spot *spot, uint64_t address)
{
	struct region *region = find_region(address >> MIDDLE_SHIFT);

	if (atomic_load(&region->small) & small_bit(address >> SMALL_SHIFT) &&
	    hold_level(spot, LEVEL_SMALL, address))
		return true;
	if (atomic_load(&region->middle) && hold_level(spot, LEVEL_MIDDLE, address))
		return true;
	return block_table_has_large(address >> LARGE_SHIFT) &&
	       hold_level(spot, LEVEL_LARGE, address);
}

/* True: found, and the shard is locked until the caller gives it. */
static inline bool hold(struct spot *spot, enum block_space space, uint64_t address)
{
	switch (space) {
	case SPACE_ARRAY:
		return hold_level(spot, LEVEL_ARRAY, address);
	case SPACE_HANDLE:
		return hold_level(spot, LEVEL_HANDLE, address);
	case SPACE_ADDRESS:
	case SPACE_COUNT:
		break;
	}
	return hold_address(spot, address);
}

/* The same for the block that begins at `address`: the copy that counts. */
static inline bool hold_first(struct spot *spot, enum block_space space, uint64_t address)
{
	if (!hold(spot, space, address))
		return false;
	if (spot->block->address == address)
		return true;
	lock_give(&spot->shard->lock);
	return false;
}

/* With the shard locked, which is given; the copies in later pages go after it. */
static void take_held(const struct spot *spot, struct block *block)
{
	enum block_level level = (enum block_level)spot->page->level;

	*block = *spot->block;
	block_table_remove(spot->shard, spot->page, spot->block);
	lock_give(&spot->shard->lock);
	if (last_page(level, block) != first_page(level, block))
		remove_rest(level, block);
}

bool tracker_take(enum block_space space, uint64_t address, struct block *block)
{
	struct spot spot;

	if (!hold_first(&spot, space, address))
		return false;
	if (spot.block->is_pending) {
		lock_give(&spot.shard->lock);
		return false;
	}
	take_held(&spot, block);
	return true;
}

static bool set_pending(enum block_space space, uint64_t address, uint64_t id, bool is_pending)
{
	struct spot spot;
	bool is_changed;

	if (!hold_first(&spot, space, address))
		return false;
	is_changed = spot.block->id == id && spot.block->is_pending != is_pending;
	if (is_changed)
		spot.block->is_pending = is_pending;
	lock_give(&spot.shard->lock);
	return is_changed;
}

bool tracker_mark_pending(enum block_space space, uint64_t address, uint64_t id)
{
	return set_pending(space, address, id, true);
}

void tracker_unmark_pending(enum block_space space, uint64_t address, uint64_t id)
{
	set_pending(space, address, id, false);
}

bool tracker_remove_pending(enum block_space space, uint64_t address, uint64_t id)
{
	struct block block;
	struct spot spot;

	if (!hold_first(&spot, space, address))
		return false;
	if (spot.block->id != id || !spot.block->is_pending) {
		lock_give(&spot.shard->lock);
		return false;
	}
	take_held(&spot, &block);
	return true;
}

/* A copy in a later page may be old: the first page tells. */
static bool confirm(struct block *block)
{
	uint64_t id = block->id;
	struct spot spot;
	bool is_same;

	if (!hold_first(&spot, SPACE_ADDRESS, block->address))
		return false;
	is_same = spot.block->id == id;
	*block = *spot.block;
	lock_give(&spot.shard->lock);
	return is_same;
}

bool tracker_find(enum block_space space, uint64_t address, struct block *block)
{
	enum block_level level;
	struct spot spot;
	bool is_first;

	if (!hold(&spot, space, address))
		return false;
	*block = *spot.block;
	level = (enum block_level)spot.page->level;
	is_first = first_page(level, block) == spot.page->number;
	lock_give(&spot.shard->lock);
	return is_first || confirm(block);
}

bool tracker_mark_exported(uint64_t address)
{
	struct spot spot;

	if (!hold_first(&spot, SPACE_ADDRESS, address))
		return false;
	spot.block->is_exported = 1;
	lock_give(&spot.shard->lock);
	return true;
}

bool tracker_reference(enum block_space space, uint64_t address, int by, uint32_t *references)
{
	struct spot spot;

	if (!hold_first(&spot, space, address))
		return false;
	spot.block->references = (uint16_t)(spot.block->references + by);
	*references = spot.block->references;
	lock_give(&spot.shard->lock);
	return true;
}

static bool is_of_context(const struct block *block, const void *argument)
{
	return block->context == *(const uint32_t *)argument;
}

void tracker_drop_context(uint32_t context)
{
	if (context)
		sweep(is_of_context, &context);
}

/* One thread is left, and a lock may have been held by another one of the parent. */
void tracker_reset(void)
{
	memset(shards, 0, sizeof(shards));
	memset(regions, 0, sizeof(regions));
	memset(block_table_large, 0, sizeof(block_table_large));
	slab_reset();
}

uint64_t tracker_count(void)
{
	uint64_t count = 0;

	for (int i = 0; i < SHARDS; i++) {
		lock_take(&shards[i].lock);
		count += shards[i].count;
		lock_give(&shards[i].lock);
	}
	return count;
}

void tracker_count_traffic(struct tracker_traffic *traffic)
{
	*traffic = (struct tracker_traffic){ 0 };
	for (int i = 0; i < SHARDS; i++) {
		lock_take(&shards[i].lock);
		traffic->come += shards[i].traffic.come;
		traffic->gone += shards[i].traffic.gone;
		lock_give(&shards[i].lock);
	}
}

static bool any_in_page(const struct block_page *page,
			bool (*is_it)(const struct block *block, void *argument), void *argument)
{
	for (uint32_t i = 0; i < page->count; i++)
		if (block_table_begins(page, &page->blocks[i]) &&
		    is_it(&page->blocks[i], argument))
			return true;
	return false;
}

bool tracker_any(bool (*is_it)(const struct block *block, void *argument), void *argument)
{
	bool is_there = false;

	for (int i = 0; i < SHARDS && !is_there; i++) {
		struct block_shard *shard = &shards[i];

		lock_take(&shard->lock);
		for (uint32_t j = 0; shard->pages && j <= shard->mask && !is_there; j++)
			is_there = any_in_page(&shard->pages[j], is_it, argument);
		lock_give(&shard->lock);
	}
	return is_there;
}

struct walk {
	void (*see)(const struct block *block, void *argument);
	void *argument;
};

static bool see_and_go_on(const struct block *block, void *argument)
{
	const struct walk *walk = argument;

	walk->see(block, walk->argument);
	return false;
}

void tracker_walk(void (*see)(const struct block *block, void *argument), void *argument)
{
	struct walk walk = { see, argument };

	tracker_any(see_and_go_on, &walk);
}

bool tracker_check(void)
{
	bool is_good = true;

	for (int i = 0; i < SHARDS && is_good; i++) {
		lock_take(&shards[i].lock);
		is_good = block_table_check(&shards[i]);
		lock_give(&shards[i].lock);
	}
	return is_good;
}
