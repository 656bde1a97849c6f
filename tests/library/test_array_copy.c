/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of whole arrays: every check that is documented, orders and devices. */
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

static void count_up(int32_t *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		values[i] = (int32_t)i;
}

static void destroy(struct custody_array *array)
{
	ck_ok(custody_array_destroy(array));
}

/* ------------------------------------------------------------------ to the device */

START_TEST(to_device_copies_and_is_like_the_host_memory)
{
	struct custody_layout layout = table_of(2, 3);
	struct custody_array *array;
	int32_t values[6], back[6] = { 0 };

	count_up(values, 6);
	layout.order = CUSTODY_ORDER_F;
	ck_ok(custody_array_to_device(context, values, &layout, NULL, true, NULL, &array));
	ck_assert(custody_array_is_f_contiguous(array));
	ck_ok(custody_array_copy_to_host(array, back, NULL, NULL));
	ck_assert_mem_eq(back, values, sizeof(back));
	destroy(array);
}
END_TEST

START_TEST(to_device_without_a_copy_only_makes_the_array)
{
	struct custody_layout layout = line_of(6);
	struct custody_array *array;

	ck_ok(custody_array_to_device(context, NULL, &layout, NULL, false, NULL, &array));
	ck_assert_uint_eq(fixture_calls("cuMemcpyHtoDAsync_v2"), 0);
	destroy(array);
	ck_is(custody_array_to_device(context, NULL, &layout, NULL, true, NULL, &array),
	      CUSTODY_E_INVALID);
	ck_assert_uint_eq(fixture_pending_count(context), 2);
}
END_TEST

START_TEST(to_device_into_an_array_copies_into_it_and_gives_it_back)
{
	struct custody_layout layout = line_of(6);
	struct custody_array *array = make(&layout), *same = NULL;
	int32_t values[6];

	count_up(values, 6);
	ck_ok(custody_array_to_device(context, values, &layout, NULL, true, array, &same));
	ck_assert_ptr_eq(same, array);
	ck_assert_int_eq(peek(array, 20), 5);
	layout.shape[0] = 5;
	same = NULL;
	ck_is(custody_array_to_device(context, values, &layout, NULL, true, array, &same),
	      CUSTODY_E_MISMATCH);
	ck_assert_ptr_null(same);
	destroy(array);
}
END_TEST

START_TEST(to_device_takes_one_block_only_but_for_repeats)
{
	struct custody_layout layout = table_of(3, 4);
	struct custody_array *array;
	int32_t values[24], back[4] = { 0 };

	count_up(values, 24);
	layout.has_strides = true;
	layout.strides[0] = 32;
	layout.strides[1] = 8;
	ck_is(custody_array_to_device(context, values, &layout, NULL, true, NULL, &array),
	      CUSTODY_E_NEEDS_COPY);
	layout.strides[0] = 0;
	layout.strides[1] = 4;
	ck_ok(custody_array_to_device(context, values, &layout, NULL, true, NULL, &array));
	ck_assert_uint_eq(custody_array_alloc_bytes(array), 16);
	ck_assert_uint_eq(custody_array_nbytes(array), 48);
	ck_ok(custody_array_copy_to_host(array, back, &layout, NULL));
	ck_assert_int_eq(back[3], 3);
	destroy(array);
	layout.strides[1] = -4;
	ck_is(custody_array_to_device(context, values + 3, &layout, NULL, true, NULL, &array),
	      CUSTODY_E_NEEDS_COPY);
}
END_TEST

START_TEST(scalar_record_goes_to_the_device)
{
	struct { int32_t id; char name[8]; } record = { 7, "seven" }, back;
	struct custody_layout layout = { .size = sizeof(layout),
					 .type = { CUSTODY_TYPE_RECORD, sizeof(record) } };
	struct custody_array *array;

	ck_ok(custody_array_to_device(context, &record, &layout, NULL, true, NULL, &array));
	ck_ok(custody_array_copy_to_host(array, &back, NULL, NULL));
	ck_assert_int_eq(back.id, 7);
	ck_assert_str_eq(back.name, "seven");
	destroy(array);
}
END_TEST

