/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real wrappers in front of a driver that does as it is told: memory that
 * is held by a multicast object, by a sparse array, by a graphics interface.
 */
#include "core/tracker.h"
#include "fake_driver.h"
#include "intercept/call.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY = FAKE_MEMORY, OBJECT = 0x44, MIB = 1 << 20 };

static CUresult CUDAAPI create_object(CUmemGenericAllocationHandle *handle,
				      const CUmulticastObjectProp *properties)
{
	(void)properties;
	*handle = OBJECT;
	return fake_result;
}

static CUresult CUDAAPI bind_memory(CUmemGenericAllocationHandle object, size_t offset,
				    CUmemGenericAllocationHandle memory, size_t memory_offset,
				    size_t bytes, unsigned long long flags)
{
	(void)object;
	(void)offset;
	(void)memory;
	(void)memory_offset;
	(void)bytes;
	(void)flags;
	return fake_result;
}

static CUresult CUDAAPI bind_address(CUmemGenericAllocationHandle object, size_t offset,
				     CUdeviceptr address, size_t bytes, unsigned long long flags)
{
	(void)object;
	(void)offset;
	(void)address;
	(void)bytes;
	(void)flags;
	return fake_result;
}

static CUresult CUDAAPI unbind(CUmemGenericAllocationHandle object, CUdevice device, size_t offset,
			       size_t bytes)
{
	(void)object;
	(void)device;
	(void)offset;
	(void)bytes;
	return fake_result;
}

static CUresult CUDAAPI map_array(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	(void)list;
	(void)count;
	(void)stream;
	return fake_result;
}

static CUresult CUDAAPI create_array(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	(void)shape;
	*array = (CUarray)0x6600;
	return fake_result;
}

static CUresult CUDAAPI destroy_array(CUarray array)
{
	(void)array;
	return fake_result;
}

static void start(void)
{
	fake_start();
	fake_set_mapping();
	fake_set(API_cuMulticastCreate, create_object);
	fake_set(API_cuMulticastBindMem, bind_memory);
	fake_set(API_cuMulticastBindAddr, bind_address);
	fake_set(API_cuMulticastUnbind, unbind);
	fake_set(API_cuMemMapArrayAsync, map_array);
	fake_set(API_cuArray3DCreate_v2, create_array);
	fake_set(API_cuArrayDestroy, destroy_array);
}

/* A handle on device 0; the id of its block. */
static uint64_t make_memory(void)
{
	const CUmemAllocationProp properties = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle handle;

	cuMemCreate(&handle, 2 * MIB, &properties, 0);
	return fake_look_one(RECORD_ALLOC, API_cuMemCreate)->b;
}

static void make_object(void)
{
	CUmemGenericAllocationHandle handle;

	cuMulticastCreate(&handle, NULL);
	fake_look_one(RECORD_ALLOC, API_cuMulticastCreate);
}

static bool lives(uint64_t handle)
{
	struct block block;

	return tracker_find(SPACE_HANDLE, handle, &block);
}

/* The last record since the last look ends this block, by a call of this function. */
static void expect_end(uint64_t id, enum api api)
{
	const struct fake_look *look = fake_look();
	const struct record *last = &look->record[look->count - 1];

	ck_assert_uint_gt(look->count, 0);
	ck_assert_int_eq(last->kind, RECORD_FREE);
	ck_assert_int_eq(last->api, api);
	ck_assert_uint_eq(last->b, id);
}

START_TEST(bound_memory_lives_until_it_is_unbound)
{
	uint64_t id = make_memory();

	make_object();
	cuMulticastBindMem(OBJECT, 0, MEMORY, 0, 2 * MIB, 0);
	fake_look_one(RECORD_OPERATION, API_cuMulticastBindMem);
	cuMemRelease(MEMORY);
	fake_look_one(RECORD_OPERATION, API_cuMemRelease);
	ck_assert(lives(MEMORY));
	cuMulticastUnbind(OBJECT, 1, 0, 2 * MIB); /* memory of another device */
	fake_look_one(RECORD_OPERATION, API_cuMulticastUnbind);
	ck_assert(lives(MEMORY));
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuMulticastUnbind(OBJECT, 0, 0, 2 * MIB);
	fake_look_one(RECORD_OPERATION, API_cuMulticastUnbind);
	ck_assert(lives(MEMORY));
	fake_result = CUDA_SUCCESS;
	cuMulticastUnbind(OBJECT, 0, 0, 2 * MIB);
	expect_end(id, API_cuMulticastUnbind);
	ck_assert(!lives(MEMORY));
	ck_assert(lives(OBJECT));
}
END_TEST

