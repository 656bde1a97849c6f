/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_wait.c - how long a program waits for a kernel of 20, 50 and 200 us, by
 * each way there is to wait: a free, which waits for all work of the context; an
 * event of the context, synchronised, synchronised with the thread asleep, or
 * polled; the stream.  Run without custody; the ways go by turns.
 *
 * Prints for each way, with tabs: median and 90th percentile in nanoseconds, from
 * before the launch to after the wait, for each of the three kernels.
 */
#include "client.h"

enum { REPEATS = 200, WARM_UP = 20, KERNELS = 3, CYCLES_PER_US = 1900 };

static const uint64_t kernel_us[KERNELS] = { 20, 50, 200 };

static const char kernel_text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				  ".visible .entry spin(.param .u64 cycles)\n{\n"
				  ".reg .u64 %start, %now, %limit;\n.reg .pred %more;\n"
				  "ld.param.u64 %limit, [cycles];\n"
				  "mov.u64 %start, %clock64;\n"
				  "again:\n"
				  "mov.u64 %now, %clock64;\n"
				  "sub.u64 %now, %now, %start;\n"
				  "setp.lt.u64 %more, %now, %limit;\n"
				  "@%more bra again;\n"
				  "ret;\n}\n";

static CUcontext context;
static CUstream stream;
static CUevent event, sleeping;
static CUdeviceptr block;

static void wait_by_free(void)
{
	CALL(cuMemFree, block);
}

static void wait_by_event(void)
{
	CALL(cuCtxRecordEvent, context, event);
	CALL(cuEventSynchronize, event);
}

static void wait_asleep(void)
{
	CALL(cuCtxRecordEvent, context, sleeping);
	CALL(cuEventSynchronize, sleeping);
}

static void wait_polling(void)
{
	CUresult state;

	CALL(cuCtxRecordEvent, context, event);
	while ((state = cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
		;
	client_must(state, "cuEventQuery");
}

static void wait_by_stream(void)
{
	CALL(cuStreamSynchronize, stream);
}

static const struct way {
	const char *name;
	void (*wait)(void);
} way[] = {
	{ "cuMemFree", wait_by_free },
	{ "cuCtxRecordEvent, cuEventSynchronize", wait_by_event },
	{ "the same, blocking event", wait_asleep },
	{ "cuCtxRecordEvent, cuEventQuery polled", wait_polling },
	{ "cuStreamSynchronize", wait_by_stream },
};

enum { WAYS = sizeof(way) / sizeof(way[0]) };

static uint64_t sample[WAYS][KERNELS][REPEATS];

static uint64_t time_one(const struct way *one, CUfunction kernel, uint64_t us)
{
	uint64_t cycles = us * CYCLES_PER_US, start;
	void *parameters[] = { &cycles };

	if (one->wait == wait_by_free)
		CALL(cuMemAlloc, &block, 4096);
	start = client_now_ns();
	CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
	one->wait();
	return client_now_ns() - start;
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static void print_way(int number)
{
	printf("%s", way[number].name);
	for (int i = 0; i < KERNELS; i++) {
		uint64_t *values = sample[number][i];

		qsort(values, REPEATS, sizeof(*values), compare);
		printf("\t%llu\t%llu", (unsigned long long)values[REPEATS / 2],
		       (unsigned long long)values[REPEATS * 9 / 10]);
	}
	putchar('\n');
}

int main(void)
{
	CUdeviceptr held;
	CUfunction kernel;
	CUmodule module;

	context = client_open();
	CALL(cuModuleLoadData, &module, kernel_text);
	CALL(cuModuleGetFunction, &kernel, module, "spin");
	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
	CALL(cuEventCreate, &sleeping, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
	CALL(cuMemAlloc, &held, 4096); /* keeps the page of the block */
	for (int i = -WARM_UP; i < REPEATS; i++)
		for (int j = 0; j < WAYS * KERNELS; j++)
			sample[j % WAYS][j / WAYS][i < 0 ? 0 : i] =
				time_one(&way[j % WAYS], kernel, kernel_us[j / WAYS]);
	for (int i = 0; i < WAYS; i++)
		print_way(i);
	return 0;
}
