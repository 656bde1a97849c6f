/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is documented of the queue when something is short or goes wrong: out of
 * memory, and releases that the driver refuses.
 */
#include "deferq_suite.h"

#include "core/deferq_queue.h"

static void begin(void)
{
	program_begin();
	model_watch(program_queue(1));
	model_watch(program_queue(2));
	model_watch(program_queue(3));
}

/* ---------------------------------------------------------------- out of memory */

START_TEST(out_of_memory_flushes_both_queues_of_all_contexts_of_the_device)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 1, 3);

	program_free_new(1, DEFERQ_MODULE, 0, 3);
	program_free_new(2, DEFERQ_ARRAY, 1, 3);
	program_free_new(3, DEFERQ_MEMORY, 1, 3);
	ck_assert(program_out_of_memory(0));
	ck_assert(!deferq_has_pending(0));
	ck_assert(deferq_has_pending(1));
	ck_assert(deferq_has_pending(-1));
	for (int i = 0; i < 9; i++)
		ck_assert(model_is_back(program_nth(first, i)));
	for (uint32_t i = 0; i < program_look()->flush_count; i++)
		ck_assert_int_eq(program_look()->flushes[i].cause, RELEASE_OOM);
	ck_assert_uint_eq(program_waiting(3), 3);
	ck_assert(program_out_of_memory(-1));
	ck_assert(!deferq_has_pending(-1));
}
END_TEST

START_TEST(out_of_memory_takes_back_what_was_issued)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 1, 11);

	ck_assert_uint_eq(program_issued(1), 11);
	ck_assert(!model_is_back(first));
	ck_assert(program_out_of_memory(0));
	ck_assert(model_is_back(first));
}
END_TEST

START_TEST(out_of_memory_waits_for_work)
{
	uint64_t first;

	model_submit(1);
	first = program_free_new(1, DEFERQ_MEMORY, 1, 2);
	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 2);
	ck_assert(program_out_of_memory(0));
	ck_assert(program_all_released(first, 4));
	ck_assert_uint_gt(model_waits(), 0);
	ck_assert_uint_eq(model_stalls(), 0);
	ck_assert_uint_gt(program_look()->flushes[0].waited, 0);
}
END_TEST

START_TEST(without_anything_pending_a_second_attempt_is_not_worth_it)
{
	ck_assert(!program_out_of_memory(0));
	program_free_new(3, DEFERQ_MEMORY, 1, 3);
	ck_assert(!program_out_of_memory(0));
	ck_assert_uint_eq(program_waiting(3), 3);
}
END_TEST

START_TEST(what_failed_to_be_released_is_not_worth_a_second_attempt)
{
	uint64_t handle = program_free_new(1, DEFERQ_MEMORY, 1, 1);

	model_spoil(handle, CUDA_ERROR_NOT_PERMITTED);
	ck_assert(!program_out_of_memory(0));
	ck_assert_uint_eq(program_closes(handle), 1);
}
END_TEST

START_TEST(a_failed_release_in_one_context_does_not_keep_the_next_from_its_flush)
{
	model_spoil(program_free_new(1, DEFERQ_MEMORY, 1, 1), CUDA_ERROR_NOT_PERMITTED);
	program_free_new(2, DEFERQ_MEMORY, 1, 1);
	ck_assert(program_out_of_memory(0));
	ck_assert(!deferq_has_pending(0));
}
END_TEST

/* An attempt that began before the bytes were back may have missed them. */
START_TEST(a_release_is_remembered_by_its_time)
{
	uint64_t begun = model_now();

	ck_assert(!deferq_has_released_since(begun));
	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	ck_assert(!deferq_has_released_since(begun));
	program_collect(1);
	ck_assert(!deferq_has_pending(0));
	ck_assert(deferq_has_released_since(begun));
	begun = model_now() + 1;
	program_collect(1);
	ck_assert(!deferq_has_released_since(begun));
	program_free_new(1, DEFERQ_HOST, 1, 1);
	program_flush(1, true);
	ck_assert(deferq_has_released_since(begun));
}
END_TEST

