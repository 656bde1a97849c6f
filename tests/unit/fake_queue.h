/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_queue.h - the part of the fake driver that a queue of frees calls, and
 * what it has been called with.  The device is busy until the test says it is not.
 */
#ifndef CUSTODY_TESTS_FAKE_QUEUE_H
#define CUSTODY_TESTS_FAKE_QUEUE_H

#include "fake_driver.h"

#include <stdbool.h>

#define FAKE_TOTAL (UINT64_C(1) << 30)

extern _Atomic bool fake_is_busy;	     /* no event has passed */
extern _Atomic CUresult fake_wait_result;    /* of a wait for an event, which ends it */
extern _Atomic CUresult fake_release_result; /* of a release, where that is no success */
extern _Atomic CUcontext fake_event_context; /* that the last event was taken of */
extern _Atomic bool fake_spoils_errno;	     /* every call leaves another errno */

/* Called with every block that goes by cuMemFreeAsync; NULL: nothing is. */
extern void (*fake_on_release)(void);

/* How often a function was called. */
uint32_t fake_calls(enum api api);

/* How often one that a capture does not bear was called while one was live. */
uint32_t fake_spoilt(void);

/*
 * Under a policy, with all of it in place; fake_start() or fake_begin() follows.
 * An old driver has no events of a context.
 */
void fake_queue_prepare(const char *policy, bool is_old);

/* A block where the last one ended. */
CUdeviceptr fake_block(size_t bytes);

/* The next blocks come from here. */
void fake_next_address(CUdeviceptr address);

/* So many allocations to come fail for lack of memory. */
void fake_run_out(uint32_t times);

/* Whether a capture is live for the driver. */
void fake_set_capturing(bool is_capturing);

#endif
