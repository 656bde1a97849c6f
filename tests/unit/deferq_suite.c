/* SPDX-License-Identifier: Apache-2.0 */
#include "deferq_suite.h"

#include <stdlib.h>

void deferq_suite_end(void)
{
	program_end();
	ck_assert_msg(!model_complaint(), "%s", model_complaint());
}

TCase *deferq_suite_case(Suite *suite, const char *name, SFun begin, SFun end)
{
	TCase *tests = tcase_create(name);

	tcase_add_checked_fixture(tests, begin, end);
	suite_add_tcase(suite, tests);
	return tests;
}

int deferq_suite_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
