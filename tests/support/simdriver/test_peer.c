/* SPDX-License-Identifier: Apache-2.0 */
/* Several devices: memory of their own, and who reaches whose. */
#include "simtest.h"

static struct bench b;
static CUcontext other;

/* Two devices; the bench is on the first. */
static void open_two(const char *peer)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	setenv("SIMCUDA_PEER", peer, 1);
	bench_open(&b);
	ck_cu(cuDevicePrimaryCtxRetain(&other, 1));
}

static CUdeviceptr block_of_other(size_t bytes)
{
	CUdeviceptr block;

	ck_cu(cuCtxSetCurrent(other));
	ck_cu(cuMemAlloc(&block, bytes));
	ck_cu(cuMemsetD32(block, 77, bytes / 4));
	ck_cu(cuCtxSynchronize());
	ck_cu(cuCtxSetCurrent(b.context));
	return block;
}

static CUresult fill_by_kernel(CUdeviceptr block, unsigned value)
{
	unsigned words = 1;
	void *params[] = {&block, &value, &words};

	ck_cu(cuLaunchKernel(b.fill, 1, 1, 1, 1, 1, 1, 0, b.stream, params, NULL));
	return cuStreamSynchronize(b.stream);
}

START_TEST(each_device_has_memory_of_its_own)
{
	size_t before, after, total;
	CUdeviceptr block;

	open_two("1");
	before = bench_free_bytes();
	block = block_of_other(64 * MIB);
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuCtxSetCurrent(other));
	ck_cu(cuMemGetInfo(&before, &total));
	ck_cu(cuMemFree(block));
	ck_cu(cuMemGetInfo(&after, &total));
	ck_assert_uint_eq(after - before, 64 * MIB);
}
END_TEST

START_TEST(peer_access_is_enabled_once_and_disabled_once)
{
	int can, rank;

	open_two("1");
	ck_cu(cuDeviceCanAccessPeer(&can, 0, 1));
	ck_assert_int_eq(can, 1);
	ck_cu(cuDeviceCanAccessPeer(&can, 1, 1));
	ck_assert_int_eq(can, 0);
	ck_cu(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	ck_assert_int_eq(can, 1);
	ck_cu_is(cuDeviceGetP2PAttribute(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 0),
		 CUDA_ERROR_INVALID_DEVICE);
	ck_cu_is(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	ck_cu_is(cuCtxEnablePeerAccess(b.context, 0), CUDA_ERROR_INVALID_CONTEXT);
	ck_cu_is(cuCtxEnablePeerAccess(other, 1), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuCtxEnablePeerAccess(other, 0));
	ck_cu_is(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	ck_cu(cuCtxDisablePeerAccess(other));
	ck_cu_is(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}
END_TEST

START_TEST(without_a_link_there_is_no_access_but_copies_arrive)
{
	unsigned value = 0;
	CUdeviceptr from, to;
	int can;

	open_two("0");
	ck_cu(cuDeviceCanAccessPeer(&can, 0, 1));
	ck_assert_int_eq(can, 0);
	ck_cu_is(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	from = block_of_other(4096);
	ck_cu(cuMemAlloc(&to, 4096));
	ck_cu(cuMemcpyPeer(to, b.context, from, other, 4096));
	ck_cu(cuMemcpyDtoH(&value, to, 4));
	ck_assert_uint_eq(value, 77);
	ck_cu(cuMemsetD32(to, 0, 1));
	ck_cu(cuMemcpy(to, from, 4096));
	ck_cu(cuMemcpyDtoH(&value, to, 4));
	ck_assert_uint_eq(value, 77);
	ck_cu(cuMemcpyPeerAsync(from, other, to, b.context, 4096, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
}
END_TEST

START_TEST(kernels_reach_a_peers_block_only_when_access_is_enabled)
{
	unsigned value = 0;
	CUdeviceptr block;

	open_two("1");
	block = block_of_other(4096);
	ck_cu(cuCtxEnablePeerAccess(other, 0));
	ck_cu(fill_by_kernel(block, 5));
	ck_cu(cuMemcpyDtoH(&value, block, 4));
	ck_assert_uint_eq(value, 5);
	ck_cu(cuCtxDisablePeerAccess(other));
	fill_by_kernel(block, 6);
	ck_cu_is(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(mapped_memory_of_another_device_wants_cumemsetaccess)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
	CUmemAccessDesc desc = {.location = prop.location,
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	size_t before, total, after;
	CUdeviceptr range;
	unsigned value = 9;

	open_two("1");
	ck_cu(cuCtxSetCurrent(other));
	ck_cu(cuMemGetInfo(&before, &total));
	ck_cu(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	ck_cu(cuMemGetInfo(&after, &total));
	ck_assert_uint_eq(before - after, 2 * MIB);
	ck_cu(cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0));
	ck_cu(cuMemMap(range, 2 * MIB, 0, handle, 0));
	ck_cu(cuMemSetAccess(range, 2 * MIB, &desc, 1));
	ck_cu(cuMemcpyHtoD(range, &value, 4));
	ck_cu(cuCtxSetCurrent(b.context));
	ck_cu_is(cuMemcpyDtoH(&value, range, 4), CUDA_ERROR_INVALID_VALUE);
	desc.location.id = 0;
	ck_cu(cuMemSetAccess(range, 2 * MIB, &desc, 1));
	value = 0;
	ck_cu(cuMemcpyDtoH(&value, range, 4));
	ck_assert_uint_eq(value, 9);
	ck_cu(fill_by_kernel(range, 10));
}
END_TEST

START_TEST(a_pool_of_another_device_wants_access_of_its_own)
{
	CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr block;
	CUmemoryPool pool;
	CUstream stream;

	open_two("1");
	ck_cu(cuCtxEnablePeerAccess(other, 0));
	ck_cu(cuCtxSetCurrent(other));
	ck_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_cu(cuMemAllocAsync(&block, 4096, stream));
	ck_cu(cuStreamSynchronize(stream));
	ck_cu(cuDeviceGetDefaultMemPool(&pool, 1));
	ck_cu(cuCtxSetCurrent(b.context));
	ck_cu_is(cuMemsetD32(block, 1, 1), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemPoolSetAccess(pool, &desc, 1));
	ck_cu(cuMemsetD32(block, 1, 1));
	ck_cu(cuCtxSynchronize());
	ck_cu(fill_by_kernel(block, 2));
}
END_TEST

Suite *suite_peer(void)
{
	Suite *suite = suite_create("simdriver peers");
	TCase *tcase = tcase_create("peers");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, each_device_has_memory_of_its_own);
	tcase_add_test(tcase, peer_access_is_enabled_once_and_disabled_once);
	tcase_add_test(tcase, without_a_link_there_is_no_access_but_copies_arrive);
	tcase_add_test(tcase, kernels_reach_a_peers_block_only_when_access_is_enabled);
	tcase_add_test(tcase, mapped_memory_of_another_device_wants_cumemsetaccess);
	tcase_add_test(tcase, a_pool_of_another_device_wants_access_of_its_own);
	suite_add_tcase(suite, tcase);
	return suite;
}
