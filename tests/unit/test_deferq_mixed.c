/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees that wait as the driver's would beside frees that do not, in one queue:
 * neither changes what the other gets.
 */
#include "deferq_suite.h"

#include "core/deferq_queue.h"
#include "core/gate.h"

#include <pthread.h>

static void begin(void)
{
	program_begin();
	program_settings.does_wait = true;
	model_watch(program_queue(1));
}

static enum deferq_answer free_nowait(uint64_t handle)
{
	enum deferq_answer answer;

	program_is_nowait = true;
	answer = program_free(handle);
	program_is_nowait = false;
	return answer;
}

/* So many, each behind a piece of work of its own; the first handle. */
static uint64_t put_off(enum deferq_kind kind, uint64_t bytes, int count)
{
	uint64_t first;

	program_is_nowait = true;
	first = program_free_behind_work(1, kind, bytes, count);
	program_is_nowait = false;
	return first;
}

static uint64_t make_block(uint64_t bytes)
{
	return program_make(1, DEFERQ_MEMORY, bytes);
}

START_TEST(a_free_without_a_wait_is_put_off_whatever_its_kind)
{
	enum deferq_kind kind = (enum deferq_kind)_i;
	uint64_t thing = program_make(1, kind, 1);

	model_submit(1);
	ck_assert_int_eq(free_nowait(thing), DEFERQ_QUEUED);
	ck_assert_uint_eq(program_waited, 0);
	ck_assert_uint_eq(model_waits(), 0);
	ck_assert_uint_eq(model_releases(thing), 0);
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_closes(thing), 1);
}
END_TEST

START_TEST(a_free_with_a_wait_waits_for_its_own_event_beside_them)
{
	uint64_t first = put_off(DEFERQ_MEMORY, 1, 5), block = make_block(1);

	ck_assert_int_eq(program_free(block), DEFERQ_QUEUED);
	ck_assert_uint_gt(program_waited, 0);
	ck_assert_uint_eq(model_waits(), 1);
	program_collect(1); /* its event vouches for all that was freed before */
	ck_assert_uint_eq(model_waits(), 1);
	ck_assert(program_all_released(first, 5));
}
END_TEST

START_TEST(kinds_that_are_the_drivers_stay_the_drivers_beside_them)
{
	put_off(DEFERQ_HOST, 1, 2);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_HOST, 1)), DEFERQ_REFUSED);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_ARRAY, 1)), DEFERQ_REFUSED);
	ck_assert_uint_eq(program_waiting(1), 2);
}
END_TEST

/* As another thread, while the program's free waits: more than twice the limit, and in use. */
static void put_much_off(void)
{
	deferq_suspend(deferq_find(1));
	put_off(DEFERQ_MEMORY, 100, 5);
	deferq_leave_scope(deferq_find(1), DEFERQ_LEAVE_ALONE, &(struct deferq_report){ 0 });
}

START_TEST(a_free_that_has_waited_waits_for_no_others)
{
	uint64_t block = make_block(1);

	model_submit(1);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, put_much_off);
	ck_assert_int_eq(program_free(block), DEFERQ_QUEUED);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_SYNCHRONIZE), 1);
	ck_assert_uint_eq(model_stalls(), 0);
	ck_assert_uint_eq(program_waiting_in(1, QUEUE_MEMORY), 5);
	ck_assert_uint_eq(model_releases(block), 1);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, NULL);
	model_submit(1);
	ck_assert_int_eq(free_nowait(make_block(1)), DEFERQ_QUEUED);
	ck_assert_uint_gt(model_calls(MODEL_EVENT_SYNCHRONIZE), 1);
}
END_TEST

/* The driver might wait in it for what another thread launches just then. */
START_TEST(what_needs_an_idle_moment_is_not_released_by_one_who_has_waited)
{
	uint64_t host, first;

	program_is_nowait = true;
	host = program_free_new(1, DEFERQ_HOST, 1, 1);
	program_is_nowait = false;
	first = program_free_new(1, DEFERQ_MEMORY, 1, 11);
	ck_assert_uint_ge(program_released(first, 11), 10);
	ck_assert_uint_eq(model_releases(host), 0);
	model_pass_us(DEFERQ_BACKOFF_US + 1);
	program_is_nowait = true;
	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	program_is_nowait = false;
	ck_assert_uint_eq(model_releases(host), 1);
}
END_TEST

