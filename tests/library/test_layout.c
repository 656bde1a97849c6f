/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of layouts and views, against a model that lists where each element
 * lies.  The model knows strides only in list_places(); all it decides, it decides by
 * looking at the list.
 */
#include "library/layout.h"
#include "library/library.h"

#include <check.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES_MOST = 4096, ROUNDS = 400, VIEWS = 6 };

int error_say(int error, const char *format, ...)
{
	(void)format;
	return error;
}

/* ------------------------------------------------------------------ the model */

static uint32_t seed;

static uint32_t below(uint32_t limit)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % limit;
}

struct places {
	size_t count;
	ptrdiff_t at[PLACES_MOST];
};

/* Where each element lies, in the order in which C, or F, counts them. */
static void list_places(struct places *places, const struct layout *layout, ptrdiff_t base,
			bool is_c)
{
	size_t index[CUSTODY_DIMENSIONS] = { 0 }, left = 1;

	for (int i = 0; i < layout->ndim; i++)
		left *= layout->shape[i];
	ck_assert_uint_le(left, PLACES_MOST);
	places->count = left;
	for (size_t k = 0; k < left; k++) {
		places->at[k] = base;
		for (int i = 0; i < layout->ndim; i++)
			places->at[k] += (ptrdiff_t)index[i] * layout->strides[i];
		for (int i = 0; i < layout->ndim; i++) {
			int axis = is_c ? layout->ndim - 1 - i : i;

			if (++index[axis] < layout->shape[axis])
				break;
			index[axis] = 0;
		}
	}
}

static bool is_run(const struct places *places, size_t item)
{
	for (size_t k = 1; k < places->count; k++)
		if (places->at[k] != places->at[k - 1] + (ptrdiff_t)item)
			return false;
	return true;
}

static void assert_same_places(const struct places *a, const struct places *b)
{
	ck_assert_uint_eq(a->count, b->count);
	ck_assert_mem_eq(a->at, b->at, a->count * sizeof(a->at[0]));
}

static const struct custody_type types[] = {
	{ CUSTODY_TYPE_BOOL, 1 },   { CUSTODY_TYPE_INT, 2 },	 { CUSTODY_TYPE_UINT, 4 },
	{ CUSTODY_TYPE_FLOAT, 8 },  { CUSTODY_TYPE_COMPLEX, 16 }, { CUSTODY_TYPE_RECORD, 3 },
	{ CUSTODY_TYPE_RECORD, 20 }
};

/* Compact in some order of axes, then holes, steps backward and repeats here and there. */
static void draw(struct layout *layout)
{
	struct custody_layout given = { .ndim = (int)below(5) };
	ptrdiff_t stride;
	int axes[CUSTODY_DIMENSIONS];

	given.type = types[below(sizeof(types) / sizeof(types[0]))];
	for (int i = 0; i < given.ndim; i++) {
		given.shape[i] = below(12) ? 1 + below(5) : 0;
		axes[i] = i;
	}
	for (int i = given.ndim - 1; i > 0; i--) {
		int other = (int)below((uint32_t)i + 1), kept = axes[i];

		axes[i] = axes[other];
		axes[other] = kept;
	}
	stride = given.type.item_bytes;
	given.has_strides = true;
	for (int i = 0; i < given.ndim; i++) {
		given.strides[axes[i]] = below(8) ? stride : below(2) ? -stride : 0;
		stride *= (ptrdiff_t)given.shape[axes[i]] + (below(6) == 0);
	}
	ck_assert_int_eq(layout_make(layout, &given), 0);
}

static void check_measures(const struct layout *layout)
{
	struct places places;
	ptrdiff_t low = 0, high = 0;

	list_places(&places, layout, 0, true);
	ck_assert_uint_eq(layout->count, places.count);
	ck_assert_uint_eq(layout->bytes, places.count * layout->type.item_bytes);
	for (size_t k = 0; k < places.count; k++) {
		low = places.at[k] < low ? places.at[k] : low;
		high = places.at[k] > high ? places.at[k] : high;
	}
	ck_assert_int_eq((ptrdiff_t)layout->before, -low);
	if (places.count)
		ck_assert_int_eq((ptrdiff_t)layout->extent,
				 high - low + (ptrdiff_t)layout->type.item_bytes);
	else
		ck_assert_uint_eq(layout->extent, 0);
	ck_assert(layout_is_contiguous(layout, CUSTODY_ORDER_C) ==
		  is_run(&places, layout->type.item_bytes));
	list_places(&places, layout, 0, false);
	ck_assert(layout_is_contiguous(layout, CUSTODY_ORDER_F) ==
		  is_run(&places, layout->type.item_bytes));
}

START_TEST(counts_extents_and_contiguity_agree_with_a_list_of_places)
{
	struct layout layout;

	seed = (uint32_t)_i + 1;
	for (int i = 0; i < ROUNDS; i++) {
		draw(&layout);
		check_measures(&layout);
	}
}
END_TEST

