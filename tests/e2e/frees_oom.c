/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frees_oom.c - allocations that run out of memory, with and without blocks
 * whose release was put off:
 *
 *	frees_oom CASE ARGUMENT...
 */
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define BEGIN_SCOPE() nvtxRangePushA("custody.defer_cleanup")
#define END_SCOPE() nvtxRangePop()
#else
#define BEGIN_SCOPE() _exit(77)
#define END_SCOPE() ((void)0)
#endif

#include "frees.h"

#include <cudaProfiler.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUmemoryPool pool;
static CUgraph graph;
static CUgraphExec executable;
static CUcontext second;

/* ------------------------------------------------------------------ every call */

static CUresult call_alloc(void)
{
	CUdeviceptr block;

	return cuMemAlloc(&block, 4096);
}

static CUresult call_pitch(void)
{
	CUdeviceptr block;
	size_t pitch;

	return cuMemAllocPitch(&block, &pitch, 64, 64, 4);
}

static CUresult call_managed(void)
{
	CUdeviceptr block;

	return cuMemAllocManaged(&block, 4096, CU_MEM_ATTACH_GLOBAL);
}

static CUresult call_alloc_host(void)
{
	void *block;

	return cuMemAllocHost(&block, 4096);
}

static CUresult call_host_alloc(void)
{
	void *block;

	return cuMemHostAlloc(&block, 4096, 0);
}

static CUresult call_async(void)
{
	CUdeviceptr block;

	return cuMemAllocAsync(&block, 4096, frees.work);
}

static CUresult call_from_pool(void)
{
	CUdeviceptr block;

	return cuMemAllocFromPoolAsync(&block, 4096, pool, frees.work);
}

static CUresult call_create(void)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle memory;

	return cuMemCreate(&memory, 2 * MIB, &properties, 0);
}

static CUresult call_array(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = { 64, 64, CU_AD_FORMAT_FLOAT, 1 };
	CUarray array;

	return cuArrayCreate(&array, &shape);
}

static CUresult call_array_3d(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { 16, 16, 16, CU_AD_FORMAT_FLOAT, 1, 0 };
	CUarray array;

	return cuArray3DCreate(&array, &shape);
}

static CUresult call_mipmap(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { 64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
	CUmipmappedArray array;

	return cuMipmappedArrayCreate(&array, &shape, 2);
}

static CUresult call_module(void)
{
	CUmodule module;

	return cuModuleLoadDataEx(&module, "an image", 0, NULL, NULL);
}

static CUresult call_fat(void)
{
	CUmodule module;

	return cuModuleLoadFatBinary(&module, "an image");
}

static CUresult call_library(void)
{
	CUlibrary library;

	return cuLibraryLoadData(&library, "an image", NULL, NULL, 0, NULL, NULL, 0);
}

static CUresult call_context(void)
{
	CUresult result = cuCtxCreate_v2(&second, 0, frees.device);

	if (!result)
		do_call(cuCtxPopCurrent(NULL));
	return result;
}

static CUresult call_priority(void)
{
	CUstream stream;

	return cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -1);
}

static CUresult call_instantiate(void)
{
	CUgraphExec fresh;

	return cuGraphInstantiateWithFlags(&fresh, graph, 0);
}

static CUresult call_launch(void)
{
	return cuGraphLaunch(executable, frees.work);
}

static CUresult call_pool(void)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool fresh;

	return cuMemPoolCreate(&fresh, &properties);
}

/* The exact symbols; each is let fail once by SIMCUDA_FAIL_PROFILED. */
static const struct {
	const char *name;
	CUresult (*call)(void);
} calls[] = {
	{ "cuMemAlloc_v2", call_alloc },
	{ "cuMemAllocPitch_v2", call_pitch },
	{ "cuMemAllocManaged", call_managed },
	{ "cuMemAllocHost_v2", call_alloc_host },
	{ "cuMemHostAlloc", call_host_alloc },
	{ "cuMemAllocAsync", call_async },
	{ "cuMemAllocFromPoolAsync", call_from_pool },
	{ "cuMemCreate", call_create },
	{ "cuArrayCreate_v2", call_array },
	{ "cuArray3DCreate_v2", call_array_3d },
	{ "cuMipmappedArrayCreate", call_mipmap },
	{ "cuModuleLoadDataEx", call_module },
	{ "cuModuleLoadFatBinary", call_fat },
	{ "cuLibraryLoadData", call_library },
	{ "cuCtxCreate_v2", call_context },
	{ "cuStreamCreateWithPriority", call_priority },
	{ "cuGraphInstantiateWithFlags", call_instantiate },
	{ "cuGraphLaunch", call_launch },
	{ "cuMemPoolCreate", call_pool },
};

enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static void make_graph(void)
{
	CUDA_MEMSET_NODE_PARAMS set = { .dst = frees_block(64), .elementSize = 1, .width = 64,
					.height = 1 };
	CUgraphNode node;

	do_call(cuGraphCreate(&graph, 0));
	do_call(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, frees.context));
	do_call(cuGraphInstantiateWithFlags(&executable, graph, 0));
}

/* calls HOW: each call once, "pending" with a freed block before it. */
static void oom_calls(char **arguments)
{
	CUdeviceptr blocks[CALLS];
	CUresult result;
	unsigned i;

	do_call(cuDeviceGetDefaultMemPool(&pool, frees.device));
	make_graph();
	for (i = 0; i < CALLS; i++)
		blocks[i] = frees_block(2 * MIB);
	for (i = 0; i < CALLS; i++) {
		if (!strcmp(arguments[0], "pending"))
			do_call(cuMemFree(blocks[i]));
		do_call(cuProfilerStart());
		result = calls[i].call();
		do_call(cuProfilerStop());
		say("%s: %d", calls[i].name, (int)result);
		do_call(cuCtxSynchronize());
	}
}

/* The same inside a scope: what is put off is given up there too. */
static void oom_scoped(char **arguments)
{
	BEGIN_SCOPE();
	oom_calls(arguments);
	END_SCOPE();
}

/* ------------------------------------------------------------------ a device that is full */

static CUdeviceptr *filling;
static unsigned filled;

/* Takes blocks of 2 MiB until there are no more. */
static void fill(void)
{
	CUdeviceptr block;

	filling = calloc(4096, sizeof(*filling));
	while (filled < 4096 && !cuMemAlloc(&block, 2 * MIB))
		filling[filled++] = block;
	say("%u blocks fill it", filled);
}

static void give(unsigned count)
{
	while (count--)
		do_call(cuMemFree(filling[--filled]));
}

static CUresult want_async(size_t bytes, CUdeviceptr *block)
{
	return cuMemAllocAsync(block, bytes, frees.work);
}

static CUresult want_created(size_t bytes, CUdeviceptr *block)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle memory;
	CUresult result = cuMemCreate(&memory, bytes, &properties, 0);

	*block = memory;
	return result;
}

static CUresult want_array(size_t bytes, CUdeviceptr *block)
{
	CUDA_ARRAY_DESCRIPTOR shape = { 1024, bytes / 4096, CU_AD_FORMAT_FLOAT, 1 };
	CUarray array = NULL;
	CUresult result = cuArrayCreate(&array, &shape);

	*block = (CUdeviceptr)array;
	return result;
}

static void end_async(CUdeviceptr block)
{
	do_call(cuMemFreeAsync(block, frees.work));
	do_call(cuStreamSynchronize(frees.work));
}

static void end_array(CUdeviceptr block)
{
	do_call(cuArrayDestroy((CUarray)block));
}

static void end_created(CUdeviceptr block)
{
	do_call(cuMemRelease(block));
}

static void end_plain(CUdeviceptr block)
{
	do_call(cuMemFree(block));
}

static CUresult want_plain(size_t bytes, CUdeviceptr *block)
{
	return cuMemAlloc(block, bytes);
}

/* What was just freed is taken again in another shape, with work still running. */
static void oom_full(char **arguments)
{
	static const struct {
		const char *name;
		CUresult (*want)(size_t, CUdeviceptr *);
		void (*end)(CUdeviceptr);
	} shapes[] = {
		{ "plain", want_plain, end_plain },
		{ "stream-ordered", want_async, end_async },
		{ "created", want_created, end_created },
		{ "array", want_array, end_array },
	};
	CUdeviceptr block;
	CUresult result;
	unsigned i;

	(void)arguments;
	fill();
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		frees_busy(frees.work, 20);
		give(5);
		result = shapes[i].want(10 * MIB, &block);
		say("%s: %d", shapes[i].name, (int)result);
		if (!result)
			shapes[i].end(block);
		while (!cuMemAlloc(&block, 2 * MIB))
			filling[filled++] = block;
		say("%u blocks fill it", filled);
	}
	say("too much: %d", (int)cuMemAlloc(&block, 4 * MIB));
	give(4);
	say("context: %d", (int)cuCtxCreate_v2(&second, 0, frees.device));
}

