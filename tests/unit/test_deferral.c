/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees that are put off, behind the real wrappers: who answers them, when the
 * driver gets them, and what is recorded.
 */
#include "core/gate.h"
#include "core/pending.h"
#include "fake_queue.h"
#include "intercept/deferral.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void start_immediate(void)
{
	fake_queue_prepare("immediate", false);
	fake_start();
}

static void start_deferred(void)
{
	fake_queue_prepare("deferred", false);
	fake_start();
}

static void start_old(void)
{
	fake_queue_prepare("deferred", true);
	fake_start();
}

static void start_nowait(void)
{
	fake_queue_prepare("nowait", false);
	fake_start();
}

static void start_meminfo_driver(void)
{
	setenv("CUSTODY_MEMINFO", "driver", 1);
	start_nowait();
}

static void start_unrecorded(void)
{
	setenv("CUSTODY_CHILDREN", "none", 1);
	setenv("CUSTODY_ROOT", "1", 1);
	setenv("CUSTODY_SESSION", "/", 1);
	fake_queue_prepare("deferred", false);
	fake_begin();
}

/* So many blocks, allocated; they lie one behind the other. */
static CUdeviceptr allocate(uint32_t count, size_t bytes)
{
	CUdeviceptr first = fake_block(bytes);

	for (uint32_t i = 1; i < count; i++)
		fake_block(bytes);
	fake_look();
	return first;
}

static void free_all(CUdeviceptr first, uint32_t count, size_t bytes)
{
	for (uint32_t i = 0; i < count; i++)
		ck_assert_int_eq(cuMemFree_v2(first + i * bytes), CUDA_SUCCESS);
}

static uint32_t count_kind(const struct fake_look *look, enum record_kind kind)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < look->count; i++)
		count += look->record[i].kind == kind;
	return count;
}

START_TEST(immediate_puts_nothing_off)
{
	CUdeviceptr address = allocate(1, 4096);
	const struct record *record;

	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 1);
	ck_assert_uint_eq(fake_calls(API_cuCtxRecordEvent), 0);
	record = fake_look_one(RECORD_FREE, API_cuMemFree_v2);
	ck_assert_int_eq(record->flags, 0);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

START_TEST(a_deferred_free_waits_for_the_device)
{
	CUdeviceptr address = allocate(1, 4096);
	const struct record *record;
	struct block block;

	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 1);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 0);
	record = fake_look_one(RECORD_FREE, API_cuMemFree_v2);
	ck_assert_int_eq(record->flags, RECORD_PENDING);
	ck_assert_uint_gt(record->stream, 0);
	ck_assert_uint_le(record->stream, record_ticks(record));
	ck_assert(tracker_find(SPACE_ADDRESS, address + 100, &block) && block.is_pending);
	ck_assert_uint_eq(record->b, block.id);
}
END_TEST

START_TEST(a_nowait_free_waits_for_nothing)
{
	CUdeviceptr address = allocate(1, 4096);
	const struct record *record;

	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 0);
	ck_assert_uint_eq(fake_calls(API_cuEventQuery), 0);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 0);
	record = fake_look_one(RECORD_FREE, API_cuMemFree_v2);
	ck_assert_int_eq(record->flags, RECORD_PENDING);
	ck_assert_uint_eq(record->stream, 0);
}
END_TEST

static void check_release(const struct record *record, CUdeviceptr address)
{
	ck_assert_int_eq(record->kind, RECORD_RELEASE);
	ck_assert_int_eq(record->api, API_cuMemFreeAsync);
	ck_assert_int_eq(record->flags, RECORD_BY_CUSTODY | RECORD_MORE);
	ck_assert_int_eq(record->aux, RELEASE_COUNT);
	ck_assert_uint_eq(record->a, address);
	ck_assert_uint_ne(record->b, 0);
	ck_assert_uint_eq(record->c, 4096);
	ck_assert_uint_ne(record->stream, 0);
	ck_assert_int_eq(record->result, 0);
	ck_assert_uint_eq(record_caller(record) >> 12 != 0, 1);
}

