/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit.h - every device looks no larger than --limit says.
 *
 * Used is what the driver says that the device has given away, to whomever.  A
 * call that takes memory of a device is admitted if what it needs fits beside
 * that; what admitted calls have not got yet is claimed, so that two threads do
 * not both get the last page.  No lock is held while the program's call runs.
 */
#ifndef CUSTODY_INTERCEPT_LIMIT_H
#define CUSTODY_INTERCEPT_LIMIT_H

#include "intercept/cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the driver hands out memory in; blocks share what is left of a page. */
#define LIMIT_PAGE (UINT64_C(2) << 20)

extern _Atomic uint64_t limit_bytes; /* whole pages; 0: no limit */

static inline bool limit_is_on(void)
{
	return __builtin_expect(atomic_load_explicit(&limit_bytes, memory_order_relaxed) != 0, 0);
}

/* What a device of `total` bytes has, as the program shall see it. */
static inline uint64_t limit_total(uint64_t total)
{
	uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed);

	return limit && limit < total ? limit : total;
}

/* And what of it is free, where of all of it `is_free` bytes are. */
uint64_t limit_free(uint64_t is_free, uint64_t total);

/* Read what is wanted; true: there is a limit. */
bool limit_start(void);

/* Child of fork. */
void limit_reset(void);

/* What a call wants of a device. */
struct limit_need {
	uint64_t bytes;
	uint64_t pool; /* of a call for pooled memory, 0: the device's current one */
	uint64_t stream;    /* and where it is allocated ... */
	CUdeviceptr *block; /* ... and told */
	int device;    /* ordinal; -1: none that we know, so nothing is limited */
	bool is_pooled;
	bool may_share; /* a page with others */
	bool is_array;
};

/*
 * True: the driver may be asked, then limit_leave() follows on this thread.  That
 * one is told whether the call has succeeded; false: a pool has outgrown the limit
 * by it, the block is freed again, and the call is to be refused after all.
 */
bool limit_admit(const struct limit_need *need);
bool limit_leave(bool has_succeeded);

/* limit_ask.c: what is in use. */
struct limit_memory {
	uint64_t total, used;
};

bool limit_ask_current(struct limit_memory *memory);

/*
 * Of any device: in a context of it, else by what the program is known to have
 * there.  False: that cannot be told.
 */
bool limit_ask(int device, struct limit_memory *memory);

/* Whether the program has a block there. */
bool limit_ask_has_own(int device);

/*
 * limit_share.c, one caller at a time.  Whether a block of less than a page finds
 * room in a page that others of its kind and context have begun; if so, the room
 * is its own.
 */
bool limit_share_take(int device, bool is_array, uint64_t bytes);

/* Such blocks have been given new pages: what was known of pages is so no longer. */
void limit_share_forget(void);

#endif
