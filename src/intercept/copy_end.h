/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_end.h - the two ends of a copy, and which way it goes.
 *
 * Calls that copy leave to the collector what it can tell from its blocks; the
 * copies in a graph are summed up before a collector sees them, so that their
 * ends have to be placed here.
 */
#ifndef CUSTODY_INTERCEPT_COPY_END_H
#define CUSTODY_INTERCEPT_COPY_END_H

#include "core/record.h"
#include "intercept/box.h"

enum copy_side { COPY_SIDE_UNKNOWN, COPY_SIDE_HOST, COPY_SIDE_DEVICE };

struct copy_end {
	uint64_t address; /* or array */
	enum copy_side side;
	enum place_kind place; /* unknown where the collector can tell */
	int device;	       /* ordinal, -1: unknown */
};

/* What lies at an address that is all we were given; the driver is asked about a foreign one. */
struct copy_end copy_end_infer(uint64_t address);

struct copy_end copy_end_of(const struct box_side *side);

/* Find out from our own blocks what was left to the collector. */
void copy_end_place(struct copy_end *end);

enum transfer_kind copy_end_kind(const struct copy_end *source, const struct copy_end *target);

#endif