START_TEST(the_eleventh_free_releases_all_eleven)
{
	CUdeviceptr first = allocate(11, 4096);
	const struct fake_look *look;
	struct block block;

	free_all(first, 10, 4096);
	ck_assert_uint_eq(fake_look()->count, 10);
	ck_assert_int_eq(cuMemFree_v2(first + 10 * 4096), CUDA_SUCCESS);
	look = fake_look();
	ck_assert_uint_eq(look->count, 13);
	ck_assert_int_eq(look->record[0].kind, RECORD_FREE);
	ck_assert_int_eq(look->record[0].flags, RECORD_PENDING);
	for (uint32_t i = 0; i < 11; i++)
		check_release(&look->record[1 + i], first + i * 4096);
	ck_assert_int_eq(look->record[12].kind, RECORD_FLUSH);
	ck_assert_uint_eq(look->record[12].a, 11);
	ck_assert_uint_eq(look->record[12].b, 11 * 4096);
	ck_assert_int_eq(look->record[12].aux, RELEASE_COUNT | QUEUE_MEMORY << 8);
	ck_assert_uint_eq(record_context(&look->record[12]), record_context(&look->record[0]));
	ck_assert(!tracker_find(SPACE_ADDRESS, first, &block));
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

/* As another thread does, while this one is in a pass; the first call is the proof's. */
static void free_another(void)
{
	static const struct deferq_item item = { .handle = 0x900000, .bytes = 512 };
	struct deferq_report report = { 0 };
	CUresult result;
	uint64_t waited;

	if (fake_calls(API_cuMemFreeAsync) > 1 && fake_calls(API_cuMemFreeAsync) < 500)
		ck_assert_int_eq(deferq_add(deferq_find(1), &item, &result, &waited, &report),
				 DEFERQ_QUEUED);
	deferq_told(&report);
}

START_TEST(a_pass_ends_with_what_was_freed_before_it)
{
	CUdeviceptr first = allocate(11, 4096);
	const struct fake_look *look;

	fake_on_release = free_another;
	free_all(first, 11, 4096);
	fake_on_release = NULL;
	look = fake_look();
	ck_assert_int_eq(look->record[look->count - 1].kind, RECORD_FLUSH);
	ck_assert_uint_lt(look->record[look->count - 1].a, 30);
}
END_TEST

/* FREE with the answer, then the finding; the driver hears nothing of it. */
static void check_second_free(CUresult answer, enum api api, uint64_t address, uint64_t bytes,
			      CUresult expected)
{
	const struct fake_look *look = fake_look();

	ck_assert_int_eq(answer, expected);
	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[0].kind, RECORD_FREE);
	ck_assert_int_eq(look->record[0].api, api);
	ck_assert_int_eq(look->record[0].result, expected);
	ck_assert_int_eq(look->record[1].kind, RECORD_FINDING);
	ck_assert_int_eq(look->record[1].aux, FINDING_DOUBLE_FREE);
	ck_assert_int_eq(look->record[1].flags, RECORD_MORE);
	ck_assert_uint_eq(look->record[1].a, address);
	ck_assert_uint_ne(look->record[1].b, 0);
	ck_assert_uint_eq(look->record[1].c, bytes);
}

START_TEST(a_second_free_is_refused_by_every_function)
{
	CUdeviceptr address = allocate(1, 4096);
	void *pointer = (void *)(uintptr_t)address;

	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	fake_look();
	check_second_free(cuMemFree_v2(address), API_cuMemFree_v2, address, 4096,
			  CUDA_ERROR_INVALID_VALUE);
	check_second_free(cuMemFreeAsync(address, NULL), API_cuMemFreeAsync, address, 4096,
			  CUDA_ERROR_INVALID_VALUE);
	check_second_free(cuMemFreeHost(pointer), API_cuMemFreeHost, address, 4096,
			  CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 0);
	ck_assert_uint_eq(fake_calls(API_cuMemFreeAsync), 0);
	ck_assert_uint_eq(fake_calls(API_cuMemFreeHost), 0);
}
END_TEST

