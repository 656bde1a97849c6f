/* SPDX-License-Identifier: Apache-2.0 */
/* The documented rules of layouts and of views, one by one. */
#include "library/layout.h"
#include "library/library.h"

#include <check.h>
#include <stdarg.h>
#include <stdlib.h>

int error_say(int error, const char *format, ...)
{
	(void)format;
	return error;
}

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

START_TEST(strides_without_elements_pass_over_the_empty_axis)
{
	struct custody_layout given = { .ndim = 3, .shape = SHAPE(4, 0, 5) };
	struct layout layout;

	make(&layout, &given);
	ck_assert_int_eq(layout.strides[2], 8);
	ck_assert_int_eq(layout.strides[1], 40);
	ck_assert_int_eq(layout.strides[0], 40);
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
	struct custody_layout none = { .ndim = 2, .shape = SHAPE(0, 5), .has_strides = true,
				       .strides = { 8, PTRDIFF_MAX } };
	struct layout layout, view, empty;
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
	make(&empty, &none);
	ck_assert_int_eq(layout_view_slice(&view, &empty, 1, 0, 5, 2, &moved), 0);
	ck_assert_uint_eq(view.shape[1], 3);
	ck_assert_int_eq(layout_view_slice(&view, &layout, 0, 3, CUSTODY_REST, PTRDIFF_MIN,
					   &moved), 0);
	ck_assert_uint_eq(view.count, 1);
	ck_assert_int_eq(view.strides[0], 8);
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
	const struct custody_type int32 = { CUSTODY_TYPE_INT, 4 };
	const struct custody_type wide = { CUSTODY_TYPE_COMPLEX, 16 };
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

static void add_rules(TCase *tests)
{
	tcase_add_test(tests, without_a_type_elements_are_float64_in_c_order);
	tcase_add_test(tests, given_strides_win_over_the_order);
	tcase_add_test(tests, an_order_that_is_neither_c_nor_f_is_refused);
	tcase_add_test(tests, no_axes_is_one_element_and_contiguous_in_both_orders);
	tcase_add_test(tests, no_elements_is_contiguous_whatever_the_strides);
	tcase_add_test(tests, strides_without_elements_pass_over_the_empty_axis);
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
	TCase *tests = tcase_create("layout");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tests, 120);
	add_rules(tests);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
