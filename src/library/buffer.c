/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.c - how buffers are made: of a resource, of memory of somebody else, of a part
 * of another one.  How they end: buffer_end.c.
 */
#include "library/buffer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------ checks */

/* The part of a buffer whose closing closes it. */
static const struct custody_buffer *whole_of(const struct custody_buffer *buffer)
{
	return buffer->whole ? buffer->whole : buffer;
}

bool custody_buffer_is_closed(const struct custody_buffer *buffer)
{
	return !buffer || atomic_load(&buffer->is_closed) ||
	       atomic_load(&whole_of(buffer)->is_closed);
}

static int say_closed(void)
{
	return error_say(CUSTODY_E_CLOSED, "the buffer was closed");
}

int buffer_check(const struct custody_buffer *buffer)
{
	if (!buffer)
		return error_say(CUSTODY_E_INVALID, "the buffer is NULL");
	if (!context_is_fresh(buffer->object.context, buffer->object.generation))
		return error_say(CUSTODY_E_STALE, "the buffer's context, of device %d, was reset",
				 buffer->object.context->device->ordinal);
	return custody_buffer_is_closed(buffer) ? say_closed() : 0;
}

int buffer_enter(struct library_call *call, const struct custody_buffer *buffer)
{
	int error = buffer ? context_enter(call, &buffer->object) : buffer_check(buffer);

	if (error)
		return error;
	return custody_buffer_is_closed(buffer) ? library_leave(call, say_closed()) : 0;
}

int buffer_enter_stream(struct library_call *call, const struct custody_buffer *buffer,
			struct custody_stream *stream, CUstream *handle, bool *is_synchronous)
{
	int error = library_check();

	if (!error)
		error = buffer_check(buffer);
	if (error)
		return error;
	error = stream ? stream_enter(call, stream) : buffer_enter(call, buffer);
	if (error)
		return error;
	error = stream_resolve(stream, call->context, handle, is_synchronous);
	return error ? library_leave(call, error) : 0;
}

/* ------------------------------------------------------------ making */

struct custody_buffer *buffer_new(struct custody_context *context, struct custody_stream *stream)
{
	struct custody_buffer *buffer = calloc(1, sizeof(*buffer));

	if (!buffer)
		return NULL;
	atomic_init(&buffer->references, 1);
	buffer->object.context = context;
	buffer->device = context->device->ordinal;
	pthread_mutex_init(&buffer->lock, NULL);
	buffer->free_use = (struct resource_use){ stream, resource_thread() };
	stream_retain(stream);
	return buffer;
}

void buffer_forget_others(struct custody_buffer *buffer)
{
	for (size_t i = 0; i < buffer->other_count; i++)
		stream_release(buffer->others[i].stream);
	free(buffer->others);
	buffer->others = NULL;
	buffer->other_count = 0;
}

void buffer_discard(struct custody_buffer *buffer)
{
	buffer_forget_others(buffer);
	ipc_forget(buffer);
	stream_release(buffer->free_use.stream);
	custody_resource_release(buffer->resource);
	custody_buffer_release(buffer->whole);
	pthread_mutex_destroy(&buffer->lock);
	free(buffer);
}

void buffer_add(struct custody_buffer *buffer)
{
	buffer_end_prepare(buffer);
	context_put(&buffer->object, buffer->object.context, buffer->object.end);
}

static int fill(struct custody_buffer *buffer, struct custody_resource *resource, size_t bytes,
		struct custody_stream *stream)
{
	int error = resource_take(resource, bytes, stream, &buffer->memory);

	if (error)
		return error;
	custody_resource_retain(resource);
	buffer->resource = resource;
	buffer->device = resource->facts.device;
	buffer->is_managed = resource->facts.is_managed;
	return 0;
}

static int create(struct custody_resource *resource, size_t bytes, struct custody_stream *stream,
		  struct custody_buffer **buffer)
{
	struct custody_buffer *made = buffer_new(resource->object.context, stream);
	int error;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	error = fill(made, resource, bytes, stream);
	if (error) {
		buffer_discard(made);
		return error;
	}
	buffer_add(made);
	*buffer = made;
	return 0;
}

static int find_resource(struct custody_resource **resource)
{
	struct custody_context *context;
	int error = custody_context_current(-1, &context);

	return error ? error : resource_default_take(context->device, resource);
}

int custody_buffer_create(struct custody_resource *resource, size_t bytes,
			  struct custody_stream *stream, struct custody_buffer **buffer)
{
	struct custody_resource *named = resource;
	struct library_call call;
	int error;

