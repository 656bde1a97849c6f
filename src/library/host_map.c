/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_map.c - registrations that a device reaches, each with an array over it.
 *
 * The arrays lie over buffers that are closed with the scope, so that views the caller
 * has made of them are of no use any more, though they stay objects of his.
 */
#include "library/array.h"
#include "library/host.h"

#include <stdlib.h>

struct custody_map {
	struct host_scope scope;
	struct custody_array **arrays; /* one for each range; NULL: not made */
};

/* The buffer over a range, which knows both its addresses. */
static int wrap_range(struct custody_context *context, const struct host_range *range,
		      struct custody_buffer **buffer)
{
	CUdeviceptr address = 0;
	int error = 0;

	if (range->bytes)
		error = library_cuda.cuMemHostGetDevicePointer(&address, range->pointer, 0);
	if (error)
		return error;
	error = custody_buffer_wrap(context, (void *)(uintptr_t)address, range->bytes, NULL, NULL,
				    buffer);
	if (error || !range->bytes)
		return error;
	(*buffer)->memory.host_pointer = range->pointer;
	(*buffer)->memory.device_pointer = (void *)(uintptr_t)address;
	return 0;
}

static int read_range_layout(struct layout *layout, const struct host_range *range,
			     const struct custody_layout *given)
{
	const struct custody_layout bytes = { .size = sizeof(bytes), .ndim = 1,
					      .shape = { range->bytes },
					      .type = { CUSTODY_TYPE_UINT, 1 } };

	return array_read_layout(layout, given ? given : &bytes);
}

static int make_array(struct custody_context *context, const struct host_range *range,
		      const struct custody_layout *given, struct custody_stream *stream,
		      struct custody_array **array)
{
	struct custody_buffer *buffer;
	struct layout layout;
	int error = read_range_layout(&layout, range, given);

	if (!error)
		error = wrap_range(context, range, &buffer);
	if (error)
		return error;
	error = array_make(buffer, layout.before, &layout, stream, array);
	custody_buffer_release(buffer);
	return error;
}

static int make_arrays(struct custody_map *map, struct custody_context *context,
		       const struct custody_layout *layouts, unsigned int flags,
		       struct custody_stream *stream)
{
	struct library_call call;
	int error = library_enter_context(&call, context);

	if (error)
		return error;
	for (size_t i = 0; i < map->scope.count && !error; i++) {
		error = make_array(context, &map->scope.ranges[i], layouts ? &layouts[i] : NULL,
				   stream, &map->arrays[i]);
		if (!error)
			map->arrays[i]->is_read_only = flags & CUSTODY_HOST_READ_ONLY;
	}
	return library_leave(&call, error);
}

/* Nothing uses the ranges any more; they are still registered. */
static void close_buffers(struct host_scope *scope)
{
	struct custody_map *map = (struct custody_map *)scope;

	for (size_t i = scope->count; i-- > 0;)
		if (map->arrays[i])
			custody_buffer_close(map->arrays[i]->buffer, NULL);
}

static void discard(struct custody_map *map)
{
	for (size_t i = map->scope.count; map->arrays && i-- > 0;)
		custody_array_destroy(map->arrays[i]);
	host_forget(&map->scope);
	free(map->arrays);
	free(map);
}

/* The end that undoes a beginning: its own errors would hide the one that led here. */
static void unwind(struct custody_map *map)
{
	bool is_kept;

	host_end(&map->scope, close_buffers, &is_kept);
	discard(map);
}

static int check_device(struct custody_context *context)
{
	int can_map = 0;
	int error = custody_device_attribute(context->device,
					     CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, &can_map);

	if (error || can_map)
		return error;
	return error_say(CUSTODY_E_UNSUPPORTED, "device %d does not reach host memory",
			 context->device->ordinal);
}

static int begin_map(struct custody_map *map, struct custody_context *context,
		     const struct custody_range *ranges, const struct custody_layout *layouts,
		     size_t count, unsigned int flags, struct custody_stream *stream)
{
	int error = host_begin(&map->scope, context, ranges, count, flags, true);

	if (error)
		return error;
	map->arrays = calloc(count ? count : 1, sizeof(*map->arrays));
	if (!map->arrays)
		return CUSTODY_E_NO_MEMORY;
	return make_arrays(map, context, layouts, flags, stream);
}

int custody_map_begin(struct custody_context *context, const struct custody_range *ranges,
		      const struct custody_layout *layouts, size_t count, unsigned int flags,
		      struct custody_stream *stream, struct custody_map **map)
{
	struct custody_map *made;
	int error;

	error_forget();
	if (!map || !context)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the map, is NULL");
	error = check_device(context);
	if (error)
		return error;
	made = calloc(1, sizeof(*made));
	if (!made)
		return CUSTODY_E_NO_MEMORY;
	made->scope.has_ended = true;
	error = begin_map(made, context, ranges, layouts, count, flags, stream);
	if (error)
		unwind(made);
	else
		*map = made;
	return error;
}

int custody_map_array(struct custody_map *map, size_t index, struct custody_array **array)
{
	int error;

	error_forget();
	if (!map || !array)
		return error_say(CUSTODY_E_INVALID, "the map, or where to put the array, is NULL");
	if (index >= map->scope.count)
		return error_say(CUSTODY_E_BOUNDS, "there is no array %zu of %zu", index,
				 map->scope.count);
	error = array_check(map->arrays[index]);
	if (!error)
		*array = map->arrays[index];
	return error;
}

int custody_map_end(struct custody_map *map)
{
	bool is_kept;
	int error;

	error_forget();
	if (!map)
		return 0;
	error = host_end(&map->scope, close_buffers, &is_kept);
	if (!is_kept)
		discard(map);
	return error;
}
