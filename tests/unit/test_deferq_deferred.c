/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees that wait as the driver's would: the proof that plain blocks need not be
 * the driver's, what is refused, and that nothing is ever waited for again.
 */
#include "deferq_suite.h"

#include "core/deferq_queue.h"
#include "core/pending.h"

static void begin(void)
{
	program_begin();
	program_settings.does_wait = true;
	model_watch(program_queue(1));
}

/* Refused, and neither an event was taken nor anything waited for. */
static void check_is_the_drivers(uint64_t thing)
{
	uint64_t records = model_calls(MODEL_CTX_RECORD_EVENT);
	uint64_t waits = model_calls(MODEL_EVENT_SYNCHRONIZE);
	uint32_t pending = pending_total;

	ck_assert_int_eq(program_free(thing), DEFERQ_REFUSED);
	ck_assert_int_eq(program_result, CUDA_SUCCESS);
	ck_assert_uint_eq(program_waited, 0);
	ck_assert_uint_eq(model_calls(MODEL_CTX_RECORD_EVENT), records);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_SYNCHRONIZE), waits);
	ck_assert_uint_eq(model_releases(thing), 0);
	ck_assert_uint_eq(pending_total, pending);
}

static void check_is_the_drivers_without_a_call(uint64_t thing)
{
	uint64_t calls = model_all_calls();

	check_is_the_drivers(thing);
	ck_assert_uint_eq(model_all_calls(), calls);
}

static uint64_t make_block(void)
{
	return program_make(1, DEFERQ_MEMORY, 1);
}

/* ---------------------------------------------------------------- the proof */

START_TEST(the_first_free_proves_the_way_and_is_put_off)
{
	uint64_t block = make_block();

	model_submit(1);
	ck_assert_int_eq(program_free(block), DEFERQ_QUEUED);
	ck_assert_uint_eq(model_calls(MODEL_MEM_ALLOC), 1);
	ck_assert_uint_eq(model_calls(MODEL_MEM_FREE_ASYNC), 1);
	ck_assert_uint_eq(model_calls(MODEL_STREAM_SYNCHRONIZE), 1);
	ck_assert_uint_eq(model_releases(block), 0);
	ck_assert_uint_eq(model_used(1), 1);
	ck_assert_uint_eq(model_waits(), 1);
	program_free_new(1, DEFERQ_MEMORY, 1, 20);
	ck_assert_uint_eq(model_calls(MODEL_MEM_ALLOC), 1);
	ck_assert_uint_eq(model_calls(MODEL_STREAM_CREATE), 1);
}
END_TEST

START_TEST(the_proof_waits_for_nothing)
{
	model_submit(1);
	check_is_the_drivers_without_a_call(program_make(1, DEFERQ_HOST, 1));
	ck_assert(deferq_proof_holds(program_queue(1)));
	ck_assert_uint_eq(model_done(1), 0);
	ck_assert_uint_eq(model_stalls(), 0);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_SYNCHRONIZE), 0);
}
END_TEST

START_TEST(where_the_driver_refuses_it_no_free_is_put_off)
{
	model_plain = MODEL_PLAIN_REFUSED;
	model_submit(1);
	check_is_the_drivers(make_block());
	for (int i = 0; i < 20; i++)
		check_is_the_drivers_without_a_call(make_block());
	ck_assert_uint_eq(model_calls(MODEL_MEM_ALLOC), 1);
	ck_assert_uint_eq(model_used(1), 21); /* nothing of the proof's */
}
END_TEST

START_TEST(where_the_driver_keeps_the_block_no_free_is_put_off)
{
	model_plain = MODEL_PLAIN_KEEPS;
	for (int i = 0; i < 20; i++)
		check_is_the_drivers(make_block());
	ck_assert_uint_le(model_calls(MODEL_MEM_ALLOC), 8);
	check_is_the_drivers_without_a_call(make_block());
}
END_TEST

START_TEST(a_driver_without_the_call_is_asked_nothing)
{
	model_driver.mem_free_async = NULL;
	check_is_the_drivers_without_a_call(make_block());
}
END_TEST

static const enum model_function steps[] = {
	MODEL_STREAM_CREATE, MODEL_MEM_ALLOC, MODEL_STREAM_SYNCHRONIZE,
};

/* A full device, for one: the free that is the driver's makes room for the next attempt. */
START_TEST(a_proof_that_says_nothing_is_made_again_with_the_next_free)
{
	model_fail(steps[_i], 1, CUDA_ERROR_OUT_OF_MEMORY);
	model_submit(1);
	check_is_the_drivers(make_block());
	ck_assert_uint_eq(model_done(1), 0);
	ck_assert_int_eq(program_free(make_block()), DEFERQ_QUEUED);
	ck_assert_uint_eq(model_calls(MODEL_STREAM_CREATE), _i == 0 ? 2 : 1);
}
END_TEST

