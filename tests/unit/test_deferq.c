/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is documented of the queue, rule by rule: limits, order, scopes,
 * explicit flushes, books.  The context is idle unless a test says so.
 */
#include "deferq_suite.h"

#include "core/gate.h"
#include "core/pending.h"

static void begin(void)
{
	program_begin();
	model_watch(program_queue(1));
	model_watch(program_queue(2));
	model_watch(program_queue(3));
}

/* Settings of their own need queues of their own. */
static void configure(int64_t count, double ratio)
{
	program_begin();
	program_settings.max_count = count;
	program_settings.max_ratio = ratio;
	model_watch(program_queue(1));
}

static void check_one_flush(enum queue_kind queue, enum release_cause cause, uint32_t count,
			    uint64_t bytes)
{
	const struct program_told *told = program_look();

	ck_assert_uint_eq(told->flush_count, 1);
	ck_assert_int_eq(told->flushes[0].queue, queue);
	ck_assert_int_eq(told->flushes[0].cause, cause);
	ck_assert_uint_eq(told->flushes[0].count, count);
	ck_assert_uint_eq(told->flushes[0].bytes, bytes);
	ck_assert_uint_eq(told->flushes[0].failed, 0);
	ck_assert_uint_eq(told->flushes[0].waited, 0);
}

static enum queue_kind queue_of(enum deferq_kind kind)
{
	return kind >= DEFERQ_MODULE ? QUEUE_OBJECTS : QUEUE_MEMORY;
}

/* ---------------------------------------------------------------- the count */

START_TEST(ten_items_wait)
{
	uint64_t first = program_free_new(1, (enum deferq_kind)_i, 1, 10);

	ck_assert_uint_eq(program_waiting(1), 10);
	for (int i = 0; i < 10; i++)
		ck_assert_uint_eq(model_releases(program_nth(first, i)), 0);
	ck_assert_uint_eq(program_look()->flush_count, 0);
	ck_assert(deferq_has_pending(0));
}
END_TEST

START_TEST(eleventh_item_starts_a_pass_and_goes_with_it)
{
	uint64_t first = program_free_new(1, (enum deferq_kind)_i, 1, 11);

	ck_assert(program_all_released(first, 11));
	ck_assert_uint_eq(program_waiting(1), 0);
	check_one_flush(queue_of((enum deferq_kind)_i), RELEASE_COUNT, 11, 11);
	program_synchronize(1);
	ck_assert(!deferq_has_pending(0));
	for (int i = 0; i < 11; i++)
		ck_assert_uint_eq(program_closes(program_nth(first, i)), 1);
}
END_TEST

