/* SPDX-License-Identifier: Apache-2.0 */
#include "core/option.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

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
	{ OPTION_CHILDREN, "all", true },
	{ OPTION_CHILDREN, "none", true },
	{ OPTION_CHILDREN, "all|none", false },
	{ OPTION_CHILDREN, "some", false },
	{ OPTION_BUFFER, "1MiB", true },
	{ OPTION_BUFFER, "1TiB", true },
	{ OPTION_BUFFER, "1023k", false },
	{ OPTION_BUFFER, "2T", false },
	{ OPTION_BUFFER, "much", false },
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
	ck_assert_str_eq(option_text(OPTION_FREES), "immediate");
	ck_assert_str_eq(option_text(OPTION_CHILDREN), "all");
	ck_assert_uint_eq(option_number(OPTION_BUFFER), 256 << 20);
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
	ck_assert_str_eq(option_text(OPTION_FREES), "immediate");
	ck_assert_ptr_nonnull(strstr(option_complaint(), "CUSTODY_FREES"));
	ck_assert_ptr_nonnull(strstr(option_complaint(), "sometimes"));
	ck_assert_ptr_null(strstr(option_complaint(), "much"));
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
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
