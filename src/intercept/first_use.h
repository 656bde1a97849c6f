/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first_use.h - whether a function or an executable graph is used for the first
 * time: the driver may load it then.
 *
 * Looked at in every launch, so the common answer costs one load.  A handle that
 * comes back after an unload counts as known, which loses one weighing.
 */
#ifndef CUSTODY_INTERCEPT_FIRST_USE_H
#define CUSTODY_INTERCEPT_FIRST_USE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { FIRST_USE_BITS = 10 };

/* The last handle seen of those that share a place. */
extern _Atomic uint64_t first_use_seen[1 << FIRST_USE_BITS];

static inline uint32_t first_use_place(uint64_t handle)
{
	return (uint32_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FIRST_USE_BITS));
}

/* False: not seen lately, first_use_note() tells. */
static inline bool first_use_is_past(uint64_t handle)
{
	return __builtin_expect(atomic_load_explicit(&first_use_seen[first_use_place(handle)],
						     memory_order_relaxed) == handle,
				1);
}

/* True: this is the first time.  Of several threads at once one is told so. */
bool first_use_note(uint64_t handle);

/* Child of fork. */
void first_use_reset(void);

#endif
