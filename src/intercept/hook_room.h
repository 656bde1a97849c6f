/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_room.h - calls that may be refused before the driver is asked: because
 * it is their turn to fail, or because a device shall look smaller than it is.
 *
 * One hook for each way a call says how much memory it wants of which device;
 * they run ahead of each attempt, but only where anything is to be refused.
 * True: the driver is to be called, and hook_room_leave() follows.  False: the
 * call is answered as out of memory, with the reason in call->refusal.
 */
#ifndef CUSTODY_INTERCEPT_HOOK_ROOM_H
#define CUSTODY_INTERCEPT_HOOK_ROOM_H

#include "intercept/call.h"
#include "intercept/room.h"

/* Of the device of the current context. */
bool hook_room_linear(struct call *call, uint64_t bytes);
bool hook_room_pitch(struct call *call, uint64_t width, uint64_t height);
bool hook_room_array(struct call *call, const CUDA_ARRAY_DESCRIPTOR *shape);
bool hook_room_array_v1(struct call *call, const CUDA_ARRAY_DESCRIPTOR_v1 *shape);
bool hook_room_array_3d(struct call *call, const CUDA_ARRAY3D_DESCRIPTOR *shape);
bool hook_room_array_3d_v1(struct call *call, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape);
bool hook_room_mipmapped(struct call *call, const CUDA_ARRAY3D_DESCRIPTOR *shape,
			 unsigned int levels);

/* Of that of the stream, of the pool, or of one that is named. */
bool hook_room_async(struct call *call, CUdeviceptr *block, uint64_t bytes, uint64_t stream);
bool hook_room_from_pool(struct call *call, CUdeviceptr *block, uint64_t bytes, uint64_t pool,
			 uint64_t stream);
bool hook_room_create(struct call *call, uint64_t bytes, const CUmemAllocationProp *properties);

/* Memory of the host, or somebody else's, or none before a graph is launched. */
bool hook_room_elsewhere(struct call *call);

/* A node of a graph, which may be an allocation. */
bool hook_room_node(struct call *call, const CUgraphNodeParams *node);

/* What the driver has given may turn out to be too much: then it is refused here. */
void hook_room_leave(struct call *call);

#endif