START_TEST(a_device_that_stays_full_is_asked_no_longer)
{
	model_fail(MODEL_MEM_ALLOC, 0, CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < 20; i++)
		check_is_the_drivers(make_block());
	ck_assert_uint_eq(model_calls(MODEL_MEM_ALLOC), 8);
	check_is_the_drivers_without_a_call(make_block());
}
END_TEST

START_TEST(nothing_is_proven_during_a_capture)
{
	program_begin_capture();
	for (int i = 0; i < 20; i++)
		check_is_the_drivers_without_a_call(make_block());
	program_end_capture();
	ck_assert_int_eq(program_free(make_block()), DEFERQ_QUEUED);
}
END_TEST

static void free_beside(void)
{
	check_is_the_drivers_without_a_call(make_block());
}

START_TEST(a_free_while_another_thread_proves_is_the_drivers)
{
	model_submit(1);
	model_interrupt(steps[_i], free_beside);
	ck_assert_int_eq(program_free(make_block()), DEFERQ_QUEUED);
	model_interrupt(steps[_i], NULL);
	ck_assert_uint_eq(program_waiting(1), 1);
	ck_assert_uint_eq(pending_total, 1);
	ck_assert_int_eq(program_free(make_block()), DEFERQ_QUEUED);
}
END_TEST

START_TEST(each_context_has_a_proof_of_its_own)
{
	program_queue(2);
	ck_assert_int_eq(program_free(make_block()), DEFERQ_QUEUED);
	model_plain = MODEL_PLAIN_REFUSED;
	check_is_the_drivers(program_make(2, DEFERQ_MEMORY, 1));
	ck_assert_int_eq(program_free(make_block()), DEFERQ_QUEUED);
}
END_TEST

/* ---------------------------------------------------------------- other kinds */

static const enum deferq_kind heavy_kinds[] = {
	DEFERQ_MANAGED, DEFERQ_HOST, DEFERQ_ARRAY, DEFERQ_MIPMAPPED_ARRAY, DEFERQ_MODULE,
};

enum { HEAVY_KINDS = sizeof(heavy_kinds) / sizeof(*heavy_kinds) };

/* Whether the way for plain blocks is unknown, proven, or refuted. */
enum state { STATE_UNKNOWN, STATE_WORKS, STATE_FAILS, STATES };

static void reach(enum state state)
{
	if (state == STATE_UNKNOWN)
		return;
	model_plain = state == STATE_WORKS ? MODEL_PLAIN_WORKS : MODEL_PLAIN_REFUSED;
	ck_assert_int_eq(program_free(make_block()),
			 state == STATE_WORKS ? DEFERQ_QUEUED : DEFERQ_REFUSED);
	program_flush(1, false);
}

START_TEST(what_the_driver_waits_for_itself_is_its_own_at_once)
{
	reach((enum state)(_i % STATES));
	model_submit(1);
	for (int i = 0; i < 15; i++)
		check_is_the_drivers_without_a_call(
			program_make(1, heavy_kinds[_i / STATES], 1000));
	ck_assert_uint_eq(model_done(1), 0);
	ck_assert(!deferq_has_pending(-1));
}
END_TEST

/* ---------------------------------------------------------------- out of memory */

static uint64_t waits_before, done_before;

static void expect_no_wait(void)
{
	model_submit(1);
	waits_before = model_calls(MODEL_EVENT_SYNCHRONIZE);
	done_before = model_done(1);
}

static void check_no_wait(void)
{
	ck_assert_uint_eq(model_calls(MODEL_EVENT_SYNCHRONIZE), waits_before);
	ck_assert_uint_eq(model_done(1), done_before);
	ck_assert_uint_eq(model_stalls(), 0);
}

START_TEST(out_of_memory_waits_for_no_event)
{
	uint64_t stream, block = 0;

	reach((enum state)_i);
	if (_i == STATE_WORKS)
		block = program_free_new(1, DEFERQ_MEMORY, 1, 5);
	stream = program_free_new(1, DEFERQ_STREAM, 0, 3);
	expect_no_wait();
	ck_assert(program_out_of_memory(0));
	check_no_wait();
	ck_assert(program_all_released(stream, 3));
	ck_assert(_i != STATE_WORKS || program_all_released(block, 5));
	ck_assert(!deferq_has_pending(0));
}
END_TEST

static int beside;

