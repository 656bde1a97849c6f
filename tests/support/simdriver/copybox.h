/* SPDX-License-Identifier: Apache-2.0 */
/* Private: one form for the two- and three-dimensional copies of the driver. */
#ifndef SIM_COPYBOX_H
#define SIM_COPYBOX_H

#include "sim.h"

struct extent {
	size_t width, height, depth;	/* width in bytes */
};

struct side {
	CUmemorytype type;
	size_t address;
	struct array *array;
	size_t x, y, z;		/* x in bytes */
	size_t pitch, height;	/* 0: as the extent needs */
};

struct boxcopy {
	struct extent extent;
	struct side dst, src;
};

struct boxcopy copybox_from_3d(const CUDA_MEMCPY3D *copy);
/* Checks both sides and makes the op; an empty extent gives an empty box. */
CUresult copybox_op(struct boxcopy *copy, struct op *op, struct place *dst, struct place *src);
CUresult copybox_start(struct boxcopy *copy, CUstream handle, bool synchronous);

#endif