/* --------------------------------------------------------------- random views */

/* What a view is, and what it ought to be. */
struct pair {
	struct layout layout;
	ptrdiff_t base;
	struct places wanted; /* in C order */
};

/* The places of a pair whose index on one axis is `want(index)`-th; the model of a slice. */
static void pick(struct places *picked, const struct pair *pair, int axis, size_t from,
		 ptrdiff_t step, size_t count)
{
	size_t inner = 1, outer = 1, size = pair->layout.shape[axis];

	for (int i = 0; i < axis; i++)
		outer *= pair->layout.shape[i];
	for (int i = axis + 1; i < pair->layout.ndim; i++)
		inner *= pair->layout.shape[i];
	picked->count = 0;
	for (size_t o = 0; o < outer; o++)
		for (size_t c = 0; c < count; c++)
			for (size_t n = 0; n < inner; n++) {
				size_t at = from + (size_t)(step * (ptrdiff_t)c);

				picked->at[picked->count++] =
					pair->wanted.at[(o * size + at) * inner + n];
			}
}

static size_t count_slow(size_t from, size_t to, ptrdiff_t step)
{
	ptrdiff_t end = to == CUSTODY_REST ? -1 : (ptrdiff_t)to;
	size_t count = 0;

	for (ptrdiff_t at = (ptrdiff_t)from; step > 0 ? at < end : at > end; at += step)
		count++;
	return count;
}

static bool slice_pair(struct pair *pair)
{
	struct pair made;
	ptrdiff_t moved, step;
	size_t from, to, size, count;
	int axis;

	if (!pair->layout.ndim)
		return false;
	axis = (int)below((uint32_t)pair->layout.ndim);
	size = pair->layout.shape[axis];
	step = below(3) ? 1 + (ptrdiff_t)below(3) : -1 - (ptrdiff_t)below(3);
	from = below((uint32_t)size + 1);
	if (step < 0 && from == size && size)
		from--;
	to = step < 0 && below(2) ? CUSTODY_REST : below((uint32_t)size + 1);
	ck_assert_int_eq(layout_view_slice(&made.layout, &pair->layout, axis, from, to, step,
					   &moved), 0);
	count = size ? count_slow(from, to, step) : 0;
	ck_assert_uint_eq(made.layout.shape[axis], count);
	pick(&made.wanted, pair, axis, from, step, count);
	made.base = pair->base + moved;
	*pair = made;
	return true;
}

static bool index_pair(struct pair *pair)
{
	struct pair made;
	ptrdiff_t moved;
	size_t index, size;
	int axis;

	if (!pair->layout.ndim)
		return false;
	axis = (int)below((uint32_t)pair->layout.ndim);
	size = pair->layout.shape[axis];
	ck_assert_int_eq(layout_view_index(&made.layout, &pair->layout, axis, size, &moved),
			 CUSTODY_E_BOUNDS);
	if (!size)
		return false;
	index = below((uint32_t)size);
	ck_assert_int_eq(layout_view_index(&made.layout, &pair->layout, axis, index, &moved), 0);
	ck_assert_int_eq(made.layout.ndim, pair->layout.ndim - 1);
	pick(&made.wanted, pair, axis, index, 1, 1);
	made.base = pair->base + moved;
	*pair = made;
	return true;
}

static bool transpose_pair(struct pair *pair)
{
	struct pair made;

	if (below(2)) {
		/* Reversed axes count in C order what F order counts. */
		ck_assert_int_eq(layout_view_transpose(&made.layout, &pair->layout, NULL), 0);
		list_places(&made.wanted, &pair->layout, pair->base, false);
	} else {
		int axes[CUSTODY_DIMENSIONS], first;

		if (pair->layout.ndim < 2)
			return false;
		for (int i = 0; i < pair->layout.ndim; i++)
			axes[i] = i;
		first = (int)below((uint32_t)pair->layout.ndim - 1);
		axes[first] = first + 1;
		axes[first + 1] = first;
		ck_assert_int_eq(layout_view_transpose(&made.layout, &pair->layout, axes), 0);
		ck_assert_uint_eq(made.layout.shape[first], pair->layout.shape[first + 1]);
		ck_assert_int_eq(layout_view_transpose(&pair->layout, &made.layout, axes), 0);
		list_places(&made.wanted, &pair->layout, pair->base, true);
		assert_same_places(&made.wanted, &pair->wanted);
		return true;
	}
	made.base = pair->base;
	*pair = made;
	return true;
}

/* A shape of as many elements, made by joining and splitting sizes. */
static int draw_shape(size_t count, size_t *shape)
{
	int ndim = 0;

	while (ndim < 3 && count > 1) {
		size_t size = 1 + below((uint32_t)count);

		while (count % size)
			size--;
		shape[ndim++] = size;
		count /= size;
	}
	shape[ndim++] = count;
	return ndim;
}

