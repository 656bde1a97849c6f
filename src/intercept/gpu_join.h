/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_join.h - which call caused what a device did.  CUPTI numbers the calls and
 * says in a record of its own what key we gave one; mostly ahead of the work, but
 * a buffer may end between the two.  Nothing here takes a lock.
 */
#ifndef CUSTODY_INTERCEPT_GPU_JOIN_H
#define CUSTODY_INTERCEPT_GPU_JOIN_H

#include "core/record.h"

#include <stdbool.h>

enum { GPU_JOIN_SLOTS = 1 << 17, GPU_JOIN_WAITING = 1024 };

struct gpu_join {
	/* The latest calls, by the low bits of their number. */
	struct {
		uint64_t key;
		uint32_t correlation; /* 0: none */
	} slot[GPU_JOIN_SLOTS];

	/* Work whose call was not known when its buffer came. */
	struct {
		struct record record;
		uint32_t correlation;
	} waiting[GPU_JOIN_WAITING];
	uint32_t waits;
};

void gpu_join_note(struct gpu_join *join, uint32_t correlation, uint64_t key);

/* The key of the call; 0: not known. */
uint64_t gpu_join_find(const struct gpu_join *join, uint32_t correlation);

/*
 * Keep the record until the next buffer has told of its calls.  False: there is no
 * room.
 */
bool gpu_join_wait(struct gpu_join *join, uint32_t correlation, const struct record *record);

/* Take one that waits, the key in its field `stream`; 0 where the call stays unknown. */
bool gpu_join_take(struct gpu_join *join, struct record *record);

#endif
