/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.h - a lock of one word, unlocked when zero.
 *
 * Not a pthread mutex because a child of fork must be able to throw away a lock
 * that a thread of its parent held: writing zero does it, and so does a page
 * with MADV_WIPEONFORK.  Sections under it are short.  A few call the driver or
 * CUPTI meanwhile: nothing that these call back takes the same lock, and none loads
 * a library or looks up a symbol, since who waits may hold the loader's lock.
 */
#ifndef CUSTODY_CORE_LOCK_H
#define CUSTODY_CORE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lock {
	_Atomic uint32_t word; /* 1: held */
};

static inline bool lock_try(struct lock *lock)
{
	uint32_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
						       memory_order_acquire,
						       memory_order_relaxed);
}

/* Spin, then yield, then sleep until the lock is ours. */
void lock_wait(struct lock *lock);

static inline void lock_take(struct lock *lock)
{
	if (__builtin_expect(!lock_try(lock), 0))
		lock_wait(lock);
}

static inline void lock_give(struct lock *lock)
{
	atomic_store_explicit(&lock->word, 0, memory_order_release);
}

#endif
