/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource_virtual.c - resources of hand-made mappings.  Unmapping is not ordered by
 * streams, so the host waits for those that use the memory before it is given back.
 */
#include "library/virtual_range.h"

#include <stdlib.h>

/* ------------------------------------------------------------ memory */

size_t resource_virtual_round(const struct custody_resource *resource, size_t bytes)
{
	const size_t granularity = resource->space.granularity;

	if (bytes > SIZE_MAX - granularity)
		return 0;
	return (bytes + granularity - 1) / granularity * granularity;
}

void resource_virtual_describe(struct virtual_range *range, struct resource_memory *memory)
{
	*memory = (struct resource_memory){
		.pointer = virtual_range_pointer(range),
		.device_pointer = virtual_range_pointer(range),
		.bytes = virtual_range_bytes(range),
		.part = range,
	};
}

/* More than there are addresses is more than there is memory. */
static int allocate_range(struct custody_resource *resource, CUstream handle,
			  struct custody_stream *stream, struct resource_memory *memory)
{
	size_t bytes = resource_virtual_round(resource, memory->bytes);
	struct virtual_range *range;
	int error;

	(void)handle;
	(void)stream;
	if (!bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = virtual_range_make(&resource->space, bytes, &range);
	if (!error)
		resource_virtual_describe(range, memory);
	return error;
}

static int free_range(struct custody_resource *resource, CUstream handle,
		      struct custody_stream *stream, struct resource_memory *memory)
{
	bool is_gone;
	int error = virtual_range_end(memory->part, &is_gone);

	(void)resource;
	(void)handle;
	(void)stream;
	if (error && is_gone)
		memory->pointer = NULL;
	return error;
}

/* Mappings are no context's. */
static void lose_range(struct resource_memory *memory)
{
	bool is_gone;

	virtual_range_end(memory->part, &is_gone);
}

static const struct resource_ops virtual_ops = {
	.honour = RESOURCE_WAITED,
	.allocate = allocate_range,
	.deallocate = free_range,
	.lose = lose_range,
};

/* ------------------------------------------------------------ making a resource */

static bool has(struct custody_context *context, CUdevice_attribute attribute)
{
	int value = 0;

	return !custody_device_attribute(context->device, attribute, &value) && value;
}

static int check_support(struct custody_context *context, bool is_shareable)
{
	if (!has(context, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
	    !library_cuda.cuMemCreate || !library_cuda.cuMemMap || !library_cuda.cuMemUnmap ||
	    !library_cuda.cuMemAddressReserve || !library_cuda.cuMemSetAccess)
		return error_say(CUSTODY_E_UNSUPPORTED, "device %d or its driver has no virtual "
				 "memory management", context->device->ordinal);
	if (is_shareable &&
	    !has(context, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
		return error_say(CUSTODY_E_UNSUPPORTED, "memory of device %d cannot be exported "
				 "as file descriptors", context->device->ordinal);
	return 0;
}

static int check_peer(struct custody_context *context, struct custody_device *peer)
{
	bool can_access = false;
	int error;

	if (!peer)
		return error_say(CUSTODY_E_INVALID, "a peer is NULL");
	if (peer == context->device)
		return 0;
	error = custody_device_can_access_peer(peer, context->device, &can_access);
	if (!error && !can_access)
		error = error_say(CUSTODY_E_UNSUPPORTED, "device %d cannot reach memory of device "
				  "%d", peer->ordinal, context->device->ordinal);
	return error;
}

static int check_options(struct custody_context *context,
			 const struct custody_virtual_options *options)
{
	int error = check_support(context, options->is_shareable);

	if (!error && options->peer_count && !options->peers)
		error = error_say(CUSTODY_E_INVALID, "there are %zu peers, but the list of them "
				  "is NULL", options->peer_count);
	for (size_t i = 0; i < options->peer_count && !error; i++)
		error = check_peer(context, options->peers[i]);
	return error;
}

static CUmemAccessDesc access_of(int ordinal)
{
	return (CUmemAccessDesc){
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
}

/* The own device first, then the peers. */
static int fill_access(struct resource_virtual *space, int ordinal,
		       const struct custody_virtual_options *options)
{
	space->access = calloc(options->peer_count + 1, sizeof(CUmemAccessDesc));
	if (!space->access)
		return CUSTODY_E_NO_MEMORY;
	space->access[0] = access_of(ordinal);
	for (size_t i = 0; i < options->peer_count; i++)
		space->access[i + 1] = access_of(options->peers[i]->ordinal);
	space->access_count = options->peer_count + 1;
	return 0;
}

static int fill_sizes(struct resource_virtual *space, const struct custody_virtual_options *options)
{
	const CUmemAllocationGranularity_flags which =
		options->has_minimum_granularity ? CU_MEM_ALLOC_GRANULARITY_MINIMUM :
						   CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
	int error = library_cuda.cuMemGetAllocationGranularity(&space->granularity,
							       &space->properties, which);
	const size_t align = options->address_align;

	if (error)
		return error;
	space->address_align = align > space->granularity ? align : space->granularity;
	if (align & (align - 1))
		return error_say(CUSTODY_E_INVALID, "addresses cannot be aligned to %zu, which is "
				 "no power of two", align);
	return 0;
}

static int fill(struct custody_resource *made, int ordinal,
		const struct custody_virtual_options *options)
{
	struct resource_virtual *space = &made->space;
	int error;

	space->properties = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = options->is_shareable ?
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR :
						CU_MEM_HANDLE_TYPE_NONE,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal },
	};
	error = fill_sizes(space, options);
	return error ? error : fill_access(space, ordinal, options);
}

static int make(struct custody_context *context, const struct custody_virtual_options *options,
		struct custody_resource **resource)
{
	const struct custody_resource_info facts = {
		.kind = CUSTODY_RESOURCE_VIRTUAL,
		.device = context->device->ordinal,
		.is_device_accessible = true,
		.is_shareable = options->is_shareable,
	};
	struct custody_resource *made;
	int error = check_options(context, options);

	if (error)
		return error;
	made = resource_new(&virtual_ops, &facts);
	if (!made)
		return CUSTODY_E_NO_MEMORY;
	error = fill(made, facts.device, options);
	if (error) {
		resource_discard(made);
		return error;
	}
	resource_add(made, context);
	*resource = made;
	return 0;
}

int custody_resource_virtual(struct custody_context *context,
			     const struct custody_virtual_options *options,
			     struct custody_resource **resource)
{
	struct custody_virtual_options mine;
	struct library_call call;
	int error;

	if (!context || !resource)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the resource, "
				 "is NULL");
	error = library_options(&mine, sizeof(mine), options);
	if (!error)
		error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, make(context, &mine, resource));
}
