/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context that has work: nothing is released before its event has passed, and
 * next to nothing is waited for.
 */
#include "deferq_suite.h"

#include "core/deferq_queue.h"
#include "core/gate.h"
#include "core/pending.h"

static void begin(void)
{
	program_begin();
	model_watch(program_queue(1));
	model_watch(program_queue(2));
}

/* ---------------------------------------------------------------- events */

START_TEST(what_may_be_in_use_stays_above_the_count)
{
	uint64_t first = program_free_behind_work(1, DEFERQ_MEMORY, 1, 25);

	ck_assert_uint_eq(program_waiting(1), 25);
	ck_assert_uint_eq(program_released(first, 25), 0);
	ck_assert_uint_eq(model_waits(), 0);
	ck_assert_uint_eq(model_stalls(), 0);
}
END_TEST

START_TEST(the_oldest_go_first_as_their_events_pass)
{
	uint64_t first = program_free_behind_work(1, DEFERQ_MEMORY, 1, 15);

	for (uint64_t done = 1; done <= 15; done++) {
		model_finish_some(1, done);
		program_collect(1);
		ck_assert_uint_eq(program_waiting(1), 15 - done);
		ck_assert(model_is_back(program_nth(first, (int)done - 1)));
	}
	ck_assert_uint_eq(model_waits(), 0);
}
END_TEST

START_TEST(the_next_free_takes_along_what_has_passed)
{
	uint64_t first = program_free_behind_work(1, DEFERQ_MEMORY, 1, 12);

	model_finish_some(1, 7);
	model_pass_us(100);
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_released(first, 7), 7);
	ck_assert_uint_eq(program_waiting(1), 6);
}
END_TEST

/* A query costs what a free may not. */
START_TEST(a_pass_that_found_nothing_is_not_repeated_at_once)
{
	uint64_t queries;

	program_free_behind_work(1, DEFERQ_MEMORY, 1, 11);
	queries = model_calls(MODEL_EVENT_QUERY);
	ck_assert_uint_gt(queries, 0);
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 5);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_QUERY), queries);
	model_pass_us(DEFERQ_BACKOFF_US);
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_gt(model_calls(MODEL_EVENT_QUERY), queries);
}
END_TEST

/* Unused they are, but the driver would wait for what runs now. */
START_TEST(a_pass_that_could_release_nothing_is_not_repeated_at_once)
{
	uint64_t queries;

	program_free_behind_work(1, DEFERQ_MANAGED, 1, 10);
	model_finish(1);
	program_free_behind_work(1, DEFERQ_MANAGED, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 11);
	queries = model_calls(MODEL_EVENT_QUERY);
	program_free_behind_work(1, DEFERQ_MANAGED, 1, 5);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_QUERY), queries);
	model_pass_us(DEFERQ_BACKOFF_US);
	program_free_behind_work(1, DEFERQ_MANAGED, 1, 1);
	ck_assert_uint_gt(model_calls(MODEL_EVENT_QUERY), queries);
}
END_TEST

START_TEST(a_free_below_the_limits_asks_for_its_event_and_no_more)
{
	uint64_t calls;

	program_free_new(1, DEFERQ_MEMORY, 1, 2);
	program_flush(1, false);
	calls = model_all_calls();
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(model_all_calls(), calls + 1);
	ck_assert_uint_eq(program_waited, 0);
}
END_TEST

START_TEST(events_are_used_again_and_none_is_lost)
{
	struct deferq *queue = program_queue(1);

	deferq_suspend(queue);
	for (int round = 0; round < 4; round++) {
		program_free_behind_work(1, DEFERQ_MEMORY, 1, 100);
		model_finish(1);
		program_flush(1, true);
	}
	ck_assert_uint_eq(model_calls(MODEL_EVENT_CREATE) - model_calls(MODEL_EVENT_DESTROY),
			  queue->spares);
	ck_assert_uint_eq(queue->spares, DEFERQ_SPARE_EVENTS);
	ck_assert_uint_le(model_calls(MODEL_EVENT_CREATE), 100 + 3 * (100 - DEFERQ_SPARE_EVENTS));
	program_resume(1);
}
END_TEST

static void time_passes(void)
{
	model_pass_us(10);
}