/* ------------------------------------------------------------------ to the host */

START_TEST(new_host_memory_has_the_strides_of_the_array)
{
	struct custody_array *array = make_counting(context, 12), *view;
	int32_t *values = NULL;
	void *host = NULL;

	ck_ok(custody_array_slice(array, 0, 2, 9, 3, &view));
	ck_ok(custody_array_copy_to_new_host(view, &host, NULL));
	values = host;
	ck_assert_int_eq(values[0], 2);
	ck_assert_int_eq(values[3], 5);
	ck_assert_int_eq(values[6], 8);
	free(host);
	destroy(view);
	destroy(array);
}
END_TEST

START_TEST(host_memory_of_another_type_shape_or_stride_is_refused)
{
	struct custody_layout layout = table_of(3, 4), other;
	struct custody_array *array = make(&layout);
	int32_t values[64];

	fixture_forget();
	other = table_of(4, 3);
	ck_is(custody_array_copy_to_host(array, values, &other, NULL), CUSTODY_E_MISMATCH);
	other = line_of(12);
	ck_is(custody_array_copy_to_host(array, values, &other, NULL), CUSTODY_E_MISMATCH);
	other = layout;
	other.type.kind = CUSTODY_TYPE_FLOAT;
	ck_is(custody_array_copy_to_host(array, values, &other, NULL), CUSTODY_E_MISMATCH);
	other = layout;
	other.order = CUSTODY_ORDER_F;
	ck_is(custody_array_copy_to_host(array, values, &other, NULL), CUSTODY_E_MISMATCH);
	ck_is(custody_array_copy_to_host(array, NULL, NULL, NULL), CUSTODY_E_INVALID);
	ck_assert_uint_eq(fixture_calls("cuMemcpyDtoHAsync_v2"), 0);
	destroy(array);
}
END_TEST

START_TEST(axes_of_one_element_do_not_matter_to_a_copy)
{
	struct custody_array *array = make_counting(context, 12);
	struct custody_layout layout = { .size = sizeof(layout), .ndim = 3, .shape = { 1, 12, 1 },
					 .has_strides = true, .strides = { 5, 4, -9 },
					 .type = INT32 };
	int32_t values[12] = { 0 };

	ck_ok(custody_array_copy_to_host(array, values, &layout, NULL));
	ck_assert_int_eq(values[11], 11);
	values[0] = 77;
	ck_ok(custody_array_copy_from_host(array, values, &layout, NULL));
	ck_assert_int_eq(peek(array, 0), 77);
	destroy(array);
}
END_TEST

START_TEST(backward_array_is_not_copied_to_the_host)
{
	struct custody_array *array = make_counting(context, 12), *view;
	int32_t values[12];
	void *host;

	ck_ok(custody_array_slice(array, 0, 11, CUSTODY_REST, -1, &view));
	ck_is(custody_array_copy_to_host(view, values, NULL, NULL), CUSTODY_E_UNSUPPORTED);
	ck_is(custody_array_copy_to_new_host(view, &host, NULL), CUSTODY_E_UNSUPPORTED);
	destroy(view);
	destroy(array);
}
END_TEST

START_TEST(no_elements_are_copied_without_a_call)
{
	struct custody_layout layout = table_of(0, 4);
	struct custody_array *array = make(&layout), *other = make_counting(context, 4);
	void *host = NULL;

	fixture_forget();
	ck_ok(custody_array_copy_to_host(array, NULL, NULL, NULL));
	ck_ok(custody_array_copy_from_host(array, NULL, NULL, NULL));
	ck_ok(custody_array_copy(other, array, NULL));
	ck_ok(custody_array_copy_from_host(other, NULL, &layout, NULL));
	ck_ok(custody_array_copy_to_new_host(array, &host, NULL));
	ck_assert_uint_eq(fixture_calls(NULL), 0);
	free(host);
	destroy(array);
	destroy(other);
}
END_TEST

