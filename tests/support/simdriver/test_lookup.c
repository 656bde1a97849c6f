/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress by the rules measured on a real driver, and the exports behind it. */
#include <dlfcn.h>

#include "simtest.h"

typedef CUresult (*old_lookup)(const char *, void **, int, cuuint64_t);

/* The symbol at an address, by the loader; "" for none. */
static const char *symbol_of(void *address)
{
	Dl_info info;

	return address && dladdr(address, &info) && info.dli_sname ? info.dli_sname : "";
}

static const char *look_up(const char *base, int version, cuuint64_t flags, int wanted_status)
{
	CUdriverProcAddressQueryResult status = 99;
	void *address = (void *)1;

	ck_cu(cuGetProcAddress(base, &address, version, flags, &status));
	ck_assert_int_eq(status, wanted_status);
	return symbol_of(address);
}

START_TEST(the_newest_form_that_is_old_enough_is_given)
{
	ck_assert_str_eq(look_up("cuMemAlloc", 2000, 0, 0), "cuMemAlloc");
	ck_assert_str_eq(look_up("cuMemAlloc", 3010, 0, 0), "cuMemAlloc");
	ck_assert_str_eq(look_up("cuMemAlloc", 3020, 0, 0), "cuMemAlloc_v2");
	ck_assert_str_eq(look_up("cuMemAlloc", 13000, 0, 0), "cuMemAlloc_v2");
	ck_assert_str_eq(look_up("cuMemAlloc", -1, 0, 0), "cuMemAlloc_v2");
	ck_assert_str_eq(look_up("cuMemAlloc", 0, 0, 2), "");
	ck_assert_str_eq(look_up("cuCtxGetDevice", 13000, 0, 0), "cuCtxGetDevice_v2");
	ck_assert_str_eq(look_up("cuGraphInstantiate", 12000, 0, 0), "cuGraphInstantiate_v2");
	ck_assert_str_eq(look_up("cuStreamGetCaptureInfo", 12020, 0, 0),
			 "cuStreamGetCaptureInfo_v2");
}
END_TEST

START_TEST(only_base_names_are_known)
{
	ck_assert_str_eq(look_up("", 13000, 0, 1), "");
	ck_assert_str_eq(look_up("cuMemAlloc_v2", 13000, 0, 1), "");
	ck_assert_str_eq(look_up("cuMemcpy_ptds", 13000, 2, 1), "");
	ck_assert_str_eq(look_up("cuNoSuchThing", 13000, 0, 1), "");
	ck_assert_str_eq(look_up("cuMemGetAttribute", 13000, 0, 1), "");
}
END_TEST

START_TEST(flags_choose_the_per_thread_twin_and_nothing_else_then)
{
	ck_assert_str_eq(look_up("cuMemcpy", 4000, 0, 0), "cuMemcpy");
	ck_assert_str_eq(look_up("cuMemcpy", 4000, 1, 0), "cuMemcpy");
	ck_assert_str_eq(look_up("cuMemcpy", 4000, 2, 2), "");
	ck_assert_str_eq(look_up("cuMemcpy", 7000, 2, 0), "cuMemcpy_ptds");
	ck_assert_str_eq(look_up("cuMemcpyHtoDAsync", 7000, 3, 0), "cuMemcpyHtoDAsync_v2_ptsz");
	ck_assert_str_eq(look_up("cuMemAlloc", 13000, 2, 0), "cuMemAlloc_v2");
}
END_TEST

