/* SPDX-License-Identifier: Apache-2.0 */
#include "library/ipc.h"

#include <string.h>

/* ------------------------------------------------------------ exporting */

static struct custody_buffer *whole_of(struct custody_buffer *buffer)
{
	return buffer->whole ? buffer->whole : buffer;
}

/* What can be exported at all, and how. */
static int kind_of(const struct custody_buffer *whole, enum ipc_kind *kind)
{
	const struct custody_resource *resource = whole->resource;

	if (resource && !whole->import && resource->facts.kind == CUSTODY_RESOURCE_DEVICE)
		*kind = IPC_LEGACY;
	else if (resource && !whole->import && resource_pool_is(resource) &&
		 resource->facts.is_shareable)
		*kind = IPC_POOL;
	else
		return error_say(CUSTODY_E_UNSUPPORTED, "only buffers of the device resource and "
				 "of shareable pools can be exported");
	return 0;
}

static int ask_handle(struct ipc_content *content, const struct custody_buffer *whole)
{
	const CUdeviceptr address = (CUdeviceptr)(uintptr_t)whole->memory.pointer;
	CUmemPoolPtrExportData data;
	CUipcMemHandle handle;
	CUresult result;

	if (content->kind == IPC_LEGACY) {
		result = library_cuda.cuIpcGetMemHandle(&handle, address);
		memcpy(content->handle, &handle, sizeof(content->handle));
		return result;
	}
	if (!library_cuda.cuMemPoolExportPointer)
		return CUSTODY_E_UNSUPPORTED;
	result = library_cuda.cuMemPoolExportPointer(&data, address);
	memcpy(content->handle, &data, sizeof(content->handle));
	return result;
}

static int ask_uuid(struct custody_device *device, unsigned char uuid[IPC_UUID_BYTES])
{
	struct custody_device_info info = { .size = sizeof(info) };
	int error = custody_device_info(device, &info);

	if (!error)
		memcpy(uuid, info.uuid_bytes, IPC_UUID_BYTES);
	return error;
}

static int describe(struct custody_buffer *buffer, struct ipc_content *content)
{
	struct custody_buffer *whole = whole_of(buffer);
	int error = kind_of(whole, &content->kind);

	if (!error && !buffer->memory.pointer)
		error = error_say(CUSTODY_E_INVALID, "a buffer without memory cannot be exported");
	if (error)
		return error;
	content->offset = (uint64_t)((char *)buffer->memory.pointer -
				     (char *)whole->memory.pointer);
	content->bytes = buffer->memory.bytes;
	content->whole_bytes = whole->memory.bytes;
	error = ipc_descriptor_process(content->process);
	if (!error)
		error = ask_uuid(buffer->object.context->device, content->uuid);
	if (!error)
		error = ask_handle(content, whole);
	if (!error)
		whole->memory.is_exported = true;
	return error;
}

int custody_buffer_export(struct custody_buffer *buffer, struct custody_ipc_descriptor *descriptor)
{
	struct ipc_content content = { 0 };
	struct library_call call;
	int error = descriptor ? buffer_enter(&call, buffer) :
				 error_say(CUSTODY_E_INVALID, "the descriptor is NULL");

	if (error)
		return error;
	error = describe(buffer, &content);
	if (!error)
		ipc_descriptor_write(&content, descriptor);
	return library_leave(&call, error);
}

/* ------------------------------------------------------------ closing */

/* Unmapping is not ordered by streams, but of memory of a pool. */
int ipc_close(struct custody_buffer *buffer, const struct resource_uses *uses)
{
	struct custody_resource *resource = ipc_cache_resource(buffer->import);
	CUstream handle = NULL;
	int error = resource ? resource_wait_own(resource, uses, &handle) :
			       resource_wait_host(buffer->object.context, uses);

	if (!error)
		error = ipc_cache_close(buffer->import, handle);
	if (!error)
		buffer->import = NULL;
	return error;
}

void ipc_forget(struct custody_buffer *buffer)
{
	if (buffer->import)
		ipc_cache_forget(buffer->import);
	buffer->import = NULL;
}

/* ------------------------------------------------------------ importing */

