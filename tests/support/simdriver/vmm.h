/* SPDX-License-Identifier: Apache-2.0 */
/* Private: physical memory that is mapped by hand. */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "sim.h"

struct team;

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
	struct team *team;	/* it is a multicast object; its bytes count nowhere */
};

CUresult vmm_find(CUmemGenericAllocationHandle handle, struct memory **memory);
/* With one handle; the file is the memory's from then on. */
struct memory *vmm_new(struct device *device, int fd, size_t bytes);
/* Around the counts of memory, and around the next one. */
void vmm_lock(void);
void vmm_unlock(void);
/* One mapping, or one binding, of the memory less. */
void vmm_drop_mapping(struct memory *memory);

/* Counts no longer what only descriptors had that are closed by now. */
void vmm_sweep(void);

/* Until every device of the team is there. */
void multicast_wait(const struct team *team);
/* Lets go of what is bound; the lock of vmm.c is held. */
void multicast_end(struct team *team);

/* The reservation around a mapped block; the block itself otherwise. */
char *vmm_range_start(const struct block *block);
size_t vmm_range_size(const struct block *block);

#endif
