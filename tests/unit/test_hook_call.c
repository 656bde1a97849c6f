/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real wrappers in front of a driver that does as it is told: copies,
 * contexts, captures, and what holds for every call.
 */
#include "core/tracker.h"
#include "fake_driver.h"
#include "intercept/call.h"
#include "intercept/reading.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#define STREAM ((CUstream)0x5000)

static CUresult CUDAAPI copy_in(CUdeviceptr target, const void *source, size_t bytes)
{
	(void)target;
	(void)source;
	(void)bytes;
	errno = 77;
	return fake_result;
}

START_TEST(stream_zero_means_what_its_door_says)
{
	char host[16];
	const struct record *record;

	fake_set(API_cuMemcpyHtoD_v2, copy_in);
	fake_set(API_cuMemcpyHtoD_v2_ptds, copy_in);
	cuMemcpyHtoD_v2(0x7000, host, sizeof(host));
	record = fake_look_one(RECORD_TRANSFER, API_cuMemcpyHtoD_v2);
	ck_assert_uint_eq(record->stream, STREAM_LEGACY);
	ck_assert_int_eq(record_transfer_kind(record), TRANSFER_H2D);
	ck_assert(!record_is_async(record));
	ck_assert_uint_eq(record->a, (uintptr_t)host);
	ck_assert_uint_eq(record->c, sizeof(host));
	cuMemcpyHtoD_v2_ptds(0x7000, host, sizeof(host));
	record = fake_look_one(RECORD_TRANSFER, API_cuMemcpyHtoD_v2_ptds);
	ck_assert_uint_eq(record->stream, STREAM_PER_THREAD);
}
END_TEST

START_TEST(errno_and_result_pass_unchanged)
{
	fake_set(API_cuMemcpyHtoD_v2, copy_in);
	fake_result = CUDA_ERROR_LAUNCH_FAILED;
	errno = 0;
	ck_assert_int_eq(cuMemcpyHtoD_v2(1, NULL, 1), CUDA_ERROR_LAUNCH_FAILED);
	ck_assert_int_eq(errno, 77);
	ck_assert_int_eq(fake_look_one(RECORD_TRANSFER, API_cuMemcpyHtoD_v2)->result, 719);
}
END_TEST

static CUresult CUDAAPI fill_32(CUdeviceptr target, size_t pitch, unsigned int value, size_t width,
				size_t height, CUstream stream)
{
	(void)target;
	(void)pitch;
	(void)value;
	(void)width;
	(void)height;
	(void)stream;
	return fake_result;
}

START_TEST(a_fill_counts_bytes_not_elements)
{
	const struct record *record;

	fake_set(API_cuMemsetD2D32Async, fill_32);
	cuMemsetD2D32Async(0x7000, 4096, 0xabcd, 100, 7, STREAM);
	record = fake_look_one(RECORD_TRANSFER, API_cuMemsetD2D32Async);
	ck_assert_int_eq(record_transfer_kind(record), TRANSFER_MEMSET);
	ck_assert_uint_eq(record->c, 100 * 7 * 4);
	ck_assert_uint_eq(record->a, 0xabcd);
	ck_assert_uint_eq(record->b, 0x7000);
	ck_assert_uint_eq(record->stream, (uintptr_t)STREAM);
	ck_assert(record_is_async(record));
}
END_TEST

static unsigned int pointer_type;

static CUresult CUDAAPI tell_attributes(unsigned int count, CUpointer_attribute *attributes,
					void **values, CUdeviceptr address)
{
	(void)address;
	for (unsigned int i = 0; i < count; i++) {
		ck_assert_int_ne(attributes[i], CU_POINTER_ATTRIBUTE_P2P_TOKENS);
		if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
			*(unsigned int *)values[i] = pointer_type;
		if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
			*(unsigned int *)values[i] = 0;
		if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)values[i] = pointer_type ? 3 : -2;
	}
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI copy_any(CUdeviceptr target, CUdeviceptr source, size_t bytes)
{
	(void)target;
	(void)source;
	(void)bytes;
	return fake_result;
}

