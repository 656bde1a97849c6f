/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libcustody asks of its queues through the engine, under each policy of the
 * program: objects, flushes, captures, failures, limits and scopes.
 */
#include "engine_client.h"

#include "core/gate.h"
#include "core/pending.h"

#include <check.h>
#include <stdlib.h>

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

START_TEST(streams_and_events_have_a_queue_of_their_own)
{
	const struct record *record;

	atomic_store(&fake_is_busy, true);
	engine_free_new(10);
	engine_retire(DEFERQ_EVENT, 0x100, 5);
	fake_look();
	engine_retire(DEFERQ_STREAM, 0x200, 1);
	record = fake_look_one(RECORD_OPERATION, API_cuStreamDestroy_v2);
	ck_assert_uint_eq(record->a, 0x200);
	ck_assert_uint_eq(record_context(record), engine_context);
	engine_retire(DEFERQ_STREAM, 0x201, 4);
	ck_assert_uint_eq(engine_waiting(QUEUE_OBJECTS), 10);
	ck_assert_uint_eq(fake_calls(API_cuStreamDestroy_v2), 0);
	engine_retire(DEFERQ_EVENT, 0x300, 1);
	ck_assert_uint_eq(engine_waiting(QUEUE_OBJECTS), 0);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 10);
	ck_assert_uint_eq(fake_calls(API_cuStreamDestroy_v2), 5);
	ck_assert_uint_ge(fake_calls(API_cuEventDestroy_v2), 6);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 0);
}
END_TEST

/* Nothing would end its capture, while which nothing is released. */
START_TEST(a_stream_is_not_retired_during_a_capture)
{
	engine->capture_begin();
	ck_assert(!engine->retire(engine_context, DEFERQ_STREAM, 0x200, NULL));
	ck_assert(engine->retire(engine_context, DEFERQ_EVENT, 0x300, NULL));
	engine->capture_end();
	ck_assert(!engine->retire(engine_context, DEFERQ_MEMORY, 0x400, NULL));
	ck_assert(!engine->retire(engine_context + 1, DEFERQ_STREAM, 0x200, NULL));
}
END_TEST

START_TEST(a_flush_releases_and_waits_if_it_shall)
{
	CUresult result = CUDA_ERROR_UNKNOWN;

	atomic_store(&fake_is_busy, true);
	engine_free_new(3);
	ck_assert(engine->flush(engine_context, false, &result));
	ck_assert_int_eq(result, CUDA_SUCCESS);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 3);
	ck_assert(engine->flush(engine_context, true, &result));
	ck_assert_int_eq(result, CUDA_SUCCESS);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 0);
	ck_assert_uint_gt(fake_calls(API_cuEventSynchronize), 0);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

START_TEST(nothing_is_flushed_during_a_capture)
{
	CUresult result;

	engine_free_new(2);
	ck_assert(!engine->is_capturing());
	engine->capture_begin();
	ck_assert(engine->is_capturing());
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 0); /* collected ahead of it */
	fake_set_capturing(true);
	engine_free_new(3);
	ck_assert(!engine->flush(engine_context, true, &result));
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 3);
	ck_assert_uint_eq(fake_spoilt(), 0);
	fake_set_capturing(false);
	engine->capture_end();
	ck_assert(engine->flush(engine_context, true, &result));
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 0);
}
END_TEST

START_TEST(an_end_without_a_begin_opens_no_gate)
{
	gate_shut();
	engine->capture_end();
	ck_assert(engine->is_capturing());
	gate_open();
	ck_assert(!engine->is_capturing());
}
END_TEST

/* ------------------------------------------------------------------- failures */

static void fail_some(uint32_t count)
{
	CUresult result;

	for (uint32_t i = 0; i < count; i++) {
		engine_retire(DEFERQ_STREAM, 0x1000 + i, 1);
		ck_assert(engine->flush(engine_context, false, &result));
		ck_assert_int_eq(result, CUDA_ERROR_INVALID_HANDLE);
	}
}

START_TEST(the_first_release_that_fails_is_told)
{
	struct engine_error errors[4];
	uint64_t dropped = 1;
	CUresult result;

	fake_result = CUDA_ERROR_INVALID_HANDLE;
	fail_some(2);
	ck_assert_uint_eq(engine->errors(errors, 4, &dropped), 2);
	ck_assert_uint_eq(dropped, 0);
	ck_assert_uint_eq(errors[0].handle, 0x1000);
	ck_assert_uint_eq(errors[1].handle, 0x1001);
	ck_assert_uint_eq(errors[1].context, engine_context);
	ck_assert_int_eq(errors[1].device, 0);
	ck_assert_int_eq(errors[1].result, CUDA_ERROR_INVALID_HANDLE);
	ck_assert_int_eq(errors[1].kind, DEFERQ_STREAM);
	ck_assert_ptr_eq(errors[1].caller, (const void *)engine_retire);
	ck_assert_uint_eq(engine->errors(errors, 4, NULL), 0);
	fake_result = CUDA_SUCCESS;
	ck_assert(engine->flush(engine_context, false, &result));
	ck_assert_int_eq(result, CUDA_SUCCESS);
}
END_TEST

