/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered memory, and plain blocks that are released in stream order. */
#include "simtest.h"

static struct bench b;

static void setup(void)
{
	bench_open(&b);
}

START_TEST(a_pool_block_comes_back_on_its_stream_at_once)
{
	CUdeviceptr one, two;

	ck_cu(cuMemAllocAsync(&one, 4 * MIB, b.stream));
	bench_hold(&b, b.stream);
	ck_cu(cuMemFreeAsync(one, b.stream));
	ck_cu(cuMemAllocAsync(&two, 4 * MIB, b.stream));
	ck_assert_uint_eq(one, two);
	bench_release(&b);
}
END_TEST

START_TEST(a_pool_block_goes_to_another_stream_only_when_its_free_passed)
{
	CUdeviceptr one, two;
	CUstream other;

	ck_cu(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ck_cu(cuMemAllocAsync(&one, 4 * MIB, b.stream));
	bench_hold(&b, b.stream);
	ck_cu(cuMemFreeAsync(one, b.stream));
	ck_cu(cuMemAllocAsync(&two, 4 * MIB, other));
	ck_assert_uint_ne(one, two);
	bench_release(&b);
}
END_TEST

START_TEST(a_synchronise_gives_back_what_lies_above_the_threshold)
{
	CUmemoryPool pool;
	cuuint64_t keep = 1 << 30, reserved = 0;
	size_t before = bench_free_bytes();
	CUdeviceptr block;

	ck_cu(cuMemAllocAsync(&block, 4 * MIB, b.stream));
	ck_assert_uint_eq(before - bench_free_bytes(), 32 * MIB);
	ck_cu(cuMemFreeAsync(block, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuDeviceGetDefaultMemPool(&pool, b.device));
	ck_cu(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	ck_cu(cuMemAllocAsync(&block, 4 * MIB, b.stream));
	ck_cu(cuMemFreeAsync(block, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_cu(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	ck_assert_uint_eq(reserved, 32 * MIB);
	ck_cu(cuMemPoolTrimTo(pool, 0));
	ck_assert_uint_eq(bench_free_bytes(), before);
}
END_TEST

START_TEST(a_trim_gives_back_what_the_host_has_seen_done_only)
{
	cuuint64_t keep = 1 << 30;
	size_t before = bench_free_bytes();
	CUmemoryPool pool;
	CUdeviceptr block;

	ck_cu(cuDeviceGetDefaultMemPool(&pool, b.device));
	ck_cu(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	ck_cu(cuMemAllocAsync(&block, 4 * MIB, b.stream));
	ck_cu(cuMemFreeAsync(block, b.stream));
	ck_cu(cuMemPoolTrimTo(pool, 0));
	ck_assert_uint_eq(before - bench_free_bytes(), 32 * MIB);
	ck_cu(cuStreamSynchronize(b.stream));
	ck_cu(cuMemPoolTrimTo(pool, 0));
	ck_assert_uint_eq(before, bench_free_bytes());
}
END_TEST

START_TEST(a_plain_block_gets_what_a_pool_keeps_idle)
{
	cuuint64_t keep = 1 << 30;
	CUmemoryPool pool;
	CUdeviceptr block, whole;
	size_t free_bytes = bench_free_bytes();

	ck_cu(cuDeviceGetDefaultMemPool(&pool, b.device));
	ck_cu(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	ck_cu(cuMemAllocAsync(&block, 4 * MIB, b.stream));
	ck_cu(cuMemFreeAsync(block, b.stream));
	free_bytes -= free_bytes % (2 * MIB);
	ck_cu_is(cuMemAlloc(&whole, free_bytes), CUDA_ERROR_OUT_OF_MEMORY);
	ck_cu(cuStreamSynchronize(b.stream));
	ck_cu(cuMemAlloc(&whole, free_bytes));
	ck_cu(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &keep));
	ck_assert_uint_eq(keep, 0);
}
END_TEST

START_TEST(pool_memory_belongs_to_no_context)
{
	CUdeviceptr block;
	CUcontext context = b.context;
	CUmemoryPool pool, mine;

	ck_cu(cuDeviceGetDefaultMemPool(&pool, b.device));
	ck_cu(cuMemAllocAsync(&block, 4096, b.stream));
	ck_cu(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block));
	ck_assert_ptr_null(context);
	ck_cu(cuPointerGetAttribute(&mine, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block));
	ck_assert_ptr_eq(mine, pool);
	bench_hold(&b, b.stream);
	ck_cu(cuMemFree(block));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	bench_release(&b);
}
END_TEST

static CUmemLocation nowhere = { .type = CU_MEM_LOCATION_TYPE_NONE };

START_TEST(a_managed_pool_hands_out_memory_that_the_host_reaches_too)
{
	const CUmemPoolProps shape = { .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
				       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool pool, found;
	unsigned is_managed = 0;
	size_t before = bench_free_bytes();
	CUdeviceptr block;

	ck_cu(cuMemPoolCreate(&pool, &shape));
	ck_cu(cuMemAllocFromPoolAsync(&block, 4 * MIB, pool, b.stream));
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuMemsetD8Async(block, 7, 4 * MIB, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_int_eq(((char *)block)[4 * MIB - 1], 7);
	ck_cu(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, block));
	ck_assert_uint_eq(is_managed, 1);
	ck_cu(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block));
	ck_assert_ptr_eq(found, pool);
	ck_cu(cuMemFreeAsync(block, b.stream));
	ck_cu(cuMemAllocFromPoolAsync(&block, 4 * MIB, pool, b.stream));
	ck_cu(cuMemFree(block));
	ck_cu(cuMemPoolDestroy(pool));
}
END_TEST

START_TEST(a_managed_pool_is_no_pool_of_the_device)
{
	CUmemoryPool managed, pool, now;

	ck_cu(cuMemGetDefaultMemPool(&managed, &nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED));
	ck_cu(cuDeviceGetDefaultMemPool(&pool, b.device));
	ck_assert_ptr_ne(managed, pool);
	ck_cu_is(cuDeviceSetMemPool(b.device, managed), CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuMemSetMemPool(&nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED, pool),
		 CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemSetMemPool(&nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED, managed));
	ck_cu(cuMemGetMemPool(&now, &nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED));
	ck_assert_ptr_eq(now, managed);
	ck_cu(cuDeviceGetMemPool(&now, b.device));
	ck_assert_ptr_eq(now, pool);
	ck_cu_is(cuMemGetMemPool(&now, &nowhere, CU_MEM_ALLOCATION_TYPE_PINNED),
		 CUDA_ERROR_NOT_SUPPORTED);
}
END_TEST

START_TEST(a_destroyed_pool_keeps_its_live_blocks)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	size_t before = bench_free_bytes();
	CUmemoryPool pool, fallback;
	CUdeviceptr block;

	ck_cu(cuMemPoolCreate(&pool, &props));
	ck_cu(cuDeviceSetMemPool(b.device, pool));
	ck_cu(cuMemAllocAsync(&block, 4096, b.stream));
	ck_cu(cuMemPoolDestroy(pool));
	ck_cu(cuMemsetD8(block, 1, 4096));
	ck_cu(cuDeviceGetDefaultMemPool(&fallback, b.device));
	ck_cu(cuDeviceGetMemPool(&pool, b.device));
	ck_assert_ptr_eq(pool, fallback);
	ck_cu_is(cuMemPoolDestroy(fallback), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemFreeAsync(block, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(bench_free_bytes(), before);
}
END_TEST

START_TEST(free_async_takes_plain_blocks_and_gives_them_back_at_its_synchronise)
{
	CUdeviceptr block;
	CUstream quiet;
	unsigned type;
	size_t before = bench_free_bytes();

	ck_cu(cuStreamCreate(&quiet, CU_STREAM_NON_BLOCKING));
	ck_cu(cuMemAlloc(&block, 64 * MIB));
	bench_hold(&b, b.stream);
	ck_cu(cuMemFreeAsync(block, quiet));
	ck_cu(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
	ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
	ck_cu(cuMemFree(block));
	ck_assert_uint_eq(before - bench_free_bytes(), 64 * MIB);
	ck_cu(cuStreamSynchronize(quiet));
	ck_assert_uint_eq(before, bench_free_bytes());
	ck_cu_is(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	bench_release(&b);
}
END_TEST

/* What was released last is handed out first, but not before the synchronise. */
START_TEST(addresses_released_in_stream_order_come_back_after_the_synchronise)
{
	const size_t sizes[] = {4096, 1 * MIB, 4 * MIB, 64 * (size_t)MIB};
	CUdeviceptr block, early, late;
	CUstream quiet;

	ck_cu(cuStreamCreate(&quiet, CU_STREAM_NON_BLOCKING));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		ck_cu(cuMemAlloc(&block, sizes[i]));
		ck_cu(cuMemFreeAsync(block, quiet));
		ck_cu(cuMemAlloc(&early, sizes[i]));
		ck_assert_uint_ne(block, early);
		ck_cu(cuStreamSynchronize(quiet));
		ck_cu(cuMemAlloc(&late, sizes[i]));
		ck_assert_uint_eq(block, late);
	}
}
END_TEST

static struct bench bench_with(const char *free_plain)
{
	struct bench bench;

	setenv("SIMCUDA_FREE_PLAIN", free_plain, 1);
	bench_open(&bench);
	return bench;
}

START_TEST(addresses_can_come_back_without_a_synchronise)
{
	struct bench bench = bench_with("2");
	CUdeviceptr block, early, late;
	CUstream quiet;

	ck_cu(cuStreamCreate(&quiet, CU_STREAM_NON_BLOCKING));
	ck_cu(cuMemAlloc(&block, 4 * MIB));
	bench_hold(&bench, quiet);
	ck_cu(cuMemFreeAsync(block, quiet));
	ck_cu(cuMemAlloc(&early, 4 * MIB));
	ck_assert_uint_ne(block, early);
	bench_release(&bench);
	while (cuStreamQuery(quiet) == CUDA_ERROR_NOT_READY)
		;
	ck_cu(cuMemAlloc(&late, 4 * MIB));
	ck_assert_uint_eq(block, late);
	ck_cu(cuMemFree(late));
}
END_TEST

START_TEST(another_streams_synchronise_gives_nothing_back)
{
	CUdeviceptr block;
	CUstream quiet;
	size_t before = bench_free_bytes();

	ck_cu(cuStreamCreate(&quiet, CU_STREAM_NON_BLOCKING));
	ck_cu(cuMemAlloc(&block, 64 * MIB));
	ck_cu(cuMemFreeAsync(block, quiet));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(before - bench_free_bytes(), 64 * MIB);
	ck_cu(cuCtxSynchronize());
	ck_assert_uint_eq(before, bench_free_bytes());
}
END_TEST

START_TEST(a_release_behind_an_event_of_the_context_waits_for_running_work)
{
	CUdeviceptr block, other;
	CUstream quiet;
	CUevent event;
	size_t before = bench_free_bytes();

	ck_cu(cuStreamCreate(&quiet, CU_STREAM_NON_BLOCKING));
	ck_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ck_cu(cuMemAlloc(&block, before - before % (2 * MIB)));
	bench_hold(&b, b.stream);
	ck_cu(cuCtxRecordEvent(b.context, event));
	ck_cu(cuStreamWaitEvent(quiet, event, 0));
	ck_cu(cuMemFreeAsync(block, quiet));
	ck_cu_is(cuStreamQuery(quiet), CUDA_ERROR_NOT_READY);
	ck_cu_is(cuMemAlloc(&other, 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	bench_release(&b);
	ck_cu(cuStreamSynchronize(quiet));
	ck_cu(cuMemAlloc(&other, 64 * MIB));
}
END_TEST

START_TEST(free_async_refuses_managed_and_pinned_memory)
{
	CUdeviceptr managed;
	void *pinned;

	ck_cu(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	ck_cu(cuMemAllocHost(&pinned, 4096));
	ck_cu_is(cuMemFreeAsync(managed, b.stream), CUDA_ERROR_NOT_SUPPORTED);
	ck_cu_is(cuMemFreeAsync((CUdeviceptr)pinned, b.stream), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_block_released_on_a_foreign_stream_outlives_its_context)
{
	CUdeviceptr block;
	CUcontext other;
	size_t before = bench_free_bytes();

	ck_cu(cuCtxCreate(&other, NULL, 0, b.device));
	ck_cu(cuMemAlloc(&block, 64 * MIB));
	ck_cu(cuMemFreeAsync(block, b.stream));
	ck_cu(cuCtxDestroy(other));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(before, bench_free_bytes());
}
END_TEST

START_TEST(plain_blocks_can_be_refused)
{
	struct bench strict = bench_with("0");
	CUdeviceptr block;

	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu_is(cuMemFreeAsync(block, strict.stream), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemFree(block));
}
END_TEST

Suite *suite_pool(void)
{
	Suite *suite = suite_create("simdriver pools");
	TCase *tcase = tcase_create("pools");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, a_pool_block_comes_back_on_its_stream_at_once);
	tcase_add_test(tcase, a_pool_block_goes_to_another_stream_only_when_its_free_passed);
	tcase_add_test(tcase, a_synchronise_gives_back_what_lies_above_the_threshold);
	tcase_add_test(tcase, a_trim_gives_back_what_the_host_has_seen_done_only);
	tcase_add_test(tcase, a_plain_block_gets_what_a_pool_keeps_idle);
	tcase_add_test(tcase, pool_memory_belongs_to_no_context);
	tcase_add_test(tcase, a_managed_pool_hands_out_memory_that_the_host_reaches_too);
	tcase_add_test(tcase, a_managed_pool_is_no_pool_of_the_device);
	tcase_add_test(tcase, a_destroyed_pool_keeps_its_live_blocks);
	tcase_add_test(tcase, free_async_takes_plain_blocks_and_gives_them_back_at_its_synchronise);
	tcase_add_test(tcase, addresses_released_in_stream_order_come_back_after_the_synchronise);
	tcase_add_test(tcase, another_streams_synchronise_gives_nothing_back);
	tcase_add_test(tcase, a_release_behind_an_event_of_the_context_waits_for_running_work);
	tcase_add_test(tcase, a_block_released_on_a_foreign_stream_outlives_its_context);
	tcase_add_test(tcase, free_async_refuses_managed_and_pinned_memory);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("refusing");
	tcase_add_test(tcase, plain_blocks_can_be_refused);
	tcase_add_test(tcase, addresses_can_come_back_without_a_synchronise);
	suite_add_tcase(suite, tcase);
	return suite;
}
