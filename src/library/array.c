/* SPDX-License-Identifier: Apache-2.0 */
#include "library/array.h"

#include <stdlib.h>

/* ----------------------------------------------------------------- layouts */

int array_read_layout(struct layout *layout, const struct custody_layout *given)
{
	struct custody_layout mine;
	int error;

	if (!given)
		return error_say(CUSTODY_E_INVALID, "there is no layout");
	error = library_options(&mine, sizeof(mine), given);
	return error ? error : layout_make(layout, &mine);
}

static bool read_alone(struct layout *layout, const struct custody_layout *given)
{
	error_forget();
	return array_read_layout(layout, given) == 0;
}

size_t custody_layout_count(const struct custody_layout *layout)
{
	struct layout mine;

	return read_alone(&mine, layout) ? mine.count : 0;
}

size_t custody_layout_bytes(const struct custody_layout *layout)
{
	struct layout mine;

	return read_alone(&mine, layout) ? mine.bytes : 0;
}

size_t custody_layout_extent(const struct custody_layout *layout)
{
	struct layout mine;

	return read_alone(&mine, layout) ? mine.extent : 0;
}

bool custody_layout_is_c_contiguous(const struct custody_layout *layout)
{
	struct layout mine;

	return read_alone(&mine, layout) && layout_is_contiguous(&mine, CUSTODY_ORDER_C);
}

bool custody_layout_is_f_contiguous(const struct custody_layout *layout)
{
	struct layout mine;

	return read_alone(&mine, layout) && layout_is_contiguous(&mine, CUSTODY_ORDER_F);
}

/* ---------------------------------------------------------- coming and going */

static int check_reach(const struct custody_buffer *buffer, size_t offset,
		       const struct layout *layout)
{
	const size_t bytes = buffer->memory.bytes;

	if (offset <= bytes && layout->before <= offset &&
	    layout->extent - layout->before <= bytes - offset)
		return 0;
	return error_say(CUSTODY_E_BOUNDS,
			 "elements from %zu bytes below to %zu above offset %zu are not all in a "
			 "buffer of %zu bytes",
			 layout->before, layout->extent - layout->before, offset, bytes);
}

/* Memory that is freed behind all work of its context needs no word of a stream of that. */
static bool is_told_apart(const struct custody_buffer *whole, const struct custody_stream *stream)
{
	return whole->resource && (whole->resource->ops->honour != RESOURCE_QUEUED ||
				   whole->object.context != stream->object.context);
}

int array_note_stream(struct custody_buffer *buffer, struct custody_stream *stream)
{
	struct custody_buffer *whole = buffer->whole ? buffer->whole : buffer;
	bool is_freed_there;

	if (!stream || !is_told_apart(whole, stream))
		return 0;
	pthread_mutex_lock(&whole->lock);
	is_freed_there = whole->free_use.stream == stream &&
			 !resource_is_elsewhere(&whole->free_use);
	pthread_mutex_unlock(&whole->lock);
	return is_freed_there ? 0 : custody_buffer_record_stream(buffer, stream);
}

int array_make(struct custody_buffer *buffer, size_t offset, const struct layout *layout,
	       struct custody_stream *stream, struct custody_array **array)
{
	struct custody_array *made;
	int error = check_reach(buffer, offset, layout);

	if (!error)
		error = array_note_stream(buffer, stream);
	if (error)
		return error;
	made = calloc(1, sizeof(*made));
	if (!made)
		return CUSTODY_E_NO_MEMORY;
	custody_buffer_retain(buffer);
	stream_retain(stream);
	made->buffer = buffer;
	made->stream = stream;
	made->layout = *layout;
	made->offset = offset;
	*array = made;
	return 0;
}

/* The resource for memory that nobody has named one for, with a reference. */
static int take_resource(struct custody_context *context, struct custody_resource *named,
			 struct custody_resource **resource)
{
	if (!named)
		return context->is_primary ? resource_default_take(context->device, resource) :
					     custody_resource_device(context, resource);
	if (custody_resource_context(named) != context)
		return error_say(CUSTODY_E_MISMATCH, "the resource is of another context");
	custody_resource_retain(named);
	*resource = named;
	return 0;
}

/* A buffer as large as the elements reach, and the array over it. */
static int create(struct custody_context *context, const struct layout *layout,
		  struct custody_resource *named, struct custody_stream *stream,
		  struct custody_array **array)
{
	struct custody_resource *resource;
	struct custody_buffer *buffer;
	struct error_kept kept;
	int error = take_resource(context, named, &resource);

	if (error)
		return error;
	error = custody_buffer_create(resource, layout->extent, stream, &buffer);
	error_keep(&kept);
	custody_resource_release(resource);
	if (error)
		return error_say_kept(error, &kept);
	error = array_make(buffer, layout->before, layout, stream, array);
	custody_buffer_release(buffer);
	return error;
}

