/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements, and values for all of them. */
#include "arrays.h"

static struct custody_context *context;

static void begin(void)
{
	fixture_watch();
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
	fixture_forget();
}

static void destroy(struct custody_array *array)
{
	ck_ok(custody_array_destroy(array));
}

/* ------------------------------------------------------------------ one element */

START_TEST(element_is_read_by_its_index_on_each_axis)
{
	struct custody_array *array = make_counting(context, 24), *table, *turned;
	const size_t shape[] = { 4, 6 }, index[] = { 2, 3 }, back[] = { 3, 2 };
	int32_t value = 0;

	ck_ok(custody_array_reshape(array, 2, shape, CUSTODY_ORDER_C, &table));
	ck_ok(custody_array_get(table, index, &value, NULL));
	ck_assert_int_eq(value, 15);
	ck_ok(custody_array_transpose(table, NULL, &turned));
	ck_ok(custody_array_get(turned, back, &value, NULL));
	ck_assert_int_eq(value, 15);
	destroy(turned);
	destroy(table);
	destroy(array);
}
END_TEST

START_TEST(element_of_a_backward_view_is_read_from_its_end)
{
	struct custody_array *array = make_counting(context, 10), *view;
	const size_t index[] = { 2 };
	int32_t value = 0;

	ck_ok(custody_array_slice(array, 0, 9, CUSTODY_REST, -2, &view));
	ck_ok(custody_array_get(view, index, &value, NULL));
	ck_assert_int_eq(value, 5);
	destroy(view);
	destroy(array);
}
END_TEST

