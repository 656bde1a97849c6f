/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.h - no call of ours during a stream capture.
 *
 * One cuMemFree, cuEventQuery or cuCtxRecordEvent of ours can spoil a capture,
 * another thread's too.  Looking first whether one is live is not enough: it
 * may begin between the look and the call.  So whoever begins a capture raises
 * gate_captures, then waits until no call of ours is in flight; we raise
 * in_flight first and back out if a capture is live.
 *
 * What runs inside is not to wait for the device: a program that begins a capture
 * waits for it.  Three things do all the same: force() of deferq_wait.c, for want
 * of an event or of an idle moment; a release at an idle moment, where another
 * thread launches just then; and any driver call that is held up in the driver by
 * another thread's free, which waits there.
 */
#ifndef CUSTODY_CORE_GATE_H
#define CUSTODY_CORE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern _Atomic uint32_t gate_captures;	/* live, or about to begin */
extern _Atomic uint32_t gate_in_flight; /* threads inside */

/* Whether a capture is live; costs one load. */
static inline bool gate_is_shut(void)
{
	return __builtin_expect(
		atomic_load_explicit(&gate_captures, memory_order_relaxed) != 0, 0);
}

/*
 * True: go on, no capture begins before gate_leave().  False: one is live.  The
 * look ahead keeps those who are refused over and over from looking like threads
 * inside to one who begins another capture.
 */
static inline bool gate_enter(void)
{
	if (gate_is_shut())
		return false;
	atomic_fetch_add_explicit(&gate_in_flight, 1, memory_order_seq_cst);
	if (__builtin_expect(
		    atomic_load_explicit(&gate_captures, memory_order_seq_cst) == 0, 1))
		return true;
	atomic_fetch_sub_explicit(&gate_in_flight, 1, memory_order_release);
	return false;
}

static inline void gate_leave(void)
{
	atomic_fetch_sub_explicit(&gate_in_flight, 1, memory_order_release);
}

/*
 * Before a capture begins: from the return of this on nobody is inside.  One
 * gate_open() pairs with it, when the capture has ended or has not begun.  Not
 * to be called from inside.
 */
void gate_shut(void);
void gate_open(void);

/*
 * After gate_shut(), before the capture begins: true as long as no other one is
 * live, and then none begins before gate_leave().
 */
bool gate_stay(void);

/* Child of fork: its one thread is outside, and no capture is its own. */
void gate_reset(void);

#endif
