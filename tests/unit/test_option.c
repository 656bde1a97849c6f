/* SPDX-License-Identifier: Apache-2.0 */
#include "core/option.h"

#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
	const char *text;
	uint64_t bytes;
} good_sizes[] = {
	{ "0", 0 },
	{ "1073741824", UINT64_C(1) << 30 },
	{ "17B", 17 },
	{ "256k", 256 << 10 },
	{ "256K", 256 << 10 },
	{ "64MiB", 64 << 20 },
	{ "64 MiB", 64 << 20 },
	{ "64MB", 64000000 },
	{ "3G", UINT64_C(3) << 30 },
	{ "2TiB", UINT64_C(2) << 40 },
	{ "18446744073709551615", UINT64_MAX },
};

START_TEST(size_is_read)
{
	uint64_t bytes = 1;

	ck_assert_msg(option_parse_size(good_sizes[_i].text, &bytes), "%s", good_sizes[_i].text);
	ck_assert_uint_eq(bytes, good_sizes[_i].bytes);
}
END_TEST

static const char *const bad_sizes[] = {
	"", "k", "-1", "+1", " 1", "1x", "1kx", "1KIB", "1 2", "0x10", "1.5G", "MiB",
	"18446744073709551616", "99999999999999999999999", "18446744073709551615k",
};

START_TEST(size_is_refused)
{
	uint64_t bytes;

	ck_assert_msg(!option_parse_size(bad_sizes[_i], &bytes), "'%s'", bad_sizes[_i]);
}
END_TEST

static const struct {
	enum option_id id;
	const char *value;
	bool is_good;
} judged[] = {
	{ OPTION_OUTPUT, "a.db", true },
	{ OPTION_OUTPUT, "/x/%p.%h.%e.%q{HOME}.100%%", true },
	{ OPTION_OUTPUT, "", false },
	{ OPTION_OUTPUT, "a%", false },
	{ OPTION_OUTPUT, "a%x", false },
	{ OPTION_OUTPUT, "a%q", false },
	{ OPTION_OUTPUT, "a%q{", false },
	{ OPTION_OUTPUT, "a%q{}", false },
	{ OPTION_FREES, "immediate", true },
	{ OPTION_FREES, "immediately", false },
	{ OPTION_FREES, "immed", false },
	{ OPTION_FREES, "", false },
	{ OPTION_FREES, "deferred", true },
	{ OPTION_FREES, "nowait", true },
	{ OPTION_MAX_PENDING, "10", true },
	{ OPTION_MAX_PENDING, "0", true },
	{ OPTION_MAX_PENDING, "-1", true },
	{ OPTION_MAX_PENDING, "+7", true },
	{ OPTION_MAX_PENDING, "9223372036854775807", true },
	{ OPTION_MAX_PENDING, "9223372036854775808", false },
	{ OPTION_MAX_PENDING, "", false },
	{ OPTION_MAX_PENDING, " 1", false },
	{ OPTION_MAX_PENDING, "\t1", false },
	{ OPTION_MAX_PENDING, "1 ", false },
	{ OPTION_MAX_PENDING, "1.5", false },
	{ OPTION_MAX_PENDING, "1k", false },
	{ OPTION_MAX_PENDING, "ten", false },
	{ OPTION_MAX_PENDING, "-", false },
	{ OPTION_MAX_PENDING_RATIO, "0.2", true },
	{ OPTION_MAX_PENDING_RATIO, "0", true },
	{ OPTION_MAX_PENDING_RATIO, "1", true },
	{ OPTION_MAX_PENDING_RATIO, "17.5", true },
	{ OPTION_MAX_PENDING_RATIO, ".5", true },
	{ OPTION_MAX_PENDING_RATIO, "5.", true },
	{ OPTION_MAX_PENDING_RATIO, "", false },
	{ OPTION_MAX_PENDING_RATIO, ".", false },
	{ OPTION_MAX_PENDING_RATIO, "0,2", false },
	{ OPTION_MAX_PENDING_RATIO, "0.2.1", false },
	{ OPTION_MAX_PENDING_RATIO, "-0.2", false },
	{ OPTION_MAX_PENDING_RATIO, "20%", false },
	{ OPTION_MAX_PENDING_RATIO, "nan", false },
	{ OPTION_MAX_PENDING_RATIO, "inf", false },
	{ OPTION_MAX_PENDING_RATIO, "0x1", false },
	{ OPTION_MEMINFO, "pending", true },
	{ OPTION_MEMINFO, "driver", true },
	{ OPTION_MEMINFO, "both", false },
	{ OPTION_CHILDREN, "all", true },
	{ OPTION_CHILDREN, "none", true },
	{ OPTION_CHILDREN, "all|none", false },
	{ OPTION_CHILDREN, "some", false },
	{ OPTION_BUFFER, "1MiB", true },
	{ OPTION_BUFFER, "1TiB", true },
	{ OPTION_BUFFER, "1023k", false },
	{ OPTION_BUFFER, "2T", false },
	{ OPTION_BUFFER, "much", false },
	{ OPTION_LIMIT, "none", true },
	{ OPTION_LIMIT, "8GiB", true },
	{ OPTION_LIMIT, "2MiB", true },
	{ OPTION_LIMIT, "80T", true },
	{ OPTION_LIMIT, "2097151", false },
	{ OPTION_LIMIT, "0", false },
	{ OPTION_LIMIT, "-8G", false },
	{ OPTION_LIMIT, "half", false },
	{ OPTION_LIMIT, "", false },
	{ OPTION_FAIL_NTH, "none", true },
	{ OPTION_FAIL_NTH, "1", true },
	{ OPTION_FAIL_NTH, "18446744073709551615", true },
	{ OPTION_FAIL_NTH, "18446744073709551616", false },
	{ OPTION_FAIL_NTH, "0", false },
	{ OPTION_FAIL_NTH, "-1", false },
	{ OPTION_FAIL_NTH, "2k", false },
	{ OPTION_FAIL_NTH, "1.5", false },
	{ OPTION_FAIL_NTH, "second", false },
	{ OPTION_FAIL_NTH, "", false },
};

