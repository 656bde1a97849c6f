/* SPDX-License-Identifier: Apache-2.0 */
/* Green contexts: streams of their own, memory of the primary context. */
#include "simtest.h"

static struct bench b;

static void setup(void)
{
	bench_open(&b);
}

static CUgreenCtx make_green(unsigned processors)
{
	CUdevResource all, part, rest;
	CUdevResourceDesc desc;
	unsigned groups = 1;
	CUgreenCtx green;

	ck_cu(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	ck_cu(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, processors));
	ck_assert_uint_eq(groups, 1);
	ck_assert_uint_ge(part.sm.smCount, processors);
	ck_cu(cuDevResourceGenerateDesc(&desc, &part, 1));
	ck_cu(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

START_TEST(a_split_rounds_up_to_parts_of_the_device)
{
	CUdevResource all, parts[2], rest;
	unsigned groups = 0;

	ck_cu(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	ck_assert_uint_eq(all.sm.smCount, 16);
	ck_cu(cuDevSmResourceSplitByCount(NULL, &groups, &all, NULL, 0, 5));
	ck_assert_uint_eq(groups, 2);
	ck_cu(cuDevSmResourceSplitByCount(parts, &groups, &all, &rest, 0, 5));
	ck_assert_uint_eq(parts[1].sm.smCount, 8);
	ck_assert_int_eq(rest.type, CU_DEV_RESOURCE_TYPE_INVALID);
	ck_cu_is(cuDevSmResourceSplitByCount(parts, &groups, &all, &rest, 0, 17),
		 CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_green_context_costs_no_second_context_and_shares_memory)
{
	size_t before = bench_free_bytes();
	CUgreenCtx green = make_green(8), named;
	CUcontext view, owner;
	CUdeviceptr block;
	CUdevResource part;
	CUstream stream;

	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuCtxFromGreenCtx(&view, green));
	ck_assert_ptr_ne(view, b.context);
	ck_assert_ptr_eq(view, green);
	ck_cu_is(cuCtxDestroy(view), CUDA_ERROR_INVALID_CONTEXT);
	ck_cu(cuCtxGetDevResource(view, &part, CU_DEV_RESOURCE_TYPE_SM));
	ck_assert_uint_eq(part.sm.smCount, 8);
	ck_cu(cuCtxSetCurrent(view));
	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuMemsetD32(block, 3, 1));
	ck_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_cu(cuStreamGetCtx_v2(stream, &owner, &named));
	ck_assert_ptr_eq(owner, b.context);
	ck_assert_ptr_eq(named, green);
	ck_cu(cuStreamDestroy(stream));
	ck_cu(cuCtxSetCurrent(b.context));
	ck_cu(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block));
	ck_assert_ptr_eq(owner, b.context);
	ck_cu(cuGreenCtxDestroy(green));
	ck_cu(cuMemFree(block));
	ck_assert_uint_eq(bench_free_bytes(), before);
}
END_TEST

START_TEST(a_free_waits_for_the_streams_of_green_contexts_too)
{
	CUgreenCtx green = make_green(8);
	CUdeviceptr block;
	CUstream stream;

	ck_cu(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	ck_cu(cuMemAlloc(&block, 4096));
	bench_busy(&b, stream, 50);
	ck_cu_is(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	ck_cu(cuMemFree(block));
	ck_cu(cuStreamQuery(stream));
}
END_TEST

START_TEST(events_order_the_work_of_a_green_context)
{
	CUgreenCtx green = make_green(8);
	CUstream stream;
	CUevent event;

	ck_cu(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	ck_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	bench_hold(&b, stream);
	ck_cu(cuGreenCtxRecordEvent(green, event));
	ck_cu_is(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	ck_cu(cuCtxRecordEvent(b.context, event));
	ck_cu_is(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuEventSynchronize(event));
	bench_hold(&b, b.stream);
	ck_cu(cuEventRecord(event, b.stream));
	ck_cu(cuGreenCtxWaitEvent(green, event));
	bench_busy(&b, stream, 1);
	ck_cu_is(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuStreamSynchronize(stream));
}
END_TEST

START_TEST(streams_outlive_a_green_context_as_unusable_handles)
{
	CUgreenCtx green = make_green(8);
	CUcontext view;
	CUstream stream;

	ck_cu(cuCtxFromGreenCtx(&view, green));
	ck_cu(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	ck_cu(cuGreenCtxDestroy(green));
	ck_cu_is(cuStreamSynchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_cu_is(cuStreamDestroy(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_cu_is(cuCtxSetCurrent(view), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_cu(cuCtxSynchronize());
}
END_TEST

START_TEST(a_green_context_keeps_the_primary_one)
{
	CUgreenCtx green = make_green(8);
	unsigned flags;
	int active;

	ck_cu(cuDevicePrimaryCtxRelease(0));
	ck_cu(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ck_assert_int_eq(active, 1);
	ck_cu(cuGreenCtxDestroy(green));
	ck_cu(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ck_assert_int_eq(active, 0);
}
END_TEST

START_TEST(a_reset_ends_green_contexts_with_their_primary_one)
{
	CUgreenCtx green = make_green(8);
	CUstream stream;

	ck_cu(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	ck_cu(cuDevicePrimaryCtxReset(0));
	ck_cu_is(cuStreamQuery(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_cu(cuGreenCtxDestroy(green));
}
END_TEST

Suite *suite_green(void)
{
	Suite *suite = suite_create("simdriver green contexts");
	TCase *tcase = tcase_create("green");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, a_split_rounds_up_to_parts_of_the_device);
	tcase_add_test(tcase, a_green_context_costs_no_second_context_and_shares_memory);
	tcase_add_test(tcase, a_free_waits_for_the_streams_of_green_contexts_too);
	tcase_add_test(tcase, events_order_the_work_of_a_green_context);
	tcase_add_test(tcase, streams_outlive_a_green_context_as_unusable_handles);
	tcase_add_test(tcase, a_green_context_keeps_the_primary_one);
	tcase_add_test(tcase, a_reset_ends_green_contexts_with_their_primary_one);
	suite_add_tcase(suite, tcase);
	return suite;
}
