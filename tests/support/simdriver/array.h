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

/* Where the bytes of levels are, if not on the device itself: in a file, up to `end`. */
struct array_source {
	int fd;
	size_t offset, end;
};

/* `from` NULL: memory of the device. */
CUresult array_make_mipmap(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			   unsigned count, struct array_source *from);

/* A texture object or a surface object. */
struct texture {
	struct object object;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC sampling;
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view, surface;
};

#endif
