/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocation that runs out of memory while frees are pending: they are
 * released and the driver is called once more; both attempts are recorded.
 */
#include "fake_queue.h"
#include "intercept/deferral.h"
#include "core/gate.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

static void start(void)
{
	fake_queue_prepare("nowait", false);
	fake_start();
}

static void start_immediate(void)
{
	fake_queue_prepare("immediate", false);
	fake_start();
}

/* Two blocks that wait, and a device that is at work. */
static void leave_pending(void)
{
	CUdeviceptr first = fake_block(4096), second = fake_block(4096);

	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuMemFree_v2(first), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemFree_v2(second), CUDA_SUCCESS);
	fake_look();
}

/* Behind the hidden attempt: what it took to have the memory back. */
static void check_flush(const struct fake_look *look)
{
	for (uint32_t i = 1; i <= 2; i++) {
		ck_assert_int_eq(look->record[i].kind, RECORD_RELEASE);
		ck_assert_int_eq(look->record[i].aux, RELEASE_OOM);
	}
	ck_assert_int_eq(look->record[3].kind, RECORD_FLUSH);
	ck_assert_int_eq(look->record[3].aux, RELEASE_OOM | QUEUE_MEMORY << 8);
	ck_assert_uint_eq(look->record[3].a, 2);
	ck_assert_uint_gt(look->record[3].c, 0);
}

static void check_hidden(const struct record *record, enum record_kind kind, enum api api)
{
	ck_assert_int_eq(record->kind, kind);
	ck_assert_int_eq(record->api, api);
	ck_assert_int_eq(record->result, CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(record->flags, RECORD_BY_CUSTODY | RECORD_MORE);
}

static void check_shown(const struct record *record, enum record_kind kind, enum api api,
			CUresult result)
{
	ck_assert_int_eq(record->kind, kind);
	ck_assert_int_eq(record->api, api);
	ck_assert_int_eq(record->result, result);
	ck_assert_int_eq(record->flags, 0);
}

START_TEST(an_allocation_is_tried_again_with_what_was_pending)
{
	const struct fake_look *look;
	CUdeviceptr address = 0;
	struct block block;

	leave_pending();
	fake_run_out(1);
	errno = ENOTDIR;
	ck_assert_int_eq(cuMemAlloc_v2(&address, 8192), CUDA_SUCCESS);
	ck_assert_int_eq(errno, ENOTDIR);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 1);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
	look = fake_look();
	ck_assert_uint_eq(look->count, 5);
	check_hidden(&look->record[0], RECORD_ALLOC, API_cuMemAlloc_v2);
	check_flush(look);
	check_shown(&look->record[4], RECORD_ALLOC, API_cuMemAlloc_v2, CUDA_SUCCESS);
	ck_assert_uint_ge(look->record[4].start,
			  look->record[3].start + record_ticks(&look->record[3]));
	ck_assert(tracker_find(SPACE_ADDRESS, address, &block));
	ck_assert_uint_eq(block.id, look->record[4].b);
}
END_TEST