static int check_size(const struct ipc_content *content, const struct ipc_import *import)
{
	size_t bytes = ipc_cache_bytes(import);

	if (content->offset <= bytes && content->bytes <= bytes - content->offset)
		return 0;
	return error_say(CUSTODY_E_CORRUPT, "the descriptor is of %llu bytes from byte %llu on of "
			 "an allocation that has %zu", (unsigned long long)content->bytes,
			 (unsigned long long)content->offset, bytes);
}

/* A pool does not say of what memory it is, before some of it is there. */
static bool is_on_host(const void *pointer)
{
	unsigned int type = CU_MEMORYTYPE_DEVICE;

	return library_cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						  (CUdeviceptr)(uintptr_t)pointer) ==
		       CUDA_SUCCESS &&
	       type == CU_MEMORYTYPE_HOST;
}

static void fill(struct custody_buffer *buffer, const struct ipc_content *content,
		 struct ipc_import *import)
{
	struct custody_resource *resource = ipc_cache_resource(import);
	char *pointer = (char *)ipc_cache_pointer(import) + content->offset;

	buffer->memory = (struct resource_memory){
		.pointer = pointer,
		.device_pointer = pointer,
		.bytes = content->bytes,
	};
	if (is_on_host(ipc_cache_pointer(import))) {
		buffer->memory.host_pointer = pointer;
		buffer->device = -1;
	}
	buffer->import = import;
	buffer->is_mapped = true;
	buffer->resource = resource;
	custody_resource_retain(resource);
}

/* With the context entered, whose device reaches the memory. */
static int map(struct custody_context *context, const struct ipc_content *content,
	       struct custody_resource *resource, struct custody_stream *stream,
	       struct custody_buffer **buffer)
{
	struct custody_buffer *made = buffer_new(context, stream);
	struct ipc_import *import;
	int error;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	error = ipc_cache_open(content, context, resource, &import);
	if (error) {
		buffer_discard(made);
		return error;
	}
	fill(made, content, import);
	error = check_size(content, import);
	if (error) {
		ipc_close(made, &(struct resource_uses){ .at = { .stream = stream } });
		buffer_discard(made);
		return error;
	}
	buffer_add(made);
	*buffer = made;
	return 0;
}

/* ------------------------------------------------------------ out of reach */

/* Memory of the importer's own for a copy. */
static int make_copy(struct custody_context *context, size_t bytes, struct custody_stream *stream,
		     struct custody_buffer **copy)
{
	struct custody_resource *resource;
	int error = custody_resource_device(context, &resource);

	if (error)
		return error;
	error = custody_buffer_create(resource, bytes, stream, copy);
	custody_resource_release(resource);
	return error;
}

/* Open it where it can be opened, in the exporter's device, and bring the bytes over. */
static int copy_over(struct custody_context *context, struct custody_context *home,
		     const struct ipc_content *content, struct custody_stream *stream,
		     struct custody_buffer **buffer)
{
	struct custody_buffer *opened, *copy;
	struct library_call call;
	int error = library_enter_context(&call, home);

	if (error)
		return error;
	error = library_leave(&call, map(home, content, NULL, NULL, &opened));
	if (error)
		return error;
	error = make_copy(context, content->bytes, stream, &copy);
	if (!error) {
		error = custody_buffer_copy_to(opened, &copy, NULL);
		if (error)
			custody_buffer_release(copy);
		else
			*buffer = copy;
	}
	custody_buffer_release(opened);
	return error;
}

/* ------------------------------------------------------------ who exported it */

static int find_device(const struct ipc_content *content, struct custody_device **device)
{
	unsigned char uuid[IPC_UUID_BYTES];
	int count, error = custody_device_count(&count);

	for (int ordinal = 0; !error && ordinal < count; ordinal++) {
		error = custody_device_get(ordinal, device);
		if (!error)
			error = ask_uuid(*device, uuid);
		if (!error && !memcmp(uuid, content->uuid, sizeof(uuid)))
			return 0;
	}
	return error ? error : error_say(CUSTODY_E_NO_DEVICE, "the device of the descriptor is not "
					 "one that this process sees");
}

static int import_legacy(struct custody_context *context, const struct ipc_content *content,
			 struct custody_stream *stream, struct custody_buffer **buffer)
{
	struct custody_device *device;
	bool can_access = true;
	int error = find_device(content, &device);

	if (!error && device != context->device)
		error = custody_device_can_access_peer(context->device, device, &can_access);
	if (error)
		return error;
	return can_access ? map(context, content, NULL, stream, buffer) :
			    copy_over(context, device->context, content, stream, buffer);
}

