/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/hold.h"
#include "core/lock.h"

#include <stddef.h>

/* Beyond this many, memory counts as free when its handle is released. */
enum { HOLDS = 8192 };

static struct hold {
	uint64_t holder; /* 0: free slot */
	uint64_t memory;
	uint32_t context;
	struct hold_part part;
} holds[HOLDS];
static uint32_t slots_used;
static struct lock lock;
_Atomic uint32_t hold_count;

bool hold_add(uint64_t holder, uint64_t memory, uint32_t context, const struct hold_part *part)
{
	uint32_t i = 0;
	bool has_room;

	lock_take(&lock);
	while (i < slots_used && holds[i].holder)
		i++;
	has_room = i < HOLDS && holder;
	if (has_room) {
		holds[i] = (struct hold){ holder, memory, context, *part };
		slots_used += i == slots_used;
		atomic_fetch_add(&hold_count, 1);
	}
	lock_give(&lock);
	return has_room;
}

static bool lies_within(const struct hold_part *part, const struct hold_part *whole)
{
	for (int i = 0; i < 2; i++)
		if (part->plane[i] && whole->plane[i] && part->plane[i] != whole->plane[i])
			return false;
	for (int i = 0; i < HOLD_EXTENTS; i++)
		if (part->from[i] < whole->from[i] ||
		    part->from[i] + part->size[i] > whole->from[i] + whole->size[i])
			return false;
	return true;
}

static bool is_meant(const struct hold *hold, uint64_t holder, uint32_t context,
		     const struct hold_part *part)
{
	if (!hold->holder)
		return false;
	if (context)
		return hold->context == context;
	return hold->holder == holder && (!part || lies_within(&hold->part, part));
}

static bool take(uint64_t holder, uint32_t context, const struct hold_part *part, uint64_t *memory)
{
	bool is_found = false;

	if (!atomic_load_explicit(&hold_count, memory_order_relaxed))
		return false;
	lock_take(&lock);
	for (uint32_t i = 0; i < slots_used && !is_found; i++) {
		if (!is_meant(&holds[i], holder, context, part))
			continue;
		*memory = holds[i].memory;
		holds[i].holder = 0;
		atomic_fetch_sub(&hold_count, 1);
		is_found = true;
	}
	lock_give(&lock);
	return is_found;
}

bool hold_take(uint64_t holder, const struct hold_part *part, uint64_t *memory)
{
	return take(holder, 0, part, memory);
}

bool hold_take_context(uint32_t context, uint64_t *memory)
{
	return context && take(0, context, NULL, memory);
}

bool hold_has(uint64_t holder)
{
	bool is_found = false;

	if (!atomic_load_explicit(&hold_count, memory_order_relaxed))
		return false;
	lock_take(&lock);
	for (uint32_t i = 0; i < slots_used && !is_found; i++)
		is_found = holds[i].holder == holder;
	lock_give(&lock);
	return is_found;
}

void hold_reset(void)
{
	slots_used = 0;
	atomic_store_explicit(&hold_count, 0, memory_order_relaxed);
	lock_give(&lock);
}