START_TEST(value_is_judged_with_a_reason)
{
	char why[256] = "";
	bool is_good = option_is_valid(judged[_i].id, judged[_i].value, why, sizeof(why));

	ck_assert_msg(is_good == judged[_i].is_good, "'%s'", judged[_i].value);
	ck_assert(is_good == !why[0]);
}
END_TEST

START_TEST(defaults_hold_without_an_environment)
{
	clearenv();
	ck_assert_str_eq(option_text(OPTION_OUTPUT), "custody.%e.%p.db");
	ck_assert_str_eq(option_text(OPTION_FREES), "deferred");
	ck_assert_str_eq(option_text(OPTION_CHILDREN), "all");
	ck_assert_uint_eq(option_number(OPTION_BUFFER), 256 << 20);
	ck_assert_int_eq(option_integer(OPTION_MAX_PENDING), 10);
	ck_assert(option_ratio(OPTION_MAX_PENDING_RATIO) == 0.2);
	ck_assert_str_eq(option_text(OPTION_MEMINFO), "pending");
	ck_assert_uint_eq(option_number(OPTION_LIMIT), 0);
	ck_assert_uint_eq(option_number(OPTION_FAIL_NTH), 0);
	ck_assert_ptr_null(option_complaint());
}
END_TEST

START_TEST(default_values_are_valid)
{
	char why[256];

	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_info *info = option_info((enum option_id)id);

		ck_assert_int_eq(info->id, id);
		ck_assert(option_is_valid(info->id, info->default_value, why, sizeof(why)));
	}
}
END_TEST

