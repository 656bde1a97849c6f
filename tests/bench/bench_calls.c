/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_calls.c - what one driver call costs this program, on a GPU or on any
 * other libcuda.so.1 that the loader finds.  Run it bare and under a preload by
 * turns; the difference of the medians is what the preload adds.
 *
 *	bench_calls [-t THREADS] [-n CALLS] [-p PAIRS]
 *
 * Each of THREADS threads makes CALLS calls of a kind on a stream of its own,
 * PAIRS of cuMemAlloc and cuMemFree, and times each one itself; asynchronous
 * kinds are followed by a synchronise after every 64.  Batches of 64 go by turns
 * through what dlsym gave, which may be a wrapper, and straight to the driver's
 * own functions: so what a wrapper adds is measured in one process too.
 *
 * Prints one line a kind: name, driver calls in what was timed; median ns and
 * mean ns of the middle eight tenths (the counter of some machines ticks in steps
 * of 10 ns) as looked up; the same two of the direct calls.
 */
#include "libcuda_symbol.h"

#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { BLOCK = 4096, TINY = 64, BATCH = 64, WARM_UP = 4, THREADS_MAX = 256 };

/* Field names go through cuda.h's renaming as the calls do: cuMemAlloc is cuMemAlloc_v2. */
struct driver {
	__typeof__(&cuInit) cuInit;
	__typeof__(&cuDevicePrimaryCtxRetain) cuDevicePrimaryCtxRetain;
	__typeof__(&cuCtxSetCurrent) cuCtxSetCurrent;
	__typeof__(&cuStreamCreate) cuStreamCreate;
	__typeof__(&cuStreamSynchronize) cuStreamSynchronize;
	__typeof__(&cuEventCreate) cuEventCreate;
	__typeof__(&cuEventRecord) cuEventRecord;
	__typeof__(&cuMemAllocHost) cuMemAllocHost;
	__typeof__(&cuMemAlloc) cuMemAlloc;
	__typeof__(&cuMemFree) cuMemFree;
	__typeof__(&cuMemAllocAsync) cuMemAllocAsync;
	__typeof__(&cuMemFreeAsync) cuMemFreeAsync;
	__typeof__(&cuMemcpyHtoD) cuMemcpyHtoD;
	__typeof__(&cuMemcpyHtoDAsync) cuMemcpyHtoDAsync;
	__typeof__(&cuMemsetD8Async) cuMemsetD8Async;
	__typeof__(&cuPointerGetAttribute) cuPointerGetAttribute;
	__typeof__(&cuModuleLoadData) cuModuleLoadData;
	__typeof__(&cuModuleGetFunction) cuModuleGetFunction;
	__typeof__(&cuLaunchKernel) cuLaunchKernel;
};

static struct driver looked_up, direct;

struct worker {
	pthread_t thread;
	CUstream stream;
	CUevent event;
	void *pinned;
	CUdeviceptr block;
	CUdeviceptr held;	     /* keeps the page of the next small block */
	const struct driver *driver; /* whose turn it is */
	uint64_t *sample[2];	     /* looked up, direct */
};

struct benchmark {
	const char *name;
	CUresult (*run)(struct worker *self);
	int driver_calls; /* in one run */
	int is_async;
	int is_pair; /* slow: PAIRS times only */
};

static int threads = 1;
static int calls = 20000;
static int pairs = 2000;
static CUcontext context;
static CUfunction empty_kernel;
static pthread_barrier_t barrier;
static struct worker worker[THREADS_MAX];
static uint64_t *all_samples;

static void fail(const char *what, int result)
{
	fprintf(stderr, "bench_calls: %s answered %d\n", what, result);
	exit(1);
}

static void check(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS)
		fail(what, (int)result);
}

/* ------------------------------------------------------------------ clock */

static double ns_per_tick = 1.0;

static inline uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	unsigned int cpu;

	return __rdtscp(&cpu);
#else
	return monotonic_ns();
#endif
}

static void measure_ticks(void)
{
	uint64_t ns = monotonic_ns(), start = ticks();

	usleep(20000);
	ns = monotonic_ns() - ns;
	ns_per_tick = (double)ns / (double)(ticks() - start);
}

/* ------------------------------------------------------------- benchmarks */

static CUresult copy_async(struct worker *self)
{
	return self->driver->cuMemcpyHtoDAsync(self->block, self->pinned, BLOCK, self->stream);
}

static CUresult set_async(struct worker *self)
{
	return self->driver->cuMemsetD8Async(self->block, 1, BLOCK, self->stream);
}

