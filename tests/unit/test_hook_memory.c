/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real wrappers in front of a driver that does as it is told: what is
 * recorded of a block's beginning and end, and what the tracker holds.
 */
#include "core/tracker.h"
#include "fake_driver.h"
#include "intercept/call.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

START_TEST(an_allocation_and_its_free_share_an_id)
{
	struct block block;
	uint64_t id = fake_allocate(0x7000, 4096);
	const struct record *record;

	ck_assert_uint_ne(id, 0);
	ck_assert(tracker_find(SPACE_ADDRESS, 0x7010, &block));
	ck_assert_uint_eq(block.id, id);
	fake_set(API_cuMemFree_v2, fake_free_address);
	ck_assert_int_eq(cuMemFree_v2(0x7000), CUDA_SUCCESS);
	record = fake_look_one(RECORD_FREE, API_cuMemFree_v2);
	ck_assert_uint_eq(record->b, id);
	ck_assert_uint_eq(record->c, 4096);
	ck_assert_int_eq(record->aux, RELEASE_FREED);
	ck_assert(!tracker_find(SPACE_ADDRESS, 0x7000, &block));
}
END_TEST

START_TEST(a_refused_free_leaves_the_block)
{
	struct block block;
	uint64_t id = fake_allocate(0x7000, 4096);

	fake_set(API_cuMemFree_v2, fake_free_address);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	ck_assert_int_eq(cuMemFree_v2(0x7000), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(fake_look_one(RECORD_FREE, API_cuMemFree_v2)->result, 1);
	ck_assert(tracker_find(SPACE_ADDRESS, 0x7000, &block));
	ck_assert_uint_eq(block.id, id);
}
END_TEST

static size_t is_free;

static CUresult CUDAAPI get_info(size_t *free_bytes, size_t *total_bytes)
{
	*free_bytes = is_free;
	*total_bytes = 1 << 30;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI allocate_managed(CUdeviceptr *address, size_t bytes, unsigned int flags)
{
	(void)flags;
	*address = 0x9000;
	is_free -= bytes;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI free_half(CUdeviceptr address)
{
	(void)address;
	is_free += 4096;
	return CUDA_SUCCESS;
}

static const struct record *free_one(CUdeviceptr address)
{
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	return fake_look()->record;
}

/* Readings of other moments may come behind. */
START_TEST(what_managed_memory_gives_back_is_weighed)
{
	const struct record *record;
	CUdeviceptr address;

	fake_allocate(0x7000, 4096);
	is_free = 1 << 20;
	fake_set(API_cuMemGetInfo_v2, get_info);
	fake_set(API_cuMemAllocManaged, allocate_managed);
	fake_set(API_cuMemFree_v2, free_half);
	ck_assert_int_eq(cuMemAllocManaged(&address, 8192, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
	fake_look();
	record = free_one(address);
	ck_assert_int_eq(record[0].kind, RECORD_READING);
	ck_assert_int_eq(record_moment(&record[0]), READING_BEFORE);
	ck_assert_int_eq(record_weighed(&record[0]), WEIGHED_SETTING);
	ck_assert_int_eq(record[1].kind, RECORD_FREE);
	ck_assert_uint_le(record[0].start + record_ticks(&record[0]), record[1].start);
	ck_assert_int_eq(record_moment(&record[2]), READING_AFTER);
	ck_assert_uint_eq(record[2].a - record[0].a, 4096);
	ck_assert_int_eq(free_one(0x7000)->kind, RECORD_FREE);
}
END_TEST

static CUresult CUDAAPI reuse_while_freeing(CUdeviceptr address)
{
	struct block block = { .id = tracker_next_id(), .address = address, .bytes = 1 };

	ck_assert(!tracker_find(SPACE_ADDRESS, address, &block));
	block = (struct block){ .id = tracker_next_id(), .address = address, .bytes = 1 };
	return tracker_add(&block) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

START_TEST(an_address_reused_within_its_free_stays)
{
	struct block block;
	uint64_t id = fake_allocate(0x7000, 4096);

	fake_set(API_cuMemFree_v2, reuse_while_freeing);
	ck_assert_int_eq(cuMemFree_v2(0x7000), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_look_one(RECORD_FREE, API_cuMemFree_v2)->b, id);
	ck_assert(tracker_find(SPACE_ADDRESS, 0x7000, &block));
	ck_assert_uint_ne(block.id, id);
}
END_TEST

START_TEST(an_unknown_block_is_freed_untracked)
{
	const struct record *record;

	fake_set(API_cuMemFree_v2, fake_free_address);
	cuMemFree_v2(0x9000);
	record = fake_look_one(RECORD_FREE, API_cuMemFree_v2);
	ck_assert(record->flags & RECORD_UNTRACKED);
	ck_assert_uint_eq(record->b, 0);
	cuMemFree_v2(0);
	fake_look_one(RECORD_OPERATION, API_cuMemFree_v2);
}
END_TEST

START_TEST(outputs_of_a_failed_call_are_not_read)
{
	CUdeviceptr *nowhere = (CUdeviceptr *)1;
	const struct record *record;

	fake_set(API_cuMemAlloc_v2, fake_give_address);
	fake_result = CUDA_ERROR_OUT_OF_MEMORY;
	ck_assert_int_eq(cuMemAlloc_v2(nowhere, 1 << 20), CUDA_ERROR_OUT_OF_MEMORY);
	record = fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2);
	ck_assert_int_eq(record->result, CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(record->a, 0);
	ck_assert_uint_eq(record->b, 0);
	ck_assert_uint_eq(record->c, 1 << 20);
}
END_TEST

static uint64_t create_handle(CUmemGenericAllocationHandle *handle)
{
	CUmemAllocationProp properties = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	const struct record *record;

	fake_set_mapping();
	cuMemCreate(handle, 2 << 20, &properties, 0);
	record = fake_look_one(RECORD_ALLOC, API_cuMemCreate);
	ck_assert_int_eq(record->aux, BLOCK_VMM | 1 << 8);
	ck_assert_uint_eq(record->c, 2 << 20);
	return record->b;
}

/* Its bytes are page-locked memory of the host, which no context takes with it. */
START_TEST(physical_memory_may_lie_on_the_host)
{
	CUmemAllocationProp properties = { .location = { CU_MEM_LOCATION_TYPE_HOST_NUMA, 1 } };
	CUmemGenericAllocationHandle handle;
	const struct record *record;
	struct block block;

	create_handle(&handle);
	cuMemRelease(handle);
	fake_look();
	cuMemCreate(&handle, 4096, &properties, 0);
	record = fake_look_one(RECORD_ALLOC, API_cuMemCreate);
	ck_assert_int_eq(record->aux, BLOCK_PINNED);
	ck_assert_uint_eq(record_context(record), 0);
	cuMemMap(0x700000000000, 4096, 0, handle, 0);
	record = fake_look_one(RECORD_ALLOC, API_cuMemMap);
	ck_assert_int_eq(record->aux, BLOCK_PINNED);
	ck_assert(record->flags & RECORD_VIEW);
	ck_assert(tracker_find(SPACE_ADDRESS, 0x700000000000, &block));
	ck_assert_int_eq(block.kind, BLOCK_PINNED);
	ck_assert_uint_eq(block.context, 0);
}
END_TEST

static CUresult CUDAAPI create_stream(CUstream *stream, unsigned int flags)
{
	(void)flags;
	*stream = (CUstream)0x5000;
	return fake_result;
}

static CUresult CUDAAPI give_on_stream(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	(void)stream;
	return fake_give_address(address, bytes);
}

static CUresult CUDAAPI give_from_pool(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
				       CUstream stream)
{
	(void)pool;
	(void)stream;
	return fake_give_address(address, bytes);
}

static CUresult CUDAAPI tell_device_one(CUdevice *device)
{
	*device = 1;
	return CUDA_SUCCESS;
}

/* The device of an allocation on a stream, -1: none. */
static int device_on_stream(CUstream stream)
{
	CUdeviceptr address;
	const struct record *record;

	fake_address += 0x1000;
	cuMemAllocAsync(&address, 64, stream);
	record = fake_look_one(RECORD_ALLOC, API_cuMemAllocAsync);
	ck_assert_int_eq(record->aux & 0xff, BLOCK_POOL);
	return (record->aux >> 8) - 1;
}

/* The stream is made while a context of device 1 is current, which it is no more. */
START_TEST(memory_of_a_stream_lies_on_its_device)
{
	CUcontext first = fake_context;
	CUstream stream;

	fake_set(API_cuMemAllocAsync, give_on_stream);
	fake_set(API_cuStreamCreate, create_stream);
	ck_assert_int_eq(device_on_stream((CUstream)0x5000), 0);
	fake_set(API_cuCtxGetDevice, tell_device_one);
	fake_context = (CUcontext)0x2000;
	cuStreamCreate(&stream, 0);
	fake_look_one(RECORD_OPERATION, API_cuStreamCreate);
	fake_context = first;
	cuCtxGetCurrent(&fake_context);
	ck_assert_int_eq(device_on_stream(stream), 1);
	ck_assert_int_eq(device_on_stream((CUstream)0x6000), 0);
	ck_assert_int_eq(device_on_stream(NULL), 0);
}
END_TEST

static CUresult CUDAAPI create_pool(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	(void)properties;
	*pool = (CUmemoryPool)0x4000;
	return fake_result;
}

static CUresult CUDAAPI give_default_pool(CUmemoryPool *pool, CUdevice device)
{
	*pool = (CUmemoryPool)(uintptr_t)(0x4100 + device);
	return fake_result;
}

static int aux_from_pool(CUmemoryPool pool)
{
	CUdeviceptr address;

	fake_address += 0x1000;
	cuMemAllocFromPoolAsync(&address, 64, pool, NULL);
	return fake_look_one(RECORD_ALLOC, API_cuMemAllocFromPoolAsync)->aux;
}

static int aux_from_new_pool(CUmemLocationType type, int id, CUmemAllocationType kind)
{
	CUmemPoolProps properties = { .allocType = kind, .location = { type, id } };
	CUmemoryPool pool;

	cuMemPoolCreate(&pool, &properties);
	fake_look_one(RECORD_OPERATION, API_cuMemPoolCreate);
	return aux_from_pool(pool);
}

START_TEST(memory_of_a_pool_lies_where_the_pool_does)
{
	const CUmemAllocationType pinned = CU_MEM_ALLOCATION_TYPE_PINNED;
	CUmemoryPool pool;

	fake_set(API_cuMemAllocFromPoolAsync, give_from_pool);
	fake_set(API_cuMemPoolCreate, create_pool);
	fake_set(API_cuDeviceGetDefaultMemPool, give_default_pool);
	ck_assert_int_eq(aux_from_new_pool(CU_MEM_LOCATION_TYPE_DEVICE, 3, pinned),
			 BLOCK_POOL | 4 << 8);
	ck_assert_int_eq(aux_from_new_pool(CU_MEM_LOCATION_TYPE_HOST, 0, pinned), BLOCK_PINNED);
	ck_assert_int_eq(aux_from_new_pool(CU_MEM_LOCATION_TYPE_NONE, 0,
					   CU_MEM_ALLOCATION_TYPE_MANAGED),
			 BLOCK_MANAGED | 1 << 8);
	ck_assert_int_eq(aux_from_new_pool(CU_MEM_LOCATION_TYPE_DEVICE, 3,
					   CU_MEM_ALLOCATION_TYPE_MANAGED),
			 BLOCK_MANAGED | 4 << 8);
	/* The driver gives the handle again. */
	ck_assert_int_eq(aux_from_new_pool(CU_MEM_LOCATION_TYPE_DEVICE, 3, pinned),
			 BLOCK_POOL | 4 << 8);
	cuDeviceGetDefaultMemPool(&pool, 2);
	ck_assert_int_eq(aux_from_pool(pool), BLOCK_POOL | 3 << 8);
	ck_assert_int_eq(aux_from_pool((CUmemoryPool)0x9999), BLOCK_POOL | 1 << 8);
}
END_TEST

START_TEST(physical_memory_ends_with_its_last_mapping)
{
	CUmemGenericAllocationHandle handle;
	uint64_t owner = create_handle(&handle), view;
	const struct fake_look *look;
	const struct record *record;

	cuMemMap(0x700000000000, 2 << 20, 0, handle, 0);
	record = fake_look_one(RECORD_ALLOC, API_cuMemMap);
	ck_assert(record->flags & RECORD_VIEW);
	ck_assert_uint_eq(record->stream, owner);
	view = record->b;
	cuMemRelease(handle);
	fake_look_one(RECORD_OPERATION, API_cuMemRelease);
	cuMemUnmap(0x700000000000, 2 << 20);
	look = fake_look();
	ck_assert_uint_eq(look->count, 2);
	ck_assert_uint_eq(look->record[0].b, view);
	ck_assert_uint_eq(look->record[1].b, owner);
	ck_assert(look->record[1].flags & RECORD_MORE);
	ck_assert_uint_eq(tracker_count(), 0);
}
END_TEST

START_TEST(one_unmap_ends_neighbouring_mappings)
{
	CUmemGenericAllocationHandle handle;
	uint64_t owner = create_handle(&handle);

	cuMemMap(0x700000000000, 1 << 20, 0, handle, 0);
	cuMemMap(0x700000100000, 1 << 20, 0, handle, 0);
	ck_assert_uint_eq(fake_look()->count, 2);
	cuMemUnmap(0x700000000000, 2 << 20);
	ck_assert_uint_eq(fake_look()->count, 2);
	ck_assert_uint_eq(tracker_count(), 1);
	cuMemRelease(handle);
	ck_assert_uint_eq(fake_look_one(RECORD_FREE, API_cuMemRelease)->b, owner);
}
END_TEST

START_TEST(a_refused_release_keeps_the_reference)
{
	CUmemGenericAllocationHandle handle;
	struct block block;

	create_handle(&handle);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuMemRelease(handle);
	ck_assert_int_eq(fake_look_one(RECORD_FREE, API_cuMemRelease)->result, 1);
	ck_assert(tracker_find(SPACE_HANDLE, handle, &block));
	ck_assert_uint_eq(block.references, 1);
}
END_TEST

static CUresult CUDAAPI ipc_open(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	(void)handle;
	(void)flags;
	*address = fake_address;
	return fake_result;
}

static CUresult CUDAAPI tell_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	*base = address;
	*bytes = 12345;
	return CUDA_SUCCESS;
}

START_TEST(an_import_is_closed_as_often_as_opened)
{
	CUipcMemHandle handle = { { 0 } };
	CUdeviceptr address;
	const struct record *record;

	fake_set(API_cuIpcOpenMemHandle_v2, ipc_open);
	fake_set(API_cuIpcCloseMemHandle, fake_free_address);
	fake_set(API_cuMemGetAddressRange_v2, tell_range);
	fake_address = 0x8000;
	cuIpcOpenMemHandle_v2(&address, handle, 0);
	record = fake_look_one(RECORD_ALLOC, API_cuIpcOpenMemHandle_v2);
	ck_assert_int_eq(record->aux & 0xff, BLOCK_IPC);
	ck_assert_uint_eq(record->c, 12345);
	ck_assert(record->flags & RECORD_VIEW);
	cuIpcOpenMemHandle_v2(&address, handle, 0);
	fake_look_one(RECORD_OPERATION, API_cuIpcOpenMemHandle_v2);
	cuIpcCloseMemHandle(0x8000);
	fake_look_one(RECORD_OPERATION, API_cuIpcCloseMemHandle);
	cuIpcCloseMemHandle(0x8000);
	fake_look_one(RECORD_FREE, API_cuIpcCloseMemHandle);
}
END_TEST

static CUresult CUDAAPI find_global(CUdeviceptr *address, size_t *bytes, CUmodule module,
				    const char *name)
{
	(void)module;
	(void)name;
	*address = fake_address;
	if (bytes)
		*bytes = 256;
	return fake_result;
}

static CUresult CUDAAPI unload(CUmodule module)
{
	(void)module;
	return fake_result;
}

START_TEST(a_variable_is_a_block_until_its_module_goes)
{
	CUmodule module = (CUmodule)0x6000;
	CUdeviceptr address;
	size_t bytes;
	const struct fake_look *look;

	fake_set(API_cuModuleGetGlobal_v2, find_global);
	fake_set(API_cuModuleUnload, unload);
	fake_address = 0x9000;
	cuModuleGetGlobal_v2(&address, &bytes, module, "x");
	ck_assert(fake_look_one(RECORD_ALLOC, API_cuModuleGetGlobal_v2)->flags & RECORD_MORE);
	cuModuleGetGlobal_v2(&address, NULL, module, "x");
	ck_assert_uint_eq(fake_look()->count, 0);
	ck_assert_uint_eq(fake_counted(API_cuModuleGetGlobal_v2), 2);
	fake_result = CUDA_ERROR_INVALID_HANDLE;
	cuModuleUnload(module);
	fake_look_one(RECORD_OPERATION, API_cuModuleUnload);
	ck_assert_uint_eq(tracker_count(), 1);
	fake_result = CUDA_SUCCESS;
	cuModuleUnload(module);
	look = fake_look();
	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[1].kind, RECORD_FREE);
	ck_assert_uint_eq(look->record[1].c, 256);
	ck_assert_uint_eq(tracker_count(), 0);
}
END_TEST

START_TEST(a_variable_has_a_size_that_nobody_asked_for)
{
	CUdeviceptr address;

	fake_set(API_cuModuleGetGlobal_v2, find_global);
	fake_set(API_cuMemGetAddressRange_v2, tell_range);
	fake_address = 0x9000;
	cuModuleGetGlobal_v2(&address, NULL, (CUmodule)0x6000, "x");
	ck_assert_uint_eq(fake_look_one(RECORD_ALLOC, API_cuModuleGetGlobal_v2)->c, 12345);
}
END_TEST

static CUresult CUDAAPI create_array(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	(void)shape;
	*handle = (CUarray)0x7000;
	return fake_result;
}

static uint64_t bytes_of_array(CUDA_ARRAY3D_DESCRIPTOR shape)
{
	CUarray handle;

	cuArray3DCreate_v2(&handle, &shape);
	return fake_look_one(RECORD_ALLOC, API_cuArray3DCreate_v2)->c;
}

START_TEST(an_array_needs_what_its_shape_says)
{
	fake_set(API_cuArray3DCreate_v2, create_array);
	ck_assert_uint_eq(bytes_of_array((CUDA_ARRAY3D_DESCRIPTOR){
				  .Width = 100, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 }),
			  1600);
	ck_assert_uint_eq(bytes_of_array((CUDA_ARRAY3D_DESCRIPTOR){ .Width = 8,
								    .Height = 4,
								    .Depth = 2,
								    .Format = CU_AD_FORMAT_HALF,
								    .NumChannels = 1 }),
			  128);
	ck_assert_uint_eq(
		bytes_of_array((CUDA_ARRAY3D_DESCRIPTOR){
			.Width = 64, .Height = 32, .Format = CU_AD_FORMAT_NV12, .NumChannels = 3 }),
		64 * 32 * 3 / 2);
	ck_assert_uint_eq(bytes_of_array((CUDA_ARRAY3D_DESCRIPTOR){ .Width = 64,
								    .Format = CU_AD_FORMAT_FLOAT,
								    .NumChannels = 1,
								    .Flags = CUDA_ARRAY3D_SPARSE }),
			  0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hook_memory");
	TCase *memory = tcase_create("memory");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(memory, fake_start, fake_stop);
	tcase_add_test(memory, an_allocation_and_its_free_share_an_id);
	tcase_add_test(memory, a_refused_free_leaves_the_block);
	tcase_add_test(memory, what_managed_memory_gives_back_is_weighed);
	tcase_add_test(memory, an_address_reused_within_its_free_stays);
	tcase_add_test(memory, an_unknown_block_is_freed_untracked);
	tcase_add_test(memory, outputs_of_a_failed_call_are_not_read);
	tcase_add_test(memory, physical_memory_may_lie_on_the_host);
	tcase_add_test(memory, memory_of_a_stream_lies_on_its_device);
	tcase_add_test(memory, memory_of_a_pool_lies_where_the_pool_does);
	tcase_add_test(memory, physical_memory_ends_with_its_last_mapping);
	tcase_add_test(memory, one_unmap_ends_neighbouring_mappings);
	tcase_add_test(memory, a_refused_release_keeps_the_reference);
	tcase_add_test(memory, an_import_is_closed_as_often_as_opened);
	tcase_add_test(memory, a_variable_is_a_block_until_its_module_goes);
	tcase_add_test(memory, a_variable_has_a_size_that_nobody_asked_for);
	tcase_add_test(memory, an_array_needs_what_its_shape_says);
	suite_add_tcase(suite, memory);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
