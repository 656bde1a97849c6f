/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context that has work: nothing is released before its event has passed, and
 * next to nothing is waited for.
 */
#include "model_program.h"

#include "core/deferq_queue.h"
#include "core/gate.h"
#include "core/pending.h"

#include <check.h>
#include <stdlib.h>

static void begin(void)
{
	program_begin();
	model_watch(program_queue(1));
	model_watch(program_queue(2));
}

static void begin_waiting(void)
{
	program_begin();
	program_settings.does_wait = true;
	model_watch(program_queue(1));
}

static void begin_old(void)
{
	program_begin();
	model_driver.ctx_record_event = NULL;
	model_watch(program_queue(1));
}

static void end(void)
{
	program_end();
	ck_assert_msg(!model_complaint(), "%s", model_complaint());
}

/* Each behind a piece of work of its own; piece `i` + 1 is the last that uses item `i`. */
static uint64_t free_behind_work(enum deferq_kind kind, uint64_t bytes, int count)
{
	uint64_t first = model_next_handle();

	for (int i = 0; i < count; i++)
		program_make(1, kind, bytes);
	for (int i = 0; i < count; i++) {
		model_submit(1);
		program_free(program_nth(first, i));
	}
	return first;
}

static uint32_t count_released(uint64_t first, int count)
{
	uint32_t released = 0;

	for (int i = 0; i < count; i++)
		released += model_releases(program_nth(first, i));
	return released;
}

/* ---------------------------------------------------------------- events */

START_TEST(what_may_be_in_use_stays_above_the_count)
{
	uint64_t first = free_behind_work(DEFERQ_MEMORY, 1, 25);

	ck_assert_uint_eq(program_waiting(1), 25);
	ck_assert_uint_eq(count_released(first, 25), 0);
	ck_assert_uint_eq(model_waits(), 0);
	ck_assert_uint_eq(model_stalls(), 0);
}
END_TEST

START_TEST(the_oldest_go_first_as_their_events_pass)
{
	uint64_t first = free_behind_work(DEFERQ_MEMORY, 1, 15);

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
	uint64_t first = free_behind_work(DEFERQ_MEMORY, 1, 12);

	model_finish_some(1, 7);
	model_pass_us(100);
	free_behind_work(DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(count_released(first, 7), 7);
	ck_assert_uint_eq(program_waiting(1), 6);
}
END_TEST

/* A query costs what a free may not. */
START_TEST(a_pass_that_found_nothing_is_not_repeated_at_once)
{
	uint64_t queries;

	free_behind_work(DEFERQ_MEMORY, 1, 11);
	queries = model_calls(MODEL_EVENT_QUERY);
	ck_assert_uint_gt(queries, 0);
	free_behind_work(DEFERQ_MEMORY, 1, 5);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_QUERY), queries);
	model_pass_us(DEFERQ_BACKOFF_US);
	free_behind_work(DEFERQ_MEMORY, 1, 1);
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
		free_behind_work(DEFERQ_MEMORY, 1, 100);
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
	free_behind_work(DEFERQ_MEMORY, 1, 30);
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
	free_behind_work(DEFERQ_MEMORY, 1, 10);
	model_finish(1);
	model_interrupt(MODEL_MEM_FREE_ASYNC, time_passes);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
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

static const enum deferq_kind idle_kinds[] = {
	DEFERQ_MANAGED, DEFERQ_HOST, DEFERQ_ARRAY, DEFERQ_MIPMAPPED_ARRAY, DEFERQ_MODULE,
};

START_TEST(what_the_driver_waits_for_goes_only_when_the_context_is_idle)
{
	uint64_t first = free_behind_work(idle_kinds[_i], 1, 12);

	model_finish(1);
	model_submit(1);
	model_pass_us(100);
	program_collect(1);
	free_behind_work(idle_kinds[_i], 1, 1);
	program_flush(1, false);
	ck_assert_uint_eq(program_waiting(1), 13);
	ck_assert_uint_eq(model_waits(), 0);
	model_finish(1);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(count_released(first, 13), 13);
	ck_assert_uint_eq(model_stalls(), 0);
}
END_TEST

