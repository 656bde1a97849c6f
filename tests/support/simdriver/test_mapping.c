/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the client maps by hand. */
#include <unistd.h>

#include "simtest.h"

static struct bench b;
static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};
static const CUmemAccessDesc access_desc = {
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static void setup(void)
{
	bench_open(&b);
}

START_TEST(memory_counts_from_create_to_the_last_of_release_and_unmap)
{
	CUmemGenericAllocationHandle handle;
	size_t before = bench_free_bytes();
	CUdeviceptr range;

	ck_cu(cuMemAddressReserve(&range, 8 * MIB, 0, 0, 0));
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuMemCreate(&handle, 4 * MIB, &prop, 0));
	ck_assert_uint_eq(before - bench_free_bytes(), 4 * MIB);
	ck_cu(cuMemMap(range, 4 * MIB, 0, handle, 0));
	ck_cu(cuMemRelease(handle));
	ck_assert_uint_eq(before - bench_free_bytes(), 4 * MIB);
	ck_cu_is(cuMemAddressFree(range, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemUnmap(range, 4 * MIB));
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuMemAddressFree(range, 8 * MIB));
}
END_TEST

START_TEST(copies_run_across_neighbouring_mappings)
{
	CUmemGenericAllocationHandle one, two;
	unsigned char out[512], in[512];
	CUdeviceptr range;

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (unsigned char)i;
	ck_cu(cuMemAddressReserve(&range, 4 * MIB, 0, 0, 0));
	ck_cu(cuMemCreate(&one, 2 * MIB, &prop, 0));
	ck_cu(cuMemCreate(&two, 2 * MIB, &prop, 0));
	ck_cu(cuMemMap(range, 2 * MIB, 0, one, 0));
	ck_cu(cuMemMap(range + 2 * MIB, 2 * MIB, 0, two, 0));
	ck_cu_is(cuMemcpyHtoD(range, out, 1), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemSetAccess(range, 4 * MIB, &access_desc, 1));
	ck_cu(cuMemcpyHtoD(range + 2 * MIB - 256, out, sizeof(out)));
	ck_cu(cuMemcpyDtoH(in, range + 2 * MIB - 256, sizeof(in)));
	ck_assert_mem_eq(in, out, sizeof(in));
	ck_cu_is(cuMemFree(range), CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuMemUnmap(range, MIB), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemUnmap(range, 4 * MIB));
}
END_TEST

START_TEST(memory_mapped_twice_is_the_same_memory)
{
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr one, two, start;
	unsigned value = 0;
	size_t size;

	ck_cu(cuMemAddressReserve(&one, 8 * MIB, 0, 0, 0));
	ck_cu(cuMemAddressReserve(&two, 2 * MIB, 0, 0, 0));
	ck_cu(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	ck_cu(cuMemMap(one + 2 * MIB, 2 * MIB, 0, handle, 0));
	ck_cu(cuMemMap(two, 2 * MIB, 0, handle, 0));
	ck_cu(cuMemSetAccess(one + 2 * MIB, 2 * MIB, &access_desc, 1));
	ck_cu(cuMemSetAccess(two, 2 * MIB, &access_desc, 1));
	ck_cu(cuMemsetD32(one + 2 * MIB, 42, 1));
	ck_cu(cuMemcpyDtoH(&value, two, 4));
	ck_assert_uint_eq(value, 42);
	ck_cu(cuMemRetainAllocationHandle(&again, (void *)two));
	ck_assert_uint_eq(again, handle);
	ck_cu(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, one + 2 * MIB));
	ck_assert_uint_eq(start, one);
	ck_cu(cuMemGetAddressRange(&start, &size, one + 3 * MIB));
	ck_assert_uint_eq(start, one + 2 * MIB);
	ck_assert_uint_eq(size, 2 * MIB);
}
END_TEST