static enum transfer_kind kind_of_copy(CUdeviceptr target, CUdeviceptr source)
{
	cuMemcpy(target, source, 8);
	return record_transfer_kind(fake_look_one(RECORD_TRANSFER, API_cuMemcpy));
}

START_TEST(a_direction_comes_from_blocks_then_from_the_driver)
{
	fake_set(API_cuMemcpy, copy_any);
	fake_allocate(0x7000, 4096);
	fake_allocate(0x9000, 4096);
	ck_assert_int_eq(kind_of_copy(0x7100, 0x9100), TRANSFER_D2D);
	ck_assert_int_eq(kind_of_copy(0x7100, 0x100), TRANSFER_UNKNOWN);
	fake_set(API_cuPointerGetAttributes, tell_attributes);
	pointer_type = 0;
	ck_assert_int_eq(kind_of_copy(0x7100, 0x100), TRANSFER_H2D);
	ck_assert_int_eq(kind_of_copy(0x100, 0x7100), TRANSFER_D2H);
	ck_assert_int_eq(kind_of_copy(0x100, 0x200), TRANSFER_H2H);
	pointer_type = CU_MEMORYTYPE_DEVICE;
	ck_assert_int_eq(kind_of_copy(0x100, 0x7100), TRANSFER_P2P);
}
END_TEST

static CUresult CUDAAPI copy_batch(CUdeviceptr *targets, CUdeviceptr *sources, size_t *bytes,
				   size_t count, CUmemcpyAttributes *attributes, size_t *indexes,
				   size_t attribute_count, CUstream stream)
{
	(void)targets;
	(void)sources;
	(void)bytes;
	(void)count;
	(void)attributes;
	(void)indexes;
	(void)attribute_count;
	(void)stream;
	return fake_result;
}

START_TEST(a_batch_is_one_call_and_many_transfers)
{
	CUdeviceptr targets[] = { 0x7000, 0x7100, 0x7200 }, sources[] = { 1, 2, 3 };
	size_t bytes[] = { 10, 20, 30 };
	const struct fake_look *look;

	fake_set(API_cuMemcpyBatchAsync_v2, copy_batch);
	fake_set(API_cuPointerGetAttributes, tell_attributes);
	cuMemcpyBatchAsync_v2(targets, sources, bytes, 3, NULL, NULL, 0, STREAM);
	look = fake_look();
	ck_assert_uint_eq(look->count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_int_eq(look->record[i].kind, RECORD_TRANSFER);
		ck_assert_uint_eq(look->record[i].c, bytes[i]);
		ck_assert_int_eq(!!(look->record[i].flags & RECORD_MORE), i > 0);
	}
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuMemcpyBatchAsync_v2(targets, sources, bytes, 3, NULL, NULL, 0, STREAM);
	fake_look_one(RECORD_TRANSFER, API_cuMemcpyBatchAsync_v2);
}
END_TEST

static CUresult CUDAAPI copy_3d_batch(size_t count, CUDA_MEMCPY3D_BATCH_OP *list,
				      unsigned long long flags, CUstream stream)
{
	(void)count;
	(void)list;
	(void)flags;
	(void)stream;
	return fake_result;
}

static void expect_failed_batch(CUdeviceptr *sources, size_t *bytes, size_t count)
{
	CUdeviceptr targets[] = { 0x7000 };

	cuMemcpyBatchAsync_v2(targets, sources, bytes, count, NULL, NULL, 0, STREAM);
	ck_assert_int_eq(fake_look_one(RECORD_TRANSFER, API_cuMemcpyBatchAsync_v2)->result,
			 CUDA_ERROR_INVALID_VALUE);
}