START_TEST(after_a_pass_counting_begins_anew)
{
	program_free_new(1, DEFERQ_MEMORY, 0, 11);
	program_free_new(1, DEFERQ_MEMORY, 0, 10);
	ck_assert_uint_eq(program_waiting(1), 10);
	program_free_new(1, DEFERQ_MEMORY, 0, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

static const int64_t no_counts[] = { 0, -1, INT64_MIN };

/* The program waited and took all back a moment ago. */
START_TEST(the_eleventh_starts_a_pass_right_after_a_wait_of_the_program)
{
	for (int round = 0; round < 3; round++) {
		program_free_new(1, DEFERQ_MEMORY, 1, 11);
		ck_assert_uint_eq(program_waiting(1), 0);
		ck_assert_uint_eq(program_issued(1), 11);
		program_collect(1);
	}
}
END_TEST

START_TEST(a_count_of_nothing_lets_nothing_wait)
{
	uint64_t first;

	configure(no_counts[_i], 0.2);
	first = program_free_new(1, DEFERQ_MEMORY, 0, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert(program_all_released(first, 1));
	first = program_free_new(1, DEFERQ_MODULE, 0, 2);
	ck_assert(program_all_released(first, 2));
}
END_TEST

START_TEST(a_count_of_one_lets_one_wait)
{
	configure(1, 0.2);
	program_free_new(1, DEFERQ_MEMORY, 0, 1);
	ck_assert_uint_eq(program_waiting(1), 1);
	program_free_new(1, DEFERQ_MEMORY, 0, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(a_huge_count_is_no_limit)
{
	configure(INT64_MAX, 0.2);
	program_free_new(1, DEFERQ_MEMORY, 0, 1000);
	ck_assert_uint_eq(program_waiting(1), 1000);
}
END_TEST

START_TEST(memory_and_objects_are_counted_apart)
{
	uint64_t modules;

	program_free_new(1, DEFERQ_MEMORY, 1, 10);
	modules = program_free_new(1, DEFERQ_MODULE, 0, 10);
	ck_assert_uint_eq(program_waiting(1), 20);
	program_free_new(1, DEFERQ_EVENT, 0, 1);
	ck_assert_uint_eq(program_waiting_in(1, QUEUE_OBJECTS), 0);
	ck_assert_uint_eq(program_waiting_in(1, QUEUE_MEMORY), 10);
	ck_assert(program_all_released(modules, 10));
	check_one_flush(QUEUE_OBJECTS, RELEASE_COUNT, 11, 0);
}
END_TEST

START_TEST(contexts_are_counted_apart)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 10);
	program_free_new(2, DEFERQ_MEMORY, 1, 10);
	ck_assert_uint_eq(program_waiting(1), 10);
	ck_assert_uint_eq(program_waiting(2), 10);
	program_free_new(2, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 10);
	ck_assert_uint_eq(program_waiting(2), 0);
}
END_TEST

/* ---------------------------------------------------------------- the bytes */

START_TEST(bytes_equal_to_the_limit_wait_and_one_more_starts_a_pass)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 100, 2);

	ck_assert_uint_eq(program_waiting(1), 2);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert(program_all_released(first, 3));
	check_one_flush(QUEUE_MEMORY, RELEASE_BYTES, 3, 201);
}
END_TEST

START_TEST(one_item_may_exceed_the_bytes_alone)
{
	program_free_new(1, DEFERQ_MEMORY, 200, 1);
	ck_assert_uint_eq(program_waiting(1), 1);
	program_synchronize(1);
	program_free_new(1, DEFERQ_MEMORY, 201, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(the_limit_of_bytes_is_floored)
{
	configure(10, 0.2999);
	program_free_new(1, DEFERQ_MEMORY, 299, 1);
	ck_assert_uint_eq(program_waiting(1), 1);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(a_ratio_of_nothing_lets_only_sizeless_items_wait)
{
	configure(10, 0);
	program_free_new(1, DEFERQ_MEMORY, 0, 10);
	ck_assert_uint_eq(program_waiting(1), 10);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
	program_free_new(1, DEFERQ_HOST, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
	program_free_new(1, DEFERQ_HOST, 0, 10);
	ck_assert_uint_eq(program_waiting(1), 10);
	program_free_new(1, DEFERQ_MEMORY, 0, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

static const double no_ratios[] = { 1e6, 1e300 };

START_TEST(a_huge_ratio_is_no_limit)
{
	configure(10, no_ratios[_i]);
	program_free_new(1, DEFERQ_MEMORY, 100000, 5);
	program_free_new(1, DEFERQ_HOST, 100000, 5);
	ck_assert_uint_eq(program_waiting(1), 10);
}
END_TEST

START_TEST(bytes_of_objects_are_no_memory)
{
	program_free_new(1, DEFERQ_MODULE, 5000, 10);
	ck_assert_uint_eq(program_waiting(1), 10);
	program_free_new(1, DEFERQ_MEMORY, 200, 1);
	ck_assert_uint_eq(program_waiting(1), 11);
}
END_TEST

/* The machine has 500 bytes, of which 100 may wait. */
START_TEST(host_bytes_are_measured_against_the_machine)
{
	struct deferq_statistics statistics;

	program_free_new(1, DEFERQ_MEMORY, 200, 1);
	program_free_new(1, DEFERQ_HOST, 100, 1);
	deferq_statistics(program_queue(1), &statistics);
	ck_assert_uint_eq(statistics.count[QUEUE_MEMORY], 2);
	ck_assert_uint_eq(statistics.bytes[QUEUE_MEMORY], 300);
	ck_assert_uint_eq(statistics.host_bytes, 100);
	program_free_new(1, DEFERQ_HOST, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
	check_one_flush(QUEUE_MEMORY, RELEASE_BYTES, 3, 301);
	deferq_statistics(program_queue(1), &statistics);
	ck_assert_uint_eq(statistics.host_bytes, 0);
}
END_TEST

START_TEST(host_items_count_with_the_others)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 5);
	program_free_new(1, DEFERQ_HOST, 1, 5);
	ck_assert_uint_eq(program_waiting(1), 10);
	program_free_new(1, DEFERQ_ARRAY, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

/* ---------------------------------------------------------------- the order */

START_TEST(items_are_released_in_the_order_of_their_frees)
{
	uint64_t handles[9];
	const struct program_told *told;
	uint64_t last = 0;

	for (int i = 0; i < 9; i++)
		handles[i] = program_make(1, (enum deferq_kind)_i, (uint64_t)(i * 7 % 5));
	for (int i = 0; i < 9; i++)
		program_free(handles[i * 4 % 9]);
	program_flush(1, false);
	told = program_look();
	ck_assert_uint_eq(told->count, 9);
	for (int i = 0; i < 9; i++) {
		ck_assert_uint_eq(told->items[i].handle, handles[i * 4 % 9]);
		ck_assert_uint_ge(told->items[i].closed, last);
		last = told->items[i].closed;
	}
}
END_TEST

/* ---------------------------------------------------------------- scopes */

START_TEST(nothing_is_released_inside_a_scope)
{
	deferq_suspend(program_queue(1));
	program_free_new(1, DEFERQ_MEMORY, 100, 30);
	program_free_new(1, DEFERQ_MODULE, 0, 30);
	program_free_new(1, DEFERQ_EVENT, 0, 30);
	ck_assert_uint_eq(program_waiting(1), 90);
	ck_assert_uint_eq(program_look()->count, 0);
	ck_assert_uint_eq(model_waits(), 0);
	program_resume(1);
}
END_TEST

START_TEST(leaving_the_outermost_scope_releases_what_exceeds_a_limit)
{
	struct deferq *queue = program_queue(1);

	deferq_suspend(queue);
	deferq_suspend(queue);
	deferq_suspend(queue);
	program_free_new(1, DEFERQ_MEMORY, 0, 11);
	program_free_new(1, DEFERQ_MODULE, 0, 10);
	ck_assert(program_resume(1));
	ck_assert(program_resume(1));
	ck_assert_uint_eq(program_waiting(1), 21);
	ck_assert(program_resume(1));
	ck_assert_uint_eq(program_waiting_in(1, QUEUE_MEMORY), 0);
	ck_assert_uint_eq(program_waiting_in(1, QUEUE_OBJECTS), 10);
	check_one_flush(QUEUE_MEMORY, RELEASE_SCOPE, 11, 0);
	ck_assert(!program_resume(1));
}
END_TEST

START_TEST(leaving_a_scope_within_the_limits_releases_nothing)
{
	deferq_suspend(program_queue(1));
	program_free_new(1, DEFERQ_MEMORY, 20, 10);
	program_free_new(1, DEFERQ_MODULE, 0, 10);
	ck_assert(program_resume(1));
	ck_assert_uint_eq(program_waiting(1), 20);
	ck_assert_uint_eq(program_look()->flush_count, 0);
}
END_TEST

START_TEST(leaving_a_scope_looks_at_both_queues)
{
	deferq_suspend(program_queue(1));
	program_free_new(1, DEFERQ_MEMORY, 201, 1);
	program_free_new(1, DEFERQ_MODULE, 0, 11);
	ck_assert(program_resume(1));
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_look()->flush_count, 2);
}
END_TEST

START_TEST(a_scope_never_opened_cannot_be_left)
{
	ck_assert(!program_resume(1));
	deferq_suspend(program_queue(1));
	program_free_new(1, DEFERQ_MEMORY, 0, 11);
	ck_assert_uint_eq(program_waiting(1), 11);
	ck_assert(program_resume(1));
	ck_assert(!program_resume(1));
}
END_TEST

START_TEST(a_scope_belongs_to_its_context)
{
	deferq_suspend(program_queue(1));
	program_free_new(2, DEFERQ_MEMORY, 0, 11);
	ck_assert_uint_eq(program_waiting(2), 0);
	ck_assert(!program_resume(2));
	ck_assert(program_resume(1));
}
END_TEST

START_TEST(a_scope_is_left_though_a_pass_found_nothing_just_now)
{
	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 0, 11);
	ck_assert_uint_eq(program_waiting(1), 11);
	model_finish(1);
	deferq_suspend(program_queue(1));
	program_resume(1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(the_program_may_wait_inside_a_scope_and_nothing_is_released)
{
	deferq_suspend(program_queue(1));
	program_free_new(1, DEFERQ_MEMORY, 0, 3);
	program_free_new(1, DEFERQ_EVENT, 0, 3);
	program_collect(1);
	program_synchronize(1);
	ck_assert_uint_eq(program_waiting(1), 6);
	program_resume(1);
	program_collect(1);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

/* ---------------------------------------------------------------- explicit flushes */

START_TEST(an_explicit_flush_releases_everything)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 2);
	program_free_new(1, DEFERQ_HOST, 1, 1);
	program_free_new(1, DEFERQ_STREAM, 0, 2);
	program_flush(1, false);
	ck_assert(!deferq_has_pending(0));
	ck_assert_uint_eq(program_look()->flush_count, 2);
	ck_assert_int_eq(program_look()->flush_count, 0);
}
END_TEST

START_TEST(an_explicit_flush_waits_only_if_asked_to)
{
	uint64_t first;

	model_submit(1);
	first = program_free_new(1, DEFERQ_MEMORY, 1, 2);
	program_flush(1, false);
	ck_assert_uint_eq(program_waiting(1), 2);
	ck_assert_uint_eq(model_waits(), 0);
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(model_waits(), 1);
	ck_assert(model_is_back(first));
	ck_assert_int_eq(program_look()->flushes[0].cause, RELEASE_EXPLICIT);
}
END_TEST

START_TEST(with_nothing_pending_the_driver_is_not_asked)
{
	uint64_t calls;

	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	program_flush(1, true);
	program_look();
	calls = model_all_calls();
	program_flush(1, true);
	program_flush(1, false);
	program_collect(1);
	program_synchronize(1);
	ck_assert(!program_out_of_memory(-1));
	ck_assert_uint_eq(model_all_calls(), calls);
	ck_assert_uint_eq(program_look()->flush_count, 0);
}
END_TEST

/* ---------------------------------------------------------------- statistics */

START_TEST(statistics_tell_what_happened)
{
	struct deferq_statistics statistics;

	program_free_new(1, DEFERQ_MEMORY, 3, 11);
	program_free_new(1, DEFERQ_MEMORY, 5, 2);
	program_free_new(1, DEFERQ_HOST, 7, 2);
	program_free_new(1, DEFERQ_MODULE, 0, 4);
	deferq_statistics(program_queue(1), &statistics);
	ck_assert_uint_eq(statistics.count[QUEUE_MEMORY], 4);
	ck_assert_uint_eq(statistics.bytes[QUEUE_MEMORY], 24);
	ck_assert_uint_eq(statistics.host_bytes, 14);
	ck_assert_uint_eq(statistics.count[QUEUE_OBJECTS], 4);
	ck_assert_uint_eq(statistics.issued, 11);
	ck_assert_uint_eq(statistics.issued_bytes, 33);
	ck_assert_uint_eq(statistics.queued, 19);
	ck_assert_uint_eq(statistics.released, 0);
	ck_assert_uint_eq(statistics.deepest, 11);
	ck_assert_uint_eq(statistics.passes[RELEASE_COUNT], 1);

	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	program_flush(1, true);
	deferq_statistics(program_queue(1), &statistics);
	ck_assert_uint_eq(statistics.issued, 0);
	ck_assert_uint_eq(statistics.released, 20);
	ck_assert_uint_eq(statistics.released_bytes, 33 + 24 + 1);
	ck_assert_uint_eq(statistics.failed, 0);
	ck_assert_uint_ge(statistics.passes[RELEASE_EXPLICIT], 1);
	ck_assert_uint_ge(statistics.waited, 1000 * MODEL_TICKS_PER_US);
	ck_assert_uint_ge(statistics.longest, statistics.waited);
}
END_TEST

START_TEST(an_item_tells_when_it_was_ready_and_when_it_left)
{
	uint64_t freed = model_now(), passed;
	const struct deferq_item *item;

	model_submit(1);
	program_free_new(1, DEFERQ_MANAGED, 1, 1);
	model_pass_us(100);
	model_finish(1);
	model_submit(1);
	program_collect(1);
	passed = model_now();
	model_pass_us(100);
	program_collect(1);
	model_finish(1);
	program_collect(1);
	item = &program_look()->items[0];
	ck_assert_uint_gt(item->ready, freed + 100 * MODEL_TICKS_PER_US);
	ck_assert_uint_le(item->ready, passed);
	ck_assert_uint_gt(item->closed, passed + 100 * MODEL_TICKS_PER_US);
	ck_assert_uint_eq(item->context, 1);
	ck_assert_int_eq(item->cause, RELEASE_IDLE);
}
END_TEST

/* Whoever frees for days must not need more memory than for what waits at once. */
START_TEST(the_memory_of_what_was_told_is_used_again)
{
	const void *places[2] = { NULL, NULL };

	for (int round = 0; round < 2; round++) {
		struct deferq_item item = { .handle = model_make(1, DEFERQ_EVENT, 0),
					    .kind = DEFERQ_EVENT };
		struct deferq_report report = { 0 };
		CUresult result;
		uint64_t waited;

		deferq_add(program_queue(1), &item, &result, &waited, &report);
		deferq_flush(program_queue(1), false, &report);
		places[round] = (uintptr_t)report.items < (uintptr_t)report.flushes ?
					(const void *)report.items :
					(const void *)report.flushes;
		deferq_told(&report);
		ck_assert_ptr_null(report.items);
		ck_assert_ptr_null(report.flushes);
	}
	ck_assert_ptr_nonnull(places[0]);
	ck_assert_ptr_eq(places[0], places[1]);
}
END_TEST

START_TEST(all_contexts_are_collected_at_once_inside_the_gate)
{
	struct deferq_report report = { 0 };

	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	program_free_new(2, DEFERQ_MODULE, 1, 3);
	program_free_new(3, DEFERQ_MEMORY, 1, 3);
	ck_assert(gate_enter());
	deferq_collect_inside(&report);
	gate_leave();
	deferq_told(&report);
	ck_assert(!deferq_has_pending(-1));
}
END_TEST

START_TEST(a_handle_without_a_block_is_found_while_it_waits)
{
	uint64_t module = program_free_new(1, DEFERQ_MODULE, 0, 1);

	ck_assert(deferq_holds(program_queue(1), DEFERQ_MODULE, module));
	ck_assert(!deferq_holds(program_queue(1), DEFERQ_EVENT, module));
	ck_assert(!deferq_holds(program_queue(1), DEFERQ_MODULE, module + 1));
	program_flush(1, false);
	ck_assert(!deferq_holds(program_queue(1), DEFERQ_MODULE, module));
}
END_TEST

START_TEST(a_block_is_pending_until_it_is_back)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 8, 11);
	struct block block;

	ck_assert_uint_eq(program_issued(1), 11);
	ck_assert(pending_find(SPACE_ADDRESS, first + 7, &block));
	ck_assert(block.is_pending);
	ck_assert_uint_eq(pending_total, 11);
	program_collect(1);
	ck_assert(!pending_find(SPACE_ADDRESS, first + 7, &block));
	ck_assert_uint_eq(pending_total, 0);
	ck_assert_uint_eq(tracker_count(), 0);
}
END_TEST

static void add_limits(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "limits", begin, deferq_suite_end);

	tcase_add_loop_test(tests, ten_items_wait, 0, DEFERQ_KINDS);
	tcase_add_loop_test(tests, eleventh_item_starts_a_pass_and_goes_with_it, 0, DEFERQ_KINDS);
	tcase_add_test(tests, after_a_pass_counting_begins_anew);
	tcase_add_test(tests, the_eleventh_starts_a_pass_right_after_a_wait_of_the_program);
	tcase_add_loop_test(tests, a_count_of_nothing_lets_nothing_wait, 0, 3);
	tcase_add_test(tests, a_count_of_one_lets_one_wait);
	tcase_add_test(tests, a_huge_count_is_no_limit);
	tcase_add_test(tests, memory_and_objects_are_counted_apart);
	tcase_add_test(tests, contexts_are_counted_apart);
	tcase_add_test(tests, bytes_equal_to_the_limit_wait_and_one_more_starts_a_pass);
	tcase_add_test(tests, one_item_may_exceed_the_bytes_alone);
	tcase_add_test(tests, the_limit_of_bytes_is_floored);
	tcase_add_test(tests, a_ratio_of_nothing_lets_only_sizeless_items_wait);
	tcase_add_loop_test(tests, a_huge_ratio_is_no_limit, 0, 2);
	tcase_add_test(tests, bytes_of_objects_are_no_memory);
	tcase_add_test(tests, host_bytes_are_measured_against_the_machine);
	tcase_add_test(tests, host_items_count_with_the_others);
	tcase_add_loop_test(tests, items_are_released_in_the_order_of_their_frees, 0, DEFERQ_KINDS);
}

static void add_scopes(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "scopes", begin, deferq_suite_end);

	tcase_add_test(tests, nothing_is_released_inside_a_scope);
	tcase_add_test(tests, leaving_the_outermost_scope_releases_what_exceeds_a_limit);
	tcase_add_test(tests, leaving_a_scope_within_the_limits_releases_nothing);
	tcase_add_test(tests, leaving_a_scope_looks_at_both_queues);
	tcase_add_test(tests, a_scope_never_opened_cannot_be_left);
	tcase_add_test(tests, a_scope_belongs_to_its_context);
	tcase_add_test(tests, a_scope_is_left_though_a_pass_found_nothing_just_now);
	tcase_add_test(tests, the_program_may_wait_inside_a_scope_and_nothing_is_released);
}

static void add_rest(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "flushes and books", begin, deferq_suite_end);

	tcase_add_test(tests, an_explicit_flush_releases_everything);
	tcase_add_test(tests, an_explicit_flush_waits_only_if_asked_to);
	tcase_add_test(tests, with_nothing_pending_the_driver_is_not_asked);
	tcase_add_test(tests, statistics_tell_what_happened);
	tcase_add_test(tests, an_item_tells_when_it_was_ready_and_when_it_left);
	tcase_add_test(tests, the_memory_of_what_was_told_is_used_again);
	tcase_add_test(tests, all_contexts_are_collected_at_once_inside_the_gate);
	tcase_add_test(tests, a_handle_without_a_block_is_found_while_it_waits);
	tcase_add_test(tests, a_block_is_pending_until_it_is_back);
}

int main(void)
{
	Suite *suite = suite_create("deferq");

	add_limits(suite);
	add_scopes(suite);
	add_rest(suite);
	return deferq_suite_run(suite);
}
