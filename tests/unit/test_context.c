/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

START_TEST(numbers_count_from_one)
{
	bool is_new = false;

	ck_assert_uint_eq(context_add(0x1000, 0, true, &is_new), 1);
	ck_assert(is_new);
	ck_assert_uint_eq(context_add(0x2000, 1, false, &is_new), 2);
	ck_assert_uint_eq(context_add(0x1000, 0, true, &is_new), 1);
	ck_assert(!is_new);
}
END_TEST

START_TEST(found_as_it_was_entered)
{
	struct context context;
	bool is_new;

	ck_assert(!context_find(0x1000, &context));
	context_add(0x1000, 3, false, &is_new);
	ck_assert(context_find(0x1000, &context));
	ck_assert_uint_eq(context.handle, 0x1000);
	ck_assert_uint_eq(context.number, 1);
	ck_assert_int_eq(context.device, 3);
	ck_assert(!context.is_primary);
	ck_assert(!context.is_dead);
}
END_TEST

START_TEST(handle_comes_back_with_another_number)
{
	uint32_t epoch = context_epoch();
	struct context context;
	bool is_new;

	context_add(0x1000, 0, true, &is_new);
	ck_assert_uint_eq(context_kill(0x1000), 1);
	ck_assert_uint_ne(context_epoch(), epoch);
	ck_assert(!context_find(0x1000, &context));
	ck_assert_uint_eq(context_kill(0x1000), 0);
	ck_assert_uint_eq(context_add(0x1000, 0, true, &is_new), 2);
	ck_assert(is_new);
	ck_assert(context_find(0x1000, &context));
	ck_assert_uint_eq(context.number, 2);
}
END_TEST

START_TEST(all_can_be_walked_by_number)
{
	struct context context;
	bool is_new;

	ck_assert(!context_get(1, &context));
	context_add(0x1000, 0, true, &is_new);
	context_add(0x2000, 1, false, &is_new);
	context_kill(0x1000);
	ck_assert(!context_get(0, &context));
	ck_assert(context_get(1, &context));
	ck_assert(context.is_dead);
	ck_assert(context_get(2, &context));
	ck_assert(!context.is_dead);
	ck_assert_uint_eq(context.handle, 0x2000);
	ck_assert(!context_get(3, &context));
}
END_TEST

START_TEST(primary_context_of_a_device)
{
	struct context context;
	bool is_new;

	context_add(0x1000, 0, true, &is_new);
	context_add(0x2000, 1, false, &is_new);
	context_add(0x3000, 1, true, &is_new);
	ck_assert(context_find_primary(1, &context));
	ck_assert_uint_eq(context.handle, 0x3000);
	context_kill(0x3000);
	ck_assert(!context_find_primary(1, &context));
	ck_assert(context_find_primary(0, &context));
	ck_assert(!context_find_primary(-1, &context));
	ck_assert(!context_find_primary(100000, &context));
}
END_TEST

START_TEST(numbers_run_out)
{
	struct context context;
	bool is_new;

	for (uint32_t i = 1; i <= CONTEXT_MAX; i++) {
		ck_assert_uint_eq(context_add(0x1000, 0, false, &is_new), i);
		ck_assert_uint_eq(context_kill(0x1000), i);
	}
	ck_assert_uint_eq(context_add(0x1000, 0, false, &is_new), 0);
	ck_assert(!is_new);
	ck_assert(!context_find(0x1000, &context));
}
END_TEST

START_TEST(reset_forgets_all)
{
	uint32_t epoch = context_epoch();
	struct context context;
	bool is_new;

	context_add(0x1000, 0, true, &is_new);
	context_reset();
	ck_assert(!context_find(0x1000, &context));
	ck_assert(!context_find_primary(0, &context));
	ck_assert_uint_ne(context_epoch(), epoch);
	ck_assert_uint_eq(context_add(0x5000, 0, true, &is_new), 1);
}
END_TEST

START_TEST(nobody_visits_what_may_end)
{
	bool is_new;
	uint32_t number = context_add(0x1000, 0, false, &is_new);

	ck_assert(context_visit(number));
	ck_assert(context_visit(number)); /* two threads may */
	context_leave(number);
	context_leave(number);
	context_close(number);
	context_close(number); /* two threads release a primary context */
	ck_assert(!context_visit(number));
	context_spare(number);
	ck_assert(!context_visit(number));
	context_spare(number);
	ck_assert(context_visit(number));
	context_leave(number);
	context_kill(0x1000);
	ck_assert(!context_visit(number));
	context_close(0);
	context_spare(0);
}
END_TEST

static _Atomic bool has_left;

static void *visit_a_while(void *argument)
{
	uint32_t number = *(const uint32_t *)argument;

	usleep(20000);
	has_left = true;
	context_leave(number);
	return NULL;
}

START_TEST(the_end_waits_for_visitors)
{
	bool is_new;
	uint32_t number = context_add(0x1000, 0, false, &is_new);
	pthread_t thread;

	has_left = false;
	ck_assert(context_visit(number));
	pthread_create(&thread, NULL, visit_a_while, &number);
	context_close(number);
	ck_assert(has_left);
	pthread_join(thread, NULL);
	context_spare(number);
}
END_TEST

enum { THREADS = 8, HANDLES = 500 };

static _Atomic uint32_t new_count;

/* All threads enter the same contexts; each finds what any has entered. */
static void *add_all(void *failed)
{
	for (uint64_t i = 1; i <= HANDLES; i++) {
		struct context context;
		bool is_new;
		uint32_t number = context_add(i << 12, 0, false, &is_new);

		new_count += is_new;
		if (!context_find(i << 12, &context) || context.number != number)
			return (void *)1;
	}
	return failed;
}

START_TEST(racing_threads_agree)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, add_all, NULL);
	for (int i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	ck_assert_uint_eq(new_count, HANDLES);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("context");
	TCase *tests = tcase_create("context");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, numbers_count_from_one);
	tcase_add_test(tests, found_as_it_was_entered);
	tcase_add_test(tests, handle_comes_back_with_another_number);
	tcase_add_test(tests, all_can_be_walked_by_number);
	tcase_add_test(tests, primary_context_of_a_device);
	tcase_add_test(tests, numbers_run_out);
	tcase_add_test(tests, reset_forgets_all);
	tcase_add_test(tests, nobody_visits_what_may_end);
	tcase_add_test(tests, the_end_waits_for_visitors);
	tcase_add_test(tests, racing_threads_agree);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
