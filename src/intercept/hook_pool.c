/* SPDX-License-Identifier: Apache-2.0 */
/* hook_pool.c - where the memory of a pool lies, learnt whenever a pool is handed out. */
#include "intercept/capture.h"
#include "intercept/hook.h"
#include "intercept/place.h"
#include "intercept/pool_list.h"
#include "intercept/real.h"

/* Managed memory moves: what it is asked to prefer says little, and never the host. */
static int place_of(const CUmemLocation *location, CUmemAllocationType type)
{
	int place = location ? place_of_location(location) : PLACE_NOT_KNOWN;

	return type != CU_MEM_ALLOCATION_TYPE_PINNED && place == PLACE_ON_HOST ? PLACE_NOT_KNOWN :
										 place;
}

/* Of managed memory a device keeps no certain share. */
static void note(uint64_t pool, const CUmemLocation *location, CUmemAllocationType type)
{
	int place = place_of(location, type);

	place_note_pool(pool, place, type == CU_MEM_ALLOCATION_TYPE_MANAGED);
	if (type == CU_MEM_ALLOCATION_TYPE_PINNED)
		pool_list_add(pool, place);
}

void hook_pool_create(struct call *call, uint64_t pool, const CUmemPoolProps *properties)
{
	if (pool && properties)
		note(pool, &properties->location, properties->allocType);
	hook_operation(call, pool, 0, 0, STREAM_NONE);
}

/* While a capture is live a question would spoil it: the pool may have blocks then. */
static bool may_have_blocks(uint64_t pool)
{
	bool has_blocks;
	int before;

	if (!real_has(API_cuMemPoolGetAttribute))
		return false;
	if (!gate_enter())
		return true;
	before = capture_ignore();
	has_blocks = pool_list_has_blocks(pool);
	capture_mind(before);
	gate_leave();
	return has_blocks;
}

/* Nobody may ask a pool that the driver is destroying. */
void hook_pool_destroy_before(struct call *call, uint64_t pool)
{
	bool has_blocks = may_have_blocks(pool);
	int device;

	call->has_taken = pool_list_remove(pool, &device);
	if (call->has_taken && has_blocks)
		pool_list_outlived(device);
	call->named = call->has_taken ? (uint64_t)device : 0;
}

void hook_pool_destroy_after(struct call *call, uint64_t pool)
{
	if (call->has_taken && call->result != CUDA_SUCCESS)
		pool_list_add(pool, (int)call->named);
	hook_operation(call, pool, 0, 0, STREAM_NONE);
}

/* Another process made it, and knows. */
void hook_pool_import(struct call *call, uint64_t pool)
{
	place_note_pool(pool, PLACE_NOT_KNOWN, false);
	hook_operation(call, pool, 0, 0, STREAM_NONE);
}

/* How much a pool keeps after a synchronise is what most of them are told. */
void hook_pool_set(struct call *call, uint64_t pool, CUmemPool_attribute attribute,
		   const void *value)
{
	bool is_read = call->result == CUDA_SUCCESS && value &&
		       attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;

	hook_operation(call, pool, attribute, is_read ? *(const cuuint64_t *)value : 0,
		       STREAM_NONE);
}

void hook_pool_of_device(struct call *call, uint64_t pool, CUdevice device)
{
	(void)call;
	place_note_pool(pool, device, false);
	pool_list_add(pool, device);
}

void hook_pool_of_location(struct call *call, uint64_t pool, const CUmemLocation *location,
			   CUmemAllocationType type)
{
	(void)call;
	if (pool)
		note(pool, location, type);
}
