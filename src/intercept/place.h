/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h - on which device the memory of a stream or of a pool lies.
 *
 * Stream-ordered memory lies where its stream or pool does, which need not be
 * where the current context is.  The calls that make or hand out these handles
 * say it, and it is kept here, so that no allocation asks the driver.  Nothing
 * is taken out: a handle that comes back is noted anew by the call that gave it.
 */
#ifndef CUSTODY_INTERCEPT_PLACE_H
#define CUSTODY_INTERCEPT_PLACE_H

#include "intercept/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* What can stand for the ordinal of a device. */
enum { PLACE_ON_HOST = -1, PLACE_NOT_KNOWN = -2 };

void place_note_stream(uint64_t stream, int device);
void place_note_pool(uint64_t pool, int device, bool is_managed);

/* A device's ordinal, PLACE_ON_HOST or PLACE_NOT_KNOWN.  Lock-free, any thread. */
int place_of_stream(uint64_t stream);
int place_of_pool(uint64_t pool);
bool place_is_managed(uint64_t pool);

/* The place that a program has asked for. */
int place_of_location(const CUmemLocation *location);

/* Child of fork: the handles of its parent are none of its own. */
void place_reset(void);

#endif
