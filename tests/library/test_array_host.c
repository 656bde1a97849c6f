/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned, mapped and managed arrays: flags, pointers, and how they are freed. */
#include "arrays.h"

static struct custody_context *context;

static void begin(void)
{
	fixture_watch();
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
	fixture_forget();
}

static unsigned int flags_of(const struct custody_array *array)
{
	unsigned int flags = 0;

	ck_cu(cuMemHostGetFlags(&flags, custody_array_host_pointer(array)));
	return flags;
}

static struct custody_array *make_pinned(unsigned int flags)
{
	struct custody_layout layout = table_of(3, 4);
	struct custody_array *array = NULL;

	ck_ok(custody_array_create_pinned(context, &layout, flags, &array));
	return array;
}

START_TEST(pinned_array_is_page_locked_host_memory)
{
	struct custody_array *array = make_pinned(0);
	int32_t *values = custody_array_host_pointer(array);
	struct custody_buffer_info info = { .size = sizeof(info) };

	for (int i = 0; i < 12; i++)
		values[i] = i;
	ck_ok(custody_buffer_info(custody_array_buffer(array), &info));
	ck_assert(info.is_host_accessible);
	ck_assert_uint_eq(info.bytes, 48);
	ck_assert_uint_eq(fixture_calls("cuMemHostAlloc"), 1);
	ck_assert_uint_eq(flags_of(array) & CU_MEMHOSTALLOC_WRITECOMBINED, 0);
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(fixture_calls("cuMemFreeHost"), 0);
	ck_assert_uint_eq(fixture_pending_bytes(context), 48);
}
END_TEST

static const struct {
	unsigned int asked, given;
} flags[] = {
	{ CUSTODY_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP },
	{ CUSTODY_HOST_MAPPED | CUSTODY_HOST_PORTABLE,
	  CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE },
	{ CUSTODY_HOST_MAPPED | CUSTODY_HOST_WRITE_COMBINED,
	  CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED },
};

START_TEST(portable_and_write_combined_were_ignored)
{
	struct custody_array *array = make_pinned(flags[_i].asked);

	ck_assert_uint_eq(flags_of(array), flags[_i].given);
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(mapped_array_has_an_address_for_the_host_and_one_for_the_device)
{
	struct custody_array *array = make_pinned(CUSTODY_HOST_MAPPED);
	int32_t *values = custody_array_host_pointer(array);
	CUdeviceptr address = (CUdeviceptr)custody_array_device_pointer(array);

	ck_assert_ptr_nonnull(values);
	ck_assert(address != 0);
	ck_cu(cuMemsetD32(address, 7, 12));
	ck_assert_int_eq(values[11], 7);
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(view_of_a_mapped_array_has_both_addresses_too)
{
	struct custody_array *array = make_pinned(CUSTODY_HOST_MAPPED), *view;

	ck_ok(custody_array_index(array, 0, 1, &view));
	ck_assert_ptr_eq(custody_array_host_pointer(view),
			 (char *)custody_array_host_pointer(array) + 16);
	ck_assert_ptr_eq(custody_array_device_pointer(view),
			 (char *)custody_array_device_pointer(array) + 16);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(host_arrays_have_the_methods_of_device_arrays)
{
	struct custody_array *pinned = make_pinned(0), *device, *line;
	struct custody_layout layout = table_of(3, 4);
	int32_t back[12];

	device = make_array(context, &layout);
	ck_ok(custody_array_fill(pinned, &(int32_t){ 3 }, NULL));
	ck_ok(custody_array_copy(device, pinned, NULL));
	ck_assert_int_eq(peek(device, 44), 3);
	ck_ok(custody_array_fill(device, &(int32_t){ 4 }, NULL));
	ck_ok(custody_array_copy(pinned, device, NULL));
	ck_assert_int_eq(((int32_t *)custody_array_host_pointer(pinned))[11], 4);
	ck_ok(custody_array_ravel(pinned, CUSTODY_ORDER_C, &line));
	ck_ok(custody_array_copy_to_host(pinned, back, NULL, NULL));
	ck_assert_int_eq(back[5], 4);
	ck_ok(custody_array_destroy(line));
	ck_ok(custody_array_destroy(device));
	ck_ok(custody_array_destroy(pinned));
}
END_TEST

START_TEST(flags_of_registrations_are_not_for_arrays)
{
	struct custody_layout layout = table_of(3, 4);
	struct custody_array *array;

	ck_is(custody_array_create_pinned(context, &layout, CUSTODY_HOST_READ_ONLY, &array),
	      CUSTODY_E_INVALID);
	ck_is(custody_array_create_pinned(context, &layout, 1u << 20, &array), CUSTODY_E_INVALID);
	ck_is(custody_array_create_pinned(NULL, &layout, 0, &array), CUSTODY_E_INVALID);
	ck_is(custody_array_create_pinned(context, NULL, 0, &array), CUSTODY_E_INVALID);
	ck_is(custody_array_create_managed(context, &layout, true, NULL, NULL), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(managed_array_is_one_address_for_all)
{
	struct custody_layout layout = table_of(3, 4);
	struct custody_buffer_info info = { .size = sizeof(info) };
	struct custody_stream *stream = make_stream(context);
	struct custody_array *array = NULL;
	int32_t *values;

	ck_ok(custody_array_create_managed(context, &layout, _i == 0, stream, &array));
	ck_assert_ptr_eq(custody_array_stream(array), stream);
	values = custody_array_host_pointer(array);
	ck_assert_ptr_eq(values, custody_array_device_pointer(array));
	ck_ok(custody_buffer_info(custody_array_buffer(array), &info));
	ck_assert(info.is_managed);
	values[0] = 5;
	ck_assert_int_eq(peek(array, 0), 5);
	ck_assert_uint_eq(fixture_calls("cuMemAllocManaged"), 1);
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(fixture_pending_bytes(context), 48);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(host_arrays_of_no_elements_have_no_memory)
{
	struct custody_layout layout = table_of(3, 0);
	struct custody_array *array = NULL;

	ck_ok(custody_array_create_pinned(context, &layout, CUSTODY_HOST_MAPPED, &array));
	ck_assert_ptr_null(custody_array_host_pointer(array));
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_array_create_managed(context, &layout, true, NULL, &array));
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(fixture_calls("cuMemHostAlloc") + fixture_calls("cuMemAllocManaged"), 0);
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("array_host");
	TCase *tests = add_case(suite, "host", begin);

	tcase_add_test(tests, pinned_array_is_page_locked_host_memory);
	tcase_add_loop_test(tests, portable_and_write_combined_were_ignored, 0, 3);
	tcase_add_test(tests, mapped_array_has_an_address_for_the_host_and_one_for_the_device);
	tcase_add_test(tests, view_of_a_mapped_array_has_both_addresses_too);
	tcase_add_test(tests, host_arrays_have_the_methods_of_device_arrays);
	tcase_add_test(tests, flags_of_registrations_are_not_for_arrays);
	tcase_add_loop_test(tests, managed_array_is_one_address_for_all, 0, 2);
	tcase_add_test(tests, host_arrays_of_no_elements_have_no_memory);
	return suite;
}
