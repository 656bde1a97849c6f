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
 * kinds are followed by a synchronise after every 64.  Prints one line a kind:
 * name, driver calls in what was timed, median ns, mean ns of the middle eight
 * tenths (the counter of some machines ticks in steps of 10 ns).
 */
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

enum { BLOCK = 4096, TINY = 64, BATCH = 64, WARM_UP = 256, THREADS_MAX = 256 };

/* Field names go through cuda.h's renaming as the calls do: cuMemAlloc is cuMemAlloc_v2. */
static struct {
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
} driver;

struct worker {
	pthread_t thread;
	CUstream stream;
	CUevent event;
	void *pinned;
	CUdeviceptr block;
	CUdeviceptr held; /* keeps the page of the next small block */
	uint64_t *sample;
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
	return driver.cuMemcpyHtoDAsync(self->block, self->pinned, BLOCK, self->stream);
}

static CUresult set_async(struct worker *self)
{
	return driver.cuMemsetD8Async(self->block, 1, BLOCK, self->stream);
}

static CUresult allocate_async(struct worker *self)
{
	CUdeviceptr block;
	CUresult result = driver.cuMemAllocAsync(&block, BLOCK, self->stream);

	return result ? result : driver.cuMemFreeAsync(block, self->stream);
}

static CUresult allocate_plain(struct worker *self)
{
	CUdeviceptr block;
	CUresult result = driver.cuMemAlloc(&block, BLOCK);

	(void)self;
	return result ? result : driver.cuMemFree(block);
}

static CUresult copy_tiny(struct worker *self)
{
	return driver.cuMemcpyHtoD(self->block, self->pinned, TINY);
}

static CUresult record_event(struct worker *self)
{
	return driver.cuEventRecord(self->event, self->stream);
}

static CUresult ask_attribute(struct worker *self)
{
	CUmemorytype type;

	return driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, self->block);
}

static CUresult launch_empty(struct worker *self)
{
	return driver.cuLaunchKernel(empty_kernel, 1, 1, 1, 1, 1, 1, 0, self->stream, NULL, NULL);
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

static int samples_of(const struct benchmark *one)
{
	return one->is_pair ? pairs : calls;
}

static void sample_one(struct worker *self, const struct benchmark *one)
{
	int total = samples_of(one);

	for (int i = -WARM_UP; i < total; i++) {
		uint64_t start = ticks();
		CUresult result = one->run(self);
		uint64_t end = ticks();

		check(result, one->name);
		if (i >= 0)
			self->sample[i] = end - start;
		if (one->is_async && i % BATCH == 0)
			check(driver.cuStreamSynchronize(self->stream), "cuStreamSynchronize");
	}
	check(driver.cuStreamSynchronize(self->stream), "cuStreamSynchronize");
}

/* ---------------------------------------------------------------- threads */

static void open_worker(struct worker *self)
{
	check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	check(driver.cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(driver.cuEventCreate(&self->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	check(driver.cuMemAllocHost(&self->pinned, BLOCK), "cuMemAllocHost");
	memset(self->pinned, 1, BLOCK);
	check(driver.cuMemAlloc(&self->block, BLOCK), "cuMemAlloc");
	check(driver.cuMemAlloc(&self->held, BLOCK), "cuMemAlloc");
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

/* Of all threads' samples; they lie one after the other in `samples`. */
static void print_one(const struct benchmark *one, uint64_t *samples)
{
	size_t total = (size_t)samples_of(one) * (size_t)threads;

	for (int i = 1; i < threads; i++)
		memmove(samples + (size_t)i * (size_t)samples_of(one),
			samples + (size_t)i * (size_t)(calls > pairs ? calls : pairs),
			(size_t)samples_of(one) * sizeof(*samples));
	qsort(samples, total, sizeof(*samples), compare);
	printf("%s\t%d\t%.1f\t%.1f\n", one->name, one->driver_calls,
	       (double)samples[total / 2] * ns_per_tick,
	       mean_of_middle(samples, total) * ns_per_tick);
}

static struct worker worker[THREADS_MAX];

/* The same answer in every thread: it is the driver's, not the thread's. */
static int can_run(struct worker *self, const struct benchmark *one)
{
	if (one->run == launch_empty && !empty_kernel)
		return 0;
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
			print_one(&benchmark[i], self->sample);
	}
	return NULL;
}

static void run_threads(void)
{
	size_t each = (size_t)(calls > pairs ? calls : pairs);
	uint64_t *samples = calloc(each * (size_t)threads, sizeof(*samples));

	if (!samples)
		fail("calloc", 0);
	pthread_barrier_init(&barrier, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++) {
		worker[i].sample = samples + each * (size_t)i;
		if (pthread_create(&worker[i].thread, NULL, work, &worker[i]))
			fail("pthread_create", 0);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(worker[i].thread, NULL);
	free(samples);
}

/* ----------------------------------------------------------------- driver */

static const char kernel_text[] = ".version 7.0\n"
				  ".target sm_75\n"
				  ".address_size 64\n"
				  ".visible .entry empty() { ret; }\n";

#define SYMBOL_TEXT(symbol) #symbol
#define SYMBOL(function)    SYMBOL_TEXT(function)
#define LOOK_UP(function)   (driver.function = look_up(library, SYMBOL_TEXT(function)))

static void *look_up(void *library, const char *name)
{
	void *address = dlsym(library, name);

	if (!address) {
		fprintf(stderr, "bench_calls: no %s in libcuda.so.1\n", name);
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

	check(driver.cuInit(0), "cuInit");
	check(driver.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	/* A driver that cannot compile leaves the launch out. */
	if (driver.cuModuleLoadData(&module, kernel_text) == CUDA_SUCCESS)
		driver.cuModuleGetFunction(&empty_kernel, module, "empty");
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
