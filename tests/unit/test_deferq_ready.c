/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a long queue costs where nothing waits: few questions tell which items
 * are unused, and a program that never synchronises does not heap them up.
 */
#include "deferq_suite.h"

#include "core/deferq_queue.h"

enum { LONG = 700, QUESTIONS_MOST = 2 + 10 /* the two ends, then halving */ };

static void begin(void)
{
	program_begin();
	program_settings.max_ratio = 1e9;
	model_watch(program_queue(1));
}

static const int passed[] = { 0, 1, 2, 3, 10, 349, 350, 351, 352, 500, 697, 698, 699, 700 };

enum { PASSED = sizeof(passed) / sizeof(*passed) };

START_TEST(few_questions_tell_how_many_of_a_long_queue_are_unused)
{
	uint64_t first, questions;

	deferq_suspend(program_queue(1));
	first = program_free_behind_work(1, DEFERQ_MEMORY, 1, LONG);
	model_finish_some(1, (uint64_t)passed[_i]);
	questions = model_calls(MODEL_EVENT_QUERY);
	program_flush(1, false);
	ck_assert_uint_le(model_calls(MODEL_EVENT_QUERY) - questions, QUESTIONS_MOST);
	ck_assert_uint_eq(program_released(first, LONG), passed[_i]);
	ck_assert(program_all_released(first, passed[_i]));
	ck_assert_uint_eq(program_waiting(1), LONG - passed[_i]);
	program_resume(1);
}
END_TEST

START_TEST(a_free_into_a_long_queue_asks_little)
{
	uint64_t first = program_free_behind_work(1, DEFERQ_MEMORY, 1, LONG), questions;

	model_finish_some(1, LONG / 2);
	model_submit(1);
	model_pass_us(DEFERQ_BACKOFF_US);
	questions = model_calls(MODEL_EVENT_QUERY);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	ck_assert_uint_le(model_calls(MODEL_EVENT_QUERY) - questions, QUESTIONS_MOST);
	ck_assert_uint_eq(program_released(first, LONG), LONG / 2);
}
END_TEST

/* Streams have no event: they stand between those that have one. */
START_TEST(items_without_an_event_are_no_obstacle)
{
	struct deferq *queue = program_queue(1);
	uint64_t questions, serials[51];

	deferq_suspend(queue);
	for (int i = 1; i <= 50; i++) {
		program_free_new(1, DEFERQ_STREAM, 0, i % 3);
		program_free_behind_work(1, DEFERQ_MODULE, 0, 1);
		serials[i] = queue->waiting[QUEUE_OBJECTS].last->serial;
		program_free_new(1, DEFERQ_EVENT, 0, i % 2);
	}
	model_finish_some(1, (uint64_t)_i);
	questions = model_calls(MODEL_EVENT_QUERY);
	program_flush(1, false);
	ck_assert_uint_le(model_calls(MODEL_EVENT_QUERY) - questions, QUESTIONS_MOST);
	ck_assert_uint_ge(queue->ready, serials[_i]);
	ck_assert_uint_lt(queue->ready, serials[_i + 1]);
	program_resume(1);
	program_synchronize(1);
}
END_TEST

/* As another thread does between this one's serial and its event. */
static void free_beside(void)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	model_submit(1);
}

/* The list then reads 2, 1: the last one's event says nothing of the one before. */
START_TEST(an_item_behind_which_an_older_one_stands_is_asked_too)
{
	uint64_t first = model_next_handle();

	model_submit(1);
	model_interrupt(MODEL_CTX_RECORD_EVENT, free_beside);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	model_interrupt(MODEL_CTX_RECORD_EVENT, NULL);
	ck_assert_uint_gt(program_queue(1)->waiting[QUEUE_MEMORY].first->serial,
			  program_queue(1)->waiting[QUEUE_MEMORY].last->serial);
	model_finish_some(1, _i ? 1 : 2);
	program_collect(1);
	ck_assert(program_all_released(first, 2));
	model_finish(1);
}
END_TEST

/* It polls events, or has streams wait for each other. */
START_TEST(a_program_that_never_synchronises_heaps_up_a_bounded_number)
{
	enum { FREES = 20000, COUNT_MOST = 10 };
	uint64_t most = 0;

	for (int i = 0; i < FREES; i++) {
		model_submit(1);
		program_free_new(1, DEFERQ_MEMORY, 0, 1);
		model_finish(1);
		if (program_issued(1) > most)
			most = program_issued(1);
	}
	ck_assert_uint_le(most, DEFERQ_HEAP + COUNT_MOST + 1);
	ck_assert_uint_ge(most, DEFERQ_HEAP);
	ck_assert_uint_le(model_calls(MODEL_STREAM_SYNCHRONIZE), 1 + FREES / DEFERQ_HEAP);
	ck_assert_uint_eq(model_waits(), 0);
	ck_assert_uint_eq(model_stalls(), 0);
	program_collect(1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("deferq_ready");
	TCase *tests = deferq_suite_case(suite, "ready", begin, deferq_suite_end);

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, few_questions_tell_how_many_of_a_long_queue_are_unused, 0,
			    PASSED);
	tcase_add_test(tests, a_free_into_a_long_queue_asks_little);
	tcase_add_loop_test(tests, items_without_an_event_are_no_obstacle, 1, 50);
	tcase_add_loop_test(tests, an_item_behind_which_an_older_one_stands_is_asked_too, 0, 2);
	tcase_add_test(tests, a_program_that_never_synchronises_heaps_up_a_bounded_number);
	return deferq_suite_run(suite);
}
