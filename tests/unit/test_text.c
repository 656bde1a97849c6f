/* SPDX-License-Identifier: Apache-2.0 */
#include "report/symbol_name.h"
#include "report/text.h"

#include <check.h>
#include <stdlib.h>

static void expect_clean(const char *dirty, const char *clean)
{
	char *text = text_clean(dirty);

	ck_assert_str_eq(text, clean);
	free(text);
}

static void expect_shorter(const char *text, size_t width, const char *expected)
{
	char *shorter = text_shorten(text, width, "…");

	ck_assert_str_eq(shorter, expected);
	ck_assert_uint_le(text_width(shorter), width);
	free(shorter);
}

START_TEST(good_text_stays_as_it_is)
{
	expect_clean("", "");
	expect_clean("/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.1");
	expect_clean("Grüße 猫 🐈", "Grüße 猫 🐈");
}
END_TEST

START_TEST(bytes_that_are_no_utf8_are_replaced)
{
	expect_clean("a\xff" "b", "a\xEF\xBF\xBD" "b");
	expect_clean("\xc0\xaf", "\xEF\xBF\xBD\xEF\xBF\xBD");
	expect_clean("\xed\xa0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
	expect_clean("cut \xe2\x82", "cut \xEF\xBF\xBD\xEF\xBF\xBD");
	expect_clean("\xf4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}
END_TEST

START_TEST(what_a_terminal_would_obey_is_taken_out)
{
	expect_clean("a\033[31mb", "a?[31mb");
	expect_clean("a\nb\tc\x7f", "a b c?");
	expect_clean("\xc2\x9b" "31m", "?31m");
}
END_TEST

START_TEST(programs_get_control_characters_as_they_are)
{
	char *text = text_valid("a\033[1m\n\xff");

	ck_assert_str_eq(text, "a\033[1m\n\xEF\xBF\xBD");
	free(text);
}
END_TEST

START_TEST(width_counts_characters)
{
	ck_assert_uint_eq(text_width(""), 0);
	ck_assert_uint_eq(text_width("abc"), 3);
	ck_assert_uint_eq(text_width("Grüße"), 5);
}
END_TEST

START_TEST(a_long_text_loses_its_middle)
{
	expect_shorter("short", 5, "short");
	expect_shorter("/opt/engine/lib/libengine.so", 13, "/opt…ngine.so");
	expect_shorter("äöüäöüäöü", 5, "ä…äöü");
	expect_shorter("abcdef", 1, "f");
	expect_shorter("abcdef", 0, "");
}
END_TEST

static void expect_name(const char *name, const char *shorter)
{
	char *text = symbol_name_shorten(name);

	ck_assert_str_eq(text, shorter);
	free(text);
}

START_TEST(a_cxx_name_is_reduced_to_what_tells_it_apart)
{
	expect_name("", "");
	expect_name("main", "main");
	expect_name("std::thread::start(std::shared_ptr<X>)", "std::thread::start");
	expect_name("void at::fill<float, std::vector<int> >(at::Tensor&, float)", "at::fill");
	expect_name("c10::(anonymous namespace)::get(int) const",
		    "c10::(anonymous namespace)::get");
	expect_name("A::operator()(int)", "A::operator()");
	expect_name("A<int>::operator<(A<int> const&)", "A::operator<");
	expect_name("operator new(unsigned long)", "operator new");
	expect_name("unbalanced<<<", "unbalanced");
	expect_name(">>odd)", ">>odd)");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("text");
	TCase *tcase = tcase_create("strings of a trace");
	SRunner *runner;
	int failed;

	tcase_add_test(tcase, good_text_stays_as_it_is);
	tcase_add_test(tcase, bytes_that_are_no_utf8_are_replaced);
	tcase_add_test(tcase, what_a_terminal_would_obey_is_taken_out);
	tcase_add_test(tcase, programs_get_control_characters_as_they_are);
	tcase_add_test(tcase, width_counts_characters);
	tcase_add_test(tcase, a_long_text_loses_its_middle);
	tcase_add_test(tcase, a_cxx_name_is_reduced_to_what_tells_it_apart);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