START_TEST(out_of_memory_reaches_into_a_scope)
{
	deferq_suspend(program_queue(1));
	program_free_new(1, DEFERQ_MEMORY, 1, 20);
	ck_assert(program_out_of_memory(0));
	ck_assert(!deferq_has_pending(0));
	program_resume(1);
}
END_TEST

START_TEST(to_the_letter_a_scope_holds_out_of_memory_off)
{
	program_begin();
	program_settings.is_strict = true;
	deferq_suspend(program_queue(1));
	program_queue(2);
	program_free_new(1, DEFERQ_MEMORY, 1, 20);
	ck_assert(!program_out_of_memory(0));
	ck_assert_uint_eq(program_waiting(1), 20);
	program_free_new(2, DEFERQ_MEMORY, 1, 5);
	ck_assert(program_out_of_memory(0));
	ck_assert_uint_eq(program_waiting(1), 20);
	ck_assert_uint_eq(program_waiting(2), 0);
	program_resume(1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(out_of_memory_during_a_capture_flushes_nothing)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 5);
	program_begin_capture();
	ck_assert(!program_out_of_memory(0));
	ck_assert_uint_eq(program_waiting(1), 5);
	program_end_capture();
	ck_assert(program_out_of_memory(0));
}
END_TEST

static void free_three_more(void)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
}

/* Another thread keeps freeing; what it frees now is no part of this flush. */
START_TEST(a_flush_ends_though_others_go_on_freeing)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 5);
	model_interrupt(MODEL_STREAM_SYNCHRONIZE, free_three_more);
	ck_assert(program_out_of_memory(0));
	model_interrupt(MODEL_STREAM_SYNCHRONIZE, NULL);
	ck_assert_uint_gt(program_waiting(1), 0);
	ck_assert_uint_le(program_waiting(1), 12);
}
END_TEST

/* ---------------------------------------------------------------- a release fails */

static const enum deferq_kind failing_kinds[] = { DEFERQ_MEMORY, DEFERQ_MANAGED, DEFERQ_HOST };

/* Five items of 1, 2, 4, 8 and 16 bytes; one of them cannot be released. */
static uint64_t free_five(enum deferq_kind kind, int spoilt, CUresult result)
{
	uint64_t first = model_next_handle();

	for (int i = 0; i < 5; i++)
		program_make(1, kind, UINT64_C(1) << i);
	model_spoil(program_nth(first, spoilt), result);
	for (int i = 0; i < 5; i++)
		program_free(program_nth(first, i));
	return first;
}

START_TEST(a_failed_release_is_told_and_dropped_and_ends_its_pass)
{
	enum deferq_kind kind = failing_kinds[_i / 5];
	int spoilt = _i % 5;
	uint64_t first = free_five(kind, spoilt, CUDA_ERROR_NOT_PERMITTED), bytes = 0;
	const struct program_told *told;
	struct deferq_statistics statistics;
	int failures = 0;

	program_flush(1, false);
	told = program_look();
	ck_assert_uint_eq(told->count, spoilt + 1);
	for (uint32_t i = 0; i < told->count; i++) {
		const struct deferq_item *item = &told->items[i];

		if (item->cause != RELEASE_FAILED)
			continue;
		failures++;
		ck_assert_uint_eq(item->handle, program_nth(first, spoilt));
		ck_assert_uint_eq(item->result, CUDA_ERROR_NOT_PERMITTED);
		ck_assert_uint_eq(item->bytes, 1u << spoilt);
		ck_assert_ptr_nonnull(item->caller);
		ck_assert_uint_ne(item->id, 0);
	}
	ck_assert_int_eq(failures, 1);
	ck_assert_uint_eq(told->flushes[0].failed, 1);
	ck_assert_uint_eq(told->flushes[0].count, spoilt);
	for (int i = spoilt + 1; i < 5; i++)
		bytes += UINT64_C(1) << i;
	deferq_statistics(program_queue(1), &statistics);
	ck_assert_uint_eq(statistics.count[QUEUE_MEMORY], 4 - spoilt);
	ck_assert_uint_eq(statistics.bytes[QUEUE_MEMORY], bytes);
	ck_assert_uint_eq(statistics.host_bytes, kind == DEFERQ_HOST ? bytes : 0);
	ck_assert_uint_eq(statistics.failed, 1);

	program_flush(1, false);
	ck_assert(program_all_released(first, 5));
	ck_assert(!deferq_has_pending(0));
}
END_TEST

