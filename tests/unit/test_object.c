/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/object.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct object find_libc(void)
{
	struct object object;

	ck_assert(object_find_soname("libc.so.6", &object));
	return object;
}

START_TEST(symbols_are_those_the_loader_finds)
{
	static const char *const name[] = { "malloc", "dlsym", "dlvsym", "qsort" };
	struct object object = find_libc();
	void *handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	ck_assert_ptr_nonnull(handle);
	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		ck_assert_ptr_eq(object_symbol(&object, name[i]), dlsym(handle, name[i]));
	dlclose(handle);
}
END_TEST

START_TEST(what_is_not_there_is_not_found)
{
	struct object object = find_libc();

	ck_assert_ptr_null(object_symbol(&object, "cuInit"));
	ck_assert_ptr_null(object_symbol(&object, ""));
	ck_assert(!object_find_soname("libcuda.so.1", &object));
	ck_assert(!object_find_startup("libcuda.so.1", &object));
	ck_assert(!object_find_address(NULL, &object));
}
END_TEST

/* A linker that has nothing to export leaves a table without words or buckets. */
START_TEST(an_empty_table_holds_nothing)
{
	static const uint32_t empty[8];
	struct object object = find_libc();

	object.gnu_hash = empty;
	ck_assert_ptr_null(object_symbol(&object, "malloc"));
}
END_TEST

START_TEST(the_list_for_debuggers_finds_the_same_object)
{
	struct object by_list, by_walk = find_libc();

	ck_assert(object_find_startup("libc.so.6", &by_list));
	ck_assert_uint_eq(by_list.bias, by_walk.bias);
	ck_assert_ptr_eq(object_symbol(&by_list, "dlsym"), object_symbol(&by_walk, "dlsym"));
}
END_TEST

START_TEST(an_address_names_its_object)
{
	static int variable;
	struct object libc = find_libc(), object;

	ck_assert(object_find_address((const void *)(libc.start + 64), &object));
	ck_assert_str_eq(object.soname, "libc.so.6");
	ck_assert(object_find_address(&variable, &object));
	ck_assert(object_covers(&object, &variable));
	ck_assert(!object_covers(&libc, &variable));
}
END_TEST

/* A build id of GNU tools is a SHA-1: forty hexadecimal digits. */
START_TEST(a_build_id_is_hexadecimal)
{
	struct object object = find_libc();
	char text[80] = "unset", small[8] = "unset";

	object_build_id(&object, text, sizeof(text));
	ck_assert_uint_eq(strspn(text, "0123456789abcdef"), strlen(text));
	ck_assert(strlen(text) == 0 || strlen(text) == 40 || strlen(text) == 32);
	object_build_id(&object, small, sizeof(small));
	ck_assert_str_eq(small, "");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("object");
	TCase *loaded = tcase_create("loaded");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(loaded, symbols_are_those_the_loader_finds);
	tcase_add_test(loaded, what_is_not_there_is_not_found);
	tcase_add_test(loaded, an_empty_table_holds_nothing);
	tcase_add_test(loaded, the_list_for_debuggers_finds_the_same_object);
	tcase_add_test(loaded, an_address_names_its_object);
	tcase_add_test(loaded, a_build_id_is_hexadecimal);
	suite_add_tcase(suite, loaded);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
