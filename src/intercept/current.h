/* SPDX-License-Identifier: Apache-2.0 */
/*
 * current.h - the current context of this thread, as a number of context.h.
 *
 * Kept by the hooks of the calls that change it.  cudart can change it through
 * the driver's private tables, past every hook; calls that make blocks
 * therefore ask the driver, which takes 15 ns.
 */
#ifndef CUSTODY_INTERCEPT_CURRENT_H
#define CUSTODY_INTERCEPT_CURRENT_H

#include "intercept/call.h"

struct current {
	uint64_t handle;
	uint32_t epoch; /* of current_epoch when this was true; 0: unknown */
	uint32_t number; /* of the context whose memory it is */
	uint32_t view;	 /* of the green context that is current over that memory; else the same */
	int16_t device; /* ordinal, -1 unknown */
};

extern __thread struct current current __attribute__((tls_model("initial-exec")));

/* Rises when a context dies, from 1. */
extern _Atomic uint32_t current_epoch;

/* Ask the driver which context is current; number 0 if there is none. */
const struct current *current_ask(void);

/* What the hooks have kept, where that is good; good enough for all but blocks of a context. */
static inline const struct current *current_kept(void)
{
	uint32_t epoch = atomic_load_explicit(&current_epoch, memory_order_relaxed);

	return __builtin_expect(current.epoch == epoch, 1) ? &current : current_ask();
}

static inline uint32_t current_number(void)
{
	return current_kept()->number;
}

/* The program has made `handle` current, or told us that it is. */
void current_set(uint64_t handle);

/* It is unknown what is current. */
static inline void current_forget(void)
{
	current.epoch = 0;
}

/*
 * A context that the program has got hold of: its number, with a record of it
 * and of its device if it is new.  `device` -1: that of the current context.
 */
uint32_t current_meet(uint64_t handle, int device, bool is_primary);

/* The same for the view of a green context. */
uint32_t current_meet_green(uint64_t view, int device);

/* A context has died; its number, 0 if it was not known. */
uint32_t current_bury(uint64_t handle);

/* A green context has, which has no memory to take with it. */
void current_bury_green(uint64_t view);

/* Child of fork: no device has been recorded yet. */
void current_reset(void);

#endif
