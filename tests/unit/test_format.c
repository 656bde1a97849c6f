/* SPDX-License-Identifier: Apache-2.0 */
#include "report/format.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>

static char text[FORMAT_BYTES];

START_TEST(sizes_have_three_figures_and_stay_below_1024)
{
	ck_assert_str_eq(format_bytes(text, 0), "0 B");
	ck_assert_str_eq(format_bytes(text, 1023), "1023 B");
	ck_assert_str_eq(format_bytes(text, 1024), "1.00 KiB");
	ck_assert_str_eq(format_bytes(text, 10 * 1024), "10.0 KiB");
	ck_assert_str_eq(format_bytes(text, 100 * 1024), "100 KiB");
	ck_assert_str_eq(format_bytes(text, 1024 * 1024 - 1), "1.00 MiB");
	ck_assert_str_eq(format_bytes(text, INT64_C(3) << 30), "3.00 GiB");
	ck_assert_str_eq(format_bytes(text, INT64_MAX), "8.00 EiB");
	ck_assert_str_eq(format_bytes(text, -1023), "-1023 B");
	ck_assert_str_eq(format_bytes(text, -(INT64_C(3) << 20)), "-3.00 MiB");
	ck_assert_str_eq(format_bytes(text, INT64_MIN), "-9223372036854775808 B");
}
END_TEST

START_TEST(counts_are_grouped_by_thousands)
{
	ck_assert_str_eq(format_count(text, 0), "0");
	ck_assert_str_eq(format_count(text, 999), "999");
	ck_assert_str_eq(format_count(text, 1000), "1,000");
	ck_assert_str_eq(format_count(text, -123456), "-123,456");
	ck_assert_str_eq(format_count(text, INT64_MIN), "-9,223,372,036,854,775,808");
}
END_TEST

START_TEST(durations_choose_their_unit)
{
	ck_assert_str_eq(format_duration(text, 0), "0 ns");
	ck_assert_str_eq(format_duration(text, 999), "999 ns");
	ck_assert_str_eq(format_duration(text, 1000), "1.00 us");
	ck_assert_str_eq(format_duration(text, 999499), "999 us");
	ck_assert_str_eq(format_duration(text, 999500), "1.00 ms");
	ck_assert_str_eq(format_duration(text, 12345678901), "12.3 s");
	ck_assert_str_eq(format_duration(text, INT64_C(125000000000)), "2 min 05 s");
	ck_assert_str_eq(format_duration(text, INT64_C(3720000000000)), "1 h 02 min");
}
END_TEST

START_TEST(moments_are_finer_in_a_short_run)
{
	ck_assert_str_eq(format_moment(text, 8211000000), "8.211 s");
	ck_assert_str_eq(format_moment(text, 7898637), "7.899 ms");
	ck_assert_str_eq(format_moment(text, -2000000), "-2.000 ms");
}
END_TEST

START_TEST(shares_tell_little_from_nothing_and_much_from_all)
{
	ck_assert_str_eq(format_share(text, 0), "0 %");
	ck_assert_str_eq(format_share(text, 3), "<0.1 %");
	ck_assert_str_eq(format_share(text, 560), "5.6 %");
	ck_assert_str_eq(format_share(text, 6600), "66 %");
	ck_assert_str_eq(format_share(text, 9990), "99.9 %");
	ck_assert_str_eq(format_share(text, 10000), "100 %");
}
END_TEST

START_TEST(driver_versions_read_as_cuda_ones)
{
	ck_assert_str_eq(format_driver(text, 13000), "13.0");
	ck_assert_str_eq(format_driver(text, 12090), "12.9");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("format");
	TCase *tcase = tcase_create("numbers");
	SRunner *runner;
	int failed;

	tcase_add_test(tcase, sizes_have_three_figures_and_stay_below_1024);
	tcase_add_test(tcase, counts_are_grouped_by_thousands);
	tcase_add_test(tcase, durations_choose_their_unit);
	tcase_add_test(tcase, moments_are_finer_in_a_short_run);
	tcase_add_test(tcase, shares_tell_little_from_nothing_and_much_from_all);
	tcase_add_test(tcase, driver_versions_read_as_cuda_ones);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