START_TEST(of_many_failures_the_first_sixty_four_are_kept)
{
	struct engine_error errors[80];
	uint64_t dropped;

	fake_result = CUDA_ERROR_INVALID_HANDLE;
	fail_some(70);
	ck_assert_uint_eq(engine->errors(errors, 10, NULL), 10);
	ck_assert_uint_eq(errors[9].handle, 0x1009);
	ck_assert_uint_eq(engine->errors(errors, 80, &dropped), 54);
	ck_assert_uint_eq(errors[53].handle, 0x103f);
	ck_assert_uint_eq(dropped, 6);
	fail_some(1);
	ck_assert_uint_eq(engine->errors(errors, 80, &dropped), 1);
	ck_assert_uint_eq(dropped, 0);
}
END_TEST

/* --------------------------------------------------------------------- limits */

START_TEST(limits_hold_from_the_next_free_on)
{
	struct engine_limits limits;

	engine->limits(&limits);
	ck_assert_int_eq(limits.max_count, 10);
	ck_assert(limits.max_ratio > 0.19 && limits.max_ratio < 0.21);
	ck_assert(!limits.is_strict);
	engine_free_new(5);
	engine->set_limits(&(struct engine_limits){ 5, 0.2, false });
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 5);
	engine_free_new(1);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 0);
	engine->set_limits(&(struct engine_limits){ 100, 1e-6, true });
	engine->limits(&limits);
	ck_assert_int_eq(limits.max_count, 100);
	ck_assert(limits.is_strict);
	engine_free_new(1); /* 4096 of a GiB */
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 0);
	ck_assert_uint_eq(engine_statistics().passes[RELEASE_BYTES], 1);
}
END_TEST

START_TEST(a_strict_scope_is_not_flushed_for_want_of_memory)
{
	CUdeviceptr address;

	engine->set_limits(&(struct engine_limits){ 10, 0.2, true });
	engine->suspend(engine_context);
	engine_free_new(3);
	fake_run_out(1);
	ck_assert_int_eq(cuMemAlloc_v2(&address, 4096), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 3);
	ck_assert(engine->resume(engine_context, ENGINE_LEAVE_ALONE));
	fake_run_out(1);
	ck_assert_int_eq(cuMemAlloc_v2(&address, 4096), CUDA_SUCCESS);
}
END_TEST

START_TEST(a_scope_is_left_in_three_ways)
{
	engine->suspend(engine_context);
	engine->suspend(engine_context);
	engine_free_new(12);
	ck_assert(engine->resume(engine_context, ENGINE_LEAVE_FLUSH));
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 12); /* one is open still */
	ck_assert(engine->resume(engine_context, ENGINE_LEAVE_ALONE));
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 12);
	ck_assert(!engine->resume(engine_context, ENGINE_LEAVE_FLUSH));
	engine->suspend(engine_context);
	ck_assert(engine->resume(engine_context, ENGINE_LEAVE_IF_OVER));
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 0);
	engine_free_new(2);
	engine->suspend(engine_context);
	ck_assert(engine->resume(engine_context, ENGINE_LEAVE_IF_OVER));
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 2);
	engine->suspend(engine_context);
	ck_assert(engine->resume(engine_context, ENGINE_LEAVE_FLUSH));
	ck_assert_uint_eq(engine_waiting(QUEUE_MEMORY), 0);
	ck_assert_uint_eq(engine_statistics().passes[RELEASE_SCOPE], 2);
}
END_TEST

/* ------------------------------------------------------------------------ main */

static void add_policy(Suite *suite, const char *name, SFun begin)
{
	TCase *tests = tcase_create(name);

	tcase_add_checked_fixture(tests, begin, fake_stop);
	suite_add_tcase(suite, tests);
	tcase_add_test(tests, streams_and_events_have_a_queue_of_their_own);
	tcase_add_test(tests, a_stream_is_not_retired_during_a_capture);
	tcase_add_test(tests, a_flush_releases_and_waits_if_it_shall);
	tcase_add_test(tests, nothing_is_flushed_during_a_capture);
	tcase_add_test(tests, an_end_without_a_begin_opens_no_gate);
	tcase_add_test(tests, the_first_release_that_fails_is_told);
	tcase_add_test(tests, of_many_failures_the_first_sixty_four_are_kept);
	tcase_add_test(tests, limits_hold_from_the_next_free_on);
	tcase_add_test(tests, a_strict_scope_is_not_flushed_for_want_of_memory);
	tcase_add_test(tests, a_scope_is_left_in_three_ways);
}

int main(void)
{
	Suite *suite = suite_create("engine_queue");
	SRunner *runner = srunner_create(suite);
	int failed;

	add_policy(suite, "immediate", start_immediate);
	add_policy(suite, "deferred", start_deferred);
	add_policy(suite, "nowait", start_nowait);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
