/* SPDX-License-Identifier: Apache-2.0 */
#include "library/layout.h"
#include "library/library.h"

#include <string.h>

/* ------------------------------------------------------------------ types */

/* The sizes that there are of a kind, as a set of powers of two. */
static unsigned int sizes_of(enum custody_type_kind kind)
{
	switch (kind) {
	case CUSTODY_TYPE_BOOL:
		return 1;
	case CUSTODY_TYPE_INT:
	case CUSTODY_TYPE_UINT:
	case CUSTODY_TYPE_FLOAT:
		return 1 | 2 | 4 | 8 | 16;
	case CUSTODY_TYPE_BFLOAT:
		return 2;
	case CUSTODY_TYPE_COMPLEX:
		return 4 | 8 | 16 | 32;
	default:
		return 0;
	}
}

bool layout_is_type(struct custody_type type)
{
	const bool is_power = type.item_bytes && !(type.item_bytes & (type.item_bytes - 1));

	if (type.kind == CUSTODY_TYPE_RECORD)
		return type.item_bytes > 0;
	return is_power && (sizes_of(type.kind) & type.item_bytes);
}

/* --------------------------------------------------------------- measures */

static int say_too_large(void)
{
	return error_say(CUSTODY_E_INVALID, "the layout is larger than addresses can be");
}

/* `*total` times `size`, where that is not more than a signed number of bytes can be. */
static bool multiply(size_t *total, size_t size)
{
	return !__builtin_mul_overflow(*total, size, total) && *total <= PTRDIFF_MAX;
}

static bool add_reach(size_t *reach, size_t stride, size_t steps)
{
	size_t further = stride;

	return multiply(&further, steps) && !__builtin_add_overflow(*reach, further, reach) &&
	       *reach <= PTRDIFF_MAX;
}

/* How far elements lie below and above the first one. */
static bool find_reach(const struct layout *layout, size_t *below, size_t *above)
{
	*below = *above = 0;
	for (int i = 0; i < layout->ndim; i++) {
		const ptrdiff_t stride = layout->strides[i];
		const size_t steps = layout->shape[i] - 1;

		if (stride < 0 && !add_reach(below, -(size_t)stride, steps))
			return false;
		if (stride > 0 && !add_reach(above, (size_t)stride, steps))
			return false;
	}
	return true;
}

int layout_measure(struct layout *layout)
{
	size_t count = 1, bytes, below, above;

	for (int i = 0; i < layout->ndim; i++)
		if (layout->shape[i] == 0)
			count = 0;
	for (int i = 0; i < layout->ndim && count; i++)
		if (!multiply(&count, layout->shape[i]))
			return say_too_large();
	layout->count = layout->bytes = layout->before = layout->extent = 0;
	if (!count)
		return 0;
	bytes = count;
	if (!multiply(&bytes, layout->type.item_bytes) || !find_reach(layout, &below, &above) ||
	    !add_reach(&above, layout->type.item_bytes, 1) || !add_reach(&above, below, 1))
		return say_too_large();
	layout->count = count;
	layout->bytes = bytes;
	layout->before = below;
	layout->extent = above;
	return 0;
}

/* ---------------------------------------------------------------- strides */

/* The next axis of a compact layout; one without elements is passed over, or strides were 0. */
static bool pack_axis(struct layout *layout, int axis, size_t *stride)
{
	layout->strides[axis] = (ptrdiff_t)*stride;
	return layout->shape[axis] == 0 || multiply(stride, layout->shape[axis]);
}

int layout_pack(struct layout *layout, enum custody_order order)
{
	size_t stride = layout->type.item_bytes;

	for (int i = 0; i < layout->ndim; i++) {
		const int axis = order == CUSTODY_ORDER_C ? layout->ndim - 1 - i : i;

		if (!pack_axis(layout, axis, &stride))
			return say_too_large();
	}
	return layout_measure(layout);
}

static size_t magnitude(ptrdiff_t stride)
{
	return stride < 0 ? -(size_t)stride : (size_t)stride;
}

/* Axes by the size of their strides, smallest first; of equal ones the last is first. */
static void rank_axes(const struct layout *layout, int *axes)
{
	for (int i = 0; i < layout->ndim; i++) {
		const int axis = layout->ndim - 1 - i;
		int j = i;

		for (; j > 0 && magnitude(layout->strides[axes[j - 1]]) >
				magnitude(layout->strides[axis]); j--)
			axes[j] = axes[j - 1];
		axes[j] = axis;
	}
}

