/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: what is there, what is said of it, which one is current. */
#include "fixture.h"

static void begin(void)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
}

static struct custody_device_info ask(int ordinal)
{
	struct custody_device_info info = { .size = sizeof(info) };

	ck_ok(custody_device_info(fixture_device(ordinal), &info));
	return info;
}

/* ------------------------------------------------------------------ what there is */

START_TEST(driver_with_a_device_is_available)
{
	int count = 0;

	ck_assert(custody_is_available());
	ck_assert_ptr_null(custody_init_error());
	ck_ok(custody_device_count(&count));
	ck_assert_int_eq(count, 2);
}
END_TEST

START_TEST(device_is_the_same_pointer_each_time)
{
	ck_assert_ptr_eq(fixture_device(1), fixture_device(1));
	ck_assert_ptr_ne(fixture_device(0), fixture_device(1));
	ck_assert_int_eq(custody_device_ordinal(fixture_device(1)), 1);
}
END_TEST

START_TEST(ordinal_that_is_not_there_is_refused)
{
	struct custody_device *device = NULL;

	ck_is(custody_device_get(2, &device), CUSTODY_E_NO_DEVICE);
	ck_is(custody_device_get(-1, &device), CUSTODY_E_NO_DEVICE);
	ck_is(custody_device_select(2, &device), CUSTODY_E_NO_DEVICE);
	ck_assert_ptr_null(device);
}
END_TEST

START_TEST(info_has_all_that_is_documented)
{
	struct custody_device_info info = ask(1);

	ck_assert_int_eq(info.ordinal, 1);
	ck_assert_int_gt(info.major, 0);
	ck_assert_uint_gt(strlen(info.name), 0);
	ck_assert_uint_eq(strlen(info.uuid), 40);
	ck_assert_uint_gt(info.total_bytes, 0);
	ck_assert(info.is_supported);
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("device");
	TCase *facts = tcase_create("facts");

	tcase_add_checked_fixture(facts, begin, NULL);
	tcase_add_test(facts, driver_with_a_device_is_available);
	tcase_add_test(facts, device_is_the_same_pointer_each_time);
	tcase_add_test(facts, ordinal_that_is_not_there_is_refused);
	tcase_add_test(facts, info_has_all_that_is_documented);
	suite_add_tcase(suite, facts);
	return suite;
}
