/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.h - whether any call may be refused before the driver is asked, because
 * of --limit or --fail-nth.
 */
#ifndef CUSTODY_INTERCEPT_ROOM_H
#define CUSTODY_INTERCEPT_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic bool room_is_scarce;

/* Without these options this is all that a call pays. */
static inline bool room_is_watched(void)
{
	return __builtin_expect(atomic_load_explicit(&room_is_scarce, memory_order_relaxed), 0);
}

/* Before the first call of the process is begun. */
void room_start(void);

/* Child of fork. */
void room_reset(void);

#endif