START_TEST(a_batch_that_holds_nothing_is_a_failed_call)
{
	CUdeviceptr sources[] = { 1 };
	size_t bytes[] = { 10 };

	fake_set(API_cuMemcpyBatchAsync_v2, copy_batch);
	fake_set(API_cuMemcpy3DBatchAsync_v2, copy_3d_batch);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	expect_failed_batch(sources, bytes, 0);
	expect_failed_batch(NULL, bytes, 1);
	expect_failed_batch(sources, NULL, 1);
	cuMemcpy3DBatchAsync_v2(0, NULL, 0, STREAM);
	fake_look_one(RECORD_TRANSFER, API_cuMemcpy3DBatchAsync_v2);
}
END_TEST

static CUresult CUDAAPI copy_2d(const CUDA_MEMCPY2D *copy)
{
	(void)copy;
	return fake_result;
}

START_TEST(a_copy_of_rows_names_its_first_bytes)
{
	char host[4096];
	CUDA_MEMCPY2D copy = {
		.srcXInBytes = 8,
		.srcY = 2,
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = 256,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = 0x7000,
		.dstPitch = 512,
		.WidthInBytes = 100,
		.Height = 3,
	};
	const struct record *record;

	fake_set(API_cuMemcpy2D_v2, copy_2d);
	cuMemcpy2D_v2(&copy);
	record = fake_look_one(RECORD_TRANSFER, API_cuMemcpy2D_v2);
	ck_assert_int_eq(record_transfer_kind(record), TRANSFER_H2D);
	ck_assert_uint_eq(record->a, (uintptr_t)host + 2 * 256 + 8);
	ck_assert_uint_eq(record->b, 0x7000);
	ck_assert_uint_eq(record->c, 300);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuMemcpy2D_v2(NULL);
	fake_look_one(RECORD_TRANSFER, API_cuMemcpy2D_v2);
}
END_TEST

static CUresult CUDAAPI destroy_context(CUcontext context)
{
	(void)context;
	return fake_result;
}

START_TEST(a_context_takes_its_blocks_with_it)
{
	const struct fake_look *look;
	uint32_t number;

	fake_allocate(0x7000, 4096);
	fake_set(API_cuCtxDestroy_v2, destroy_context);
	fake_result = CUDA_ERROR_INVALID_CONTEXT;
	cuCtxDestroy_v2(fake_context);
	fake_look_one(RECORD_OPERATION, API_cuCtxDestroy_v2);
	ck_assert_uint_eq(tracker_count(), 1);
	fake_result = CUDA_SUCCESS;
	cuCtxDestroy_v2(fake_context);
	look = fake_look();
	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[1].kind, RECORD_CONTEXT_END);
	ck_assert_int_eq(look->record[1].aux, RELEASE_CONTEXT);
	number = record_context(&look->record[1]);
	ck_assert_uint_ne(number, 0);
	ck_assert_uint_eq(tracker_count(), 0);
	fake_allocate(0x7000, 4096);
	fake_set(API_cuMemFree_v2, fake_free_address);
	cuMemFree_v2(0x7000);
	ck_assert_uint_ne(record_context(fake_look_one(RECORD_FREE, API_cuMemFree_v2)), number);
}
END_TEST

static CUresult CUDAAPI create_context(CUcontext *context, CUctxCreateParams *parameters,
				       unsigned int flags, CUdevice device)
{
	(void)parameters;
	(void)flags;
	(void)device;
	*context = fake_context;
	return fake_result;
}

START_TEST(a_handle_made_anew_ends_the_context_that_had_it)
{
	CUcontext context;
	const struct fake_look *look;

	fake_allocate(0x7000, 4096);
	fake_set(API_cuCtxCreate_v4, create_context);
	cuCtxCreate_v4(&context, NULL, 0, 0);
	look = fake_look();
	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[0].kind, RECORD_OPERATION);
	ck_assert_int_eq(look->record[1].kind, RECORD_CONTEXT_END);
	ck_assert_uint_lt(record_context(&look->record[1]), record_context(&look->record[0]));
	ck_assert_uint_eq(tracker_count(), 0);
}
END_TEST