static bool reshape_pair(struct pair *pair)
{
	const bool is_c = below(2);
	const size_t item = pair->layout.type.item_bytes;
	size_t shape[CUSTODY_DIMENSIONS], asked[CUSTODY_DIMENSIONS];
	int ndim = draw_shape(pair->layout.count, shape), result;
	struct places counted, after;
	struct layout made;
	bool is_same = ndim == pair->layout.ndim &&
		       !memcmp(shape, pair->layout.shape, (size_t)ndim * sizeof(*shape));

	memcpy(asked, shape, sizeof(asked));
	if (below(2) && pair->layout.count)
		asked[below((uint32_t)ndim)] = CUSTODY_REST;
	list_places(&counted, &pair->layout, pair->base, is_c);
	result = layout_view_reshape(&made, &pair->layout, ndim, asked,
				     is_c ? CUSTODY_ORDER_C : CUSTODY_ORDER_F);
	if (!is_same && !is_run(&counted, item)) {
		ck_assert_int_eq(result, CUSTODY_E_NEEDS_COPY);
		return false;
	}
	ck_assert_int_eq(result, 0);
	ck_assert(layout_has_shape(&made, ndim, shape));
	list_places(&after, &made, pair->base, is_c);
	assert_same_places(&after, &counted);
	pair->layout = made;
	list_places(&pair->wanted, &made, pair->base, true);
	return true;
}

static bool squeeze_pair(struct pair *pair)
{
	struct layout made;
	int axis = (int)below((uint32_t)pair->layout.ndim + 1) - 1;
	int result = layout_view_squeeze(&made, &pair->layout, axis);

	if (axis >= 0 && pair->layout.shape[axis] != 1) {
		ck_assert_int_eq(result, CUSTODY_E_MISMATCH);
		return false;
	}
	ck_assert_int_eq(result, 0);
	for (int i = 0; axis == -1 && i < made.ndim; i++)
		ck_assert_uint_ne(made.shape[i], 1);
	ck_assert(axis == -1 || made.ndim == pair->layout.ndim - 1);
	pair->layout = made;
	return true;
}

static bool (*const steps[])(struct pair *pair) = { slice_pair, index_pair, transpose_pair,
						    reshape_pair, squeeze_pair };

START_TEST(views_of_views_show_the_elements_that_a_list_shows)
{
	struct places seen;
	struct pair pair;

	seed = (uint32_t)_i * 7919 + 5;
	for (int i = 0; i < ROUNDS; i++) {
		draw(&pair.layout);
		pair.base = 0;
		list_places(&pair.wanted, &pair.layout, 0, true);
		for (int k = 0; k < VIEWS; k++) {
			steps[below(sizeof(steps) / sizeof(steps[0]))](&pair);
			list_places(&seen, &pair.layout, pair.base, true);
			assert_same_places(&seen, &pair.wanted);
			check_measures(&pair.layout);
		}
	}
}
END_TEST

START_TEST(what_is_contiguous_ravels_and_what_is_not_needs_a_copy)
{
	struct layout layout, flat;
	struct places c, f, seen;

	seed = (uint32_t)_i + 99;
	for (int i = 0; i < ROUNDS; i++) {
		draw(&layout);
		list_places(&c, &layout, 0, true);
		list_places(&f, &layout, 0, false);
		for (int k = 0; k < 3; k++) {
			const enum custody_order order = k == 0 ? CUSTODY_ORDER_C :
							 k == 1 ? CUSTODY_ORDER_F :
								  CUSTODY_ORDER_ANY;
			const bool is_c = is_run(&c, layout.type.item_bytes);
			const bool is_f = is_run(&f, layout.type.item_bytes);
			const bool is_fitting = k == 0 ? is_c : k == 1 ? is_f : is_c || is_f;
			int result = layout_view_ravel(&flat, &layout, order);

			ck_assert_int_eq(result, is_fitting ? 0 : CUSTODY_E_NEEDS_COPY);
			if (!is_fitting)
				continue;
			list_places(&seen, &flat, 0, true);
			ck_assert_int_eq(flat.ndim, 1);
			assert_same_places(&seen, k == 1 || (k == 2 && !is_c) ? &f : &c);
		}
	}
}
END_TEST

static bool are_distinct(const struct places *places, size_t item)
{
	for (size_t i = 0; i < places->count; i++)
		for (size_t k = 0; k < i; k++)
			if (labs(places->at[i] - places->at[k]) < (long)item)
				return false;
	return true;
}

static size_t size_of(ptrdiff_t stride)
{
	return (size_t)labs(stride);
}