START_TEST(plain_blocks_go_while_later_work_runs)
{
	uint64_t first = free_behind_work(DEFERQ_MEMORY, 1, 12);

	model_finish(1);
	model_submit(1);
	model_pass_us(100);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 1);
	ck_assert_uint_eq(count_released(first, 12), 12);
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
	ck_assert_uint_eq(count_released(first, 11), 11);
	ck_assert_uint_eq(model_calls(MODEL_CTX_RECORD_EVENT), 0);
}
END_TEST

START_TEST(what_must_wait_lets_the_others_pass)
{
	uint64_t managed = free_behind_work(DEFERQ_MANAGED, 1, 3);
	uint64_t plain = free_behind_work(DEFERQ_MEMORY, 1, 3);

	model_finish(1);
	model_submit(1);
	program_collect(1);
	ck_assert_uint_eq(count_released(plain, 3), 3);
	ck_assert_uint_eq(count_released(managed, 3), 0);
	ck_assert_uint_eq(program_waiting(1), 3);
	program_synchronize(1);
	ck_assert_uint_eq(count_released(managed, 3), 3);
}
END_TEST

START_TEST(issued_blocks_come_back_only_where_the_program_waits)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 1, 11), syncs;

	syncs = model_calls(MODEL_STREAM_SYNCHRONIZE);
	ck_assert_uint_le(syncs, 1); /* the probe's */
	ck_assert_uint_eq(program_issued(1), 11);
	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	ck_assert_uint_eq(program_issued(1), 22);
	ck_assert_uint_eq(model_calls(MODEL_STREAM_SYNCHRONIZE), syncs);
	ck_assert(!model_is_back(first));
	ck_assert_uint_eq(program_look()->count, 0);
	program_collect(1);
	ck_assert_uint_eq(model_calls(MODEL_STREAM_SYNCHRONIZE), syncs + 1);
	ck_assert_uint_eq(program_look()->count, 22);
	ck_assert_uint_eq(program_issued(1), 0);
	ck_assert_uint_eq(model_used(1), 0);
}
END_TEST

START_TEST(what_is_freed_after_a_synchronise_began_is_not_vouched_for_by_it)
{
	struct deferq_report report = { 0 };
	uint64_t before = free_behind_work(DEFERQ_MEMORY, 1, 1), mark, after;

	mark = deferq_mark(program_queue(1));
	model_finish(1);
	after = free_behind_work(DEFERQ_MEMORY, 1, 1);
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
	ck_assert_uint_eq(count_released(first, 3), 3);
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
	free_behind_work(DEFERQ_MEMORY, 40, 10);
	ck_assert_uint_eq(program_waiting(1), 10);
	ck_assert_uint_eq(model_waits(), 0);
}
END_TEST

START_TEST(beyond_twice_the_bytes_the_oldest_event_is_waited_for)
{
	uint64_t first = free_behind_work(DEFERQ_MEMORY, 100, 4);
	const struct program_told *told;

	ck_assert_uint_eq(model_waits(), 0);
	free_behind_work(DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(model_waits(), 1);
	ck_assert_uint_eq(model_done(1), 1);
	ck_assert_uint_eq(count_released(first, 4), 1);
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
	free_behind_work(DEFERQ_MEMORY, 1, 2);
	free_behind_work(DEFERQ_MEMORY, 1000, 1);
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
	uint64_t first = free_behind_work(DEFERQ_HOST, 50, 4);

	ck_assert_uint_eq(model_waits(), 0);
	free_behind_work(DEFERQ_HOST, 1, 1);
	ck_assert_uint_ge(model_waits(), 1);
	ck_assert_uint_ge(count_released(first, 5), 1);
	ck_assert_uint_eq(model_stalls(), 0);
}
END_TEST

START_TEST(nothing_is_waited_for_inside_a_scope)
{
	deferq_suspend(program_queue(1));
	free_behind_work(DEFERQ_MEMORY, 300, 10);
	ck_assert_uint_eq(program_waiting(1), 10);
	ck_assert_uint_eq(model_waits(), 0);
	ck_assert(program_resume(1));
	ck_assert_uint_gt(model_waits(), 0);
	ck_assert_uint_le(program_waiting(1), 1);
}
END_TEST

static void begin_capture(void)
{
	gate_shut();
	model_capture(true);
}

static void end_capture(void)
{
	model_capture(false);
	gate_open();
}

START_TEST(a_capture_that_begins_during_a_wait_ends_the_pass)
{
	uint64_t first;

	model_interrupt(MODEL_EVENT_SYNCHRONIZE, begin_capture);
	first = free_behind_work(DEFERQ_MEMORY, 201, 2);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, NULL);
	ck_assert_uint_eq(program_waiting(1), 2);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_SYNCHRONIZE), 1);
	end_capture();
	program_flush(1, true);
	ck_assert_uint_eq(count_released(first, 2), 2);
}
END_TEST