static CUresult allocate_async(struct worker *self)
{
	CUdeviceptr block;
	CUresult result = self->driver->cuMemAllocAsync(&block, BLOCK, self->stream);

	return result ? result : self->driver->cuMemFreeAsync(block, self->stream);
}

static CUresult allocate_plain(struct worker *self)
{
	CUdeviceptr block;
	CUresult result = self->driver->cuMemAlloc(&block, BLOCK);

	return result ? result : self->driver->cuMemFree(block);
}

static CUresult copy_tiny(struct worker *self)
{
	return self->driver->cuMemcpyHtoD(self->block, self->pinned, TINY);
}

static CUresult record_event(struct worker *self)
{
	return self->driver->cuEventRecord(self->event, self->stream);
}

static CUresult ask_attribute(struct worker *self)
{
	CUmemorytype type;

	return self->driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						   self->block);
}

static CUresult launch_empty(struct worker *self)
{
	return self->driver->cuLaunchKernel(empty_kernel, 1, 1, 1, 1, 1, 1, 0, self->stream, NULL,
					    NULL);
}

static const struct benchmark benchmark[] = {
	{ "cuMemcpyHtoDAsync 4 KiB pinned", copy_async, 1, 1, 0 },
	{ "cuMemsetD8Async 4 KiB", set_async, 1, 1, 0 },
	{ "cuMemAllocAsync+cuMemFreeAsync", allocate_async, 2, 1, 0 },
	{ "cuMemAlloc+cuMemFree 4 KiB", allocate_plain, 2, 0, 1 },
	{ "cuMemcpyHtoD 64 B", copy_tiny, 1, 0, 0 },
	{ "cuEventRecord", record_event, 1, 1, 0 },
	{ "cuPointerGetAttribute", ask_attribute, 1, 0, 0 },
	{ "cuLaunchKernel empty", launch_empty, 1, 1, 0 },
};

enum { BENCHMARKS = sizeof(benchmark) / sizeof(benchmark[0]) };

/* Whole batches, at least one. */
static int batches_of(const struct benchmark *one)
{
	return ((one->is_pair ? pairs : calls) + BATCH - 1) / BATCH;
}

static void time_batch(struct worker *self, const struct benchmark *one, uint64_t *sample)
{
	for (int i = 0; i < BATCH; i++) {
		uint64_t start = ticks();
		CUresult result = one->run(self);
		uint64_t end = ticks();

		check(result, one->name);
		sample[i] = end - start;
	}
	if (one->is_async)
		check(direct.cuStreamSynchronize(self->stream), "cuStreamSynchronize");
}

/* By turns; the first batches of each warm up and are written over. */
static void sample_one(struct worker *self, const struct benchmark *one)
{
	int batches = batches_of(one);

	for (int i = -WARM_UP; i < batches; i++) {
		int at = (i < 0 ? 0 : i) * BATCH;

		self->driver = &looked_up;
		time_batch(self, one, self->sample[0] + at);
		self->driver = &direct;
		time_batch(self, one, self->sample[1] + at);
	}
	check(direct.cuStreamSynchronize(self->stream), "cuStreamSynchronize");
}

/* ---------------------------------------------------------------- threads */

