/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: arrays of their own over the same buffer.  No call of the driver is made; an
 * array that is closed or stale has no views.
 */
#include "library/array.h"

static int begin(const struct custody_array *array, const void *result)
{
	int error = array_check(array);

	if (!error && !result)
		error = error_say(CUSTODY_E_INVALID, "where to put the result is NULL");
	return error;
}

/* The view whose layout has been worked out with `error`, `moved` from the first element. */
static int make(const struct custody_array *array, int error, const struct layout *layout,
		ptrdiff_t moved, struct custody_array **view)
{
	struct custody_array *made;

	if (error)
		return error;
	error = array_make(array->buffer, array->offset + (size_t)moved, layout, array->stream,
			   &made);
	if (error)
		return error;
	made->is_read_only = array->is_read_only;
	*view = made;
	return 0;
}

int custody_array_bind(struct custody_array *array, struct custody_stream *stream,
		       struct custody_array **view)
{
	struct custody_array *made;
	int error = begin(array, view);

	if (!error)
		error = array_make(array->buffer, array->offset, &array->layout, stream, &made);
	if (error)
		return error;
	made->is_read_only = array->is_read_only;
	*view = made;
	return 0;
}

int custody_array_ravel(struct custody_array *array, enum custody_order order,
			struct custody_array **view)
{
	struct layout layout;
	int error = begin(array, view);

	if (!error)
		error = layout_view_ravel(&layout, &array->layout, order);
	return make(array, error, &layout, 0, view);
}

int custody_array_reshape(struct custody_array *array, int ndim, const size_t *shape,
			  enum custody_order order, struct custody_array **view)
{
	struct layout layout;
	int error = begin(array, view);

	if (!error && !shape && ndim)
		error = error_say(CUSTODY_E_INVALID, "there is no shape");
	if (!error)
		error = layout_view_reshape(&layout, &array->layout, ndim, shape, order);
	return make(array, error, &layout, 0, view);
}

int custody_array_split_count(const struct custody_array *array, size_t section, size_t *count)
{
	int error = begin(array, count);

	return error ? error : layout_view_split_count(&array->layout, section, count);
}

int custody_array_split(struct custody_array *array, size_t section, size_t part,
			struct custody_array **view)
{
	struct layout layout;
	ptrdiff_t moved = 0;
	int error = begin(array, view);

	if (!error)
		error = layout_view_split(&layout, &array->layout, section, part, &moved);
	return make(array, error, &layout, moved, view);
}

int custody_array_slice(struct custody_array *array, int axis, size_t from, size_t to,
			ptrdiff_t step, struct custody_array **view)
{
	struct layout layout;
	ptrdiff_t moved = 0;
	int error = begin(array, view);

	if (!error)
		error = layout_view_slice(&layout, &array->layout, axis, from, to, step, &moved);
	return make(array, error, &layout, moved, view);
}

int custody_array_index(struct custody_array *array, int axis, size_t index,
			struct custody_array **view)
{
	struct layout layout;
	ptrdiff_t moved = 0;
	int error = begin(array, view);

	if (!error)
		error = layout_view_index(&layout, &array->layout, axis, index, &moved);
	return make(array, error, &layout, moved, view);
}

int custody_array_squeeze(struct custody_array *array, int axis, struct custody_array **view)
{
	struct layout layout;
	int error = begin(array, view);

	if (!error)
		error = layout_view_squeeze(&layout, &array->layout, axis);
	return make(array, error, &layout, 0, view);
}

int custody_array_transpose(struct custody_array *array, const int *axes,
			    struct custody_array **view)
{
	struct layout layout;
	int error = begin(array, view);

	if (!error)
		error = layout_view_transpose(&layout, &array->layout, axes);
	return make(array, error, &layout, 0, view);
}

int custody_array_view_type(struct custody_array *array, struct custody_type type,
			    struct custody_array **view)
{
	struct layout layout;
	int error = begin(array, view);

	if (!error)
		error = layout_view_type(&layout, &array->layout, type);
	return make(array, error, &layout, 0, view);
}

int custody_array_field(struct custody_array *array, const struct custody_field *fields,
			size_t count, const char *name, struct custody_array **view)
{
	struct layout layout;
	ptrdiff_t moved = 0;
	int error = begin(array, view);

	if (!error && (!fields || !name))
		error = error_say(CUSTODY_E_INVALID, "the fields, or the name of one, are NULL");
	if (!error)
		error = layout_view_field(&layout, &array->layout, fields, count, name, &moved);
	return make(array, error, &layout, moved, view);
}
