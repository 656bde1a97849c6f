/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between buffers, with host memory, and fills. */
#include "fixture.h"

static struct custody_resource *device_of(struct custody_context *context)
{
	struct custody_resource *resource = NULL;

	ck_ok(custody_resource_device(context, &resource));
	return resource;
}

static struct custody_buffer *make(struct custody_resource *resource, size_t bytes)
{
	struct custody_buffer *buffer = NULL;

	ck_ok(custody_buffer_create(resource, bytes, NULL, &buffer));
	return buffer;
}

static void check_bytes(struct custody_buffer *buffer, unsigned char value)
{
	size_t bytes = custody_buffer_bytes(buffer);
	unsigned char *host = malloc(bytes);

	ck_ok(custody_buffer_read(buffer, 0, host, bytes, NULL));
	for (size_t i = 0; i < bytes; i++)
		ck_assert_int_eq(host[i], value);
	free(host);
}

/* ------------------------------------------------------------ between buffers */

static void check_pair(struct custody_resource *from, struct custody_resource *to)
{
	struct custody_buffer *source = make(from, 4 * KIB), *target = make(to, 4 * KIB);

	ck_ok(custody_buffer_fill(source, "\x5a", 1, NULL));
	ck_ok(custody_buffer_fill(target, "\x11", 1, NULL));
	ck_ok(custody_buffer_copy_to(source, &target, NULL));
	check_bytes(target, 0x5a);
	ck_ok(custody_buffer_fill(target, "\x33", 1, NULL));
	ck_ok(custody_buffer_copy_from(source, target, NULL));
	check_bytes(source, 0x33);
	ck_ok(custody_buffer_release(source));
	ck_ok(custody_buffer_release(target));
}

START_TEST(bytes_go_between_all_kinds_of_memory)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resources[5];

	resources[0] = device_of(context);
	ck_ok(custody_resource_pool(context, NULL, &resources[1]));
	ck_ok(custody_resource_pinned(context, CUSTODY_HOST_MAPPED, &resources[2]));
	ck_ok(custody_resource_managed(context, true, &resources[3]));
	ck_ok(custody_resource_pinned(context, 0, &resources[4]));
	for (int from = 0; from < 5; from++)
		for (int to = 0; to < 5; to++)
			check_pair(resources[from], resources[to]);
}
END_TEST

START_TEST(bytes_go_between_devices_that_reach_each_other)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	check_pair(device_of(fixture_context(0)), device_of(fixture_context(1)));
}
END_TEST

START_TEST(bytes_go_between_devices_that_do_not_reach_each_other)
{
	struct custody_resource *pool;

	setenv("SIMCUDA_DEVICES", "2", 1);
	setenv("SIMCUDA_PEER", "0", 1);
	check_pair(device_of(fixture_context(0)), device_of(fixture_context(1)));
	ck_ok(custody_resource_pool(fixture_context(1), NULL, &pool));
	check_pair(device_of(fixture_context(0)), pool);
}
END_TEST

START_TEST(a_copy_without_a_target_is_a_buffer_of_the_same_resource)
{
	struct custody_resource *resource = device_of(fixture_context(0));
	struct custody_buffer *source = make(resource, KIB), *copy = NULL, *none = NULL, *foreign;

	ck_ok(custody_buffer_fill(source, "q", 1, NULL));
	ck_ok(custody_buffer_copy_to(source, &copy, NULL));
	ck_assert_ptr_eq(custody_buffer_resource(copy), resource);
	ck_assert_ptr_ne(custody_buffer_pointer(copy), custody_buffer_pointer(source));
	check_bytes(copy, 'q');
	ck_ok(custody_buffer_wrap(fixture_context(0), custody_buffer_pointer(source), KIB, NULL,
				  NULL, &foreign));
	ck_is(custody_buffer_copy_to(foreign, &none, NULL), CUSTODY_E_INVALID);
	ck_assert_ptr_null(none);
}
END_TEST

START_TEST(sizes_that_differ_are_refused)
{
	struct custody_resource *resource = device_of(fixture_context(0));
	struct custody_buffer *one = make(resource, KIB), *other = make(resource, KIB + 1);

	ck_is(custody_buffer_copy_to(one, &other, NULL), CUSTODY_E_MISMATCH);
	ck_is(custody_buffer_copy_from(one, other, NULL), CUSTODY_E_MISMATCH);
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), "1025"));
	ck_is(custody_buffer_copy_to(NULL, &other, NULL), CUSTODY_E_INVALID);
	ck_is(custody_buffer_copy_to(one, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_buffer_copy_from(one, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_buffer_copy_from(NULL, one, NULL), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(a_stream_of_neither_context_is_refused)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	struct custody_resource *resource = device_of(fixture_context(0));
	struct custody_buffer *one = make(resource, KIB), *other = make(resource, KIB);
	struct custody_stream *strange;

	ck_ok(custody_stream_create(fixture_context(1), NULL, &strange));
	ck_is(custody_buffer_copy_to(one, &other, strange), CUSTODY_E_MISMATCH);
}
END_TEST

START_TEST(with_a_stream_a_copy_is_not_waited_for)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = device_of(context);
	struct custody_buffer *source = make(resource, KIB), *target = make(resource, KIB);
	struct custody_stream *stream;
	bool is_done = true;

	ck_ok(custody_stream_create(context, NULL, &stream));
	ck_ok(custody_buffer_fill(source, "s", 1, NULL));
	ck_ok(custody_context_push(context));
	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_buffer_copy_to(source, &target, stream));
	ck_ok(custody_stream_query(stream, &is_done));
	ck_assert(!is_done);
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
	check_bytes(target, 's');
}
END_TEST