START_TEST(host_memory_is_freed_by_its_own_function)
{
	void *host = NULL;

	ck_assert_int_eq(cuMemAllocHost_v2(&host, 8192), CUDA_SUCCESS);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	ck_assert_int_eq(cuMemFree_v2((uintptr_t)host), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 1);
	fake_result = CUDA_SUCCESS;
	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuMemFreeHost(host), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuMemFreeHost), 0);
	fake_look();
	check_second_free(cuMemFree_v2((uintptr_t)host), API_cuMemFree_v2, (uintptr_t)host, 8192,
			  CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static CUresult CUDAAPI export_memory(CUipcMemHandle *handle, CUdeviceptr address)
{
	(void)handle;
	(void)address;
	return fake_result;
}

START_TEST(an_exported_block_is_never_put_off)
{
	CUdeviceptr address = allocate(2, 4096);
	CUipcMemHandle handle;

	fake_set(API_cuIpcGetMemHandle, export_memory);
	ck_assert_int_eq(cuIpcGetMemHandle(&handle, address + 1024), CUDA_SUCCESS);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	ck_assert_int_ne(cuIpcGetMemHandle(&handle, address + 4096), CUDA_SUCCESS);
	fake_result = CUDA_SUCCESS;
	free_all(address, 2, 4096);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 1);
	ck_assert_uint_eq(atomic_load(&pending_total), 1);
}
END_TEST

START_TEST(what_is_not_known_is_the_drivers)
{
	CUdeviceptr address = allocate(1, 4096);

	fake_result = CUDA_ERROR_INVALID_VALUE;
	ck_assert_int_eq(cuMemFree_v2(address + 8), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuMemFree_v2(0x99), CUDA_ERROR_INVALID_VALUE);
	fake_result = CUDA_SUCCESS;
	ck_assert_int_eq(cuMemFree_v2(0), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 3);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

START_TEST(an_error_of_the_wait_is_the_frees)
{
	CUdeviceptr address = allocate(1, 4096);
	const struct record *record;
	struct block block;

	atomic_store(&fake_is_busy, true);
	atomic_store(&fake_wait_result, CUDA_ERROR_LAUNCH_FAILED);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_ERROR_LAUNCH_FAILED);
	record = fake_look_one(RECORD_FREE, API_cuMemFree_v2);
	ck_assert_int_eq(record->result, CUDA_ERROR_LAUNCH_FAILED);
	ck_assert_int_eq(record->flags, 0);
	ck_assert(tracker_find(SPACE_ADDRESS, address, &block) && !block.is_pending);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

START_TEST(a_block_waits_in_its_own_context)
{
	CUdeviceptr address = allocate(1, 4096);
	CUcontext own = fake_context, other = (CUcontext)0x2000;

	fake_context = other;
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_ptr_eq(atomic_load(&fake_event_context), own);
	ck_assert_uint_eq(atomic_load(&pending_total), 1);
}
END_TEST

START_TEST(errno_and_the_current_context_stay)
{
	CUdeviceptr first = allocate(11, 4096);
	CUcontext other = (CUcontext)0x2000;

	fake_context = other;
	atomic_store(&fake_spoils_errno, true);
	errno = ENOTDIR;
	free_all(first, 11, 4096);
	ck_assert_int_eq(errno, ENOTDIR);
	ck_assert_uint_gt(fake_calls(API_cuMemFreeAsync), 10);
	ck_assert_uint_gt(fake_calls(API_cuCtxPushCurrent_v2), 0);
	ck_assert_ptr_eq(fake_context, other);
}
END_TEST

START_TEST(without_events_of_a_context_nothing_is_put_off)
{
	CUdeviceptr address = allocate(1, 4096);

	ck_assert(!deferral_is_on());
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 1);
	ck_assert_int_eq(fake_look_one(RECORD_FREE, API_cuMemFree_v2)->flags, 0);
}
END_TEST

static CUresult CUDAAPI say_memory(size_t *is_free, size_t *total)
{
	*is_free = FAKE_TOTAL / 2;
	*total = FAKE_TOTAL;
	return fake_result;
}

static CUresult CUDAAPI say_memory_v1(unsigned int *is_free, unsigned int *total)
{
	*is_free = (unsigned int)(FAKE_TOTAL - 4096);
	*total = (unsigned int)FAKE_TOTAL;
	return fake_result;
}