START_TEST(an_array_like_another_is_compact_with_its_axes_in_the_same_order)
{
	struct places places;
	struct layout layout, like;

	seed = (uint32_t)_i + 7;
	for (int i = 0; i < ROUNDS / 4; i++) {
		draw(&layout);
		ck_assert_int_eq(layout_pack_like(&like, &layout), 0);
		ck_assert(layout_has_shape(&like, layout.ndim, layout.shape));
		ck_assert_uint_eq(like.extent, like.bytes);
		list_places(&places, &like, 0, true);
		ck_assert(are_distinct(&places, like.type.item_bytes));
		if (layout_is_contiguous(&layout, CUSTODY_ORDER_C))
			ck_assert(layout_is_contiguous(&like, CUSTODY_ORDER_C));
		else if (layout_is_contiguous(&layout, CUSTODY_ORDER_F))
			ck_assert(layout_is_contiguous(&like, CUSTODY_ORDER_F));
		else
			for (int a = 0; a < layout.ndim; a++)
				for (int b = 0; b < layout.ndim; b++)
					if (size_of(layout.strides[a]) < size_of(layout.strides[b]))
						ck_assert_int_le(like.strides[a], like.strides[b]);
	}
}
END_TEST

static bool is_among(ptrdiff_t place, const struct places *places)
{
	for (size_t i = 0; i < places->count; i++)
		if (places->at[i] == place)
			return true;
	return false;
}

START_TEST(the_core_is_what_an_array_repeats)
{
	struct places all, once;
	struct layout layout, core;

	seed = (uint32_t)_i + 21;
	for (int i = 0; i < ROUNDS / 4; i++) {
		draw(&layout);
		layout_core(&core, &layout);
		list_places(&all, &layout, 0, true);
		list_places(&once, &core, 0, true);
		for (size_t k = 0; k < all.count; k++)
			ck_assert(is_among(all.at[k], &once));
		for (size_t k = 0; k < once.count; k++)
			ck_assert(is_among(once.at[k], &all));
		for (int k = 0; k < core.ndim && core.count; k++)
			ck_assert(core.strides[k] != 0 && core.shape[k] != 1);
	}
}
END_TEST

START_TEST(gathering_moves_each_element_to_its_place)
{
	static unsigned char from_bytes[1 << 20], to_bytes[1 << 18];
	struct places from, to;
	struct layout layout, packed;

	seed = (uint32_t)_i + 3;
	for (size_t i = 0; i < sizeof(from_bytes); i++)
		from_bytes[i] = (unsigned char)(i * 31 + (i >> 8));
	for (int i = 0; i < ROUNDS / 4; i++) {
		draw(&layout);
		packed = layout;
		ck_assert_int_eq(layout_pack(&packed, below(2) ? CUSTODY_ORDER_C :
								 CUSTODY_ORDER_F), 0);
		ck_assert_uint_le(packed.extent, sizeof(to_bytes));
		ck_assert_uint_le(layout.extent, sizeof(from_bytes));
		layout_gather(&packed, to_bytes, &layout, from_bytes + layout.before);
		list_places(&from, &layout, (ptrdiff_t)layout.before, true);
		list_places(&to, &packed, 0, true);
		for (size_t k = 0; k < from.count; k++)
			ck_assert_mem_eq(to_bytes + to.at[k], from_bytes + from.at[k],
					 layout.type.item_bytes);
	}
}
END_TEST

/* --------------------------------------------------------------- single rules */

#define SHAPE(...) { __VA_ARGS__ }
#define FLOAT64 { CUSTODY_TYPE_FLOAT, 8 }
#define RECORD(bytes) { CUSTODY_TYPE_RECORD, bytes }

static void make(struct layout *layout, const struct custody_layout *given)
{
	ck_assert_int_eq(layout_make(layout, given), 0);
}

START_TEST(without_a_type_elements_are_float64_in_c_order)
{
	struct custody_layout given = { .ndim = 2, .shape = SHAPE(2, 3) };
	struct layout layout;

	make(&layout, &given);
	ck_assert_int_eq(layout.type.kind, CUSTODY_TYPE_FLOAT);
	ck_assert_uint_eq(layout.type.item_bytes, 8);
	ck_assert_int_eq(layout.strides[0], 24);
	ck_assert_int_eq(layout.strides[1], 8);
}
END_TEST

START_TEST(given_strides_win_over_the_order)
{
	struct custody_layout given = { .ndim = 2, .shape = SHAPE(2, 3), .has_strides = true,
					.strides = { 100, 16 }, .order = 'x' };
	struct layout layout;

	make(&layout, &given);
	ck_assert_int_eq(layout.strides[0], 100);
	ck_assert_uint_eq(layout.extent, 100 + 2 * 16 + 8);
	ck_assert_uint_eq(layout.bytes, 48);
}
END_TEST

