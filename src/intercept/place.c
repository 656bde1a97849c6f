/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/place.h"

#include <stdatomic.h>
#include <stddef.h>

/*
 * Handle and place in one word, and whether a pool is managed, so that an entry is there
 * or not; open addressing.  A handle that finds no room is not known, as one never noted.
 */
enum { ENTRIES = 4096, HOME_SHIFT = 52, TRIES = 64, PLACE_BITS = 16, IS_MANAGED = 1 << 15 };

struct places {
	_Atomic uint64_t entry[ENTRIES];
};

static struct places streams, pools;

static size_t home_of(uint64_t handle)
{
	return handle * UINT64_C(0x9e3779b97f4a7c15) >> HOME_SHIFT;
}

/* Handles are addresses of the driver's own; one that is none does not fit. */
static bool is_noteworthy(uint64_t handle)
{
	return handle && !(handle >> (64 - PLACE_BITS));
}

static void note(struct places *places, uint64_t handle, int device, uint16_t flags)
{
	uint64_t entry = handle << PLACE_BITS | (uint16_t)(device - PLACE_NOT_KNOWN) | flags;
	size_t at = home_of(handle);

	for (int tries = 0; is_noteworthy(handle) && tries < TRIES; tries++) {
		uint64_t there = atomic_load_explicit(&places->entry[at], memory_order_relaxed);

		while (!there || there >> PLACE_BITS == handle)
			if (atomic_compare_exchange_weak_explicit(&places->entry[at], &there, entry,
								  memory_order_relaxed,
								  memory_order_relaxed))
				return;
		at = (at + 1) % ENTRIES;
	}
}

/* The lower bits of its entry; 0, a place that is not known, where there is none. */
static uint16_t find(struct places *places, uint64_t handle)
{
	size_t at = home_of(handle);

	for (int tries = 0; tries < TRIES; tries++) {
		uint64_t entry = atomic_load_explicit(&places->entry[at], memory_order_relaxed);

		if (!entry)
			break;
		if (entry >> PLACE_BITS == handle)
			return (uint16_t)entry;
		at = (at + 1) % ENTRIES;
	}
	return 0;
}

static int find_place(struct places *places, uint64_t handle)
{
	return (find(places, handle) & (IS_MANAGED - 1)) + PLACE_NOT_KNOWN;
}

void place_note_stream(uint64_t stream, int device)
{
	note(&streams, stream, device, 0);
}

void place_note_pool(uint64_t pool, int device, bool is_managed)
{
	note(&pools, pool, device, is_managed ? IS_MANAGED : 0);
}

int place_of_stream(uint64_t stream)
{
	return find_place(&streams, stream);
}

int place_of_pool(uint64_t pool)
{
	return find_place(&pools, pool);
}

bool place_is_managed(uint64_t pool)
{
	return find(&pools, pool) & IS_MANAGED;
}

int place_of_location(const CUmemLocation *location)
{
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return location->id;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return PLACE_ON_HOST;
	default:
		return PLACE_NOT_KNOWN;
	}
}

static void forget(struct places *places)
{
	for (size_t i = 0; i < ENTRIES; i++)
		if (atomic_load_explicit(&places->entry[i], memory_order_relaxed))
			atomic_store_explicit(&places->entry[i], 0, memory_order_relaxed);
}

void place_reset(void)
{
	forget(&streams);
	forget(&pools);
}