START_TEST(the_second_failure_is_the_programs)
{
	const struct fake_look *look;
	CUdeviceptr address = 0;

	leave_pending();
	fake_run_out(100);
	ck_assert_int_eq(cuMemAlloc_v2(&address, 8192), CUDA_ERROR_OUT_OF_MEMORY);
	look = fake_look();
	check_hidden(&look->record[0], RECORD_ALLOC, API_cuMemAlloc_v2);
	check_shown(&look->record[look->count - 1], RECORD_ALLOC, API_cuMemAlloc_v2,
		    CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

/* As if another thread had collected while the driver was looking for memory. */
static CUresult CUDAAPI collect_and_fail_once(CUdeviceptr *address, size_t bytes)
{
	struct deferq_report report = { 0 };

	(void)bytes;
	*address = 0x600000000;
	if (!deferq_has_pending(-1))
		return CUDA_SUCCESS;
	atomic_store(&fake_is_busy, false);
	ck_assert(gate_enter());
	deferq_collect_inside(&report);
	gate_leave();
	deferq_told(&report);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

START_TEST(memory_that_came_back_meanwhile_is_asked_for_again)
{
	const struct fake_look *look;
	CUdeviceptr address = 0;

	leave_pending();
	fake_set(API_cuMemAlloc_v2, collect_and_fail_once);
	ck_assert_int_eq(cuMemAlloc_v2(&address, 8192), CUDA_SUCCESS);
	look = fake_look();
	ck_assert_uint_eq(look->count, 2);
	check_hidden(&look->record[0], RECORD_ALLOC, API_cuMemAlloc_v2);
	check_shown(&look->record[1], RECORD_ALLOC, API_cuMemAlloc_v2, CUDA_SUCCESS);
}
END_TEST

START_TEST(with_nothing_pending_there_is_one_attempt)
{
	CUdeviceptr address = 0;

	fake_run_out(1);
	ck_assert_int_eq(cuMemAlloc_v2(&address, 8192), CUDA_ERROR_OUT_OF_MEMORY);
	check_shown(fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2), RECORD_ALLOC, API_cuMemAlloc_v2,
		    CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(fake_calls(API_cuMemAlloc_v2), 1);
}
END_TEST

START_TEST(during_a_capture_the_program_gets_its_error)
{
	CUdeviceptr address = 0;

	leave_pending();
	gate_shut();
	fake_run_out(1);
	ck_assert_int_eq(cuMemAlloc_v2(&address, 8192), CUDA_ERROR_OUT_OF_MEMORY);
	fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2);
	ck_assert_uint_eq(atomic_load(&pending_total), 2);
	gate_open();
}
END_TEST

START_TEST(an_operation_is_tried_again)
{
	const struct fake_look *look;
	CUmodule module = NULL;
	CUstream stream = NULL;

	leave_pending();
	fake_run_out(1);
	ck_assert_int_eq(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
	look = fake_look();
	ck_assert_uint_eq(look->count, 5);
	check_hidden(&look->record[0], RECORD_OPERATION, API_cuModuleLoadData);
	ck_assert_uint_eq(look->record[0].a, 0);
	check_shown(&look->record[4], RECORD_OPERATION, API_cuModuleLoadData, CUDA_SUCCESS);
	ck_assert_uint_eq(look->record[4].a, (uintptr_t)module);
	leave_pending();
	fake_run_out(1);
	ck_assert_int_eq(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

static _Atomic uint32_t launch_failures;

static CUresult CUDAAPI launch(const CUlaunchConfig *config, CUfunction function, void **arguments,
			       void **extra)
{
	(void)config;
	(void)function;
	(void)arguments;
	(void)extra;
	return atomic_load(&launch_failures) && atomic_fetch_sub(&launch_failures, 1) ?
		       CUDA_ERROR_OUT_OF_MEMORY :
		       CUDA_SUCCESS;
}

START_TEST(a_launch_is_tried_again_and_counted_once)
{
	const struct fake_look *look;
	CUlaunchConfig config = { 0 };

	fake_set(API_cuLaunchKernelEx, launch);
	leave_pending();
	atomic_store(&launch_failures, 1);
	ck_assert_int_eq(cuLaunchKernelEx(&config, NULL, NULL, NULL), CUDA_SUCCESS);
	look = fake_look();
	ck_assert_uint_eq(look->count, 4);
	check_hidden(&look->record[0], RECORD_QUERY, API_cuLaunchKernelEx);
	check_flush(look);
	ck_assert_uint_eq(fake_counted(API_cuLaunchKernelEx), 1);
	ck_assert_uint_eq(fake_counted_errors(API_cuLaunchKernelEx), 0);
}
END_TEST

static CUresult CUDAAPI load_function(CUfunction function)
{
	return launch(NULL, function, NULL, NULL);
}

START_TEST(a_question_that_loads_code_is_asked_again)
{
	const struct fake_look *look;

	fake_set(API_cuFuncLoad, load_function);
	leave_pending();
	atomic_store(&launch_failures, 2);
	ck_assert_int_eq(cuFuncLoad(NULL), CUDA_ERROR_OUT_OF_MEMORY);
	look = fake_look();
	ck_assert_uint_eq(look->count, 5);
	check_hidden(&look->record[0], RECORD_QUERY, API_cuFuncLoad);
	check_flush(look);
	check_shown(&look->record[4], RECORD_QUERY, API_cuFuncLoad, CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(fake_counted(API_cuFuncLoad), 1);
	ck_assert_uint_eq(fake_counted_errors(API_cuFuncLoad), 1);
}
END_TEST

START_TEST(immediate_tries_once)
{
	CUdeviceptr address = 0;

	cuMemFree_v2(fake_block(4096));
	fake_look();
	fake_run_out(1);
	ck_assert_int_eq(cuMemAlloc_v2(&address, 8192), CUDA_ERROR_OUT_OF_MEMORY);
	fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("oom");
	TCase *tests = tcase_create("oom"), *immediate = tcase_create("immediate");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, start, fake_stop);
	tcase_add_test(tests, an_allocation_is_tried_again_with_what_was_pending);
	tcase_add_test(tests, the_second_failure_is_the_programs);
	tcase_add_test(tests, memory_that_came_back_meanwhile_is_asked_for_again);
	tcase_add_test(tests, with_nothing_pending_there_is_one_attempt);
	tcase_add_test(tests, during_a_capture_the_program_gets_its_error);
	tcase_add_test(tests, an_operation_is_tried_again);
	tcase_add_test(tests, a_launch_is_tried_again_and_counted_once);
	tcase_add_test(tests, a_question_that_loads_code_is_asked_again);
	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(immediate, start_immediate, fake_stop);
	tcase_add_test(immediate, immediate_tries_once);
	suite_add_tcase(suite, immediate);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
