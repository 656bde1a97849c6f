/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA array interface both ways, and the rule of its stream. */
#include "arrays.h"

static struct custody_context *context;

static void begin(void)
{
	fixture_watch();
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
	fixture_forget();
}

static struct custody_cai show(struct custody_array *array)
{
	struct custody_cai cai = { .size = sizeof(cai) };

	ck_ok(custody_array_to_cai(array, &cai));
	return cai;
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address = 0;

	ck_cu(cuMemAlloc(&address, bytes));
	ck_cu(cuMemsetD8(address, 0, bytes));
	return address;
}

/* Six rows of four int32 at an address. */
static struct custody_cai describe(CUdeviceptr address)
{
	return (struct custody_cai){ .size = sizeof(struct custody_cai), .version = 3, .ndim = 2,
				     .shape = { 6, 4 }, .typestr = "<i4", .data = address,
				     .stream = CUSTODY_CAI_NO_STREAM };
}

static unsigned int released;
static void *released_owner;

static void release(void *owner)
{
	released++;
	released_owner = owner;
}

static int take_with(const struct custody_cai *cai, enum custody_sync sync,
		     struct custody_stream *stream, struct custody_array **array)
{
	return custody_array_from_cai(context, cai, sync, stream, release, &released, array);
}

static int take(const struct custody_cai *cai, struct custody_array **array)
{
	return take_with(cai, CUSTODY_SYNC_NONE, NULL, array);
}

/* ------------------------------------------------------------------ out */

