/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that may end a context, while other threads wait in it: it waits for
 * them, but not without end where the driver would not.
 */
#include "deferq_suite.h"

#include "core/deferq_queue.h"
#include "core/pending.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { PATIENCE_US = 10 * 1000 }; /* of a call that may end a context or not */

/* The wait of a thread: it is over at the device, and has not come back yet. */
static _Atomic bool is_waiting, may_go_on, is_back;
static _Atomic int answer, killers;
static pthread_t waiter, killer[2];
static uint64_t block;

static void begin_deferred(void)
{
	program_begin();
	program_settings.does_wait = true;
	program_queue(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 1);
	program_flush(1, false);
}

static void begin_nowait(void)
{
	program_begin();
	program_queue(1);
}

static void end(void)
{
	deferq_suite_end();
	ck_assert_uint_eq(program_queue(1)->users, 0);
	ck_assert_uint_eq(program_queue(1)->waiters, 0);
	ck_assert_uint_eq(program_queue(1)->waits_begun, program_queue(1)->waits_ended);
	ck_assert_uint_eq(pending_total, 0);
}

/* The mode is put back when the wait is over. */
static void stop_behind_the_wait(void)
{
	static _Thread_local int exchanges;

	if (++exchanges < 2)
		return;
	atomic_store(&is_waiting, true);
	while (!atomic_load(&may_go_on))
		sched_yield();
}

static void *wait_in_free(void *argument)
{
	(void)argument;
	model_make_current(1);
	atomic_store(&answer, (int)program_free(block));
	atomic_store(&is_back, true);
	return NULL;
}

static void *wait_out_of_memory(void *argument)
{
	(void)argument;
	model_make_current(1);
	program_out_of_memory(0);
	atomic_store(&is_back, true);
	return NULL;
}

static void start_waiter(void *(*wait)(void *))
{
	model_interrupt(MODEL_EXCHANGE_MODE, stop_behind_the_wait);
	model_submit(1);
	if (wait == wait_in_free)
		block = program_make(1, DEFERQ_MEMORY, 1);
	else
		program_free_new(1, DEFERQ_MEMORY, 1, 3);
	ck_assert_int_eq(pthread_create(&waiter, NULL, wait, NULL), 0);
	while (!atomic_load(&is_waiting))
		sched_yield();
}

static void *die(void *is_certain)
{
	deferq_dying(program_queue(1), is_certain != NULL);
	atomic_fetch_add(&killers, 1);
	return NULL;
}

static void start_killer(int number, bool is_certain)
{
	static bool certain;

	ck_assert_int_eq(pthread_create(&killer[number], NULL, die, is_certain ? &certain : NULL),
			 0);
	while (atomic_load(&program_queue(1)->dying) < (uint32_t)number + 1)
		sched_yield();
	usleep(5000); /* its patience has begun */
}

static void await_killer(int number)
{
	pthread_join(killer[number], NULL);
	ck_assert_int_ge(atomic_load(&killers), number + 1);
}

/* Nobody comes back, however long one looks. */
static void check_nobody_is_back(int killers_back)
{
	usleep(20000);
	ck_assert_int_eq(atomic_load(&killers), killers_back);
	ck_assert(!atomic_load(&is_back));
}

static void go_on(void)
{
	atomic_store(&may_go_on, true);
	pthread_join(waiter, NULL);
	ck_assert(atomic_load(&is_back));
}

START_TEST(a_death_that_is_certain_waits_for_frees_that_wait)
{
	start_waiter(wait_in_free);
	start_killer(0, true);
	model_pass_us(1000 * PATIENCE_US);
	check_nobody_is_back(0);
	go_on();
	await_killer(0);
	ck_assert_int_eq(atomic_load(&answer), DEFERQ_QUEUED);
	deferq_revive(program_queue(1));
	program_flush(1, true);
}
END_TEST

START_TEST(one_that_is_not_certain_waits_a_while)
{
	start_waiter(wait_in_free);
	start_killer(0, false);
	model_pass_us(PATIENCE_US / 2);
	check_nobody_is_back(0);
	go_on();
	await_killer(0);
	ck_assert(!program_queue(1)->is_abandoned);
	deferq_revive(program_queue(1));
	program_flush(1, true);
}
END_TEST