static void submit_more(void)
{
	model_submit(1);
}

/* Another thread launches without end, so that there never is an idle moment. */
START_TEST(out_of_memory_gets_managed_blocks_from_a_context_that_is_never_idle)
{
	uint64_t first = free_behind_work(DEFERQ_MANAGED, 1, 3);

	model_interrupt(MODEL_EVENT_QUERY, submit_more);
	model_interrupt(MODEL_CTX_RECORD_EVENT, submit_more);
	ck_assert(program_out_of_memory(0));
	ck_assert_uint_eq(count_released(first, 3), 3);
	ck_assert_uint_le(model_waits(), 8);
}
END_TEST

START_TEST(a_wait_that_fails_ends_the_flush_and_leaves_the_items)
{
	free_behind_work(DEFERQ_MEMORY, 1, 3);
	model_fail(MODEL_EVENT_SYNCHRONIZE, 1, CUDA_ERROR_NOT_PERMITTED);
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 3);
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

/* ---------------------------------------------------------------- captures */

START_TEST(a_free_during_a_capture_is_queued_without_a_call)
{
	uint64_t calls, first;

	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	model_submit(1);
	calls = model_all_calls();
	begin_capture();
	first = program_free_new(1, DEFERQ_MEMORY, 1, 20);
	program_free_new(1, DEFERQ_MODULE, 0, 20);
	program_free_new(1, DEFERQ_STREAM, 0, 20);
	program_collect(1);
	program_flush(1, false);
	program_flush(1, true);
	ck_assert_uint_eq(model_all_calls(), calls);
	ck_assert_uint_eq(program_waiting(1), 61);
	end_capture();
	program_collect(1);
	ck_assert_uint_eq(count_released(first, 20), 0);
	model_finish(1);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

/* Nothing could be released during the capture, not even for an allocation. */
START_TEST(a_free_during_a_capture_beyond_the_limit_of_bytes_is_the_drivers)
{
	begin_capture();
	program_free_new(1, DEFERQ_MEMORY, 100, 2);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_REFUSED);
	program_free_new(1, DEFERQ_HOST, 100, 1);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_HOST, 1)), DEFERQ_REFUSED);
	program_free_new(1, DEFERQ_MEMORY, 0, 1);
	end_capture();
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_QUEUED);
	program_collect(1);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

START_TEST(one_late_event_covers_all_frees_of_a_capture)
{
	uint64_t records, first;

	begin_capture();
	first = program_free_new(1, DEFERQ_MEMORY, 1, 5);
	program_free_new(1, DEFERQ_MODULE, 0, 5);
	end_capture();
	model_submit(1); /* after the frees: covered by the late event all the same */
	records = model_calls(MODEL_CTX_RECORD_EVENT);
	program_collect(1);
	ck_assert_uint_eq(model_calls(MODEL_CTX_RECORD_EVENT), records + 1);
	ck_assert_uint_eq(program_waiting(1), 10);
	model_finish(1);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(count_released(first, 10), 10);
}
END_TEST

START_TEST(a_later_free_vouches_for_those_of_a_capture)
{
	uint64_t first;

	begin_capture();
	first = program_free_new(1, DEFERQ_MEMORY, 1, 3);
	end_capture();
	program_free_new(1, DEFERQ_MEMORY, 1, 8);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(count_released(first, 11), 11);
}
END_TEST

