/* SPDX-License-Identifier: Apache-2.0 */
/* hook_pool.c - where the memory of a pool lies, learnt whenever a pool is handed out. */
#include "intercept/hook.h"
#include "intercept/place.h"

/* Managed memory moves: what it is asked to prefer says little, and never the host. */
static int place_of(const CUmemLocation *location, CUmemAllocationType type)
{
	int place = location ? place_of_location(location) : PLACE_NOT_KNOWN;

	return type != CU_MEM_ALLOCATION_TYPE_PINNED && place == PLACE_ON_HOST ? PLACE_NOT_KNOWN :
										 place;
}

void hook_pool_create(struct call *call, uint64_t pool, const CUmemPoolProps *properties)
{
	if (pool && properties)
		place_note_pool(pool, place_of(&properties->location, properties->allocType));
	hook_operation(call, pool, 0, 0, STREAM_NONE);
}

/* Another process made it, and knows. */
void hook_pool_import(struct call *call, uint64_t pool)
{
	place_note_pool(pool, PLACE_NOT_KNOWN);
	hook_operation(call, pool, 0, 0, STREAM_NONE);
}

void hook_pool_of_device(struct call *call, uint64_t pool, CUdevice device)
{
	(void)call;
	place_note_pool(pool, device);
}

void hook_pool_of_location(struct call *call, uint64_t pool, const CUmemLocation *location,
			   CUmemAllocationType type)
{
	(void)call;
	if (pool)
		place_note_pool(pool, place_of(location, type));
}