START_TEST(bound_memory_goes_with_the_object)
{
	uint64_t id = make_memory();

	make_object();
	cuMemMap(0x700000000000, 2 * MIB, 0, MEMORY, 0);
	fake_look();
	cuMulticastBindAddr(OBJECT, 0, 0x700000000000, 2 * MIB, 0);
	fake_look_one(RECORD_OPERATION, API_cuMulticastBindAddr);
	cuMemUnmap(0x700000000000, 2 * MIB);
	cuMemRelease(MEMORY);
	fake_look();
	ck_assert(lives(MEMORY));
	cuMemRelease(OBJECT);
	expect_end(id, API_cuMemRelease);
	ck_assert(!lives(MEMORY));
	ck_assert(!lives(OBJECT));
}
END_TEST

START_TEST(a_refused_binding_holds_nothing)
{
	uint64_t id = make_memory();

	make_object();
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuMulticastBindMem(OBJECT, 0, MEMORY, 0, 2 * MIB, 0);
	fake_look();
	fake_result = CUDA_SUCCESS;
	cuMemRelease(MEMORY);
	expect_end(id, API_cuMemRelease);
}
END_TEST

static CUarray make_array(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1,
		.Flags = CUDA_ARRAY3D_SPARSE,
	};
	CUarray array = NULL;

	cuArray3DCreate_v2(&array, &shape);
	ck_assert_uint_eq(fake_look_one(RECORD_ALLOC, API_cuArray3DCreate_v2)->c, 0);
	return array;
}

static CUarrayMapInfo part_of(CUarray array, unsigned int x, unsigned int width,
			      CUmemGenericAllocationHandle memory)
{
	CUarrayMapInfo info;

	memset(&info, 0, sizeof(info));
	info.resourceType = CU_RESOURCE_TYPE_ARRAY;
	info.resource.array = array;
	info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
	info.subresource.sparseLevel.offsetX = x;
	info.subresource.sparseLevel.extentWidth = width;
	info.subresource.sparseLevel.extentHeight = 128;
	info.subresource.sparseLevel.extentDepth = 1;
	info.memOperationType = memory ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
	info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
	info.memHandle.memHandle = memory;
	return info;
}

/* Two parts of one array hold the memory; one unmapping of both lets it go. */
START_TEST(memory_of_an_array_lives_until_its_parts_are_unmapped)
{
	uint64_t id = make_memory();
	CUarray array = make_array();
	CUarrayMapInfo parts[2] = { part_of(array, 0, 128, MEMORY),
				    part_of(array, 128, 128, MEMORY) };
	CUarrayMapInfo first = part_of(array, 0, 128, 0), all = part_of(array, 0, 256, 0);

	cuMemMapArrayAsync(parts, 2, NULL);
	ck_assert_uint_eq(fake_look_one(RECORD_OPERATION, API_cuMemMapArrayAsync)->a,
			  (uintptr_t)array);
	cuMemRelease(MEMORY);
	cuMemMapArrayAsync(&first, 1, NULL);
	fake_look();
	ck_assert(lives(MEMORY));
	cuMemMapArrayAsync(&all, 1, NULL);
	expect_end(id, API_cuMemMapArrayAsync);
	ck_assert(!lives(MEMORY));
}
END_TEST

START_TEST(memory_of_an_array_goes_with_it)
{
	uint64_t id = make_memory();
	CUarray array = make_array();
	CUarrayMapInfo part = part_of(array, 0, 128, MEMORY);

	cuMemMapArrayAsync(&part, 1, NULL);
	cuMemRelease(MEMORY);
	fake_look();
	ck_assert(lives(MEMORY));
	cuArrayDestroy(array);
	expect_end(id, API_cuArrayDestroy);
	ck_assert(!lives(MEMORY));
}
END_TEST

static CUresult CUDAAPI tell_pointer(CUdeviceptr *address, size_t *bytes,
				     CUgraphicsResource resource)
{
	(void)resource;
	*address = 0x710000000000;
	*bytes = 4096;
	return fake_result;
}