/* ------------------------------------------------------------------ from the host */

/* Element (i, j) is 10 i + j, wherever it lies. */
static void fill_table(int32_t *first, const struct custody_layout *layout)
{
	for (size_t i = 0; i < layout->shape[0]; i++)
		for (size_t j = 0; j < layout->shape[1]; j++)
			*(int32_t *)((char *)first + (ptrdiff_t)i * layout->strides[0] +
				     (ptrdiff_t)j * layout->strides[1]) = (int32_t)(10 * i + j);
}

static void check_table(struct custody_array *array)
{
	struct custody_layout layout = layout_of(array);

	for (size_t i = 0; i < layout.shape[0]; i++)
		for (size_t j = 0; j < layout.shape[1]; j++)
			ck_assert_int_eq(peek(array, (ptrdiff_t)i * layout.strides[0] +
							     (ptrdiff_t)j * layout.strides[1]),
					 (int32_t)(10 * i + j));
}

/* Where the first element is in 100 of them, and the strides from there. */
static const struct {
	size_t first;
	ptrdiff_t strides[2];
} orders[] = { { 0, { 16, 4 } },   { 0, { 4, 12 } },  { 0, { 40, 8 } },
	       { 11, { -16, 4 } }, { 50, { -40, -8 } }, { 3, { 16, -4 } } };

enum { ORDERS = sizeof(orders) / sizeof(orders[0]) };

START_TEST(host_memory_in_any_order_arrives_in_that_of_the_array)
{
	struct custody_layout layout = table_of(3, 4), host = layout;
	int32_t values[100] = { 0 };
	size_t first = orders[_i].first;
	struct custody_array *array;

	host.has_strides = true;
	memcpy(host.strides, orders[_i].strides, sizeof(orders[_i].strides));
	if (orders[_i].strides[0] == -16)
		first = 8;
	fill_table(values + first, &host);
	for (int order = 0; order < 2; order++) {
		layout.order = order ? CUSTODY_ORDER_F : CUSTODY_ORDER_C;
		array = make(&layout);
		ck_ok(custody_array_copy_from_host(array, values + first, &host, NULL));
		check_table(array);
		destroy(array);
	}
}
END_TEST

START_TEST(repeated_host_elements_are_spread_over_the_array)
{
	struct custody_layout layout = table_of(3, 4), host = layout;
	struct custody_array *array = make(&layout);
	int32_t row[] = { 5, 6, 7, 8 };

	host.has_strides = true;
	host.strides[0] = 0;
	host.strides[1] = 4;
	ck_ok(custody_array_copy_from_host(array, row, &host, NULL));
	ck_assert_int_eq(peek(array, 0), 5);
	ck_assert_int_eq(peek(array, 44), 8);
	destroy(array);
}
END_TEST

START_TEST(an_array_that_repeats_takes_what_repeats_alike)
{
	struct custody_layout repeated = table_of(3, 4), plain = repeated;
	struct custody_array *array;
	int32_t values[12];

	count_up(values, 12);
	repeated.has_strides = true;
	repeated.strides[0] = 0;
	repeated.strides[1] = 4;
	array = make(&repeated);
	ck_ok(custody_array_copy_from_host(array, values + 4, &repeated, NULL));
	ck_assert_int_eq(peek(array, 12), 7);
	ck_is(custody_array_copy_from_host(array, values, &plain, NULL), CUSTODY_E_MISMATCH);
	destroy(array);
}
END_TEST