static int primary_is_active;

static CUresult CUDAAPI retain_primary(CUcontext *context, CUdevice device)
{
	(void)device;
	*context = (CUcontext)0x2000;
	return fake_result;
}

static CUresult CUDAAPI release_primary(CUdevice device)
{
	(void)device;
	return fake_result;
}

static CUresult CUDAAPI tell_primary(CUdevice device, unsigned int *flags, int *is_active)
{
	(void)device;
	*flags = 0;
	*is_active = primary_is_active;
	return CUDA_SUCCESS;
}

START_TEST(a_primary_context_dies_with_its_last_holder)
{
	CUcontext context;
	const struct fake_look *look;

	fake_set(API_cuDevicePrimaryCtxRetain, retain_primary);
	fake_set(API_cuDevicePrimaryCtxRelease_v2, release_primary);
	fake_set(API_cuDevicePrimaryCtxReset_v2, release_primary);
	fake_set(API_cuDevicePrimaryCtxGetState, tell_primary);
	cuDevicePrimaryCtxRetain(&context, 0);
	fake_look_one(RECORD_OPERATION, API_cuDevicePrimaryCtxRetain);
	primary_is_active = 1;
	cuDevicePrimaryCtxRelease_v2(0);
	fake_look_one(RECORD_OPERATION, API_cuDevicePrimaryCtxRelease_v2);
	primary_is_active = 0;
	cuDevicePrimaryCtxRelease_v2(0);
	look = fake_look();
	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[1].kind, RECORD_CONTEXT_END);
	cuDevicePrimaryCtxRetain(&context, 0);
	fake_look();
	cuDevicePrimaryCtxReset_v2(0);
	look = fake_look();
	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[1].aux, RELEASE_RESET);
}
END_TEST

static uint32_t number_at_work(void)
{
	fake_set(API_cuMemFree_v2, fake_free_address);
	cuMemFree_v2(0);
	return record_context(fake_look_one(RECORD_OPERATION, API_cuMemFree_v2));
}

/* The handle is the same before, while the context is dead, and after it has come again. */
START_TEST(a_dead_current_context_has_no_number)
{
	CUcontext context;
	const struct fake_look *look;
	uint32_t before;

	fake_set(API_cuDevicePrimaryCtxRetain, retain_primary);
	fake_set(API_cuDevicePrimaryCtxReset_v2, release_primary);
	fake_set(API_cuDevicePrimaryCtxRelease_v2, release_primary);
	fake_set(API_cuDevicePrimaryCtxGetState, tell_primary);
	cuDevicePrimaryCtxRetain(&context, 0);
	fake_context = context;
	fake_look();
	cuCtxGetCurrent(&context);
	before = number_at_work();
	ck_assert_uint_ne(before, 0);
	cuDevicePrimaryCtxReset_v2(0);
	fake_look();
	fake_context_result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	ck_assert_uint_eq(number_at_work(), 0);
	fake_context_result = CUDA_SUCCESS;
	ck_assert_uint_gt(number_at_work(), before);
	cuDevicePrimaryCtxRetain(&context, 0);
	fake_look();
	primary_is_active = 0;
	cuDevicePrimaryCtxRelease_v2(0);
	look = fake_look();
	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[1].kind, RECORD_CONTEXT_END);
}
END_TEST

static bool is_capturing;
static unsigned int times_asked;

static CUresult CUDAAPI ask_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
	times_asked++;
	*status = stream == STREAM && is_capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE :
						     CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
	(void)stream;
	(void)mode;
	is_capturing = true;
	return fake_result;
}

static CUresult CUDAAPI end_capture(CUstream stream, CUgraph *graph)
{
	(void)stream;
	*graph = (CUgraph)0x4000;
	is_capturing = false;
	return fake_result;
}