/* While a capture is live nothing of ours may happen; afterwards it does. */
static void oom_capture(char **arguments)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr block = 0;
	CUgraph captured;

	(void)arguments;
	fill();
	do_call(cuStreamBeginCapture(frees.quiet, mode));
	give(5);
	say("in a capture: %d", (int)cuMemAlloc(&block, 10 * MIB));
	say("its end: %d", (int)cuStreamEndCapture(frees.quiet, &captured));
	if (block)
		do_call(cuMemFree(block));
	say("afterwards: %d", (int)cuMemAlloc(&block, 10 * MIB));
}

/* ------------------------------------------------------------------ always nearly full */

static uint64_t seed;

static unsigned draw(unsigned below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % below;
}

/* seeded SEED ROUNDS: blocks come and go, and the device is 95 % full all along. */
static void oom_seeded(char **arguments)
{
	unsigned pages[64] = { 0 }, rounds = (unsigned)atoi(arguments[1]), failed = 0, at, i;
	CUdeviceptr blocks[64] = { 0 };
	size_t free, total, room;

	seed = strtoul(arguments[0], NULL, 0);
	do_call(cuMemGetInfo(&free, &total));
	room = free / (2 * MIB) - total / (2 * MIB) / 20;
	for (i = 0; i < rounds; i++) {
		at = draw(64);
		if (blocks[at]) {
			do_call(cuMemFree(blocks[at]));
			room += pages[at];
			blocks[at] = 0;
		}
		pages[at] = 1 + draw(6);
		if (pages[at] > room)
			continue;
		if (cuMemAlloc(&blocks[at], pages[at] * (size_t)(2 * MIB) - draw(MIB))) {
			blocks[at] = 0;
			failed++;
			continue;
		}
		room -= pages[at];
		do_call(cuMemsetD8Async(blocks[at], 1, 64 * KIB, frees.work));
		if (draw(50) == 0)
			frees_busy(frees.work, 1);
	}
	say("%u of %u rounds failed", failed, rounds);
}

/* ------------------------------------------------------------------ many at a full device */

enum { CROWD = 4, OWN = 12 };

static atomic_long free_pages;
static atomic_uint crowd_failed;
static unsigned crowd_rounds;

/* Takes pages out of what is known to be free; false: there are not so many. */
static int reserve(long pages)
{
	if (atomic_fetch_sub(&free_pages, pages) >= pages)
		return 1;
	atomic_fetch_add(&free_pages, pages);
	return 0;
}

static void *crowd(void *argument)
{
	CUdeviceptr blocks[OWN] = { 0 };
	unsigned state = (unsigned)(uintptr_t)argument, i, at;
	long pages[OWN];

	frees_enter();
	for (i = 0; i < crowd_rounds; i++) {
		state = state * 1103515245 + 12345;
		at = (state >> 16) % OWN;
		if (blocks[at]) {
			do_call(cuMemFree(blocks[at]));
			atomic_fetch_add(&free_pages, pages[at]);
			blocks[at] = 0;
		}
		pages[at] = 1 + (state >> 24) % 5;
		if (!reserve(pages[at]))
			continue;
		if (cuMemAlloc(&blocks[at], (size_t)pages[at] * 2 * MIB))
			atomic_fetch_add(&crowd_failed, 1);
	}
	return NULL;
}

/* crowded ROUNDS: threads fill the device to the last page; no allocation that fits fails. */
static void oom_crowded(char **arguments)
{
	pthread_t threads[CROWD];
	size_t free, total;
	unsigned i;

	crowd_rounds = (unsigned)atoi(arguments[0]);
	do_call(cuMemGetInfo(&free, &total));
	/* One page is left to whoever needs a small block now and then. */
	atomic_store(&free_pages, (long)(free / (2 * MIB)) - 1);
	for (i = 0; i < CROWD; i++)
		require(!pthread_create(&threads[i], NULL, crowd, (void *)(uintptr_t)(i + 1)),
			"a thread starts");
	for (i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
	say("%u allocations failed", atomic_load(&crowd_failed));
}

int main(int count, char **arguments)
{
	static const struct frees_case cases[] = {
		{ "calls", oom_calls },	    { "scoped", oom_scoped },
		{ "full", oom_full },	    { "capture", oom_capture },
		{ "seeded", oom_seeded },   { "crowded", oom_crowded },
		{ NULL, NULL },
	};
	unsigned i;

	/* The names, for whoever sets what shall fail. */
	if (count > 1 && !strcmp(arguments[1], "names")) {
		for (i = 0; i < CALLS; i++)
			puts(calls[i].name);
		return 0;
	}
	return frees_main(cases, arguments);
}