/* Thirty are ready at once; the free that finds them does not pay for all. */
START_TEST(a_pass_inside_a_free_ends_soon_once_the_count_is_out)
{
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 30);
	model_finish(1);
	model_pass_us(100);
	model_interrupt(MODEL_MEM_FREE_ASYNC, time_passes);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_gt(program_issued(1), 10);
	ck_assert_uint_lt(program_issued(1), 20);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_gt(program_issued(1), 20);
	model_interrupt(MODEL_MEM_FREE_ASYNC, NULL);
	program_collect(1);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

START_TEST(a_slow_pass_releases_as_many_as_the_count_all_the_same)
{
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 10);
	model_finish(1);
	model_interrupt(MODEL_MEM_FREE_ASYNC, time_passes);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

static void free_another(void)
{
	program_free_new(1, DEFERQ_MEMORY, 0, 1);
}

/* Others free as fast as this pass releases. */
START_TEST(a_pass_releases_what_was_there_when_it_began)
{
	program_free_new(1, DEFERQ_MEMORY, 0, 11);
	program_collect(1);
	model_interrupt(MODEL_MEM_FREE_ASYNC, free_another);
	program_free_new(1, DEFERQ_MEMORY, 0, 11);
	ck_assert_uint_eq(program_issued(1), 11);
	ck_assert_uint_eq(program_waiting(1), 11);
	model_interrupt(MODEL_MEM_FREE_ASYNC, NULL);
	program_collect(1);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

START_TEST(an_event_is_made_in_the_context_of_the_block)
{
	model_submit(2);
	program_free_new(2, DEFERQ_MEMORY, 1, 3);
	model_make_current(0);
	program_free_new(1, DEFERQ_MEMORY, 1, 12);
	program_flush(2, true);
	ck_assert(!deferq_has_pending(0) || program_waiting(2) == 0);
	ck_assert_uint_eq(model_current(), 0);
	model_make_current(1);
}
END_TEST

/* ---------------------------------------------------------------- what goes how */

START_TEST(what_the_driver_waits_for_goes_only_when_the_context_is_idle)
{
	uint64_t first = program_free_behind_work(1, (enum deferq_kind)_i, 1, 12);

	model_finish(1);
	model_submit(1);
	model_pass_us(100);
	program_collect(1);
	program_free_behind_work(1, (enum deferq_kind)_i, 1, 1);
	program_flush(1, false);
	ck_assert_uint_eq(program_waiting(1), 13);
	ck_assert_uint_eq(model_waits(), 0);
	model_finish(1);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_released(first, 13), 13);
	ck_assert_uint_eq(model_stalls(), 0);
}
END_TEST

START_TEST(plain_blocks_go_while_later_work_runs)
{
	uint64_t first = program_free_behind_work(1, DEFERQ_MEMORY, 1, 12);

	model_finish(1);
	model_submit(1);
	model_pass_us(100);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 1);
	ck_assert_uint_eq(program_released(first, 12), 12);
	program_collect(1);
	ck_assert(model_is_back(first));
	ck_assert_uint_eq(model_stalls(), 0);
	ck_assert_uint_eq(model_waits(), 0);
}
END_TEST

static const enum deferq_kind light_kinds[] = { DEFERQ_STREAM, DEFERQ_EVENT };

START_TEST(streams_and_events_go_while_the_context_works)
{
	uint64_t first;

	model_submit(1);
	first = program_free_new(1, light_kinds[_i], 0, 11);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_released(first, 11), 11);
	ck_assert_uint_eq(model_calls(MODEL_CTX_RECORD_EVENT), 0);
}
END_TEST

START_TEST(a_busy_context_is_asked_once_in_a_pass)
{
	uint64_t records;

	program_free_behind_work(1, DEFERQ_MANAGED, 1, 9);
	model_finish(1);
	model_submit(1);
	records = model_calls(MODEL_CTX_RECORD_EVENT);
	program_collect(1);
	ck_assert_uint_eq(model_calls(MODEL_CTX_RECORD_EVENT), records + 1);
	ck_assert_uint_eq(program_waiting(1), 9);
}
END_TEST

START_TEST(what_must_wait_lets_the_others_pass)
{
	uint64_t managed = program_free_behind_work(1, DEFERQ_MANAGED, 1, 3);
	uint64_t plain = program_free_behind_work(1, DEFERQ_MEMORY, 1, 3);

	model_finish(1);
	model_submit(1);
	program_collect(1);
	ck_assert_uint_eq(program_released(plain, 3), 3);
	ck_assert_uint_eq(program_released(managed, 3), 0);
	ck_assert_uint_eq(program_waiting(1), 3);
	program_synchronize(1);
	ck_assert_uint_eq(program_released(managed, 3), 3);
}
END_TEST