START_TEST(memory_that_waits_counts_as_free)
{
	CUdeviceptr large = allocate(1, 5 << 20), small = allocate(1, 1 << 20);
	size_t is_free = 0, total = 0;
	unsigned int is_free_v1 = 0, total_v1 = 0;

	fake_set(API_cuMemGetInfo_v2, say_memory);
	fake_set(API_cuMemGetInfo, say_memory_v1);
	atomic_store(&fake_is_busy, true);
	cuMemFree_v2(large);
	cuMemFree_v2(small);
	ck_assert_int_eq(cuMemGetInfo_v2(&is_free, &total), CUDA_SUCCESS);
	ck_assert_uint_eq(is_free, FAKE_TOTAL / 2 + (6 << 20));
	ck_assert_int_eq(cuMemGetInfo(&is_free_v1, &total_v1), CUDA_SUCCESS);
	ck_assert_uint_eq(is_free_v1, FAKE_TOTAL);
	atomic_store(&fake_is_busy, false);
	fake_look();
	ck_assert_int_eq(cuMemGetInfo_v2(&is_free, &total), CUDA_SUCCESS);
	ck_assert_uint_eq(is_free, FAKE_TOTAL / 2);
	ck_assert_uint_eq(count_kind(fake_look(), RECORD_RELEASE), 2);
	ck_assert_uint_eq(fake_counted(API_cuMemGetInfo_v2), 2);
}
END_TEST

START_TEST(the_drivers_own_answer_can_be_had)
{
	CUdeviceptr large = allocate(1, 5 << 20);
	size_t is_free = 0, total = 0;

	fake_set(API_cuMemGetInfo_v2, say_memory);
	atomic_store(&fake_is_busy, true);
	cuMemFree_v2(large);
	ck_assert_int_eq(cuMemGetInfo_v2(&is_free, &total), CUDA_SUCCESS);
	ck_assert_uint_eq(is_free, FAKE_TOTAL / 2);
}
END_TEST

START_TEST(a_wait_of_the_program_takes_memory_back)
{
	CUdeviceptr first = allocate(2, 4096);
	const struct fake_look *look;

	atomic_store(&fake_is_busy, true);
	free_all(first, 2, 4096);
	fake_look();
	cuStreamSynchronize(NULL);
	fake_look_one(RECORD_OPERATION, API_cuStreamSynchronize);
	atomic_store(&fake_is_busy, false);
	fake_result = CUDA_ERROR_LAUNCH_FAILED;
	cuStreamSynchronize(NULL);
	fake_look_one(RECORD_OPERATION, API_cuStreamSynchronize);
	fake_result = CUDA_SUCCESS;
	cuStreamSynchronize(NULL);
	look = fake_look();
	ck_assert_uint_eq(look->count, 4);
	ck_assert_int_eq(look->record[0].kind, RECORD_OPERATION);
	ck_assert_int_eq(look->record[1].kind, RECORD_RELEASE);
	ck_assert_int_eq(look->record[1].aux, RELEASE_IDLE);
	ck_assert_int_eq(look->record[3].kind, RECORD_FLUSH);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

START_TEST(an_idle_context_releases_every_kind)
{
	CUDA_ARRAY_DESCRIPTOR shape = { 64, 64, CU_AD_FORMAT_FLOAT, 1 };
	CUdeviceptr managed = 0;
	CUarray array = NULL;
	void *host = NULL;

	cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL);
	cuMemAllocHost_v2(&host, 4096);
	cuArrayCreate_v2(&array, &shape);
	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuMemFree_v2(managed), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemFreeHost(host), CUDA_SUCCESS);
	ck_assert_int_eq(cuArrayDestroy(array), CUDA_SUCCESS);
	ck_assert_int_eq(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	ck_assert_uint_eq(atomic_load(&pending_total), 3);
	ck_assert_uint_eq(fake_calls(API_cuArrayDestroy), 0);
	fake_look();
	cuCtxSynchronize();
	ck_assert_uint_eq(count_kind(fake_look(), RECORD_RELEASE), 3);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 1);
	ck_assert_uint_eq(fake_calls(API_cuMemFreeHost), 1);
	ck_assert_uint_eq(fake_calls(API_cuArrayDestroy), 1);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

static CUresult CUDAAPI get_global(CUdeviceptr *address, size_t *bytes, CUmodule module,
				   const char *name)
{
	(void)module;
	(void)name;
	*address = 0x8800;
	*bytes = 16;
	return CUDA_SUCCESS;
}

