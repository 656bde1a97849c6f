/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"
#include "intercept/pace.h"

#include <check.h>
#include <stdlib.h>
#include <unistd.h>

START_TEST(devices_have_their_turns)
{
	ck_assert(pace_claim(0, CLOCK_TICKS_MONOTONIC));
	ck_assert(!pace_claim(0, CLOCK_TICKS_MONOTONIC));
	ck_assert(pace_claim(1, CLOCK_TICKS_MONOTONIC));
	ck_assert(!pace_claim(1, CLOCK_TICKS_MONOTONIC));
	usleep(20000);
	ck_assert(pace_is_over(clock_ticks(CLOCK_TICKS_MONOTONIC)));
	ck_assert(pace_claim(1, CLOCK_TICKS_MONOTONIC));
	usleep(3000); /* an eighth of the interval, and the other device is looked at */
	ck_assert(pace_is_over(clock_ticks(CLOCK_TICKS_MONOTONIC)));
	ck_assert(pace_claim(0, CLOCK_TICKS_MONOTONIC));
}
END_TEST

/* Ticks of another clock, or of one that steps back, end the wait instead of prolonging it. */
START_TEST(a_clock_that_steps_back_holds_nothing_up)
{
	ck_assert(pace_claim(0, CLOCK_TICKS_MONOTONIC));
	usleep(1000);
	ck_assert(!pace_claim(0, CLOCK_TICKS_MONOTONIC));
	ck_assert(!pace_is_over(clock_ticks(CLOCK_TICKS_MONOTONIC)));
	ck_assert(pace_is_over(1000));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pace");
	TCase *tests = tcase_create("turns");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tests, devices_have_their_turns);
	tcase_add_test(tests, a_clock_that_steps_back_holds_nothing_up);
	suite_add_tcase(suite, tests);

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
