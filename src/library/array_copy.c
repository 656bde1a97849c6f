/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of whole arrays.  Where no stream is given, nor bound to the array, they go to
 * the default stream and are waited for.
 */
#include "library/array.h"
#include "library/host.h"

#include <stdlib.h>

/* ------------------------------------------------------------ parts of a copy */

int array_copy_begin(struct array_work *work, const struct custody_array *array,
		     struct custody_stream *stream)
{
	int error;

	if (!stream)
		stream = array->stream;
	error = array_note_stream(array->buffer, stream);
	if (!error)
		error = buffer_enter_stream(&work->call, array->buffer, stream, &work->handle,
					    &work->is_synchronous);
	if (error)
		return error;
	work->context = work->call.context;
	array_stage_collect(work->context);
	return 0;
}

int array_copy_end(struct array_work *work, int result)
{
	if (!result)
		result = stream_finish(work->handle, work->is_synchronous);
	return library_leave(&work->call, result);
}

int array_copy_out(const struct array_work *work, void *host, const struct custody_array *array,
		   ptrdiff_t moved, size_t bytes)
{
	const CUdeviceptr from = array_address(array) + (CUdeviceptr)moved;

	host_use(host, bytes, work->context);
	if (!array->buffer->memory.device_pointer)
		return library_cuda.cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, from, bytes,
						  work->handle);
	return library_cuda.cuMemcpyDtoHAsync(host, from, bytes, work->handle);
}

int array_copy_in(const struct array_work *work, const struct custody_array *array,
		  ptrdiff_t moved, const void *host, size_t bytes)
{
	const CUdeviceptr to = array_address(array) + (CUdeviceptr)moved;

	host_use(host, bytes, work->context);
	if (!array->buffer->memory.device_pointer)
		return library_cuda.cuMemcpyAsync(to, (CUdeviceptr)(uintptr_t)host, bytes,
						  work->handle);
	return library_cuda.cuMemcpyHtoDAsync(to, host, bytes, work->handle);
}

int array_copy_check_target(const struct custody_array *array)
{
	if (!array->is_read_only)
		return 0;
	return error_say(CUSTODY_E_INVALID, "whoever gave the array away wants it read only");
}

/* ------------------------------------------------------------------ to the host */

/* The same shape and strides, axes of one element aside. */
static int check_host(const struct layout *layout, const struct layout *host)
{
	struct layout mine = *layout, theirs = *host;
	int error = layout_match(&mine, &theirs);

	if (error || layout->count == 0 || layout_has_strides(&theirs, mine.strides))
		return error;
	return error_say(CUSTODY_E_MISMATCH, "the strides of the host memory are not the array's");
}

/* All that can be said before the host memory is needed. */
static int check_copy_out(const struct custody_array *array, const struct custody_layout *layout)
{
	struct layout host;
	int error = array_check(array);

	if (error)
		return error;
	if (layout_is_backward(&array->layout))
		return error_say(CUSTODY_E_UNSUPPORTED,
				 "an array with negative strides is not copied to the host");
	if (!layout)
		return 0;
	error = array_read_layout(&host, layout);
	return error ? error : check_host(&array->layout, &host);
}

static int copy_out(const struct custody_array *array, void *host, struct custody_stream *stream)
{
	struct array_work work;
	int error = array_copy_begin(&work, array, stream);

	if (error)
		return error;
	return array_copy_end(&work,
			      array_copy_out(&work, host, array, 0, array->layout.extent));
}

int custody_array_copy_to_host(struct custody_array *array, void *host,
			       const struct custody_layout *layout, struct custody_stream *stream)
{
	int error = check_copy_out(array, layout);

	if (error || array->layout.count == 0)
		return error;
	if (!host)
		return error_say(CUSTODY_E_INVALID, "the host memory is NULL");
	return copy_out(array, host, stream);
}

int custody_array_copy_to_new_host(struct custody_array *array, void **host,
				   struct custody_stream *stream)
{
	int error = check_copy_out(array, NULL);
	void *made;

	if (error)
		return error;
	if (!host)
		return error_say(CUSTODY_E_INVALID, "where to put the host memory is NULL");
	/* What the elements leave out is copied too; before that it is nobody's secret. */
	made = calloc(1, array->layout.extent ? array->layout.extent : 1);
	if (!made)
		return CUSTODY_E_NO_MEMORY;
	if (array->layout.count)
		error = copy_out(array, made, stream);
	if (error)
		free(made);
	else
		*host = made;
	return error;
}

/* ---------------------------------------------------------------- from the host */

/* A target is one block, but for what it repeats. */
static int check_contiguous(const struct layout *layout, const char *what)
{
	if (layout_is_contiguous(layout, CUSTODY_ORDER_C) ||
	    layout_is_contiguous(layout, CUSTODY_ORDER_F))
		return 0;
	return error_say(CUSTODY_E_NEEDS_COPY, "the %s is not contiguous", what);
}

/* Through host memory of our own, in the order of the target. */
static int copy_in_order(struct array_work *work, const struct custody_array *target,
			 const struct layout *to, const void *host, const struct layout *from)
{
	void *stage;
	int error = array_stage_new(work, to->extent, &stage);

	if (error)
		return error;
	layout_gather(to, stage, from, host);
	return array_stage_send(work, target, 0, stage, to->extent);
}

