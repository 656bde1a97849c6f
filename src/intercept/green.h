/* SPDX-License-Identifier: Apache-2.0 */
/*
 * green.h - green contexts: a share of a device's processors, over the memory of
 * its primary context.
 *
 * One is made current through a CUcontext that stands for it, its view.  What
 * is allocated while a view is current is the primary context's, and stays when
 * the green context is destroyed; streams that are made then are its own and end
 * with it (measured: driver 580, H200).
 */
#ifndef CUSTODY_INTERCEPT_GREEN_H
#define CUSTODY_INTERCEPT_GREEN_H

#include <stdbool.h>
#include <stdint.h>

struct green {
	uint64_t handle; /* CUgreenCtx; 0: a free entry */
	uint64_t view;	 /* the CUcontext, 0: not asked for yet */
	uint32_t number; /* of the view, from core/context.h */
	int device;
};

/* Beyond some hundreds of living ones, one is taken for a context like others. */
void green_add(uint64_t handle, int device);
bool green_find(uint64_t handle, struct green *green);
void green_set_view(uint64_t handle, uint64_t view, uint32_t number);

/* The green context is gone; what it was. */
bool green_remove(uint64_t handle, struct green *green);

/* The same for one of this device, whichever; false: there is none. */
bool green_remove_one(int device, struct green *green);

/* Whose memory it is when this context is current: the number of a primary context, 0: its own. */
uint32_t green_primary(uint64_t view);

/* Child of fork. */
void green_reset(void);

#endif
