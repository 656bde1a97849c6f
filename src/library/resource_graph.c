/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource_graph.c - memory of a graph that a stream is capturing: each allocation and
 * each free is a node of it, and nothing happens before it is launched.
 */
#include "library/resource.h"

static int say_not_capturing(void)
{
	return error_say(CUSTODY_E_NOT_CAPTURING, "memory of a graph is allocated and freed on a "
			 "stream that is capturing it");
}

static int allocate_node(struct custody_resource *resource, CUstream handle,
			 struct custody_stream *stream, struct resource_memory *memory)
{
	CUdeviceptr address;
	bool is_capturing;
	int error = stream_ask_capturing(handle, &is_capturing);

	(void)resource;
	(void)stream;
	if (!error && !is_capturing)
		error = say_not_capturing();
	if (!error)
		error = library_cuda.cuMemAllocAsync(&address, memory->bytes, handle);
	if (!error)
		memory->pointer = memory->device_pointer = (void *)(uintptr_t)address;
	return error;
}

/*
 * What the graph did not free itself is there once it was launched, and is freed as
 * any memory then.  Before that it is the graph's, and the driver refuses.
 */
static int free_node(struct custody_resource *resource, CUstream handle,
		     struct custody_stream *stream, struct resource_memory *memory)
{
	bool is_capturing;
	int error = stream_resolve(stream, resource->object.context, &handle, NULL);

	if (!error)
		error = stream_ask_capturing(handle, &is_capturing);
	if (error)
		return error;
	error = library_cuda.cuMemFreeAsync((CUdeviceptr)(uintptr_t)memory->pointer, handle);
	return error == CUDA_ERROR_INVALID_VALUE && !is_capturing ? say_not_capturing() : error;
}

static const struct resource_ops graph_ops = {
	.honour = RESOURCE_JOINED,
	.is_ordered = true,
	.allocate = allocate_node,
	.deallocate = free_node,
};

static int make(struct custody_context *context, struct custody_resource **resource)
{
	const struct custody_resource_info facts = {
		.kind = CUSTODY_RESOURCE_GRAPH,
		.device = context->device->ordinal,
		.is_device_accessible = true,
	};
	struct custody_resource *made;
	int error = resource_pool_check(context);

	if (error)
		return error;
	if (!library_cuda.cuMemAllocAsync || !library_cuda.cuDeviceGraphMemTrim)
		return error_say(CUSTODY_E_UNSUPPORTED, "the driver has no memory of graphs");
	made = resource_new(&graph_ops, &facts);
	if (!made)
		return CUSTODY_E_NO_MEMORY;
	resource_add(made, context);
	*resource = made;
	return 0;
}

int custody_resource_graph(struct custody_context *context, struct custody_resource **resource)
{
	struct library_call call;
	int error;

	if (!context || !resource)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the resource, "
				 "is NULL");
	error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, make(context, resource));
}