static CUresult CUDAAPI fill_8(CUdeviceptr target, unsigned char value, size_t count,
			       CUstream stream)
{
	(void)target;
	(void)value;
	(void)count;
	(void)stream;
	return fake_result;
}

static CUresult CUDAAPI give_async(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	(void)stream;
	return fake_give_address(address, bytes);
}

static bool fill_is_captured(CUstream stream)
{
	cuMemsetD8Async(0x7000, 0, 16, stream);
	return fake_look_one(RECORD_TRANSFER, API_cuMemsetD8Async)->flags & RECORD_CAPTURED;
}

START_TEST(calls_into_a_capture_say_so)
{
	CUgraph graph;
	CUdeviceptr address;

	fake_set(API_cuStreamIsCapturing, ask_capturing);
	fake_set(API_cuStreamBeginCapture_v2, begin_capture);
	fake_set(API_cuStreamEndCapture, end_capture);
	fake_set(API_cuMemsetD8Async, fill_8);
	fake_set(API_cuMemAllocAsync, give_async);
	ck_assert(!fill_is_captured(STREAM));
	ck_assert_uint_eq(times_asked, 0);
	cuStreamBeginCapture_v2(STREAM, CU_STREAM_CAPTURE_MODE_GLOBAL);
	fake_look_one(RECORD_OPERATION, API_cuStreamBeginCapture_v2);
	ck_assert(fill_is_captured(STREAM));
	ck_assert(!fill_is_captured((CUstream)0x6000));
	ck_assert_uint_gt(times_asked, 0);
	times_asked = 0;
	ck_assert(!fill_is_captured(NULL));
	ck_assert_uint_eq(times_asked, 0);
	fake_address = 0xa000;
	cuMemAllocAsync(&address, 64, STREAM);
	ck_assert(fake_look_one(RECORD_OPERATION, API_cuMemAllocAsync)->flags & RECORD_CAPTURED);
	cuStreamEndCapture(STREAM, &graph);
	ck_assert_uint_eq(fake_look_one(RECORD_OPERATION, API_cuStreamEndCapture)->a, 0x4000);
	times_asked = 0;
	ck_assert(!fill_is_captured(STREAM));
	ck_assert_uint_eq(times_asked, 0);
	fake_address = 0xb000;
	cuMemAllocAsync(&address, 64, STREAM);
	ck_assert_int_eq(fake_look_one(RECORD_ALLOC, API_cuMemAllocAsync)->aux & 0xff, BLOCK_POOL);
}
END_TEST

static CUresult CUDAAPI query_event(CUevent event)
{
	(void)event;
	return fake_result;
}

START_TEST(questions_are_counted_and_recorded_when_they_fail)
{
	fake_set(API_cuEventQuery, query_event);
	cuEventQuery(NULL);
	fake_result = CUDA_ERROR_NOT_READY;
	cuEventQuery(NULL);
	ck_assert_uint_eq(fake_look()->count, 0);
	fake_result = CUDA_ERROR_INVALID_HANDLE;
	cuEventQuery(NULL);
	ck_assert_int_eq(fake_look_one(RECORD_QUERY, API_cuEventQuery)->result, 400);
	ck_assert_uint_eq(fake_counted(API_cuEventQuery), 3);
	ck_assert_uint_eq(fake_counted_errors(API_cuEventQuery), 1);
}
END_TEST

static CUresult CUDAAPI allocate_by_asking(CUdeviceptr *address, size_t bytes)
{
	cuEventQuery(NULL);
	return fake_give_address(address, bytes);
}

START_TEST(calls_inside_a_call_are_not_the_programs)
{
	CUdeviceptr address;

	fake_set(API_cuEventQuery, query_event);
	fake_set(API_cuMemAlloc_v2, allocate_by_asking);
	fake_address = 0x7000;
	cuMemAlloc_v2(&address, 16);
	fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2);
	ck_assert_uint_eq(fake_counted(API_cuEventQuery), 0);
	cuEventQuery(NULL);
	ck_assert_uint_eq(fake_counted(API_cuEventQuery), 1);
}
END_TEST

