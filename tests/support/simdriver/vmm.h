/* SPDX-License-Identifier: Apache-2.0 */
/* Private: physical memory that is mapped by hand. */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "sim.h"

/* What cuMemCreate makes; lives while it has handles or mappings. */
struct memory {
	struct object object;
	struct device *device;
	size_t bytes;
	int fd;
	unsigned handles, mappings;
	bool imported;
	CUmemAllocationProp prop;
	uint64_t id;
};

/* The reservation around a mapped block; the block itself otherwise. */
char *vmm_range_start(const struct block *block);
size_t vmm_range_size(const struct block *block);

#endif