START_TEST(an_order_that_is_neither_c_nor_f_is_refused)
{
	struct custody_layout given = { .ndim = 1, .shape = SHAPE(2), .order = CUSTODY_ORDER_ANY };
	struct layout layout;

	ck_assert_int_eq(layout_make(&layout, &given), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(no_axes_is_one_element_and_contiguous_in_both_orders)
{
	struct custody_layout given = { .type = FLOAT64 };
	struct layout layout;

	make(&layout, &given);
	ck_assert_uint_eq(layout.count, 1);
	ck_assert_uint_eq(layout.extent, 8);
	ck_assert(layout_is_contiguous(&layout, CUSTODY_ORDER_C));
	ck_assert(layout_is_contiguous(&layout, CUSTODY_ORDER_F));
}
END_TEST

START_TEST(no_elements_is_contiguous_whatever_the_strides)
{
	struct custody_layout given = { .ndim = 3, .shape = SHAPE(4, 0, 5), .has_strides = true,
					.strides = { 3, PTRDIFF_MAX, PTRDIFF_MIN } };
	struct layout layout;

	make(&layout, &given);
	ck_assert_uint_eq(layout.extent, 0);
	ck_assert(layout_is_contiguous(&layout, CUSTODY_ORDER_C));
	ck_assert(layout_is_contiguous(&layout, CUSTODY_ORDER_F));
}
END_TEST

START_TEST(a_repeated_element_is_contiguous_in_no_order)
{
	struct custody_layout given = { .ndim = 2, .shape = SHAPE(3, 4), .has_strides = true,
					.strides = { 0, 8 } };
	struct layout layout;

	make(&layout, &given);
	ck_assert(!layout_is_contiguous(&layout, CUSTODY_ORDER_C));
	ck_assert(!layout_is_contiguous(&layout, CUSTODY_ORDER_F));
	ck_assert_uint_eq(layout.extent, 32);
	ck_assert_uint_eq(layout.bytes, 96);
}
END_TEST

START_TEST(axes_of_one_element_do_not_matter)
{
	struct custody_layout given = { .ndim = 3, .shape = SHAPE(1, 3, 1), .has_strides = true,
					.strides = { 0, 8, -77 } };
	struct layout layout;

	make(&layout, &given);
	ck_assert(layout_is_contiguous(&layout, CUSTODY_ORDER_C));
	ck_assert(layout_is_contiguous(&layout, CUSTODY_ORDER_F));
	ck_assert(!layout_is_backward(&layout));
}
END_TEST

static const struct custody_layout too_large[] = {
	{ .ndim = 2, .shape = SHAPE(SIZE_MAX / 2, 3) },
	{ .ndim = 1, .shape = SHAPE(SIZE_MAX) },
	{ .ndim = 1, .shape = SHAPE(PTRDIFF_MAX / 8 + 1) },
	{ .ndim = 2, .shape = SHAPE(3, 3), .has_strides = true, .strides = { PTRDIFF_MAX, 8 } },
	{ .ndim = 2, .shape = SHAPE(3, 3), .has_strides = true, .strides = { 8, PTRDIFF_MIN } },
	{ .ndim = 2, .shape = SHAPE(2, 2), .has_strides = true,
	  .strides = { PTRDIFF_MAX - 4, -PTRDIFF_MAX } },
	{ .ndim = 2, .shape = SHAPE((size_t)1 << 40, (size_t)1 << 40), .has_strides = true },
	{ .ndim = 3, .shape = SHAPE(0, (size_t)1 << 40, (size_t)1 << 40) },
};

START_TEST(what_addresses_cannot_hold_is_refused)
{
	struct layout layout;

	ck_assert_int_eq(layout_make(&layout, &too_large[_i]), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(numbers_of_axes_and_types_are_checked)
{
	struct custody_layout axes = { .ndim = 9 }, less = { .ndim = -1 };
	struct layout layout;

	ck_assert_int_eq(layout_make(&layout, &axes), CUSTODY_E_INVALID);
	ck_assert_int_eq(layout_make(&layout, &less), CUSTODY_E_INVALID);
	ck_assert(layout_is_type((struct custody_type)FLOAT64));
	ck_assert(layout_is_type((struct custody_type){ CUSTODY_TYPE_RECORD, 7 }));
	ck_assert(layout_is_type((struct custody_type){ CUSTODY_TYPE_BFLOAT, 2 }));
	ck_assert(!layout_is_type((struct custody_type){ CUSTODY_TYPE_BFLOAT, 4 }));
	ck_assert(!layout_is_type((struct custody_type){ CUSTODY_TYPE_INT, 3 }));
	ck_assert(!layout_is_type((struct custody_type){ CUSTODY_TYPE_BOOL, 2 }));
	ck_assert(!layout_is_type((struct custody_type){ 'z', 4 }));
	ck_assert(!layout_is_type((struct custody_type){ CUSTODY_TYPE_RECORD, 0 }));
}
END_TEST

START_TEST(an_array_like_a_repeated_one_is_compact_in_c_order)
{
	struct custody_layout given = { .ndim = 2, .shape = SHAPE(5, 4), .has_strides = true,
					.strides = { 0, 8 } };
	struct layout layout, like;

	make(&layout, &given);
	ck_assert_int_eq(layout_pack_like(&like, &layout), 0);
	ck_assert_int_eq(like.strides[0], 8); /* the smaller stride is the inner axis ... */
	ck_assert_int_eq(like.strides[1], 40);
	layout.strides[0] = layout.strides[1] = 0;
	ck_assert_int_eq(layout_pack_like(&like, &layout), 0);
	ck_assert_int_eq(like.strides[0], 32); /* ... and of equal ones the last */
	ck_assert_int_eq(like.strides[1], 8);
}
END_TEST

START_TEST(reshaping_an_f_ordered_array_in_c_order_needs_a_copy)
{
	struct custody_layout given = { .ndim = 2, .shape = SHAPE(4, 6), .order = CUSTODY_ORDER_F };
	const size_t shape[] = { 6, 4 };
	struct layout layout, view;

	make(&layout, &given);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, shape, CUSTODY_ORDER_C),
			 CUSTODY_E_NEEDS_COPY);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, shape, CUSTODY_ORDER_F), 0);
	ck_assert_int_eq(view.strides[1], 48);
}
END_TEST

