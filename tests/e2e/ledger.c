/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.c - one kind of memory, and what a ledger of it must say:
 *
 *	ledger small|large|pool|outlived|vmm|array|managed|managed_pool|graph|code|streams|
 *		pending|contexts
 *
 * It makes its blocks, asks how much is free, gives back what it can and ends.  It
 * prints "used BYTES", by the driver's word, and for both moments, "highest" and
 * "last", each band that is not empty: "MOMENT BAND BYTES".  LEDGER_HOLD_MS has it stay
 * a while where it uses most.
 */
#include <cuda.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define MUST(call) must((call), #call)

enum { SMALL = 100, STREAMS = 3, LAST_MIB = 6 };

static CUcontext context;
static CUdeviceptr last_block;

static void must(CUresult result, const char *call)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s: %d\n", call, (int)result);
	exit(1);
}

static void say(const char *moment, const char *band, uint64_t bytes)
{
	if (bytes)
		printf("%s %s %" PRIu64 "\n", moment, band, bytes);
}

/* The most that is ever in use: a block of its own makes it more than before. */
static void ask(uint64_t device_bytes)
{
	const char *hold = getenv("LEDGER_HOLD_MS");
	size_t is_free, total;

	MUST(cuMemAlloc(&last_block, LAST_MIB * MIB));
	MUST(cuMemGetInfo(&is_free, &total));
	printf("used %zu\n", total - is_free);
	say("highest", "device", device_bytes + LAST_MIB * MIB);
	if (hold)
		usleep((useconds_t)atoi(hold) * 1000);
}

static void make_small(void)
{
	CUdeviceptr block[SMALL];
	uint64_t bytes = 0;

	for (size_t i = 0; i < SMALL; i++) {
		size_t size = 4096 + i * 7000;

		MUST(cuMemAlloc(&block[i], size));
		bytes += size;
	}
	for (size_t i = 0; i < SMALL; i += 3) {
		MUST(cuMemFree(block[i]));
		bytes -= 4096 + i * 7000;
	}
	ask(bytes);
	for (size_t i = 0; i < SMALL; i++)
		if (i % 3)
			MUST(cuMemFree(block[i]));
}

static void make_large(void)
{
	CUdeviceptr block[3];

	MUST(cuMemAlloc(&block[0], 3 * MIB));
	MUST(cuMemAlloc(&block[1], 10 * MIB + 1));
	MUST(cuMemAlloc(&block[2], MIB + 1));
	ask(14 * MIB + 2);
	for (int i = 0; i < 2; i++)
		MUST(cuMemFree(block[i]));
	say("last", "device", MIB + 1);
}

static uint64_t reserved(void)
{
	CUmemoryPool pool;
	cuuint64_t bytes;

	MUST(cuDeviceGetDefaultMemPool(&pool, 0));
	MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
	return bytes;
}

static void make_pool(void)
{
	cuuint64_t keep = UINT64_MAX;
	CUdeviceptr block[3];
	CUmemoryPool pool;
	CUstream stream;

	MUST(cuDeviceGetDefaultMemPool(&pool, 0));
	MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 3; i++)
		MUST(cuMemAllocAsync(&block[i], 20 * MIB, stream));
	MUST(cuMemFreeAsync(block[1], stream));
	MUST(cuStreamSynchronize(stream));
	say("highest", "pool", 40 * MIB);
	say("highest", "pools_cached", reserved() - 40 * MIB);
	ask(0);
	MUST(cuMemFreeAsync(block[0], stream));
	MUST(cuMemFreeAsync(block[2], stream));
	MUST(cuStreamSynchronize(stream));
	MUST(cuMemPoolTrimTo(pool, 0));
	MUST(cuMemAllocAsync(&block[0], MIB, stream));
	MUST(cuStreamSynchronize(stream));
	say("last", "pool", MIB);
	say("last", "pools_cached", reserved() - MIB);
}

/* A block lives longer than its pool, beside a pool that keeps as much for later. */
static void make_outlived(void)
{
	const CUmemPoolProps shape = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	cuuint64_t keep = UINT64_MAX;
	CUdeviceptr block, kept;
	CUmemoryPool pool, own;

	MUST(cuDeviceGetDefaultMemPool(&pool, 0));
	MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	MUST(cuMemAllocAsync(&kept, 64 * MIB, NULL));
	MUST(cuMemFreeAsync(kept, NULL));
	MUST(cuMemPoolCreate(&own, &shape));
	MUST(cuMemAllocFromPoolAsync(&block, 64 * MIB, own, NULL));
	MUST(cuStreamSynchronize(NULL));
	MUST(cuMemPoolDestroy(own));
	say("highest", "pool", 64 * MIB);
	say("highest", "pools_cached", reserved());
	ask(0);
	MUST(cuMemFree(block));
	say("last", "pools_cached", reserved());
}

static void make_vmm(void)
{
	const CUmemAllocationProp shape = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemGenericAllocationHandle handle[2];
	CUdeviceptr range;

	MUST(cuMemAddressReserve(&range, 16 * MIB, 0, 0, 0));
	for (size_t i = 0; i < 2; i++) {
		MUST(cuMemCreate(&handle[i], (4 + 4 * i) * MIB, &shape, 0));
		MUST(cuMemMap(range + i * 8 * MIB, (4 + 4 * i) * MIB, 0, handle[i], 0));
	}
	say("highest", "vmm", 12 * MIB);
	ask(0);
	/* Its mapping holds the first one. */
	MUST(cuMemRelease(handle[0]));
	MUST(cuMemUnmap(range + 8 * MIB, 8 * MIB));
	MUST(cuMemRelease(handle[1]));
	say("last", "vmm", 4 * MIB);
}