START_TEST(bad_requests_leave_the_outputs_alone)
{
	CUdriverProcAddressQueryResult status = 99;
	void *address = &status;

	ck_cu_is(cuGetProcAddress("cuInit", &address, 13010, 0, &status),
		 CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuGetProcAddress("cuInit", &address, 13000, 4, &status),
		 CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_eq(address, &status);
	ck_assert_int_eq(status, 99);
	ck_cu(cuGetProcAddress("cuNoSuchThing", &address, 13000, 0, NULL));
	ck_assert_ptr_null(address);
}
END_TEST

START_TEST(the_old_form_answers_not_found)
{
	void *self = dlopen("libcuda.so.1", RTLD_NOW);
	old_lookup lookup = (old_lookup)dlsym(self, "cuGetProcAddress");
	void *address = &self;

	ck_cu_is(lookup("cuNoSuchThing", &address, 13000, 0), CUDA_ERROR_NOT_FOUND);
	ck_cu_is(lookup("cuMemcpy", &address, 4000, 2), CUDA_ERROR_NOT_FOUND);
	ck_assert_ptr_eq(address, &self);
	ck_cu(lookup("cuMemFree", &address, 13000, 0));
	ck_assert_ptr_eq(address, dlsym(self, "cuMemFree_v2"));
}
END_TEST

START_TEST(a_null_pointer_ends_the_process)
{
	cuGetProcAddress("cuInit", NULL, 13000, 0, NULL);
}
END_TEST

START_TEST(an_older_driver_knows_nothing_newer)
{
	CUdriverProcAddressQueryResult status = 99;
	void *address = &status;
	int version;

	setenv("SIMCUDA_VERSION", "11020", 1);
	ck_cu(cuDriverGetVersion(&version));
	ck_assert_int_eq(version, 11020);
	ck_cu_is(cuGetProcAddress("cuInit", &address, 11030, 0, &status),
		 CUDA_ERROR_INVALID_VALUE);
	ck_assert_str_eq(look_up("cuLibraryLoadData", 11020, 0, 1), "");
	ck_assert_str_eq(look_up("cuMemAllocAsync", 11020, 0, 0), "cuMemAllocAsync");
	ck_assert_str_eq(look_up("cuCtxCreate", -1, 0, 0), "cuCtxCreate_v2");
}
END_TEST

/* Newer functions are not there, by whatever door; old/libcuda.so.1 is CUDA 12.4. */
START_TEST(the_old_library_has_no_event_of_a_context)
{
	void *library = dlopen(SIM_OLD, RTLD_NOW | RTLD_LOCAL);
	CUresult (*driver_version)(int *);
	typeof(cuGetProcAddress_v2) *find;
	CUdriverProcAddressQueryResult status;
	void *address = NULL;
	int version = 0;

	ck_assert_msg(library, "%s", dlerror());
	ck_assert_ptr_null(dlsym(library, "cuCtxRecordEvent"));
	ck_assert_ptr_null(dlvsym(library, "cuCtxRecordEvent", "GLIBC_2.2.5"));
	ck_assert_ptr_nonnull(dlsym(library, "cuMemFreeAsync"));
	driver_version = (CUresult(*)(int *))dlsym(library, "cuDriverGetVersion");
	ck_cu(driver_version(&version));
	ck_assert_int_eq(version, 12040);
	find = (typeof(find))dlsym(library, "cuGetProcAddress_v2");
	ck_cu(find("cuCtxRecordEvent", &address, 12040, 0, &status));
	ck_assert_ptr_null(address);
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	ck_cu(find("cuMemFreeAsync", &address, 12040, 0, &status));
	ck_assert_ptr_eq(address, dlsym(library, "cuMemFreeAsync"));
}
END_TEST

typedef CUresult (*stream_id)(CUstream, unsigned long long *);

START_TEST(the_twins_take_a_stream_of_zero_for_the_threads_own)
{
	unsigned long long legacy, own, by_plain, by_twin;
	struct bench b;
	void *plain, *twin;

	bench_open(&b);
	ck_cu(cuGetProcAddress("cuStreamGetId", &plain, 12000, 0, NULL));
	ck_cu(cuGetProcAddress("cuStreamGetId", &twin, 12000, 2, NULL));
	ck_cu(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
	ck_cu(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
	ck_cu(((stream_id)plain)(NULL, &by_plain));
	ck_cu(((stream_id)twin)(NULL, &by_twin));
	ck_assert_uint_eq(by_plain, legacy);
	ck_assert_uint_eq(by_twin, own);
}
END_TEST

START_TEST(what_is_not_simulated_says_so)
{
	int thread;

	ck_cu(cuInit(0));
	ck_cu_is(cuCheckpointProcessGetRestoreThreadId(1, &thread), CUDA_ERROR_NOT_SUPPORTED);
}
END_TEST

Suite *suite_lookup(void)
{
	Suite *suite = suite_create("simdriver look-up");
	TCase *tcase = tcase_create("look-up");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, the_newest_form_that_is_old_enough_is_given);
	tcase_add_test(tcase, only_base_names_are_known);
	tcase_add_test(tcase, flags_choose_the_per_thread_twin_and_nothing_else_then);
	tcase_add_test(tcase, bad_requests_leave_the_outputs_alone);
	tcase_add_test(tcase, the_old_form_answers_not_found);
	tcase_add_test_raise_signal(tcase, a_null_pointer_ends_the_process, SIGABRT);
	tcase_add_test(tcase, an_older_driver_knows_nothing_newer);
	tcase_add_test(tcase, the_old_library_has_no_event_of_a_context);
	tcase_add_test(tcase, the_twins_take_a_stream_of_zero_for_the_threads_own);
	tcase_add_test(tcase, what_is_not_simulated_says_so);
	suite_add_tcase(suite, tcase);
	return suite;
}
