/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_guard.h - does this call name a block that the program has freed?
 *
 * Called ahead of the driver while such blocks are pending.  True: the call is
 * refused with INVALID_VALUE, as it was measured to be after a free, and its own
 * hook records it.  Nothing is refused that moves no byte, for that succeeds
 * after a free too.
 */
#ifndef CUSTODY_INTERCEPT_HOOK_GUARD_H
#define CUSTODY_INTERCEPT_HOOK_GUARD_H

#include "intercept/call.h"
#include "intercept/guard.h"

#include <stdbool.h>

/* What is refused wherever it is named: memory operations, prefetches. */
bool hook_guard_address(struct call *call, uint64_t address);

/*
 * Of memory it does not know the driver says that its address on the host is the
 * address asked about, which for a pending block was another one.
 */
void hook_guard_attributes(struct call *call, unsigned int count,
			   const CUpointer_attribute *attributes, void **values,
			   uint64_t address);

/* A second free, through a function whose frees are not queued. */
bool hook_guard_free(struct call *call, uint64_t address);

/* Copies whose function says on which side the host is; `kind` too. */
bool hook_guard_either(struct call *call, enum transfer_kind kind, uint64_t source,
		       uint64_t target);

static inline bool hook_guard_linear(struct call *call, enum transfer_kind kind, uint64_t source,
				     uint64_t target, uint64_t bytes)
{
	return bytes && (pending_is_possible(source) || pending_is_possible(target)) &&
	       hook_guard_either(call, kind, source, target);
}

/* Those where the addresses alone do. */
bool hook_guard_inferred(struct call *call, uint64_t source, uint64_t target, uint64_t bytes);

/* One end or both are arrays; `aux` from PLACES(). */
bool hook_guard_array(struct call *call, uint16_t aux, uint64_t source, uint64_t target,
		      uint64_t bytes);

bool hook_guard_fill(struct call *call, uint64_t target, uint64_t bytes, uint64_t stream);

bool hook_guard_2d(struct call *call, const CUDA_MEMCPY2D *copy);
bool hook_guard_2d_v1(struct call *call, const CUDA_MEMCPY2D_v1 *copy);
bool hook_guard_3d(struct call *call, const CUDA_MEMCPY3D *copy);
bool hook_guard_3d_v1(struct call *call, const CUDA_MEMCPY3D_v1 *copy);
bool hook_guard_3d_peer(struct call *call, const CUDA_MEMCPY3D_PEER *copy);

/* Of a batch that is refused nothing is done; `failed`, if any, gets the number of the culprit. */
bool hook_guard_batch(struct call *call, const CUdeviceptr *targets, const CUdeviceptr *sources,
		      size_t count, size_t *failed);
bool hook_guard_3d_batch(struct call *call, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count,
			 size_t *failed);
bool hook_guard_decompress(struct call *call, const CUmemDecompressParams *list, size_t count,
			   size_t *failed);
bool hook_guard_list(struct call *call, const CUdeviceptr *addresses, size_t count);
bool hook_guard_memory_ops(struct call *call, const CUstreamBatchMemOpParams *list,
			   unsigned int count);

/* Nodes of graphs, whose addresses the driver checks when they are described. */
bool hook_guard_node_fill(struct call *call, const CUDA_MEMSET_NODE_PARAMS *fill);
bool hook_guard_node(struct call *call, const CUgraphNodeParams *node);

#endif
