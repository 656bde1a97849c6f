/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - which stream captures are live, across threads.
 *
 * A call on a capturing stream describes work instead of doing it; its record
 * says so.  And while a capture is live the gate is shut: no call of our own.
 * As long as none is, both cost one load.
 */
#ifndef CUSTODY_INTERCEPT_CAPTURE_H
#define CUSTODY_INTERCEPT_CAPTURE_H

#include "core/gate.h"
#include "core/record.h"

#include <stdbool.h>

/* Whether the driver says that `stream` (as records know it) is capturing. */
bool capture_ask(uint64_t stream);

/* RECORD_CAPTURED or 0, for the record of a call on `stream`. */
static inline uint8_t capture_flag(uint64_t stream)
{
	return gate_is_shut() && capture_ask(stream) ? RECORD_CAPTURED : 0;
}

/*
 * A capture that begins past every hook does not mind what this thread asks from
 * here on, until capture_mind() is given what this one has said.
 */
int capture_ignore(void);
void capture_mind(int before);

/*
 * A capture has begun, the gate having been shut ahead of it; or has ended, by
 * EndCapture, with its stream or with its context: the gate is opened once for
 * each that was known.
 */
void capture_add(uint64_t stream, uint32_t context);
void capture_remove(uint64_t stream, uint32_t context);
void capture_remove_context(uint32_t context);

/* EndCapture has failed: whether the capture lives on, for another thread to end it. */
bool capture_goes_on(uint64_t stream);

/* Child of fork; its gate is core's business. */
void capture_reset(void);

#endif