START_TEST(reshaping_to_the_same_shape_works_for_every_array)
{
	struct custody_layout given = { .ndim = 2, .shape = SHAPE(4, 6), .has_strides = true,
					.strides = { 500, -16 } };
	struct layout layout, view;

	make(&layout, &given);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, layout.shape, CUSTODY_ORDER_C), 0);
	ck_assert(layout_has_strides(&view, layout.strides));
}
END_TEST

START_TEST(one_size_of_a_reshape_may_be_left_open)
{
	struct custody_layout given = { .ndim = 1, .shape = SHAPE(24) };
	struct layout layout, view;
	const size_t one[] = { 4, CUSTODY_REST }, two[] = { CUSTODY_REST, CUSTODY_REST };
	const size_t odd[] = { 5, CUSTODY_REST }, zero[] = { 0, CUSTODY_REST };
	const size_t more[] = { 5, 5 }, none[] = { CUSTODY_REST, 3 };
	const size_t huge[] = { SIZE_MAX / 2, 4 };

	make(&layout, &given);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, one, CUSTODY_ORDER_C), 0);
	ck_assert_uint_eq(view.shape[1], 6);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, two, CUSTODY_ORDER_C),
			 CUSTODY_E_INVALID);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, odd, CUSTODY_ORDER_C),
			 CUSTODY_E_MISMATCH);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, zero, CUSTODY_ORDER_C),
			 CUSTODY_E_INVALID);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, more, CUSTODY_ORDER_C),
			 CUSTODY_E_MISMATCH);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, huge, CUSTODY_ORDER_C),
			 CUSTODY_E_MISMATCH);
	given.shape[0] = 0;
	make(&layout, &given);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, none, CUSTODY_ORDER_C), 0);
	ck_assert_uint_eq(view.shape[0], 0);
	ck_assert_int_eq(layout_view_reshape(&view, &layout, 2, zero, CUSTODY_ORDER_C),
			 CUSTODY_E_INVALID);
}
END_TEST

START_TEST(a_split_has_sections_of_elements_and_a_short_last_part)
{
	struct custody_layout given = { .ndim = 1, .shape = SHAPE(10) };
	struct layout layout, view;
	ptrdiff_t moved;
	size_t count;

	make(&layout, &given);
	ck_assert_int_eq(layout_view_split_count(&layout, 4, &count), 0);
	ck_assert_uint_eq(count, 3);
	ck_assert_int_eq(layout_view_split(&view, &layout, 4, 1, &moved), 0);
	ck_assert_uint_eq(view.count, 4);
	ck_assert_int_eq(moved, 32);
	ck_assert_int_eq(layout_view_split(&view, &layout, 4, 2, &moved), 0);
	ck_assert_uint_eq(view.count, 2);
	ck_assert_uint_eq(view.extent, 16);
	ck_assert_int_eq(layout_view_split(&view, &layout, 4, 3, &moved), CUSTODY_E_BOUNDS);
	ck_assert_int_eq(layout_view_split_count(&layout, SIZE_MAX, &count), 0);
	ck_assert_uint_eq(count, 1);
}
END_TEST

START_TEST(a_split_in_sections_of_nothing_is_refused)
{
	struct custody_layout one = { .ndim = 1, .shape = SHAPE(10) };
	struct custody_layout two = { .ndim = 2, .shape = SHAPE(2, 5) };
	struct custody_layout apart = { .ndim = 1, .shape = SHAPE(10), .has_strides = true,
					.strides = { 16 } };
	struct layout layout;
	size_t count;

	make(&layout, &one);
	ck_assert_int_eq(layout_view_split_count(&layout, 0, &count), CUSTODY_E_INVALID);
	make(&layout, &two);
	ck_assert_int_eq(layout_view_split_count(&layout, 2, &count), CUSTODY_E_INVALID);
	make(&layout, &apart);
	ck_assert_int_eq(layout_view_split_count(&layout, 2, &count), CUSTODY_E_NEEDS_COPY);
}
END_TEST

