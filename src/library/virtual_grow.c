/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtual_grow.c - buffers of virtual memory that grow, and their physical memory in
 * other processes.
 */
#include "library/buffer.h"
#include "library/virtual_range.h"

#include <stdlib.h>
#include <unistd.h>

/* Enter the context of a buffer that is a whole range of virtual memory. */
static int enter(struct library_call *call, struct custody_buffer *buffer)
{
	int error = buffer_enter(call, buffer);

	if (error)
		return error;
	if (buffer->resource && buffer->resource->facts.kind == CUSTODY_RESOURCE_VIRTUAL &&
	    buffer->memory.pointer)
		return 0;
	return library_leave(call, error_say(CUSTODY_E_INVALID, "the buffer is not one of virtual "
					     "memory, or has none"));
}

/* A buffer of the resource for a range; the range stays the caller's where there is no memory. */
static int make_buffer(struct custody_resource *resource, const struct resource_use *at,
		       struct virtual_range *range, struct custody_buffer **buffer)
{
	struct custody_buffer *made = buffer_new(resource->object.context, at->stream);

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	resource_virtual_describe(range, &made->memory);
	custody_resource_retain(resource);
	made->resource = resource;
	made->free_use = *at;
	made->device = resource->facts.device;
	buffer_add(made);
	*buffer = made;
	return 0;
}

/* Take over a range, or end it. */
static int adopt(struct custody_resource *resource, const struct resource_use *at,
		 struct virtual_range *range, struct custody_buffer **buffer)
{
	int error = make_buffer(resource, at, range, buffer);
	bool is_gone;

	if (error)
		virtual_range_end(range, &is_gone);
	return error;
}

/* ------------------------------------------------------------ growing */

struct growth {
	struct custody_resource *resource;
	const struct virtual_range *old;
	size_t bytes;
	struct virtual_range *range;
};

static int attempt(void *argument)
{
	struct growth *growth = argument;
	struct resource_mode before;
	int error;

	resource_relax(&before);
	error = virtual_range_grow(&growth->resource->space, growth->old, growth->bytes,
				   &growth->range);
	resource_restore(&before);
	return error;
}

static int grow(struct custody_buffer *buffer, size_t bytes, struct custody_buffer **grown)
{
	struct growth growth = { .resource = buffer->resource, .old = buffer->memory.part };
	int error;

	growth.bytes = bytes > buffer->memory.bytes ?
			       resource_virtual_round(buffer->resource, bytes) :
			       buffer->memory.bytes;
	if (!growth.bytes)
		return error_say(CUDA_ERROR_OUT_OF_MEMORY, "there are no addresses for %zu bytes",
				 bytes);
	error = resource_insist(buffer->resource, growth.bytes, attempt, &growth);
	return error ? error : adopt(buffer->resource, &buffer->free_use, growth.range, grown);
}

int custody_virtual_grow(struct custody_buffer *buffer, size_t bytes,
			 struct custody_buffer **grown)
{
	struct library_call call;
	int error = grown ? enter(&call, buffer) :
			    error_say(CUSTODY_E_INVALID, "where to put the buffer is NULL");

	return error ? error : library_leave(&call, grow(buffer, bytes, grown));
}

/* ------------------------------------------------------------ in other processes */

