/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trace_names.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Every name is there, and no two are the same. */
static void check_names(const char *const *names, int first, int count)
{
	for (int i = first; i < count; i++) {
		ck_assert_ptr_nonnull(names[i]);
		for (int j = first; j < i; j++)
			ck_assert_str_ne(names[i], names[j]);
	}
}

START_TEST(every_kind_has_a_name_of_its_own)
{
	check_names(trace_names_of_blocks, 0, BLOCK_KINDS);
	check_names(trace_names_of_transfers, 0, TRANSFER_KINDS);
	check_names(trace_names_of_places, 0, PLACE_KINDS);
	check_names(trace_names_of_causes, RELEASE_FREED, RELEASE_CAUSES);
	check_names(trace_names_of_moments, READING_ASKED, READING_MOMENTS);
	check_names(trace_names_of_weighed, WEIGHED_CONTEXT, WEIGHED_KINDS);
}
END_TEST

START_TEST(names_are_those_of_the_trace)
{
	ck_assert_str_eq(block_kind_name(BLOCK_VMM), "vmm");
	ck_assert_str_eq(transfer_kind_name(TRANSFER_H2D), "H2D");
	ck_assert_str_eq(place_kind_name(PLACE_PAGEABLE), "pageable");
	ck_assert_str_eq(release_cause_name(RELEASE_CONTEXT), "context");
	ck_assert_ptr_null(release_cause_name(RELEASE_NONE));
}
END_TEST

START_TEST(number_of_a_damaged_trace_is_unknown)
{
	ck_assert_str_eq(block_kind_name((enum block_kind)200), "unknown");
	ck_assert_str_eq(transfer_kind_name((enum transfer_kind)15), "unknown");
	ck_assert_str_eq(place_kind_name((enum place_kind)15), "unknown");
	ck_assert_str_eq(release_cause_name((enum release_cause)65535), "unknown");
}
END_TEST

START_TEST(results_are_named_as_in_the_header)
{
	ck_assert_str_eq(result_name(0), "CUDA_SUCCESS");
	ck_assert_str_eq(result_name(2), "CUDA_ERROR_OUT_OF_MEMORY");
	ck_assert_str_eq(result_name(600), "CUDA_ERROR_NOT_READY");
	ck_assert_str_eq(result_name(999), "CUDA_ERROR_UNKNOWN");
	ck_assert_ptr_null(result_name(12345));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trace_names");
	TCase *tests = tcase_create("trace_names");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tests, every_kind_has_a_name_of_its_own);
	tcase_add_test(tests, names_are_those_of_the_trace);
	tcase_add_test(tests, number_of_a_damaged_trace_is_unknown);
	tcase_add_test(tests, results_are_named_as_in_the_header);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
