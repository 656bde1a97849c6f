/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of handles that multicast objects and sparse arrays hold.  What is
 * told here is when the block of a handle ends: not with its last reference
 * and its last mapping alone, but when nothing holds it any more.
 */
#include "intercept/hold.h"
#include "intercept/hook.h"

static void hold(uint64_t holder, uint64_t memory, uint32_t context, const struct hold_part *part)
{
	struct block block;
	uint32_t references;

	if (tracker_find(SPACE_HANDLE, memory, &block) && hold_add(holder, memory, context, part))
		tracker_reference(SPACE_HANDLE, memory, 1, &references);
}

void hook_hold_end(struct call *call, uint64_t holder, const struct hold_part *part)
{
	uint64_t memory;

	while (hold_take(holder, part, &memory))
		hook_vmm_drop(call, memory);
}

void hook_hold_end_context(struct call *call, uint32_t context)
{
	uint64_t memory;

	while (hold_take_context(context, &memory))
		hook_vmm_drop(call, memory);
}

/* -------------------------------------------------------------- multicast objects */

/* Each device binds memory of its own at the same offset. */
static struct hold_part part_of_object(int device, uint64_t offset, uint64_t bytes)
{
	return (struct hold_part){
		.plane = { (uint32_t)(device + 1) },
		.from = { offset },
		.size = { bytes },
	};
}

static void bind(struct call *call, uint64_t object, uint64_t offset, uint64_t memory,
		 uint64_t bytes)
{
	struct block block;
	struct hold_part part;

	hook_operation(call, object, memory, bytes, STREAM_NONE);
	if (call->result != CUDA_SUCCESS || !tracker_find(SPACE_HANDLE, memory, &block))
		return;
	part = part_of_object(block.device, offset, bytes);
	hold(object, memory, 0, &part);
}

void hook_hold_bind(struct call *call, uint64_t object, uint64_t offset, uint64_t memory,
		    uint64_t bytes)
{
	bind(call, object, offset, memory, bytes);
}

/* What is bound is the memory that is mapped there. */
void hook_hold_bind_address(struct call *call, uint64_t object, uint64_t offset, uint64_t address,
			    uint64_t bytes)
{
	struct block view;

	if (tracker_find(SPACE_ADDRESS, address, &view) && view.parent)
		bind(call, object, offset, view.parent, bytes);
	else
		hook_operation(call, object, address, bytes, STREAM_NONE);
}

void hook_hold_unbind(struct call *call, uint64_t object, CUdevice device, uint64_t offset,
		      uint64_t bytes)
{
	struct hold_part part = part_of_object(device, offset, bytes);

	hook_operation(call, object, (unsigned int)device, bytes, STREAM_NONE);
	if (call->result == CUDA_SUCCESS)
		hook_hold_end(call, object, &part);
}

/* ------------------------------------------------------------------ sparse arrays */

/* The tail of the small levels is a plane of its own, with bytes for extents. */
enum { PLANE_TAIL = UINT32_MAX };

static struct hold_part part_of_array(const CUarrayMapInfo *info)
{
	if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
		return (struct hold_part){
			.plane = { (uint32_t)PLANE_TAIL, info->subresource.miptail.layer + 1 },
			.from = { info->subresource.miptail.offset },
			.size = { info->subresource.miptail.size },
		};
	return (struct hold_part){
		.plane = { info->subresource.sparseLevel.level + 1,
			   info->subresource.sparseLevel.layer + 1 },
		.from = { info->subresource.sparseLevel.offsetX,
			  info->subresource.sparseLevel.offsetY,
			  info->subresource.sparseLevel.offsetZ },
		.size = { info->subresource.sparseLevel.extentWidth,
			  info->subresource.sparseLevel.extentHeight,
			  info->subresource.sparseLevel.extentDepth },
	};
}

/* What was mapped there before goes, whatever comes instead of it. */
static void change_part(struct call *call, const CUarrayMapInfo *info)
{
	uint64_t array = info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY ?
				 (uintptr_t)info->resource.mipmap :
				 (uintptr_t)info->resource.array;
	struct hold_part part = part_of_array(info);
	struct block block = { .context = 0 };

	hook_hold_end(call, array, &part);
	if (info->memOperationType != CU_MEM_OPERATION_TYPE_MAP)
		return;
	tracker_find(SPACE_ARRAY, array, &block);
	hold(array, info->memHandle.memHandle, block.context, &part);
}

void hook_hold_map_array(struct call *call, const CUarrayMapInfo *list, unsigned int count,
			 uint64_t stream)
{
	bool is_read = call->result == CUDA_SUCCESS && list;

	hook_operation(call, is_read && count ? (uintptr_t)list[0].resource.array : 0, 0, 0,
		       stream);
	for (unsigned int i = 0; is_read && i < count; i++)
		change_part(call, &list[i]);
}
