/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures, during which no call may be made; addresses and pages; frees that
 * wait as the driver's would; drivers without events of a context.
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

/* ---------------------------------------------------------------- captures */

START_TEST(a_free_during_a_capture_is_queued_without_a_call)
{
	uint64_t calls, first;

	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	model_submit(1);
	calls = model_all_calls();
	program_begin_capture();
	first = program_free_new(1, DEFERQ_MEMORY, 1, 20);
	program_free_new(1, DEFERQ_MODULE, 0, 20);
	program_free_new(1, DEFERQ_STREAM, 0, 20);
	program_collect(1);
	program_flush(1, false);
	program_flush(1, true);
	ck_assert_uint_eq(model_all_calls(), calls);
	ck_assert_uint_eq(program_waiting(1), 61);
	program_end_capture();
	program_collect(1);
	ck_assert_uint_eq(program_released(first, 20), 0);
	model_finish(1);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

/* Nothing could be released during the capture, not even for an allocation. */
START_TEST(a_free_during_a_capture_beyond_the_limit_of_bytes_is_the_drivers)
{
	program_begin_capture();
	program_free_new(1, DEFERQ_MEMORY, 100, 2);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_REFUSED);
	program_free_new(1, DEFERQ_HOST, 100, 1);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_HOST, 1)), DEFERQ_REFUSED);
	program_free_new(1, DEFERQ_MEMORY, 0, 1);
	program_end_capture();
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_QUEUED);
	program_collect(1);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

START_TEST(one_late_event_covers_all_frees_of_a_capture)
{
	uint64_t records, first;

	program_begin_capture();
	first = program_free_new(1, DEFERQ_MEMORY, 1, 5);
	program_free_new(1, DEFERQ_MODULE, 0, 5);
	program_end_capture();
	model_submit(1); /* after the frees: covered by the late event all the same */
	records = model_calls(MODEL_CTX_RECORD_EVENT);
	program_collect(1);
	ck_assert_uint_eq(model_calls(MODEL_CTX_RECORD_EVENT), records + 1);
	ck_assert_uint_eq(program_waiting(1), 10);
	model_finish(1);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_released(first, 10), 10);
}
END_TEST

START_TEST(a_later_free_vouches_for_those_of_a_capture)
{
	uint64_t first;

	program_begin_capture();
	first = program_free_new(1, DEFERQ_MEMORY, 1, 3);
	program_end_capture();
	program_free_new(1, DEFERQ_MEMORY, 1, 8);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_released(first, 11), 11);
}
END_TEST

START_TEST(a_late_event_that_cannot_be_had_is_asked_for_again)
{
	program_begin_capture();
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	program_end_capture();
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
	tracker_add(&block);
	ck_assert_uint_eq(tracker_displaced, 1);
	program_reuse(again, 8, tick);
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
	model_spoil(program_free_new(1, DEFERQ_MEMORY, 2 * MIB, 2), CUDA_ERROR_NOT_PERMITTED);
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
	ck_assert_uint_eq(program_released(first, 10), 0);
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

	program_begin_capture();
	ck_assert_int_eq(program_free(block), DEFERQ_REFUSED);
	ck_assert_uint_eq(model_all_calls(), calls);
	program_end_capture();
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

/*
 * The driver waits for an idle context in its own call, as it does without us: a
 * wait of ours ahead of it would let the work of other threads in between.
 */
START_TEST(what_needs_an_idle_context_is_the_drivers_at_once)
{
	uint64_t thing, calls;

	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	thing = program_make(1, (enum deferq_kind)_i, 1);
	model_submit(1);
	calls = model_all_calls();
	ck_assert_int_eq(program_free(thing), DEFERQ_REFUSED);
	ck_assert_int_eq(program_result, CUDA_SUCCESS);
	ck_assert_uint_eq(model_all_calls(), calls);
	ck_assert_uint_eq(model_done(1), 0);
	ck_assert_uint_eq(program_waited, 0);
	ck_assert_uint_eq(pending_total, 1);
	ck_assert_uint_eq(program_queue(1)->waiting[QUEUE_MEMORY].count, 1);
	program_flush(1, false);
	ck_assert_uint_eq(pending_total, 0);
}
END_TEST

START_TEST(streams_do_not_wait_where_frees_do)
{
	model_submit(1);
	ck_assert_int_eq(program_free(model_make(1, DEFERQ_STREAM, 0)), DEFERQ_QUEUED);
	ck_assert_uint_eq(model_waits(), 0);
}
END_TEST

/*
 * Seventy threads wait at once, and a capture begins before they come back: what
 * they free may not become pending, and is the driver's in the mode that no
 * capture minds.
 */
static void wait_as_well(void)
{
	static int depth;
	uint64_t block = program_make(1, DEFERQ_MEMORY, 0);

	if (++depth == 70) {
		program_begin_capture();
		return;
	}
	model_submit(1);
	program_free(block);
}

static void wait_nested(void);

START_TEST(waits_that_end_during_a_capture_free_at_once)
{
	uint64_t first = model_next_handle();

	ck_assert(deferq_proof_holds(program_queue(1)));
	first = program_nth(first, 1);
	deferq_suspend(program_queue(1));
	model_submit(1);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, wait_nested);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 0)), DEFERQ_FREED);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, NULL);
	ck_assert(!deferq_has_pending(0));
	ck_assert_uint_eq(pending_total, 0);
	ck_assert(program_all_released(first, 70));
	ck_assert_uint_eq(program_queue(1)->waits_begun, program_queue(1)->waits_ended);
	program_end_capture();
	program_free_new(1, DEFERQ_MEMORY, 0, 1);
	program_flush(1, true);
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
	uint64_t first = program_free_behind_work(1, (enum deferq_kind)_i, 1, 12);

	model_finish(1);
	program_collect(1);
	program_flush(1, false);
	ck_assert_uint_eq(program_waiting(1), 12);
	ck_assert_uint_eq(model_stalls(), 0);
	program_synchronize(1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_released(first, 12), 12);
	ck_assert_uint_eq(model_stalls(), 0);
	ck_assert_uint_eq(model_calls(MODEL_MEM_FREE_ASYNC), 0);
}
END_TEST

