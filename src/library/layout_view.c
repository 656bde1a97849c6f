/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of views.  Sizes and strides of a view are of those of its array, so
 * that nothing can overflow here but what a caller gives.
 */
#include "library/layout.h"
#include "library/library.h"

#include <string.h>

static int check_axis(const struct layout *layout, int axis)
{
	if (axis >= 0 && axis < layout->ndim)
		return 0;
	return error_say(CUSTODY_E_INVALID, "there is no axis %d of %d", axis, layout->ndim);
}

/* One axis over all elements, which lie side by side. */
static void flatten(struct layout *view, const struct layout *layout)
{
	*view = *layout;
	view->ndim = 1;
	view->shape[0] = layout->count;
	view->strides[0] = (ptrdiff_t)layout->type.item_bytes;
	layout_measure(view);
}

int layout_view_ravel(struct layout *view, const struct layout *layout, enum custody_order order)
{
	bool is_fitting;

	switch (order) {
	case CUSTODY_ORDER_C:
	case CUSTODY_ORDER_F:
		is_fitting = layout_is_contiguous(layout, order);
		break;
	case CUSTODY_ORDER_ANY:
		is_fitting = layout_is_contiguous(layout, CUSTODY_ORDER_C) ||
			     layout_is_contiguous(layout, CUSTODY_ORDER_F);
		break;
	default:
		return error_say(CUSTODY_E_INVALID, "order '%c' is none of C, F and A", (int)order);
	}
	if (!is_fitting)
		return error_say(CUSTODY_E_NEEDS_COPY, "the array is not contiguous in order %c",
				 (int)order);
	flatten(view, layout);
	return 0;
}

/* ---------------------------------------------------------------- reshape */

static int find_rest(const struct layout *layout, size_t known, size_t *rest)
{
	if (known == 0)
		return error_say(CUSTODY_E_INVALID, "what is left cannot be told beside a size 0");
	if (layout->count % known)
		return error_say(CUSTODY_E_MISMATCH, "%zu elements are not a multiple of %zu",
				 layout->count, known);
	*rest = layout->count / known;
	return 0;
}

/* The shape with its open size filled in. */
static int complete_shape(const struct layout *layout, int ndim, const size_t *shape,
			  size_t *complete)
{
	size_t known = 1;
	int open = -1;

	for (int i = 0; i < ndim; i++) {
		complete[i] = shape[i];
		if (shape[i] != CUSTODY_REST) {
			if (__builtin_mul_overflow(known, shape[i], &known))
				return error_say(CUSTODY_E_MISMATCH,
						 "the shape has more elements than can be counted");
			continue;
		}
		if (open >= 0)
			return error_say(CUSTODY_E_INVALID, "two sizes are left open");
		open = i;
	}
	if (open >= 0)
		return find_rest(layout, known, &complete[open]);
	if (known != layout->count)
		return error_say(CUSTODY_E_MISMATCH, "%zu elements cannot become %zu",
				 layout->count, known);
	return 0;
}

int layout_view_reshape(struct layout *view, const struct layout *layout, int ndim,
			const size_t *shape, enum custody_order order)
{
	struct layout shaped = *layout;
	int result;

	if (ndim < 0 || ndim > CUSTODY_DIMENSIONS)
		return error_say(CUSTODY_E_INVALID, "%d axes; there are 0 to %d", ndim,
				 CUSTODY_DIMENSIONS);
	if (order != CUSTODY_ORDER_C && order != CUSTODY_ORDER_F)
		return error_say(CUSTODY_E_INVALID, "order '%c' is neither C nor F", (int)order);
	result = complete_shape(layout, ndim, shape, shaped.shape);
	if (result)
		return result;
	if (layout_has_shape(layout, ndim, shaped.shape)) {
		*view = *layout;
		return 0;
	}
	if (!layout_is_contiguous(layout, order))
		return error_say(CUSTODY_E_NEEDS_COPY, "the array is not contiguous in order %c",
				 (int)order);
	shaped.ndim = ndim;
	result = layout_pack(&shaped, order);
	if (!result)
		*view = shaped;
	return result;
}

/* ------------------------------------------------------------------ split */