START_TEST(target_with_holes_needs_a_copy)
{
	struct custody_array *array = make_counting(context, 12), *holes, *other;
	struct custody_layout layout = line_of(6);
	int32_t values[6] = { 0 };

	ck_ok(custody_array_slice(array, 0, 0, 12, 2, &holes));
	ck_is(custody_array_copy_from_host(holes, values, &layout, NULL), CUSTODY_E_NEEDS_COPY);
	other = make(&layout);
	ck_is(custody_array_copy(holes, other, NULL), CUSTODY_E_NEEDS_COPY);
	ck_is(custody_array_copy(other, holes, NULL), CUSTODY_E_NEEDS_COPY);
	destroy(other);
	destroy(holes);
	destroy(array);
}
END_TEST

START_TEST(host_memory_may_be_changed_once_a_synchronous_copy_returns)
{
	struct custody_layout layout = line_of(MIB / 4);
	struct custody_array *array = make(&layout);
	int32_t *values = malloc(MIB);

	count_up(values, MIB / 4);
	ck_ok(custody_array_copy_from_host(array, values, NULL, NULL));
	memset(values, 0xff, MIB);
	ck_assert_int_eq(peek(array, MIB - 4), MIB / 4 - 1);
	free(values);
	destroy(array);
}
END_TEST

/* ------------------------------------------------------------------ between arrays */