START_TEST(out_of_memory_waits_for_them)
{
	uint64_t first = put_off(DEFERQ_MEMORY, 1, 3), host = put_off(DEFERQ_HOST, 1, 1);

	ck_assert(program_out_of_memory(0));
	ck_assert_uint_gt(model_waits(), 0);
	ck_assert(program_all_released(first, 3));
	ck_assert_uint_eq(model_releases(host), 1);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

/* What has waited is released without; only work that has begun since is running. */
START_TEST(out_of_memory_waits_for_nothing_once_they_are_gone)
{
	uint64_t waits;

	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	waits = model_calls(MODEL_EVENT_SYNCHRONIZE);
	model_submit(1);
	ck_assert(program_out_of_memory(0));
	ck_assert_uint_eq(model_calls(MODEL_EVENT_SYNCHRONIZE), waits);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

/* As another thread; what it has waited for is over, and new work has begun. */
static void free_one_and_go_on(void)
{
	model_interrupt(MODEL_MEM_FREE_ASYNC, NULL);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	model_submit(1);
}

START_TEST(a_flush_does_not_wait_for_what_came_with_a_wait_meanwhile)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 2);
	model_interrupt(MODEL_MEM_FREE_ASYNC, free_one_and_go_on);
	program_flush(1, true);
	ck_assert_uint_eq(model_calls(MODEL_EVENT_SYNCHRONIZE), 0);
	ck_assert_uint_eq(program_waiting(1), 1);
}
END_TEST

/* So many that a free with a wait would wait its turn; the claim is held by whoever waits. */
static void free_a_crowd(void)
{
	static bool is_inside;

	if (is_inside)
		return;
	is_inside = true;
	program_free_new(1, DEFERQ_MEMORY, 0, DEFERQ_CROWD + 20);
}

START_TEST(a_crowd_does_not_wait_for_one_who_waits_for_the_device)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 1); /* the proof */
	put_off(DEFERQ_MEMORY, 1, 3);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, free_a_crowd);
	program_flush(1, true);
	ck_assert_uint_eq(program_queued(program_nth(model_next_handle(), -1)), 1);
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(during_a_capture_only_frees_without_a_wait_are_put_off)
{
	uint64_t with = make_block(1), without = make_block(1);

	program_free_new(1, DEFERQ_MEMORY, 1, 1); /* the proof */
	program_begin_capture();
	ck_assert_int_eq(program_free(with), DEFERQ_REFUSED);
	ck_assert_int_eq(free_nowait(without), DEFERQ_QUEUED);
	program_end_capture();
	program_collect(1);
	ck_assert_uint_eq(model_releases(without), 1);
}
END_TEST

START_TEST(without_events_of_a_context_they_wait_for_an_idle_one)
{
	uint64_t with = make_block(1), without = make_block(1);

	model_driver.ctx_record_event = NULL;
	model_submit(1);
	ck_assert_int_eq(program_free(with), DEFERQ_REFUSED);
	ck_assert_int_eq(free_nowait(without), DEFERQ_QUEUED);
	program_collect(1);
	ck_assert_uint_eq(model_releases(without), 0);
	program_synchronize(1);
	ck_assert_uint_eq(model_releases(without), 1);
}
END_TEST

/* ---------------------------------------------------------------- limits and scopes */

static void limit(int64_t max_count, double max_ratio)
{
	deferq_limit(&(struct deferq_limits){ max_count, max_ratio, false });
}