static int copy_in(const struct custody_array *target, const struct layout *to, const void *host,
		   const struct layout *from, struct custody_stream *stream)
{
	struct array_work work;
	int error = array_copy_begin(&work, target, stream);

	if (error)
		return error;
	if (layout_has_strides(from, to->strides))
		error = array_copy_in(&work, target, 0, host, to->extent);
	else
		error = copy_in_order(&work, target, to, host, from);
	return array_copy_end(&work, error);
}

int custody_array_copy_from_host(struct custody_array *target, const void *host,
				 const struct custody_layout *layout,
				 struct custody_stream *stream)
{
	struct layout to, from;
	int error = array_check(target);

	if (!error)
		error = array_copy_check_target(target);
	if (error)
		return error;
	from = target->layout;
	if (layout)
		error = array_read_layout(&from, layout);
	if (error || from.count == 0)
		return error;
	if (!host)
		return error_say(CUSTODY_E_INVALID, "the host memory is NULL");
	to = target->layout;
	error = layout_pair(&to, &from);
	if (!error)
		error = check_contiguous(&to, "array");
	return error ? error : copy_in(target, &to, host, &from, stream);
}

/* An array like the host memory, which is one block but for what it repeats. */
static int create_like_host(struct custody_context *context, const struct custody_layout *layout,
			    struct custody_stream *stream, struct custody_array **array)
{
	struct layout mine, core;
	int error = array_read_layout(&mine, layout);

	if (error)
		return error;
	layout_core(&core, &mine);
	error = check_contiguous(&core, "host memory");
	return error ? error : custody_array_create(context, layout, NULL, stream, array);
}

int custody_array_to_device(struct custody_context *context, const void *host,
			    const struct custody_layout *layout, struct custody_stream *stream,
			    bool copy, struct custody_array *into, struct custody_array **array)
{
	struct custody_array *made = into;
	struct error_kept kept;
	int error = 0;

	error_forget();
	if (!context || !array || !layout)
		return error_say(CUSTODY_E_INVALID, "the context, the layout, or where to put the "
				 "array is NULL");
	if (!into)
		error = create_like_host(context, layout, stream, &made);
	if (error)
		return error;
	if (copy)
		error = custody_array_copy_from_host(made, host, layout, stream);
	if (!error)
		*array = made;
	if (!error || into)
		return error;
	error_keep(&kept);
	custody_array_destroy(made);
	return error_say_kept(error, &kept);
}

/* ------------------------------------------------------------ between two arrays */

static int check_apart(const struct custody_array *target, const struct custody_array *source,
		       size_t bytes)
{
	const CUdeviceptr to = array_address(target), from = array_address(source);

	if (to == from || to + bytes <= from || from + bytes <= to)
		return 0;
	return error_say(CUSTODY_E_INVALID, "the two arrays overlap");
}

static int check_pair(const struct custody_array *target, const struct custody_array *source,
		      size_t *bytes)
{
	struct layout to = target->layout, from = source->layout;
	int error = layout_pair(&to, &from);

	if (!error)
		error = check_contiguous(&to, "target");
	if (!error)
		error = check_contiguous(&from, "source");
	if (error)
		return error;
	if (!layout_has_strides(&from, to.strides))
		return error_say(CUSTODY_E_MISMATCH, "one array is in C order and one in F order");
	*bytes = to.extent;
	return check_apart(target, source, *bytes);
}

/* What the host waits for afterwards has to follow what the source's context still does. */
static int wait_for_source(const struct custody_array *source)
{
	struct library_call call;
	int error = context_enter(&call, &source->buffer->object);

	if (error)
		return error;
	return library_leave(&call, stream_finish(stream_default_handle(), true));
}

/* The stream is to know one of the two at least. */
static int check_stream(const struct custody_array *target, const struct custody_array *source,
			const struct custody_stream *stream)
{
	if (!stream || stream->object.context == target->buffer->object.context ||
	    stream->object.context == source->buffer->object.context)
		return 0;
	return error_say(CUSTODY_E_MISMATCH, "the stream is of neither array's context");
}

static int copy_between(struct custody_array *target, struct custody_array *source, size_t bytes,
			struct custody_stream *stream)
{
	struct array_work work;
	int error;

	if (!stream)
		stream = target->stream ? target->stream : source->stream;
	error = check_stream(target, source, stream);
	if (!error)
		error = array_note_stream(source->buffer, stream);
	if (!error && !stream && source->buffer->object.context != target->buffer->object.context)
		error = wait_for_source(source);
	if (!error)
		error = array_copy_begin(&work, target, stream);
	if (error)
		return error;
	error = buffer_copy_bytes(target->buffer, target->offset, source->buffer, source->offset,
				  bytes, work.handle);
	return array_copy_end(&work, error);
}

int custody_array_copy(struct custody_array *target, struct custody_array *source,
		       struct custody_stream *stream)
{
	size_t bytes;
	int error = array_check(target);

	if (!error)
		error = array_check(source);
	if (!error)
		error = array_copy_check_target(target);
	if (error || source->layout.count == 0)
		return error;
	error = check_pair(target, source, &bytes);
	if (error || array_address(target) == array_address(source))
		return error;
	return copy_between(target, source, bytes, stream);
}