START_TEST(element_that_is_not_there_is_refused)
{
	struct custody_array *array = make_counting(context, 4);
	const size_t index[] = { 4 }, good[] = { 0 };
	int32_t value = 7;

	ck_is(custody_array_get(array, index, &value, NULL), CUSTODY_E_BOUNDS);
	ck_is(custody_array_set(array, index, &value, NULL), CUSTODY_E_BOUNDS);
	ck_is(custody_array_get(array, NULL, &value, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_set(array, good, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_get(NULL, good, &value, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_set(NULL, good, &value, NULL), CUSTODY_E_INVALID);
	ck_assert_int_eq(value, 7);
	destroy(array);
}
END_TEST

START_TEST(element_of_no_axes_needs_no_index)
{
	struct custody_layout layout = { .size = sizeof(layout), .type = INT32 };
	struct custody_array *array = make_array(context, &layout);
	int32_t value = 42, back = 0;

	ck_ok(custody_array_set(array, NULL, &value, NULL));
	ck_ok(custody_array_get(array, NULL, &back, NULL));
	ck_assert_int_eq(back, 42);
	destroy(array);
}
END_TEST

/* Sizes of elements: those of memsets, and others. */
static const uint32_t sizes[] = { 1, 2, 4, 8, 3, 16, 40 };

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), COUNT = 5000 };

static struct custody_array *make_records(uint32_t bytes, struct custody_stream *stream)
{
	struct custody_layout layout = { .size = sizeof(layout), .ndim = 1, .shape = { COUNT },
					 .type = { CUSTODY_TYPE_RECORD, bytes } };
	struct custody_array *array = NULL;

	ck_ok(custody_array_create(context, &layout, NULL, stream, &array));
	return array;
}

/* A value none of whose bytes are equal. */
static const unsigned char *make_value(unsigned char *value)
{
	for (unsigned char i = 0; i < 40; i++)
		value[i] = (unsigned char)(i + 1);
	return value;
}

START_TEST(element_of_any_size_is_set_and_its_neighbours_are_not)
{
	struct custody_array *array = make_records(sizes[_i], NULL);
	const size_t index[] = { 7 }, below[] = { 6 }, above[] = { 8 };
	unsigned char value[40], back[40], zeros[40] = { 0 };

	ck_cu(cuMemsetD8((CUdeviceptr)custody_array_pointer(array), 0, COUNT * sizes[_i]));
	ck_ok(custody_array_set(array, index, make_value(value), NULL));
	ck_ok(custody_array_get(array, index, back, NULL));
	ck_assert_mem_eq(back, value, sizes[_i]);
	ck_ok(custody_array_get(array, below, back, NULL));
	ck_assert_mem_eq(back, zeros, sizes[_i]);
	ck_ok(custody_array_get(array, above, back, NULL));
	ck_assert_mem_eq(back, zeros, sizes[_i]);
	destroy(array);
}
END_TEST

START_TEST(value_that_was_set_on_a_stream_may_be_changed_at_once)
{
	struct custody_stream *stream = make_stream(context);
	struct custody_array *array = make_records(sizes[_i], stream);
	const size_t index[] = { 7 };
	unsigned char value[40], back[40], wanted[40];

	make_value(value);
	memcpy(wanted, value, sizeof(wanted));
	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_array_set(array, index, value, NULL));
	memset(value, 0xff, sizeof(value));
	fixture_release();
	ck_ok(custody_array_get(array, index, back, NULL));
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_mem_eq(back, wanted, sizes[_i]);
	destroy(array);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(field_that_is_not_aligned_is_set_whole)
{
	const struct custody_field fields[] = { { "odd", INT32, 3, 0, { 0 } } };
	struct custody_array *array = make_records(16, NULL), *view;
	const size_t index[] = { 5 };
	int32_t value = 0x01020304, back = 0;

	ck_ok(custody_array_field(array, fields, 1, "odd", &view));
	ck_ok(custody_array_set(view, index, &value, NULL));
	ck_ok(custody_array_get(view, index, &back, NULL));
	ck_assert_int_eq(back, value);
	destroy(view);
	destroy(array);
}
END_TEST

/* ------------------------------------------------------------------ all of them */

START_TEST(fill_repeats_a_value_of_any_size_to_the_last_element)
{
	struct custody_array *array = make_records(sizes[_i], NULL);
	unsigned char value[40], *host;
	void *copied;

	ck_ok(custody_array_fill(array, make_value(value), NULL));
	ck_ok(custody_array_copy_to_new_host(array, &copied, NULL));
	host = copied;
	for (size_t i = 0; i < COUNT; i++)
		ck_assert_mem_eq(host + i * sizes[_i], value, sizes[_i]);
	free(copied);
	destroy(array);
}
END_TEST

START_TEST(fill_of_words_is_one_memset)
{
	struct custody_layout layout = line_of(COUNT);
	struct custody_array *array = make_array(context, &layout);
	double value = 0; /* both halves are equal */

	fixture_forget();
	ck_ok(custody_array_fill(array, &(int32_t){ 9 }, NULL));
	ck_assert_uint_eq(fixture_calls("cuMemsetD32Async"), 1);
	ck_assert_int_eq(peek(array, 4 * (COUNT - 1)), 9);
	destroy(array);
	layout = (struct custody_layout){ .size = sizeof(layout), .ndim = 1, .shape = { COUNT } };
	array = make_array(context, &layout);
	fixture_forget();
	ck_ok(custody_array_fill(array, &value, NULL));
	ck_assert_uint_eq(fixture_calls("cuMemsetD32Async"), 1);
	ck_assert_uint_eq(fixture_calls("cuMemcpyDtoDAsync_v2"), 0);
	destroy(array);
}
END_TEST

START_TEST(fill_of_a_part_leaves_the_rest)
{
	struct custody_array *array = make_counting(context, 12), *part, *holes;

	ck_ok(custody_array_slice(array, 0, 3, 9, 1, &part));
	ck_ok(custody_array_fill(part, &(int32_t){ -1 }, NULL));
	ck_assert_int_eq(peek(array, 8), 2);
	ck_assert_int_eq(peek(array, 12), -1);
	ck_assert_int_eq(peek(array, 32), -1);
	ck_assert_int_eq(peek(array, 36), 9);
	ck_ok(custody_array_slice(array, 0, 0, 12, 2, &holes));
	ck_is(custody_array_fill(holes, &(int32_t){ 0 }, NULL), CUSTODY_E_NEEDS_COPY);
	ck_is(custody_array_fill(array, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_fill(NULL, &(int32_t){ 0 }, NULL), CUSTODY_E_INVALID);
	destroy(holes);
	destroy(part);
	destroy(array);
}
END_TEST

START_TEST(fill_of_nothing_makes_no_call)
{
	struct custody_layout layout = line_of(0);
	struct custody_array *array = make_array(context, &layout);

	fixture_forget();
	ck_ok(custody_array_fill(array, &(int32_t){ 1 }, NULL));
	ck_assert_uint_eq(fixture_calls(NULL), 0);
	destroy(array);
}
END_TEST

START_TEST(fill_of_doubles_becomes_part_of_a_graph)
{
	struct custody_stream_options options = { .size = sizeof(options), .is_nonblocking = true };
	struct custody_array *eight = make_records(8, NULL), *three = make_records(3, NULL);
	unsigned char value[40], back[8], zeros[8] = { 0 };
	const size_t last[] = { COUNT - 1 };
	struct custody_stream *stream;
	CUgraphExec exec;
	CUgraph graph;

	ck_ok(custody_array_fill(eight, zeros, NULL));
	ck_ok(custody_stream_create(context, &options, &stream));
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_ok(custody_array_fill(eight, make_value(value), stream));
	ck_is(custody_array_fill(three, value, stream), CUSTODY_E_CAPTURING);
	ck_ok(custody_stream_end_capture(stream, &graph));
	memset(value, 0xff, sizeof(value));
	ck_ok(custody_array_get(eight, last, back, NULL));
	ck_assert_mem_eq(back, zeros, 8);
	ck_cu(cuGraphInstantiate(&exec, graph, 0));
	ck_cu(cuGraphLaunch(exec, custody_stream_handle(stream)));
	ck_ok(custody_stream_synchronize(stream));
	ck_ok(custody_array_get(eight, last, back, NULL));
	ck_assert_mem_eq(back, make_value(value), 8);
	ck_cu(cuGraphExecDestroy(exec));
	ck_cu(cuGraphDestroy(graph));
	destroy(eight);
	destroy(three);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

/* ------------------------------------------------------------------ host memory alone */

START_TEST(memory_that_no_device_reaches_is_filled_by_the_host)
{
	struct custody_layout layout = line_of(6);
	int32_t memory[6] = { 0 }, values[6] = { 0 };
	struct custody_buffer *buffer;
	struct custody_array *array;
	const size_t index[] = { 2 };

	ck_ok(custody_buffer_wrap(context, memory, sizeof(memory), NULL, NULL, &buffer));
	ck_ok(custody_array_over(buffer, 0, &layout, NULL, &array));
	ck_assert_ptr_null(custody_array_device_pointer(array));
	ck_assert_ptr_eq(custody_array_host_pointer(array), memory);
	ck_ok(custody_array_fill(array, &(int32_t){ 4 }, NULL));
	ck_ok(custody_array_set(array, index, &(int32_t){ 5 }, NULL));
	ck_assert_int_eq(memory[2], 5);
	ck_assert_int_eq(memory[5], 4);
	ck_ok(custody_array_copy_to_host(array, values, NULL, NULL));
	ck_assert_int_eq(values[2], 5);
	values[0] = 11;
	ck_ok(custody_array_copy_from_host(array, values, NULL, NULL));
	ck_assert_int_eq(memory[0], 11);
	destroy(array);
	ck_ok(custody_buffer_release(buffer));
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("array_item");
	TCase *tests = add_case(suite, "one", begin);

	tcase_add_test(tests, element_is_read_by_its_index_on_each_axis);
	tcase_add_test(tests, element_of_a_backward_view_is_read_from_its_end);
	tcase_add_test(tests, element_that_is_not_there_is_refused);
	tcase_add_test(tests, element_of_no_axes_needs_no_index);
	tcase_add_loop_test(tests, element_of_any_size_is_set_and_its_neighbours_are_not, 0, SIZES);
	tcase_add_loop_test(tests, value_that_was_set_on_a_stream_may_be_changed_at_once, 0, SIZES);
	tcase_add_test(tests, field_that_is_not_aligned_is_set_whole);
	tests = add_case(suite, "all", begin);
	tcase_add_loop_test(tests, fill_repeats_a_value_of_any_size_to_the_last_element, 0, SIZES);
	tcase_add_test(tests, fill_of_words_is_one_memset);
	tcase_add_test(tests, fill_of_a_part_leaves_the_rest);
	tcase_add_test(tests, fill_of_nothing_makes_no_call);
	tcase_add_test(tests, fill_of_doubles_becomes_part_of_a_graph);
	tcase_add_test(tests, memory_that_no_device_reaches_is_filled_by_the_host);
	return suite;
}
