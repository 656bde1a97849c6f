/* SPDX-License-Identifier: Apache-2.0 */
/* Private: between the memory of pools (pool.c) and the calls around it (poolapi.c). */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "sim.h"

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
