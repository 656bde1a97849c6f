/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: how they are made, what they say of themselves, their views, how they go. */
#include "arrays.h"

static struct custody_context *context;

static void begin(void)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	fixture_watch();
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
	fixture_forget();
}

static struct custody_array *make(const struct custody_layout *layout)
{
	return make_array(context, layout);
}

/* ------------------------------------------------------------------ made */

START_TEST(array_takes_as_many_bytes_as_its_elements_reach)
{
	struct custody_layout layout = table_of(3, 4);
	struct custody_array *array;

	layout.has_strides = true;
	layout.strides[0] = 64;
	layout.strides[1] = 8;
	array = make(&layout);
	ck_assert_uint_eq(custody_array_nbytes(array), 48);
	ck_assert_uint_eq(custody_array_alloc_bytes(array), 2 * 64 + 3 * 8 + 4);
	ck_assert_uint_eq(custody_buffer_bytes(custody_array_buffer(array)), 2 * 64 + 3 * 8 + 4);
	ck_assert_uint_eq(fixture_calls("cuMemAlloc_v2"), 1);
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(array_without_a_type_is_float64_in_c_order)
{
	struct custody_layout layout = { .size = sizeof(layout), .ndim = 2, .shape = { 2, 5 } };
	struct custody_array *array = make(&layout);

	layout = layout_of(array);
	ck_assert_int_eq(layout.type.kind, CUSTODY_TYPE_FLOAT);
	ck_assert_uint_eq(layout.type.item_bytes, 8);
	ck_assert_int_eq(layout.strides[0], 40);
	ck_assert_int_eq(layout.order, CUSTODY_ORDER_C);
	ck_assert(custody_array_is_c_contiguous(array));
	ck_assert(!custody_array_is_f_contiguous(array));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(array_in_f_order_has_its_first_axis_innermost)
{
	struct custody_layout layout = table_of(3, 4);
	struct custody_array *array;

	layout.order = CUSTODY_ORDER_F;
	array = make(&layout);
	layout = layout_of(array);
	ck_assert_int_eq(layout.strides[0], 4);
	ck_assert_int_eq(layout.strides[1], 12);
	ck_assert_int_eq(layout.order, CUSTODY_ORDER_F);
	ck_assert(custody_array_is_f_contiguous(array));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(an_axis_of_no_elements_is_an_array_without_memory)
{
	struct custody_layout layout = table_of(3, 0);
	struct custody_array *array = make(&layout);

	ck_assert_uint_eq(fixture_calls("cuMemAlloc_v2"), 0);
	ck_assert_ptr_null(custody_array_pointer(array));
	ck_assert_uint_eq(custody_array_alloc_bytes(array), 0);
	ck_assert(custody_array_is_c_contiguous(array) && custody_array_is_f_contiguous(array));
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(fixture_calls("cuMemFree_v2"), 0);
}
END_TEST

START_TEST(no_axes_are_one_element)
{
	struct custody_layout layout = { .size = sizeof(layout), .type = INT32 };
	struct custody_array *array = make(&layout);

	ck_assert_uint_eq(custody_array_nbytes(array), 4);
	ck_assert_ptr_nonnull(custody_array_pointer(array));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(first_element_of_a_backward_array_is_not_the_lowest)
{
	struct custody_layout layout = line_of(10);
	struct custody_array *array;
	char *base;

	layout.has_strides = true;
	layout.strides[0] = -4;
	array = make(&layout);
	base = custody_buffer_pointer(custody_array_buffer(array));
	ck_assert_uint_eq(custody_array_alloc_bytes(array), 40);
	ck_assert_ptr_eq(custody_array_pointer(array), base + 36);
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(arrays_that_cannot_be_are_refused)
{
	struct custody_layout layout = line_of(4), other;
	struct custody_array *array;

	ck_is(custody_array_create(NULL, &layout, NULL, NULL, &array), CUSTODY_E_INVALID);
	ck_is(custody_array_create(context, NULL, NULL, NULL, &array), CUSTODY_E_INVALID);
	ck_is(custody_array_create(context, &layout, NULL, NULL, NULL), CUSTODY_E_INVALID);
	other = layout;
	other.order = 'x';
	ck_is(custody_array_create(context, &other, NULL, NULL, &array), CUSTODY_E_INVALID);
	other = layout;
	other.ndim = 9;
	ck_is(custody_array_create(context, &other, NULL, NULL, &array), CUSTODY_E_INVALID);
	other = layout;
	other.type.item_bytes = 3;
	ck_is(custody_array_create(context, &other, NULL, NULL, &array), CUSTODY_E_INVALID);
	other = layout;
	other.size = 3;
	ck_is(custody_array_create(context, &other, NULL, NULL, &array), CUSTODY_E_INVALID);
	other.shape[0] = SIZE_MAX / 2;
	other.size = sizeof(other);
	ck_is(custody_array_create(context, &other, NULL, NULL, &array), CUSTODY_E_INVALID);
	ck_assert_uint_eq(fixture_calls("cuMemAlloc_v2"), 0);
}
END_TEST

START_TEST(layout_of_an_older_header_has_zeros_for_what_it_lacks)
{
	struct custody_layout layout = { .size = offsetof(struct custody_layout, order), .ndim = 1,
					 .shape = { 6 }, .order = 'x', .type = { 'z', 77 } };

	ck_assert_uint_eq(custody_layout_count(&layout), 6);
	ck_assert_uint_eq(custody_layout_bytes(&layout), 48);
	ck_assert_uint_eq(custody_layout_extent(&layout), 48);
	ck_assert(custody_layout_is_c_contiguous(&layout));
	ck_assert(custody_layout_is_f_contiguous(&layout));
}
END_TEST

START_TEST(what_is_no_layout_has_no_elements_and_says_why)
{
	struct custody_layout layout = line_of(4);

	layout.order = 'x';
	ck_assert_uint_eq(custody_layout_count(&layout), 0);
	ck_assert_str_ne(custody_error_detail(), "");
	ck_assert(!custody_layout_is_c_contiguous(&layout));
	ck_assert_uint_eq(custody_layout_count(NULL), 0);
}
END_TEST

START_TEST(failed_allocation_leaves_nothing_behind)
{
	struct custody_layout layout = line_of((size_t)1 << 40);
	struct custody_array *array = NULL;

	ck_is(custody_array_create(context, &layout, NULL, NULL, &array), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_ptr_null(array);
}
END_TEST

/* ------------------------------------------------------------------ like others */

START_TEST(array_like_an_f_ordered_one_is_in_f_order)
{
	struct custody_layout layout = table_of(3, 4);
	struct custody_array *array;

	layout.order = CUSTODY_ORDER_F;
	ck_ok(custody_array_create_like(context, &layout, NULL, NULL, &array));
	ck_assert(custody_array_is_f_contiguous(array) && !custody_array_is_c_contiguous(array));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(array_like_one_with_holes_has_none_and_keeps_the_order_of_axes)
{
	struct custody_layout layout = { .size = sizeof(layout), .ndim = 3, .shape = { 2, 3, 4 },
					 .has_strides = true, .strides = { 100, 1000, 8 },
					 .type = INT32 };
	struct custody_array *array;

	ck_ok(custody_array_create_like(context, &layout, NULL, NULL, &array));
	layout = layout_of(array);
	ck_assert_int_eq(layout.strides[2], 4);
	ck_assert_int_eq(layout.strides[0], 16);
	ck_assert_int_eq(layout.strides[1], 32);
	ck_assert_uint_eq(custody_array_alloc_bytes(array), 96);
	ck_ok(custody_array_destroy(array));
}
END_TEST

/* ------------------------------------------------------------------ over buffers */

START_TEST(array_over_a_buffer_reaching_beyond_it_was_accepted)
{
	struct custody_layout layout = line_of(8);
	struct custody_buffer *buffer;
	struct custody_array *array;

	ck_ok(custody_buffer_create(NULL, 32, NULL, &buffer));
	ck_ok(custody_array_over(buffer, 0, &layout, NULL, &array));
	ck_ok(custody_array_destroy(array));
	ck_is(custody_array_over(buffer, 1, &layout, NULL, &array), CUSTODY_E_BOUNDS);
	ck_is(custody_array_over(buffer, 33, &layout, NULL, &array), CUSTODY_E_BOUNDS);
	ck_is(custody_array_over(buffer, SIZE_MAX, &layout, NULL, &array), CUSTODY_E_BOUNDS);
	layout.has_strides = true;
	layout.strides[0] = -4;
	ck_is(custody_array_over(buffer, 0, &layout, NULL, &array), CUSTODY_E_BOUNDS);
	ck_is(custody_array_over(buffer, 32, &layout, NULL, &array), CUSTODY_E_BOUNDS);
	ck_ok(custody_array_over(buffer, 28, &layout, NULL, &array));
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_buffer_release(buffer));
}
END_TEST

START_TEST(array_over_a_buffer_keeps_it_alive)
{
	struct custody_layout layout = line_of(8);
	struct custody_buffer *buffer;
	struct custody_array *array;

	ck_ok(custody_buffer_create(NULL, 32, NULL, &buffer));
	ck_ok(custody_array_over(buffer, 0, &layout, NULL, &array));
	ck_ok(custody_buffer_release(buffer));
	ck_assert_ptr_nonnull(custody_array_pointer(array));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(fixture_pending_count(context), 1);
}
END_TEST

/* ------------------------------------------------------------------ views */

START_TEST(views_hold_the_memory_and_outlive_their_array)
{
	struct custody_array *array = make_counting(context, 24), *table, *part, *row;
	const size_t shape[] = { 4, CUSTODY_REST };

	ck_ok(custody_array_reshape(array, 2, shape, CUSTODY_ORDER_C, &table));
	ck_ok(custody_array_slice(table, 0, 1, 4, 2, &part));
	ck_ok(custody_array_index(part, 0, 1, &row));
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_array_destroy(table));
	ck_ok(custody_array_destroy(part));
	ck_assert_int_eq(layout_of(row).ndim, 1);
	ck_assert_int_eq(peek(row, 0), 18);
	ck_assert_int_eq(peek(row, 20), 23);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_ok(custody_array_destroy(row));
	ck_assert_uint_eq(fixture_pending_count(context), 1);
}
END_TEST

START_TEST(reversed_slice_begins_at_the_end)
{
	struct custody_array *array = make_counting(context, 10), *view;

	ck_ok(custody_array_slice(array, 0, 9, CUSTODY_REST, -3, &view));
	ck_assert_uint_eq(layout_of(view).shape[0], 4);
	ck_assert_int_eq(peek(view, 0), 9);
	ck_assert_int_eq(peek(view, 3 * layout_of(view).strides[0]), 0);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(split_is_in_sections_of_elements_with_a_short_last_one)
{
	struct custody_array *array = make_counting(context, 10), *part;
	size_t count = 0, sum = 0;

	ck_ok(custody_array_split_count(array, 4, &count));
	ck_assert_uint_eq(count, 3);
	for (size_t i = 0; i < count; i++) {
		ck_ok(custody_array_split(array, 4, i, &part));
		ck_assert_int_eq(peek(part, 0), (int32_t)(4 * i));
		sum += layout_of(part).shape[0];
		ck_ok(custody_array_destroy(part));
	}
	ck_assert_uint_eq(sum, 10);
	ck_is(custody_array_split(array, 4, 3, &part), CUSTODY_E_BOUNDS);
	ck_is(custody_array_split_count(array, 0, &count), CUSTODY_E_INVALID);
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(ravel_of_what_is_not_contiguous_needs_a_copy)
{
	struct custody_array *array = make_counting(context, 12), *table, *turned, *view;
	const size_t shape[] = { 3, 4 };

	ck_ok(custody_array_reshape(array, 2, shape, CUSTODY_ORDER_C, &table));
	ck_ok(custody_array_transpose(table, NULL, &turned));
	ck_is(custody_array_ravel(turned, CUSTODY_ORDER_C, &view), CUSTODY_E_NEEDS_COPY);
	ck_ok(custody_array_ravel(turned, CUSTODY_ORDER_ANY, &view));
	ck_assert_uint_eq(layout_of(view).shape[0], 12);
	ck_ok(custody_array_destroy(view));
	ck_is(custody_array_ravel(turned, 'x', &view), CUSTODY_E_INVALID);
	ck_ok(custody_array_destroy(turned));
	ck_ok(custody_array_destroy(table));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(transposing_moves_nothing)
{
	struct custody_layout layout = table_of(3, 4);
	struct custody_array *array = make(&layout), *turned;

	fixture_forget();
	ck_ok(custody_array_transpose(array, NULL, &turned));
	ck_assert_ptr_eq(custody_array_pointer(turned), custody_array_pointer(array));
	ck_assert_uint_eq(layout_of(turned).shape[0], 4);
	ck_assert(custody_array_is_f_contiguous(turned));
	ck_assert_uint_eq(fixture_calls(NULL), 0);
	ck_ok(custody_array_destroy(turned));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(squeeze_drops_axes_of_one_element_only)
{
	struct custody_layout layout = { .size = sizeof(layout), .ndim = 3, .shape = { 1, 5, 1 } };
	struct custody_array *array = make(&layout), *view;

	ck_is(custody_array_squeeze(array, 1, &view), CUSTODY_E_MISMATCH);
	ck_ok(custody_array_squeeze(array, 2, &view));
	ck_assert_int_eq(layout_of(view).ndim, 2);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_squeeze(array, -1, &view));
	ck_assert_int_eq(layout_of(view).ndim, 1);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(view_as_another_type_shows_the_same_bytes)
{
	struct custody_array *array = make_counting(context, 8), *view;
	const struct custody_type half = { CUSTODY_TYPE_UINT, 2 };

	ck_ok(custody_array_view_type(array, half, &view));
	ck_assert_uint_eq(layout_of(view).shape[0], 16);
	ck_assert_int_eq(layout_of(view).strides[0], 2);
	ck_assert_ptr_eq(custody_array_pointer(view), custody_array_pointer(array));
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_destroy(array));
}
END_TEST

static const struct custody_field fields[] = {
	{ "id", { CUSTODY_TYPE_INT, 4 }, 0, 0, { 0 } },
	{ "place", { CUSTODY_TYPE_INT, 4 }, 8, 1, { 3 } },
};

START_TEST(field_of_records_is_an_array_over_them)
{
	struct { int32_t id, unused, place[3]; } records[2] = { { 1, 0, { 2, 3, 4 } },
								{ 5, 0, { 6, 7, 8 } } };
	struct custody_layout layout = { .size = sizeof(layout), .ndim = 1, .shape = { 2 },
					 .type = { CUSTODY_TYPE_RECORD, sizeof(records[0]) } };
	struct custody_array *array, *view, *one;

	ck_ok(custody_array_to_device(context, records, &layout, NULL, true, NULL, &array));
	ck_ok(custody_array_field(array, fields, 2, "place", &view));
	ck_assert_int_eq(layout_of(view).ndim, 2);
	ck_assert_int_eq(peek(view, 20 + 4), 7);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_index(array, 0, 1, &one));
	ck_ok(custody_array_field(one, fields, 2, "id", &view));
	ck_assert_int_eq(layout_of(view).ndim, 0);
	ck_assert_int_eq(peek(view, 0), 5);
	ck_is(custody_array_field(array, fields, 2, "name", &view), CUSTODY_E_INVALID);
	ck_is(custody_array_field(view, fields, 2, "id", &view), CUSTODY_E_INVALID);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_destroy(one));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(reshape_dropped_the_stream_that_other_views_kept)
{
	struct custody_layout layout = table_of(1, 6);
	struct custody_stream *stream = make_stream(context);
	struct custody_array *array, *views[5];
	const size_t shape[] = { 2, 3 };

	ck_ok(custody_array_create(context, &layout, NULL, stream, &array));
	ck_assert_ptr_eq(custody_array_stream(array), stream);
	ck_ok(custody_array_reshape(array, 2, shape, CUSTODY_ORDER_C, &views[0]));
	ck_ok(custody_array_ravel(array, CUSTODY_ORDER_C, &views[1]));
	ck_ok(custody_array_squeeze(array, -1, &views[2]));
	ck_ok(custody_array_split(views[1], 4, 1, &views[3]));
	ck_ok(custody_array_bind(array, NULL, &views[4]));
	for (int i = 0; i < 4; i++)
		ck_assert_ptr_eq(custody_array_stream(views[i]), stream);
	ck_assert_ptr_null(custody_array_stream(views[4]));
	for (int i = 0; i < 5; i++)
		ck_ok(custody_array_destroy(views[i]));
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

/* ------------------------------------------------------------------ how they go */

START_TEST(destroying_an_array_queues_its_memory)
{
	struct custody_layout layout = line_of(MIB);
	struct custody_array *array = make(&layout);

	ck_ok(custody_array_destroy(array));
	ck_ok(custody_array_destroy(NULL));
	ck_assert_uint_eq(fixture_calls("cuMemFree_v2"), 0);
	ck_assert_uint_eq(fixture_pending_bytes(context), 4 * MIB);
}
END_TEST

START_TEST(closed_buffer_has_arrays_that_say_so)
{
	struct custody_array *array = make_counting(context, 8), *view;
	int32_t values[8];

	ck_ok(custody_buffer_close(custody_array_buffer(array), NULL));
	ck_assert_ptr_null(custody_array_pointer(array));
	ck_assert_ptr_null(custody_array_device_pointer(array));
	ck_is(custody_array_slice(array, 0, 0, 4, 1, &view), CUSTODY_E_CLOSED);
	ck_is(custody_array_copy_to_host(array, values, NULL, NULL), CUSTODY_E_CLOSED);
	ck_is(custody_array_fill(array, values, NULL), CUSTODY_E_CLOSED);
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(sliced_array_survived_the_reset_of_its_context)
{
	const size_t before = fixture_free_bytes(context);
	struct custody_array *array = make_counting(context, MIB), *view, *other;
	int32_t value;
	const size_t index[] = { 0 };

	ck_ok(custody_array_slice(array, 0, 2, 6, 1, &view));
	ck_ok(custody_context_reset(context));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
	ck_assert_ptr_null(custody_array_pointer(view));
	ck_is(custody_array_get(view, index, &value, NULL), CUSTODY_E_STALE);
	ck_is(custody_array_slice(view, 0, 0, 1, 1, &other), CUSTODY_E_STALE);
	ck_assert_uint_eq(layout_of(view).shape[0], 4);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_destroy(array));
	array = make_counting(context, 8);
	ck_assert_int_eq(peek(array, 4), 1);
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(arrays_work_in_their_context_whatever_is_current)
{
	struct custody_context *other = fixture_context(1);
	struct custody_array *array;
	CUcontext current;
	int32_t values[4] = { 0 };

	ck_cu(cuCtxSetCurrent(custody_context_handle(other)));
	array = make_counting(context, 4);
	ck_ok(custody_array_copy_to_host(array, values, NULL, NULL));
	ck_assert_int_eq(values[3], 3);
	ck_cu(cuCtxGetCurrent(&current));
	ck_assert_ptr_eq(current, custody_context_handle(other));
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(fixture_pending_count(context), 1);
	ck_assert_uint_eq(fixture_pending_count(other), 0);
}
END_TEST

START_TEST(functions_given_nothing_crashed)
{
	struct custody_array *array = make_counting(context, 4), *view;
	struct custody_layout layout = { .size = sizeof(layout) };
	size_t count;

	ck_is(custody_array_over(NULL, 0, &layout, NULL, &view), CUSTODY_E_INVALID);
	ck_is(custody_array_layout(NULL, &layout), CUSTODY_E_INVALID);
	ck_is(custody_array_layout(array, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_bind(NULL, NULL, &view), CUSTODY_E_INVALID);
	ck_is(custody_array_ravel(array, CUSTODY_ORDER_C, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_reshape(array, 2, NULL, CUSTODY_ORDER_C, &view), CUSTODY_E_INVALID);
	ck_is(custody_array_split_count(array, 2, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_split_count(NULL, 2, &count), CUSTODY_E_INVALID);
	ck_is(custody_array_slice(NULL, 0, 0, 1, 1, &view), CUSTODY_E_INVALID);
	ck_is(custody_array_index(array, 0, 0, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_squeeze(NULL, -1, &view), CUSTODY_E_INVALID);
	ck_is(custody_array_transpose(NULL, NULL, &view), CUSTODY_E_INVALID);
	ck_is(custody_array_field(array, NULL, 1, "id", &view), CUSTODY_E_INVALID);
	ck_is(custody_array_field(array, fields, 1, NULL, &view), CUSTODY_E_INVALID);
	ck_assert_ptr_null(custody_array_pointer(NULL));
	ck_assert_ptr_null(custody_array_buffer(NULL));
	ck_assert_ptr_null(custody_array_stream(NULL));
	ck_assert_uint_eq(custody_array_nbytes(NULL), 0);
	ck_assert(!custody_array_is_c_contiguous(NULL) && !custody_array_is_read_only(NULL));
	ck_ok(custody_array_destroy(array));
}
END_TEST

static void add_making(Suite *suite)
{
	TCase *tests = add_case(suite, "made", begin);

	tcase_add_test(tests, array_takes_as_many_bytes_as_its_elements_reach);
	tcase_add_test(tests, array_without_a_type_is_float64_in_c_order);
	tcase_add_test(tests, array_in_f_order_has_its_first_axis_innermost);
	tcase_add_test(tests, an_axis_of_no_elements_is_an_array_without_memory);
	tcase_add_test(tests, no_axes_are_one_element);
	tcase_add_test(tests, first_element_of_a_backward_array_is_not_the_lowest);
	tcase_add_test(tests, arrays_that_cannot_be_are_refused);
	tcase_add_test(tests, layout_of_an_older_header_has_zeros_for_what_it_lacks);
	tcase_add_test(tests, what_is_no_layout_has_no_elements_and_says_why);
	tcase_add_test(tests, failed_allocation_leaves_nothing_behind);
	tcase_add_test(tests, array_like_an_f_ordered_one_is_in_f_order);
	tcase_add_test(tests, array_like_one_with_holes_has_none_and_keeps_the_order_of_axes);
	tcase_add_test(tests, array_over_a_buffer_reaching_beyond_it_was_accepted);
	tcase_add_test(tests, array_over_a_buffer_keeps_it_alive);
}

static void add_views(Suite *suite)
{
	TCase *tests = add_case(suite, "views", begin);

	tcase_add_test(tests, views_hold_the_memory_and_outlive_their_array);
	tcase_add_test(tests, reversed_slice_begins_at_the_end);
	tcase_add_test(tests, split_is_in_sections_of_elements_with_a_short_last_one);
	tcase_add_test(tests, ravel_of_what_is_not_contiguous_needs_a_copy);
	tcase_add_test(tests, transposing_moves_nothing);
	tcase_add_test(tests, squeeze_drops_axes_of_one_element_only);
	tcase_add_test(tests, view_as_another_type_shows_the_same_bytes);
	tcase_add_test(tests, field_of_records_is_an_array_over_them);
	tcase_add_test(tests, reshape_dropped_the_stream_that_other_views_kept);
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("array");
	TCase *tests;

	add_making(suite);
	add_views(suite);
	tests = add_case(suite, "going", begin);
	tcase_add_test(tests, destroying_an_array_queues_its_memory);
	tcase_add_test(tests, closed_buffer_has_arrays_that_say_so);
	tcase_add_test(tests, sliced_array_survived_the_reset_of_its_context);
	tcase_add_test(tests, arrays_work_in_their_context_whatever_is_current);
	tcase_add_test(tests, functions_given_nothing_crashed);
	return suite;
}
