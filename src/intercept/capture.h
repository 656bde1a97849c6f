/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - which stream captures are live, across threads.
 *
 * A call on a capturing stream describes work instead of doing it; its record
 * says so.  As long as no capture is live that costs one load.
 */
#ifndef CUSTODY_INTERCEPT_CAPTURE_H
#define CUSTODY_INTERCEPT_CAPTURE_H

#include "core/record.h"

#include <stdbool.h>

extern _Atomic uint32_t capture_live_count;

/* Whether the driver says that `stream` (as records know it) is capturing. */
bool capture_ask(uint64_t stream);

static inline bool capture_is_live(void)
{
	return __builtin_expect(
		atomic_load_explicit(&capture_live_count, memory_order_relaxed) != 0, 0);
}

/* RECORD_CAPTURED or 0, for the record of a call on `stream`. */
static inline uint8_t capture_flag(uint64_t stream)
{
	return capture_is_live() && capture_ask(stream) ? RECORD_CAPTURED : 0;
}

/* A capture begins, or ends: by EndCapture, with its stream or with its context. */
void capture_add(uint64_t stream, uint32_t context);
void capture_remove(uint64_t stream, uint32_t context);
void capture_remove_context(uint32_t context);

/* Child of fork. */
void capture_reset(void);

#endif