START_TEST(without_events_what_is_freed_after_the_mark_stays)
{
	struct deferq_report report = { 0 };
	uint64_t before = program_free_behind_work(1, DEFERQ_MEMORY, 1, 1), mark, after;

	mark = deferq_mark(program_queue(1));
	model_synchronize(1);
	after = program_free_behind_work(1, DEFERQ_MEMORY, 1, 1);
	model_finish_some(1, 2);
	deferq_synchronized(program_queue(1), mark, &report);
	deferq_told(&report);
	ck_assert_uint_eq(model_releases(before), 1);
	ck_assert_uint_eq(model_releases(after), 0);
}
END_TEST

/* The scope kept the synchronise from releasing; work has begun since. */
START_TEST(without_events_a_collect_releases_nothing_that_would_wait)
{
	deferq_suspend(program_queue(1));
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 3);
	program_synchronize(1);
	model_submit(1);
	program_resume(1);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 3);
	ck_assert_uint_eq(model_stalls(), 0);
	program_synchronize(1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(without_events_the_driver_waits_beyond_twice_the_bytes)
{
	uint64_t first = program_free_behind_work(1, DEFERQ_MEMORY, 100, 4);

	ck_assert_uint_eq(model_stalls(), 0);
	program_free_behind_work(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_released(first, 5), 5);
	ck_assert_uint_eq(model_stalls(), 1);
	ck_assert_uint_gt(program_look()->flushes[0].waited, 0);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(without_events_the_driver_waits_when_out_of_memory)
{
	uint64_t first = program_free_behind_work(1, DEFERQ_MEMORY, 1, 4);

	program_free_behind_work(1, DEFERQ_MODULE, 0, 1);
	ck_assert(program_out_of_memory(0));
	ck_assert_uint_eq(program_released(first, 5), 5);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

static void add_captures(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "captures", begin, deferq_suite_end);

	tcase_add_test(tests, a_free_during_a_capture_is_queued_without_a_call);
	tcase_add_test(tests, a_free_during_a_capture_beyond_the_limit_of_bytes_is_the_drivers);
	tcase_add_test(tests, one_late_event_covers_all_frees_of_a_capture);
	tcase_add_test(tests, a_later_free_vouches_for_those_of_a_capture);
	tcase_add_test(tests, a_late_event_that_cannot_be_had_is_asked_for_again);
	tcase_add_test(tests, a_free_whose_event_cannot_be_had_is_the_drivers);
}

static void add_addresses(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "addresses", begin, deferq_suite_end);

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
	TCase *tests = deferq_suite_case(suite, "frees that wait", begin_waiting, deferq_suite_end);

	tcase_add_test(tests, a_free_that_waits_ends_when_its_work_has);
	tcase_add_test(tests, a_free_in_an_idle_context_does_not_wait);
	tcase_add_test(tests, with_frees_that_wait_the_bytes_are_back_after_a_pass);
	tcase_add_loop_test(tests, an_error_of_the_wait_is_the_result_of_the_free, 0, 3);
	tcase_add_test(tests, an_error_that_has_come_already_is_the_result_too);
	tcase_add_test(tests, during_a_capture_a_free_that_must_wait_is_the_drivers);
	tcase_add_test(tests, on_an_old_driver_a_free_that_must_wait_is_the_drivers);
	tcase_add_loop_test(tests, what_needs_an_idle_context_is_the_drivers_at_once,
			    DEFERQ_MANAGED, DEFERQ_STREAM);
	tcase_add_test(tests, streams_do_not_wait_where_frees_do);
	tcase_add_test(tests, waits_that_end_during_a_capture_free_at_once);
}

static void add_old_drivers(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "old drivers", begin_old, deferq_suite_end);

	tcase_add_loop_test(tests, without_events_of_a_context_only_a_synchronise_releases, 0,
			    DEFERQ_STREAM);
	tcase_add_test(tests, without_events_what_is_freed_after_the_mark_stays);
	tcase_add_test(tests, without_events_a_collect_releases_nothing_that_would_wait);
	tcase_add_test(tests, without_events_the_driver_waits_beyond_twice_the_bytes);
	tcase_add_test(tests, without_events_the_driver_waits_when_out_of_memory);
}

int main(void)
{
	Suite *suite = suite_create("deferq_wait");

	add_captures(suite);
	add_addresses(suite);
	add_frees_that_wait(suite);
	add_old_drivers(suite);
	return deferq_suite_run(suite);
}