START_TEST(a_function_the_driver_lacks_is_not_found)
{
	CUgraph graph;

	ck_assert_int_eq(cuGraphCreate(&graph, 0), CUDA_ERROR_NOT_FOUND);
	ck_assert_int_eq(fake_look_one(RECORD_OPERATION, API_cuGraphCreate)->result, 500);
}
END_TEST

START_TEST(a_long_call_keeps_its_magnitude)
{
	struct record record = { 0 };

	call_set_duration(&record, UINT64_C(5) << 32);
	ck_assert(record.flags & RECORD_LONG);
	ck_assert_uint_eq(record_ticks(&record), UINT64_C(5) << 32);
	record = (struct record){ 0 };
	call_set_duration(&record, 12345);
	ck_assert_uint_eq(record_ticks(&record), 12345);
}
END_TEST

static size_t is_free;

static CUresult CUDAAPI get_info(size_t *free_bytes, size_t *total_bytes)
{
	*free_bytes = is_free;
	*total_bytes = 1 << 30;
	return CUDA_SUCCESS;
}

/* Meanwhile another thread makes a block. */
static CUresult CUDAAPI get_function(CUfunction *function, CUmodule module, const char *name)
{
	(void)module;
	(void)name;
	*function = (CUfunction)0x6100;
	is_free -= 4096;
	tracker_add(&(struct block){
		.id = tracker_next_id(), .address = is_free, .bytes = 4096 });
	return CUDA_SUCCESS;
}

START_TEST(what_others_allocate_is_no_growth_for_ever)
{
	unsigned int weighed = 0;
	CUfunction function;

	is_free = 1 << 29;
	fake_set(API_cuMemGetInfo_v2, get_info);
	fake_set(API_cuModuleGetFunction, get_function);
	for (int i = 0; i < READING_IDLE * READING_UNCLEAR + 10; i++) {
		cuModuleGetFunction(&function, (CUmodule)0x6000, "f");
		weighed += fake_look()->count == 2;
	}
	ck_assert_uint_eq(weighed, READING_IDLE * READING_UNCLEAR);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hook_call");
	TCase *copy = tcase_create("copy");
	TCase *other = tcase_create("other");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(copy, fake_start, fake_stop);
	tcase_add_test(copy, stream_zero_means_what_its_door_says);
	tcase_add_test(copy, errno_and_result_pass_unchanged);
	tcase_add_test(copy, a_fill_counts_bytes_not_elements);
	tcase_add_test(copy, a_direction_comes_from_blocks_then_from_the_driver);
	tcase_add_test(copy, a_batch_is_one_call_and_many_transfers);
	tcase_add_test(copy, a_batch_that_holds_nothing_is_a_failed_call);
	tcase_add_test(copy, a_copy_of_rows_names_its_first_bytes);
	suite_add_tcase(suite, copy);

	tcase_add_checked_fixture(other, fake_start, fake_stop);
	tcase_add_test(other, a_context_takes_its_blocks_with_it);
	tcase_add_test(other, a_handle_made_anew_ends_the_context_that_had_it);
	tcase_add_test(other, a_primary_context_dies_with_its_last_holder);
	tcase_add_test(other, a_dead_current_context_has_no_number);
	tcase_add_test(other, calls_into_a_capture_say_so);
	tcase_add_test(other, questions_are_counted_and_recorded_when_they_fail);
	tcase_add_test(other, calls_inside_a_call_are_not_the_programs);
	tcase_add_test(other, a_function_the_driver_lacks_is_not_found);
	tcase_add_test(other, a_long_call_keeps_its_magnitude);
	tcase_add_test(other, what_others_allocate_is_no_growth_for_ever);
	suite_add_tcase(suite, other);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