START_TEST(arrays_are_copied_on_the_device)
{
	struct custody_array *source = make_counting(context, 12), *target;
	struct custody_layout layout = line_of(12);

	target = make(&layout);
	fixture_forget();
	ck_ok(custody_array_copy(target, source, NULL));
	ck_assert_int_eq(peek(target, 44), 11);
	layout.type.kind = CUSTODY_TYPE_UINT;
	destroy(target);
	target = make(&layout);
	ck_is(custody_array_copy(target, source, NULL), CUSTODY_E_MISMATCH);
	destroy(target);
	layout = table_of(3, 4);
	target = make(&layout);
	ck_is(custody_array_copy(target, source, NULL), CUSTODY_E_MISMATCH);
	ck_is(custody_array_copy(target, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_copy(NULL, source, NULL), CUSTODY_E_INVALID);
	destroy(target);
	destroy(source);
}
END_TEST

START_TEST(arrays_of_two_orders_are_not_copied_into_each_other)
{
	struct custody_layout layout = table_of(3, 4);
	struct custody_array *c = make(&layout), *f;

	layout.order = CUSTODY_ORDER_F;
	f = make(&layout);
	ck_is(custody_array_copy(c, f, NULL), CUSTODY_E_MISMATCH);
	destroy(c);
	destroy(f);
}
END_TEST

START_TEST(arrays_that_overlap_are_not_copied)
{
	struct custody_array *array = make_counting(context, 12), *low, *high;

	ck_ok(custody_array_slice(array, 0, 0, 8, 1, &low));
	ck_ok(custody_array_slice(array, 0, 2, 10, 1, &high));
	ck_is(custody_array_copy(high, low, NULL), CUSTODY_E_INVALID);
	ck_ok(custody_array_copy(low, low, NULL));
	ck_assert_int_eq(peek(array, 8), 2);
	destroy(low);
	destroy(high);
	destroy(array);
}
END_TEST

START_TEST(arrays_are_copied_between_devices)
{
	struct custody_context *other = fixture_context(1);
	struct custody_array *source = make_counting(context, MIB), *target, *back;
	struct custody_layout layout = line_of(MIB);
	struct custody_stream *stream = make_stream(other);

	target = make_array(other, &layout);
	back = make(&layout);
	ck_ok(custody_array_copy(target, source, NULL));
	ck_ok(custody_array_fill(back, &(int32_t){ -1 }, NULL));
	ck_ok(custody_array_copy(back, target, stream));
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_int_eq(peek(back, 4 * MIB - 4), MIB - 1);
	ck_assert_uint_eq(fixture_calls("cuMemcpyPeerAsync"), 2);
	destroy(target);
	destroy(source);
	destroy(back);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(stream_of_a_third_device_copies_nothing_between_two)
{
	struct custody_array *source = make_counting(context, 4), *target;
	struct custody_stream *stream = make_stream(fixture_context(1));
	struct custody_layout layout = line_of(4);

	target = make(&layout);
	ck_is(custody_array_copy(target, source, stream), CUSTODY_E_MISMATCH);
	destroy(target);
	destroy(source);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(copy_from_another_device_ran_ahead_of_what_filled_its_source)
{
	struct custody_context *other = fixture_context(1);
	struct custody_layout layout = line_of(MIB);
	struct custody_array *source = make(&layout), *target = make_array(other, &layout);
	CUfunction delay;
	CUmodule module;
	unsigned int microseconds = 30000;
	void *arguments[] = { &microseconds };

	ck_cu(cuModuleLoadData(&module, "image"));
	ck_cu(cuModuleGetFunction(&delay, module, "sim_delay"));
	ck_cu(cuLaunchKernel(delay, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, arguments, NULL));
	ck_cu(cuMemsetD32Async((CUdeviceptr)custody_array_pointer(source), 42, MIB,
			       CU_STREAM_LEGACY));
	ck_ok(custody_array_copy(target, source, NULL));
	ck_assert_int_eq(peek(target, 0), 42);
	destroy(source);
	destroy(target);
}
END_TEST

static void begin_failing(void)
{
	setenv("SIMCUDA_FAIL", "cuMemcpyHtoDAsync_v2:*:1", 1);
	begin();
}

START_TEST(failing_copy_leaves_no_array_behind)
{
	struct custody_layout layout = line_of(8);
	int32_t values[8] = { 0 };
	struct custody_array *array = NULL;

	ck_is(custody_array_to_device(context, values, &layout, NULL, true, NULL, &array),
	      CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_null(array);
	ck_assert_uint_eq(fixture_pending_count(context), 1);
}
END_TEST

static void add_host(Suite *suite)
{
	TCase *tests = add_case(suite, "host", begin);

	tcase_add_test(tests, to_device_copies_and_is_like_the_host_memory);
	tcase_add_test(tests, to_device_without_a_copy_only_makes_the_array);
	tcase_add_test(tests, to_device_into_an_array_copies_into_it_and_gives_it_back);
	tcase_add_test(tests, to_device_takes_one_block_only_but_for_repeats);
	tcase_add_test(tests, scalar_record_goes_to_the_device);
	tcase_add_test(tests, new_host_memory_has_the_strides_of_the_array);
	tcase_add_test(tests, host_memory_of_another_type_shape_or_stride_is_refused);
	tcase_add_test(tests, axes_of_one_element_do_not_matter_to_a_copy);
	tcase_add_test(tests, backward_array_is_not_copied_to_the_host);
	tcase_add_test(tests, no_elements_are_copied_without_a_call);
	tcase_add_loop_test(tests, host_memory_in_any_order_arrives_in_that_of_the_array, 0,
			    ORDERS);
	tcase_add_test(tests, repeated_host_elements_are_spread_over_the_array);
	tcase_add_test(tests, an_array_that_repeats_takes_what_repeats_alike);
	tcase_add_test(tests, target_with_holes_needs_a_copy);
	tcase_add_test(tests, host_memory_may_be_changed_once_a_synchronous_copy_returns);
	tests = add_case(suite, "failing", begin_failing);
	tcase_add_test(tests, failing_copy_leaves_no_array_behind);
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("array_copy");
	TCase *tests;

	add_host(suite);
	tests = add_case(suite, "device", begin);
	tcase_add_test(tests, arrays_are_copied_on_the_device);
	tcase_add_test(tests, arrays_of_two_orders_are_not_copied_into_each_other);
	tcase_add_test(tests, arrays_that_overlap_are_not_copied);
	tcase_add_test(tests, arrays_are_copied_between_devices);
	tcase_add_test(tests, stream_of_a_third_device_copies_nothing_between_two);
	tcase_add_test(tests, copy_from_another_device_ran_ahead_of_what_filled_its_source);
	return suite;
}
