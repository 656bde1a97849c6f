/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.h - when a reading of our own accord is due.
 *
 * At most one per device in an interval, which grows with the time that the
 * process has run: a run of any length has a few thousand.  A wrapper asks with
 * the time stamp that it has taken anyway; the answer costs two loads.
 */
#ifndef CUSTODY_INTERCEPT_PACE_H
#define CUSTODY_INTERCEPT_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Ticks of the last reading that was due, and how many of them until the next look. */
extern _Atomic uint64_t pace_last, pace_gap;

/*
 * Whether it is worth to call pace_claim().  A clock that has been left for
 * another, or has stepped back, makes a great difference, and so a look.
 */
static inline bool pace_is_over(uint64_t ticks)
{
	uint64_t last = atomic_load_explicit(&pace_last, memory_order_relaxed);
	uint64_t gap = atomic_load_explicit(&pace_gap, memory_order_relaxed);

	return __builtin_expect(ticks - last >= gap, 0);
}

/* True: the caller, whose clock (enum clock_mode) this is, takes the device's reading now. */
bool pace_claim(int device, uint32_t clock);

/* Child of fork: its run begins with its own first reading. */
void pace_reset(void);

#endif
