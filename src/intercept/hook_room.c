/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/hook_room.h"
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/fail_nth.h"
#include "intercept/hook.h"
#include "intercept/limit.h"
#include "intercept/place.h"

enum { PITCH_BYTES = 512 }; /* rows of cuMemAllocPitch begin at multiples of it */

static bool refuse(struct call *call, enum failure_why why)
{
	call->refusal = (uint8_t)why;
	call_returned(call, CUDA_ERROR_OUT_OF_MEMORY);
	return false;
}

/* A call has one turn, however often it is tried. */
static bool has_turn(struct call *call)
{
	call->refusal = FAILURE_DRIVER;
	return call->attempts || !fail_nth_is_due() || refuse(call, FAILURE_NTH);
}

static bool has_room(struct call *call, const struct limit_need *need)
{
	return has_turn(call) &&
	       (!limit_is_on() || limit_admit(need) || refuse(call, FAILURE_LIMIT));
}

bool hook_room_linear(struct call *call, uint64_t bytes)
{
	return has_room(call, &(struct limit_need){
				      .bytes = bytes,
				      .device = current_ask()->device,
				      .may_share = true,
			      });
}

/* What is too large for any number is too large for any device. */
bool hook_room_pitch(struct call *call, uint64_t width, uint64_t height)
{
	uint64_t pitch = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES, bytes;

	if (__builtin_mul_overflow(pitch, height, &bytes))
		bytes = UINT64_MAX;
	return hook_room_linear(call, bytes);
}

bool hook_room_mipmapped(struct call *call, const CUDA_ARRAY3D_DESCRIPTOR *shape,
			 unsigned int levels)
{
	return has_room(call, &(struct limit_need){
				      .bytes = shape ? hook_array_bytes(*shape, levels) : 0,
				      .device = current_ask()->device,
				      .may_share = true,
				      .is_array = true,
			      });
}

bool hook_room_array_3d(struct call *call, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return hook_room_mipmapped(call, shape, 1);
}

bool hook_room_array_3d_v1(struct call *call, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR wide = { 0 };

	if (shape)
		wide = (CUDA_ARRAY3D_DESCRIPTOR){ shape->Width,	 shape->Height,
						  shape->Depth,	 shape->Format,
						  shape->NumChannels, shape->Flags };
	return hook_room_array_3d(call, &wide);
}

bool hook_room_array(struct call *call, const CUDA_ARRAY_DESCRIPTOR *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR deep = { 0 };

	if (shape)
		deep = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = shape->Width,
						  .Height = shape->Height,
						  .Format = shape->Format,
						  .NumChannels = shape->NumChannels };
	return hook_room_array_3d(call, &deep);
}

bool hook_room_array_v1(struct call *call, const CUDA_ARRAY_DESCRIPTOR_v1 *shape)
{
	CUDA_ARRAY_DESCRIPTOR wide = { 0 };

	if (shape)
		wide = (CUDA_ARRAY_DESCRIPTOR){ shape->Width, shape->Height, shape->Format,
						shape->NumChannels };
	return hook_room_array(call, &wide);
}

/* On a capturing stream nothing is allocated: an address is set aside for a graph. */
static bool has_pooled_room(struct call *call, struct limit_need *need, int place)
{
	if (capture_flag(need->stream))
		need->bytes = 0;
	need->device = place == PLACE_NOT_KNOWN ? current_ask()->device : place;
	need->is_pooled = true;
	return has_room(call, need);
}

bool hook_room_async(struct call *call, CUdeviceptr *block, uint64_t bytes, uint64_t stream)
{
	struct limit_need need = { .bytes = bytes, .stream = stream, .block = block };

	return has_pooled_room(call, &need, place_of_stream(stream));
}

bool hook_room_from_pool(struct call *call, CUdeviceptr *block, uint64_t bytes, uint64_t pool,
			 uint64_t stream)
{
	struct limit_need need = {
		.bytes = bytes,
		.pool = pool,
		.stream = stream,
		.block = block,
	};

	/* No more than other managed memory is it refused: it lies where it is used. */
	if (place_is_managed(pool))
		return has_turn(call);
	return has_pooled_room(call, &need, place_of_pool(pool));
}

bool hook_room_create(struct call *call, uint64_t bytes, const CUmemAllocationProp *properties)
{
	int place = properties ? place_of_location(&properties->location) : PLACE_NOT_KNOWN;

	return has_room(call, &(struct limit_need){ .bytes = bytes, .device = place });
}

bool hook_room_elsewhere(struct call *call)
{
	return has_turn(call);
}

bool hook_room_node(struct call *call, const CUgraphNodeParams *node)
{
	return !node || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || has_turn(call);
}

void hook_room_leave(struct call *call)
{
	if (limit_is_on() && !limit_leave(call->result == CUDA_SUCCESS))
		refuse(call, FAILURE_LIMIT);
}
