/* SPDX-License-Identifier: Apache-2.0 */
#include "core/gate.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void begin(void)
{
	gate_reset();
}

START_TEST(the_gate_is_open_where_no_capture_is_live)
{
	ck_assert(!gate_is_shut());
	ck_assert(gate_enter());
	ck_assert_uint_eq(gate_in_flight, 1);
	ck_assert(gate_enter());
	ck_assert_uint_eq(gate_in_flight, 2);
	gate_leave();
	gate_leave();
	ck_assert_uint_eq(gate_in_flight, 0);
}
END_TEST

START_TEST(nobody_enters_while_a_capture_is_live)
{
	gate_shut();
	ck_assert(gate_is_shut());
	ck_assert(!gate_enter());
	ck_assert_uint_eq(gate_in_flight, 0);
	gate_open();
	ck_assert(gate_enter());
	gate_leave();
}
END_TEST

START_TEST(captures_are_counted)
{
	gate_shut();
	gate_shut();
	gate_shut();
	ck_assert_uint_eq(gate_captures, 3);
	gate_open();
	gate_open();
	ck_assert(gate_is_shut());
	ck_assert(!gate_enter());
	gate_open();
	ck_assert(!gate_is_shut());
	ck_assert_uint_eq(gate_captures, 0);
}
END_TEST

static _Atomic bool is_shutting, is_shut, is_over;

static void *shut(void *argument)
{
	atomic_store(&is_shutting, true);
	gate_shut();
	atomic_store(&is_shut, true);
	return argument;
}

/* One call is inside for long; the capture may begin when it has left, and not before. */
START_TEST(shutting_waits_for_those_inside_and_lets_nobody_else_in)
{
	pthread_t thread;

	ck_assert(gate_enter());
	ck_assert_int_eq(pthread_create(&thread, NULL, shut, NULL), 0);
	while (!gate_is_shut())
		sched_yield();
	ck_assert(!gate_enter());
	usleep(20000);
	ck_assert(!atomic_load(&is_shut));
	gate_leave();
	pthread_join(thread, NULL);
	ck_assert(atomic_load(&is_shut));
	gate_open();
}
END_TEST

enum { CALLERS = 12, CAPTURERS = 4, CAPTURES = 300 };

static _Atomic uint32_t live, broken, inside_calls;

/* Mostly they try again at once, as hard on the gate as threads can be. */
static void refused(uint32_t round)
{
	if (round % 64 == 0)
		sched_yield();
}

/* Our calls: while one is inside, no capture may be live. */
static void *call(void *argument)
{
	uint32_t round = 0;

	while (!atomic_load(&is_over)) {
		if (!gate_enter()) {
			refused(round++);
			continue;
		}
		if (atomic_load_explicit(&live, memory_order_relaxed))
			atomic_fetch_add(&broken, 1);
		atomic_fetch_add_explicit(&inside_calls, 1, memory_order_relaxed);
		if (atomic_load_explicit(&live, memory_order_relaxed))
			atomic_fetch_add(&broken, 1);
		gate_leave();
	}
	return argument;
}

static void *capture(void *argument)
{
	for (int i = 0; i < CAPTURES; i++) {
		gate_shut();
		atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
		if (i % 16 == 0)
			sched_yield();
		atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
		gate_open();
	}
	return argument;
}

START_TEST(no_call_of_ours_is_in_flight_while_a_capture_is_live)
{
	pthread_t callers[CALLERS], capturers[CAPTURERS];

	for (int i = 0; i < CALLERS; i++)
		ck_assert_int_eq(pthread_create(&callers[i], NULL, call, NULL), 0);
	while (atomic_load(&inside_calls) < CALLERS)
		sched_yield();
	for (int i = 0; i < CAPTURERS; i++)
		ck_assert_int_eq(pthread_create(&capturers[i], NULL, capture, NULL), 0);
	for (int i = 0; i < CAPTURERS; i++)
		pthread_join(capturers[i], NULL);
	atomic_store(&is_over, true);
	for (int i = 0; i < CALLERS; i++)
		pthread_join(callers[i], NULL);
	ck_assert_uint_eq(broken, 0);
	ck_assert_uint_eq(gate_captures, 0);
	ck_assert_uint_eq(gate_in_flight, 0);
}
END_TEST

/* A program's begin-capture must not be held up by calls that are refused anyway. */
START_TEST(those_who_are_refused_do_not_keep_the_gate_from_shutting)
{
	pthread_t callers[CALLERS];
	struct timespec begun, ended;

	gate_shut();
	for (int i = 0; i < CALLERS; i++)
		ck_assert_int_eq(pthread_create(&callers[i], NULL, call, NULL), 0);
	usleep(10000);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	gate_shut();
	clock_gettime(CLOCK_MONOTONIC, &ended);
	atomic_store(&is_over, true);
	for (int i = 0; i < CALLERS; i++)
		pthread_join(callers[i], NULL);
	ck_assert_int_lt(ended.tv_sec - begun.tv_sec, 3);
	ck_assert_uint_eq(inside_calls, 0);
}
END_TEST

START_TEST(a_child_of_fork_is_outside_and_captures_nothing)
{
	int status = -1;
	pid_t child;

	ck_assert(gate_enter());
	atomic_fetch_add(&gate_captures, 1);
	child = fork();
	if (!child) {
		gate_reset();
		if (gate_is_shut() || !gate_enter())
			_exit(1);
		gate_leave();
		gate_shut();
		_exit(gate_enter());
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gate");
	TCase *tests = tcase_create("gate");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, begin, NULL);
	tcase_add_test(tests, the_gate_is_open_where_no_capture_is_live);
	tcase_add_test(tests, nobody_enters_while_a_capture_is_live);
	tcase_add_test(tests, captures_are_counted);
	tcase_add_test(tests, shutting_waits_for_those_inside_and_lets_nobody_else_in);
	tcase_add_test(tests, no_call_of_ours_is_in_flight_while_a_capture_is_live);
	tcase_add_test(tests, those_who_are_refused_do_not_keep_the_gate_from_shutting);
	tcase_add_test(tests, a_child_of_fork_is_outside_and_captures_nothing);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