int layout_view_split_count(const struct layout *layout, size_t section, size_t *count)
{
	if (layout->ndim != 1)
		return error_say(CUSTODY_E_INVALID, "an array of %d axes cannot be split",
				 layout->ndim);
	if (section == 0)
		return error_say(CUSTODY_E_INVALID, "parts of 0 elements");
	if (!layout_is_contiguous(layout, CUSTODY_ORDER_C))
		return error_say(CUSTODY_E_NEEDS_COPY, "the array is not contiguous");
	*count = layout->count / section + (layout->count % section ? 1 : 0);
	return 0;
}

int layout_view_split(struct layout *view, const struct layout *layout, size_t section,
		      size_t part, ptrdiff_t *moved)
{
	size_t count, from;
	int result = layout_view_split_count(layout, section, &count);

	if (result)
		return result;
	if (part >= count)
		return error_say(CUSTODY_E_BOUNDS, "there is no part %zu of %zu", part, count);
	from = part * section;
	*view = *layout;
	view->shape[0] = section < layout->count - from ? section : layout->count - from;
	view->strides[0] = (ptrdiff_t)layout->type.item_bytes;
	*moved = (ptrdiff_t)(from * layout->type.item_bytes);
	return layout_measure(view);
}

/* ------------------------------------------------------------------ slice */

/* How many of from, from + step, ... come before `to`. */
static size_t count_steps(size_t from, size_t to, ptrdiff_t step)
{
	const size_t width = step < 0 ? -(size_t)step : (size_t)step;
	size_t way;

	if (step < 0)
		way = to == CUSTODY_REST ? from + 1 : from > to ? from - to : 0;
	else
		way = to > from ? to - from : 0;
	return way / width + (way % width ? 1 : 0);
}

static int check_slice(size_t size, size_t from, size_t to, ptrdiff_t step)
{
	if (step == 0)
		return error_say(CUSTODY_E_INVALID, "a step of 0");
	if (from > size || (step < 0 && from == size && size > 0))
		return error_say(CUSTODY_E_BOUNDS, "there is no element %zu of %zu", from, size);
	if (to > size && to != CUSTODY_REST)
		return error_say(CUSTODY_E_BOUNDS, "%zu is behind the end at %zu", to, size);
	return 0;
}

int layout_view_slice(struct layout *view, const struct layout *layout, int axis, size_t from,
		      size_t to, ptrdiff_t step, ptrdiff_t *moved)
{
	int result = check_axis(layout, axis);
	struct layout sliced = *layout;
	size_t size, count;

	if (!result)
		result = check_slice(layout->shape[axis], from, to, step);
	if (result)
		return result;
	size = layout->shape[axis];
	if (to == CUSTODY_REST && step > 0)
		to = size;
	count = size ? count_steps(from, to, step) : 0;
	sliced.shape[axis] = count;
	/* Of one element or none the stride is never used, and may be too large to tell. */
	if (count > 1 && layout->count)
		sliced.strides[axis] = layout->strides[axis] * step;
	result = layout_measure(&sliced);
	if (result)
		return result;
	*moved = sliced.count ? (ptrdiff_t)from * layout->strides[axis] : 0;
	*view = sliced;
	return 0;
}

/* ------------------------------------------------------------ axes that go */

static void drop_axis(struct layout *layout, int axis)
{
	for (int i = axis; i + 1 < layout->ndim; i++) {
		layout->shape[i] = layout->shape[i + 1];
		layout->strides[i] = layout->strides[i + 1];
	}
	layout->ndim--;
}

int layout_view_index(struct layout *view, const struct layout *layout, int axis, size_t index,
		      ptrdiff_t *moved)
{
	int result = check_axis(layout, axis);

	if (result)
		return result;
	if (index >= layout->shape[axis])
		return error_say(CUSTODY_E_BOUNDS, "there is no element %zu of %zu on axis %d",
				 index, layout->shape[axis], axis);
	*view = *layout;
	drop_axis(view, axis);
	layout_measure(view);
	*moved = view->count ? (ptrdiff_t)index * layout->strides[axis] : 0;
	return 0;
}

int layout_view_squeeze(struct layout *view, const struct layout *layout, int axis)
{
	int result = axis == -1 ? 0 : check_axis(layout, axis);

	if (result)
		return result;
	if (axis == -1) {
		layout_squeeze(view, layout);
		return 0;
	}
	if (layout->shape[axis] != 1)
		return error_say(CUSTODY_E_MISMATCH, "axis %d has %zu elements, not one", axis,
				 layout->shape[axis]);
	*view = *layout;
	drop_axis(view, axis);
	return 0;
}

