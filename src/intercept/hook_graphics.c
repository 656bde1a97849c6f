/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a graphics interface that is mapped into a context.  Its bytes are
 * that interface's; where it lies is told when the program asks, and is good
 * until the resource is unmapped.
 */
#include "intercept/current.h"
#include "intercept/hook.h"
#include "intercept/owned.h"

static uint64_t number_of(CUgraphicsResource resource)
{
	return (uintptr_t)resource;
}

void hook_graphics_pointer(struct call *call, uint64_t resource, uint64_t address, uint64_t bytes)
{
	const struct current *now;
	struct block block;
	uint64_t id;

	if (!address || (tracker_find(SPACE_ADDRESS, address, &block) && block.address == address))
		return;
	now = current_ask();
	call->start = clock_ticks(call->self->clock);
	id = block_begin(call, &(struct block_facts){
				       .kind = BLOCK_EXTERNAL,
				       .address = address,
				       .bytes = bytes,
				       .context = now->number,
				       .device = now->device,
			       });
	owned_add(resource, address, id);
}

static void end_mapping(struct call *call, uint64_t resource, uint64_t stream)
{
	struct block block;

	if (call->result != CUDA_SUCCESS)
		owned_put_back(resource);
	else
		while (owned_next(resource, &block))
			block_write_end(call, &block, stream, 0);
}

void hook_graphics_unmap_before(struct call *call, const CUgraphicsResource *resources,
				unsigned int count, uint64_t stream)
{
	(void)call;
	(void)stream;
	for (unsigned int i = 0; resources && i < count; i++)
		owned_take(number_of(resources[i]));
}

void hook_graphics_unmap_after(struct call *call, const CUgraphicsResource *resources,
			       unsigned int count, uint64_t stream)
{
	hook_operation(call, resources && count ? number_of(resources[0]) : 0, 0, 0, stream);
	for (unsigned int i = 0; resources && i < count; i++)
		end_mapping(call, number_of(resources[i]), stream);
}

void hook_graphics_unregister_before(struct call *call, uint64_t resource)
{
	(void)call;
	owned_take(resource);
}

void hook_graphics_unregister_after(struct call *call, uint64_t resource)
{
	hook_operation(call, resource, 0, 0, STREAM_NONE);
	end_mapping(call, resource, STREAM_NONE);
}
