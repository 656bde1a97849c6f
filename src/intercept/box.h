/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box.h - the structures of two- and three-dimensional copies, all of them as one.
 */
#ifndef CUSTODY_INTERCEPT_BOX_H
#define CUSTODY_INTERCEPT_BOX_H

#include "intercept/cuda_abi.h"

struct box_side {
	unsigned int type; /* CUmemorytype */
	const void *host;
	uint64_t device;
	const void *array;
	uint64_t offset; /* of the first byte, where the side is no array */
};

struct box {
	struct box_side source;
	struct box_side target;
	uint64_t bytes;
};

void box_of_2d(struct box *box, const CUDA_MEMCPY2D *copy);
void box_of_2d_v1(struct box *box, const CUDA_MEMCPY2D_v1 *copy);
void box_of_3d(struct box *box, const CUDA_MEMCPY3D *copy);
void box_of_3d_v1(struct box *box, const CUDA_MEMCPY3D_v1 *copy);
void box_of_3d_peer(struct box *box, const CUDA_MEMCPY3D_PEER *copy);

#endif