static void make_arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = { .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	CUarray array[5];

	for (int i = 0; i < 5; i++) {
		shape.Width = shape.Height = i < 4 ? 64 : 1000;
		MUST(cuArrayCreate(&array[i], &shape));
	}
	say("highest", "array", 4 * 64 * 64 * 4 + 4000000);
	ask(0);
	for (int i = 0; i < 5; i++)
		MUST(cuArrayDestroy(array[i]));
}

static void make_managed(void)
{
	CUdeviceptr block;

	MUST(cuMemAllocManaged(&block, 10 * MIB, CU_MEM_ATTACH_GLOBAL));
	say("highest", "managed", 10 * MIB);
	ask(0);
	say("last", "managed", 10 * MIB);
}

/* It lies in a pool; where the device has it, it has all that the pool has reserved. */
static void make_managed_pool(void)
{
	const CUmemPoolProps shape = {
		.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	cuuint64_t bytes = 0;
	CUdeviceptr block, freed;
	CUmemoryPool pool;

	MUST(cuMemPoolCreate(&pool, &shape));
	MUST(cuMemAllocFromPoolAsync(&freed, MIB, pool, NULL));
	MUST(cuMemAllocFromPoolAsync(&block, 10 * MIB, pool, NULL));
	MUST(cuStreamSynchronize(NULL));
	MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
	if (!getenv("SIMCUDA_MANAGED"))
		bytes = 0;
	MUST(cuMemFree(freed));
	say("highest", "managed", bytes);
	ask(0);
	say("last", "managed", bytes);
}

static uint64_t size_setting(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) * MIB : 0;
}

static void make_graph(void)
{
	CUgraphExec exec;
	CUdeviceptr block;
	CUstream stream;
	CUgraph graph;
	cuuint64_t bytes;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cuMemAllocAsync(&block, 50 * MIB, stream));
	MUST(cuMemsetD8Async(block, 1, 4096, stream));
	MUST(cuMemFreeAsync(block, stream));
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiate(&exec, graph, 0));
	MUST(cuGraphLaunch(exec, stream));
	MUST(cuStreamSynchronize(stream));
	MUST(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
	say("highest", "graphs", bytes);
	say("highest", "other_driver", size_setting("SIMCUDA_GRAPH"));
	ask(0);
	MUST(cuGraphExecDestroy(exec));
	MUST(cuGraphDestroy(graph));
	MUST(cuDeviceGraphMemTrim(0));
}

static void make_code(void)
{
	CUmodule module[2];
	CUfunction function;
	CUstream stream;
	unsigned int none = 0;
	void *parameters[] = { &none };

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 2; i++)
		MUST(cuModuleLoadData(&module[i], "any image is taken"));
	MUST(cuModuleGetFunction(&function, module[0], "sim_delay"));
	for (int i = 0; i < 3; i++)
		MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
	MUST(cuStreamSynchronize(stream));
	say("highest", "code", size_setting("SIMCUDA_MODULE") * (getenv("SIMCUDA_LAZY") ? 1 : 2));
	ask(0);
	MUST(cuModuleUnload(module[1]));
	say("last", "code", size_setting("SIMCUDA_MODULE"));
}

static void make_streams(void)
{
	CUstream stream[STREAMS];

	for (int i = 0; i < STREAMS; i++)
		MUST(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	say("highest", "other_driver", STREAMS * size_setting("SIMCUDA_STREAM"));
	ask(0);
	MUST(cuStreamDestroy(stream[0]));
	say("last", "other_driver", (STREAMS - 1) * size_setting("SIMCUDA_STREAM"));
}

/* Freed while the device works on: what --frees makes of it is the driver's still. */
static void make_pending(void)
{
	unsigned int busy_us = 400000;
	void *parameters[] = { &busy_us };
	CUfunction function;
	CUmodule module;
	CUdeviceptr block;

	MUST(cuMemAlloc(&block, 9 * MIB));
	MUST(cuModuleLoadData(&module, "any image is taken"));
	MUST(cuModuleGetFunction(&function, module, "sim_delay"));
	MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	MUST(cuMemFree(block));
	say("highest", "pending", 9 * MIB);
	ask(0);
	/* And so is what main() frees. */
	say("last", "pending", (9 + LAST_MIB) * MIB);
}

static void make_contexts(void)
{
	CUcontext second;
	CUdeviceptr block;

	MUST(cuCtxCreate(&second, NULL, 0, 0));
	MUST(cuMemAlloc(&block, 4 * MIB));
	MUST(cuCtxPopCurrent(&second));
	say("highest", "contexts", size_setting("SIMCUDA_CONTEXT"));
	ask(4 * MIB);
	MUST(cuCtxDestroy(second)); /* and the block with it */
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*make)(void);
	} kinds[] = {
		{ "small", make_small },       { "large", make_large },
		{ "pool", make_pool },	       { "vmm", make_vmm },
		{ "array", make_arrays },      { "managed", make_managed },
		{ "graph", make_graph },       { "code", make_code },
		{ "streams", make_streams },   { "pending", make_pending },
		{ "contexts", make_contexts }, { "outlived", make_outlived },
		{ "managed_pool", make_managed_pool },
	};

	if (argc != 2)
		return 2;
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(argv[1], kinds[i].name))
			kinds[i].make();
	MUST(cuMemFree(last_block));
	return 0;
}
