/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth.c - what makes a driver take memory of its own, one case a run:
 *
 *	growth code|lazy|stream|graph|setting|context|devices|pool|quiet|oom|
 *	       capture|fork|release|leave
 *
 * A case prints what the program sees of it; what the trace must show stands in
 * readings.sh.
 */
#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, CAPTURES = 150, THREADS = 4, FUNCTIONS = 3, ROUNDS = 40 };

#define do_call(call) must((call), #call)

static CUcontext context;

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("%s answered %d\n", what, (int)result);
	exit(1);
}

static void start(void)
{
	do_call(cuInit(0));
	do_call(cuDevicePrimaryCtxRetain(&context, 0));
	do_call(cuCtxSetCurrent(context));
}

static CUmodule load(void)
{
	CUmodule module;

	do_call(cuModuleLoadData(&module, "any image"));
	return module;
}

static CUfunction find(CUmodule module, const char *name)
{
	CUfunction function;

	do_call(cuModuleGetFunction(&function, module, name));
	return function;
}

static CUresult launch(CUfunction function, CUstream stream)
{
	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

static void grow_code(void)
{
	CUmodule first, second;

	start();
	first = load();
	second = load();
	do_call(cuModuleUnload(first));
	do_call(cuModuleUnload(second));
	do_call(cuCtxSynchronize()); /* a good moment for what was put off */
}

/* Each of the functions is launched again and again. */
static void grow_lazily(void)
{
	static const char *const names[FUNCTIONS] = { "one", "two", "three" };
	CUfunction function[FUNCTIONS];
	CUmodule module;

	start();
	module = load();
	for (int i = 0; i < FUNCTIONS; i++)
		function[i] = find(module, names[i]);
	for (int i = 0; i < ROUNDS * FUNCTIONS; i++)
		do_call(launch(function[i % FUNCTIONS], NULL));
	do_call(cuCtxSynchronize());
}

static void grow_by_streams(void)
{
	CUstream stream[4];

	start();
	for (int i = 0; i < 4; i++)
		do_call(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 4; i++)
		do_call(cuStreamDestroy(stream[i]));
}

static CUgraphExec make_graph(CUfunction function)
{
	CUstream stream;
	CUgraph graph;
	CUgraphExec exec;

	do_call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	do_call(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	do_call(launch(function, stream));
	do_call(cuStreamEndCapture(stream, &graph));
	do_call(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static void grow_by_graphs(void)
{
	CUgraphExec exec;

	start();
	exec = make_graph(find(load(), "kernel"));
	for (int i = 0; i < ROUNDS; i++)
		do_call(cuGraphLaunch(exec, NULL));
	do_call(cuCtxSynchronize());
	do_call(cuGraphExecDestroy(exec));
}

static void grow_by_setting(void)
{
	start();
	do_call(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB));
	do_call(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 128 * MIB));
}

static void make_contexts(void)
{
	CUcontext other;
	CUdeviceptr block;

	start();
	do_call(cuDevicePrimaryCtxRetain(&context, 0)); /* again: it is there */
	do_call(cuCtxCreate(&other, NULL, 0, 0));
	do_call(cuMemAlloc(&block, 6 * MIB));
	do_call(cuCtxDestroy(other));
	do_call(cuCtxSetCurrent(context));
	do_call(cuDevicePrimaryCtxRelease(0));
}

/* The process ends with a context on each device, the current one on neither. */
static void use_devices(void)
{
	CUcontext other;
	CUdeviceptr block;

	start();
	do_call(cuMemAlloc(&block, 8 * MIB));
	do_call(cuCtxCreate(&other, NULL, 0, 1));
	do_call(cuMemAlloc(&block, 16 * MIB));
	do_call(cuCtxSetCurrent(NULL));
}

static void print_free(void)
{
	size_t is_free, total;

	do_call(cuMemGetInfo(&is_free, &total));
	printf("%zu free\n", is_free / MIB);
}

/* A pool of the program's own beside the default one; it is gone while its block lives. */
static void use_pools(void)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemoryPool pool;
	CUdeviceptr block, other;

	start();
	do_call(cuMemPoolCreate(&pool, &properties));
	do_call(cuMemAllocFromPoolAsync(&block, 3 * MIB, pool, NULL));
	do_call(cuMemAllocAsync(&other, 5 * MIB, NULL));
	print_free();
	do_call(cuMemPoolDestroy(pool));
	print_free();
	do_call(cuMemFreeAsync(block, NULL));
	do_call(cuCtxSynchronize());
	print_free();
}

static void allocate_at_times(void)
{
	CUdeviceptr block;

	start();
	for (int i = 0; i < 5; i++) {
		do_call(cuMemAlloc(&block, 2 * MIB));
		usleep(15000);
	}
	for (int i = 0; i < 2000; i++) {
		do_call(cuMemAlloc(&block, 1 * MIB));
		do_call(cuMemFree(block));
	}
}

static void run_out(void)
{
	CUdeviceptr block;

	start();
	do_call(cuMemAlloc(&block, 100 * MIB));
	printf("%d\n", (int)cuMemAlloc(&block, (size_t)1 << 40));
}

/* ------------------------------------------------ captures beside all that */

static _Atomic bool is_over;
static CUmodule many;

static void *grow_beside(void *argument)
{
	int number = *(const int *)argument;
	size_t is_free, total;
	char name[32];

	do_call(cuCtxSetCurrent(context));
	for (int i = 0; !atomic_load(&is_over); i++) {
		CUstream stream;

		snprintf(name, sizeof(name), "kernel_%d_%d", number, i % 2000);
		do_call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		do_call(cuMemGetInfo(&is_free, &total));
		do_call(launch(find(many, name), stream));
		do_call(cuStreamDestroy(stream));
	}
	return NULL;
}

static void capture_in_the_middle(void)
{
	int number[THREADS], captured = 0;
	pthread_t thread[THREADS];
	CUstream stream;
	CUgraph graph;

	start();
	many = load();
	do_call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < THREADS; i++) {
		number[i] = i;
		pthread_create(&thread[i], NULL, grow_beside, &number[i]);
	}
	for (int i = 0; i < CAPTURES; i++) {
		do_call(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
		do_call(launch(find(many, "captured"), stream));
		usleep(200);
		captured += cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS;
		usleep(200);
	}
	atomic_store(&is_over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("%d captured\n", captured);
}

/* ------------------------------------------------------------------- ends */

/* A child that has not touched CUDA leaves by exit(), with its parent's handlers. */
static void leave_a_child(void)
{
	int status = 0;
	pid_t child;

	start();
	fflush(stdout);
	child = fork();
	if (!child)
		exit(3);
	waitpid(child, &status, 0);
	printf("child: %d\n", WEXITSTATUS(status));
}

/* A handler from before the driver's first call runs last: the driver is gone then. */
static void say_goodbye(void)
{
	size_t is_free, total;

	printf("at the end: %d\n", cuMemGetInfo(&is_free, &total) == CUDA_SUCCESS);
}

static void release_late(void)
{
	atexit(say_goodbye);
	start();
}

static _Atomic bool is_leaving;

static void tell(void)
{
	atomic_store(&is_leaving, true);
}

/* A while later the end of the process is busy in that context. */
static void *end_context(void *other)
{
	while (!atomic_load(&is_leaving))
		usleep(1000);
	usleep(50000);
	cuCtxDestroy((CUcontext)other);
	return NULL;
}

static void leave_beside_a_destroyer(void)
{
	pthread_t thread;
	CUcontext other;

	do_call(cuInit(0));
	atexit(tell);
	do_call(cuCtxCreate(&other, NULL, 0, 0));
	do_call(cuCtxSetCurrent(NULL));
	pthread_create(&thread, NULL, end_context, other);
	pthread_detach(thread); /* nobody waits for it: the process ends first */
}

int main(int count, char **argument)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "code", grow_code },		{ "lazy", grow_lazily },
		{ "stream", grow_by_streams },	{ "graph", grow_by_graphs },
		{ "setting", grow_by_setting }, { "context", make_contexts },
		{ "devices", use_devices },	{ "pool", use_pools },
		{ "quiet", allocate_at_times }, { "oom", run_out },
		{ "capture", capture_in_the_middle }, { "fork", leave_a_child },
		{ "release", release_late },	{ "leave", leave_beside_a_destroyer },
	};

	for (size_t i = 0; count == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argument[1])) {
			cases[i].run();
			return 0;
		}
	fprintf(stderr, "growth: one case is to be named\n");
	return 2;
}
