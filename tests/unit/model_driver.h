/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_driver.h - a driver with a device of its own that a test moves by hand.
 *
 * A context counts the pieces of work that were submitted to it and those that
 * are done; an event stands for a number of pieces.  A thing remembers the last
 * piece that may use it.  The model knows what a driver may never be asked, and
 * remembers the first time it was: see model_complaint().
 *
 * Any thread.  All is relaxed atomics, so that ThreadSanitizer sees no order
 * between threads but what the code under test has made.
 */
#ifndef CUSTODY_TESTS_MODEL_DRIVER_H
#define CUSTODY_TESTS_MODEL_DRIVER_H

#include "core/deferq.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum model_function {
	MODEL_CTX_GET_CURRENT,
	MODEL_CTX_PUSH_CURRENT,
	MODEL_CTX_POP_CURRENT,
	MODEL_CTX_RECORD_EVENT,
	MODEL_EXCHANGE_MODE,
	MODEL_EVENT_CREATE,
	MODEL_EVENT_DESTROY,
	MODEL_EVENT_QUERY,
	MODEL_EVENT_SYNCHRONIZE,
	MODEL_STREAM_CREATE,
	MODEL_STREAM_DESTROY,
	MODEL_STREAM_SYNCHRONIZE,
	MODEL_MEM_ALLOC,
	MODEL_MEM_FREE,
	MODEL_MEM_FREE_ASYNC,
	MODEL_MEM_FREE_HOST,
	MODEL_POINTER_GET_ATTRIBUTE,
	MODEL_ARRAY_DESTROY,
	MODEL_MIPMAPPED_ARRAY_DESTROY,
	MODEL_MODULE_UNLOAD,
	MODEL_FUNCTIONS
};

enum {
	MODEL_CONTEXTS = 4,
	MODEL_THINGS = 1 << 17,
	MODEL_TICKS_PER_US = 1000,
};

/* To be handed to deferq_configure(); a test may take functions away. */
extern struct driver model_driver;

/* The world begins anew: nothing allocated, nothing submitted, contexts alive. */
void model_reset(void);

/* Events that were made and not destroyed, those not counted that a program has. */
uint64_t model_live_events(uint32_t context);

/* Whether this thread's captures are as strict as at the beginning. */
bool model_is_mode_restored(void);

/* The first rule that was broken, in a sentence; NULL: none. */
const char *model_complaint(void);
void model_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How often a function was called, and how often one that releases. */
uint64_t model_calls(enum model_function function);
uint64_t model_all_calls(void);

/* Contexts have numbers from 1. */
CUcontext model_context(uint32_t number);
void model_make_current(uint32_t number); /* 0: none */
uint32_t model_current(void);
void model_kill(uint32_t number); /* none of its handles is good any more */

/* Every call that has to do with the context fails with this from now on. */
void model_poison(uint32_t number, CUresult result);

/* Between these no call may have to do with the context. */
void model_forbid(uint32_t number, bool is_forbidden);

/* Work: one more piece; all of it is done; the first `pieces` of it are. */
void model_submit(uint32_t number);
void model_finish(uint32_t number);
void model_finish_some(uint32_t number, uint64_t pieces);
void model_synchronize(uint32_t number); /* as a program does that waits for its context */
uint64_t model_submitted(uint32_t number);
uint64_t model_done(uint32_t number);

/* Time passes by one tick a call of ticks(), and by hand. */
uint64_t model_now(void);
void model_pass_us(uint64_t microseconds);

/*
 * What is allocated: memory, and all else that can be put off.  A stubborn block
 * is one that cuMemFreeAsync refuses whatever it does with others.
 */
uint64_t model_make(uint32_t context, enum deferq_kind kind, uint64_t bytes);
bool model_remake(uint64_t handle); /* a block at an address that is back; false: it is not */
uint32_t model_generation(uint64_t handle); /* how often something was made there */
uint64_t model_next_handle(void);	   /* that model_make() will give */
void model_use_until_now(uint64_t handle); /* all that was submitted may use it */
void model_spoil(uint64_t handle, CUresult result); /* its release fails with that */
uint32_t model_releases(uint64_t handle);  /* calls that released it, failed ones too */
bool model_is_back(uint64_t handle);	   /* the device has its bytes again */
enum deferq_kind model_kind(uint64_t handle);
uint64_t model_bytes(uint64_t handle);
uint32_t model_owner(uint64_t handle);
uint64_t model_used(uint32_t context);	   /* bytes of memory that are not back */

/* The n-th call from now on (from 1) fails with `result`; 0: every call. */
void model_fail(enum model_function function, uint32_t n, CUresult result);
void model_heal(enum model_function function);

/* Called at the start of each call of the function, as another thread might be running. */
void model_interrupt(enum model_function function, void (*interruption)(void));

/* From within an interruption: its own calls may be interrupted as well. */
void model_allow_nesting(void);

/* How a driver may be that has other ideas of cuMemFreeAsync. */
enum model_plain {
	MODEL_PLAIN_WORKS,
	MODEL_PLAIN_REFUSED, /* CUDA_ERROR_INVALID_VALUE */
	MODEL_PLAIN_KEEPS,   /* says yes, and keeps the block for ever */
};
extern enum model_plain model_plain;

/* A capture is live: the test has shut the gate.  No call may be made but a wait. */
void model_capture(bool is_live);

/* Releases that found other work running, and so would wait for it. */
uint64_t model_stalls(void);

/* Waits in event_synchronize() that had something to wait for. */
uint64_t model_waits(void);

/*
 * One thread only, so that what is looked at is its own: calls are made inside
 * the gate and waits outside, and no queue's lock is held.
 */
void model_watch(struct deferq *queue);

#endif