/* A copy in a new thread had no current context. */
START_TEST(copies_need_no_current_context_and_leave_it_alone)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = device_of(context);
	struct custody_buffer *buffer = make(resource, KIB);
	CUcontext current = NULL;

	ck_cu(cuCtxSetCurrent(NULL));
	ck_ok(custody_buffer_fill(buffer, "t", 1, NULL));
	check_bytes(buffer, 't');
	ck_cu(cuCtxGetCurrent(&current));
	ck_assert_ptr_null(current);
}
END_TEST

/* ------------------------------------------------------------ with host memory */

START_TEST(a_part_of_a_buffer_is_written_and_read)
{
	struct custody_buffer *buffer = make(device_of(fixture_context(0)), 64);
	char bytes[64];

	ck_ok(custody_buffer_fill(buffer, ".", 1, NULL));
	ck_ok(custody_buffer_write(buffer, 10, "hello", 5, NULL));
	ck_ok(custody_buffer_read(buffer, 8, bytes, 9, NULL));
	ck_assert_int_eq(memcmp(bytes, "..hello..", 9), 0);
	ck_ok(custody_buffer_write(buffer, 64, NULL, 0, NULL));
	ck_is(custody_buffer_write(buffer, 60, "hello", 5, NULL), CUSTODY_E_BOUNDS);
	ck_is(custody_buffer_read(buffer, SIZE_MAX, bytes, 2, NULL), CUSTODY_E_BOUNDS);
	ck_is(custody_buffer_read(buffer, 0, bytes, SIZE_MAX, NULL), CUSTODY_E_BOUNDS);
	ck_is(custody_buffer_write(buffer, 0, NULL, 1, NULL), CUSTODY_E_INVALID);
	ck_is(custody_buffer_read(NULL, 0, bytes, 1, NULL), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(pinned_and_managed_memory_is_written_and_read)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pinned, *managed;
	struct custody_buffer *buffers[2];
	char bytes[5];

	ck_ok(custody_resource_pinned(context, 0, &pinned));
	ck_ok(custody_resource_managed(context, true, &managed));
	buffers[0] = make(pinned, 64);
	buffers[1] = make(managed, 64);
	for (int i = 0; i < 2; i++) {
		ck_ok(custody_buffer_write(buffers[i], 3, "hello", 5, NULL));
		ck_ok(custody_buffer_read(buffers[i], 3, bytes, 5, NULL));
		ck_assert_int_eq(memcmp(bytes, "hello", 5), 0);
	}
}
END_TEST

static void CUDA_CB take_a_while(void *argument)
{
	(void)argument;
	usleep(100000);
}

START_TEST(memory_that_is_pinned_stays_so_for_copies_of_other_devices)
{
	static char bytes[KIB];
	const struct custody_range range = { bytes, sizeof(bytes) };
	struct custody_context *home, *other;
	struct custody_buffer *buffer;
	struct custody_stream *stream;
	struct custody_pin *pin;
	bool is_done = false;

	setenv("SIMCUDA_DEVICES", "2", 1);
	home = fixture_context(0);
	other = fixture_context(1);
	buffer = make(device_of(other), KIB);
	ck_ok(custody_stream_create(other, NULL, &stream));
	ck_ok(custody_pin_begin(home, &range, 1, CUSTODY_HOST_PORTABLE, &pin));
	ck_ok(custody_context_push(other));
	ck_cu(cuLaunchHostFunc(custody_stream_handle(stream), take_a_while, NULL));
	ck_ok(custody_context_pop(other));
	ck_ok(custody_buffer_write(buffer, 0, bytes, KIB, stream));
	ck_ok(custody_pin_end(pin));
	ck_ok(custody_stream_query(stream, &is_done));
	ck_assert(is_done);
}
END_TEST

/* ------------------------------------------------------------ fills */

START_TEST(a_buffer_is_filled_with_1_2_or_4_bytes)
{
	struct custody_buffer *buffer = make(device_of(fixture_context(0)), 16);
	const uint16_t middle = 0x1234;
	const uint32_t wide = 0x89abcdef;
	uint16_t middles[8];
	uint32_t wides[4];

	ck_ok(custody_buffer_fill(buffer, "\xff", 1, NULL));
	check_bytes(buffer, 0xff);
	ck_ok(custody_buffer_fill(buffer, &middle, 2, NULL));
	ck_ok(custody_buffer_read(buffer, 0, middles, 16, NULL));
	for (int i = 0; i < 8; i++)
		ck_assert_uint_eq(middles[i], middle);
	ck_ok(custody_buffer_fill(buffer, &wide, 4, NULL));
	ck_ok(custody_buffer_read(buffer, 0, wides, 16, NULL));
	for (int i = 0; i < 4; i++)
		ck_assert_uint_eq(wides[i], wide);
}
END_TEST

START_TEST(a_value_that_does_not_fit_is_refused)
{
	struct custody_resource *resource = device_of(fixture_context(0));
	struct custody_buffer *odd = make(resource, 7), *even = make(resource, 16), *shifted;
	const uint64_t value = 1;

	ck_is(custody_buffer_fill(odd, &value, 2, NULL), CUSTODY_E_INVALID);
	ck_is(custody_buffer_fill(odd, &value, 4, NULL), CUSTODY_E_INVALID);
	ck_ok(custody_buffer_fill(odd, &value, 1, NULL));
	ck_is(custody_buffer_fill(even, &value, 8, NULL), CUSTODY_E_INVALID);
	ck_is(custody_buffer_fill(even, &value, 3, NULL), CUSTODY_E_INVALID);
	ck_is(custody_buffer_fill(even, &value, 0, NULL), CUSTODY_E_INVALID);
	ck_is(custody_buffer_fill(even, NULL, 1, NULL), CUSTODY_E_INVALID);
	ck_is(custody_buffer_fill(NULL, &value, 1, NULL), CUSTODY_E_INVALID);
	ck_ok(custody_buffer_slice(even, 1, 8, &shifted));
	ck_is(custody_buffer_fill(shifted, &value, 4, NULL), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(what_the_device_does_not_fill_the_host_fills)
{
	struct custody_resource *managed;
	struct custody_buffer *buffer;
	const uint32_t wide = 0x01020304;
	uint32_t *words;
	struct custody_buffer_info info = { .size = sizeof(info) };

	setenv("SIMCUDA_FAIL", "cuMemsetD32Async:*:1", 1);
	ck_ok(custody_resource_managed(fixture_context(0), true, &managed));
	buffer = make(managed, 16);
	ck_ok(custody_buffer_fill(buffer, &wide, 4, NULL));
	ck_ok(custody_buffer_info(buffer, &info));
	words = info.host_pointer;
	ck_assert_uint_eq(words[0], wide);
	ck_assert_uint_eq(words[3], wide);
	buffer = make(device_of(fixture_context(0)), 16);
	ck_is(custody_buffer_fill(buffer, &wide, 4, NULL), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(memory_of_the_host_alone_is_filled_and_not_in_a_graph)
{
	const struct custody_stream_options options = { .size = sizeof(options),
							.is_nonblocking = true };
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream;
	struct custody_buffer *buffer;
	CUgraph graph;
	char bytes[16] = "";

	ck_ok(custody_stream_create(context, &options, &stream));
	ck_ok(custody_buffer_wrap(context, bytes, sizeof(bytes), NULL, NULL, &buffer));
	ck_ok(custody_buffer_fill(buffer, "h", 1, stream));
	ck_assert_int_eq(bytes[15], 'h');
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_is(custody_buffer_fill(buffer, "i", 1, stream), CUSTODY_E_CAPTURING);
	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_assert_int_eq(bytes[15], 'h');
	ck_cu(cuGraphDestroy(graph));
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("buffer copy");
	TCase *copies = tcase_create("copies"), *fills = tcase_create("fills");

	tcase_add_test(copies, bytes_go_between_all_kinds_of_memory);
	tcase_add_test(copies, bytes_go_between_devices_that_reach_each_other);
	tcase_add_test(copies, bytes_go_between_devices_that_do_not_reach_each_other);
	tcase_add_test(copies, a_copy_without_a_target_is_a_buffer_of_the_same_resource);
	tcase_add_test(copies, sizes_that_differ_are_refused);
	tcase_add_test(copies, a_stream_of_neither_context_is_refused);
	tcase_add_test(copies, with_a_stream_a_copy_is_not_waited_for);
	tcase_add_test(copies, copies_need_no_current_context_and_leave_it_alone);
	tcase_add_test(copies, a_part_of_a_buffer_is_written_and_read);
	tcase_add_test(copies, pinned_and_managed_memory_is_written_and_read);
	tcase_add_test(copies, memory_that_is_pinned_stays_so_for_copies_of_other_devices);
	tcase_add_test(fills, a_buffer_is_filled_with_1_2_or_4_bytes);
	tcase_add_test(fills, a_value_that_does_not_fit_is_refused);
	tcase_add_test(fills, what_the_device_does_not_fill_the_host_fills);
	tcase_add_test(fills, memory_of_the_host_alone_is_filled_and_not_in_a_graph);
	suite_add_tcase(suite, copies);
	suite_add_tcase(suite, fills);
	return suite;
}
