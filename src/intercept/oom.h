/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oom.h - a call of the program has failed for lack of memory.
 *
 * The wrappers of calls that allocate stand in a loop: what fails while
 * something is pending is recorded as an attempt the program does not see, the
 * queues are flushed, and the driver is called again, as long as that gives
 * something back and a few times at most.
 */
#ifndef CUSTODY_INTERCEPT_OOM_H
#define CUSTODY_INTERCEPT_OOM_H

#include "intercept/call.h"

/* Ahead of the hook: whether the program shall see this failure. */
void oom_consider(struct call *call);

static inline void oom_mark(struct call *call)
{
	if (__builtin_expect(call->result == CUDA_ERROR_OUT_OF_MEMORY, 0))
		oom_consider(call);
}

/* Behind the hook: flush and begin again, as the three kinds of calls begin. */
void oom_release(struct call *call);
void oom_release_timed(struct call *call);
void oom_release_counted(struct call *call);

static inline bool oom_is_marked(const struct call *call)
{
	return __builtin_expect((call->flags & RECORD_BY_CUSTODY) != 0, 0);
}

static inline bool oom_retry(struct call *call)
{
	bool is_marked = oom_is_marked(call);

	if (is_marked)
		oom_release(call);
	return is_marked;
}

static inline bool oom_retry_timed(struct call *call)
{
	bool is_marked = oom_is_marked(call);

	if (is_marked)
		oom_release_timed(call);
	return is_marked;
}

static inline bool oom_retry_counted(struct call *call)
{
	bool is_marked = oom_is_marked(call);

	if (is_marked)
		oom_release_counted(call);
	return is_marked;
}

#endif