START_TEST(a_late_event_that_cannot_be_had_is_asked_for_again)
{
	begin_capture();
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	end_capture();
	model_fail(MODEL_CTX_RECORD_EVENT, 0, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 3);
	model_heal(MODEL_CTX_RECORD_EVENT);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(a_free_whose_event_cannot_be_had_is_the_drivers)
{
	uint64_t handle = program_make(1, DEFERQ_MEMORY, 1);

	model_fail(MODEL_CTX_RECORD_EVENT, 1, CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(program_free(handle), DEFERQ_REFUSED);
	model_fail(MODEL_EVENT_CREATE, 1, CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(program_free(handle), DEFERQ_REFUSED);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(pending_total, 0);
	ck_assert_int_eq(program_free(handle), DEFERQ_QUEUED);
}
END_TEST

/* ---------------------------------------------------------------- addresses and pages */

START_TEST(an_issued_block_whose_address_is_handed_out_again_is_closed_as_of_then)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 16, 11);
	uint64_t again = program_nth(first, 4), tick = model_now();
	struct block block = { .id = tracker_next_id(), .address = again, .bytes = 8,
			       .context = 1, .kind = BLOCK_DEVICE, .references = 1 };
	const struct program_told *told;

	model_synchronize(1); /* the program's own gave the bytes back */
	ck_assert(pending_may_overlap(again, 8));
	program_reuse(again, 8, tick);
	tracker_add(&block);
	told = program_look();
	ck_assert_uint_eq(told->count, 1);
	ck_assert_uint_eq(told->items[0].handle, again);
	ck_assert_uint_eq(told->items[0].closed, tick);
	ck_assert_int_eq(told->items[0].cause, RELEASE_COUNT);
	ck_assert_uint_eq(program_issued(1), 10);
	program_collect(1);
	ck_assert_uint_eq(program_look()->count, 10);
	ck_assert(tracker_find(SPACE_ADDRESS, again + 7, &block) && !block.is_pending);
	ck_assert_uint_eq(pending_total, 0);
}
END_TEST

START_TEST(a_new_block_beside_an_issued_one_closes_nothing)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 16, 11), now = model_now();

	model_synchronize(1);
	program_reuse(first + 16, 100, now);
	program_reuse(first - 100, 100, now);
	ck_assert_uint_eq(program_issued(1), 11);
	program_reuse(first - 100, 101, now);
	ck_assert_uint_eq(program_issued(1), 10);
	program_reuse(program_nth(first, 1) + 15, 1, now);
	ck_assert_uint_eq(program_issued(1), 9);
}
END_TEST

START_TEST(a_new_block_over_several_issued_ones_closes_them_all)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 16, 11);

	model_synchronize(1);
	program_reuse(program_nth(first, 2), program_nth(0, 5), model_now());
	ck_assert_uint_eq(program_look()->count, 5);
	ck_assert_uint_eq(program_issued(1), 6);
}
END_TEST

#define MIB (UINT64_C(1) << 20)

static const struct {
	enum deferq_kind kind;
	uint64_t bytes, pages;
} footprints[] = {
	{ DEFERQ_MEMORY, 1, 0 },
	{ DEFERQ_MEMORY, MIB, 0 },
	{ DEFERQ_MEMORY, MIB + 1, 2 * MIB },
	{ DEFERQ_MEMORY, 2 * MIB, 2 * MIB },
	{ DEFERQ_MEMORY, 3 * MIB, 4 * MIB },
	{ DEFERQ_ARRAY, 5 * MIB, 6 * MIB },
	{ DEFERQ_MIPMAPPED_ARRAY, 2 * MIB, 2 * MIB },
	{ DEFERQ_MANAGED, 5 * MIB, 0 },
	{ DEFERQ_HOST, 5 * MIB, 0 },
	{ DEFERQ_MODULE, 5 * MIB, 0 },
};

START_TEST(pending_memory_is_counted_in_whole_pages_until_it_is_back)
{
	uint64_t pages = footprints[_i].pages;

	program_begin();
	program_settings.max_ratio = 1e9;
	program_queue(1);
	program_queue(3);
	program_free_new(1, footprints[_i].kind, footprints[_i].bytes, 10);
	ck_assert_uint_eq(deferq_page_bytes(0), 10 * pages);
	ck_assert_uint_eq(deferq_page_bytes(1), 0);
	program_free_new(3, footprints[_i].kind, footprints[_i].bytes, 1);
	ck_assert_uint_eq(deferq_page_bytes(1), pages);
	ck_assert_uint_eq(deferq_page_bytes(-1), 11 * pages);
	program_free_new(1, footprints[_i].kind, footprints[_i].bytes, 1);
	ck_assert_uint_eq(deferq_page_bytes(0), footprints[_i].kind == DEFERQ_MEMORY ?
				  11 * pages : 0);
	program_collect(1);
	ck_assert_uint_eq(deferq_page_bytes(0), 0);
}
END_TEST

