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
#include <string.h>

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

/* An array's layout, which is bytes where none is given. */
static int read_range_layout(struct layout *layout, const struct custody_range *range,
			     const struct custody_layout *given)
{
	const struct custody_layout bytes = { .size = sizeof(bytes), .ndim = 1,
					      .shape = { range->bytes },
					      .type = { CUSTODY_TYPE_UINT, 1 } };
	int error = array_read_layout(layout, given ? given : &bytes);

	if (error || layout->extent <= range->bytes)
		return error;
	return error_say(CUSTODY_E_BOUNDS, "elements reach over %zu bytes, the range has %zu",
			 layout->extent, range->bytes);
}

static int make_array(struct custody_context *context, const struct host_range *range,
		      const struct layout *layout, struct custody_stream *stream,
		      struct custody_array **array)
{
	struct custody_buffer *buffer;
	int error = wrap_range(context, range, &buffer);

	if (error)
		return error;
	error = array_make(buffer, layout->before, layout, stream, array);
	custody_buffer_release(buffer);
	return error;
}

static int make_arrays(struct custody_map *map, struct custody_context *context,
		       const struct layout *layouts, unsigned int flags,
		       struct custody_stream *stream)
{
	struct library_call call;
	int error = library_enter_context(&call, context);

	if (error)
		return error;
	for (size_t i = 0; i < map->scope.count && !error; i++) {
		error = make_array(context, &map->scope.ranges[i], &layouts[i], stream,
				   &map->arrays[i]);
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
	for (size_t i = map->scope.count; i-- > 0;)
		custody_array_destroy(map->arrays[i]);
	host_forget(&map->scope);
	free(map->arrays);
	free(map);
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

/* How far apart a caller's layouts are: as his header has them. */
static int find_step(const struct custody_layout *given, size_t count, size_t *step)
{
	*step = given && count ? given->size : 0;
	for (size_t i = 1; i < count && *step; i++) {
		size_t size;

		memcpy(&size, (const char *)given + i * *step, sizeof(size));
		if (size != *step)
			return error_say(CUSTODY_E_INVALID,
					 "layout %zu does not have the size of the first", i);
	}
	return 0;
}

/* Before anything is registered, so that less has to be undone. */
static int read_layouts(const struct custody_range *ranges, const struct custody_layout *given,
			size_t count, struct layout *layouts)
{
	size_t step;
	int error = find_step(given, count, &step);

	for (size_t i = 0; i < count && !error; i++) {
		const void *one = given ? (const char *)given + i * step : NULL;

		error = read_range_layout(&layouts[i], &ranges[i], one);
	}
	return error;
}

/* A map of nothing yet, with room for its arrays; NULL: no memory. */
static struct custody_map *new_map(size_t count)
{
	struct custody_map *map = calloc(1, sizeof(*map));

	if (map)
		map->arrays = calloc(count ? count : 1, sizeof(*map->arrays));
	if (map && map->arrays)
		return map;
	free(map);
	return NULL;
}

/* The arrays of a map that nobody has seen go with it, and so do the registrations. */
static int undo(struct custody_map *map, int error)
{
	struct error_kept kept;

	error_keep(&kept);
	close_buffers(&map->scope);
	host_abandon(&map->scope);
	discard(map);
	return error_say_kept(error, &kept);
}

static int begin_map(struct custody_context *context, const struct custody_range *ranges,
		     const struct layout *layouts, size_t count, unsigned int flags,
		     struct custody_stream *stream, struct custody_map **map)
{
	struct custody_map *made = new_map(count);
	int error;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	error = host_begin(&made->scope, context, ranges, count, flags, true);
	if (!error)
		error = make_arrays(made, context, layouts, flags, stream);
	if (error)
		return undo(made, error);
	*map = made;
	return 0;
}

int custody_map_begin(struct custody_context *context, const struct custody_range *ranges,
		      const struct custody_layout *layouts, size_t count, unsigned int flags,
		      struct custody_stream *stream, struct custody_map **map)
{
	struct layout *mine;
	int error;

	error_forget();
	if (!map || !context || (!ranges && count))
		return error_say(CUSTODY_E_INVALID, "the context, the ranges, or where to put the "
				 "map, are NULL");
	error = check_device(context);
	if (error)
		return error;
	mine = calloc(count ? count : 1, sizeof(*mine));
	if (!mine)
		return CUSTODY_E_NO_MEMORY;
	error = read_layouts(ranges, layouts, count, mine);
	if (!error)
		error = begin_map(context, ranges, mine, count, flags, stream, map);
	free(mine);
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

void custody_map_leave(struct custody_map **map)
{
	if (map && *map)
		custody_map_end(*map);
}