START_TEST(an_unload_waits_its_variables_do_not)
{
	const struct fake_look *look;
	CUdeviceptr variable;
	CUmodule module;
	struct block block;
	size_t bytes;

	fake_set(API_cuModuleGetGlobal_v2, get_global);
	ck_assert_int_eq(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
	ck_assert_int_eq(cuModuleGetGlobal_v2(&variable, &bytes, module, "v"), CUDA_SUCCESS);
	fake_look();
	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuModuleUnload(module), CUDA_SUCCESS);
	look = fake_look();
	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[0].kind, RECORD_OPERATION);
	ck_assert_int_eq(look->record[1].kind, RECORD_FREE);
	ck_assert(!tracker_find(SPACE_ADDRESS, 0x8800, &block));
	ck_assert_int_eq(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	look = fake_look();
	ck_assert_int_eq(look->record[1].aux, FINDING_DOUBLE_FREE);
	ck_assert_uint_eq(fake_calls(API_cuModuleUnload), 0);
	cuCtxSynchronize();
	ck_assert_uint_eq(fake_calls(API_cuModuleUnload), 1);
	cuModuleUnload(module);
	ck_assert_uint_eq(fake_calls(API_cuModuleUnload), 2);
}
END_TEST

START_TEST(a_release_that_fails_is_told)
{
	const struct fake_look *look;
	CUmodule module;

	ck_assert_int_eq(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuModuleUnload(module), CUDA_SUCCESS);
	fake_look();
	atomic_store(&fake_release_result, CUDA_ERROR_INVALID_HANDLE);
	cuCtxSynchronize();
	look = fake_look();
	ck_assert_uint_eq(look->count, 3);
	ck_assert_int_eq(look->record[1].kind, RECORD_RELEASE);
	ck_assert_int_eq(look->record[1].api, API_cuModuleUnload);
	ck_assert_int_eq(look->record[1].result, CUDA_ERROR_INVALID_HANDLE);
	ck_assert_int_eq(look->record[1].aux, RELEASE_FAILED);
	ck_assert_uint_eq(look->record[1].a, (uintptr_t)module);
	ck_assert_int_eq(look->record[2].kind, RECORD_FLUSH);
	ck_assert_uint_eq(look->record[2].stream, 1);
	ck_assert_int_eq(look->record[2].aux, RELEASE_IDLE | QUEUE_OBJECTS << 8);
}
END_TEST

/* The driver may hand out what cuMemFreeAsync was called for: the older block ends first. */
START_TEST(an_address_that_comes_back_ends_its_block)
{
	CUdeviceptr first = allocate(11, 4096), again;
	const struct fake_look *look;
	struct block block;

	free_all(first, 11, 4096);
	ck_assert_uint_eq(fake_calls(API_cuMemFreeAsync), 12);
	ck_assert_uint_eq(count_kind(fake_look(), RECORD_RELEASE), 0);
	fake_next_address(first + 4096);
	again = fake_block(8192);
	look = fake_look();
	ck_assert_uint_eq(look->count, 3);
	ck_assert_int_eq(look->record[0].kind, RECORD_RELEASE);
	ck_assert_int_eq(look->record[1].kind, RECORD_RELEASE);
	ck_assert_uint_eq(look->record[0].start,
			  look->record[2].start + record_ticks(&look->record[2]));
	ck_assert_int_eq(look->record[2].kind, RECORD_ALLOC);
	ck_assert(tracker_find(SPACE_ADDRESS, again, &block) && !block.is_pending);
	ck_assert_uint_eq(block.id, look->record[2].b);
	ck_assert_int_eq(cuMemFree_v2(again), CUDA_SUCCESS);
	ck_assert_int_eq(fake_look_one(RECORD_FREE, API_cuMemFree_v2)->flags, RECORD_PENDING);
}
END_TEST

static CUresult CUDAAPI destroy_context(CUcontext context)
{
	(void)context;
	return fake_result;
}

START_TEST(what_waits_dies_with_its_context)
{
	CUdeviceptr first = allocate(2, 4096);
	uint32_t released;

	fake_set(API_cuCtxDestroy_v2, destroy_context);
	atomic_store(&fake_is_busy, true);
	free_all(first, 1, 4096);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	ck_assert_int_ne(cuCtxDestroy_v2(fake_context), CUDA_SUCCESS);
	fake_result = CUDA_SUCCESS;
	free_all(first + 4096, 1, 4096);
	ck_assert_uint_eq(atomic_load(&pending_total), 2);
	released = fake_calls(API_cuMemFree_v2) + fake_calls(API_cuMemFreeAsync);
	ck_assert_int_eq(cuCtxDestroy_v2(fake_context), CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
	ck_assert(!deferq_has_pending(-1));
	ck_assert_uint_eq(count_kind(fake_look(), RECORD_CONTEXT_END), 1);
	atomic_store(&fake_is_busy, false);
	cuStreamSynchronize(NULL);
	cuCtxSynchronize();
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2) + fake_calls(API_cuMemFreeAsync), released);
}
END_TEST

