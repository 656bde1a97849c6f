/* SPDX-License-Identifier: Apache-2.0 */
/* Private: pools, between their memory (pool.c) and the calls around it. */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "sim.h"

struct segment {
	char *base;
	size_t bytes;
	size_t used;
	struct segment *next;
};

struct pool {
	struct object object;
	struct device *device;
	pthread_mutex_t lock;
	struct segment *segments;
	struct block *free_blocks;
	size_t reserved, reserved_high, used, used_high;
	uint64_t threshold;
	int reuse[4];
	bool is_default, destroyed, imported;
	unsigned live;
	int access[SIM_DEVICES_MAX];
	CUmemPoolProps props;
	atomic_bool releasable;
	struct pool *next;	/* of the device */
};

struct pool *pool_new(struct device *device);
/* A block in stream order; the error is out of memory. */
CUresult pool_take(struct pool *pool, size_t bytes, struct stream *stream, struct block **out);
/* Gives free segments back until no more than `keep` bytes are reserved. */
void pool_trim_to(struct pool *pool, size_t keep);
/* No new blocks; the memory goes as the last of the old ones do. */
void pool_end(struct pool *pool);

/* poolapi.c */
CUresult poolapi_find(CUmemoryPool handle, struct pool **pool);

#endif
