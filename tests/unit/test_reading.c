/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real wrappers in front of a driver that does as it is told: what is read
 * of a device's memory, when, and what is left alone.
 */
#include "core/gate.h"
#include "fake_driver.h"
#include "intercept/call.h"
#include "intercept/reading.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define MODULE ((CUmodule)0x6000)
#define FUNCTION ((CUfunction)0x6100)
#define OWN_POOL ((CUmemoryPool)0xa000)
#define DEFAULT_POOL ((CUmemoryPool)0xb000)

enum { TOTAL = 1 << 30, OWN_BYTES = 4 << 20, DEFAULT_BYTES = 32 << 20, GRAPH_BYTES = 2 << 20 };

static size_t is_free;
static CUresult info_result;
static unsigned int questions;	 /* put to the driver, of whatever kind */
static unsigned int pool_questions;
static cuuint64_t pools_used; /* bytes of blocks in each */
static unsigned int is_relaxed; /* exchanges that are not taken back */
static CUcontext pushed;

static unsigned int marked; /* questions put while a call is marked as in flight */

static void note_mark(void)
{
	marked += atomic_load(&thread_segment.chunk->header.busy_since) != 0;
}

static CUresult CUDAAPI get_info(size_t *free_bytes, size_t *total_bytes)
{
	questions++;
	note_mark();
	errno = EIO;
	*free_bytes = is_free;
	*total_bytes = TOTAL;
	return info_result;
}