int layout_pack_like(struct layout *layout, const struct layout *like)
{
	int axes[CUSTODY_DIMENSIONS];
	size_t stride = like->type.item_bytes;
	struct layout packed = *like;

	if (layout_is_contiguous(like, CUSTODY_ORDER_C)) {
		*layout = packed;
		return layout_pack(layout, CUSTODY_ORDER_C);
	}
	if (layout_is_contiguous(like, CUSTODY_ORDER_F)) {
		*layout = packed;
		return layout_pack(layout, CUSTODY_ORDER_F);
	}
	rank_axes(like, axes);
	for (int i = 0; i < packed.ndim; i++)
		if (!pack_axis(&packed, axes[i], &stride))
			return say_too_large();
	*layout = packed;
	return layout_measure(layout);
}

/* -------------------------------------------------------------- in and out */

static int check_given(const struct custody_layout *given, struct custody_type type)
{
	if (given->ndim < 0 || given->ndim > CUSTODY_DIMENSIONS)
		return error_say(CUSTODY_E_INVALID, "%d axes; there are 0 to %d", given->ndim,
				 CUSTODY_DIMENSIONS);
	if (!layout_is_type(type))
		return error_say(CUSTODY_E_INVALID, "there is no type '%c' of %u bytes",
				 (int)type.kind, type.item_bytes);
	if (given->has_strides || !given->order || given->order == CUSTODY_ORDER_C ||
	    given->order == CUSTODY_ORDER_F)
		return 0;
	return error_say(CUSTODY_E_INVALID, "order '%c' is neither C nor F", (int)given->order);
}

int layout_make(struct layout *layout, const struct custody_layout *given)
{
	const struct custody_type float64 = { CUSTODY_TYPE_FLOAT, 8 };
	const struct custody_type type = given->type.item_bytes ? given->type : float64;
	int result = check_given(given, type);

	if (result)
		return result;
	memset(layout, 0, sizeof(*layout));
	layout->ndim = given->ndim;
	layout->type = type;
	for (int i = 0; i < given->ndim; i++) {
		layout->shape[i] = given->shape[i];
		layout->strides[i] = given->strides[i];
	}
	if (given->has_strides)
		return layout_measure(layout);
	return layout_pack(layout, given->order ? given->order : CUSTODY_ORDER_C);
}

void layout_show(const struct layout *layout, struct custody_layout *shown)
{
	memset(shown, 0, sizeof(*shown));
	shown->size = sizeof(*shown);
	shown->ndim = layout->ndim;
	memcpy(shown->shape, layout->shape, sizeof(shown->shape));
	shown->has_strides = true;
	memcpy(shown->strides, layout->strides, sizeof(shown->strides));
	shown->type = layout->type;
	shown->order = layout_is_contiguous(layout, CUSTODY_ORDER_F) &&
		       !layout_is_contiguous(layout, CUSTODY_ORDER_C) ?
			       CUSTODY_ORDER_F :
			       CUSTODY_ORDER_C;
}

/* --------------------------------------------------------------- questions */

bool layout_is_contiguous(const struct layout *layout, enum custody_order order)
{
	size_t stride = layout->type.item_bytes;

	if (layout->count == 0)
		return true;
	for (int i = 0; i < layout->ndim; i++) {
		const int axis = order == CUSTODY_ORDER_C ? layout->ndim - 1 - i : i;

		if (layout->shape[axis] == 1)
			continue;
		if (layout->strides[axis] != (ptrdiff_t)stride)
			return false;
		stride *= layout->shape[axis];
	}
	return true;
}

bool layout_is_backward(const struct layout *layout)
{
	for (int i = 0; i < layout->ndim; i++)
		if (layout->strides[i] < 0 && layout->shape[i] > 1)
			return true;
	return false;
}

bool layout_has_shape(const struct layout *layout, int ndim, const size_t *shape)
{
	if (layout->ndim != ndim)
		return false;
	for (int i = 0; i < ndim; i++)
		if (layout->shape[i] != shape[i])
			return false;
	return true;
}

bool layout_has_strides(const struct layout *layout, const ptrdiff_t *strides)
{
	for (int i = 0; i < layout->ndim; i++)
		if (layout->strides[i] != strides[i])
			return false;
	return true;
}

