/* SPDX-License-Identifier: Apache-2.0 */
/* The SIMCUDA_* settings, and the life of the driver. */
#include <cudaProfiler.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "simtest.h"

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

START_TEST(nothing_works_before_cuinit)
{
	CUcontext context;
	int count, version;

	ck_cu_is(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	ck_cu_is(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
	ck_cu(cuDriverGetVersion(&version));
	ck_assert_int_eq(version, 13000);
	ck_cu(cuInit(0));
	ck_cu(cuDeviceGetCount(&count));
	ck_assert_int_eq(count, 1);
	ck_cu_is(cuMemFree(1), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(devices_can_be_many_and_copy_to_each_other)
{
	CUcontext one, two;
	CUdeviceptr from, to;
	unsigned value = 0;
	int count, can;

	setenv("SIMCUDA_DEVICES", "3", 1);
	ck_cu(cuInit(0));
	ck_cu(cuDeviceGetCount(&count));
	ck_assert_int_eq(count, 3);
	ck_cu(cuDeviceCanAccessPeer(&can, 0, 2));
	ck_assert_int_eq(can, 1);
	ck_cu(cuDevicePrimaryCtxRetain(&one, 0));
	ck_cu(cuDevicePrimaryCtxRetain(&two, 2));
	ck_cu(cuCtxSetCurrent(one));
	ck_cu(cuMemAlloc(&from, 64));
	ck_cu(cuMemsetD32(from, 1234, 1));
	ck_cu(cuCtxSetCurrent(two));
	ck_cu(cuMemAlloc(&to, 64));
	ck_cu(cuMemcpyPeer(to, two, from, one, 4));
	ck_cu(cuMemcpyDtoH(&value, to, 4));
	ck_assert_uint_eq(value, 1234);
	ck_cu(cuPointerGetAttribute(&count, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, to));
	ck_assert_int_eq(count, 2);
}
END_TEST

START_TEST(the_memory_of_a_device_is_limited)
{
	struct bench b;
	CUdeviceptr block;
	size_t free_bytes, total_bytes;

	setenv("SIMCUDA_MEMORY", "64M", 1);
	setenv("SIMCUDA_CONTEXT", "2M", 1);
	bench_open(&b);
	ck_cu(cuMemGetInfo(&free_bytes, &total_bytes));
	ck_assert_uint_eq(total_bytes, 64 * MIB);
	ck_cu_is(cuMemAlloc(&block, 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	ck_cu(cuMemAlloc(&block, free_bytes));
	ck_cu_is(cuMemAlloc(&block, 1), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(the_nth_allocation_fails_once)
{
	struct bench b;
	CUdeviceptr block;

	setenv("SIMCUDA_FAIL_ALLOC", "4", 1);
	bench_open(&b);	/* the context, the module and the gate are three */
	ck_cu_is(cuMemAlloc(&block, 64), CUDA_ERROR_OUT_OF_MEMORY);
	ck_cu(cuMemAlloc(&block, 64));
}
END_TEST

START_TEST(the_nth_call_of_a_function_fails_with_the_code)
{
	struct bench b;
	CUdeviceptr block;
	int word = 0;

	setenv("SIMCUDA_FAIL", "cuMemcpyHtoD_v2:2:1,cuMemsetD8_v2:1+:801", 1);
	bench_open(&b);
	ck_cu(cuMemAlloc(&block, 64));
	ck_cu(cuMemcpyHtoD(block, &word, 4));
	ck_cu_is(cuMemcpyHtoD(block, &word, 4), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemcpyHtoD(block, &word, 4));
	ck_cu_is(cuMemsetD8(block, 0, 4), CUDA_ERROR_NOT_SUPPORTED);
	ck_cu_is(cuMemsetD8(block, 0, 4), CUDA_ERROR_NOT_SUPPORTED);
}
END_TEST

START_TEST(rules_can_be_kept_to_what_lies_between_two_calls)
{
	struct bench b;
	CUdeviceptr block;

	setenv("SIMCUDA_FAIL", "cuMemAlloc_v2:1:2", 1);
	setenv("SIMCUDA_FAIL_PROFILED", "1", 1);
	bench_open(&b);
	ck_cu(cuMemAlloc(&block, 64));
	ck_cu(cuProfilerStart());
	ck_cu_is(cuMemAlloc(&block, 64), CUDA_ERROR_OUT_OF_MEMORY);
	ck_cu(cuMemAlloc(&block, 64));
	ck_cu(cuProfilerStop());
	ck_cu(cuMemAlloc(&block, 64));
}
END_TEST

START_TEST(a_fault_sticks_to_the_context)
{
	struct bench b;
	CUdeviceptr block;

	setenv("SIMCUDA_FAIL", "cuStreamSynchronize:1:700", 1);
	bench_open(&b);
	ck_cu(cuMemAlloc(&block, 64));
	ck_cu_is(cuStreamSynchronize(b.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_cu_is(cuMemAlloc(&block, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_cu_is(cuStreamSynchronize(b.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_cu(cuDevicePrimaryCtxReset(b.device));
	ck_cu_is(cuMemAlloc(&block, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_cu(cuDevicePrimaryCtxRetain(&b.context, b.device));
	ck_cu(cuMemAlloc(&block, 64));
}
END_TEST

static void CUDA_CB note_status(CUstream stream, CUresult status, void *argument)
{
	(void)stream;
	__atomic_store_n((int *)argument, (int)status, __ATOMIC_RELEASE);
}

static void CUDA_CB note_call(void *argument)
{
	__atomic_store_n((int *)argument, 0, __ATOMIC_RELEASE);
}

START_TEST(after_a_fault_callbacks_get_its_code_and_host_functions_are_not_called)
{
	struct bench b;
	int status = -1, called = -1;

	setenv("SIMCUDA_FAIL", "cuStreamQuery:1:700", 1);
	bench_open(&b);
	bench_hold(&b, b.stream);
	ck_cu(cuLaunchHostFunc(b.stream, note_call, &called));
	ck_cu(cuStreamAddCallback(b.stream, note_status, &status, 0));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	bench_release(&b);
	while (__atomic_load_n(&status, __ATOMIC_ACQUIRE) < 0)
		usleep(1000);
	ck_assert_int_eq(status, CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_eq(called, -1);
}
END_TEST

START_TEST(copies_take_the_time_that_is_set)
{
	struct bench b;
	CUdeviceptr block;
	double before;
	void *pinned;

	setenv("SIMCUDA_COPY_US", "20000", 1);
	bench_open(&b);
	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuMemAllocHost(&pinned, 4096));
	before = now_ms();
	ck_cu(cuMemcpyHtoDAsync(block, pinned, 4096, b.stream));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_double_ge(now_ms() - before, 19.9);
}
END_TEST

START_TEST(pools_can_be_denied)
{
	struct bench b;
	CUdeviceptr block;
	int has = 1;

	setenv("SIMCUDA_POOLS", "0", 1);
	bench_open(&b);
	ck_cu(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, b.device));
	ck_assert_int_eq(has, 0);
	ck_cu_is(cuMemAllocAsync(&block, 64, b.stream), CUDA_ERROR_NOT_SUPPORTED);
}
END_TEST

START_TEST(a_fixture_runs_kernels)
{
	int words[64], number = 5;
	CUdeviceptr block;
	void *params[] = {&block, &number};
	CUfunction add;
	struct bench b;

	setenv("SIMCUDA_KERNELS", SIM_FIXTURE, 1);
	bench_open(&b);
	ck_cu(cuModuleGetFunction(&add, b.module, "add_to_all"));
	ck_cu(cuMemAlloc(&block, sizeof(words)));
	ck_cu(cuMemsetD32Async(block, 100, 64, b.stream));
	ck_cu(cuLaunchKernel(add, 2, 1, 1, 32, 1, 1, 0, b.stream, params, NULL));
	number = 7;
	ck_cu(cuMemcpyDtoHAsync(words, block, sizeof(words), b.stream));
	for (int i = 0; i < 64; i++)
		ck_assert_int_eq(words[i], 105);
}
END_TEST

START_TEST(kernels_take_the_time_that_is_set)
{
	CUfunction named, other;
	struct bench b;
	double before;

	setenv("SIMCUDA_KERNEL_TIMES", "slow=20000,quick=0", 1);
	bench_open(&b);
	ck_cu(cuModuleGetFunction(&named, b.module, "slow"));
	ck_cu(cuModuleGetFunction(&other, b.module, "unknown"));
	before = now_ms();
	ck_cu(cuLaunchKernel(other, 1, 1, 1, 1, 1, 1, 0, b.stream, NULL, NULL));
	ck_cu(cuLaunchKernel(named, 1, 1, 1, 1, 1, 1, 0, b.stream, NULL, NULL));
	ck_cu_is(cuLaunchKernel(named, 1, 1, 1, 2048, 1, 1, 0, b.stream, NULL, NULL),
		 CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_double_ge(now_ms() - before, 19.9);
}
END_TEST

START_TEST(a_forked_child_has_no_driver)
{
	struct bench b;
	CUdeviceptr block;
	int status;
	pid_t child;

	bench_open(&b);
	child = fork();
	if (child == 0)
		_exit(cuMemAlloc(&block, 64) == CUDA_ERROR_NOT_INITIALIZED &&
		      cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_cu(cuMemAlloc(&block, 64));
}
END_TEST

static CUdeviceptr late_block;

static void free_late(void)
{
	if (cuMemFree(late_block) != CUDA_SUCCESS)
		_exit(3);
}

static void too_late(void)
{
	if (cuMemFree(late_block) != CUDA_ERROR_DEINITIALIZED)
		_exit(4);
}

START_TEST(handlers_registered_after_cuinit_may_still_free)
{
	struct bench b;
	int status;
	pid_t child = fork();

	if (child == 0) {
		atexit(too_late);
		bench_open(&b);
		ck_cu(cuMemAlloc(&late_block, 64));
		atexit(free_late);
		exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(the_stack_of_contexts_is_per_thread)
{
	struct bench b;
	CUcontext other, current;

	bench_open(&b);
	ck_cu(cuCtxCreate(&other, NULL, 0, b.device));
	ck_cu(cuCtxGetCurrent(&current));
	ck_assert_ptr_eq(current, other);
	ck_cu(cuCtxPopCurrent(&current));
	ck_assert_ptr_eq(current, other);
	ck_cu(cuCtxGetCurrent(&current));
	ck_assert_ptr_eq(current, b.context);
	ck_cu(cuCtxPushCurrent(other));
	ck_cu(cuCtxDestroy(other));
	ck_cu(cuCtxGetCurrent(&current));
	ck_assert_ptr_eq(current, b.context);
	ck_cu(cuCtxSetCurrent(NULL));
	ck_cu_is(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

static void *churn(void *argument)
{
	CUcontext context = argument;
	CUdeviceptr blocks[16] = {0};
	CUstream stream;
	unsigned char byte;

	ck_cu(cuCtxSetCurrent(context));
	ck_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < 2000; i++) {
		CUdeviceptr *block = &blocks[i * 7 % 16];

		if (*block)
			ck_cu(i % 2 ? cuMemFreeAsync(*block, stream) : cuMemFree(*block));
		ck_cu(i % 3 ? cuMemAllocAsync(block, 1 + i * 37 % 70000, stream) :
			      cuMemAlloc(block, 1 + i * 41 % 70000));
		ck_cu(cuMemsetD8Async(*block, (unsigned char)i, 1, stream));
		ck_cu(cuMemcpyDtoHAsync(&byte, *block, 1, stream));
		ck_assert_uint_eq(byte, (unsigned char)i);
	}
	ck_cu(cuStreamSynchronize(stream));
	ck_cu(cuStreamDestroy(stream));
	return NULL;
}

START_TEST(threads_do_not_disturb_each_other)
{
	pthread_t threads[8];
	struct bench b;

	bench_open(&b);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, b.context), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	ck_cu(cuCtxSynchronize());
}
END_TEST

Suite *suite_setting(void)
{
	Suite *suite = suite_create("simdriver settings");
	TCase *tcase = tcase_create("settings");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, nothing_works_before_cuinit);
	tcase_add_test(tcase, devices_can_be_many_and_copy_to_each_other);
	tcase_add_test(tcase, the_memory_of_a_device_is_limited);
	tcase_add_test(tcase, the_nth_allocation_fails_once);
	tcase_add_test(tcase, the_nth_call_of_a_function_fails_with_the_code);
	tcase_add_test(tcase, rules_can_be_kept_to_what_lies_between_two_calls);
	tcase_add_test(tcase, a_fault_sticks_to_the_context);
	tcase_add_test(tcase,
		       after_a_fault_callbacks_get_its_code_and_host_functions_are_not_called);
	tcase_add_test(tcase, copies_take_the_time_that_is_set);
	tcase_add_test(tcase, pools_can_be_denied);
	tcase_add_test(tcase, a_fixture_runs_kernels);
	tcase_add_test(tcase, kernels_take_the_time_that_is_set);
	tcase_add_test(tcase, a_forked_child_has_no_driver);
	tcase_add_test(tcase, handlers_registered_after_cuinit_may_still_free);
	tcase_add_test(tcase, the_stack_of_contexts_is_per_thread);
	tcase_add_test(tcase, threads_do_not_disturb_each_other);
	suite_add_tcase(suite, tcase);
	return suite;
}
