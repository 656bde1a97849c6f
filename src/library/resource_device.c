/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource_device.c - resources of the driver's plain allocating functions: device
 * memory, page-locked host memory and managed memory.  Their frees go into the queue
 * of the context.
 */
#include "library/resource.h"

static CUdeviceptr address_of(const void *pointer)
{
	return (CUdeviceptr)(uintptr_t)pointer;
}

static void *pointer_of(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

static int free_device(struct custody_resource *resource, CUstream handle,
		       struct custody_stream *stream, struct resource_memory *memory)
{
	(void)resource;
	(void)handle;
	(void)stream;
	return library_cuda.cuMemFree(address_of(memory->pointer));
}

static int make(struct custody_context *context, const struct resource_ops *ops,
		const struct custody_resource_info *facts, unsigned int flags,
		struct custody_resource **resource)
{
	struct custody_resource *made = resource_new(ops, facts);

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	made->flags = flags;
	resource_add(made, context);
	*resource = made;
	return 0;
}

static int say_null(void)
{
	return error_say(CUSTODY_E_INVALID, "the context, or where to put the resource, is NULL");
}

/* ------------------------------------------------------------ device memory */

static int allocate_device(struct custody_resource *resource, CUstream handle,
			   struct custody_stream *stream, struct resource_memory *memory)
{
	CUdeviceptr address;
	CUresult result = library_cuda.cuMemAlloc(&address, memory->bytes);

	(void)resource;
	(void)handle;
	(void)stream;
	if (result == CUDA_SUCCESS)
		memory->pointer = memory->device_pointer = pointer_of(address);
	return result;
}

static const struct resource_ops device_ops = {
	.honour = RESOURCE_QUEUED,
	.allocate = allocate_device,
	.deallocate = free_device,
};

int resource_device_make(struct custody_context *context, struct custody_resource **resource)
{
	const struct custody_resource_info facts = {
		.kind = CUSTODY_RESOURCE_DEVICE,
		.device = context->device->ordinal,
		.is_device_accessible = true,
		.is_shareable = true,
	};

	return make(context, &device_ops, &facts, 0, resource);
}

int custody_resource_device(struct custody_context *context, struct custody_resource **resource)
{
	struct library_call call;
	int error = context && resource ? library_enter_context(&call, context) : say_null();

	return error ? error : library_leave(&call, resource_device_make(context, resource));
}

/* ------------------------------------------------------------ page-locked memory */

/* With unified addresses it is the same one, where the device reaches the memory at all. */
static void *ask_device_pointer(void *pointer)
{
	CUdeviceptr address = 0;

	if (library_cuda.cuMemHostGetDevicePointer(&address, pointer, 0) != CUDA_SUCCESS)
		return NULL;
	return pointer_of(address);
}

static int allocate_pinned(struct custody_resource *resource, CUstream handle,
			   struct custody_stream *stream, struct resource_memory *memory)
{
	CUresult result = library_cuda.cuMemHostAlloc(&memory->pointer, memory->bytes,
						      resource->flags);

	(void)handle;
	(void)stream;
	if (result != CUDA_SUCCESS)
		return result;
	memory->host_pointer = memory->pointer;
	memory->device_pointer = ask_device_pointer(memory->pointer);
	return 0;
}

static int free_pinned(struct custody_resource *resource, CUstream handle,
		       struct custody_stream *stream, struct resource_memory *memory)
{
	(void)resource;
	(void)handle;
	(void)stream;
	return library_cuda.cuMemFreeHost(memory->pointer);
}

static const struct resource_ops pinned_ops = {
	.honour = RESOURCE_QUEUED,
	.allocate = allocate_pinned,
	.deallocate = free_pinned,
};

static unsigned int driver_flags(unsigned int flags)
{
	return (flags & CUSTODY_HOST_PORTABLE ? CU_MEMHOSTALLOC_PORTABLE : 0u) |
	       (flags & CUSTODY_HOST_MAPPED ? CU_MEMHOSTALLOC_DEVICEMAP : 0u) |
	       (flags & CUSTODY_HOST_WRITE_COMBINED ? CU_MEMHOSTALLOC_WRITECOMBINED : 0u);
}

int custody_resource_pinned(struct custody_context *context, unsigned int flags,
			    struct custody_resource **resource)
{
	const unsigned int known = CUSTODY_HOST_PORTABLE | CUSTODY_HOST_MAPPED |
				   CUSTODY_HOST_WRITE_COMBINED;
	const struct custody_resource_info facts = {
		.kind = CUSTODY_RESOURCE_PINNED,
		.device = -1,
		.is_device_accessible = true,
		.is_host_accessible = true,
	};
	struct library_call call;
	int error;

	if (!context || !resource)
		return say_null();
	if (flags & ~known)
		return error_say(CUSTODY_E_INVALID, "page-locked memory has no flags 0x%x",
				 flags & ~known);
	error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, make(context, &pinned_ops, &facts,
							 driver_flags(flags), resource));
}

/* ------------------------------------------------------------ managed memory */

static int allocate_managed(struct custody_resource *resource, CUstream handle,
			    struct custody_stream *stream, struct resource_memory *memory)
{
	CUdeviceptr address;
	CUresult result = library_cuda.cuMemAllocManaged(&address, memory->bytes,
							 resource->flags);

	(void)handle;
	(void)stream;
	if (result == CUDA_SUCCESS)
		memory->pointer = memory->host_pointer = memory->device_pointer =
			pointer_of(address);
	return result;
}

static const struct resource_ops managed_ops = {
	.honour = RESOURCE_QUEUED,
	.allocate = allocate_managed,
	.deallocate = free_device,
};

int custody_resource_managed(struct custody_context *context, bool is_global,
			     struct custody_resource **resource)
{
	struct library_call call;
	int is_supported = 0;
	int error = context && resource ? library_enter_context(&call, context) : say_null();

	if (error)
		return error;
	error = custody_device_attribute(context->device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
					 &is_supported);
	if (!error && !is_supported)
		error = error_say(CUSTODY_E_UNSUPPORTED, "device %d has no managed memory",
				  context->device->ordinal);
	if (!error)
		error = make(context, &managed_ops,
			     &(struct custody_resource_info){
				     .kind = CUSTODY_RESOURCE_MANAGED,
				     .device = context->device->ordinal,
				     .is_device_accessible = true,
				     .is_host_accessible = true,
				     .is_managed = true,
			     },
			     is_global ? CU_MEM_ATTACH_GLOBAL : CU_MEM_ATTACH_HOST, resource);
	return library_leave(&call, error);
}
