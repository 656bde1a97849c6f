/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, the profiler, and recording; names and texts of errors. */
#include "config.h"
#include "fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------ versions */

START_TEST(version_is_that_of_the_package)
{
	ck_assert_str_eq(custody_version(), PACKAGE_VERSION);
}
END_TEST

START_TEST(driver_tells_its_version_in_two_numbers)
{
	struct custody_version version;

	setenv("SIMCUDA_VERSION", "12090", 1);
	ck_ok(custody_driver_version(&version));
	ck_assert_int_eq(version.major, 12);
	ck_assert_int_eq(version.minor, 9);
	ck_assert(custody_is_supported_version());
	ck_is(custody_driver_version(NULL), CUSTODY_E_INVALID);
	ck_is(custody_runtime_version(NULL), CUSTODY_E_INVALID);
	ck_is(custody_nvrtc_version(NULL), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(version_that_was_never_tested_is_not_supported)
{
	setenv("SIMCUDA_VERSION", "14010", 1);
	ck_assert(!custody_is_supported_version());
}
END_TEST

START_TEST(supported_versions_are_listed)
{
	size_t count = 0;
	const struct custody_version *versions = custody_supported_versions(&count);
	bool has_12 = false, has_13 = false;

	for (size_t i = 0; i < count; i++) {
		has_12 |= versions[i].major == 12;
		has_13 |= versions[i].major == 13;
	}
	ck_assert(has_12 && has_13);
	ck_assert_ptr_eq(custody_supported_versions(NULL), versions);
}
END_TEST

/* ------------------------------------------------------------------ profiler */

static int fail_with(void *argument)
{
	return *(int *)argument;
}

START_TEST(profiler_is_started_and_stopped)
{
	fixture_watch();
	ck_ok(custody_profile_start());
	ck_assert_uint_eq(fixture_calls("cuProfilerStart"), 1);
	ck_assert_uint_eq(fixture_calls("cuProfilerStop"), 0);
	ck_ok(custody_profile_stop());
	ck_assert_uint_eq(fixture_calls("cuProfilerStop"), 1);
}
END_TEST

START_TEST(profiler_is_stopped_where_what_it_was_started_for_fails)
{
	int error = -77;

	fixture_watch();
	ck_assert_int_eq(custody_profile_call(fail_with, &error), -77);
	ck_assert_uint_eq(fixture_calls("cuProfilerStart"), 1);
	ck_assert_uint_eq(fixture_calls("cuProfilerStop"), 1);
	ck_is(custody_profile_call(NULL, NULL), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(profiler_that_does_not_start_runs_nothing)
{
	int error = -77;

	setenv("SIMCUDA_FAIL", "cuProfilerStart:*:5", 1);
	fixture_watch();
	ck_is(custody_profile_call(fail_with, &error), CUDA_ERROR_PROFILER_DISABLED);
	ck_assert_uint_eq(fixture_calls("cuProfilerStop"), 0);
}
END_TEST

static void profile_a_block(void)
{
	int result CUSTODY_AUTO_PROFILE = custody_profile_start();

	ck_ok(result);
	ck_assert_uint_eq(fixture_calls("cuProfilerStop"), 0);
}

START_TEST(profiler_is_stopped_at_the_end_of_a_block)
{
	fixture_watch();
	profile_a_block();
	ck_assert_uint_eq(fixture_calls("cuProfilerStop"), 1);
}
END_TEST

/* ------------------------------------------------------------------ recording */

static int record_oneself(void)
{
	const char *path = getenv("TRACE_PATH");

	ck_assert(!custody_trace_is_on());
	ck_ok(custody_trace_start(path));
	fixture_free_some(fixture_context(0), 3, KIB);
	ck_assert(custody_trace_is_on());
	ck_ok(custody_trace_start(path));
	return 0;
}

const struct fixture_story fixture_stories[] = {
	{ "record oneself", record_oneself },
	{ NULL, NULL },
};

START_TEST(trace_is_begun_ahead_of_everything)
{
	char directory[] = "/tmp/custody-trace.XXXXXX", path[64], setting[96], text[2000];
	const char *const settings[] = { setting, NULL };
	struct stat status;

	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/one.db", directory);
	snprintf(setting, sizeof(setting), "TRACE_PATH=%s", path);
	ck_assert_msg(fixture_run("record oneself", settings, text, sizeof(text)) == 0, "%s", text);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_int_gt(status.st_size, 0);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

START_TEST(trace_that_would_lack_its_beginning_is_refused)
{
	fixture_context(0);
	ck_assert(!custody_trace_is_on());
	ck_is(custody_trace_start("/tmp/never.db"), CUSTODY_E_BUSY);
	ck_assert(!custody_trace_is_on());
}
END_TEST

START_TEST(path_that_is_too_long_is_refused)
{
	static char path[100000];

	memset(path, 'x', sizeof(path) - 1);
	ck_is(custody_trace_start(path), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(driver_function_is_found_by_its_exact_name)
{
	ck_assert_ptr_nonnull(custody_driver_function("cuMemAlloc_v2"));
	ck_assert_ptr_ne(custody_driver_function("cuMemAlloc_v2"), (void *)(uintptr_t)cuMemAlloc);
	ck_assert_ptr_null(custody_driver_function("cuNothing"));
	ck_assert_ptr_null(custody_driver_function(NULL));
}
END_TEST

START_TEST(driver_function_that_we_do_not_wrap_is_the_drivers_own)
{
	ck_assert_ptr_nonnull(dlsym(RTLD_DEFAULT, "simwatch"));
	ck_assert_ptr_eq(custody_driver_function("simwatch"), dlsym(RTLD_DEFAULT, "simwatch"));
}
END_TEST

/* ------------------------------------------------------------------ errors */

#define CHECK_ERROR(error, number, words)                                                          \
	ck_assert_int_eq(error, number);                                                           \
	ck_assert_str_eq(custody_error_name(number), #error);                                      \
	ck_assert_str_eq(custody_error_text(number), words);

START_TEST(each_error_has_a_name_and_a_text)
{
	CUSTODY_ERROR_MAP(CHECK_ERROR)
	ck_assert_str_eq(custody_error_name(0), "CUSTODY_OK");
	ck_assert_str_eq(custody_error_name(-999), "CUSTODY_E_?");
	ck_assert_uint_gt(strlen(custody_error_text(-999)), 0);
}
END_TEST

START_TEST(error_of_the_driver_has_the_drivers_name_once_there_is_one)
{
	ck_assert_str_eq(custody_error_name(2), "CUDA_ERROR_OUT_OF_MEMORY");
	ck_assert_str_eq(custody_error_name(98765), "CUDA_ERROR_?");
	ck_assert_str_eq(custody_error_text(2), "an error of the driver");
	fixture_context(0);
	ck_assert_str_eq(custody_error_name(2), "CUDA_ERROR_OUT_OF_MEMORY");
	ck_assert_str_eq(custody_error_text(2), "out of memory");
	ck_assert_uint_gt(strlen(custody_error_name(98765)), 0);
}
END_TEST

START_TEST(detail_is_of_the_last_function_and_of_this_thread)
{
	struct custody_device *device;

	ck_assert_str_eq(custody_error_detail(), "");
	ck_is(custody_device_get(7, &device), CUSTODY_E_NO_DEVICE);
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), "7"));
	ck_ok(custody_device_get(0, &device));
	ck_assert_str_eq(custody_error_detail(), "");
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("version");
	TCase *versions = tcase_create("versions"), *profiler = tcase_create("profiler");
	TCase *recording = tcase_create("recording"), *errors = tcase_create("errors");

	tcase_add_test(versions, version_is_that_of_the_package);
	tcase_add_test(versions, driver_tells_its_version_in_two_numbers);
	tcase_add_test(versions, version_that_was_never_tested_is_not_supported);
	tcase_add_test(versions, supported_versions_are_listed);
	tcase_add_test(profiler, profiler_is_started_and_stopped);
	tcase_add_test(profiler, profiler_is_stopped_where_what_it_was_started_for_fails);
	tcase_add_test(profiler, profiler_that_does_not_start_runs_nothing);
	tcase_add_test(profiler, profiler_is_stopped_at_the_end_of_a_block);
	tcase_add_test(recording, trace_is_begun_ahead_of_everything);
	tcase_add_test(recording, trace_that_would_lack_its_beginning_is_refused);
	tcase_add_test(recording, path_that_is_too_long_is_refused);
	tcase_add_test(recording, driver_function_is_found_by_its_exact_name);
	tcase_add_test(recording, driver_function_that_we_do_not_wrap_is_the_drivers_own);
	tcase_add_test(errors, each_error_has_a_name_and_a_text);
	tcase_add_test(errors, error_of_the_driver_has_the_drivers_name_once_there_is_one);
	tcase_add_test(errors, detail_is_of_the_last_function_and_of_this_thread);
	suite_add_tcase(suite, versions);
	suite_add_tcase(suite, profiler);
	suite_add_tcase(suite, recording);
	suite_add_tcase(suite, errors);
	return suite;
}
