/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending.h - is this address in a block that was freed and is not released yet?
 *
 * Asked ahead of every copy, and nearly always answered no by one or two loads:
 * counts by page say where pending blocks may be, the tracker knows whether one
 * is there.
 */
#ifndef CUSTODY_CORE_PENDING_H
#define CUSTODY_CORE_PENDING_H

#include "core/tracker.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	PENDING_SLOTS = 1024,
	PENDING_SMALL_SHIFT = 21, /* pages of 2 MiB ... */
	PENDING_LARGE_SHIFT = 30, /* ... and of 1 GiB, for blocks of 32 MiB and more */
	PENDING_LARGE_LEAST = 1 << 25,
};

extern _Atomic uint32_t pending_total; /* blocks pending in the process */
extern _Atomic uint32_t pending_large; /* large ones among them */
extern _Atomic uint32_t pending_small_pages[PENDING_SLOTS];
extern _Atomic uint32_t pending_large_pages[PENDING_SLOTS];

static inline uint32_t pending_slot(uint64_t address, unsigned int shift)
{
	return (uint32_t)((address >> shift) * UINT64_C(0x9e3779b97f4a7c15) >> 54);
}

/* False: the address is in no pending block.  True: it may be. */
static inline bool pending_is_possible(uint64_t address)
{
	if (__builtin_expect(atomic_load_explicit(&pending_total, memory_order_relaxed) == 0, 1))
		return false;
	return atomic_load_explicit(
		       &pending_small_pages[pending_slot(address, PENDING_SMALL_SHIFT)],
		       memory_order_relaxed) ||
	       (atomic_load_explicit(&pending_large, memory_order_relaxed) &&
		atomic_load_explicit(
			&pending_large_pages[pending_slot(address, PENDING_LARGE_SHIFT)],
			memory_order_relaxed));
}

/* Whether a block [address, address + bytes) may overlap a pending one. */
bool pending_may_overlap(uint64_t address, uint64_t bytes);

/* The pending block that covers `address`, or is that handle; false: there is none. */
bool pending_find(enum block_space space, uint64_t address, struct block *block);

/*
 * The program has freed `block`, a copy of the tracker's entry; marks the entry
 * too.  False: somebody was faster.  pending_cancel() takes that back (the
 * driver must have the free now); pending_close() ends it: the entry leaves the
 * tracker if it is there still.  Each pending block is closed or cancelled by
 * one caller.
 */
bool pending_begin(const struct block *block);
void pending_cancel(const struct block *block);
void pending_close(enum block_space space, uint64_t address, uint64_t bytes, uint64_t id);

/* Child of fork. */
void pending_reset(void);

#endif
