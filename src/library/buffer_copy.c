/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_copy.c - copies between buffers and with host memory, and fills.  Addresses
 * are unified, so that one function copies between whatever there is; only between the
 * memory of two devices is it the one that names both, as the way may lead by the host.
 */
#include "library/buffer.h"
#include "library/host.h"

#include <string.h>

static CUdeviceptr address_of(const struct custody_buffer *buffer, size_t offset)
{
	return (CUdeviceptr)(uintptr_t)buffer->memory.pointer + offset;
}

/* ------------------------------------------------------------ between buffers */

static bool is_on_device_alone(const struct custody_buffer *buffer)
{
	return buffer->device >= 0 && !buffer->memory.host_pointer;
}

static CUcontext handle_of(const struct custody_buffer *buffer)
{
	return atomic_load(&buffer->object.context->handle);
}

static bool is_refusal(CUresult result)
{
	return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED ||
	       result == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

/*
 * The function that names both devices finds a way where one exists, but is no node of
 * a graph: a capture would be lost.
 */
static int copy_between_devices(const struct buffer_place *target, CUcontext to,
				const struct buffer_place *source, CUcontext from, size_t bytes,
				CUstream stream)
{
	bool is_capturing;
	CUresult result;
	int error = stream_ask_capturing(stream, &is_capturing);

	if (error)
		return error;
	if (is_capturing)
		return library_cuda.cuMemcpyAsync(target->address, source->address, bytes, stream);
	result = library_cuda.cuMemcpyPeerAsync(target->address, to, source->address, from, bytes,
						stream);
	return is_refusal(result) ? buffer_stage(target, source, bytes, stream) : (int)result;
}

int buffer_copy_bytes(struct custody_buffer *target, size_t target_offset,
		      struct custody_buffer *source, size_t source_offset, size_t bytes,
		      CUstream stream)
{
	const struct buffer_place to = { target->object.context,
					 address_of(target, target_offset) };
	const struct buffer_place from = { source->object.context,
					   address_of(source, source_offset) };

	if (!bytes)
		return 0;
	if (to.context == from.context || !is_on_device_alone(target) ||
	    !is_on_device_alone(source))
		return library_cuda.cuMemcpyAsync(to.address, from.address, bytes, stream);
	return copy_between_devices(&to, handle_of(target), &from, handle_of(source), bytes,
				    stream);
}

/* The stream has to know one of the two; which one's default it is without, `enter` says. */
static int check_pair(const struct custody_buffer *source, const struct custody_buffer *target,
		      const struct custody_stream *stream)
{
	int error = buffer_check(source);

	if (!error)
		error = buffer_check(target);
	if (error)
		return error;
	if (source->memory.bytes != target->memory.bytes)
		return error_say(CUSTODY_E_MISMATCH, "%zu bytes cannot be copied to a buffer of "
				 "%zu", source->memory.bytes, target->memory.bytes);
	if (stream && stream->object.context != source->object.context &&
	    stream->object.context != target->object.context)
		return error_say(CUSTODY_E_MISMATCH, "the stream is of neither buffer's context");
	return 0;
}

/* Memory of the host that somebody else has given may be registered by the program. */
static void note_host(const struct custody_buffer *buffer, const struct library_call *call)
{
	const struct custody_buffer *whole = buffer->whole ? buffer->whole : buffer;

	if (!whole->resource && buffer->memory.host_pointer)
		host_use(buffer->memory.host_pointer, buffer->memory.bytes, call->context);
}

/* `home` is the buffer whose default stream it is without a stream. */
static int copy(struct custody_buffer *source, struct custody_buffer *target,
		const struct custody_buffer *home, struct custody_stream *stream)
{
	struct library_call call;
	bool is_synchronous;
	CUstream handle;
	int error = check_pair(source, target, stream);

	if (!error)
		error = buffer_enter_stream(&call, home, stream, &handle, &is_synchronous);
	if (error)
		return error;
	note_host(source, &call);
	note_host(target, &call);
	error = buffer_copy_bytes(target, 0, source, 0, source->memory.bytes, handle);
	if (!error)
		error = stream_finish(handle, is_synchronous && source->memory.bytes);
	return library_leave(&call, error);
}

static int make_target(struct custody_buffer *source, struct custody_stream *stream,
		       struct custody_buffer **target)
{
	struct custody_resource *resource = custody_buffer_resource(source);
	int error = buffer_check(source);

	if (error)
		return error;
	if (!resource)
		return error_say(CUSTODY_E_INVALID, "the buffer is of no resource, so there is "
				 "none to make its copy of");
	return custody_buffer_create(resource, source->memory.bytes, stream, target);
}

/* Of virtual memory there may be more in the copy, as its sizes are rounded: never here. */
static int copy_to_new(struct custody_buffer *source, struct custody_buffer **target,
		       struct custody_stream *stream)
{
	struct custody_buffer *made;
	int error = make_target(source, stream, &made);

	if (error)
		return error;
	error = copy(source, made, source, stream);
	if (error)
		custody_buffer_release(made);
	else
		*target = made;
	return error;
}

int custody_buffer_copy_to(struct custody_buffer *source, struct custody_buffer **target,
			   struct custody_stream *stream)
{
	int error = target ? library_check() :
			     error_say(CUSTODY_E_INVALID, "where to put the copy is NULL");

	if (error)
		return error;
	return *target ? copy(source, *target, source, stream) :
			 copy_to_new(source, target, stream);
}

int custody_buffer_copy_from(struct custody_buffer *target, struct custody_buffer *source,
			     struct custody_stream *stream)
{
	int error = library_check();

	return error ? error : copy(source, target, target, stream);
}

/* ------------------------------------------------------------ with host memory */

static int check_range(const struct custody_buffer *buffer, size_t offset, const void *host,
		       size_t bytes)
{
	int error = buffer_check(buffer);

	if (error)
		return error;
	if (offset > buffer->memory.bytes || bytes > buffer->memory.bytes - offset)
		return error_say(CUSTODY_E_BOUNDS, "%zu bytes from byte %zu on reach beyond the "
				 "%zu of the buffer", bytes, offset, buffer->memory.bytes);
	if (!host && bytes)
		return error_say(CUSTODY_E_INVALID, "the host memory is NULL");
	return 0;
}

/* Check, and enter where there is something to do. */
static int enter_range(struct library_call *call, const struct custody_buffer *buffer,
		       size_t offset, const void *host, size_t bytes,
		       struct custody_stream *stream, CUstream *handle, bool *is_synchronous)
{
	int error = library_check();

	if (!error)
		error = check_range(buffer, offset, host, bytes);
	if (!error)
		error = buffer_enter_stream(call, buffer, stream, handle, is_synchronous);
	if (error)
		return error;
	host_use(host, bytes, call->context);
	note_host(buffer, call);
	return 0;
}

int custody_buffer_write(struct custody_buffer *target, size_t offset, const void *host,
			 size_t bytes, struct custody_stream *stream)
{
	struct library_call call;
	bool is_synchronous;
	CUstream handle;
	int error = enter_range(&call, target, offset, host, bytes, stream, &handle,
				&is_synchronous);

	if (error || !bytes)
		return error ? error : library_leave(&call, 0);
	if (is_on_device_alone(target))
		error = library_cuda.cuMemcpyHtoDAsync(address_of(target, offset), host, bytes,
						       handle);
	else
		error = library_cuda.cuMemcpyAsync(address_of(target, offset),
						   (CUdeviceptr)(uintptr_t)host, bytes, handle);
	return library_leave(&call, error ? error : stream_finish(handle, is_synchronous));
}

int custody_buffer_read(struct custody_buffer *source, size_t offset, void *host, size_t bytes,
			struct custody_stream *stream)
{
	struct library_call call;
	bool is_synchronous;
	CUstream handle;
	int error = enter_range(&call, source, offset, host, bytes, stream, &handle,
				&is_synchronous);

	if (error || !bytes)
		return error ? error : library_leave(&call, 0);
	if (is_on_device_alone(source))
		error = library_cuda.cuMemcpyDtoHAsync(host, address_of(source, offset), bytes,
						       handle);
	else
		error = library_cuda.cuMemcpyAsync((CUdeviceptr)(uintptr_t)host,
						   address_of(source, offset), bytes, handle);
	return library_leave(&call, error ? error : stream_finish(handle, is_synchronous));
}

/* ------------------------------------------------------------ fills */

static int check_fill(const struct custody_buffer *buffer, const void *value, size_t width)
{
	int error = buffer_check(buffer);

	if (error)
		return error;
	if (!value || (width != 1 && width != 2 && width != 4))
		return error_say(CUSTODY_E_INVALID, "a buffer is filled with a value of 1, 2 or 4 "
				 "bytes, not %zu", value ? width : 0);
	if (buffer->memory.bytes % width)
		return error_say(CUSTODY_E_INVALID, "%zu bytes are no multiple of %zu",
				 buffer->memory.bytes, width);
	if ((uintptr_t)buffer->memory.pointer % width)
		return error_say(CUSTODY_E_INVALID, "%p is no multiple of %zu",
				 buffer->memory.pointer, width);
	return 0;
}

static CUresult fill_by_device(const struct custody_buffer *buffer, const void *value,
			       size_t width, CUstream handle)
{
	const CUdeviceptr address = address_of(buffer, 0);
	const size_t count = buffer->memory.bytes / width;
	uint16_t middle;
	uint32_t wide;

	switch (width) {
	case 1:
		return library_cuda.cuMemsetD8Async(address, *(const unsigned char *)value, count,
						    handle);
	case 2:
		memcpy(&middle, value, sizeof(middle));
		return library_cuda.cuMemsetD16Async(address, middle, count, handle);
	default:
		memcpy(&wide, value, sizeof(wide));
		return library_cuda.cuMemsetD32Async(address, wide, count, handle);
	}
}

/* What the device does not fill, and the host reaches, is filled by that, in turn. */
static int fill_by_host(const struct custody_buffer *buffer, const void *value, size_t width,
			CUstream handle)
{
	bool is_capturing;
	int error = stream_ask_capturing(handle, &is_capturing);

	if (!error && is_capturing)
		error = error_say(CUSTODY_E_CAPTURING, "memory that the device does not fill "
				  "cannot be filled in a graph");
	if (!error)
		error = stream_finish(handle, true);
	for (size_t i = 0; !error && i < buffer->memory.bytes; i += width)
		memcpy((char *)buffer->memory.host_pointer + i, value, width);
	return error;
}

int custody_buffer_fill(struct custody_buffer *buffer, const void *value, size_t width,
			struct custody_stream *stream)
{
	struct library_call call;
	bool is_synchronous;
	CUstream handle;
	int error = library_check();

	if (!error)
		error = check_fill(buffer, value, width);
	if (!error)
		error = buffer_enter_stream(&call, buffer, stream, &handle, &is_synchronous);
	if (error || !buffer->memory.bytes)
		return error ? error : library_leave(&call, 0);
	note_host(buffer, &call);
	if (!buffer->memory.device_pointer && buffer->memory.host_pointer)
		return library_leave(&call, fill_by_host(buffer, value, width, handle));
	error = fill_by_device(buffer, value, width, handle);
	if (error == CUDA_ERROR_INVALID_VALUE && buffer->memory.host_pointer)
		return library_leave(&call, fill_by_host(buffer, value, width, handle));
	return library_leave(&call, error ? error : stream_finish(handle, is_synchronous));
}
