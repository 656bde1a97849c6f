/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.h - physical memory that is held by something else than a mapping at an
 * address: bound to a multicast object, or behind a part of a sparse array.
 * Like a mapping each such part keeps the memory of a handle from going.
 */
#ifndef CUSTODY_INTERCEPT_HOLD_H
#define CUSTODY_INTERCEPT_HOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { HOLD_EXTENTS = 3 };

/* A part of what holds; planes are told apart, inside of one lie boxes.  Plane 0: unknown. */
struct hold_part {
	uint32_t plane[2];
	uint64_t from[HOLD_EXTENTS], size[HOLD_EXTENTS];
};

/* How many there are, so that programs without any do not look. */
extern _Atomic uint32_t hold_count;

/*
 * `part` of `holder` holds the memory of the handle `memory`, until `context`
 * (0: none) ends at the latest.  False: there is no room to remember it.
 */
bool hold_add(uint64_t holder, uint64_t memory, uint32_t context, const struct hold_part *part);

/* Take out one whose part lies within `part` (NULL: any) of this holder; false: there is none. */
bool hold_take(uint64_t holder, const struct hold_part *part, uint64_t *memory);

/* Take out one that ends with this context. */
bool hold_take_context(uint32_t context, uint64_t *memory);

/* Whether this holds anything. */
bool hold_has(uint64_t holder);

/* Child of fork. */
void hold_reset(void);

#endif