START_TEST(a_failed_release_leaves_no_pages_behind)
{
	program_begin();
	program_settings.max_ratio = 1e9;
	program_queue(1);
	model_spoil(program_free_new(1, DEFERQ_MEMORY, 2 * MIB, 2), CUDA_ERROR_INVALID_VALUE);
	program_flush(1, false);
	ck_assert_uint_eq(deferq_page_bytes(0), 2 * MIB);
	program_flush(1, false);
	ck_assert_uint_eq(deferq_page_bytes(0), 0);
}
END_TEST

/* ---------------------------------------------------------------- the free waits */

START_TEST(a_free_that_waits_ends_when_its_work_has)
{
	uint64_t block = program_make(1, DEFERQ_MEMORY, 1);

	model_submit(1);
	ck_assert_int_eq(program_free(block), DEFERQ_QUEUED);
	ck_assert_int_eq(program_result, CUDA_SUCCESS);
	ck_assert_uint_eq(model_done(1), 1);
	ck_assert_uint_ge(program_waited, 1000 * MODEL_TICKS_PER_US);
	ck_assert_uint_eq(model_waits(), 1);
	ck_assert_uint_eq(model_releases(block), 0);
	ck_assert_uint_eq(program_waiting(1), 1);
}
END_TEST

START_TEST(a_free_in_an_idle_context_does_not_wait)
{
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_QUEUED);
	ck_assert_uint_eq(program_waited, 0);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_SYNCHRONIZE), 0);
}
END_TEST

START_TEST(with_frees_that_wait_the_bytes_are_back_after_a_pass)
{
	uint64_t first;

	model_submit(1);
	first = program_free_new(1, DEFERQ_MEMORY, 1, 10);
	ck_assert_uint_eq(count_released(first, 10), 0);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_issued(1), 0);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(model_used(1), 0);
}
END_TEST

static const CUresult wait_errors[] = {
	CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_UNKNOWN,
};

START_TEST(an_error_of_the_wait_is_the_result_of_the_free)
{
	uint64_t block = program_make(1, DEFERQ_MEMORY, 1);

	model_submit(1);
	model_fail(MODEL_EVENT_SYNCHRONIZE, 1, wait_errors[_i]);
	ck_assert_int_eq(program_free(block), DEFERQ_FAILED);
	ck_assert_int_eq(program_result, wait_errors[_i]);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(pending_total, 0);
	ck_assert_uint_eq(model_releases(block), 0);
}
END_TEST

START_TEST(an_error_that_has_come_already_is_the_result_too)
{
	model_fail(MODEL_EVENT_QUERY, 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_FAILED);
	ck_assert_int_eq(program_result, CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_uint_eq(pending_total, 0);
}
END_TEST

START_TEST(during_a_capture_a_free_that_must_wait_is_the_drivers)
{
	uint64_t block = program_make(1, DEFERQ_MEMORY, 1), calls = model_all_calls();

	begin_capture();
	ck_assert_int_eq(program_free(block), DEFERQ_REFUSED);
	ck_assert_uint_eq(model_all_calls(), calls);
	end_capture();
	ck_assert_int_eq(program_free(block), DEFERQ_QUEUED);
}
END_TEST

START_TEST(on_an_old_driver_a_free_that_must_wait_is_the_drivers)
{
	uint64_t block = program_make(1, DEFERQ_MEMORY, 1);

	model_driver.ctx_record_event = NULL;
	ck_assert_int_eq(program_free(block), DEFERQ_REFUSED);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

/* The wait is over; what would have to wait once more for its release must not. */
START_TEST(what_needs_an_idle_context_is_the_drivers_once_the_wait_is_over)
{
	uint64_t thing = program_make(1, idle_kinds[_i], 1);

	model_submit(1);
	ck_assert_int_eq(program_free(thing), DEFERQ_REFUSED);
	ck_assert_uint_eq(model_done(1), 1);
	ck_assert_uint_gt(program_waited, 0);
	ck_assert_uint_eq(pending_total, 0);
}
END_TEST

START_TEST(a_plain_block_is_the_drivers_where_the_probe_has_failed)
{
	model_plain = MODEL_PLAIN_REFUSED;
	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_REFUSED);
}
END_TEST

START_TEST(streams_do_not_wait_where_frees_do)
{
	model_submit(1);
	ck_assert_int_eq(program_free(model_make(1, DEFERQ_STREAM, 0)), DEFERQ_QUEUED);
	ck_assert_uint_eq(model_waits(), 0);
}
END_TEST

/* Seventy threads wait at once, and a capture begins before they come back. */
static void wait_as_well(void)
{
	static int depth;
	uint64_t block = program_make(1, DEFERQ_MEMORY, 0);

	if (++depth == 70) {
		begin_capture();
		return;
	}
	model_submit(1);
	program_free(block);
}

static void wait_nested(void);

START_TEST(many_waits_that_end_during_a_capture_make_no_call)
{
	deferq_suspend(program_queue(1));
	model_submit(1);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, wait_nested);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 0)), DEFERQ_QUEUED);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, NULL);
	end_capture();
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_le(program_queue(1)->spares, DEFERQ_SPARE_EVENTS);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_CREATE) - model_calls(MODEL_EVENT_DESTROY),
			  program_queue(1)->spares);
	program_resume(1);
}
END_TEST

