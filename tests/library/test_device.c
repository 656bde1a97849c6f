/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: what is there, what is said of it, which one is current. */
#include "fixture.h"

#include <stdio.h>

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

struct expected {
	const char *capability;
	bool is_supported, is_deprecated, float16, bfloat16, float8;
};

/* Just below each threshold, and on it. */
static const struct expected expected[] = {
	{ "34", false, false, false, false, false },
	{ "35", true, true, false, false, false },
	{ "49", true, true, false, false, false },
	{ "50", true, false, false, false, false },
	{ "52", true, false, false, false, false },
	{ "53", true, false, true, false, false },
	{ "79", true, false, true, false, false },
	{ "80", true, false, true, true, false },
	{ "88", true, false, true, true, false },
	{ "89", true, false, true, true, true },
	{ "120", true, false, true, true, true },
};

START_TEST(capability_decides_what_is_supported)
{
	const struct expected *wanted = &expected[_i];
	struct custody_device_info info;
	int supported, number = atoi(wanted->capability);
	FILE *out = fopen("/dev/null", "w");

	setenv("SIMCUDA_CAPABILITY", wanted->capability, 1);
	info = ask(0);
	ck_assert_int_eq(info.major, number / 10);
	ck_assert_int_eq(info.minor, number % 10);
	ck_assert_int_eq(info.is_supported, wanted->is_supported);
	ck_assert_int_eq(info.is_deprecated, wanted->is_deprecated);
	ck_assert_int_eq(info.supports_float16, wanted->float16);
	ck_assert_int_eq(info.supports_bfloat16, wanted->bfloat16);
	ck_assert_int_eq(info.supports_float8, wanted->float8);
	ck_ok(custody_detect(out, &supported));
	ck_assert_int_eq(supported, wanted->is_supported ? 2 : 0);
	fclose(out);
}
END_TEST

START_TEST(uuid_is_text_and_bytes)
{
	struct custody_device_info first = ask(0), second = ask(1);
	unsigned int byte;

	ck_assert_mem_ne(first.uuid_bytes, second.uuid_bytes, sizeof(first.uuid_bytes));
	ck_assert_int_eq(strncmp(first.uuid, "GPU-", 4), 0);
	ck_assert_int_eq(sscanf(first.uuid + 4, "%2x", &byte), 1);
	ck_assert_uint_eq(byte, first.uuid_bytes[0]);
	ck_assert_int_eq(sscanf(first.uuid + 38, "%2x", &byte), 1);
	ck_assert_uint_eq(byte, first.uuid_bytes[15]);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(first.uuid[12 + 5 * i], '-');
}
END_TEST

START_TEST(older_program_gets_the_head_of_the_info)
{
	struct custody_device_info info = { .uuid = "untouched" };

	info.size = offsetof(struct custody_device_info, uuid);
	ck_ok(custody_device_info(fixture_device(0), &info));
	ck_assert_uint_gt(strlen(info.name), 0);
	ck_assert_str_eq(info.uuid, "untouched");
}
END_TEST

START_TEST(attribute_is_asked_for_once)
{
	struct custody_device *device;
	int value, driver_value;

	fixture_watch();
	device = fixture_device(1);
	ck_cu(cuDeviceGetAttribute(&driver_value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1));
	fixture_forget();
	for (int i = 0; i < 3; i++) {
		value = -1;
		ck_ok(custody_device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
					       &value));
		ck_assert_int_eq(value, driver_value);
	}
	ck_assert_uint_eq(fixture_calls("cuDeviceGetAttribute"), 1);
}
END_TEST

/* 0 is a value like others, and is kept. */
START_TEST(attribute_of_zero_is_asked_for_once)
{
	struct custody_device *device;
	int value = -1;

	fixture_watch();
	device = fixture_device(0);
	fixture_forget();
	for (int i = 0; i < 3; i++)
		ck_ok(custody_device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &value));
	ck_assert_int_eq(value, 0);
	ck_assert_uint_eq(fixture_calls("cuDeviceGetAttribute"), 1);
}
END_TEST

START_TEST(attribute_that_there_is_not_is_the_drivers_error)
{
	int value = 77;

	ck_is(custody_device_attribute(fixture_device(0), (CUdevice_attribute)99999, &value),
	      CUDA_ERROR_INVALID_VALUE);
	ck_is(custody_device_attribute(fixture_device(0), (CUdevice_attribute)-1, &value),
	      CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(value, 77);
	ck_assert_uint_gt(strlen(custody_error_detail()), 0);
}
END_TEST

START_TEST(facts_need_no_context)
{
	CUcontext handle;
	struct custody_device *device = fixture_device(1);

	ask(1);
	ck_assert_int_eq(custody_device_handle(device), 1);
	ck_cu(cuCtxGetCurrent(&handle));
	ck_assert_ptr_null(handle);
	ck_assert_ptr_null(custody_context_handle(NULL));
	fixture_context(0);
	ck_cu(cuCtxGetCurrent(&handle));
	ck_assert_ptr_null(handle);
}
END_TEST

START_TEST(summary_counts_what_is_supported)
{
	char text[8192] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");
	int supported = 0;

	ck_assert_ptr_nonnull(out);
	ck_ok(custody_detect(out, &supported));
	fclose(out);
	ck_assert_int_eq(supported, 2);
	ck_assert_ptr_nonnull(strstr(text, ask(0).uuid));
	ck_assert_ptr_nonnull(strstr(text, ask(1).uuid));
	ck_is(custody_detect(NULL, &supported), CUSTODY_E_INVALID);
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
	tcase_add_loop_test(facts, capability_decides_what_is_supported, 0,
			    sizeof(expected) / sizeof(expected[0]));
	tcase_add_test(facts, uuid_is_text_and_bytes);
	tcase_add_test(facts, older_program_gets_the_head_of_the_info);
	tcase_add_test(facts, attribute_is_asked_for_once);
	tcase_add_test(facts, attribute_of_zero_is_asked_for_once);
	tcase_add_test(facts, attribute_that_there_is_not_is_the_drivers_error);
	tcase_add_test(facts, facts_need_no_context);
	tcase_add_test(facts, summary_counts_what_is_supported);
	suite_add_tcase(suite, facts);
	return suite;
}
