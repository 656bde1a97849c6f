/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_use.c - what a buffer says of itself, and the streams that use it.
 */
#include "library/buffer.h"

#include <stdlib.h>

/* ------------------------------------------------------------ what it is */

int custody_buffer_info(const struct custody_buffer *buffer, struct custody_buffer_info *info)
{
	const struct resource_memory none = { 0 };
	const struct resource_memory *memory;
	int error;

	if (!buffer || !info)
		return error_say(CUSTODY_E_INVALID, "the buffer, or where to put what it is, is "
				 "NULL");
	error = library_check();
	if (error)
		return error;
	memory = custody_buffer_is_closed(buffer) ? &none : &buffer->memory;
	return library_fill(info,
			    &(struct custody_buffer_info){
				    .pointer = memory->pointer,
				    .host_pointer = memory->host_pointer,
				    .device_pointer = memory->device_pointer,
				    .bytes = buffer->memory.bytes,
				    .device = buffer->device,
				    .is_device_accessible = memory->device_pointer != NULL,
				    .is_host_accessible = memory->host_pointer != NULL,
				    .is_managed = buffer->is_managed,
				    .is_mapped = buffer->is_mapped,
				    .is_closed = custody_buffer_is_closed(buffer),
			    },
			    sizeof(*info));
}

void *custody_buffer_pointer(const struct custody_buffer *buffer)
{
	return custody_buffer_is_closed(buffer) ? NULL : buffer->memory.pointer;
}

size_t custody_buffer_bytes(const struct custody_buffer *buffer)
{
	return buffer ? buffer->memory.bytes : 0;
}

struct custody_resource *custody_buffer_resource(const struct custody_buffer *buffer)
{
	if (!buffer)
		return NULL;
	return buffer->whole ? buffer->whole->resource : buffer->resource;
}

struct custody_context *custody_buffer_context(const struct custody_buffer *buffer)
{
	return buffer ? buffer->object.context : NULL;
}

/* ------------------------------------------------------------ streams */

/* 0 where the stream can be depended on. */
static int check_stream(const struct custody_stream *stream)
{
	if (stream->is_default ||
	    context_is_fresh(stream->object.context, stream->object.generation))
		return 0;
	return error_say(CUSTODY_E_STALE, "the context of the stream was reset");
}

int custody_buffer_set_free_stream(struct custody_buffer *buffer, struct custody_stream *stream)
{
	struct custody_stream *before;
	int error;

	if (!stream)
		return error_say(CUSTODY_E_INVALID, "a buffer is freed on a stream, not on NULL");
	error = library_check();
	if (!error)
		error = buffer_check(buffer);
	if (!error && buffer->whole)
		error = error_say(CUSTODY_E_INVALID, "a part of a buffer is freed with the whole");
	if (!error)
		error = check_stream(stream);
	if (error)
		return error;
	stream_retain(stream);
	pthread_mutex_lock(&buffer->lock);
	before = buffer->free_use.stream;
	buffer->free_use = (struct resource_use){ stream, resource_thread() };
	pthread_mutex_unlock(&buffer->lock);
	return stream_release(before);
}

/* Under the lock; false: it does not stand there yet. */
static bool find_other(struct custody_buffer *buffer, const struct resource_use *use)
{
	for (size_t i = 0; i < buffer->other_count; i++) {
		if (buffer->others[i].stream != use->stream)
			continue;
		if (buffer->others[i].thread != use->thread)
			buffer->others[i].thread = RESOURCE_THREADS_SEVERAL;
		return true;
	}
	return false;
}

/* Under the lock.  `*is_new` false: it stands there already. */
static int add_other(struct custody_buffer *buffer, const struct resource_use *use, bool *is_new)
{
	struct resource_use *others;

	*is_new = false;
	if (find_other(buffer, use))
		return 0;
	others = realloc(buffer->others, (buffer->other_count + 1) * sizeof(*others));
	if (!others)
		return CUSTODY_E_NO_MEMORY;
	buffer->others = others;
	buffer->others[buffer->other_count++] = *use;
	*is_new = true;
	return 0;
}

/* Of a part the whole is used; memory of nobody's is used by none. */
static int record(struct custody_buffer *buffer, struct custody_stream *stream)
{
	struct custody_buffer *whole = buffer->whole ? buffer->whole : buffer;
	const struct resource_use use = { stream, resource_thread() };
	bool is_new;
	int error;

	if (!whole->memory.pointer)
		return 0;
	stream_retain(stream);
	pthread_mutex_lock(&whole->lock);
	error = add_other(whole, &use, &is_new);
	pthread_mutex_unlock(&whole->lock);
	if (!is_new)
		stream_release(stream);
	return error;
}

int custody_buffer_record_stream(struct custody_buffer *buffer, struct custody_stream *stream)
{
	int error = library_check();

	if (!error)
		error = buffer_check(buffer);
	if (!error && !stream)
		error = custody_stream_default(buffer->object.context, &stream);
	if (!error)
		error = check_stream(stream);
	return error ? error : record(buffer, stream);
}