START_TEST(a_limit_holds_from_the_next_free_on)
{
	uint64_t first = put_off(DEFERQ_MEMORY, 10, 5);

	limit(10, 0.01); /* ten bytes of a thousand; five times that wait */
	ck_assert_uint_eq(program_waiting(1), 5);
	model_finish(1);
	ck_assert_int_eq(free_nowait(make_block(0)), DEFERQ_QUEUED);
	ck_assert(program_all_released(first, 5));
	limit(0, 0.2);
	put_off(DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_eq(program_waiting(1), 1);
	model_finish(1);
	model_pass_us(DEFERQ_BACKOFF_US + 1);
	free_nowait(make_block(1));
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

START_TEST(a_queue_that_is_opened_later_has_the_new_limits)
{
	limit(10, 0.05);
	ck_assert_ptr_nonnull(deferq_open(model_context(2), 2, 0, DEVICE_BYTES));
	program_is_nowait = true;
	program_free_new(2, DEFERQ_MEMORY, 50, 1);
	ck_assert_uint_eq(program_waiting(2), 1);
	program_free_new(2, DEFERQ_MEMORY, 1, 1);
	program_is_nowait = false;
	ck_assert_uint_eq(program_waiting(2), 0);
}
END_TEST

static bool leave(enum deferq_leave how)
{
	struct deferq_report report = { 0 };
	bool was_open = deferq_leave_scope(deferq_find(1), how, &report);

	deferq_told(&report);
	return was_open;
}

START_TEST(a_scope_may_be_left_alone_or_with_a_pass_in_any_case)
{
	deferq_suspend(deferq_find(1));
	program_is_nowait = true;
	program_free_new(1, DEFERQ_MEMORY, 1, 12);
	program_is_nowait = false;
	ck_assert(leave(DEFERQ_LEAVE_ALONE));
	ck_assert_uint_eq(program_waiting(1), 12);
	ck_assert(!leave(DEFERQ_LEAVE_FLUSH));
	ck_assert_uint_eq(program_waiting(1), 12);
	program_flush(1, false);
	free_nowait(make_block(1));
	deferq_suspend(deferq_find(1));
	ck_assert(leave(DEFERQ_LEAVE_IF_OVER));
	ck_assert_uint_eq(program_waiting(1), 1);
	deferq_suspend(deferq_find(1));
	ck_assert(leave(DEFERQ_LEAVE_FLUSH));
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_issued(1), 0);
}
END_TEST

/* ------------------------------------------------------------------------- at random */

enum { STEPS = 4000, THREADS = 8, ROUNDS = 1500 };

static uint32_t draw(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* The driver frees what is refused; to the model that thing is just never freed. */
static void free_something(uint32_t *seed)
{
	enum deferq_kind kind = draw(seed) % 2 ? DEFERQ_MEMORY :
						 (enum deferq_kind)(draw(seed) % DEFERQ_KINDS);
	uint64_t thing = program_make(1, kind, draw(seed) % 60);

	program_is_nowait = draw(seed) % 2;
	if (program_free(thing) == DEFERQ_QUEUED && program_is_nowait && program_waited)
		model_complain("a free without a wait has waited");
	program_is_nowait = false;
}

static void do_something(uint32_t *seed)
{
	switch (draw(seed) % 16) {
	case 0:
		program_collect(1);
		break;
	case 1:
		program_flush(1, draw(seed) % 4 == 0);
		break;
	case 2:
		program_synchronize(1);
		break;
	case 3:
		program_out_of_memory(0);
		break;
	case 4:
		deferq_suspend(deferq_find(1));
		free_something(seed);
		program_resume(1);
		break;
	case 5:
		limit(draw(seed) % 20, 0.05 * (1 + draw(seed) % 8));
		break;
	case 6:
	case 7:
	case 8:
		model_submit(1);
		break;
	default:
		free_something(seed);
	}
}

/* Every single wait of a program's free is for its own event. */
START_TEST(at_random_nothing_is_lost)
{
	uint32_t seed = 0x1234567 + (uint32_t)_i * 7919;

	for (int i = 0; i < STEPS; i++)
		do_something(&seed);
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_issued(1), 0);
}
END_TEST

static void *run_thread(void *argument)
{
	uint32_t seed = 0x9876543 + (uint32_t)(uintptr_t)argument * 104729;

	model_make_current(1);
	for (int i = 0; i < ROUNDS; i++)
		do_something(&seed);
	return NULL;
}

static void begin_threads(void)
{
	program_begin();
	program_settings.does_wait = true;
	program_queue(1);
}

START_TEST(threads_of_both_kinds_lose_nothing)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run_thread, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	program_flush(1, true);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_issued(1), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("deferq_mixed");
	TCase *tests = deferq_suite_case(suite, "frees", begin, deferq_suite_end);

	tcase_add_loop_test(tests, a_free_without_a_wait_is_put_off_whatever_its_kind, 0,
			    DEFERQ_KINDS);
	tcase_add_test(tests, a_free_with_a_wait_waits_for_its_own_event_beside_them);
	tcase_add_test(tests, kinds_that_are_the_drivers_stay_the_drivers_beside_them);
	tcase_add_test(tests, a_free_that_has_waited_waits_for_no_others);
	tcase_add_test(tests, what_needs_an_idle_moment_is_not_released_by_one_who_has_waited);
	tcase_add_test(tests, out_of_memory_waits_for_them);
	tcase_add_test(tests, out_of_memory_waits_for_nothing_once_they_are_gone);
	tcase_add_test(tests, a_flush_does_not_wait_for_what_came_with_a_wait_meanwhile);
	tcase_add_test(tests, a_crowd_does_not_wait_for_one_who_waits_for_the_device);
	tcase_add_test(tests, during_a_capture_only_frees_without_a_wait_are_put_off);
	tcase_add_test(tests, without_events_of_a_context_they_wait_for_an_idle_one);
	tests = deferq_suite_case(suite, "limits", begin, deferq_suite_end);
	tcase_add_test(tests, a_limit_holds_from_the_next_free_on);
	tcase_add_test(tests, a_queue_that_is_opened_later_has_the_new_limits);
	tcase_add_test(tests, a_scope_may_be_left_alone_or_with_a_pass_in_any_case);
	tests = deferq_suite_case(suite, "random", begin, deferq_suite_end);
	tcase_add_loop_test(tests, at_random_nothing_is_lost, 0, 20);
	tests = deferq_suite_case(suite, "threads", begin_threads, deferq_suite_end);
	tcase_add_loop_test(tests, threads_of_both_kinds_lose_nothing, 0, 3);
	return deferq_suite_run(suite);
}