/* A stale total would start a pass too early. */
START_TEST(after_a_failure_the_limit_of_bytes_is_as_far_as_before)
{
	uint64_t first = program_free_new(1, DEFERQ_MANAGED, 100, 2);

	model_spoil(first, CUDA_ERROR_NOT_PERMITTED);
	program_flush(1, false);
	ck_assert_uint_eq(program_waiting(1), 1);
	program_free_new(1, DEFERQ_MANAGED, 100, 1);
	ck_assert_uint_eq(program_waiting(1), 2);
	program_free_new(1, DEFERQ_MANAGED, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(the_free_that_starts_a_pass_succeeds_though_a_release_fails)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 0, 10);
	uint64_t last = program_make(1, DEFERQ_MEMORY, 0);

	model_spoil(program_nth(first, 4), CUDA_ERROR_NOT_PERMITTED);
	ck_assert_int_eq(program_free(last), DEFERQ_QUEUED);
	ck_assert_int_eq(program_result, CUDA_SUCCESS);
	ck_assert_uint_eq(program_waiting(1), 6);
}
END_TEST

START_TEST(a_failure_among_memory_leaves_the_objects_for_the_next_pass)
{
	model_spoil(program_free_new(1, DEFERQ_MANAGED, 0, 1), CUDA_ERROR_NOT_PERMITTED);
	program_free_new(1, DEFERQ_MODULE, 0, 2);
	program_flush(1, false);
	ck_assert_uint_eq(program_waiting(1), 2);
	program_flush(1, false);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(a_flush_that_waits_stops_at_a_failure_too)
{
	uint64_t first;

	model_submit(1);
	first = free_five(DEFERQ_MEMORY, 2, CUDA_ERROR_NOT_PERMITTED);
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 2);
	ck_assert(model_is_back(first));
	program_flush(1, true);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

static void add_memory(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "out of memory", begin, deferq_suite_end);

	tcase_add_test(tests, out_of_memory_flushes_both_queues_of_all_contexts_of_the_device);
	tcase_add_test(tests, out_of_memory_takes_back_what_was_issued);
	tcase_add_test(tests, out_of_memory_waits_for_work);
	tcase_add_test(tests, without_anything_pending_a_second_attempt_is_not_worth_it);
	tcase_add_test(tests, what_failed_to_be_released_is_not_worth_a_second_attempt);
	tcase_add_test(tests,
		       a_failed_release_in_one_context_does_not_keep_the_next_from_its_flush);
	tcase_add_test(tests, a_release_is_remembered_by_its_time);
	tcase_add_test(tests, out_of_memory_reaches_into_a_scope);
	tcase_add_test(tests, to_the_letter_a_scope_holds_out_of_memory_off);
	tcase_add_test(tests, out_of_memory_during_a_capture_flushes_nothing);
	tcase_add_test(tests, a_flush_ends_though_others_go_on_freeing);
}

static void add_failures(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "failures", begin, deferq_suite_end);

	tcase_add_loop_test(tests, a_failed_release_is_told_and_dropped_and_ends_its_pass, 0, 15);
	tcase_add_test(tests, after_a_failure_the_limit_of_bytes_is_as_far_as_before);
	tcase_add_test(tests, the_free_that_starts_a_pass_succeeds_though_a_release_fails);
	tcase_add_test(tests, a_failure_among_memory_leaves_the_objects_for_the_next_pass);
	tcase_add_test(tests, a_flush_that_waits_stops_at_a_failure_too);
}

int main(void)
{
	Suite *suite = suite_create("deferq_memory");

	add_memory(suite);
	add_failures(suite);
	return deferq_suite_run(suite);
}