ptrdiff_t layout_offset(const struct layout *layout, const size_t *index)
{
	ptrdiff_t offset = 0;

	for (int i = 0; i < layout->ndim; i++)
		offset += (ptrdiff_t)index[i] * layout->strides[i];
	return offset;
}

/* ------------------------------------------------------------- fewer axes */

static void keep_axes(struct layout *kept, const struct layout *layout, bool drops_repeats)
{
	int n = 0;

	*kept = *layout;
	for (int i = 0; i < layout->ndim; i++) {
		if (layout->shape[i] == 1)
			continue;
		if (drops_repeats && layout->strides[i] == 0)
			continue;
		kept->shape[n] = layout->shape[i];
		kept->strides[n++] = layout->strides[i];
	}
	kept->ndim = n;
}

void layout_core(struct layout *core, const struct layout *layout)
{
	keep_axes(core, layout, layout->count > 0);
	layout_measure(core);
}

void layout_squeeze(struct layout *squeezed, const struct layout *layout)
{
	keep_axes(squeezed, layout, false);
}

static bool is_repeated(const struct layout *layout, int axis)
{
	return layout->strides[axis] == 0 && layout->count > 0;
}

/* Of two squeezed layouts of one shape; the axes that are left move up. */
static int drop_repeats(struct layout *target, struct layout *source)
{
	int n = 0;

	for (int i = 0; i < target->ndim; i++) {
		if (is_repeated(target, i)) {
			if (!is_repeated(source, i))
				return error_say(CUSTODY_E_MISMATCH,
						 "elements that differ cannot go to one place");
			continue;
		}
		target->shape[n] = source->shape[n] = target->shape[i];
		target->strides[n] = target->strides[i];
		source->strides[n++] = source->strides[i];
	}
	target->ndim = source->ndim = n;
	return 0;
}

int layout_match(struct layout *a, struct layout *b)
{
	const struct layout first = *a, second = *b;

	if (first.type.kind != second.type.kind || first.type.item_bytes != second.type.item_bytes)
		return error_say(CUSTODY_E_MISMATCH, "types '%c' of %u and '%c' of %u bytes",
				 (int)first.type.kind, first.type.item_bytes,
				 (int)second.type.kind, second.type.item_bytes);
	layout_squeeze(a, &first);
	layout_squeeze(b, &second);
	if (layout_has_shape(a, b->ndim, b->shape))
		return 0;
	return error_say(CUSTODY_E_MISMATCH,
			 "%zu elements on %d axes and %zu on %d are not of one shape", first.count,
			 first.ndim, second.count, second.ndim);
}

int layout_pair(struct layout *target, struct layout *source)
{
	int result = layout_match(target, source);

	if (!result)
		result = drop_repeats(target, source);
	if (!result)
		result = layout_measure(target);
	return result ? result : layout_measure(source);
}

/* ------------------------------------------------------------------ gather */

/* The next index of all axes but the last one; false: that was all. */
static bool step(const struct layout *layout, size_t *index)
{
	for (int i = layout->ndim - 2; i >= 0; i--) {
		if (++index[i] < layout->shape[i])
			return true;
		index[i] = 0;
	}
	return false;
}

static void gather_row(char *to, ptrdiff_t to_stride, const char *from, ptrdiff_t from_stride,
		       size_t count, size_t item)
{
	if (to_stride == (ptrdiff_t)item && from_stride == (ptrdiff_t)item) {
		memcpy(to, from, count * item);
		return;
	}
	for (size_t i = 0; i < count; i++)
		memcpy(to + (ptrdiff_t)i * to_stride, from + (ptrdiff_t)i * from_stride, item);
}

void layout_gather(const struct layout *to, void *target, const struct layout *from,
		   const void *source)
{
	const int last = to->ndim - 1;
	size_t index[CUSTODY_DIMENSIONS] = { 0 };

	if (to->count == 0)
		return;
	if (to->ndim == 0) {
		memcpy(target, source, to->type.item_bytes);
		return;
	}
	do {
		gather_row((char *)target + layout_offset(to, index), to->strides[last],
			   (const char *)source + layout_offset(from, index), from->strides[last],
			   to->shape[last], to->type.item_bytes);
	} while (step(to, index));
}
