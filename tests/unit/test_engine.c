/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table by which libcustody works through the frame, behind the real wrappers:
 * whose frees are put off and how, and what a child of fork gets.
 */
#include "core/gate.h"
#include "core/pending.h"
#include "engine_client.h"
#include "intercept/deferral.h"
#include "intercept/real.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void start_immediate(void)
{
	engine_start("immediate");
}

static void start_deferred(void)
{
	engine_start("deferred");
}

static void start_nowait(void)
{
	engine_start("nowait");
}

/* --------------------------------------------------------- under each policy */

START_TEST(a_free_of_the_library_waits_for_nothing)
{
	CUdeviceptr address = fake_block(4096);
	const struct record *record;
	struct block block;

	fake_look();
	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(engine_free(address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 0);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 0);
	record = fake_look_one(RECORD_FREE, API_cuMemFree_v2);
	ck_assert_int_eq(record->flags, RECORD_PENDING);
	ck_assert_uint_eq(record->stream, 0);
	ck_assert(tracker_find(SPACE_ADDRESS, address, &block) && block.is_pending);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 1);
}
END_TEST

START_TEST(the_eleventh_free_of_the_library_releases_all)
{
	engine_free_new(10);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 10);
	engine_free_new(1);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 0);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 0);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 0);
}
END_TEST

START_TEST(what_the_library_has_freed_is_nobodys)
{
	CUdeviceptr address = engine_free_new(1);

	ck_assert_int_eq(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(engine_free(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 0);
}
END_TEST

START_TEST(an_allocation_takes_back_what_the_library_has_freed)
{
	CUdeviceptr address;

	engine_free_new(3);
	fake_run_out(1);
	ck_assert_int_eq(cuMemAlloc_v2(&address, 4096), CUDA_SUCCESS);
	ck_assert_uint_eq(engine_statistics().passes[RELEASE_OOM], 1);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

/* --------------------------------------------------------------- other answers */

START_TEST(only_its_own_version_is_given)
{
	ck_assert_ptr_null(custody_engine(ENGINE_VERSION + 1));
	ck_assert_ptr_null(custody_engine(0));
	ck_assert_uint_eq(engine->version, ENGINE_VERSION);
	ck_assert(engine->is_preload);
}
END_TEST

START_TEST(functions_are_found_by_their_exact_symbols)
{
	ck_assert_ptr_eq(engine->find("cuMemFree_v2"), (void *)cuMemFree_v2);
	ck_assert_ptr_null(engine->find("cuMemAllocPitch_v2")); /* this driver lacks it */
	ck_assert_ptr_null(engine->find("cuMemFree_v"));
	ck_assert_ptr_null(engine->find("cuNoSuchFunction"));
}
END_TEST

START_TEST(a_context_has_one_number)
{
	uint32_t other;

	ck_assert_uint_eq(engine->meet(fake_context, 0, false), engine_context);
	ck_assert_uint_eq(engine->meet(NULL, 0, false), 0);
	other = engine->meet((CUcontext)0x2000, 0, true);
	ck_assert_uint_ne(other, 0);
	ck_assert_uint_ne(other, engine_context);
	ck_assert_ptr_nonnull(deferq_find(other));
}
END_TEST

START_TEST(a_number_ends_with_its_context)
{
	uint64_t destroyed = fake_calls(API_cuStreamDestroy_v2);
	CUdeviceptr address;

	ck_assert(engine->is_alive(engine_context));
	ck_assert(!engine->is_alive(0));
	ck_assert(!engine->is_alive(engine_context + 1));
	address = engine_free_new(1);
	engine->part(engine_context); /* of a preload it stays */
	ck_assert(engine->is_alive(engine_context));
	engine->bury(engine_context);
	ck_assert(!engine->is_alive(engine_context));
	ck_assert(!engine->retire(engine_context, DEFERQ_EVENT, 0x100, NULL));
	ck_assert_uint_eq(fake_calls(API_cuStreamDestroy_v2), destroyed);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2) + fake_calls(API_cuMemFreeAsync), 0);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
	ck_assert_uint_ne(engine->meet(fake_context, 0, false), engine_context);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS); /* it is the driver's to answer */
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 1);
}
END_TEST

