/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/first_use.h"

#include <check.h>
#include <stdlib.h>

START_TEST(handles_that_share_a_place_are_told_apart)
{
	uint64_t one = 0x10000, other = one + 16;

	while (first_use_place(other) != first_use_place(one))
		other += 16;
	ck_assert(!first_use_is_past(one));
	ck_assert(first_use_note(one));
	ck_assert(first_use_is_past(one));
	ck_assert(first_use_note(other));
	ck_assert(!first_use_is_past(one));
	ck_assert(!first_use_note(one));
	ck_assert(first_use_is_past(one));
}
END_TEST

/* More handles than there is room for: each is told once, and the end is reached. */
START_TEST(handles_without_end_are_no_trouble)
{
	for (uint64_t handle = 16; handle < 16 * 200000; handle += 16)
		ck_assert(first_use_note(handle));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("first_use");
	TCase *tests = tcase_create("handles");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tests, handles_that_share_a_place_are_told_apart);
	tcase_add_test(tests, handles_without_end_are_no_trouble);
	suite_add_tcase(suite, tests);

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
