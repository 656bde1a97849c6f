/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_gap.c - one thread frees blocks behind copies, over and over, while
 * another launches a kernel every few microseconds: how long is the launcher held
 * up?  Run it bare and under each policy of frees by turns.
 *
 *	bench_gap [-s MILLISECONDS] [-m MIB]
 *
 * Prints lines of a name and numbers, nanoseconds: `launch` median, 99 %, 99.9 %
 * and the longest launch; `gap` the same of the time between two launches beyond
 * the pace that the launcher keeps; `free` median and longest of the frees;
 * `count` launches and frees.
 */
#include "client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum { COPIES = 10, BLOCK = 4 << 20, PACE_NS = 20000, SAMPLES_MAX = 1 << 20 };

static const char kernel_text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				  ".visible .entry empty() { ret; }\n";

static CUcontext context;
static CUfunction kernel;
static CUdeviceptr sink, cell;
static void *source;
static size_t copy_bytes = (size_t)256 << 20;
static uint64_t run_ns = 2500000000u;
static atomic_bool is_over;

struct series {
	uint64_t *value;
	size_t count;
};

static struct series launches, gaps, frees;

static void note(struct series *series, uint64_t value)
{
	if (series->count < SAMPLES_MAX)
		series->value[series->count++] = value;
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static uint64_t part(const struct series *series, double share)
{
	size_t at = (size_t)(share * (double)series->count);

	if (!series->count)
		return 0;
	return series->value[at < series->count ? at : series->count - 1];
}

static void print_series(const char *name, const struct series *series)
{
	qsort(series->value, series->count, sizeof(*series->value), compare);
	printf("%s\t%llu\t%llu\t%llu\t%llu\n", name, (unsigned long long)part(series, 0.5),
	       (unsigned long long)part(series, 0.99), (unsigned long long)part(series, 0.999),
	       (unsigned long long)part(series, 1));
}

static void *free_blocks(void *unused)
{
	CUstream stream;

	(void)unused;
	CALL(cuCtxSetCurrent, context);
	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	while (!atomic_load(&is_over)) {
		CUdeviceptr block;
		uint64_t start;

		CALL(cuMemAlloc, &block, BLOCK);
		for (int i = 0; i < COPIES; i++)
			CALL(cuMemcpyHtoDAsync, sink, source, copy_bytes, stream);
		start = client_now_ns();
		CALL(cuMemFree, block);
		note(&frees, client_now_ns() - start);
		CALL(cuStreamSynchronize, stream);
	}
	return NULL;
}

static void launch(CUstream stream)
{
	if (kernel)
		CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	else
		CALL(cuMemsetD8Async, cell, 1, 64, stream);
}

/* At its pace; after a long hold-up it does not try to catch up. */
static void launch_on(CUstream stream)
{
	uint64_t begin = client_now_ns(), last = begin;

	while (last - begin < run_ns) {
		uint64_t start;

		while ((start = client_now_ns()) - last < PACE_NS)
			;
		launch(stream);
		note(&gaps, start - last - PACE_NS);
		last = client_now_ns();
		note(&launches, last - start);
	}
}

static void open_device(void)
{
	CUmodule module;

	context = client_open();
	if (cuModuleLoadData(&module, kernel_text) == CUDA_SUCCESS)
		cuModuleGetFunction(&kernel, module, "empty");
	CALL(cuMemAllocHost, &source, copy_bytes);
	memset(source, 1, copy_bytes);
	CALL(cuMemAlloc, &sink, copy_bytes);
	CALL(cuMemAlloc, &cell, 64);
	launches.value = calloc(SAMPLES_MAX, sizeof(uint64_t));
	gaps.value = calloc(SAMPLES_MAX, sizeof(uint64_t));
	frees.value = calloc(SAMPLES_MAX, sizeof(uint64_t));
	if (!launches.value || !gaps.value || !frees.value)
		exit(1);
}

static void run(void)
{
	pthread_t freer;
	CUstream stream;

	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < 100; i++)
		launch(stream);
	CALL(cuStreamSynchronize, stream);
	if (pthread_create(&freer, NULL, free_blocks, NULL))
		exit(1);
	usleep(100000);
	launch_on(stream);
	atomic_store(&is_over, true);
	pthread_join(freer, NULL);
	CALL(cuStreamSynchronize, stream);
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "s:m:")) != -1) {
		if (option == 's')
			run_ns = strtoull(optarg, NULL, 10) * 1000000u;
		else if (option == 'm')
			copy_bytes = strtoull(optarg, NULL, 10) << 20;
		else
			return 2;
	}
	if (!run_ns || !copy_bytes || optind < argc) {
		fprintf(stderr, "usage: bench_gap [-s MILLISECONDS] [-m MIB]\n");
		return 2;
	}
	open_device();
	run();
	print_series("launch", &launches);
	print_series("gap", &gaps);
	print_series("free", &frees);
	printf("count\t%zu\t%zu\n", launches.count, frees.count);
	return 0;
}