START_TEST(calls_are_told_where_the_program_called_the_library)
{
	const void *here = (const void *)cuMemFree_v2;
	CUdeviceptr address;
	CUresult result;

	fake_look();
	ck_assert_ptr_null(engine->from(here));
	address = fake_block(4096);
	ck_assert_uint_eq(record_caller(fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2)),
			  (uintptr_t)here);
	engine_free(address);
	ck_assert_uint_eq(record_caller(fake_look_one(RECORD_FREE, API_cuMemFree_v2)),
			  (uintptr_t)here);
	ck_assert_ptr_eq(engine->from(NULL), here);
	ck_assert(engine->flush(engine_context, true, &result));
	ck_assert_uint_eq(record_caller(&fake_look()->record[0]), (uintptr_t)here);
	address = fake_block(4096);
	ck_assert_uint_ne(record_caller(fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2)),
			  (uintptr_t)here);
}
END_TEST

static void *free_elsewhere(void *address)
{
	cuMemFree_v2((CUdeviceptr)(uintptr_t)address);
	return NULL;
}

START_TEST(a_mark_is_its_threads_alone)
{
	CUdeviceptr address = fake_block(4096);
	pthread_t thread;

	engine->mark(true);
	ck_assert_int_eq(pthread_create(&thread, NULL, free_elsewhere, (void *)(uintptr_t)address),
			 0);
	pthread_join(thread, NULL);
	engine->mark(false);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 1);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 0);
}
END_TEST

START_TEST(ticks_become_nanoseconds)
{
	struct clock_triple from, to;
	uint64_t ns, real;

	clock_read_triple(&from, clock_choose());
	usleep(20000);
	clock_read_triple(&to, clock_choose());
	ns = engine->ticks_to_ns(to.ticks - from.ticks);
	real = to.monotonic_ns - from.monotonic_ns;
	ck_assert_uint_lt(ns, real + real / 10);
	ck_assert_uint_gt(ns, real - real / 10);
	ck_assert_uint_eq(engine->ticks_to_ns(0), 0);
}
END_TEST

START_TEST(exchange_of_modes_is_no_call_of_the_programs)
{
	uint64_t before = fake_calls(API_cuThreadExchangeStreamCaptureMode);

	fake_look();
	engine->exchange_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
	ck_assert_uint_eq(fake_calls(API_cuThreadExchangeStreamCaptureMode), before + 1);
	ck_assert_uint_eq(fake_look()->count, 0);
}
END_TEST

START_TEST(errno_stays)
{
	struct engine_limits limits;
	CUresult result;

	atomic_store(&fake_spoils_errno, true);
	engine_free_new(1);
	errno = ENOTTY;
	engine_retire(DEFERQ_EVENT, 0x100, 11);
	engine->suspend(engine_context);
	engine->resume(engine_context, ENGINE_LEAVE_FLUSH);
	ck_assert_int_eq(errno, ENOTTY);
	engine_free_new(1);
	errno = ENOTTY;
	engine->flush(engine_context, true, &result);
	ck_assert_int_eq(errno, ENOTTY);
	engine_free_new(1);
	errno = ENOTTY;
	engine->capture_begin();
	engine->capture_end();
	engine->meet((CUcontext)0x2000, 0, false);
	engine->limits(&limits);
	engine->is_recording();
	engine->find("cuNoSuchFunction");
	engine->exchange_mode(engine->exchange_mode(CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_assert_int_eq(errno, ENOTTY);
}
END_TEST

/* ---------------------------------------------------------- beside the program */

START_TEST(under_immediate_the_program_frees_at_once)
{
	CUdeviceptr address = fake_block(4096);
	const struct record *record;

	atomic_store(&fake_is_busy, true);
	engine_free_new(20);
	fake_look();
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 1);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 0);
	record = fake_look_one(RECORD_FREE, API_cuMemFree_v2);
	ck_assert_int_eq(record->flags, 0);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 20);
}
END_TEST

START_TEST(under_deferred_the_program_waits_for_its_own_event)
{
	CUdeviceptr address = fake_block(4096);
	const struct record *record;

	atomic_store(&fake_is_busy, true);
	engine_free_new(5);
	fake_look();
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 1);
	record = fake_look_one(RECORD_FREE, API_cuMemFree_v2);
	ck_assert_int_eq(record->flags, RECORD_PENDING);
	ck_assert_uint_gt(record->stream, 0);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 6);
}
END_TEST

static void start_old(void)
{
	fake_queue_prepare("deferred", true);
	fake_start();
	engine_begin();
	fake_look();
}