START_TEST(environment_is_read_once)
{
	setenv("CUSTODY_BUFFER", "4MiB", 1);
	setenv("CUSTODY_CHILDREN", "none", 1);
	ck_assert_uint_eq(option_number(OPTION_BUFFER), 4 << 20);
	setenv("CUSTODY_BUFFER", "8MiB", 1);
	ck_assert_uint_eq(option_number(OPTION_BUFFER), 4 << 20);
	ck_assert_str_eq(option_text(OPTION_CHILDREN), "none");
	ck_assert_str_eq(option_environment("CUSTODY_BUFFER"), "8MiB");
	ck_assert_ptr_null(option_environment("CUSTODY_BUFFE"));
}
END_TEST

START_TEST(bad_value_gives_the_default_and_a_sentence)
{
	setenv("CUSTODY_BUFFER", "much", 1);
	setenv("CUSTODY_FREES", "sometimes", 1);
	ck_assert_uint_eq(option_number(OPTION_BUFFER), 256 << 20);
	ck_assert_str_eq(option_text(OPTION_FREES), "deferred");
	ck_assert_ptr_nonnull(strstr(option_complaint(), "CUSTODY_FREES"));
	ck_assert_ptr_nonnull(strstr(option_complaint(), "sometimes"));
	ck_assert_ptr_null(strstr(option_complaint(), "much"));
}
END_TEST

#define NUMBA_COUNT "NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT"
#define NUMBA_RATIO "NUMBA_CUDA_MAX_PENDING_DEALLOCS_RATIO"

START_TEST(the_names_of_numba_are_honoured)
{
	setenv(NUMBA_COUNT, "-3", 1);
	setenv(NUMBA_RATIO, "0.75", 1);
	ck_assert_int_eq(option_integer(OPTION_MAX_PENDING), -3);
	ck_assert(option_ratio(OPTION_MAX_PENDING_RATIO) == 0.75);
	ck_assert_ptr_null(option_complaint());
}
END_TEST

START_TEST(our_own_names_come_first)
{
	setenv(NUMBA_COUNT, "5", 1);
	setenv(NUMBA_RATIO, "0.75", 1);
	setenv("CUSTODY_MAX_PENDING", "100", 1);
	setenv("CUSTODY_MAX_PENDING_RATIO", "0.5", 1);
	ck_assert_int_eq(option_integer(OPTION_MAX_PENDING), 100);
	ck_assert(option_ratio(OPTION_MAX_PENDING_RATIO) == 0.5);
}
END_TEST

START_TEST(a_bad_value_of_ours_is_not_replaced_by_one_of_numba)
{
	setenv(NUMBA_COUNT, "5", 1);
	setenv("CUSTODY_MAX_PENDING", "many", 1);
	ck_assert_int_eq(option_integer(OPTION_MAX_PENDING), 10);
	ck_assert_ptr_nonnull(strstr(option_complaint(), "CUSTODY_MAX_PENDING"));
	ck_assert_ptr_nonnull(strstr(option_complaint(), "many"));
	ck_assert_ptr_nonnull(strstr(option_complaint(), "10 is used"));
}
END_TEST