int layout_view_transpose(struct layout *view, const struct layout *layout, const int *axes)
{
	struct layout turned = *layout;
	unsigned int seen = 0;

	for (int i = 0; i < layout->ndim; i++) {
		const int axis = axes ? axes[i] : layout->ndim - 1 - i;
		int result = check_axis(layout, axis);

		if (result)
			return result;
		if (seen & (1u << axis))
			return error_say(CUSTODY_E_INVALID, "axis %d stands there twice", axis);
		seen |= 1u << axis;
		turned.shape[i] = layout->shape[axis];
		turned.strides[i] = layout->strides[axis];
	}
	*view = turned;
	return 0;
}

/* ------------------------------------------------------------- other types */

/* Items of another size, along the last axis. */
static int resize_items(struct layout *view, const struct layout *layout, uint32_t item)
{
	const int last = layout->ndim - 1;
	size_t row;

	if (last < 0)
		return error_say(CUSTODY_E_INVALID,
				 "an array without axes has no room for items of another size");
	if (!layout_is_contiguous(layout, CUSTODY_ORDER_C))
		return error_say(CUSTODY_E_NEEDS_COPY, "the array is not contiguous in order C");
	if (__builtin_mul_overflow(layout->shape[last], layout->type.item_bytes, &row))
		return error_say(CUSTODY_E_INVALID, "the last axis is too long to count its bytes");
	if (row % item)
		return error_say(CUSTODY_E_MISMATCH,
				 "the last axis has %zu bytes, no multiple of %u", row, item);
	view->shape[last] = row / item;
	view->strides[last] = (ptrdiff_t)item;
	return 0;
}

int layout_view_type(struct layout *view, const struct layout *layout, struct custody_type type)
{
	struct layout typed = *layout;
	int result = 0;

	if (!layout_is_type(type))
		return error_say(CUSTODY_E_INVALID, "there is no type '%c' of %u bytes",
				 (int)type.kind, type.item_bytes);
	if (type.item_bytes != layout->type.item_bytes)
		result = resize_items(&typed, layout, type.item_bytes);
	typed.type = type;
	if (!result)
		result = layout_measure(&typed);
	if (!result)
		*view = typed;
	return result;
}

/* ----------------------------------------------------------------- records */

static const struct custody_field *find_field(const struct custody_field *fields, size_t count,
					      const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (fields[i].name && !strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

/* What a field looks like in one record, if it is in it. */
static int make_field(struct layout *one, const struct custody_field *field, size_t record)
{
	struct custody_layout given = { .ndim = field->ndim, .type = field->type };
	int result;

	if (!layout_is_type(field->type))
		return error_say(CUSTODY_E_INVALID, "field %s: there is no type '%c' of %u bytes",
				 field->name, (int)field->type.kind, field->type.item_bytes);
	memcpy(given.shape, field->shape, sizeof(given.shape));
	result = layout_make(one, &given);
	if (result)
		return result;
	if (field->offset <= record && one->bytes <= record - field->offset)
		return 0;
	return error_say(CUSTODY_E_BOUNDS, "field %s ends behind its record of %zu bytes",
			 field->name, record);
}

int layout_view_field(struct layout *view, const struct layout *layout,
		      const struct custody_field *fields, size_t count, const char *name,
		      ptrdiff_t *moved)
{
	const struct custody_field *field = find_field(fields, count, name);
	struct layout one, joined = *layout;
	int result;

	if (layout->type.kind != CUSTODY_TYPE_RECORD)
		return error_say(CUSTODY_E_INVALID, "the array is not one of records");
	if (!field)
		return error_say(CUSTODY_E_INVALID, "there is no field %s", name);
	result = make_field(&one, field, layout->type.item_bytes);
	if (result)
		return result;
	if (layout->ndim + one.ndim > CUSTODY_DIMENSIONS)
		return error_say(CUSTODY_E_INVALID, "%d axes and %d of the field are too many",
				 layout->ndim, one.ndim);
	for (int i = 0; i < one.ndim; i++) {
		joined.shape[layout->ndim + i] = one.shape[i];
		joined.strides[layout->ndim + i] = one.strides[i];
	}
	joined.ndim += one.ndim;
	joined.type = field->type;
	result = layout_measure(&joined);
	if (result)
		return result;
	*moved = joined.count ? (ptrdiff_t)field->offset : 0;
	*view = joined;
	return 0;
}
