/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_copy.h - copies, fills and prefetches.  The commonest are inline: they
 * add one record and nothing else.
 */
#ifndef CUSTODY_INTERCEPT_HOOK_COPY_H
#define CUSTODY_INTERCEPT_HOOK_COPY_H

#include "intercept/call.h"
#include "intercept/capture.h"
#include "intercept/current.h"

/* `aux` is AUX_TRANSFER(); places are unknown here, the collector knows the blocks. */
static inline void copy_write(struct call *call, uint16_t aux, uint64_t source, uint64_t target,
			      uint64_t bytes, uint64_t stream)
{
	call_write(call, &(struct call_facts){
				 .kind = RECORD_TRANSFER,
				 .a = source,
				 .b = target,
				 .c = bytes,
				 .stream = stream,
				 .context = current_number(),
				 .aux = aux,
				 .flags = capture_flag(stream),
			 });
}

static inline void hook_copy_linear(struct call *call, enum transfer_kind kind, uint64_t source,
				    uint64_t target, uint64_t bytes, uint64_t stream, int is_async)
{
	copy_write(call, AUX_TRANSFER(kind, 0, 0, is_async), source, target, bytes, stream);
}

static inline void hook_copy_fill(struct call *call, uint64_t target, uint64_t value,
				  uint64_t bytes, uint64_t stream, int is_async)
{
	copy_write(call, AUX_TRANSFER(TRANSFER_MEMSET, 0, 0, is_async), value, target, bytes,
		   stream);
}

/* One end or both are arrays; `aux` from PLACES(). */
static inline void hook_copy_array(struct call *call, uint16_t aux, uint64_t source,
				   uint64_t target, uint64_t bytes, uint64_t stream)
{
	copy_write(call, aux, source, target, bytes, stream);
}

/* The addresses alone say what moves where. */
void hook_copy_inferred(struct call *call, uint64_t source, uint64_t target, uint64_t bytes,
			uint64_t stream, int is_async);
void hook_copy_peer(struct call *call, uint64_t source, uint64_t source_context, uint64_t target,
		    uint64_t target_context, uint64_t bytes, uint64_t stream, int is_async);

void hook_copy_2d(struct call *call, const CUDA_MEMCPY2D *copy, uint64_t stream, int is_async);
void hook_copy_2d_v1(struct call *call, const CUDA_MEMCPY2D_v1 *copy, uint64_t stream,
		     int is_async);
void hook_copy_3d(struct call *call, const CUDA_MEMCPY3D *copy, uint64_t stream, int is_async);
void hook_copy_3d_v1(struct call *call, const CUDA_MEMCPY3D_v1 *copy, uint64_t stream,
		     int is_async);
void hook_copy_3d_peer(struct call *call, const CUDA_MEMCPY3D_PEER *copy, uint64_t stream,
		       int is_async);

void hook_copy_batch(struct call *call, const CUdeviceptr *targets, const CUdeviceptr *sources,
		     const size_t *bytes, size_t count, uint64_t stream);
void hook_copy_3d_batch(struct call *call, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count,
			uint64_t stream);
void hook_copy_decompress(struct call *call, const CUmemDecompressParams *list, size_t count,
			  uint64_t stream);
void hook_copy_prefetch(struct call *call, uint64_t address, uint64_t bytes, uint64_t stream);
void hook_copy_prefetch_batch(struct call *call, const CUdeviceptr *addresses, const size_t *bytes,
			      size_t count, uint64_t stream);

#endif
