/* SPDX-License-Identifier: Apache-2.0 */
/* One allocating call fails at its turn; the driver is not asked, nothing is flushed. */
#include "fake_queue.h"
#include "intercept/deferral.h"
#include "intercept/fail_nth.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void start_at(const char *number)
{
	setenv("CUSTODY_FAIL_NTH", number, 1);
	fake_queue_prepare("nowait", false);
	fake_start();
}

static void start_without(void)
{
	start_at("none");
}

static void start_at_2(void)
{
	start_at("2");
}

static CUresult allocate(size_t bytes)
{
	CUdeviceptr address = 0x77;
	CUresult result = cuMemAlloc_v2(&address, bytes);

	/* A refused call leaves the program's variable as it was. */
	ck_assert((address == 0x77) == (result != CUDA_SUCCESS));
	return result;
}

START_TEST(the_second_call_fails_and_is_recorded)
{
	const struct record *record;

	ck_assert_int_eq(allocate(4096), CUDA_SUCCESS);
	fake_look();
	errno = ENOTDIR;
	ck_assert_int_eq(allocate(12345), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(errno, ENOTDIR);
	ck_assert_uint_eq(fake_calls(API_cuMemAlloc_v2), 1);
	record = fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2);
	ck_assert_int_eq(record->result, CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(record->a, 0);
	ck_assert_uint_eq(record->b, FAILURE_NTH);
	ck_assert_uint_eq(record->c, 12345);
	ck_assert_int_eq(record->flags, 0);
	ck_assert_int_eq(allocate(4096), CUDA_SUCCESS);
	ck_assert_uint_ne(fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2)->b, 0);
}
END_TEST

START_TEST(what_is_pending_stays_so)
{
	CUdeviceptr block = fake_block(4096);

	atomic_store(&fake_is_busy, true);
	ck_assert_int_eq(cuMemFree_v2(block), CUDA_SUCCESS);
	fake_look();
	ck_assert_int_eq(allocate(4096), CUDA_ERROR_OUT_OF_MEMORY);
	fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2);
	ck_assert_uint_eq(atomic_load(&pending_total), 1);
	ck_assert_uint_eq(fake_calls(API_cuEventSynchronize), 0);
}
END_TEST

START_TEST(a_call_that_is_tried_again_has_one_turn)
{
	CUdeviceptr block = fake_block(4096);
	uint32_t calls;

	fail_nth_reset();
	ck_assert_int_eq(cuMemFree_v2(block), CUDA_SUCCESS);
	calls = fake_calls(API_cuMemAlloc_v2);
	fake_run_out(1);
	ck_assert_int_eq(allocate(4096), CUDA_SUCCESS);
	ck_assert_uint_ge(fake_calls(API_cuMemAlloc_v2), calls + 2);
	ck_assert_int_eq(allocate(4096), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate(4096), CUDA_SUCCESS);
}
END_TEST

/* A call inside a call of the driver is not the program's. */
static CUresult CUDAAPI allocate_inside(CUdeviceptr *address, size_t bytes)
{
	CUdeviceptr inner = 0;
	CUresult result = CUDA_SUCCESS;

	if (bytes > 1)
		result = cuMemAlloc_v2(&inner, bytes / 2);
	*address = 0x700000000 + bytes;
	return result;
}

START_TEST(calls_inside_calls_do_not_count)
{
	fake_set(API_cuMemAlloc_v2, allocate_inside);
	ck_assert_int_eq(allocate(4096), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(4096), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate(4096), CUDA_SUCCESS);
}
END_TEST

START_TEST(kinds_count_together_and_questions_not_at_all)
{
	size_t is_free = 0, total = 0;
	CUmodule module = NULL;
	void *host = NULL;

	ck_assert_int_eq(cuMemAllocHost_v2(&host, 4096), CUDA_SUCCESS);
	cuMemGetInfo_v2(&is_free, &total);
	ck_assert_int_eq(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemFreeHost(host), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(4096), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(a_child_counts_anew)
{
	int status = 0;
	pid_t child;

	ck_assert_int_eq(allocate(4096), CUDA_SUCCESS);
	child = fork();
	if (!child)
		_exit(allocate(4096) == CUDA_SUCCESS &&
				      allocate(4096) == CUDA_ERROR_OUT_OF_MEMORY &&
				      allocate(4096) == CUDA_SUCCESS ?
			      0 :
			      1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(allocate(4096), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(without_it_a_failure_is_the_drivers)
{
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(allocate(4096), CUDA_SUCCESS);
	fake_look();
	fake_run_out(1);
	ck_assert_int_eq(allocate(4096), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2)->b, FAILURE_DRIVER);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fail_nth");
	TCase *second = tcase_create("second"), *none = tcase_create("none");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(second, start_at_2, fake_stop);
	tcase_add_test(second, the_second_call_fails_and_is_recorded);
	tcase_add_test(second, what_is_pending_stays_so);
	tcase_add_test(second, a_call_that_is_tried_again_has_one_turn);
	tcase_add_test(second, calls_inside_calls_do_not_count);
	tcase_add_test(second, kinds_count_together_and_questions_not_at_all);
	tcase_add_test(second, a_child_counts_anew);
	suite_add_tcase(suite, second);
	tcase_add_checked_fixture(none, start_without, fake_stop);
	tcase_add_test(none, without_it_a_failure_is_the_drivers);
	suite_add_tcase(suite, none);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