START_TEST(a_slice_beyond_the_end_is_refused)
{
	struct custody_layout given = { .ndim = 1, .shape = SHAPE(10) };
	struct layout layout, view;
	ptrdiff_t moved;

	make(&layout, &given);
	ck_assert_int_eq(layout_view_slice(&view, &layout, 0, 0, 11, 1, &moved), CUSTODY_E_BOUNDS);
	ck_assert_int_eq(layout_view_slice(&view, &layout, 0, 11, 11, 1, &moved), CUSTODY_E_BOUNDS);
	ck_assert_int_eq(layout_view_slice(&view, &layout, 0, 10, 0, -1, &moved), CUSTODY_E_BOUNDS);
	ck_assert_int_eq(layout_view_slice(&view, &layout, 0, 0, 5, 0, &moved), CUSTODY_E_INVALID);
	ck_assert_int_eq(layout_view_slice(&view, &layout, 1, 0, 5, 1, &moved), CUSTODY_E_INVALID);
	ck_assert_int_eq(layout_view_slice(&view, &layout, 0, 2, CUSTODY_REST, 3, &moved), 0);
	ck_assert_uint_eq(view.count, 3);
	ck_assert_int_eq(layout_view_slice(&view, &layout, 0, 9, CUSTODY_REST, -1, &moved), 0);
	ck_assert_uint_eq(view.count, 10);
	ck_assert_uint_eq(view.before, 72);
	ck_assert_int_eq(moved, 72);
	ck_assert_int_eq(layout_view_slice(&view, &layout, 0, 3, CUSTODY_REST, PTRDIFF_MIN,
					   &moved), 0);
	ck_assert_uint_eq(view.count, 1);
}
END_TEST

