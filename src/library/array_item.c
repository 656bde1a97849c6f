/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single elements, and one value for all.  A value goes to the device in the arguments
 * of a memset where it has a size for that: no host memory has to outlive the call
 * then, and a graph can keep it.
 */
#include "library/array.h"

#include <stdlib.h>
#include <string.h>

enum { SEED_ELEMENTS = 1024 }; /* of 8 bytes, before copies double what there is */

/* ------------------------------------------------------------------ memsets */

static bool is_aligned(CUdeviceptr address, size_t width)
{
	return address % width == 0;
}

/* `count` values of 1, 2 or 4 bytes. */
static int set_small(CUdeviceptr address, const void *value, size_t width, size_t count,
		     CUstream stream)
{
	uint8_t byte;
	uint16_t half;
	uint32_t word;

	switch (width) {
	case 1:
		memcpy(&byte, value, sizeof(byte));
		return library_cuda.cuMemsetD8Async(address, byte, count, stream);
	case 2:
		memcpy(&half, value, sizeof(half));
		return library_cuda.cuMemsetD16Async(address, half, count, stream);
	default:
		memcpy(&word, value, sizeof(word));
		return library_cuda.cuMemsetD32Async(address, word, count, stream);
	}
}

/* Copy what is there behind itself until it is enough. */
static int repeat(CUdeviceptr address, size_t there, size_t bytes, CUstream stream)
{
	int error = 0;

	while (there < bytes && !error) {
		const size_t more = there < bytes - there ? there : bytes - there;

		error = library_cuda.cuMemcpyDtoDAsync(address + there, address, more, stream);
		there += more;
	}
	return error;
}

/* Values of 8 bytes, as two columns of words. */
static int set_wide(CUdeviceptr address, const void *value, size_t count, CUstream stream)
{
	const size_t rows = count < SEED_ELEMENTS ? count : SEED_ELEMENTS;
	uint32_t words[2];
	int error;

	memcpy(words, value, sizeof(words));
	if (words[0] == words[1])
		return library_cuda.cuMemsetD32Async(address, words[0], 2 * count, stream);
	error = library_cuda.cuMemsetD2D32Async(address, 8, words[0], 1, rows, stream);
	if (!error)
		error = library_cuda.cuMemsetD2D32Async(address + 4, 8, words[1], 1, rows, stream);
	return error ? error : repeat(address, 8 * rows, 8 * count, stream);
}

static bool can_set(CUdeviceptr address, size_t width)
{
	switch (width) {
	case 1:
	case 2:
	case 4:
		return is_aligned(address, width);
	case 8:
		return is_aligned(address, 4);
	default:
		return false;
	}
}

static int set(CUdeviceptr address, const void *value, size_t width, size_t count,
	       CUstream stream)
{
	return width == 8 ? set_wide(address, value, count, stream) :
			    set_small(address, value, width, count, stream);
}

/* ----------------------------------------------------------- other ways */

static CUdeviceptr device_address(const struct custody_array *array, ptrdiff_t moved)
{
	return (CUdeviceptr)(uintptr_t)array->buffer->memory.device_pointer + array->offset +
	       (CUdeviceptr)moved;
}

/* Host memory that no device reaches: the host writes, behind what the stream does. */
static int set_on_host(const struct array_work *work, const struct custody_array *array,
		       ptrdiff_t moved, const void *value, size_t width, size_t count)
{
	char *to = (char *)array->buffer->memory.host_pointer + array->offset + moved;
	bool is_capturing;
	int error = stream_ask_capturing(work->handle, &is_capturing);

	if (!error && is_capturing)
		error = error_say(CUSTODY_E_CAPTURING, "a graph does not write memory of the host");
	if (!error)
		error = stream_finish(work->handle, true);
	for (size_t i = 0; i < count && !error; i++)
		memcpy(to + i * width, value, width);
	return error;
}

/* One value by a copy out of memory that stays, then copies of it. */
static int set_by_copies(struct array_work *work, const struct custody_array *array,
			 ptrdiff_t moved, const void *value, size_t width, size_t count)
{
	const bool is_synchronous = work->is_synchronous;
	void *stage;
	int error = array_stage_new(work, width, &stage);

	if (error)
		return error;
	memcpy(stage, value, width);
	error = array_stage_send(work, array, moved, stage, width);
	if (error || count == 1)
		return error;
	work->is_synchronous = is_synchronous;
	return repeat(device_address(array, moved), width, width * count, work->handle);
}

static int set_elements(const struct custody_array *array, ptrdiff_t moved, const void *value,
			size_t count, struct custody_stream *stream)
{
	const size_t width = array->layout.type.item_bytes;
	struct array_work work;
	int error = array_copy_begin(&work, array, stream);

	if (error)
		return error;
	if (!array->buffer->memory.device_pointer)
		error = set_on_host(&work, array, moved, value, width, count);
	else if (can_set(device_address(array, moved), width))
		error = set(device_address(array, moved), value, width, count, work.handle);
	else
		error = set_by_copies(&work, array, moved, value, width, count);
	return array_copy_end(&work, error);
}

/* ------------------------------------------------------------------ public */

static int find_element(const struct custody_array *array, const size_t *index, const void *value,
			ptrdiff_t *moved)
{
	const struct layout *layout;
	int error = array_check(array);

	if (error)
		return error;
	layout = &array->layout;
	if (!value || (!index && layout->ndim))
		return error_say(CUSTODY_E_INVALID, "the index, or the value, is NULL");
	for (int i = 0; i < layout->ndim; i++)
		if (index[i] >= layout->shape[i])
			return error_say(CUSTODY_E_BOUNDS,
					 "there is no element %zu of %zu on axis %d", index[i],
					 layout->shape[i], i);
	*moved = layout_offset(layout, index);
	return 0;
}

int custody_array_get(struct custody_array *array, const size_t *index, void *value,
		      struct custody_stream *stream)
{
	struct array_work work;
	ptrdiff_t moved;
	int error = find_element(array, index, value, &moved);

	if (!error)
		error = array_copy_begin(&work, array, stream);
	if (error)
		return error;
	return array_copy_end(&work, array_copy_out(&work, value, array, moved,
						    array->layout.type.item_bytes));
}

int custody_array_set(struct custody_array *array, const size_t *index, const void *value,
		      struct custody_stream *stream)
{
	ptrdiff_t moved;
	int error = find_element(array, index, value, &moved);

	if (!error)
		error = array_copy_check_target(array);
	return error ? error : set_elements(array, moved, value, 1, stream);
}

int custody_array_fill(struct custody_array *array, const void *value,
		       struct custody_stream *stream)
{
	int error = array_check(array);

	if (!error)
		error = array_copy_check_target(array);
	if (error)
		return error;
	if (!value)
		return error_say(CUSTODY_E_INVALID, "the value is NULL");
	if (!layout_is_contiguous(&array->layout, CUSTODY_ORDER_C) &&
	    !layout_is_contiguous(&array->layout, CUSTODY_ORDER_F))
		return error_say(CUSTODY_E_NEEDS_COPY, "the array is not contiguous");
	if (array->layout.count == 0)
		return 0;
	return set_elements(array, 0, value, array->layout.count, stream);
}