static void wait_nested(void)
{
	model_allow_nesting();
	wait_as_well();
}

/* ---------------------------------------------------------------- old drivers */

START_TEST(without_events_of_a_context_only_a_synchronise_releases)
{
	uint64_t first = free_behind_work((enum deferq_kind)_i, 1, 12);

	model_finish(1);
	program_collect(1);
	program_flush(1, false);
	ck_assert_uint_eq(program_waiting(1), 12);
	ck_assert_uint_eq(model_stalls(), 0);
	program_synchronize(1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(count_released(first, 12), 12);
	ck_assert_uint_eq(model_stalls(), 0);
	ck_assert_uint_eq(model_calls(MODEL_MEM_FREE_ASYNC), 0);
}
END_TEST

START_TEST(without_events_what_is_freed_after_the_mark_stays)
{
	struct deferq_report report = { 0 };
	uint64_t before = free_behind_work(DEFERQ_MEMORY, 1, 1), mark, after;

	mark = deferq_mark(program_queue(1));
	model_synchronize(1);
	after = free_behind_work(DEFERQ_MEMORY, 1, 1);
	model_finish_some(1, 2);
	deferq_synchronized(program_queue(1), mark, &report);
	deferq_told(&report);
	ck_assert_uint_eq(model_releases(before), 1);
	ck_assert_uint_eq(model_releases(after), 0);
}
END_TEST

START_TEST(without_events_the_driver_waits_beyond_twice_the_bytes)
{
	uint64_t first = free_behind_work(DEFERQ_MEMORY, 100, 4);

	ck_assert_uint_eq(model_stalls(), 0);
	free_behind_work(DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(count_released(first, 5), 5);
	ck_assert_uint_eq(model_stalls(), 1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(without_events_the_driver_waits_when_out_of_memory)
{
	uint64_t first = free_behind_work(DEFERQ_MEMORY, 1, 4);

	free_behind_work(DEFERQ_MODULE, 0, 1);
	ck_assert(program_out_of_memory(0));
	ck_assert_uint_eq(count_released(first, 5), 5);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

static TCase *add_case(Suite *suite, const char *name, void (*start)(void))
{
	TCase *tests = tcase_create(name);

	tcase_add_checked_fixture(tests, start, end);
	suite_add_tcase(suite, tests);
	return tests;
}

static void add_events(Suite *suite)
{
	TCase *tests = add_case(suite, "events", begin);

	tcase_add_test(tests, what_may_be_in_use_stays_above_the_count);
	tcase_add_test(tests, the_oldest_go_first_as_their_events_pass);
	tcase_add_test(tests, the_next_free_takes_along_what_has_passed);
	tcase_add_test(tests, a_pass_that_found_nothing_is_not_repeated_at_once);
	tcase_add_test(tests, a_free_below_the_limits_asks_for_its_event_and_no_more);
	tcase_add_test(tests, events_are_used_again_and_none_is_lost);
	tcase_add_test(tests, a_pass_inside_a_free_ends_soon_once_the_count_is_out);
	tcase_add_test(tests, a_slow_pass_releases_as_many_as_the_count_all_the_same);
	tcase_add_test(tests, an_event_is_made_in_the_context_of_the_block);
}

static void add_ways(Suite *suite)
{
	TCase *tests = add_case(suite, "ways", begin);

	tcase_add_loop_test(tests, what_the_driver_waits_for_goes_only_when_the_context_is_idle,
			    0, 5);
	tcase_add_test(tests, plain_blocks_go_while_later_work_runs);
	tcase_add_loop_test(tests, streams_and_events_go_while_the_context_works, 0, 2);
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
	TCase *tests = add_case(suite, "waits", begin);

	tcase_add_test(tests, up_to_twice_the_bytes_nothing_is_waited_for);
	tcase_add_test(tests, beyond_twice_the_bytes_the_oldest_event_is_waited_for);
	tcase_add_test(tests, one_huge_block_waits_for_itself_alone);
	tcase_add_test(tests, issued_bytes_are_taken_back_before_anything_is_waited_for);
	tcase_add_test(tests, twice_the_host_bytes_waits_too);
	tcase_add_test(tests, nothing_is_waited_for_inside_a_scope);
	tcase_add_test(tests, a_capture_that_begins_during_a_wait_ends_the_pass);
	tcase_add_test(tests,
		       out_of_memory_gets_managed_blocks_from_a_context_that_is_never_idle);
	tcase_add_test(tests, a_wait_that_fails_ends_the_flush_and_leaves_the_items);
}

static void add_captures(Suite *suite)
{
	TCase *tests = add_case(suite, "captures", begin);

	tcase_add_test(tests, a_free_during_a_capture_is_queued_without_a_call);
	tcase_add_test(tests, a_free_during_a_capture_beyond_the_limit_of_bytes_is_the_drivers);
	tcase_add_test(tests, one_late_event_covers_all_frees_of_a_capture);
	tcase_add_test(tests, a_later_free_vouches_for_those_of_a_capture);
	tcase_add_test(tests, a_late_event_that_cannot_be_had_is_asked_for_again);
	tcase_add_test(tests, a_free_whose_event_cannot_be_had_is_the_drivers);
}

static void add_addresses(Suite *suite)
{
	TCase *tests = add_case(suite, "addresses", begin);

	tcase_add_test(tests,
		       an_issued_block_whose_address_is_handed_out_again_is_closed_as_of_then);
	tcase_add_test(tests, a_new_block_beside_an_issued_one_closes_nothing);
	tcase_add_test(tests, a_new_block_over_several_issued_ones_closes_them_all);
	tcase_add_loop_test(tests, pending_memory_is_counted_in_whole_pages_until_it_is_back, 0,
			    sizeof(footprints) / sizeof(*footprints));
	tcase_add_test(tests, a_failed_release_leaves_no_pages_behind);
}

static void add_frees_that_wait(Suite *suite)
{
	TCase *tests = add_case(suite, "frees that wait", begin_waiting);

	tcase_add_test(tests, a_free_that_waits_ends_when_its_work_has);
	tcase_add_test(tests, a_free_in_an_idle_context_does_not_wait);
	tcase_add_test(tests, with_frees_that_wait_the_bytes_are_back_after_a_pass);
	tcase_add_loop_test(tests, an_error_of_the_wait_is_the_result_of_the_free, 0, 3);
	tcase_add_test(tests, an_error_that_has_come_already_is_the_result_too);
	tcase_add_test(tests, during_a_capture_a_free_that_must_wait_is_the_drivers);
	tcase_add_test(tests, on_an_old_driver_a_free_that_must_wait_is_the_drivers);
	tcase_add_loop_test(tests, what_needs_an_idle_context_is_the_drivers_once_the_wait_is_over,
			    0, 5);
	tcase_add_test(tests, a_plain_block_is_the_drivers_where_the_probe_has_failed);
	tcase_add_test(tests, streams_do_not_wait_where_frees_do);
	tcase_add_test(tests, many_waits_that_end_during_a_capture_make_no_call);
}

static void add_old_drivers(Suite *suite)
{
	TCase *tests = add_case(suite, "old drivers", begin_old);

	tcase_add_loop_test(tests, without_events_of_a_context_only_a_synchronise_releases, 0,
			    DEFERQ_STREAM);
	tcase_add_test(tests, without_events_what_is_freed_after_the_mark_stays);
	tcase_add_test(tests, without_events_the_driver_waits_beyond_twice_the_bytes);
	tcase_add_test(tests, without_events_the_driver_waits_when_out_of_memory);
}

int main(void)
{
	Suite *suite = suite_create("deferq_busy");
	SRunner *runner = srunner_create(suite);
	int failed;

	add_events(suite);
	add_ways(suite);
	add_waits(suite);
	add_captures(suite);
	add_addresses(suite);
	add_frees_that_wait(suite);
	add_old_drivers(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
