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
	ck_assert(made.layout.count || moved == 0);
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

int main(void)
{
	Suite *suite = suite_create("layout_random");
	TCase *tests = tcase_create("layout_random");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tests, 120);
	add_random(tests);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