/* True: the child has nothing of its parent's and defers frees of its own. */
static bool child_starts_afresh(CUdeviceptr inherited)
{
	CUdeviceptr address = fake_block(4096);
	struct block block;

	if (atomic_load(&pending_total) || gate_is_shut() || deferq_has_pending(-1) ||
	    tracker_find(SPACE_ADDRESS, inherited, &block))
		return false;
	return cuMemFree_v2(address) == CUDA_SUCCESS && atomic_load(&pending_total) == 1 &&
	       deferq_has_pending(-1);
}

START_TEST(a_child_of_fork_has_nothing_pending)
{
	CUdeviceptr address = allocate(1, 4096);
	int status;
	pid_t child;

	atomic_store(&fake_is_busy, true);
	free_all(address, 1, 4096);
	gate_shut();
	child = fork();
	if (!child)
		_exit(child_starts_afresh(address) ? 0 : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(atomic_load(&pending_total), 1);
	gate_open();
}
END_TEST

/* No session, no chunk, no record; the program's frees are put off all the same. */
START_TEST(policies_hold_where_nothing_is_recorded)
{
	CUdeviceptr address;

	ck_assert_ptr_null(thread_segment.chunk);
	address = fake_block(4096);
	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 0);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 1);
	ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name, void (*start)(void), void (*stop)(void))
{
	TCase *tests = tcase_create(name);

	tcase_add_checked_fixture(tests, start, stop);
	suite_add_tcase(suite, tests);
	return tests;
}

static void add_nowait(TCase *tests)
{
	tcase_add_test(tests, a_nowait_free_waits_for_nothing);
	tcase_add_test(tests, a_second_free_is_refused_by_every_function);
	tcase_add_test(tests, host_memory_is_freed_by_its_own_function);
	tcase_add_test(tests, an_exported_block_is_never_put_off);
	tcase_add_test(tests, what_is_not_known_is_the_drivers);
	tcase_add_test(tests, a_block_waits_in_its_own_context);
	tcase_add_test(tests, errno_and_the_current_context_stay);
	tcase_add_test(tests, memory_that_waits_counts_as_free);
	tcase_add_test(tests, a_wait_of_the_program_takes_memory_back);
	tcase_add_test(tests, an_idle_context_releases_every_kind);
	tcase_add_test(tests, an_unload_waits_its_variables_do_not);
	tcase_add_test(tests, a_release_that_fails_is_told);
	tcase_add_test(tests, an_address_that_comes_back_ends_its_block);
	tcase_add_test(tests, what_waits_dies_with_its_context);
	tcase_add_test(tests, a_child_of_fork_has_nothing_pending);
}

int main(void)
{
	Suite *suite = suite_create("deferral");
	SRunner *runner = srunner_create(suite);
	TCase *tests;
	int failed;

	tests = add_case(suite, "immediate", start_immediate, fake_stop);
	tcase_add_test(tests, immediate_puts_nothing_off);
	tests = add_case(suite, "deferred", start_deferred, fake_stop);
	tcase_add_test(tests, a_deferred_free_waits_for_the_device);
	tcase_add_test(tests, the_eleventh_free_releases_all_eleven);
	tcase_add_test(tests, a_pass_ends_with_what_was_freed_before_it);
	tcase_add_test(tests, an_error_of_the_wait_is_the_frees);
	tests = add_case(suite, "old", start_old, fake_stop);
	tcase_add_test(tests, without_events_of_a_context_nothing_is_put_off);
	tests = add_case(suite, "meminfo", start_meminfo_driver, fake_stop);
	tcase_add_test(tests, the_drivers_own_answer_can_be_had);
	tests = add_case(suite, "unrecorded", start_unrecorded, NULL);
	tcase_add_test(tests, policies_hold_where_nothing_is_recorded);
	add_nowait(add_case(suite, "nowait", start_nowait, fake_stop));

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
