/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferral.h - frees of the program that are put off: its side of deferq.h.
 *
 * Under the policy `immediate` nothing here does anything.  Else a free of a
 * block that we know goes into the queue of the block's own context; where the
 * queue will not have it, it goes to the driver as ever.  What a queue releases
 * meanwhile is told by whoever made it do so.
 *
 * Where libcustody works through this copy of the frame there are queues under
 * `immediate` too.  What its threads free on its behalf is put off without a wait
 * under any policy; all other frees follow the policy as if it were not there.
 */
#ifndef CUSTODY_INTERCEPT_DEFERRAL_H
#define CUSTODY_INTERCEPT_DEFERRAL_H

#include "intercept/cuda_abi.h" /* ahead of core's own view of cuda.h */

#include "core/deferq.h"
#include "core/pending.h"
#include "intercept/call.h"

enum deferral_policy { DEFERRAL_IMMEDIATE, DEFERRAL_DEFERRED, DEFERRAL_NOWAIT };

/* Beside an enum deferral_policy: there are queues whatever it is. */
enum { DEFERRAL_FOR_LIBRARY = 1 << 2 };

extern _Atomic uint32_t deferral_policy;

/* Whether there are queues. */
static inline bool deferral_is_on(void)
{
	return atomic_load_explicit(&deferral_policy, memory_order_relaxed) != DEFERRAL_IMMEDIATE;
}

/* Before the first call of the process is begun. */
void deferral_start(void);

/* From now on there are queues, for contexts that are met from now on. */
void deferral_serve_library(void);

/* What this thread frees is the library's. */
extern __thread bool deferral_is_library __attribute__((tls_model("initial-exec")));

/* Limits of all queues, those to come too. */
void deferral_limits(struct deferq_limits *limits);
void deferral_set_limits(const struct deferq_limits *limits);

/* A context is met for the first time: open its queue. */
void deferral_meet(uint64_t handle, uint32_t number, int device);

/*
 * The context may die in the driver call to come: nothing of ours touches it
 * from now on.  It then has not died, or it has, and what is queued goes with it.
 */
void deferral_suspend(uint32_t context, bool is_certain);
void deferral_resume(uint32_t context);
void deferral_drop(uint32_t context);

/* In between: it lives on, without us. */
void deferral_part(uint32_t context);

/* Child of fork. */
void deferral_reset(void);

/*
 * The queue of a context that this thread's frees may be put into; NULL: the driver
 * must have them.
 */
struct deferq *deferral_queue(uint32_t context);

/*
 * A free that the driver has may wait for the device, and other threads' calls
 * behind it, an event of ours too: where it is not worse than without us, other
 * frees go the same way meanwhile.  Around the driver's call.
 */
extern _Atomic uint32_t deferral_forwarded;

static inline bool deferral_forward(void)
{
	bool is_on = deferral_is_on();

	if (is_on)
		atomic_fetch_add_explicit(&deferral_forwarded, 1, memory_order_relaxed);
	return is_on;
}

static inline void deferral_returned(bool is_counted)
{
	if (is_counted)
		atomic_fetch_sub_explicit(&deferral_forwarded, 1, memory_order_relaxed);
}

/*
 * The program frees a block, a copy of the tracker's entry.  True: the call is
 * answered and recorded.  False: the driver must have it.
 */
bool deferral_free(struct call *call, const struct block *block, enum deferq_kind kind);

/*
 * The program frees a block that it has freed before: the answer is the one the
 * driver gives after a free, and a finding.  Returns true, for the hooks.
 */
bool deferral_refuse(struct call *call, const struct block *block);

/* Write the finding; the call has its own record already. */
void deferral_write_finding(struct call *call, enum finding_kind kind, uint64_t address,
			    uint64_t id, uint64_t bytes);

/* Write what was released, and give the report back; `call` may be NULL. */
void deferral_write(struct call *call, struct deferq_report *report);

static inline void deferral_tell(struct call *call, struct deferq_report *report)
{
	if (report->items || report->flushes)
		deferral_write(call, report);
}

/* Release what the current context uses no more. */
void deferral_collect(struct call *call);

/*
 * Ahead of a capture: shuts the gate, and releases in any context what can be.  For
 * a time nothing will.
 */
void deferral_shut_gate(struct call *call);

/* The program has waited for the device. */
static inline void deferral_synchronized(struct call *call)
{
	if (__builtin_expect(atomic_load_explicit(&pending_total, memory_order_relaxed) != 0, 0))
		deferral_collect(call);
}

/* The driver has handed out memory: nothing that lies there can be pending still. */
void deferral_reuse(struct call *call, uint64_t address, uint64_t bytes);

/* deferral_driver.c: the functions that a queue calls. */
const struct driver *deferral_driver(void);

#endif