/* Another thread's free is over during the pass, and work has begun since. */
static void free_beside_a_pass(void)
{
	if (beside++)
		return;
	ck_assert_int_eq(program_free(make_block()), DEFERQ_QUEUED);
	expect_no_wait();
}

START_TEST(out_of_memory_waits_for_no_free_that_came_meanwhile)
{
	reach(STATE_WORKS);
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	model_interrupt(MODEL_STREAM_SYNCHRONIZE, free_beside_a_pass);
	ck_assert(program_out_of_memory(0));
	model_interrupt(MODEL_STREAM_SYNCHRONIZE, NULL);
	ck_assert_int_gt(beside, 0);
	check_no_wait();
	ck_assert_uint_le(program_waiting(1), 1);
	ck_assert_uint_le(model_used(1), 1);
}
END_TEST

START_TEST(twice_the_bytes_wait_for_no_event)
{
	reach(STATE_WORKS);
	program_free_new(1, DEFERQ_MEMORY, 150, 1);
	expect_no_wait();
	model_finish(1);
	done_before = model_done(1);
	program_free_new(1, DEFERQ_MEMORY, 300, 1);
	check_no_wait();
	ck_assert_uint_eq(model_used(1), 0);
}
END_TEST

/* ---------------------------------------------------------------- stubborn blocks */

START_TEST(a_block_that_is_refused_after_the_proof_goes_when_idle)
{
	uint64_t plain = program_free_new(1, DEFERQ_MEMORY, 1, 2);
	uint64_t stubborn = program_free_new(1, DEFERQ_STUBBORN, 1, 2);
	uint64_t last = program_free_new(1, DEFERQ_MEMORY, 1, 2);

	model_submit(1);
	program_collect(1);
	ck_assert(program_all_released(plain, 2) && program_all_released(last, 2));
	ck_assert_uint_eq(program_waiting(1), 2);
	ck_assert_uint_eq(program_look()->flushes[0].failed, 0);
	model_finish(1);
	program_collect(1);
	ck_assert(program_all_released(stubborn, 2));
	ck_assert_uint_eq(model_calls(MODEL_MEM_FREE), 2);
	ck_assert_uint_eq(model_stalls(), 0);
	ck_assert_uint_eq(model_used(1), 0);
}
END_TEST

/* The one kind that is waited for: without a wait it might never go. */
START_TEST(a_block_that_is_refused_after_the_proof_is_had_when_out_of_memory)
{
	uint64_t stubborn = program_free_new(1, DEFERQ_STUBBORN, 1, 2);

	model_submit(1);
	ck_assert(program_out_of_memory(0));
	ck_assert(program_all_released(stubborn, 2));
	ck_assert_uint_eq(model_stalls(), 0);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

static void add_proofs(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "proofs", begin, deferq_suite_end);

	tcase_add_test(tests, the_first_free_proves_the_way_and_is_put_off);
	tcase_add_test(tests, the_proof_waits_for_nothing);
	tcase_add_test(tests, where_the_driver_refuses_it_no_free_is_put_off);
	tcase_add_test(tests, where_the_driver_keeps_the_block_no_free_is_put_off);
	tcase_add_test(tests, a_driver_without_the_call_is_asked_nothing);
	tcase_add_loop_test(tests, a_proof_that_says_nothing_is_made_again_with_the_next_free, 0,
			    3);
	tcase_add_test(tests, a_device_that_stays_full_is_asked_no_longer);
	tcase_add_test(tests, nothing_is_proven_during_a_capture);
	tcase_add_loop_test(tests, a_free_while_another_thread_proves_is_the_drivers, 0, 3);
	tcase_add_test(tests, each_context_has_a_proof_of_its_own);
}

int main(void)
{
	Suite *suite = suite_create("deferq_deferred");
	TCase *tests;

	add_proofs(suite);
	tests = deferq_suite_case(suite, "other kinds", begin, deferq_suite_end);
	tcase_add_loop_test(tests, what_the_driver_waits_for_itself_is_its_own_at_once, 0,
			    STATES * HEAVY_KINDS);
	tests = deferq_suite_case(suite, "out of memory", begin, deferq_suite_end);
	tcase_add_loop_test(tests, out_of_memory_waits_for_no_event, 0, STATES);
	tcase_add_test(tests, out_of_memory_waits_for_no_free_that_came_meanwhile);
	tcase_add_test(tests, twice_the_bytes_wait_for_no_event);
	tests = deferq_suite_case(suite, "stubborn blocks", begin, deferq_suite_end);
	tcase_add_test(tests, a_block_that_is_refused_after_the_proof_goes_when_idle);
	tcase_add_test(tests, a_block_that_is_refused_after_the_proof_is_had_when_out_of_memory);
	return deferq_suite_run(suite);
}
