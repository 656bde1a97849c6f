/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit of 64 MiB on a device of 1 GiB, of which the test says how much is in
 * use: what is told, what is refused, and what happens before it is.
 */
#include "core/context.h"
#include "core/gate.h"
#include "fake_queue.h"
#include "intercept/deferral.h"
#include "intercept/limit.h"
#include "intercept/real.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 2 << 20, LIMIT = 64 * MIB };

static _Atomic uint64_t used;	  /* of device 0 */
static _Atomic uint64_t used_by_1; /* of device 1, which the context 0x2000 is on */
static _Atomic uint32_t questions, pool_questions, trims;
static _Atomic uint64_t reserved, in_pool;

static CUresult CUDAAPI tell_memory(size_t *is_free, size_t *total)
{
	atomic_fetch_add(&questions, 1);
	*total = FAKE_TOTAL;
	*is_free = FAKE_TOTAL - (fake_context == (CUcontext)0x2000 ? atomic_load(&used_by_1) :
								     atomic_load(&used));
	return CUDA_SUCCESS;
}

/* As if no block shared a page with others. */
static CUresult CUDAAPI take(CUdeviceptr *address, size_t bytes)
{
	static _Atomic uint64_t next = 0x900000000;

	*address = atomic_fetch_add(&next, (bytes + PAGE - 1) / PAGE * PAGE);
	atomic_fetch_add(&used, (bytes + PAGE - 1) / PAGE * PAGE);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI take_pooled(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	(void)stream;
	return take(address, bytes);
}

static CUresult CUDAAPI create(CUmemGenericAllocationHandle *handle, size_t bytes,
			       const CUmemAllocationProp *properties, unsigned long long flags)
{
	(void)flags;
	atomic_fetch_add(properties->location.id ? &used_by_1 : &used, bytes);
	*handle = 0xabc0 + atomic_fetch_add(&questions, 1);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI current_pool(CUmemoryPool *pool, CUdevice device)
{
	(void)device;
	*pool = (CUmemoryPool)0x4000;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI ask_pool(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	ck_assert_ptr_eq(pool, (CUmemoryPool)0x4000);
	atomic_fetch_add(&pool_questions, 1);
	*(cuuint64_t *)value = attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ?
				       atomic_load(&in_pool) :
				       atomic_load(&reserved);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI trim(CUmemoryPool pool, size_t keep)
{
	ck_assert_ptr_eq(pool, (CUmemoryPool)0x4000);
	ck_assert_uint_eq(keep, 0);
	atomic_fetch_add(&trims, 1);
	atomic_fetch_sub(&used, atomic_load(&reserved) - atomic_load(&in_pool));
	atomic_store(&reserved, atomic_load(&in_pool));
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI attribute(int *value, CUdevice_attribute which, CUdevice device)
{
	(void)which;
	(void)device;
	*value = 1;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI total_memory_old(unsigned int *bytes, CUdevice device)
{
	(void)device;
	*bytes = FAKE_TOTAL;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI tell_memory_old(unsigned int *is_free, unsigned int *total)
{
	*is_free = 1;
	*total = 2;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI device_of_context(CUdevice *device)
{
	*device = fake_context == (CUcontext)0x2000;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI set_context(CUcontext context)
{
	fake_context = context;
	return CUDA_SUCCESS;
}

static void start_under(const char *policy, const char *limit)
{
	setenv("CUSTODY_LIMIT", limit, 1);
	fake_queue_prepare(policy, false);
	fake_set(API_cuMemGetInfo_v2, tell_memory);
	fake_set(API_cuMemGetInfo, tell_memory_old);
	fake_set(API_cuDeviceTotalMem, total_memory_old);
	fake_set(API_cuDeviceGetAttribute, attribute);
	fake_set(API_cuDeviceGetDefaultMemPool, current_pool);
	fake_set(API_cuDeviceGetMemPool, current_pool);
	fake_set(API_cuMemPoolGetAttribute, ask_pool);
	fake_set(API_cuMemPoolTrimTo, trim);
	fake_set(API_cuMemAllocAsync, take_pooled);
	fake_set(API_cuMemCreate, create);
	fake_start();
	fake_set(API_cuCtxGetDevice, device_of_context);
	fake_set(API_cuCtxSetCurrent, set_context);
	fake_set(API_cuMemAlloc_v2, take);
	fake_look();
}

static void start(void)
{
	start_under("immediate", "64MiB");
}

static void start_nowait(void)
{
	start_under("nowait", "64MiB");
}

static void start_without(void)
{
	start_under("immediate", "none");
}

static CUresult allocate(size_t bytes)
{
	CUdeviceptr address = 0;

	return cuMemAlloc_v2(&address, bytes);
}

/* The records of the program's last call; other ones may tell of readings. */
static const struct record *last_alloc(void)
{
	const struct fake_look *look = fake_look();

	for (uint32_t i = look->count; i-- > 0;)
		if (look->record[i].kind == RECORD_ALLOC)
			return &look->record[i];
	ck_abort_msg("no allocation was recorded");
	return NULL;
}

START_TEST(a_device_is_no_larger_than_the_limit)
{
	unsigned int small_free = 0, small_total = 0;
	size_t is_free = 0, total = 0;

	atomic_store(&used, 10 * MIB);
	ck_assert_int_eq(cuDeviceTotalMem_v2(&total, 0), CUDA_SUCCESS);
	ck_assert_uint_eq(total, LIMIT);
	ck_assert_int_eq(cuDeviceTotalMem(&small_total, 0), CUDA_SUCCESS);
	ck_assert_uint_eq(small_total, LIMIT);
	ck_assert_int_eq(cuMemGetInfo_v2(&is_free, &total), CUDA_SUCCESS);
	ck_assert_uint_eq(total, LIMIT);
	ck_assert_uint_eq(is_free, 54 * MIB);
	ck_assert_int_eq(cuMemGetInfo(&small_free, &small_total), CUDA_SUCCESS);
	ck_assert_uint_eq(small_total, LIMIT);
	ck_assert_uint_eq(small_free, 54 * MIB);
	atomic_store(&used, 65 * MIB);
	ck_assert_int_eq(cuMemGetInfo_v2(&is_free, &total), CUDA_SUCCESS);
	ck_assert_uint_eq(is_free, 0);
}
END_TEST

START_TEST(what_fits_is_given_and_what_does_not_is_refused)
{
	const struct record *record;
	CUdeviceptr address = 0x77;

	atomic_store(&used, 10 * MIB);
	ck_assert_int_eq(allocate(54 * MIB), CUDA_SUCCESS);
	atomic_store(&used, 10 * MIB);
	fake_look();
	errno = ENOTDIR;
	ck_assert_int_eq(cuMemAlloc_v2(&address, 54 * MIB + 1), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(errno, ENOTDIR);
	ck_assert_uint_eq(address, 0x77);
	ck_assert_uint_eq(atomic_load(&used), 10 * MIB);
	record = last_alloc();
	ck_assert_int_eq(record->result, CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(record->b, FAILURE_LIMIT);
	ck_assert_uint_eq(record->c, 54 * MIB + 1);
	ck_assert_int_eq(record->flags, 0);
	ck_assert_int_eq(allocate(UINT64_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate(UINT64_MAX - PAGE), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate(54 * MIB), CUDA_SUCCESS);
}
END_TEST

START_TEST(sizes_that_are_no_number_are_refused)
{
	CUdeviceptr address = 0;
	size_t pitch = 0;

	ck_assert_int_eq(cuMemAllocPitch_v2(&address, &pitch, UINT64_C(1) << 40, UINT64_C(1) << 40,
					    4),
			 CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(a_small_block_finds_room_in_a_page_that_is_begun)
{
	ck_assert_int_eq(allocate(MIB), CUDA_SUCCESS);
	atomic_store(&used, LIMIT);
	ck_assert_int_eq(allocate(MIB + 1), CUDA_ERROR_OUT_OF_MEMORY);
	/* The fake driver begins a page for each, so from here on it is over the limit. */
	ck_assert_int_eq(allocate(MIB), CUDA_SUCCESS);
	ck_assert_uint_gt(atomic_load(&used), LIMIT);
	ck_assert_int_eq(allocate(256), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(a_small_block_needs_a_page_where_none_has_room)
{
	ck_assert_int_eq(allocate(PAGE), CUDA_SUCCESS);
	atomic_store(&used, LIMIT);
	ck_assert_int_eq(allocate(256), CUDA_ERROR_OUT_OF_MEMORY);
	atomic_store(&used, LIMIT - PAGE);
	ck_assert_int_eq(allocate(256), CUDA_SUCCESS);
}
END_TEST

/* Of a block of 3 MiB half a page is left, of one of 512 KiB three quarters. */
START_TEST(what_is_left_of_a_page_is_for_whatever_fits)
{
	ck_assert_int_eq(allocate(3 * MIB), CUDA_SUCCESS);
	atomic_store(&used, LIMIT);
	ck_assert_int_eq(allocate(3 * MIB / 2), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate(MIB + 1), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate(MIB), CUDA_SUCCESS);
	atomic_store(&used, 0);
	ck_assert_int_eq(allocate(MIB / 2), CUDA_SUCCESS);
	atomic_store(&used, LIMIT);
	ck_assert_int_eq(allocate(3 * MIB / 2 + 1), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate(3 * MIB / 2), CUDA_SUCCESS);
}
END_TEST

static CUresult make_array(size_t rows)
{
	CUDA_ARRAY_DESCRIPTOR shape = { .Width = 1024, .Height = rows,
					.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	CUarray array;

	return cuArrayCreate_v2(&array, &shape);
}

START_TEST(arrays_share_pages_with_arrays)
{
	CUDA_ARRAY3D_DESCRIPTOR sparse = { .Width = 1 << 14, .Height = 1 << 14,
					   .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1,
					   .Flags = CUDA_ARRAY3D_SPARSE };
	CUarray array;

	atomic_store(&used, LIMIT);
	ck_assert_int_eq(make_array(16), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(last_alloc()->b, FAILURE_LIMIT);
	atomic_store(&used, LIMIT - PAGE);
	ck_assert_int_eq(make_array(513), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(make_array(128), CUDA_SUCCESS);
	atomic_store(&used, LIMIT);
	ck_assert_int_eq(make_array(385), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(make_array(384), CUDA_SUCCESS);
	ck_assert_int_eq(make_array(1), CUDA_ERROR_OUT_OF_MEMORY);
	fake_set(API_cuArray3DCreate_v2, real_driver[API_cuArrayCreate_v2]);
	ck_assert_int_eq(cuArray3DCreate_v2(&array, &sparse), CUDA_SUCCESS);
	ck_assert_int_ne(cuArray3DCreate_v2(&array, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(what_is_pending_is_released_first)
{
	CUdeviceptr address = 0;
	const struct fake_look *look;
	uint32_t i = 0;

	ck_assert_int_eq(cuMemAlloc_v2(&address, 10 * MIB), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&pending_total), 1);
	fake_look();
	/* It is released, and another process has its bytes at once. */
	atomic_store(&used, LIMIT);
	ck_assert_int_eq(allocate(10 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
	look = fake_look();
	while (i < look->count && look->record[i].kind != RECORD_ALLOC)
		i++;
	ck_assert_uint_lt(i, look->count);
	ck_assert_int_eq(look->record[i].flags, RECORD_BY_CUSTODY | RECORD_MORE);
	ck_assert_uint_eq(look->record[i].b, FAILURE_LIMIT);
}
END_TEST

static void give_back(void)
{
	atomic_store(&used, LIMIT - 10 * MIB);
}

START_TEST(the_call_succeeds_once_there_is_room)
{
	CUdeviceptr address = 0;

	ck_assert_int_eq(cuMemAlloc_v2(&address, 10 * MIB), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	atomic_store(&used, LIMIT);
	fake_on_release = give_back;
	ck_assert_int_eq(allocate(10 * MIB), CUDA_SUCCESS);
	fake_on_release = NULL;
	ck_assert_uint_eq(atomic_load(&used), LIMIT);
	ck_assert_int_eq(last_alloc()->result, CUDA_SUCCESS);
}
END_TEST

START_TEST(pools_give_back_what_they_keep)
{
	atomic_store(&used, 50 * MIB);
	atomic_store(&reserved, 40 * MIB);
	atomic_store(&in_pool, 10 * MIB);
	ck_assert_int_eq(allocate(14 * MIB), CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&trims), 0);
	ck_assert_int_eq(allocate(30 * MIB), CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&trims), 1);
	ck_assert_uint_eq(atomic_load(&used), LIMIT);
	ck_assert_int_eq(allocate(PAGE), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

static CUresult allocate_pooled(size_t bytes)
{
	CUdeviceptr address = 0;

	return cuMemAllocAsync(&address, bytes, (CUstream)0x3000);
}

static CUresult CUDAAPI keep_all(CUmemoryPool pool, size_t keep)
{
	(void)pool;
	(void)keep;
	return CUDA_SUCCESS;
}

START_TEST(a_pool_hands_out_what_it_keeps_up_to_the_limit)
{
	/* It took 32 MiB for its first 4, and the device seems fuller than it can be. */
	atomic_store(&used, 70 * MIB);
	atomic_store(&reserved, 32 * MIB);
	atomic_store(&in_pool, 20 * MIB);
	fake_set(API_cuMemPoolTrimTo, keep_all);
	ck_assert_int_eq(allocate_pooled(6 * MIB + 1), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(last_alloc()->b, FAILURE_LIMIT);
	ck_assert_int_eq(allocate_pooled(6 * MIB), CUDA_SUCCESS);
	/* What it keeps is not enough: it would have to grow. */
	atomic_store(&used, 60 * MIB);
	ck_assert_int_eq(allocate_pooled(13 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

static _Atomic uint32_t frees;

/* A pool whose idle bytes are in pieces: it has enough, and grows all the same. */
static CUresult CUDAAPI grow_pool(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	(void)stream;
	atomic_fetch_add(&used, 32 * MIB);
	*address = 0x900000000 + bytes;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI free_pooled(CUdeviceptr address, CUstream stream)
{
	ck_assert_uint_eq(address, 0x900000000 + 30 * MIB);
	ck_assert_ptr_eq(stream, (CUstream)0x3000);
	atomic_fetch_add(&frees, 1);
	atomic_fetch_sub(&used, 32 * MIB);
	return CUDA_SUCCESS;
}

START_TEST(what_a_pool_has_grown_beyond_the_limit_for_is_given_back)
{
	CUdeviceptr address = 0x77;

	fake_set(API_cuMemPoolTrimTo, keep_all);
	fake_set(API_cuMemAllocAsync, grow_pool);
	fake_set(API_cuMemFreeAsync, free_pooled);
	atomic_store(&used, 40 * MIB);
	atomic_store(&reserved, 40 * MIB);
	atomic_store(&in_pool, 4 * MIB);
	errno = ENOTDIR;
	ck_assert_int_eq(cuMemAllocAsync(&address, 30 * MIB, (CUstream)0x3000),
			 CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(errno, ENOTDIR);
	ck_assert_uint_eq(address, 0x77);
	ck_assert_uint_eq(last_alloc()->b, FAILURE_LIMIT);
	ck_assert_uint_eq(atomic_load(&frees), 1);
	ck_assert_uint_eq(atomic_load(&used), 40 * MIB);
	/* So much beside what was asked for, no pool of a full device would have taken. */
	ck_assert_int_eq(cuMemAllocAsync(&address, 24 * MIB, (CUstream)0x3000), CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&frees), 1);
	atomic_store(&used, LIMIT + 129 * MIB);
	atomic_store(&reserved, 400 * MIB);
	ck_assert_int_eq(allocate_pooled(MIB), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(no_pool_is_asked_during_a_capture)
{
	atomic_store(&used, LIMIT);
	gate_shut();
	fake_set_capturing(true);
	ck_assert_int_eq(allocate(PAGE), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate_pooled(PAGE), CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&pool_questions), 0);
	ck_assert_uint_eq(atomic_load(&trims), 0);
	ck_assert_uint_eq(fake_spoilt(), 0);
	fake_set_capturing(false);
	gate_open();
	ck_assert_int_eq(allocate_pooled(PAGE), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

static CUmemAllocationProp place(CUmemLocationType type, int id)
{
	return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = type, .id = id } };
}

static CUresult create_on(int device, size_t bytes)
{
	CUmemAllocationProp properties = place(CU_MEM_LOCATION_TYPE_DEVICE, device);
	CUmemGenericAllocationHandle handle;

	return cuMemCreate(&handle, bytes, &properties, 0);
}

START_TEST(another_device_is_asked_in_a_context_of_its_own)
{
	CUcontext before = fake_context;

	ck_assert_int_eq(cuCtxSetCurrent((CUcontext)0x2000), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxSetCurrent(before), CUDA_SUCCESS);
	atomic_store(&used, LIMIT);
	atomic_store(&used_by_1, 4 * MIB);
	ck_assert_int_eq(create_on(1, 62 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(create_on(1, 60 * MIB), CUDA_SUCCESS);
	ck_assert_int_eq(create_on(0, PAGE), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_ptr_eq(fake_context, before);
	ck_assert_uint_eq(fake_calls(API_cuCtxPushCurrent_v2) > 0, 1);
}
END_TEST

START_TEST(no_other_context_is_touched_while_one_may_die)
{
	CUcontext before = fake_context;
	struct context other;
	uint32_t pushes;

	ck_assert_int_eq(cuCtxSetCurrent((CUcontext)0x2000), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxSetCurrent(before), CUDA_SUCCESS);
	ck_assert(context_find(0x2000, &other));
	atomic_store(&used_by_1, LIMIT);
	pushes = fake_calls(API_cuCtxPushCurrent_v2);
	context_close(other.number);
	ck_assert_int_eq(create_on(1, PAGE), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuCtxPushCurrent_v2), pushes);
	context_spare(other.number);
	ck_assert_int_eq(create_on(1, PAGE), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(what_the_program_has_counts_where_nobody_can_be_asked)
{
	ck_assert_int_eq(create_on(1, 40 * MIB), CUDA_SUCCESS);
	ck_assert_int_eq(create_on(1, 40 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(create_on(1, 24 * MIB), CUDA_SUCCESS);
}
END_TEST

START_TEST(the_host_has_no_limit)
{
	CUmemAllocationProp properties = place(CU_MEM_LOCATION_TYPE_HOST, 0);
	CUmemGenericAllocationHandle handle;
	CUdeviceptr managed = 0;
	void *host = NULL;

	atomic_store(&used, LIMIT);
	ck_assert_int_eq(cuMemAllocHost_v2(&host, 100 * MIB), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemAllocManaged(&managed, 100 * MIB, 1), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemCreate(&handle, 100 * MIB, &properties, 0), CUDA_SUCCESS);
}
END_TEST

static _Atomic bool is_held, is_inside;

/* Stands in the driver until it is let go, as behind a free of another thread. */
static CUresult CUDAAPI take_slowly(CUdeviceptr *address, size_t bytes)
{
	if (bytes != 40 * MIB)
		return take(address, bytes);
	atomic_store(&is_inside, true);
	while (atomic_load(&is_held))
		usleep(100);
	return take(address, bytes);
}

static void *allocate_slowly(void *unused)
{
	(void)unused;
	ck_assert_int_eq(allocate(40 * MIB), CUDA_SUCCESS);
	return NULL;
}

START_TEST(two_threads_do_not_get_the_same_room)
{
	pthread_t other;

	fake_set(API_cuMemAlloc_v2, take_slowly);
	atomic_store(&is_held, true);
	ck_assert_int_eq(pthread_create(&other, NULL, allocate_slowly, NULL), 0);
	while (!atomic_load(&is_inside))
		usleep(100);
	/* Nothing is used yet, but 40 MiB are promised; and nobody waits for ever. */
	ck_assert_int_eq(allocate(26 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate(24 * MIB), CUDA_SUCCESS);
	atomic_store(&is_held, false);
	pthread_join(other, NULL);
	ck_assert_uint_eq(atomic_load(&used), LIMIT);
	ck_assert_int_eq(allocate(PAGE), CUDA_ERROR_OUT_OF_MEMORY);
	atomic_store(&used, 0);
	ck_assert_int_eq(allocate(LIMIT), CUDA_SUCCESS);
}
END_TEST

static void *let_go_soon(void *unused)
{
	(void)unused;
	usleep(2000);
	atomic_store(&used, 0);
	atomic_store(&is_held, false);
	return NULL;
}

static CUresult CUDAAPI fail_slowly(CUdeviceptr *address, size_t bytes)
{
	if (bytes != 40 * MIB)
		return take(address, bytes);
	atomic_store(&is_inside, true);
	while (atomic_load(&is_held))
		usleep(100);
	return CUDA_ERROR_INVALID_VALUE;
}

static void *fail_to_allocate(void *unused)
{
	(void)unused;
	ck_assert_int_eq(allocate(40 * MIB), CUDA_ERROR_INVALID_VALUE);
	return NULL;
}

START_TEST(room_that_another_thread_did_not_get_after_all_is_waited_for)
{
	pthread_t other, helper;

	fake_set(API_cuMemAlloc_v2, fail_slowly);
	atomic_store(&is_held, true);
	ck_assert_int_eq(pthread_create(&other, NULL, fail_to_allocate, NULL), 0);
	while (!atomic_load(&is_inside))
		usleep(100);
	ck_assert_int_eq(pthread_create(&helper, NULL, let_go_soon, NULL), 0);
	ck_assert_int_eq(allocate(26 * MIB), CUDA_SUCCESS);
	pthread_join(other, NULL);
	pthread_join(helper, NULL);
}
END_TEST

START_TEST(without_a_limit_nobody_asks)
{
	size_t total = 0;

	atomic_store(&questions, 0);
	ck_assert_int_eq(allocate(500 * MIB), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceTotalMem_v2(&total, 0), CUDA_SUCCESS);
	ck_assert_uint_eq(total, FAKE_TOTAL);
	ck_assert(!limit_is_on());
}
END_TEST

static CUresult CUDAAPI tell_nothing(size_t *is_free, size_t *total)
{
	(void)is_free;
	(void)total;
	return CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult CUDAAPI have_no_such_device(size_t *bytes, CUdevice device)
{
	(void)bytes;
	(void)device;
	return CUDA_ERROR_INVALID_DEVICE;
}

START_TEST(where_the_driver_cannot_say_it_decides)
{
	fake_set(API_cuMemGetInfo_v2, tell_nothing);
	fake_set(API_cuDeviceTotalMem_v2, have_no_such_device);
	ck_assert_int_eq(create_on(7, 100 * MIB), CUDA_SUCCESS);
	ck_assert_int_eq(create_on(1000, 100 * MIB), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(100 * MIB), CUDA_SUCCESS);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("room");
	TCase *tests = tcase_create("limit"), *nowait = tcase_create("nowait");
	TCase *none = tcase_create("none");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, start, fake_stop);
	tcase_add_test(tests, a_device_is_no_larger_than_the_limit);
	tcase_add_test(tests, what_fits_is_given_and_what_does_not_is_refused);
	tcase_add_test(tests, sizes_that_are_no_number_are_refused);
	tcase_add_test(tests, a_small_block_finds_room_in_a_page_that_is_begun);
	tcase_add_test(tests, a_small_block_needs_a_page_where_none_has_room);
	tcase_add_test(tests, what_is_left_of_a_page_is_for_whatever_fits);
	tcase_add_test(tests, arrays_share_pages_with_arrays);
	tcase_add_test(tests, pools_give_back_what_they_keep);
	tcase_add_test(tests, a_pool_hands_out_what_it_keeps_up_to_the_limit);
	tcase_add_test(tests, what_a_pool_has_grown_beyond_the_limit_for_is_given_back);
	tcase_add_test(tests, no_pool_is_asked_during_a_capture);
	tcase_add_test(tests, another_device_is_asked_in_a_context_of_its_own);
	tcase_add_test(tests, no_other_context_is_touched_while_one_may_die);
	tcase_add_test(tests, what_the_program_has_counts_where_nobody_can_be_asked);
	tcase_add_test(tests, the_host_has_no_limit);
	tcase_add_test(tests, two_threads_do_not_get_the_same_room);
	tcase_add_test(tests, room_that_another_thread_did_not_get_after_all_is_waited_for);
	tcase_add_test(tests, where_the_driver_cannot_say_it_decides);
	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(nowait, start_nowait, fake_stop);
	tcase_add_test(nowait, what_is_pending_is_released_first);
	tcase_add_test(nowait, the_call_succeeds_once_there_is_room);
	suite_add_tcase(suite, nowait);
	tcase_add_checked_fixture(none, start_without, fake_stop);
	tcase_add_test(none, without_a_limit_nobody_asks);
	suite_add_tcase(suite, none);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