static CUresult CUDAAPI unmap_resources(unsigned int count, CUgraphicsResource *resources,
					CUstream stream)
{
	(void)count;
	(void)resources;
	(void)stream;
	return fake_result;
}

START_TEST(graphics_memory_is_a_block_while_it_is_mapped)
{
	CUgraphicsResource resource = (CUgraphicsResource)0x9900;
	CUdeviceptr address;
	struct block block;
	size_t bytes;
	uint64_t id;

	fake_set(API_cuGraphicsResourceGetMappedPointer_v2, tell_pointer);
	fake_set(API_cuGraphicsUnmapResources, unmap_resources);
	cuGraphicsResourceGetMappedPointer_v2(&address, &bytes, resource);
	id = fake_look_one(RECORD_ALLOC, API_cuGraphicsResourceGetMappedPointer_v2)->b;
	ck_assert(tracker_find(SPACE_ADDRESS, address + 100, &block));
	ck_assert_int_eq(block.kind, BLOCK_EXTERNAL);
	cuGraphicsResourceGetMappedPointer_v2(&address, &bytes, resource);
	ck_assert_uint_eq(fake_look()->count, 0);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuGraphicsUnmapResources(1, &resource, NULL);
	fake_look_one(RECORD_OPERATION, API_cuGraphicsUnmapResources);
	ck_assert(tracker_find(SPACE_ADDRESS, address, &block));
	fake_result = CUDA_SUCCESS;
	cuGraphicsUnmapResources(1, &resource, NULL);
	expect_end(id, API_cuGraphicsUnmapResources);
	ck_assert(!tracker_find(SPACE_ADDRESS, address, &block));
}
END_TEST

static CUresult CUDAAPI export_handle(void *shareable, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	(void)shareable;
	(void)handle;
	(void)type;
	(void)flags;
	return fake_result;
}