START_TEST(the_default_stream_has_two_other_names_of_which_the_first_holds)
{
	setenv("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "1", 1);
	setenv("NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM", "0", 1);
	ck_assert_int_eq(option_integer(OPTION_PER_THREAD_STREAM), 0);
}
END_TEST

START_TEST(the_last_name_of_the_default_stream_holds_alone)
{
	setenv("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "1", 1);
	ck_assert_int_eq(option_integer(OPTION_PER_THREAD_STREAM), 1);
	ck_assert_ptr_null(option_complaint());
}
END_TEST

START_TEST(a_bad_value_of_numba_gives_the_default_and_a_sentence)
{
	setenv(NUMBA_RATIO, "a lot", 1);
	ck_assert(option_ratio(OPTION_MAX_PENDING_RATIO) == 0.2);
	ck_assert_ptr_nonnull(strstr(option_complaint(), NUMBA_RATIO));
	ck_assert_ptr_nonnull(strstr(option_complaint(), "a lot"));
}
END_TEST

static const struct {
	const char *text;
	double ratio;
} ratios[] = {
	{ "0.29", 0.29 },
	{ "0.3", 0.3 },
	{ "0.7", 0.7 },
	{ "0.57", 0.57 },
	{ "1.1", 1.1 },
	{ "0.123456789012345", 0.123456789012345 },
	{ "0000000000000000000000000.20000000000000000000000000", 0.2 },
	{ "0.00000000000000000001", 1e-20 },
	{ "5.", 5 },
	{ ".5", 0.5 },
};

/* 0.29 of 100 bytes are 28: a ratio one bit greater makes them 29. */
START_TEST(a_ratio_is_the_number_that_is_written)
{
	setenv("CUSTODY_MAX_PENDING_RATIO", ratios[_i].text, 1);
	ck_assert_double_eq(option_ratio(OPTION_MAX_PENDING_RATIO), ratios[_i].ratio);
}
END_TEST

/* A locale in which one half is written 0,5, as glibc keeps one. */
static void use_comma(void)
{
	static const unsigned char numeric[] =
		"\x14\x11\x03\x20\6\0\0\0\x20\0\0\0\x22\0\0\0\x23\0\0\0\x24\0\0\0\x28\0\0\0"
		"\x2c\0\0\0,\0\0\0,\0\0\0\0\0\0\0UTF-8";
	char directory[] = "/tmp/custody-locale-XXXXXX", path[128], half[8];
	FILE *file;

	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/xx_XX", directory);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/xx_XX/LC_NUMERIC", directory);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fwrite(numeric, sizeof(numeric), 1, file);
	fclose(file);
	setenv("LOCPATH", directory, 1);
	ck_assert_ptr_nonnull(setlocale(LC_NUMERIC, "xx_XX"));
	unlink(path);
	snprintf(path, sizeof(path), "%s/xx_XX", directory);
	rmdir(path);
	rmdir(directory);
	snprintf(half, sizeof(half), "%.1f", 0.5);
	ck_assert_str_eq(half, "0,5");
}

START_TEST(a_ratio_is_read_alike_in_every_locale)
{
	char why[256];

	use_comma();
	setenv("CUSTODY_MAX_PENDING_RATIO", "0.25", 1);
	ck_assert(option_ratio(OPTION_MAX_PENDING_RATIO) == 0.25);
	ck_assert(!option_is_valid(OPTION_MAX_PENDING_RATIO, "0,25", why, sizeof(why)));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("option");
	TCase *tests = tcase_create("option");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_loop_test(tests, size_is_read, 0, sizeof(good_sizes) / sizeof(*good_sizes));
	tcase_add_loop_test(tests, size_is_refused, 0, sizeof(bad_sizes) / sizeof(*bad_sizes));
	tcase_add_loop_test(tests, value_is_judged_with_a_reason, 0,
			    sizeof(judged) / sizeof(*judged));
	tcase_add_test(tests, defaults_hold_without_an_environment);
	tcase_add_test(tests, default_values_are_valid);
	tcase_add_test(tests, environment_is_read_once);
	tcase_add_test(tests, bad_value_gives_the_default_and_a_sentence);
	tcase_add_test(tests, the_names_of_numba_are_honoured);
	tcase_add_test(tests, our_own_names_come_first);
	tcase_add_test(tests, a_bad_value_of_ours_is_not_replaced_by_one_of_numba);
	tcase_add_test(tests, the_default_stream_has_two_other_names_of_which_the_first_holds);
	tcase_add_test(tests, the_last_name_of_the_default_stream_holds_alone);
	tcase_add_test(tests, a_bad_value_of_numba_gives_the_default_and_a_sentence);
	tcase_add_loop_test(tests, a_ratio_is_the_number_that_is_written, 0,
			    sizeof(ratios) / sizeof(*ratios));
	tcase_add_test(tests, a_ratio_is_read_alike_in_every_locale);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
