/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_work.c - a program whose device has something of everything to do, known to
 * the byte; and that may profile itself by CUPTI, linked (GPU_WORK_LINKED) or
 * looked up.
 *
 *	gpu_work		copies, memsets, a batch, kernels, launches of a graph
 *	gpu_work profile	and then the same copies under its own profiler
 *	gpu_work early		the profiler comes ahead of cuInit
 *	gpu_work fork		a child exits, which has no CUPTI of its own
 *	gpu_work hold		says "ready PID" behind the copies, and waits for a line
 */
#include "intercept/cupti_abi.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, LAUNCHES = 3, PROFILED = 2 };

static CUdeviceptr block, other, managed;
static char *pinned, *pageable;
static CUstream stream;
static CUfunction often, once;

static void must(CUresult result, int line)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "gpu_work.c:%d: %d\n", line, (int)result);
	exit(1);
}

#define MUST(call) must(call, __LINE__)

static void begin(void)
{
	static const char code[] = "any";
	CUcontext context;
	CUmodule module;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	MUST(cuMemAlloc(&block, BLOCK));
	MUST(cuMemAlloc(&other, BLOCK));
	MUST(cuMemAllocManaged(&managed, BLOCK, CU_MEM_ATTACH_GLOBAL));
	MUST(cuMemAllocHost((void **)&pinned, BLOCK));
	pageable = calloc(1, BLOCK);
	MUST(cuModuleLoadData(&module, code));
	MUST(cuModuleGetFunction(&often, module, "_Z5oftenPfS_i"));
	MUST(cuModuleGetFunction(&once, module, "once"));
}

static void launch(CUfunction function)
{
	MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static void copy(void)
{
	MUST(cuMemcpyHtoD(block, pageable, 1000));
	MUST(cuMemcpyHtoDAsync(block, pinned, 2000, stream));
	MUST(cuMemcpyDtoHAsync(pinned, block, 3000, stream));
	MUST(cuMemcpyDtoH(pageable, block, 4000));
	MUST(cuMemcpyDtoDAsync(other, block, 5000, stream));
	MUST(cuMemsetD8Async(block, 1, 6000, stream));
	MUST(cuMemsetD8Async(managed, 1, 7000, stream));
	for (int i = 0; i < 5; i++)
		launch(often);
	launch(once);
}

static void copy_batch(void)
{
	CUdeviceptr target[] = { block, block + 8192, other };
	CUdeviceptr source[] = { (uintptr_t)pinned, (uintptr_t)pinned + 8192, block };
	size_t bytes[] = { 100, 300, 700 }, first = 0;
	CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };

	MUST(cuMemcpyBatchAsync(target, source, bytes, 3, &attributes, &first, 1, stream));
}

static void launch_graph(void)
{
	CUgraphExec exec;
	CUgraph graph;

	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(cuMemcpyHtoDAsync(block, pinned, 11, stream));
	MUST(cuMemcpyHtoDAsync(block + 64, pinned + 64, 22, stream));
	MUST(cuMemcpyDtoHAsync(pinned, block, 33, stream));
	MUST(cuMemsetD8Async(block, 2, 44, stream));
	launch(often);
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < LAUNCHES; i++)
		MUST(cuGraphLaunch(exec, stream));
	MUST(cuStreamSynchronize(stream));
}

/* -------------------------------------------------------------- its own profiler */

#ifdef GPU_WORK_LINKED
int cuptiSubscribe(void **handle, cupti_callback callback, void *data);
int cuptiActivityRegisterCallbacks(cupti_request request, cupti_complete complete);
int cuptiActivityEnable(int kind);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint32_t **record);
#else
static int (*cuptiSubscribe)(void **handle, cupti_callback callback, void *data);
static int (*cuptiActivityRegisterCallbacks)(cupti_request request, cupti_complete complete);
static int (*cuptiActivityEnable)(int kind);
static int (*cuptiActivityFlushAll)(uint32_t flag);
static int (*cuptiActivityGetNextRecord)(uint8_t *buffer, size_t valid, uint32_t **record);
#endif

static int profiled;

static void *look_up(void *library, const char *name)
{
	void *function = dlsym(library, name);

	if (!function) {
		fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	return function;
}

static void find_cupti(void)
{
#ifndef GPU_WORK_LINKED
	void *library = dlopen("libcupti.so.13", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&cuptiSubscribe = look_up(library, "cuptiSubscribe");
	*(void **)&cuptiActivityRegisterCallbacks =
		look_up(library, "cuptiActivityRegisterCallbacks");
	*(void **)&cuptiActivityEnable = look_up(library, "cuptiActivityEnable");
	*(void **)&cuptiActivityFlushAll = look_up(library, "cuptiActivityFlushAll");
	*(void **)&cuptiActivityGetNextRecord = look_up(library, "cuptiActivityGetNextRecord");
#else
	look_up(RTLD_DEFAULT, "cuptiSubscribe");
#endif
}

static void give_buffer(uint8_t **buffer, size_t *bytes, size_t *records)
{
	*bytes = 1 << 16;
	*records = 0;
	*buffer = malloc(*bytes);
}

static void take_buffer(void *context, uint32_t number, uint8_t *buffer, size_t bytes, size_t valid)
{
	uint32_t *record = NULL;

	(void)context;
	(void)number;
	(void)bytes;
	while (!cuptiActivityGetNextRecord(buffer, valid, &record))
		profiled += *record == CUPTI_MEMCPY;
	free(buffer);
}

static void hear(void *data, int domain, uint32_t id, const void *call)
{
	(void)data;
	(void)domain;
	(void)id;
	(void)call;
}

static void open_profiler(void)
{
	void *handle = NULL;
	int result = cuptiSubscribe(&handle, hear, NULL);

	printf("subscribed: %d\n", result);
	if (result)
		exit(1);
	cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
	cuptiActivityEnable(CUPTI_MEMCPY);
}

static void profile(void)
{
	for (int i = 0; i < PROFILED; i++)
		MUST(cuMemcpyHtoDAsync(block, pinned, 8000, stream));
	MUST(cuStreamSynchronize(stream));
	cuptiActivityFlushAll(1);
	printf("profiled: %d\n", profiled);
}

static void fork_and_exit(void)
{
	int status = 1;
	pid_t child = fork();

	if (!child)
		exit(0);
	waitpid(child, &status, 0);
	if (status)
		exit(1);
}

/* The end of a context has CUPTI's records fetched. */
static void hold(void)
{
	CUcontext context;

	MUST(cuStreamSynchronize(stream));
	MUST(cuCtxCreate(&context, NULL, 0, 0));
	MUST(cuCtxDestroy(context));
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	getchar();
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	bool is_early = !strcmp(how, "early"), does_profile = is_early || !strcmp(how, "profile");

	if (does_profile)
		find_cupti();
	if (is_early)
		open_profiler();
	begin();
	copy();
	if (!strcmp(how, "fork"))
		fork_and_exit();
	if (!strcmp(how, "hold"))
		hold();
	copy_batch();
	launch_graph();
	if (does_profile && !is_early)
		open_profiler();
	if (does_profile)
		profile();
	return 0;
}
