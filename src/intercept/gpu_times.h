/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_times.h - when devices did what calls asked for, as CUPTI tells it; only
 * where CUSTODY_GPU_TIMES asks for it.
 *
 * CUPTI has one subscriber in a process.  Where the slot is taken, or where the
 * program itself asks for it later, the program goes first: times are missing
 * then, and everything else is as without them.
 */
#ifndef CUSTODY_INTERCEPT_GPU_TIMES_H
#define CUSTODY_INTERCEPT_GPU_TIMES_H

#include "intercept/call.h"

extern _Atomic bool gpu_times_on;

/* All that they cost who has not asked for them. */
static inline bool gpu_times_are_on(void)
{
	return __builtin_expect(atomic_load_explicit(&gpu_times_on, memory_order_relaxed), 0);
}

/* Whether the environment asks for them, on or not. */
bool gpu_times_are_wanted(void);

/* Behind the first cuInit that succeeds. */
void gpu_times_start(struct call *call);

/* Around the real call: what the device does for it carries the call's key. */
void gpu_times_push(const struct call *call);
void gpu_times_pop(void);

/* Have CUPTI hand over what is done, ahead of the end of a context; takes milliseconds. */
void gpu_times_flush(void);

/* The program is about to use CUPTI: leave it to it, for good. */
void gpu_times_give_way(void);

/* Child of fork: CUPTI is its parent's. */
void gpu_times_reset(void);

#endif
