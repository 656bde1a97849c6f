/* SPDX-License-Identifier: Apache-2.0 */
/* Private: green contexts. */
#ifndef SIM_GREEN_H
#define SIM_GREEN_H

#include "sim.h"

/* What a descriptor of resources says: a device and how many of its processors. */
struct resources {
	struct object object;
	struct device *device;
	unsigned processors;
};

struct green {
	struct device *device;
	struct context *view;	/* what cuCtxFromGreenCtx hands out */
	unsigned processors;
};

#endif