	if (!buffer)
		return error_say(CUSTODY_E_INVALID, "where to put the buffer is NULL");
	error = resource ? 0 : find_resource(&resource);
	if (error)
		return error;
	error = resource_enter(&call, resource);
	if (!error)
		error = library_leave(&call, create(resource, bytes, stream, buffer));
	if (!named)
		custody_resource_release(resource);
	return error;
}

/* ------------------------------------------------------------ memory of somebody else */

/* What the driver knows of an address; of what it does not know the device can reach nothing. */
static void ask_driver(struct custody_buffer *buffer, void *pointer)
{
	unsigned int type = 0, is_managed = 0;
	CUdeviceptr device_pointer = 0;
	void *host_pointer = NULL;
	int ordinal = -1;
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		CU_POINTER_ATTRIBUTE_HOST_POINTER,
	};
	void *values[] = { &type, &is_managed, &ordinal, &device_pointer, &host_pointer };
	CUresult result = library_cuda.cuPointerGetAttributes(
		sizeof(values) / sizeof(values[0]), attributes, values,
		(CUdeviceptr)(uintptr_t)pointer);
	bool is_known = result == CUDA_SUCCESS && type;
	bool is_host = !is_known || is_managed || type == CU_MEMORYTYPE_HOST;

	buffer->is_managed = is_managed;
	buffer->device = is_known && type == CU_MEMORYTYPE_DEVICE ? ordinal : -1;
	buffer->memory.device_pointer = is_known ? (void *)(uintptr_t)device_pointer : NULL;
	if (is_host)
		buffer->memory.host_pointer = host_pointer ? host_pointer : pointer;
}

static int wrap(struct custody_context *context, void *pointer, size_t bytes,
		void (*release)(void *owner, struct custody_stream *stream), void *owner,
		struct custody_buffer **buffer)
{
	struct custody_buffer *made = buffer_new(context, NULL);

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	made->memory = (struct resource_memory){ .pointer = pointer, .bytes = bytes };
	if (bytes)
		ask_driver(made, pointer);
	made->release = release;
	made->owner = owner;
	buffer_add(made);
	*buffer = made;
	return 0;
}

int custody_buffer_wrap(struct custody_context *context, void *pointer, size_t bytes,
			void (*release)(void *owner, struct custody_stream *stream), void *owner,
			struct custody_buffer **buffer)
{
	struct library_call call;
	int error;

	if (!context || !buffer)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the buffer, is "
				 "NULL");
	if (!pointer && bytes)
		return error_say(CUSTODY_E_INVALID, "%zu bytes cannot begin at NULL", bytes);
	error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, wrap(context, pointer, bytes, release, owner,
							 buffer));
}

/* ------------------------------------------------------------ parts */

static void *advance(void *pointer, size_t offset)
{
	return pointer ? (char *)pointer + offset : NULL;
}

static int cut(struct custody_buffer *buffer, size_t offset, size_t bytes,
	       struct custody_buffer **slice)
{
	const struct resource_memory *memory = &buffer->memory;
	struct custody_buffer *made = buffer_new(buffer->object.context, NULL);

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	made->memory = (struct resource_memory){
		.pointer = bytes ? advance(memory->pointer, offset) : NULL,
		.host_pointer = bytes ? advance(memory->host_pointer, offset) : NULL,
		.device_pointer = bytes ? advance(memory->device_pointer, offset) : NULL,
		.bytes = bytes,
	};
	made->device = buffer->device;
	made->is_managed = buffer->is_managed;
	made->is_mapped = buffer->is_mapped;
	made->whole = buffer->whole ? buffer->whole : buffer;
	custody_buffer_retain(made->whole);
	buffer_add(made);
	*slice = made;
	return 0;
}

int custody_buffer_slice(struct custody_buffer *buffer, size_t offset, size_t bytes,
			 struct custody_buffer **slice)
{
	int error = slice ? library_check() :
			    error_say(CUSTODY_E_INVALID, "where to put the part is NULL");

	if (!error)
		error = buffer_check(buffer);
	if (error)
		return error;
	if (offset > buffer->memory.bytes || bytes > buffer->memory.bytes - offset)
		return error_say(CUSTODY_E_BOUNDS, "%zu bytes from byte %zu on reach beyond the "
				 "%zu of the buffer", bytes, offset, buffer->memory.bytes);
	return cut(buffer, offset, bytes, slice);
}
