/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h - a thread's part of the recording: its number, its chunk, its
 * counters, and its end.  `thread_segment` itself is declared in segment.h.
 */
#ifndef CUSTODY_CORE_THREAD_H
#define CUSTODY_CORE_THREAD_H

#include "core/record.h"

/* Once per process image: the key whose destructor tells of a thread's end. */
void thread_prepare(void);

/*
 * Make this thread part of the process of `generation`.  `control` is NULL where
 * the process is not recorded; the thread is then ready and has no chunk.
 */
void thread_begin(uint64_t generation, struct trace_control *control);

/*
 * Take a new chunk, closing the old one, for a record of `slots` slots.  NULL:
 * none to be had, and one record counted as lost.
 */
struct record *thread_refill(struct trace_control *control, uint32_t slots);

/* See segment_set_counter_apis(). */
void thread_set_counter_apis(const uint16_t *api_of_slot, uint32_t slots);

#endif