START_TEST(issued_blocks_come_back_only_where_the_program_waits)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 1, 11), syncs, back;
	const struct program_told *told;

	syncs = model_calls(MODEL_STREAM_SYNCHRONIZE);
	ck_assert_uint_le(syncs, 1); /* the probe's */
	ck_assert_uint_eq(program_issued(1), 11);
	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	ck_assert_uint_eq(program_issued(1), 22);
	ck_assert_uint_eq(model_calls(MODEL_STREAM_SYNCHRONIZE), syncs);
	ck_assert(!model_is_back(first));
	ck_assert_uint_eq(program_look()->count, 0);
	model_pass_us(100);
	back = model_now();
	program_collect(1);
	ck_assert_uint_eq(model_calls(MODEL_STREAM_SYNCHRONIZE), syncs + 1);
	told = program_look();
	ck_assert_uint_eq(told->count, 22);
	for (int i = 0; i < 22; i++)
		ck_assert_uint_ge(told->items[i].closed, back);
	ck_assert_uint_eq(program_issued(1), 0);
	ck_assert_uint_eq(model_used(1), 0);
}
END_TEST

START_TEST(what_is_freed_after_a_synchronise_began_is_not_vouched_for_by_it)
{
	struct deferq_report report = { 0 };
	uint64_t before = program_free_behind_work(1, DEFERQ_MEMORY, 1, 1), mark, after;

	mark = deferq_mark(program_queue(1));
	model_finish(1);
	after = program_free_behind_work(1, DEFERQ_MEMORY, 1, 1);
	deferq_synchronized(program_queue(1), mark, &report);
	deferq_told(&report);
	ck_assert_uint_eq(model_releases(before), 1);
	ck_assert_uint_eq(model_releases(after), 0);
}
END_TEST

/* ---------------------------------------------------------------- the probe */

START_TEST(the_way_without_waiting_is_proven_once)
{
	uint64_t allocations;

	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	program_flush(1, false);
	allocations = model_calls(MODEL_MEM_ALLOC);
	ck_assert_uint_eq(allocations, 1);
	ck_assert_uint_eq(model_calls(MODEL_MEM_FREE), 0);
	program_free_new(1, DEFERQ_MEMORY, 1, 22);
	program_flush(1, false);
	ck_assert_uint_eq(model_calls(MODEL_MEM_ALLOC), allocations);
	ck_assert_uint_eq(model_calls(MODEL_STREAM_CREATE), 1);
	ck_assert_uint_eq(model_used(1), 0);
}
END_TEST

static const enum model_plain other_ideas[] = { MODEL_PLAIN_REFUSED, MODEL_PLAIN_KEEPS };

START_TEST(where_the_probe_fails_plain_blocks_go_when_idle)
{
	uint64_t first;

	model_plain = other_ideas[_i];
	model_submit(1);
	first = program_free_new(1, DEFERQ_MEMORY, 1, 3);
	model_finish(1);
	model_submit(1);
	for (int i = 0; i < 20; i++)
		program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 3);
	ck_assert_uint_eq(model_stalls(), 0);
	model_finish(1);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_released(first, 3), 3);
	ck_assert(model_is_back(first));
	ck_assert_uint_eq(model_calls(MODEL_MEM_FREE), _i == 0 ? 4 : 3);
	ck_assert_uint_le(model_calls(MODEL_MEM_ALLOC), 8);
}
END_TEST

static const enum model_function probe_calls[] = {
	MODEL_STREAM_CREATE, MODEL_MEM_ALLOC, MODEL_STREAM_SYNCHRONIZE,
};

START_TEST(a_probe_that_says_nothing_is_repeated_with_the_next_pass)
{
	model_fail(probe_calls[_i], 0, CUDA_ERROR_OUT_OF_MEMORY);
	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 9);
	model_finish(1);
	model_submit(1);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 9);
	ck_assert_uint_eq(model_calls(probe_calls[_i]), 1);
	model_heal(probe_calls[_i]);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(model_used(1), 0);
}
END_TEST

START_TEST(a_driver_without_the_call_is_not_probed)
{
	model_driver.mem_free_async = NULL;
	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	model_finish(1);
	model_submit(1);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 3);
	program_synchronize(1);
	ck_assert(!deferq_has_pending(0));
	ck_assert_uint_eq(model_calls(MODEL_MEM_ALLOC), 0);
	ck_assert_uint_eq(model_calls(MODEL_STREAM_CREATE), 0);
	ck_assert_uint_eq(model_stalls(), 0);
}
END_TEST

