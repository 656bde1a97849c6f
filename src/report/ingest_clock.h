/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_clock.h - ticks of a traced process to nanoseconds, by straight lines
 * between moments that were read on both clocks.
 */
#ifndef CUSTODY_REPORT_INGEST_CLOCK_H
#define CUSTODY_REPORT_INGEST_CLOCK_H

#include "core/record.h"

#include <stdbool.h>
#include <stdint.h>

enum { INGEST_CLOCK_ANCHORS = 4096 };

struct ingest_clock {
	struct ingest_clock_anchor {
		uint64_t ticks;
		int64_t ns;
	} anchor[INGEST_CLOCK_ANCHORS];
	uint32_t count;
	uint32_t at;	 /* where the last answer was found: questions come nearly in order */
	double rate;	 /* nanoseconds a tick, over the whole time; 1 while unknown */
};

/*
 * Add a moment.  Only such as come after all earlier ones count, so that no
 * answer once given changes; false: left out, because it is older, too near, or
 * does not fit the rest.
 */
bool ingest_clock_add(struct ingest_clock *clock, uint64_t ticks, uint64_t ns);

/* `mode` is enum clock_mode of the ticks: those of the system's clock pass unchanged. */
int64_t ingest_clock_ns(struct ingest_clock *clock, uint64_t ticks, uint32_t mode);

/* A number of ticks, not a moment. */
int64_t ingest_clock_span(const struct ingest_clock *clock, uint64_t ticks, uint32_t mode);

#endif
