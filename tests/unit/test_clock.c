/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"

#include <check.h>
#include <stdlib.h>
#include <time.h>

static const struct clock_triple start = { 1000, 5000000, 77 };

/* `ns` after the start, on a counter of 3 ticks a nanosecond. */
static struct clock_triple after(uint64_t ns)
{
	return (struct clock_triple){ start.ticks + 3 * ns, start.monotonic_ns + ns, 77 + ns };
}

START_TEST(mode_is_one_of_two_and_stays)
{
	enum clock_mode mode = clock_choose();

	ck_assert(mode == CLOCK_TICKS_TSC || mode == CLOCK_TICKS_MONOTONIC);
	ck_assert_int_eq(clock_choose(), mode);
}
END_TEST

START_TEST(triple_holds_three_clocks)
{
	uint64_t before = clock_system_ns(CLOCK_MONOTONIC);
	struct clock_triple triple;

	clock_read_triple(&triple, CLOCK_TICKS_MONOTONIC);
	ck_assert_uint_eq(triple.ticks, triple.monotonic_ns);
	ck_assert_uint_ge(triple.monotonic_ns, before);
	ck_assert_uint_le(triple.monotonic_ns, clock_system_ns(CLOCK_MONOTONIC));
	ck_assert_uint_gt(triple.real_ns, UINT64_C(1500000000000000000));
}
END_TEST

START_TEST(ticks_pass_in_both_modes)
{
	for (uint32_t mode = CLOCK_TICKS_TSC; mode <= CLOCK_TICKS_MONOTONIC; mode++) {
		const struct timespec nap = { .tv_nsec = 2000000 };
		uint64_t before = clock_ticks(mode);

		nanosleep(&nap, NULL);
		ck_assert_uint_gt(clock_ticks(mode), before);
	}
}
END_TEST

START_TEST(real_triples_are_consistent)
{
	enum clock_mode mode = clock_choose();
	struct clock_triple first, before, now;

	clock_read_triple(&first, mode);
	before = first;
	for (int i = 0; i < 200; i++) {
		const struct timespec nap = { .tv_nsec = 100000 };

		clock_read_triple(&now, mode);
		ck_assert(clock_is_consistent(&first, &before, &now));
		before = now;
		nanosleep(&nap, NULL);
	}
}
END_TEST

START_TEST(straight_line_is_consistent)
{
	struct clock_triple before = after(1000000000), now = after(2000000000);

	ck_assert(clock_is_consistent(&start, &start, &start));
	ck_assert(clock_is_consistent(&start, &start, &now));
	ck_assert(clock_is_consistent(&start, &before, &now));
}
END_TEST

START_TEST(step_back_is_not)
{
	struct clock_triple before = after(1000000000), now = after(2000000000);

	now.ticks = before.ticks - 1;
	ck_assert(!clock_is_consistent(&start, &before, &now));
	now = after(2000000000);
	now.monotonic_ns = before.monotonic_ns - 1;
	ck_assert(!clock_is_consistent(&start, &before, &now));
	now = after(2000000000);
	before.ticks = start.ticks - 1;
	ck_assert(!clock_is_consistent(&start, &before, &now));
}
END_TEST

START_TEST(another_rate_is_not)
{
	struct clock_triple before = after(1000000000), now = after(2000000000);

	now.ticks += 500000; /* less than one part in a thousand of 6e9: slewing does this */
	ck_assert(clock_is_consistent(&start, &before, &now));
	now.ticks += 12000000;
	ck_assert(!clock_is_consistent(&start, &before, &now));
	now.ticks = after(2000000000).ticks - 12000000;
	ck_assert(!clock_is_consistent(&start, &before, &now));
}
END_TEST

START_TEST(lost_cpu_between_two_clocks_is_forgiven)
{
	struct clock_triple before = after(1000000), now = after(1500000);

	now.ticks += 3 * 50000;
	ck_assert(clock_is_consistent(&start, &before, &now));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("clock");
	TCase *tests = tcase_create("clock");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tests, mode_is_one_of_two_and_stays);
	tcase_add_test(tests, triple_holds_three_clocks);
	tcase_add_test(tests, ticks_pass_in_both_modes);
	tcase_add_test(tests, real_triples_are_consistent);
	tcase_add_test(tests, straight_line_is_consistent);
	tcase_add_test(tests, step_back_is_not);
	tcase_add_test(tests, another_rate_is_not);
	tcase_add_test(tests, lost_cpu_between_two_clocks_is_forgiven);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