int custody_array_create(struct custody_context *context, const struct custody_layout *layout,
			 struct custody_resource *resource, struct custody_stream *stream,
			 struct custody_array **array)
{
	struct layout mine;
	int error;

	error_forget();
	if (!context || !array)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the array, "
				 "is NULL");
	error = array_read_layout(&mine, layout);
	return error ? error : create(context, &mine, resource, stream, array);
}

int custody_array_create_like(struct custody_context *context, const struct custody_layout *like,
			      struct custody_resource *resource, struct custody_stream *stream,
			      struct custody_array **array)
{
	struct layout mine, packed;
	int error;

	error_forget();
	if (!context || !array)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the array, "
				 "is NULL");
	error = array_read_layout(&mine, like);
	if (!error)
		error = layout_pack_like(&packed, &mine);
	return error ? error : create(context, &packed, resource, stream, array);
}

int custody_array_over(struct custody_buffer *buffer, size_t offset,
		       const struct custody_layout *layout, struct custody_stream *stream,
		       struct custody_array **array)
{
	struct layout mine;
	int error;

	error_forget();
	if (!array)
		return error_say(CUSTODY_E_INVALID, "where to put the array is NULL");
	error = library_init();
	if (!error)
		error = buffer_check(buffer);
	if (!error)
		error = array_read_layout(&mine, layout);
	return error ? error : array_make(buffer, offset, &mine, stream, array);
}

int array_wrap(struct custody_context *context, void *pointer, const struct layout *layout,
	       struct custody_stream *stream,
	       void (*release)(void *owner, struct custody_stream *stream), void *owner,
	       struct custody_array **array)
{
	struct custody_buffer *buffer;
	int error = custody_buffer_wrap(context, layout->extent ? pointer : NULL, layout->extent,
					release, owner, &buffer);

	if (error)
		return error;
	error = array_make(buffer, layout->before, layout, stream, array);
	/* An owner whose memory was not taken over is not to hear of it. */
	if (error)
		buffer->release = NULL;
	custody_buffer_release(buffer);
	return error;
}

/* A buffer that cannot be freed during a capture keeps its reference: the array stays. */
int custody_array_destroy(struct custody_array *array)
{
	int error, first;

	if (!array)
		return 0;
	first = custody_buffer_release(array->buffer);
	if (first == CUSTODY_E_CAPTURING)
		return first;
	error = stream_release(array->stream);
	free(array);
	return first ? first : error;
}

/* --------------------------------------------------------------- questions */

int array_check(const struct custody_array *array)
{
	int error;

	error_forget();
	if (!array)
		return error_say(CUSTODY_E_INVALID, "the array is NULL");
	error = library_init();
	return error ? error : buffer_check(array->buffer);
}

int custody_array_layout(const struct custody_array *array, struct custody_layout *layout)
{
	struct custody_layout shown;

	error_forget();
	if (!array || !layout)
		return error_say(CUSTODY_E_INVALID, "the array, or the layout to fill, is NULL");
	layout_show(&array->layout, &shown);
	return library_fill(layout, &shown, sizeof(shown));
}

size_t custody_array_nbytes(const struct custody_array *array)
{
	return array ? array->layout.bytes : 0;
}

size_t custody_array_alloc_bytes(const struct custody_array *array)
{
	return array ? array->layout.extent : 0;
}

bool custody_array_is_c_contiguous(const struct custody_array *array)
{
	return array && layout_is_contiguous(&array->layout, CUSTODY_ORDER_C);
}

bool custody_array_is_f_contiguous(const struct custody_array *array)
{
	return array && layout_is_contiguous(&array->layout, CUSTODY_ORDER_F);
}

bool custody_array_is_read_only(const struct custody_array *array)
{
	return array && array->is_read_only;
}

static void *first_element(const struct custody_array *array, void *base)
{
	return base && array->layout.count ? (char *)base + array->offset : NULL;
}

CUdeviceptr array_address(const struct custody_array *array)
{
	return (CUdeviceptr)(uintptr_t)first_element(array, array->buffer->memory.pointer);
}

void *custody_array_pointer(const struct custody_array *array)
{
	return array_check(array) ? NULL : first_element(array, array->buffer->memory.pointer);
}

void *custody_array_host_pointer(const struct custody_array *array)
{
	return array_check(array) ? NULL :
				    first_element(array, array->buffer->memory.host_pointer);
}

void *custody_array_device_pointer(const struct custody_array *array)
{
	return array_check(array) ? NULL :
				    first_element(array, array->buffer->memory.device_pointer);
}

struct custody_buffer *custody_array_buffer(const struct custody_array *array)
{
	return array ? array->buffer : NULL;
}

struct custody_stream *custody_array_stream(const struct custody_array *array)
{
	return array ? array->stream : NULL;
}