START_TEST(an_exported_descriptor_imports_the_same_memory)
{
	CUmemGenericAllocationHandle handle, twin;
	CUdeviceptr range;
	unsigned value = 0;
	int fd;

	ck_cu(cuMemAddressReserve(&range, 4 * MIB, 0, 0, 0));
	ck_cu(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	ck_cu(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   0));
	ck_cu(cuMemImportFromShareableHandle(&twin, (void *)(intptr_t)fd,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	ck_cu(cuMemMap(range, 2 * MIB, 0, handle, 0));
	ck_cu(cuMemMap(range + 2 * MIB, 2 * MIB, 0, twin, 0));
	ck_cu(cuMemSetAccess(range, 4 * MIB, &access_desc, 1));
	ck_cu(cuMemsetD32(range, 99, 1));
	ck_cu(cuMemcpyDtoH(&value, range + 2 * MIB, 4));
	ck_assert_uint_eq(value, 99);
}
END_TEST

START_TEST(a_multicast_object_holds_what_is_bound_to_it)
{
	CUmulticastObjectProp team = {.numDevices = 1, .size = 4 * MIB};
	CUmemGenericAllocationHandle object, handle;
	size_t before = bench_free_bytes(), step;
	CUdeviceptr range;

	ck_cu(cuMulticastGetGranularity(&step, &team, CU_MULTICAST_GRANULARITY_MINIMUM));
	ck_assert_uint_eq(4 * MIB % step, 0);
	ck_cu(cuMulticastCreate(&object, &team));
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuMulticastAddDevice(object, b.device));
	ck_cu_is(cuMulticastAddDevice(object, b.device), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	ck_cu_is(cuMulticastBindMem(object, 4 * MIB, handle, 0, 2 * MIB, 0),
		 CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMulticastBindMem(object, 2 * MIB, handle, 0, 2 * MIB, 0));
	ck_cu(cuMemRelease(handle));
	ck_assert_uint_eq(before - bench_free_bytes(), 2 * MIB);
	ck_cu(cuMulticastUnbind(object, b.device, 2 * MIB, 2 * MIB));
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu_is(cuMulticastUnbind(object, b.device, 2 * MIB, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
	/* Bound by its address, and let go of with the object. */
	ck_cu(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	ck_cu(cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0));
	ck_cu(cuMemMap(range, 2 * MIB, 0, handle, 0));
	ck_cu(cuMulticastBindAddr(object, 0, range, 2 * MIB, 0));
	ck_cu(cuMemUnmap(range, 2 * MIB));
	ck_cu(cuMemRelease(handle));
	ck_assert_uint_eq(before - bench_free_bytes(), 2 * MIB);
	ck_cu(cuMemRelease(object));
	ck_assert_uint_eq(bench_free_bytes(), before);
}
END_TEST

START_TEST(a_multicast_object_is_mapped_like_memory)
{
	CUmulticastObjectProp team = {.numDevices = 1, .size = 2 * MIB};
	CUmemGenericAllocationHandle object;
	CUdeviceptr range;

	ck_cu(cuMulticastCreate(&object, &team));
	ck_cu(cuMulticastAddDevice(object, b.device));
	ck_cu(cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0));
	ck_cu(cuMemMap(range, 2 * MIB, 0, object, 0));
	ck_cu(cuMemSetAccess(range, 2 * MIB, &access_desc, 1));
	ck_cu(cuMemsetD32(range, 1, 1));
	ck_cu(cuCtxSynchronize());	/* a fill may be under way on return */
	ck_cu(cuMemUnmap(range, 2 * MIB));
	ck_cu(cuMemRelease(object));
}
END_TEST

START_TEST(the_mappings_survive_their_context)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp got;

	ck_cu(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	ck_cu(cuDevicePrimaryCtxReset(b.device));
	ck_cu(cuMemGetAllocationPropertiesFromHandle(&got, handle));
	ck_cu(cuMemRelease(handle));
}
END_TEST

Suite *suite_mapping(void)
{
	Suite *suite = suite_create("simdriver mappings");
	TCase *tcase = tcase_create("mappings");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, memory_counts_from_create_to_the_last_of_release_and_unmap);
	tcase_add_test(tcase, copies_run_across_neighbouring_mappings);
	tcase_add_test(tcase, memory_mapped_twice_is_the_same_memory);
	tcase_add_test(tcase, an_exported_descriptor_imports_the_same_memory);
	tcase_add_test(tcase, a_multicast_object_holds_what_is_bound_to_it);
	tcase_add_test(tcase, a_multicast_object_is_mapped_like_memory);
	tcase_add_test(tcase, the_mappings_survive_their_context);
	suite_add_tcase(suite, tcase);
	return suite;
}