static int export_one(CUmemGenericAllocationHandle handle, int *descriptor)
{
	return library_cuda.cuMemExportToShareableHandle(
		descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

/* All or none. */
static int export_all(const struct virtual_range *range, struct custody_virtual_piece *pieces)
{
	size_t done = 0;
	int error = 0;

	while (done < virtual_range_count(range) && !error) {
		pieces[done].bytes = virtual_range_piece_bytes(range, done);
		error = export_one(virtual_range_handle(range, done), &pieces[done].descriptor);
		done += !error;
	}
	while (error && done > 0)
		close(pieces[--done].descriptor);
	return error;
}

static int export(const struct custody_buffer *buffer, struct custody_virtual_piece *pieces,
		  size_t most, size_t *count)
{
	const struct virtual_range *range = buffer->memory.part;
	int error;

	if (!buffer->resource->facts.is_shareable)
		return error_say(CUSTODY_E_UNSUPPORTED, "the resource is not one whose memory can "
				 "be exported");
	if (virtual_range_count(range) > most)
		return error_say(CUSTODY_E_BOUNDS, "the buffer has %zu pieces, and there is room "
				 "for %zu", virtual_range_count(range), most);
	error = export_all(range, pieces);
	if (!error)
		*count = virtual_range_count(range);
	return error;
}

int custody_virtual_export(struct custody_buffer *buffer, struct custody_virtual_piece *pieces,
			   size_t most, size_t *count)
{
	struct library_call call;
	int error;

	if (!pieces || !count)
		return error_say(CUSTODY_E_INVALID, "where to put the pieces, or how many they "
				 "are, is NULL");
	error = enter(&call, buffer);
	return error ? error : library_leave(&call, export(buffer, pieces, most, count));
}

static int import_one(int descriptor, CUmemGenericAllocationHandle *handle)
{
	return library_cuda.cuMemImportFromShareableHandle(
		handle, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

/* A size that is not the memory's own is refused by the driver when it is mapped. */
static int check_pieces(const struct custody_resource *resource,
			const struct custody_virtual_piece *pieces, size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; i < count; i++)
		if (!pieces[i].bytes || pieces[i].bytes % resource->space.granularity ||
		    __builtin_add_overflow(sum, pieces[i].bytes, &sum))
			return error_say(CUSTODY_E_CORRUPT, "a piece of virtual memory has not %zu "
					 "bytes", pieces[i].bytes);
	return 0;
}

struct import {
	CUmemGenericAllocationHandle *handles;
	size_t *bytes;
	size_t count;
};

static int map_all(struct custody_resource *resource, const struct custody_virtual_piece *pieces,
		   struct import *import, struct virtual_range **range)
{
	size_t done = 0;
	int error = 0;

	while (done < import->count && !error) {
		import->bytes[done] = pieces[done].bytes;
		error = import_one(pieces[done].descriptor, &import->handles[done]);
		done += !error;
	}
	if (!error)
		error = virtual_range_import(&resource->space, import->handles, import->bytes,
					     import->count, range);
	while (error && done > 0)
		library_cuda.cuMemRelease(import->handles[--done]);
	return error;
}

static int import(struct custody_resource *resource, const struct custody_virtual_piece *pieces,
		  size_t count, struct custody_stream *stream, struct custody_buffer **buffer)
{
	struct import import = {
		.handles = calloc(count, sizeof(CUmemGenericAllocationHandle)),
		.bytes = calloc(count, sizeof(size_t)),
		.count = count,
	};
	const struct resource_use at = { stream, resource_thread() };
	struct virtual_range *range;
	int error = CUSTODY_E_NO_MEMORY;

	if (import.handles && import.bytes)
		error = map_all(resource, pieces, &import, &range);
	free(import.handles);
	free(import.bytes);
	return error ? error : adopt(resource, &at, range, buffer);
}

int custody_virtual_import(struct custody_resource *resource,
			   const struct custody_virtual_piece *pieces, size_t count,
			   struct custody_stream *stream, struct custody_buffer **buffer)
{
	struct resource_mode before;
	struct library_call call;
	int error;

	if (!pieces || !count || !buffer)
		return error_say(CUSTODY_E_INVALID, "there are no pieces, or where to put the "
				 "buffer is NULL");
	error = resource_enter(&call, resource);
	if (error)
		return error;
	if (resource->facts.kind != CUSTODY_RESOURCE_VIRTUAL)
		error = error_say(CUSTODY_E_INVALID, "the resource is not one of virtual memory");
	if (!error)
		error = check_pieces(resource, pieces, count);
	resource_relax(&before);
	if (!error)
		error = import(resource, pieces, count, stream, buffer);
	resource_restore(&before);
	return library_leave(&call, error);
}