/* The free's wait is over while the driver is asked: it touches nothing until then. */
START_TEST(an_abandoned_free_goes_on_where_the_context_lives)
{
	start_waiter(wait_in_free);
	start_killer(0, false);
	model_pass_us(2 * PATIENCE_US);
	await_killer(0);
	model_forbid(1, true);
	atomic_store(&may_go_on, true);
	check_nobody_is_back(1);
	model_forbid(1, false);
	deferq_revive(program_queue(1));
	go_on();
	ck_assert_int_eq(atomic_load(&answer), DEFERQ_QUEUED);
	ck_assert(!program_queue(1)->is_abandoned);
	ck_assert_uint_eq(program_waiting(1), 1);
	program_flush(1, false);
	ck_assert_uint_eq(model_releases(block), 1);
}
END_TEST

START_TEST(an_abandoned_free_that_still_waits_is_not_noticed_once_the_context_lives)
{
	start_waiter(wait_in_free);
	start_killer(0, false);
	model_pass_us(2 * PATIENCE_US);
	await_killer(0);
	deferq_revive(program_queue(1));
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_STREAM, 0)), DEFERQ_QUEUED);
	go_on();
	ck_assert_int_eq(atomic_load(&answer), DEFERQ_QUEUED);
	program_flush(1, false);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

START_TEST(an_abandoned_free_is_the_drivers_where_the_context_has_died)
{
	uint64_t calls;

	start_waiter(wait_in_free);
	start_killer(0, false);
	model_pass_us(2 * PATIENCE_US);
	await_killer(0);
	model_kill(1);
	deferq_drop(program_queue(1));
	calls = model_all_calls();
	go_on();
	ck_assert_int_eq(atomic_load(&answer), DEFERQ_REFUSED);
	ck_assert_uint_eq(model_all_calls(), calls);
	ck_assert_uint_eq(program_waiting(1), 0);
}
END_TEST

/* The free comes back between the two: neither may wait for it, nor it for one of them alone. */
START_TEST(two_calls_that_may_end_a_context_leave_the_free_waiting)
{
	start_waiter(wait_in_free);
	start_killer(0, false);
	model_pass_us(2 * PATIENCE_US);
	await_killer(0);
	atomic_store(&may_go_on, true);
	usleep(20000);
	start_killer(1, _i);
	await_killer(1);
	model_forbid(1, true);
	deferq_revive(program_queue(1));
	check_nobody_is_back(2);
	model_forbid(1, false);
	deferq_revive(program_queue(1));
	go_on();
	ck_assert_int_eq(atomic_load(&answer), DEFERQ_QUEUED);
	program_flush(1, false);
}
END_TEST

START_TEST(a_flush_that_waits_is_abandoned_too)
{
	uint64_t calls;

	start_waiter(wait_out_of_memory);
	start_killer(0, false);
	model_pass_us(2 * PATIENCE_US);
	await_killer(0);
	if (_i) {
		model_kill(1);
		deferq_drop(program_queue(1));
		calls = model_all_calls();
		go_on();
		ck_assert_uint_eq(model_all_calls(), calls);
		return;
	}
	atomic_store(&may_go_on, true);
	check_nobody_is_back(1);
	deferq_revive(program_queue(1));
	go_on();
	ck_assert(!deferq_has_pending(0));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("deferq_dying");
	TCase *tests = deferq_suite_case(suite, "frees that wait", begin_deferred, end);

	tcase_add_test(tests, a_death_that_is_certain_waits_for_frees_that_wait);
	tcase_add_test(tests, one_that_is_not_certain_waits_a_while);
	tcase_add_test(tests, an_abandoned_free_goes_on_where_the_context_lives);
	tcase_add_test(tests,
		       an_abandoned_free_that_still_waits_is_not_noticed_once_the_context_lives);
	tcase_add_test(tests, an_abandoned_free_is_the_drivers_where_the_context_has_died);
	tcase_add_loop_test(tests, two_calls_that_may_end_a_context_leave_the_free_waiting, 0, 2);
	tests = deferq_suite_case(suite, "flushes that wait", begin_nowait, end);
	tcase_add_loop_test(tests, a_flush_that_waits_is_abandoned_too, 0, 2);
	return deferq_suite_run(suite);
}