/* ---------------------------------------------------------------- twice the bytes */

START_TEST(up_to_twice_the_bytes_nothing_is_waited_for)
{
	program_free_behind_work(1, DEFERQ_MEMORY, 40, 10);
	ck_assert_uint_eq(program_waiting(1), 10);
	ck_assert_uint_eq(model_waits(), 0);
}
END_TEST

START_TEST(beyond_twice_the_bytes_the_oldest_event_is_waited_for)
{
	uint64_t first = program_free_behind_work(1, DEFERQ_MEMORY, 100, 4);
	const struct program_told *told;

	ck_assert_uint_eq(model_waits(), 0);
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(model_waits(), 1);
	ck_assert_uint_eq(model_done(1), 1);
	ck_assert_uint_eq(program_released(first, 4), 1);
	ck_assert(model_is_back(first));
	ck_assert_uint_eq(program_waiting(1), 4);
	told = program_look();
	ck_assert_uint_eq(told->flush_count, 1);
	ck_assert_int_eq(told->flushes[0].cause, RELEASE_BYTES);
	ck_assert_uint_ge(told->flushes[0].waited, 1000 * MODEL_TICKS_PER_US);
	ck_assert_uint_ge(told->flushes[0].duration, told->flushes[0].waited);
	ck_assert_uint_eq(model_stalls(), 0);
}
END_TEST

START_TEST(one_huge_block_waits_for_itself_alone)
{
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 2);
	program_free_behind_work(1, DEFERQ_MEMORY, 1000, 1);
	ck_assert_uint_eq(model_done(1), 3);
	ck_assert_uint_eq(program_waiting(1), 0);
	model_submit(1);
	ck_assert_uint_lt(model_done(1), model_submitted(1));
}
END_TEST

START_TEST(issued_bytes_are_taken_back_before_anything_is_waited_for)
{
	program_free_new(1, DEFERQ_MEMORY, 201, 1);
	ck_assert_uint_eq(program_issued(1), 1);
	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 199, 1);
	ck_assert_uint_eq(program_issued(1), 1);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_issued(1), 0);
	ck_assert_uint_eq(program_waiting(1), 2);
	ck_assert_uint_eq(model_waits(), 0);
}
END_TEST

START_TEST(twice_the_host_bytes_waits_too)
{
	uint64_t first = program_free_behind_work(1, DEFERQ_HOST, 50, 4);

	ck_assert_uint_eq(model_waits(), 0);
	program_free_behind_work(1, DEFERQ_HOST, 1, 1);
	ck_assert_uint_ge(model_waits(), 1);
	ck_assert_uint_ge(program_released(first, 5), 1);
	ck_assert_uint_eq(model_stalls(), 0);
}
END_TEST

START_TEST(nothing_is_waited_for_inside_a_scope)
{
	deferq_suspend(program_queue(1));
	program_free_behind_work(1, DEFERQ_MEMORY, 300, 10);
	ck_assert_uint_eq(program_waiting(1), 10);
	ck_assert_uint_eq(model_waits(), 0);
	ck_assert(program_resume(1));
	ck_assert_uint_gt(model_waits(), 0);
	ck_assert_uint_le(program_waiting(1), 1);
}
END_TEST

START_TEST(a_capture_that_begins_during_a_wait_ends_the_pass)
{
	uint64_t first;

	model_interrupt(MODEL_EVENT_SYNCHRONIZE, program_begin_capture);
	first = program_free_behind_work(1, DEFERQ_MEMORY, 201, 2);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, NULL);
	ck_assert_uint_eq(program_waiting(1), 2);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_SYNCHRONIZE), 1);
	program_end_capture();
	program_flush(1, true);
	ck_assert_uint_eq(program_released(first, 2), 2);
}
END_TEST

static void submit_more(void)
{
	model_submit(1);
}

/* Another thread launches without end, so that there never is an idle moment. */
START_TEST(out_of_memory_gets_managed_blocks_from_a_context_that_is_never_idle)
{
	uint64_t first = program_free_behind_work(1, DEFERQ_MANAGED, 1, 3);

	model_interrupt(MODEL_EVENT_QUERY, submit_more);
	model_interrupt(MODEL_CTX_RECORD_EVENT, submit_more);
	ck_assert(program_out_of_memory(0));
	ck_assert_uint_eq(program_released(first, 3), 3);
	ck_assert_uint_le(model_waits(), 8);
}
END_TEST