START_TEST(without_events_of_a_context_only_the_program_is_left_to_the_driver)
{
	CUdeviceptr address = fake_block(4096);

	engine_free_new(3);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 3);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake_calls(API_cuMemFree_v2), 1);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 3);
	ck_assert_int_eq(cuCtxSynchronize(), CUDA_SUCCESS);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 0);
}
END_TEST

/* --------------------------------------------------------------- child of fork */

static void expect_good_child(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

/* Each answer that is wrong has a number. */
static int judge_in_child(void)
{
	struct deferq_statistics statistics;
	CUresult result;

	if (engine->generation())
		return 1;
	if (engine->is_recording())
		return 2;
	if (engine->meet(fake_context, 0, false) || engine->statistics(engine_context, &statistics))
		return 3;
	if (engine->retire(engine_context, DEFERQ_EVENT, 0x100, NULL) ||
	    engine->resume(engine_context, ENGINE_LEAVE_FLUSH))
		return 4;
	if (engine->flush(engine_context, true, &result) && result != CUDA_SUCCESS)
		return 5;
	if (engine->generation() || fake_calls(API_cuMemFreeAsync))
		return 6; /* none of that was a call */
	return 0;
}

static int judge_after_a_call(void)
{
	CUcontext handle;
	uint64_t shut;

	cuCtxGetCurrent(&handle);
	if (!engine->generation() || engine->is_capturing())
		return 10;
	shut = atomic_load(&gate_captures);
	engine->capture_end();
	if (atomic_load(&gate_captures) != shut)
		return 11;
	engine_context = engine->meet(fake_context, 0, false);
	if (!engine_context || engine_statistics().queued)
		return 12;
	return 0;
}

START_TEST(a_child_of_fork_has_nothing_of_its_parents)
{
	uint64_t generation = engine->generation();
	pid_t child;
	int wrong;

	ck_assert_uint_ne(generation, 0);
	engine->suspend(engine_context);
	engine_free_new(3);
	engine->capture_begin();
	child = fork();
	if (!child) {
		wrong = judge_in_child();
		_exit(wrong ? wrong : judge_after_a_call());
	}
	expect_good_child(child);
	engine->capture_end();
	ck_assert_uint_eq(engine->generation(), generation);
	ck_assert(!engine->is_capturing());
}
END_TEST

/* ------------------------------------------------------------------------ main */

static TCase *add_case(Suite *suite, const char *name, SFun begin, SFun end)
{
	TCase *tests = tcase_create(name);

	tcase_add_checked_fixture(tests, begin, end);
	suite_add_tcase(suite, tests);
	return tests;
}

static TCase *add_policy(Suite *suite, const char *name, SFun begin)
{
	TCase *tests = add_case(suite, name, begin, fake_stop);

	tcase_add_test(tests, a_free_of_the_library_waits_for_nothing);
	tcase_add_test(tests, the_eleventh_free_of_the_library_releases_all);
	tcase_add_test(tests, what_the_library_has_freed_is_nobodys);
	tcase_add_test(tests, an_allocation_takes_back_what_the_library_has_freed);
	tcase_add_test(tests, exchange_of_modes_is_no_call_of_the_programs);
	tcase_add_test(tests, errno_stays);
	tcase_add_test(tests, a_child_of_fork_has_nothing_of_its_parents);
	return tests;
}

int main(void)
{
	Suite *suite = suite_create("engine");
	SRunner *runner = srunner_create(suite);
	TCase *tests;
	int failed;

	tests = add_policy(suite, "immediate", start_immediate);
	tcase_add_test(tests, only_its_own_version_is_given);
	tcase_add_test(tests, functions_are_found_by_their_exact_symbols);
	tcase_add_test(tests, a_context_has_one_number);
	tcase_add_test(tests, a_number_ends_with_its_context);
	tcase_add_test(tests, calls_are_told_where_the_program_called_the_library);
	tcase_add_test(tests, a_mark_is_its_threads_alone);
	tcase_add_test(tests, ticks_become_nanoseconds);
	tcase_add_test(tests, under_immediate_the_program_frees_at_once);
	tests = add_policy(suite, "deferred", start_deferred);
	tcase_add_test(tests, under_deferred_the_program_waits_for_its_own_event);
	add_policy(suite, "nowait", start_nowait);
	tests = add_case(suite, "old", start_old, fake_stop);
	tcase_add_test(tests, without_events_of_a_context_only_the_program_is_left_to_the_driver);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
