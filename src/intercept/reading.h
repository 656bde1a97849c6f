/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reading.h - what the driver itself says of the memory of a device, as records.
 *
 * A reading is cuMemGetInfo's answer and what pools and graphs have reserved, on
 * the device of the current context, taken during a call of the program and past
 * every wrapper.  While a capture is live none is taken, but that of the program's
 * own question, which then knows nothing of pools and graphs.  Beside the
 * program's questions readings are taken around calls that make the driver take
 * memory of its own ("weighed" in driver.tbl), when memory has run out, when a
 * context or the process ends, and now and then behind calls that take or give
 * back memory, or wait for the device.
 */
#ifndef CUSTODY_INTERCEPT_READING_H
#define CUSTODY_INTERCEPT_READING_H

#include "intercept/call.h"
#include "intercept/first_use.h"
#include "intercept/pace.h"

/* The program's own question, answered by the driver. */
void reading_asked(struct call *call, uint64_t is_free, uint64_t total);

/* Of our own accord, behind a call that is recorded already. */
void reading_take_quiet(struct call *call);

static inline void reading_quiet(struct call *call)
{
	if (pace_is_over(call->start + call->ticks))
		reading_take_quiet(call);
}

/* The call has failed, and the program is told. */
void reading_take_out_of_memory(struct call *call);

static inline void reading_out_of_memory(struct call *call)
{
	if (__builtin_expect(call->result == CUDA_ERROR_OUT_OF_MEMORY, 0))
		reading_take_out_of_memory(call);
}

/*
 * A function of the driver whose weighings have shown no change so many times in
 * a row is weighed no more.  What is used for the first time is so but once, and
 * small functions share pages: there it takes longer.  It takes longer too where
 * the change may be that of blocks which other threads have made or freed meanwhile.
 */
enum { READING_IDLE = 64, READING_IDLE_FIRST = 1024, READING_UNCLEAR = 16 };

/* Weighings in a row without a change, READING_UNCLEAR each, and unclear ones, 1 each. */
extern _Atomic uint16_t reading_idle[API_COUNT];

static inline bool reading_is_worth(uint16_t api, unsigned int idle)
{
	return atomic_load_explicit(&reading_idle[api], memory_order_relaxed) <
	       idle * READING_UNCLEAR;
}

/* Ahead of the driver; `idle` tells when it is no longer worth it. */
void reading_weigh(struct call *call, enum reading_weighed weighed, unsigned int idle);

/* A new context cannot be weighed ahead: its hook says that there is one. */
static inline void reading_before(struct call *call, enum reading_weighed weighed)
{
	call->weighed = WEIGHED_NOTHING;
	if (weighed != WEIGHED_CONTEXT && reading_is_worth(call->api, READING_IDLE))
		reading_weigh(call, weighed, READING_IDLE);
}

static inline void reading_before_first(struct call *call, enum reading_weighed weighed,
					uint64_t handle)
{
	call->weighed = WEIGHED_NOTHING;
	if (!first_use_is_past(handle) && first_use_note(handle))
		reading_weigh(call, weighed, READING_IDLE_FIRST);
}

/* The program has made this context; the reading behind the call is one of it. */
static inline void reading_expect_context(struct call *call, uint64_t handle)
{
	call->weighed = WEIGHED_CONTEXT;
	call->weighed_at = handle;
}

/* Behind the driver, when the call itself is recorded or counted. */
void reading_weigh_again(struct call *call);

static inline void reading_after(struct call *call)
{
	if (__builtin_expect(call->weighed != WEIGHED_NOTHING, 0))
		reading_weigh_again(call);
}

/*
 * What we make for ourselves, or do later for the program, is weighed during
 * whichever call it happens in; `own` is no more than what the two tell each
 * other.  The context that counts is current.
 */
void reading_own_before(struct call *own, enum api api, enum reading_weighed weighed);
void reading_own_after(struct call *own);

/* Ahead of a call that may end a context, by number; certainly, or only perhaps. */
void reading_before_end(struct call *call, uint32_t context, bool is_certain);

/* The driver is up: read once more when the process ends, while it still answers. */
void reading_arm_exit(void);

/* Child of fork. */
void reading_reset(void);

#endif