static void open_worker(struct worker *self)
{
	check(looked_up.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	check(looked_up.cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(looked_up.cuEventCreate(&self->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	check(looked_up.cuMemAllocHost(&self->pinned, BLOCK), "cuMemAllocHost");
	memset(self->pinned, 1, BLOCK);
	check(looked_up.cuMemAlloc(&self->block, BLOCK), "cuMemAlloc");
	check(looked_up.cuMemAlloc(&self->held, BLOCK), "cuMemAlloc");
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static double mean_of_middle(const uint64_t *samples, size_t total)
{
	double sum = 0;
	size_t first = total / 10, end = total - first;

	for (size_t i = first; i < end; i++)
		sum += (double)samples[i];
	return sum / (double)(end - first);
}

/* The samples of all threads, brought together in `all`. */
static void print_way(const struct benchmark *one, int way, uint64_t *all)
{
	size_t each = (size_t)batches_of(one) * BATCH, total = each * (size_t)threads;

	for (int i = 0; i < threads; i++)
		memcpy(all + each * (size_t)i, worker[i].sample[way], each * sizeof(*all));
	qsort(all, total, sizeof(*all), compare);
	printf("\t%.1f\t%.1f", (double)all[total / 2] * ns_per_tick,
	       mean_of_middle(all, total) * ns_per_tick);
}

static void print_one(const struct benchmark *one, uint64_t *all)
{
	printf("%s\t%d", one->name, one->driver_calls);
	print_way(one, 0, all);
	print_way(one, 1, all);
	putchar('\n');
}

/* The same answer in every thread: it is the driver's, not the thread's. */
static int can_run(struct worker *self, const struct benchmark *one)
{
	if (one->run == launch_empty && !empty_kernel)
		return 0;
	self->driver = &direct;
	return one->run(self) != CUDA_ERROR_NOT_SUPPORTED;
}

static void *work(void *data)
{
	struct worker *self = data;

	open_worker(self);
	for (int i = 0; i < BENCHMARKS; i++) {
		if (!can_run(self, &benchmark[i]))
			continue;
		pthread_barrier_wait(&barrier);
		sample_one(self, &benchmark[i]);
		pthread_barrier_wait(&barrier);
		if (self == worker)
			print_one(&benchmark[i], all_samples);
	}
	return NULL;
}

static uint64_t *make_samples(size_t count)
{
	uint64_t *samples = calloc(count, sizeof(*samples));

	if (!samples)
		fail("calloc", 0);
	return samples;
}

static void run_threads(void)
{
	size_t each = (size_t)(calls > pairs ? calls : pairs) + BATCH;

	all_samples = make_samples(each * (size_t)threads);
	pthread_barrier_init(&barrier, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++) {
		worker[i].sample[0] = make_samples(each);
		worker[i].sample[1] = make_samples(each);
		if (pthread_create(&worker[i].thread, NULL, work, &worker[i]))
			fail("pthread_create", 0);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(worker[i].thread, NULL);
}

/* ----------------------------------------------------------------- driver */

static const char kernel_text[] = ".version 7.0\n"
				  ".target sm_75\n"
				  ".address_size 64\n"
				  ".visible .entry empty() { ret; }\n";

#define SYMBOL_TEXT(symbol) #symbol
#define SYMBOL(function)    SYMBOL_TEXT(function)
#define LOOK_UP(function)                                              \
	(looked_up.function = look_up(library, SYMBOL_TEXT(function)), \
	 direct.function = look_directly(SYMBOL_TEXT(function)))

static void *look_up(void *library, const char *name)
{
	void *address = dlsym(library, name);

	if (!address) {
		fprintf(stderr, "bench_calls: no %s in libcuda.so.1\n", name);
		exit(1);
	}
	return address;
}

static void *look_directly(const char *name)
{
	void *address = libcuda_symbol(name);

	if (!address) {
		fprintf(stderr, "bench_calls: %s is not in the symbol table\n", name);
		exit(1);
	}
	return address;
}

static void find_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "bench_calls: %s\n", dlerror());
		exit(77);
	}
	LOOK_UP(cuInit);
	LOOK_UP(cuDevicePrimaryCtxRetain);
	LOOK_UP(cuCtxSetCurrent);
	LOOK_UP(cuStreamCreate);
	LOOK_UP(cuStreamSynchronize);
	LOOK_UP(cuEventCreate);
	LOOK_UP(cuEventRecord);
	LOOK_UP(cuMemAllocHost);
	LOOK_UP(cuMemAlloc);
	LOOK_UP(cuMemFree);
	LOOK_UP(cuMemAllocAsync);
	LOOK_UP(cuMemFreeAsync);
	LOOK_UP(cuMemcpyHtoD);
	LOOK_UP(cuMemcpyHtoDAsync);
	LOOK_UP(cuMemsetD8Async);
	LOOK_UP(cuPointerGetAttribute);
	LOOK_UP(cuModuleLoadData);
	LOOK_UP(cuModuleGetFunction);
	LOOK_UP(cuLaunchKernel);
}

static void open_driver(void)
{
	CUmodule module;

	check(looked_up.cuInit(0), "cuInit");
	check(looked_up.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(looked_up.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	/* A driver that cannot compile leaves the launch out. */
	if (looked_up.cuModuleLoadData(&module, kernel_text) == CUDA_SUCCESS)
		looked_up.cuModuleGetFunction(&empty_kernel, module, "empty");
}

static void read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "t:n:p:")) != -1) {
		if (option == 't')
			threads = atoi(optarg);
		else if (option == 'n')
			calls = atoi(optarg);
		else if (option == 'p')
			pairs = atoi(optarg);
		else
			exit(2);
	}
	if (threads < 1 || threads > THREADS_MAX || calls < 1 || pairs < 1 || optind < argc) {
		fprintf(stderr, "usage: bench_calls [-t THREADS] [-n CALLS] [-p PAIRS]\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	read_options(argc, argv);
	find_driver();
	measure_ticks();
	open_driver();
	run_threads();
	return 0;
}