static CUresult CUDAAPI get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	*value = attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_default_pool(CUmemoryPool *pool, CUdevice device)
{
	(void)device;
	*pool = DEFAULT_POOL;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute,
					   void *value)
{
	bool is_used = attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT;

	ck_assert(is_used || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	ck_assert_msg(is_relaxed, "a pool was asked by a thread that is not relaxed");
	ck_assert(pool == OWN_POOL || pool == DEFAULT_POOL);
	pool_questions++;
	note_mark();
	*(cuuint64_t *)value = is_used ? pools_used : pool == OWN_POOL ? OWN_BYTES : DEFAULT_BYTES;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_graph_attribute(CUdevice device, CUgraphMem_attribute attribute,
					    void *value)
{
	(void)device;
	ck_assert_int_eq(attribute, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
	*(cuuint64_t *)value = GRAPH_BYTES;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI exchange(CUstreamCaptureMode *mode)
{
	if (*mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		is_relaxed++;
	else
		is_relaxed--;
	*mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI push_current(CUcontext context)
{
	pushed = fake_context;
	fake_context = context;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI pop_current(CUcontext *context)
{
	*context = fake_context;
	fake_context = pushed;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI load_module(CUmodule *module, const void *image)
{
	(void)image;
	if (fake_result == CUDA_SUCCESS) {
		*module = MODULE;
		is_free -= 2 << 20;
	}
	return fake_result;
}

static CUresult CUDAAPI get_function(CUfunction *function, CUmodule module, const char *name)
{
	(void)module;
	(void)name;
	*function = FUNCTION;
	return fake_result;
}

static CUresult CUDAAPI launch(CUfunction function, unsigned int x, unsigned int y, unsigned int z,
			       unsigned int bx, unsigned int by, unsigned int bz,
			       unsigned int shared, CUstream stream, void **parameters,
			       void **extra)
{
	(void)function, (void)x, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)shared;
	(void)stream, (void)parameters, (void)extra;
	return fake_result;
}

static void setup(void)
{
	setenv("CUSTODY_FREES", "immediate", 1);
	fake_start();
	is_free = TOTAL / 2;
	info_result = CUDA_SUCCESS;
	questions = pool_questions = is_relaxed = 0;
	pools_used = 0;
	fake_set(API_cuMemGetInfo_v2, get_info);
	fake_set(API_cuThreadExchangeStreamCaptureMode, exchange);
	fake_set(API_cuCtxPushCurrent_v2, push_current);
	fake_set(API_cuCtxPopCurrent_v2, pop_current);
	fake_set(API_cuModuleLoadData, load_module);
	fake_set(API_cuModuleGetFunction, get_function);
	fake_set(API_cuLaunchKernel, launch);
}

static void teardown(void)
{
	ck_assert_uint_eq(is_relaxed, 0);
	fake_stop();
}

static void have_pools(void)
{
	fake_set(API_cuDeviceGetAttribute, get_attribute);
	fake_set(API_cuDeviceGetDefaultMemPool, get_default_pool);
	fake_set(API_cuMemPoolGetAttribute, get_pool_attribute);
	fake_set(API_cuDeviceGetGraphMemAttribute, get_graph_attribute);
}

static const struct record *ask(void)
{
	size_t free_bytes = 0, total_bytes = 0;
	const struct fake_look *look;

	ck_assert_int_eq(cuMemGetInfo_v2(&free_bytes, &total_bytes), CUDA_SUCCESS);
	ck_assert_uint_eq(free_bytes, is_free);
	look = fake_look();
	ck_assert_uint_eq(look->count, 1);
	ck_assert_int_eq(look->record[0].kind, RECORD_READING);
	return &look->record[0];
}

static void expect_reading(const struct record *record, enum reading_moment moment,
			   enum reading_weighed weighed)
{
	ck_assert_int_eq(record->kind, RECORD_READING);
	ck_assert_int_eq(record_moment(record), moment);
	ck_assert_int_eq(record_weighed(record), weighed);
	ck_assert_int_eq(record->aux & 255, 0 + 1);
	ck_assert_uint_eq(record->b, TOTAL);
	ck_assert(record->flags & RECORD_MORE);
	ck_assert_int_eq(!!(record->flags & RECORD_BY_CUSTODY), moment != READING_ASKED);
}

START_TEST(the_programs_question_is_a_reading)
{
	const struct record *record = ask();

	expect_reading(record, READING_ASKED, WEIGHED_NOTHING);
	ck_assert_int_eq(record->api, API_cuMemGetInfo_v2);
	ck_assert_uint_eq(record->a, TOTAL / 2);
	ck_assert_uint_eq(record->c, 0); /* a driver without pools has none */
	ck_assert_uint_eq(record->stream, READING_UNKNOWN);
	ck_assert_uint_ne(record_context(record), 0);
	ck_assert_uint_eq(questions, 1);
	ck_assert_uint_eq(fake_counted(API_cuMemGetInfo_v2), 1);
}
END_TEST

START_TEST(a_question_that_failed_is_none)
{
	size_t free_bytes, total_bytes;

	info_result = CUDA_ERROR_ILLEGAL_ADDRESS;
	ck_assert_int_eq(cuMemGetInfo_v2(&free_bytes, &total_bytes), CUDA_ERROR_ILLEGAL_ADDRESS);
	fake_look_one(RECORD_QUERY, API_cuMemGetInfo_v2);
}
END_TEST

static CUmemAllocationType created_type;
static CUmemLocation created_at;
static CUresult destroy_result;

static CUresult CUDAAPI create_pool(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	(void)properties;
	*pool = OWN_POOL;
	return fake_result;
}

static CUresult CUDAAPI destroy_pool(CUmemoryPool pool)
{
	unsigned int before = pool_questions;

	(void)pool;
	reading_take_out_of_memory(&(struct call){ .self = &thread_segment });
	/* The default one; twice where something must be added to it. */
	ck_assert_uint_eq(pool_questions, before + (pools_used ? 2 : 1));
	return destroy_result;
}

static void make_pool(void)
{
	const CUmemPoolProps properties = { .allocType = created_type, .location = created_at };
	CUmemoryPool pool;

	fake_set(API_cuMemPoolCreate, create_pool);
	ck_assert_int_eq(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
	fake_look_one(RECORD_OPERATION, API_cuMemPoolCreate);
}

START_TEST(pools_and_graphs_are_asked_too)
{
	const struct record *record;

	have_pools();
	record = ask();
	ck_assert_uint_eq(record->c, DEFAULT_BYTES);
	ck_assert_uint_eq(record->stream, GRAPH_BYTES);
	created_type = CU_MEM_ALLOCATION_TYPE_PINNED;
	created_at = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	make_pool();
	make_pool(); /* handed out twice, it counts once */
	ck_assert_uint_eq(ask()->c, DEFAULT_BYTES + OWN_BYTES);
}
END_TEST

START_TEST(pools_of_others_and_of_the_host_do_not_count)
{
	have_pools();
	created_type = CU_MEM_ALLOCATION_TYPE_PINNED;
	created_at = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST, .id = 0 };
	make_pool();
	ck_assert_uint_eq(ask()->c, DEFAULT_BYTES);
	created_at = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 };
	make_pool();
	ck_assert_uint_eq(ask()->c, DEFAULT_BYTES);
	created_type = CU_MEM_ALLOCATION_TYPE_MANAGED;
	created_at.id = 0;
	ck_assert_uint_eq(ask()->c, DEFAULT_BYTES);
}
END_TEST

START_TEST(a_pool_that_is_destroyed_is_asked_no_more)
{
	have_pools();
	created_type = CU_MEM_ALLOCATION_TYPE_PINNED;
	created_at = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	make_pool();
	fake_set(API_cuMemPoolDestroy, destroy_pool);
	destroy_result = CUDA_ERROR_INVALID_VALUE;
	ck_assert_int_eq(cuMemPoolDestroy(OWN_POOL), CUDA_ERROR_INVALID_VALUE);
	fake_look();
	ck_assert_uint_eq(ask()->c, DEFAULT_BYTES + OWN_BYTES);
	destroy_result = CUDA_SUCCESS;
	ck_assert_int_eq(cuMemPoolDestroy(OWN_POOL), CUDA_SUCCESS);
	fake_look();
	ck_assert_uint_eq(ask()->c, DEFAULT_BYTES);
	/* Blocks are left: what is in no block of the others is to be added to them. */
	make_pool();
	pools_used = 3 << 20;
	ck_assert_int_eq(cuMemPoolDestroy(OWN_POOL), CUDA_SUCCESS);
	fake_look();
	ck_assert_uint_eq(ask()->c, READING_CACHED | (DEFAULT_BYTES - pools_used));
}
END_TEST

static void load(void)
{
	CUmodule module;

	ck_assert_int_eq(cuModuleLoadData(&module, "image"), fake_result);
}

START_TEST(nothing_is_asked_while_a_capture_is_live)
{
	const struct record *record;

	have_pools();
	gate_shut();
	record = ask();
	ck_assert_uint_eq(record->c, READING_UNKNOWN);
	ck_assert_uint_eq(record->stream, READING_UNKNOWN);
	questions = 0;
	load();
	fake_look_one(RECORD_OPERATION, API_cuModuleLoadData);
	fake_allocate(0x7000, 4096);
	fake_result = CUDA_ERROR_OUT_OF_MEMORY;
	load();
	fake_look_one(RECORD_OPERATION, API_cuModuleLoadData);
	gate_open();
	ck_assert_uint_eq(questions, 0);
	ck_assert_uint_eq(pool_questions, 0);
}
END_TEST

START_TEST(a_load_is_weighed)
{
	const struct fake_look *look;
	const struct record *record;

	errno = 5;
	load();
	ck_assert_int_eq(errno, 5);
	look = fake_look();
	record = look->record;
	ck_assert_uint_eq(look->count, 3);
	expect_reading(&record[0], READING_BEFORE, WEIGHED_CODE);
	ck_assert_int_eq(record[1].kind, RECORD_OPERATION);
	ck_assert(!(record[1].flags & RECORD_MORE));
	expect_reading(&record[2], READING_AFTER, WEIGHED_CODE);
	ck_assert_uint_eq(record[0].a - record[2].a, 2 << 20);
	ck_assert_int_eq(record[0].api, API_cuModuleLoadData);
	ck_assert_uint_eq(record_caller(&record[0]), record_caller(&record[1]));
	ck_assert_uint_le(record[0].start + record_ticks(&record[0]), record[1].start);
	ck_assert_uint_le(record[1].start + record_ticks(&record[1]), record[2].start);
}
END_TEST

/* The failure of a counted call has its record between the two. */
START_TEST(a_counted_call_that_fails_is_weighed_in_order)
{
	const struct fake_look *look;
	CUfunction function;

	fake_result = CUDA_ERROR_NOT_FOUND;
	ck_assert_int_eq(cuModuleGetFunction(&function, MODULE, "f"), CUDA_ERROR_NOT_FOUND);
	look = fake_look();
	ck_assert_uint_eq(look->count, 3);
	expect_reading(&look->record[0], READING_BEFORE, WEIGHED_CODE);
	ck_assert_int_eq(look->record[1].kind, RECORD_QUERY);
	expect_reading(&look->record[2], READING_AFTER, WEIGHED_CODE);
	ck_assert_uint_le(look->record[1].start, look->record[2].start);
	ck_assert_uint_eq(fake_counted(API_cuModuleGetFunction), 1);
	ck_assert_uint_eq(fake_counted_errors(API_cuModuleGetFunction), 1);
}
END_TEST

/* The collector waits for what a thread is about to tell. */
START_TEST(a_reading_in_a_counted_call_is_in_flight_until_it_is_told)
{
	const struct record *record;
	CUfunction function;

	have_pools();
	record = ask();
	/* The program's own question is not ours to mark, what the pools are asked is. */
	ck_assert_uint_gt(pool_questions, 0);
	ck_assert_uint_eq(marked, pool_questions);
	ck_assert_uint_gt(record->start, 0);
	ck_assert_uint_eq(atomic_load(&thread_segment.chunk->header.busy_since), 0);
	marked = questions = pool_questions = 0;
	ck_assert_int_eq(cuModuleGetFunction(&function, MODULE, "f"), CUDA_SUCCESS);
	ck_assert_uint_eq(questions, 2);
	ck_assert_uint_eq(marked, questions + pool_questions);
	ck_assert_uint_eq(atomic_load(&thread_segment.chunk->header.busy_since), 0);
	/* What is not answered is not told either. */
	info_result = CUDA_ERROR_ILLEGAL_ADDRESS;
	cuModuleGetFunction(&function, MODULE, "f");
	ck_assert_uint_eq(atomic_load(&thread_segment.chunk->header.busy_since), 0);
}
END_TEST

static unsigned int weighings_of_lookups(unsigned int calls)
{
	unsigned int count = 0;
	CUfunction function;

	for (unsigned int i = 0; i < calls; i++) {
		cuModuleGetFunction(&function, MODULE, "f");
		count += fake_look()->count / 2;
	}
	return count;
}

START_TEST(what_never_grows_is_weighed_no_more)
{
	ck_assert_uint_eq(weighings_of_lookups(READING_IDLE + 10), READING_IDLE);
	ck_assert_uint_eq(weighings_of_lookups(10), 0);
	load(); /* another function has its own count */
	ck_assert_uint_eq(fake_look()->count, 3);
}
END_TEST

static unsigned int turn;

static CUresult CUDAAPI get_some_function(CUfunction *function, CUmodule module, const char *name)
{
	(void)module;
	(void)name;
	*function = FUNCTION;
	if (++turn == READING_IDLE)
		is_free -= 4096;
	return CUDA_SUCCESS;
}

START_TEST(growth_begins_the_count_anew)
{
	turn = 0;
	fake_set(API_cuModuleGetFunction, get_some_function);
	ck_assert_uint_eq(weighings_of_lookups(3 * READING_IDLE), 2 * READING_IDLE);
}
END_TEST

static unsigned int readings_of_launch(CUfunction function)
{
	ck_assert_int_eq(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 fake_result);
	return fake_look()->count;
}

START_TEST(a_first_launch_is_weighed)
{
	const struct fake_look *look;

	cuLaunchKernel(FUNCTION, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	look = fake_look();
	ck_assert_uint_eq(look->count, 2);
	expect_reading(&look->record[0], READING_BEFORE, WEIGHED_CODE);
	expect_reading(&look->record[1], READING_AFTER, WEIGHED_CODE);
	ck_assert_int_eq(look->record[1].api, API_cuLaunchKernel);
	ck_assert_uint_eq(readings_of_launch(FUNCTION), 0);
	ck_assert_uint_eq(readings_of_launch((CUfunction)0x6200), 2);
	ck_assert_uint_eq(readings_of_launch(FUNCTION), 0);
	ck_assert_uint_eq(fake_counted(API_cuLaunchKernel), 4);
}
END_TEST

static CUresult CUDAAPI launch_graph(CUgraphExec graph, CUstream stream)
{
	(void)graph;
	(void)stream;
	return fake_result;
}

START_TEST(a_first_launch_of_a_graph_is_weighed)
{
	const struct fake_look *look;

	fake_set(API_cuGraphLaunch, launch_graph);
	cuGraphLaunch((CUgraphExec)0x6300, NULL);
	look = fake_look();
	ck_assert_uint_eq(look->count, 3);
	expect_reading(&look->record[0], READING_BEFORE, WEIGHED_GRAPH);
	expect_reading(&look->record[2], READING_AFTER, WEIGHED_GRAPH);
	cuGraphLaunch((CUgraphExec)0x6300, NULL);
	fake_look_one(RECORD_OPERATION, API_cuGraphLaunch);
}
END_TEST

START_TEST(memory_that_has_run_out_is_read)
{
	const struct fake_look *look;
	CUdeviceptr address;

	fake_set(API_cuMemAlloc_v2, fake_give_address);
	fake_result = CUDA_ERROR_OUT_OF_MEMORY;
	ck_assert_int_eq(cuMemAlloc_v2(&address, 1 << 30), CUDA_ERROR_OUT_OF_MEMORY);
	look = fake_look();
	ck_assert_int_eq(look->record[0].kind, RECORD_ALLOC);
	expect_reading(&look->record[look->count - 1], READING_OOM, WEIGHED_NOTHING);
	readings_of_launch(FUNCTION);
	ck_assert_uint_eq(readings_of_launch(FUNCTION), 2);
	look = fake_look();
}
END_TEST

static unsigned int quiet_of(const struct fake_look *look)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < look->count; i++)
		count += look->record[i].kind == RECORD_READING &&
			 record_moment(&look->record[i]) == READING_QUIET;
	return count;
}

static unsigned int quiet_of_allocation(void)
{
	CUdeviceptr address;

	fake_address += 4096;
	ck_assert_int_eq(cuMemAlloc_v2(&address, 4096), CUDA_SUCCESS);
	return quiet_of(fake_look());
}

START_TEST(a_quiet_reading_comes_once_in_a_while)
{
	unsigned int count = 0;

	fake_set(API_cuMemAlloc_v2, fake_give_address);
	fake_address = 0x7000;
	ck_assert_uint_eq(quiet_of_allocation(), 1);
	for (int i = 0; i < 100; i++)
		count += quiet_of_allocation();
	ck_assert_uint_le(count, 10); /* however slow this machine is */
	usleep(20000);
	ck_assert_uint_eq(quiet_of_allocation(), 1);
}
END_TEST

START_TEST(without_a_context_nothing_is_read)
{
	fake_context = NULL;
	load();
	fake_look_one(RECORD_OPERATION, API_cuModuleLoadData);
	ck_assert_uint_eq(questions, 0);
}
END_TEST

#define NEW_CONTEXT ((CUcontext)0x2000)

static bool makes_current;

static CUresult CUDAAPI create_context(CUcontext *context, unsigned int flags, CUdevice device)
{
	(void)flags;
	(void)device;
	*context = NEW_CONTEXT;
	if (makes_current)
		fake_context = NEW_CONTEXT;
	return fake_result;
}

static CUresult CUDAAPI retain(CUcontext *context, CUdevice device)
{
	(void)device;
	*context = NEW_CONTEXT;
	return fake_result;
}

static CUresult CUDAAPI destroy(CUcontext context)
{
	(void)context;
	return fake_result;
}

static void expect_context_reading(const struct fake_look *look, uint32_t old)
{
	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[0].kind, RECORD_OPERATION);
	expect_reading(&look->record[1], READING_AFTER, WEIGHED_CONTEXT);
	ck_assert_uint_ne(record_context(&look->record[1]), old);
	ck_assert_uint_eq(look->record[0].start, look->record[1].start);
	ck_assert_uint_le(record_ticks(&look->record[0]), record_ticks(&look->record[1]));
}

START_TEST(a_new_context_is_read_behind_only)
{
	CUcontext context;
	uint32_t old = record_context(ask());

	makes_current = true;
	fake_set(API_cuCtxCreate_v2, create_context);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	expect_context_reading(fake_look(), old);
}
END_TEST

/* It is not current yet: it is made so for the question, and no longer. */
START_TEST(a_retained_context_is_read_when_it_is_new)
{
	CUcontext context, before = fake_context;
	uint32_t old = record_context(ask());

	fake_set(API_cuDevicePrimaryCtxRetain, retain);
	ck_assert_int_eq(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	expect_context_reading(fake_look(), old);
	ck_assert_ptr_eq(fake_context, before);
	ck_assert_uint_eq(record_context(ask()), old);
	ck_assert_int_eq(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	fake_look_one(RECORD_OPERATION, API_cuDevicePrimaryCtxRetain);
}
END_TEST

START_TEST(a_context_is_read_before_it_ends)
{
	const struct fake_look *look;
	uint32_t number = record_context(ask());

	fake_set(API_cuCtxDestroy_v2, destroy);
	cuCtxDestroy_v2(fake_context);
	look = fake_look();
	expect_reading(&look->record[0], READING_QUIET, WEIGHED_NOTHING);
	ck_assert_uint_eq(record_context(&look->record[0]), number);
	ck_assert_int_eq(look->record[1].kind, RECORD_OPERATION);
	ck_assert_uint_le(look->record[0].start, look->record[1].start);
}
END_TEST

/* What a driver without an answer, or that does nothing, leads to. */
START_TEST(no_answer_is_no_reading)
{
	info_result = CUDA_ERROR_DEINITIALIZED;
	load();
	fake_look_one(RECORD_OPERATION, API_cuModuleLoadData);
	fake_set(API_cuMemGetInfo_v2, NULL);
	load();
	fake_look_one(RECORD_OPERATION, API_cuModuleLoadData);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("reading");
	TCase *tests = tcase_create("reading");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, the_programs_question_is_a_reading);
	tcase_add_test(tests, a_question_that_failed_is_none);
	tcase_add_test(tests, pools_and_graphs_are_asked_too);
	tcase_add_test(tests, pools_of_others_and_of_the_host_do_not_count);
	tcase_add_test(tests, a_pool_that_is_destroyed_is_asked_no_more);
	tcase_add_test(tests, nothing_is_asked_while_a_capture_is_live);
	tcase_add_test(tests, a_load_is_weighed);
	tcase_add_test(tests, a_counted_call_that_fails_is_weighed_in_order);
	tcase_add_test(tests, a_reading_in_a_counted_call_is_in_flight_until_it_is_told);
	tcase_add_test(tests, what_never_grows_is_weighed_no_more);
	tcase_add_test(tests, growth_begins_the_count_anew);
	tcase_add_test(tests, a_first_launch_is_weighed);
	tcase_add_test(tests, a_first_launch_of_a_graph_is_weighed);
	tcase_add_test(tests, memory_that_has_run_out_is_read);
	tcase_add_test(tests, a_quiet_reading_comes_once_in_a_while);
	tcase_add_test(tests, without_a_context_nothing_is_read);
	tcase_add_test(tests, a_new_context_is_read_behind_only);
	tcase_add_test(tests, a_retained_context_is_read_when_it_is_new);
	tcase_add_test(tests, a_context_is_read_before_it_ends);
	tcase_add_test(tests, no_answer_is_no_reading);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(make_suite());
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
