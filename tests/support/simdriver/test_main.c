/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the suites.  Every test has a process of its own: CUDA does not survive a fork. */
#include "simtest.h"

void bench_open(struct bench *bench)
{
	static const char image[] = "any image";
	void *gate;

	memset(bench, 0, sizeof(*bench));
	ck_cu(cuInit(0));
	ck_cu(cuDeviceGet(&bench->device, 0));
	ck_cu(cuDevicePrimaryCtxRetain(&bench->context, bench->device));
	ck_cu(cuCtxSetCurrent(bench->context));
	ck_cu(cuStreamCreate(&bench->stream, CU_STREAM_NON_BLOCKING));
	ck_cu(cuModuleLoadData(&bench->module, image));
	ck_cu(cuModuleGetFunction(&bench->delay, bench->module, "sim_delay"));
	ck_cu(cuModuleGetFunction(&bench->fill, bench->module, "sim_fill"));
	ck_cu(cuMemAllocHost(&gate, 64));
	bench->gate = gate;
}

void bench_hold(struct bench *bench, CUstream stream)
{
	__atomic_store_n(bench->gate, 0, __ATOMIC_RELEASE);
	ck_cu(cuStreamWaitValue32(stream, (CUdeviceptr)bench->gate, 1, CU_STREAM_WAIT_VALUE_EQ));
}

void bench_release(struct bench *bench)
{
	__atomic_store_n(bench->gate, 1, __ATOMIC_RELEASE);
}

void bench_busy(struct bench *bench, CUstream stream, unsigned milliseconds)
{
	unsigned microseconds = milliseconds * 1000;
	void *params[] = {&microseconds};

	ck_cu(cuLaunchKernel(bench->delay, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

size_t bench_free_bytes(void)
{
	size_t free_bytes, total_bytes;

	ck_cu(cuMemGetInfo(&free_bytes, &total_bytes));
	return free_bytes;
}

int main(void)
{
	SRunner *runner = srunner_create(suite_memory());
	int failed;

	srunner_add_suite(runner, suite_stream());
	srunner_add_suite(runner, suite_pool());
	srunner_add_suite(runner, suite_mapping());
	srunner_add_suite(runner, suite_capture());
	srunner_add_suite(runner, suite_graph());
	srunner_add_suite(runner, suite_ledger());
	srunner_add_suite(runner, suite_lookup());
	srunner_add_suite(runner, suite_external());
	srunner_add_suite(runner, suite_green());
	srunner_add_suite(runner, suite_peer());
	srunner_add_suite(runner, suite_share());
	srunner_add_suite(runner, suite_setting());
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
