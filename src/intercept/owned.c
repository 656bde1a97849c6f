/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/owned.h"
#include "core/lock.h"

/* Beyond this many, blocks end with their context or the program. */
enum { OWNED = 4096 };

static struct owned {
	uint64_t owner;	    /* 0: free slot */
	struct block block; /* what was entered; while `is_out`, what was taken out */
	bool is_out;
} list[OWNED];
static uint32_t slots_used;
static struct lock lock;

void owned_add(uint64_t owner, uint64_t address, uint64_t id)
{
	uint32_t i = 0;

	lock_take(&lock);
	while (i < slots_used && list[i].owner)
		i++;
	if (i < OWNED) {
		list[i] = (struct owned){ owner, { .address = address, .id = id }, false };
		if (i == slots_used)
			slots_used++;
	}
	lock_give(&lock);
}

/* Unless its address means something else by now. */
static void take_out(struct owned *owned)
{
	struct block block;
	uint64_t id = owned->block.id, address = owned->block.address;

	if (tracker_find(SPACE_ADDRESS, address, &block) && block.id == id)
		owned->is_out = tracker_take(SPACE_ADDRESS, address, &owned->block);
}

void owned_take(uint64_t owner)
{
	if (!owner)
		return;
	lock_take(&lock);
	for (uint32_t i = 0; i < slots_used; i++)
		if (list[i].owner == owner)
			take_out(&list[i]);
	lock_give(&lock);
}

void owned_put_back(uint64_t owner)
{
	lock_take(&lock);
	for (uint32_t i = 0; owner && i < slots_used; i++) {
		if (list[i].owner != owner || !list[i].is_out)
			continue;
		tracker_add(&list[i].block);
		list[i].is_out = false;
	}
	lock_give(&lock);
}

/* Its slot is given up; false: that was all. */
static bool forget_one(uint64_t owner, struct owned *owned)
{
	bool is_found = false;

	lock_take(&lock);
	for (uint32_t i = 0; i < slots_used && !is_found; i++) {
		if (list[i].owner != owner)
			continue;
		*owned = list[i];
		list[i].owner = 0;
		is_found = true;
	}
	lock_give(&lock);
	return is_found;
}

bool owned_next(uint64_t owner, struct block *block)
{
	struct owned owned;

	while (owner && forget_one(owner, &owned)) {
		if (!owned.is_out)
			continue;
		*block = owned.block;
		return true;
	}
	return false;
}

void owned_reset(void)
{
	slots_used = 0;
	lock_give(&lock);
}