START_TEST(array_describes_itself_by_version_three)
{
	struct custody_array *array = make_counting(context, 24), *table;
	const size_t shape[] = { 4, 6 };
	struct custody_cai cai;

	ck_ok(custody_array_reshape(array, 2, shape, CUSTODY_ORDER_C, &table));
	cai = show(table);
	ck_assert_int_eq(cai.version, 3);
	ck_assert_int_eq(cai.ndim, 2);
	ck_assert_uint_eq(cai.shape[1], 6);
	ck_assert(!cai.has_strides);
	ck_assert_str_eq(cai.typestr, "<i4");
	ck_assert(cai.data == (uint64_t)(uintptr_t)custody_array_pointer(array));
	ck_assert(!cai.is_read_only && !cai.has_mask);
	ck_assert_int_eq(cai.stream, CUSTODY_CAI_NO_STREAM);
	ck_ok(custody_array_destroy(table));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(strides_are_left_out_only_where_c_order_is_the_truth)
{
	struct custody_layout layout = table_of(3, 4);
	struct custody_array *array;

	layout.has_strides = true;
	layout.strides[0] = 0;
	layout.strides[1] = 4;
	array = make_array(context, &layout);
	ck_assert(show(array).has_strides); /* a repeat is no C order, whatever others say */
	ck_assert_int_eq(show(array).strides[0], 0);
	ck_ok(custody_array_destroy(array));
	layout.has_strides = false;
	layout.order = CUSTODY_ORDER_F;
	array = make_array(context, &layout);
	ck_assert(show(array).has_strides);
	ck_assert_int_eq(show(array).strides[1], 12);
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(array_of_no_elements_is_at_address_zero)
{
	struct custody_layout layout = table_of(0, 4);
	struct custody_array *array = make_array(context, &layout);

	ck_assert(show(array).data == 0);
	ck_ok(custody_array_destroy(array));
}
END_TEST

static const struct {
	struct custody_type type;
	const char *text;
} types[] = {
	{ { CUSTODY_TYPE_BOOL, 1 }, "|b1" },	 { { CUSTODY_TYPE_INT, 1 }, "|i1" },
	{ { CUSTODY_TYPE_UINT, 8 }, "<u8" },	 { { CUSTODY_TYPE_FLOAT, 2 }, "<f2" },
	{ { CUSTODY_TYPE_COMPLEX, 16 }, "<c16" }, { { CUSTODY_TYPE_RECORD, 7 }, "|V7" },
	{ { CUSTODY_TYPE_RECORD, 4000000000u }, "|V4000000000" },
};

START_TEST(types_are_written_and_read_as_numpy_does)
{
	struct custody_cai cai = describe(0);
	struct custody_layout layout = table_of(0, 3);
	struct custody_array *array, *back;

	layout.type = types[_i].type;
	array = make_array(context, &layout);
	ck_assert_str_eq(show(array).typestr, types[_i].text);
	cai.shape[0] = 0;
	strcpy(cai.typestr, types[_i].text);
	ck_ok(take(&cai, &back));
	ck_assert_int_eq(layout_of(back).type.kind, types[_i].type.kind);
	ck_assert_uint_eq(layout_of(back).type.item_bytes, types[_i].type.item_bytes);
	ck_ok(custody_array_destroy(back));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(bfloat_is_written_as_two_bytes)
{
	struct custody_layout layout = table_of(0, 3);
	struct custody_array *array;

	layout.type = (struct custody_type){ CUSTODY_TYPE_BFLOAT, 2 };
	array = make_array(context, &layout);
	ck_assert_str_eq(show(array).typestr, "<V2");
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(stream_is_one_for_legacy_two_for_per_thread_else_its_handle)
{
	struct custody_array *array = make_counting(context, 4), *bound;
	struct custody_stream *streams[3];
	int64_t wanted[] = { 1, 2, 0 };

	ck_ok(custody_stream_legacy(context, &streams[0]));
	ck_ok(custody_stream_per_thread(context, &streams[1]));
	streams[2] = make_stream(context);
	wanted[2] = (int64_t)(intptr_t)custody_stream_handle(streams[2]);
	for (int i = 0; i < 3; i++) {
		ck_ok(custody_array_bind(array, streams[i], &bound));
		ck_assert_int_eq(show(bound).stream, wanted[i]);
		ck_ok(custody_array_destroy(bound));
	}
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_stream_destroy(streams[2]));
}
END_TEST

START_TEST(memory_that_no_device_reaches_cannot_be_shown)
{
	int32_t memory[4];
	struct custody_layout layout = line_of(4);
	struct custody_cai cai = { .size = sizeof(cai) };
	struct custody_buffer *buffer;
	struct custody_array *array;

	ck_ok(custody_buffer_wrap(context, memory, sizeof(memory), NULL, NULL, &buffer));
	ck_ok(custody_array_over(buffer, 0, &layout, NULL, &array));
	ck_is(custody_array_to_cai(array, &cai), CUSTODY_E_UNSUPPORTED);
	ck_is(custody_array_to_cai(NULL, &cai), CUSTODY_E_INVALID);
	ck_is(custody_array_to_cai(array, NULL), CUSTODY_E_UNSUPPORTED);
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_buffer_release(buffer));
}
END_TEST

/* ------------------------------------------------------------------ in */

START_TEST(exporter_keeps_his_memory_until_he_hears_of_it)
{
	CUdeviceptr address = allocate(96);
	struct custody_cai cai = describe(address);
	struct custody_array *array, *view;
	const size_t index[] = { 5, 3 };
	int32_t value = 7;

	ck_ok(take(&cai, &array));
	ck_ok(custody_array_set(array, index, &value, NULL));
	ck_assert_int_eq(peek(array, 92), 7);
	ck_assert_ptr_null(custody_array_stream(array));
	ck_ok(custody_array_slice(array, 0, 0, 2, 1, &view));
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(released, 0);
	ck_ok(custody_array_destroy(view));
	ck_assert_uint_eq(released, 1);
	ck_assert_ptr_eq(released_owner, &released);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(strides_and_backward_steps_are_taken_over)
{
	CUdeviceptr address = allocate(96);
	struct custody_cai cai = describe(address + 80);
	struct custody_array *array;

	cai.has_strides = true;
	cai.strides[0] = -16;
	cai.strides[1] = 4;
	ck_ok(take(&cai, &array));
	ck_assert(custody_array_pointer(array) == (void *)(address + 80));
	ck_assert(custody_buffer_pointer(custody_array_buffer(array)) == (void *)address);
	ck_ok(custody_array_destroy(array));
	cai.data = address; /* below it is nothing of his */
	ck_is(take(&cai, &array), CUSTODY_E_INVALID);
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(read_only_memory_is_not_written)
{
	CUdeviceptr address = allocate(96);
	struct custody_cai cai = describe(address);
	struct custody_array *array;

	cai.is_read_only = true;
	ck_ok(take(&cai, &array));
	ck_is(custody_array_fill(array, &(int32_t){ 1 }, NULL), CUSTODY_E_INVALID);
	ck_assert(show(array).is_read_only);
	ck_ok(custody_array_destroy(array));
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(mask_is_not_supported_from_version_one_on)
{
	CUdeviceptr address = allocate(96);
	struct custody_cai cai = describe(address);
	struct custody_array *array;

	cai.has_mask = true;
	ck_is(take(&cai, &array), CUSTODY_E_UNSUPPORTED);
	cai.version = 1;
	ck_is(take(&cai, &array), CUSTODY_E_UNSUPPORTED);
	cai.version = 0;
	ck_ok(take(&cai, &array));
	ck_ok(custody_array_destroy(array));
	ck_cu(cuMemFree(address));
}
END_TEST

/* Each spoils a description in one way. */
static void spoil(struct custody_cai *cai, int how)
{
	switch (how) {
	case 0: cai->stream = 0; break;
	case 1: cai->stream = -2; break;
	case 2: cai->data = 0; break;
	case 3: cai->data = (uint64_t)(uintptr_t)cai; break;
	case 4: cai->shape[0] = 1 << 20; break;
	case 5: strcpy(cai->typestr, "i4"); break;
	case 6: strcpy(cai->typestr, "<i"); break;
	case 7: strcpy(cai->typestr, "<i4x"); break;
	case 8: memset(cai->typestr, '1', sizeof(cai->typestr)); break;
	case 9: cai->typestr[0] = '\0'; break;
	case 10: cai->ndim = 9; break;
	case 11: cai->version = -1; break;
	case 12: cai->size = 4; break;
	case 13: strcpy(cai->typestr, ">i4"); break;
	case 14: strcpy(cai->typestr, "|O8"); break;
	case 15: strcpy(cai->typestr, "<i3"); break;
	case 16: strcpy(cai->typestr, "<B2"); break;
	case 17: strcpy(cai->typestr, "<i9999999999"); break;
	}
}

START_TEST(description_that_is_no_good_is_refused_and_the_owner_not_released)
{
	CUdeviceptr address = allocate(96);
	struct custody_cai cai = describe(address);
	struct custody_array *array = NULL;

	spoil(&cai, _i);
	ck_is(take(&cai, &array), _i >= 13 && _i < 17 ? CUSTODY_E_UNSUPPORTED : CUSTODY_E_INVALID);
	ck_assert_ptr_null(array);
	ck_assert_uint_eq(released, 0);
	ck_assert(!custody_cai_check(&cai));
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(check_says_whether_there_is_memory)
{
	CUdeviceptr address = allocate(96);
	struct custody_cai cai = describe(address);

	ck_assert(custody_cai_check(&cai));
	ck_assert(!custody_cai_check(NULL));
	ck_cu(cuMemFree(address));
	ck_assert(!custody_cai_check(&cai));
	cai.shape[0] = 0;
	ck_assert(custody_cai_check(&cai));
}
END_TEST

/* ------------------------------------------------------------------ the stream */

START_TEST(array_is_bound_to_the_exporters_stream_if_there_is_one)
{
	CUdeviceptr address = allocate(96);
	struct custody_stream *stream = make_stream(context);
	struct custody_cai cai = describe(address);
	struct custody_array *array, *view;
	CUstream handle;

	ck_ok(take_with(&cai, CUSTODY_SYNC_NONE, stream, &array));
	ck_assert_ptr_eq(custody_array_stream(array), stream);
	ck_ok(custody_array_destroy(array));
	ck_cu(cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING));
	cai.stream = (int64_t)(intptr_t)handle;
	ck_ok(take_with(&cai, CUSTODY_SYNC_NONE, stream, &array));
	ck_ok(custody_array_index(array, 0, 1, &view));
	ck_ok(custody_array_destroy(array));
	ck_assert_ptr_eq(custody_stream_handle(custody_array_stream(view)), handle);
	ck_assert_int_eq(show(view).stream, cai.stream);
	ck_ok(custody_array_destroy(view));
	ck_cu(cuStreamDestroy(handle));
	for (cai.stream = 1; cai.stream <= 2; cai.stream++) {
		ck_ok(take_with(&cai, CUSTODY_SYNC_HOST, stream, &array));
		ck_assert_int_eq(show(array).stream, cai.stream);
		ck_ok(custody_array_destroy(array));
	}
	ck_ok(custody_stream_destroy(stream));
	ck_cu(cuMemFree(address));
}
END_TEST

static const struct {
	enum custody_sync sync;
	const char *variable; /* NULL: not set */
	unsigned int waits;
} rules[] = {
	{ CUSTODY_SYNC_HOST, NULL, 1 },	   { CUSTODY_SYNC_HOST, "1", 1 },
	{ CUSTODY_SYNC_HOST, "0", 0 },	   { CUSTODY_SYNC_HOST, "what", 1 },
	{ CUSTODY_SYNC_HOST, "", 1 },	   { CUSTODY_SYNC_STREAM, NULL, 0 },
	{ CUSTODY_SYNC_NONE, NULL, 0 },
};

START_TEST(host_waits_for_the_exporter_unless_a_variable_says_no)
{
	CUdeviceptr address = allocate(96);
	struct custody_cai cai = describe(address);
	struct custody_array *array;
	CUstream handle;

	if (rules[_i].variable)
		setenv("NUMBA_CUDA_ARRAY_INTERFACE_SYNC", rules[_i].variable, 1);
	ck_cu(cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING));
	cai.stream = (int64_t)(intptr_t)handle;
	fixture_forget();
	ck_ok(take_with(&cai, rules[_i].sync, NULL, &array));
	ck_assert_uint_eq(fixture_calls("cuStreamSynchronize"), rules[_i].waits);
	ck_ok(custody_array_destroy(array));
	ck_cu(cuStreamDestroy(handle));
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(stream_waits_for_the_exporter_by_an_event)
{
	struct custody_stream_options options = { .size = sizeof(options), .is_nonblocking = true };
	CUdeviceptr address = allocate(96);
	struct custody_cai cai = describe(address);
	struct custody_stream *stream;
	struct custody_array *array;
	CUstream handle;
	bool is_done = true;

	ck_ok(custody_stream_create(context, &options, &stream));
	ck_cu(cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING));
	cai.stream = (int64_t)(intptr_t)handle;
	fixture_hold(handle);
	ck_ok(take_with(&cai, CUSTODY_SYNC_STREAM, stream, &array));
	ck_ok(custody_stream_query(stream, &is_done));
	ck_assert(!is_done);
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
	ck_ok(custody_array_destroy(array));
	ck_cu(cuStreamDestroy(handle));
	ck_ok(custody_stream_destroy(stream));
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(nothing_to_wait_for_makes_no_wait)
{
	CUdeviceptr address = allocate(96);
	struct custody_cai cai = describe(address);
	struct custody_array *array;

	fixture_forget();
	ck_ok(take_with(&cai, CUSTODY_SYNC_HOST, NULL, &array));
	ck_assert_uint_eq(fixture_calls("cuStreamSynchronize"), 0);
	ck_ok(custody_array_destroy(array));
	ck_is(take_with(&cai, (enum custody_sync)7, NULL, &array), CUSTODY_E_INVALID);
	ck_is(custody_array_from_cai(context, NULL, CUSTODY_SYNC_NONE, NULL, NULL, NULL, &array),
	      CUSTODY_E_INVALID);
	ck_ok(custody_array_from_cai(context, &cai, CUSTODY_SYNC_NONE, NULL, NULL, NULL, &array));
	ck_ok(custody_array_destroy(array));
	ck_cu(cuMemFree(address));
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("cai");
	TCase *tests = add_case(suite, "out", begin);

	tcase_add_test(tests, array_describes_itself_by_version_three);
	tcase_add_test(tests, strides_are_left_out_only_where_c_order_is_the_truth);
	tcase_add_test(tests, array_of_no_elements_is_at_address_zero);
	tcase_add_loop_test(tests, types_are_written_and_read_as_numpy_does, 0,
			    sizeof(types) / sizeof(types[0]));
	tcase_add_test(tests, bfloat_is_written_as_two_bytes);
	tcase_add_test(tests, stream_is_one_for_legacy_two_for_per_thread_else_its_handle);
	tcase_add_test(tests, memory_that_no_device_reaches_cannot_be_shown);
	tests = add_case(suite, "in", begin);
	tcase_add_test(tests, exporter_keeps_his_memory_until_he_hears_of_it);
	tcase_add_test(tests, strides_and_backward_steps_are_taken_over);
	tcase_add_test(tests, read_only_memory_is_not_written);
	tcase_add_test(tests, mask_is_not_supported_from_version_one_on);
	tcase_add_loop_test(tests,
			    description_that_is_no_good_is_refused_and_the_owner_not_released, 0,
			    18);
	tcase_add_test(tests, check_says_whether_there_is_memory);
	tests = add_case(suite, "stream", begin);
	tcase_add_test(tests, array_is_bound_to_the_exporters_stream_if_there_is_one);
	tcase_add_loop_test(tests, host_waits_for_the_exporter_unless_a_variable_says_no, 0,
			    sizeof(rules) / sizeof(rules[0]));
	tcase_add_test(tests, stream_waits_for_the_exporter_by_an_event);
	tcase_add_test(tests, nothing_to_wait_for_makes_no_wait);
	return suite;
}