/* A handle is no address: only its id tells a reader which block it is. */
START_TEST(an_exported_handle_names_its_block)
{
	uint64_t id = make_memory();
	const struct record *record;
	int fd;

	fake_set(API_cuMemExportToShareableHandle, export_handle);
	cuMemExportToShareableHandle(&fd, MEMORY, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	record = fake_look_one(RECORD_OPERATION, API_cuMemExportToShareableHandle);
	ck_assert(record->flags & RECORD_EXPORTED);
	ck_assert_uint_eq(record->b, id);
}
END_TEST

static CUresult CUDAAPI import_memory(CUmemGenericAllocationHandle *handle, void *shareable,
				      CUmemAllocationHandleType type)
{
	(void)shareable;
	(void)type;
	*handle = MEMORY;
	return fake_result;
}

/* A driver that gives the handle it has already gives one reference more. */
START_TEST(own_memory_imported_again_is_released_twice)
{
	uint64_t id = make_memory();

	fake_set(API_cuMemImportFromShareableHandle, import_memory);
	cuMemImportFromShareableHandle(&(CUmemGenericAllocationHandle){ 0 }, NULL,
				       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	fake_look_one(RECORD_OPERATION, API_cuMemImportFromShareableHandle);
	cuMemRelease(MEMORY);
	fake_look_one(RECORD_OPERATION, API_cuMemRelease);
	cuMemRelease(MEMORY);
	expect_end(id, API_cuMemRelease);
}
END_TEST

static CUresult CUDAAPI do_memory_ops(CUstream stream, unsigned int count,
				      CUstreamBatchMemOpParams *list, unsigned int flags)
{
	(void)stream;
	(void)count;
	(void)list;
	(void)flags;
	return fake_result;
}

START_TEST(each_memory_operation_of_a_batch_has_its_address)
{
	CUstreamBatchMemOpParams list[3];
	const struct fake_look *look;

	memset(list, 0, sizeof(list));
	list[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	list[0].writeValue.address = 0x7000;
	list[1].operation = CU_STREAM_MEM_OP_BARRIER;
	list[2].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
	list[2].waitValue.address = 0x7008;
	fake_set(API_cuStreamBatchMemOp_v2, do_memory_ops);
	cuStreamBatchMemOp_v2(NULL, 3, list, 0);
	look = fake_look();
	ck_assert_uint_eq(look->count, 3);
	ck_assert_uint_eq(look->record[0].a, 0x7000);
	ck_assert(!(look->record[0].flags & RECORD_MORE));
	ck_assert_uint_eq(look->record[1].a, 0);
	ck_assert_uint_eq(look->record[2].a, 0x7008);
	ck_assert(look->record[2].flags & RECORD_MORE);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuStreamBatchMemOp_v2(NULL, 3, list, 0);
	ck_assert_uint_eq(fake_look_one(RECORD_OPERATION, API_cuStreamBatchMemOp_v2)->a, 0);
}
END_TEST

static CUresult CUDAAPI set_pool(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	(void)pool;
	(void)attribute;
	(void)value;
	return fake_result;
}

static CUresult CUDAAPI advise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
			       CUmemLocation location)
{
	(void)address;
	(void)bytes;
	(void)advice;
	(void)location;
	return fake_result;
}

static CUresult CUDAAPI import_external(CUexternalMemory *memory,
					const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle)
{
	(void)handle;
	*memory = (CUexternalMemory)0x8800;
	return fake_result;
}

/* What is set, advised and imported stands in the record, beside what it is about. */
START_TEST(settings_say_what_they_set)
{
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC handle = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 3 * MIB,
	};
	CUmemLocation location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemoryPool pool = (CUmemoryPool)0xaa00;
	cuuint64_t threshold = 5 * MIB;
	const struct record *record;
	CUexternalMemory memory;

	fake_set(API_cuMemPoolSetAttribute, set_pool);
	cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	record = fake_look_one(RECORD_OPERATION, API_cuMemPoolSetAttribute);
	ck_assert_uint_eq(record->a, (uintptr_t)pool);
	ck_assert_uint_eq(record->b, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
	ck_assert_uint_eq(record->c, 5 * MIB);
	fake_set(API_cuMemAdvise_v2, advise);
	cuMemAdvise_v2(0x7000, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, location);
	record = fake_look_one(RECORD_OPERATION, API_cuMemAdvise_v2);
	ck_assert_uint_eq(record->a, 0x7000);
	ck_assert_uint_eq(record->b, CU_MEM_ADVISE_SET_READ_MOSTLY);
	ck_assert_uint_eq(record->c, 4096);
	fake_set(API_cuImportExternalMemory, import_external);
	cuImportExternalMemory(&memory, &handle);
	record = fake_look_one(RECORD_OPERATION, API_cuImportExternalMemory);
	ck_assert_uint_eq(record->b, CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD);
	ck_assert_uint_eq(record->c, 3 * MIB);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL);
	ck_assert_uint_eq(fake_look_one(RECORD_OPERATION, API_cuMemPoolSetAttribute)->c, 0);
}
END_TEST

static const void *private_functions[] = { NULL };

static CUresult CUDAAPI give_table(const void **table, const CUuuid *id)
{
	(void)id;
	*table = private_functions;
	return fake_result;
}

START_TEST(a_private_table_is_named_once)
{
	const CUuuid id = { .bytes = { 1, 2, 3 } };
	const void *table;

	fake_set(API_cuGetExportTable, give_table);
	cuGetExportTable(&table, &id);
	ck_assert_uint_eq(fake_look_one(RECORD_UNCOVERED, 0)->a, (uintptr_t)private_functions);
	cuGetExportTable(&table, &id);
	ck_assert_uint_eq(fake_look()->count, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hook_hold");
	TCase *held = tcase_create("held");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(held, start, fake_stop);
	tcase_add_test(held, bound_memory_lives_until_it_is_unbound);
	tcase_add_test(held, bound_memory_goes_with_the_object);
	tcase_add_test(held, a_refused_binding_holds_nothing);
	tcase_add_test(held, memory_of_an_array_lives_until_its_parts_are_unmapped);
	tcase_add_test(held, memory_of_an_array_goes_with_it);
	tcase_add_test(held, graphics_memory_is_a_block_while_it_is_mapped);
	tcase_add_test(held, an_exported_handle_names_its_block);
	tcase_add_test(held, own_memory_imported_again_is_released_twice);
	tcase_add_test(held, each_memory_operation_of_a_batch_has_its_address);
	tcase_add_test(held, settings_say_what_they_set);
	tcase_add_test(held, a_private_table_is_named_once);
	suite_add_tcase(suite, held);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
