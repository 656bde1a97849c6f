/* SPDX-License-Identifier: Apache-2.0 */
/* Private: mipmapped arrays. */
#ifndef SIM_ARRAY_H
#define SIM_ARRAY_H

#include "sim.h"

enum { MIPMAP_LEVELS_MAX = 32 };

struct mipmap {
	struct object object;
	struct context *context;
	unsigned count;
	struct array *levels[MIPMAP_LEVELS_MAX];
	CUDA_ARRAY3D_DESCRIPTOR desc;
	struct mipmap *next, *prev;
};

#endif