START_TEST(a_transposition_names_each_axis_once)
{
	struct custody_layout given = { .ndim = 2, .shape = SHAPE(2, 3) };
	const int twice[] = { 1, 1 }, beyond[] = { 0, 2 };
	struct layout layout, view;

	make(&layout, &given);
	ck_assert_int_eq(layout_view_transpose(&view, &layout, twice), CUSTODY_E_INVALID);
	ck_assert_int_eq(layout_view_transpose(&view, &layout, beyond), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(another_type_of_the_same_size_fits_any_array)
{
	struct custody_layout given = { .ndim = 1, .shape = SHAPE(4), .has_strides = true,
					.strides = { -24 } };
	struct layout layout, view;

	make(&layout, &given);
	ck_assert_int_eq(layout_view_type(&view, &layout,
					  (struct custody_type){ CUSTODY_TYPE_INT, 8 }), 0);
	ck_assert_int_eq(view.strides[0], -24);
	ck_assert_int_eq(view.type.kind, CUSTODY_TYPE_INT);
}
END_TEST

START_TEST(another_size_of_type_needs_c_order_and_an_even_last_axis)
{
	const struct custody_type int32 = { CUSTODY_TYPE_INT, 4 }, wide = { CUSTODY_TYPE_COMPLEX, 16 };
	struct custody_layout c = { .ndim = 2, .shape = SHAPE(4, 3) };
	struct custody_layout f = { .ndim = 2, .shape = SHAPE(4, 3), .order = CUSTODY_ORDER_F };
	struct custody_layout none = { .ndim = 0 };
	struct layout layout, view;

	make(&layout, &c);
	ck_assert_int_eq(layout_view_type(&view, &layout, int32), 0);
	ck_assert_uint_eq(view.shape[1], 6);
	ck_assert_int_eq(view.strides[1], 4);
	ck_assert_int_eq(view.strides[0], 24);
	ck_assert_uint_eq(view.bytes, layout.bytes);
	ck_assert_int_eq(layout_view_type(&view, &layout, wide), CUSTODY_E_MISMATCH);
	make(&layout, &f);
	ck_assert_int_eq(layout_view_type(&view, &layout, int32), CUSTODY_E_NEEDS_COPY);
	make(&layout, &none);
	ck_assert_int_eq(layout_view_type(&view, &layout, int32), CUSTODY_E_INVALID);
	ck_assert_int_eq(layout_view_type(&view, &layout, (struct custody_type){ 'i', 3 }),
			 CUSTODY_E_INVALID);
}
END_TEST

static const struct custody_field fields[] = {
	{ "id", { CUSTODY_TYPE_UINT, 2 }, 0, 0, { 0 } },
	{ "place", { CUSTODY_TYPE_FLOAT, 4 }, 2, 2, { 2, 3 } },
	{ "beyond", { CUSTODY_TYPE_FLOAT, 8 }, 20, 0, { 0 } },
};

START_TEST(a_field_has_the_axes_of_the_records_and_its_own)
{
	struct custody_layout given = { .ndim = 1, .shape = SHAPE(5), .type = RECORD(26) };
	struct layout layout, view;
	ptrdiff_t moved;

	make(&layout, &given);
	ck_assert_int_eq(layout_view_field(&view, &layout, fields, 3, "place", &moved), 0);
	ck_assert_int_eq(moved, 2);
	ck_assert_int_eq(view.ndim, 3);
	ck_assert_int_eq(view.strides[0], 26);
	ck_assert_int_eq(view.strides[1], 12);
	ck_assert_int_eq(view.strides[2], 4);
	ck_assert_uint_eq(view.extent, 4 * 26 + 24);
	ck_assert_int_eq(layout_view_field(&view, &layout, fields, 3, "id", &moved), 0);
	ck_assert_int_eq(view.ndim, 1);
}
END_TEST

START_TEST(a_field_outside_its_record_is_refused)
{
	struct custody_layout given = { .ndim = 1, .shape = SHAPE(5), .type = RECORD(26) };
	struct custody_layout plain = { .ndim = 1, .shape = SHAPE(5) };
	struct layout layout, view;
	ptrdiff_t moved;

	make(&layout, &given);
	ck_assert_int_eq(layout_view_field(&view, &layout, fields, 3, "beyond", &moved),
			 CUSTODY_E_BOUNDS);
	ck_assert_int_eq(layout_view_field(&view, &layout, fields, 3, "nobody", &moved),
			 CUSTODY_E_INVALID);
	make(&layout, &plain);
	ck_assert_int_eq(layout_view_field(&view, &layout, fields, 3, "id", &moved),
			 CUSTODY_E_INVALID);
}
END_TEST

static void add_random(TCase *tests)
{
	tcase_add_loop_test(tests, counts_extents_and_contiguity_agree_with_a_list_of_places, 0, 8);
	tcase_add_loop_test(tests, views_of_views_show_the_elements_that_a_list_shows, 0, 16);
	tcase_add_loop_test(tests, what_is_contiguous_ravels_and_what_is_not_needs_a_copy, 0, 4);
	tcase_add_loop_test(tests, an_array_like_another_is_compact_with_its_axes_in_the_same_order,
			    0, 4);
	tcase_add_loop_test(tests, the_core_is_what_an_array_repeats, 0, 4);
	tcase_add_loop_test(tests, gathering_moves_each_element_to_its_place, 0, 4);
}

static void add_rules(TCase *tests)
{
	tcase_add_test(tests, without_a_type_elements_are_float64_in_c_order);
	tcase_add_test(tests, given_strides_win_over_the_order);
	tcase_add_test(tests, an_order_that_is_neither_c_nor_f_is_refused);
	tcase_add_test(tests, no_axes_is_one_element_and_contiguous_in_both_orders);
	tcase_add_test(tests, no_elements_is_contiguous_whatever_the_strides);
	tcase_add_test(tests, a_repeated_element_is_contiguous_in_no_order);
	tcase_add_test(tests, axes_of_one_element_do_not_matter);
	tcase_add_loop_test(tests, what_addresses_cannot_hold_is_refused, 0,
			    sizeof(too_large) / sizeof(too_large[0]));
	tcase_add_test(tests, numbers_of_axes_and_types_are_checked);
	tcase_add_test(tests, an_array_like_a_repeated_one_is_compact_in_c_order);
	tcase_add_test(tests, reshaping_an_f_ordered_array_in_c_order_needs_a_copy);
	tcase_add_test(tests, reshaping_to_the_same_shape_works_for_every_array);
	tcase_add_test(tests, one_size_of_a_reshape_may_be_left_open);
	tcase_add_test(tests, a_split_has_sections_of_elements_and_a_short_last_part);
	tcase_add_test(tests, a_split_in_sections_of_nothing_is_refused);
	tcase_add_test(tests, a_slice_beyond_the_end_is_refused);
	tcase_add_test(tests, a_transposition_names_each_axis_once);
	tcase_add_test(tests, another_type_of_the_same_size_fits_any_array);
	tcase_add_test(tests, another_size_of_type_needs_c_order_and_an_even_last_axis);
	tcase_add_test(tests, a_field_has_the_axes_of_the_records_and_its_own);
	tcase_add_test(tests, a_field_outside_its_record_is_refused);
}

int main(void)
{
	Suite *suite = suite_create("layout");
	TCase *random = tcase_create("random"), *rules = tcase_create("rules");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(random, 120);
	add_random(random);
	add_rules(rules);
	suite_add_tcase(suite, random);
	suite_add_tcase(suite, rules);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