START_TEST(out_of_memory_tries_the_way_without_waiting_again)
{
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 3);
	model_interrupt(MODEL_CTX_RECORD_EVENT, submit_more);
	model_fail(MODEL_MEM_ALLOC, 1, CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert(program_out_of_memory(0));
	ck_assert(!deferq_has_pending(0));
	ck_assert_uint_eq(model_stalls(), 0);
	ck_assert_uint_eq(model_calls(MODEL_MEM_ALLOC), 2);
}
END_TEST

START_TEST(a_wait_that_fails_ends_the_flush_and_leaves_the_items)
{
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 3);
	model_fail(MODEL_EVENT_SYNCHRONIZE, 1, CUDA_ERROR_NOT_PERMITTED);
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 3);
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

static void add_events(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "events", begin, deferq_suite_end);

	tcase_add_test(tests, what_may_be_in_use_stays_above_the_count);
	tcase_add_test(tests, the_oldest_go_first_as_their_events_pass);
	tcase_add_test(tests, the_next_free_takes_along_what_has_passed);
	tcase_add_test(tests, a_pass_that_found_nothing_is_not_repeated_at_once);
	tcase_add_test(tests, a_pass_that_could_release_nothing_is_not_repeated_at_once);
	tcase_add_test(tests, a_free_below_the_limits_asks_for_its_event_and_no_more);
	tcase_add_test(tests, events_are_used_again_and_none_is_lost);
	tcase_add_test(tests, a_pass_inside_a_free_ends_soon_once_the_count_is_out);
	tcase_add_test(tests, a_slow_pass_releases_as_many_as_the_count_all_the_same);
	tcase_add_test(tests, a_pass_releases_what_was_there_when_it_began);
	tcase_add_test(tests, an_event_is_made_in_the_context_of_the_block);
}

static void add_ways(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "ways", begin, deferq_suite_end);

	tcase_add_loop_test(tests, what_the_driver_waits_for_goes_only_when_the_context_is_idle,
			    DEFERQ_STUBBORN, DEFERQ_STREAM);
	tcase_add_test(tests, plain_blocks_go_while_later_work_runs);
	tcase_add_loop_test(tests, streams_and_events_go_while_the_context_works, 0, 2);
	tcase_add_test(tests, a_busy_context_is_asked_once_in_a_pass);
	tcase_add_test(tests, what_must_wait_lets_the_others_pass);
	tcase_add_test(tests, issued_blocks_come_back_only_where_the_program_waits);
	tcase_add_test(tests, what_is_freed_after_a_synchronise_began_is_not_vouched_for_by_it);
	tcase_add_test(tests, the_way_without_waiting_is_proven_once);
	tcase_add_loop_test(tests, where_the_probe_fails_plain_blocks_go_when_idle, 0, 2);
	tcase_add_loop_test(tests, a_probe_that_says_nothing_is_repeated_with_the_next_pass, 0, 3);
	tcase_add_test(tests, a_driver_without_the_call_is_not_probed);
}

static void add_waits(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "waits", begin, deferq_suite_end);

	tcase_add_test(tests, up_to_twice_the_bytes_nothing_is_waited_for);
	tcase_add_test(tests, beyond_twice_the_bytes_the_oldest_event_is_waited_for);
	tcase_add_test(tests, one_huge_block_waits_for_itself_alone);
	tcase_add_test(tests, issued_bytes_are_taken_back_before_anything_is_waited_for);
	tcase_add_test(tests, twice_the_host_bytes_waits_too);
	tcase_add_test(tests, nothing_is_waited_for_inside_a_scope);
	tcase_add_test(tests, a_capture_that_begins_during_a_wait_ends_the_pass);
	tcase_add_test(tests,
		       out_of_memory_gets_managed_blocks_from_a_context_that_is_never_idle);
	tcase_add_test(tests, out_of_memory_tries_the_way_without_waiting_again);
	tcase_add_test(tests, a_wait_that_fails_ends_the_flush_and_leaves_the_items);
}

int main(void)
{
	Suite *suite = suite_create("deferq_busy");

	add_events(suite);
	add_ways(suite);
	add_waits(suite);
	return deferq_suite_run(suite);
}
