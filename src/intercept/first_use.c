/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/first_use.h"

#include <stddef.h>

/*
 * All handles seen; open addressing, nothing is taken out.  When it gets full it
 * begins anew, and what is used still counts as new once more.
 */
enum { BITS = 15, ENTRIES = 1 << BITS, FULL = ENTRIES / 4 * 3 };

_Atomic uint64_t first_use_seen[1 << FIRST_USE_BITS];

static _Atomic uint64_t entries[ENTRIES];
static _Atomic uint32_t count;

static size_t home_of(uint64_t handle)
{
	return handle * UINT64_C(0x9e3779b97f4a7c15) >> (64 - BITS);
}

static void forget_all(void)
{
	for (size_t i = 0; i < ENTRIES; i++)
		atomic_store_explicit(&entries[i], 0, memory_order_relaxed);
	atomic_store_explicit(&count, 0, memory_order_relaxed);
}

/* True: it was not there.  While another thread forgets all, anything may be said. */
static bool enter(uint64_t handle)
{
	size_t at = home_of(handle);

	for (size_t tries = 0; tries < ENTRIES; tries++) {
		uint64_t there = atomic_load_explicit(&entries[at], memory_order_relaxed);

		if (!there && atomic_compare_exchange_strong_explicit(&entries[at], &there, handle,
								      memory_order_relaxed,
								      memory_order_relaxed))
			return true;
		if (there == handle)
			return false;
		at = (at + 1) % ENTRIES;
	}
	return false;
}

bool first_use_note(uint64_t handle)
{
	bool is_first = handle && enter(handle);

	if (is_first && atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) >= FULL)
		forget_all();
	atomic_store_explicit(&first_use_seen[first_use_place(handle)], handle,
			      memory_order_relaxed);
	return is_first;
}

void first_use_reset(void)
{
	forget_all();
	for (size_t i = 0; i < 1 << FIRST_USE_BITS; i++)
		atomic_store_explicit(&first_use_seen[i], 0, memory_order_relaxed);
}