static int import_pooled(struct custody_context *context, const struct ipc_content *content,
			 struct custody_resource *resource, struct custody_stream *stream,
			 struct custody_buffer **buffer)
{
	if (!resource->facts.is_imported)
		return error_say(CUSTODY_E_INVALID, "the resource is not an imported pool");
	if (resource->object.context != context ||
	    !context_is_fresh(context, resource->object.generation))
		return error_say(CUSTODY_E_MISMATCH, "the imported pool is of another context");
	return map(context, content, resource, stream, buffer);
}

static int check(const struct custody_ipc_descriptor *descriptor,
		 const struct custody_resource *resource, struct ipc_content *content)
{
	unsigned char own[IPC_PROCESS_BYTES];
	int error = ipc_descriptor_read(descriptor, content);

	if (!error)
		error = ipc_descriptor_process(own);
	if (error)
		return error;
	if (!memcmp(own, content->process, sizeof(own)))
		return error_say(CUSTODY_E_OWN_PROCESS, "this process has exported the memory "
				 "itself");
	if (content->kind == IPC_POOL && !resource)
		return error_say(CUSTODY_E_INVALID, "memory of a pool is imported by the pool it "
				 "is of, which is NULL");
	if (content->kind == IPC_LEGACY && resource)
		return error_say(CUSTODY_E_MISMATCH, "the memory is of no pool, but a resource is "
				 "given");
	return 0;
}

int custody_buffer_import(struct custody_context *context,
			  const struct custody_ipc_descriptor *descriptor,
			  struct custody_resource *resource, struct custody_stream *stream,
			  struct custody_buffer **buffer)
{
	struct ipc_content content;
	struct library_call call;
	int error;

	if (!context || !descriptor || !buffer)
		return error_say(CUSTODY_E_INVALID, "the context, the descriptor, or where to put "
				 "the buffer, is NULL");
	error = check(descriptor, resource, &content);
	if (!error)
		error = library_enter_context(&call, context);
	if (error)
		return error;
	return library_leave(&call,
			     resource ? import_pooled(context, &content, resource, stream, buffer) :
					import_legacy(context, &content, stream, buffer));
}

/* ------------------------------------------------------------ pools */

static int export_pool(struct custody_resource *resource, int *descriptor)
{
	if (!resource_pool_is(resource) || !resource->facts.is_shareable ||
	    resource->facts.is_imported || !library_cuda.cuMemPoolExportToShareableHandle)
		return error_say(CUSTODY_E_UNSUPPORTED, "only shareable pools of this process can "
				 "be exported");
	return library_cuda.cuMemPoolExportToShareableHandle(
		descriptor, resource->pool.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

int custody_resource_export(struct custody_resource *resource, int *descriptor)
{
	struct library_call call;
	int error = descriptor ? resource_enter(&call, resource) :
				 error_say(CUSTODY_E_INVALID, "the descriptor is NULL");

	return error ? error : library_leave(&call, export_pool(resource, descriptor));
}

static int import_pool(struct custody_context *context, int descriptor,
		       struct custody_resource **resource)
{
	const struct custody_resource_info facts = {
		.kind = CUSTODY_RESOURCE_POOL,
		.device = context->device->ordinal,
		.is_device_accessible = true,
		.is_shareable = true,
		.is_imported = true,
		.is_owned = true,
	};
	CUmemoryPool pool;
	int error = resource_pool_check(context);

	if (error)
		return error;
	if (!library_cuda.cuMemPoolImportFromShareableHandle ||
	    !library_cuda.cuMemPoolImportPointer)
		return error_say(CUSTODY_E_UNSUPPORTED, "the driver cannot import pools");
	error = library_cuda.cuMemPoolImportFromShareableHandle(
		&pool, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (error)
		return error;
	error = resource_pool_adopt(context, pool, &facts, resource);
	if (error)
		library_cuda.cuMemPoolDestroy(pool);
	return error;
}

int custody_resource_import(struct custody_context *context, int descriptor,
			    struct custody_resource **resource)
{
	struct library_call call;
	int error;

	if (!context || !resource || descriptor < 0)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the resource, is "
				 "NULL, or the descriptor is %d", descriptor);
	error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, import_pool(context, descriptor, resource));
}
