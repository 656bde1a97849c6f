/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_times.c - copies of known sizes with events around each, and a known number
 * of kernels, memsets, launches of a graph and touches of managed memory.  Printed
 * is what the events say, to compare with what CUPTI says of the same copies:
 *
 *	reference KIND BYTES NANOSECONDS	of all copies of that kind
 *	expected WHAT COUNT
 *
 *	gpu_times [MEBIBYTES [TIMES]]	of each copy from and to the host [256 10]
 */
#include "client.h"

/* ACROSS: a device copies so fast that what events take counts unless a copy is large. */
enum { KERNELS = 1000, SMALL = 4096, GRAPH_LAUNCHES = 20, FILLS = 50, ACROSS = 16, BATCHES = 10 };

static const char kernel_text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				  ".visible .entry _Z7nothingv() { ret; }\n";

static size_t bytes;
static int times;
static CUdeviceptr block, other, managed;
static void *pinned;
static CUstream stream;
static CUevent begin, end;

typedef CUresult (*copy_function)(void);

static CUresult copy_up(void)
{
	return cuMemcpyHtoDAsync(block, pinned, bytes, stream);
}

static CUresult copy_down(void)
{
	return cuMemcpyDtoHAsync(pinned, block, bytes, stream);
}

static CUresult copy_across(void)
{
	return cuMemcpyDtoDAsync(other, block, bytes * ACROSS, stream);
}

static void measure(const char *name, copy_function copy, size_t size)
{
	double ns = 0;

	CALL(copy);
	CALL(cuStreamSynchronize, stream);
	for (int i = 0; i < times; i++) {
		float milliseconds;

		CALL(cuEventRecord, begin, stream);
		CALL(copy);
		CALL(cuEventRecord, end, stream);
		CALL(cuEventSynchronize, end);
		CALL(cuEventElapsedTime, &milliseconds, begin, end);
		ns += (double)milliseconds * 1e6;
	}
	printf("reference %s %zu %.0f\n", name, size * (size_t)times, ns);
}

static void launch_kernels(CUfunction kernel)
{
	for (int i = 0; i < KERNELS; i++)
		CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	CALL(cuStreamSynchronize, stream);
	printf("expected kernels %d\n", KERNELS);
}

/* Small copies by all that is synchronous, from ordinary memory. */
static void copy_small(void)
{
	static char text[SMALL];

	for (int i = 0; i < FILLS; i++) {
		CALL(cuMemcpyHtoD, block, text, SMALL);
		CALL(cuMemsetD8, other, 1, SMALL);
		CALL(cuMemcpyDtoD, block, other, SMALL);
		CALL(cuMemcpyDtoH, text, block, SMALL);
	}
	printf("expected small %d\n", 4 * FILLS);
}

static void launch_graph(CUfunction kernel)
{
	CUgraphExec exec;
	CUgraph graph;

	CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CALL(cuMemcpyHtoDAsync, block, pinned, 10 * SMALL, stream);
	CALL(cuMemsetD8Async, other, 3, 20 * SMALL, stream);
	CALL(cuMemcpyDtoDAsync, other, block, 30 * SMALL, stream);
	CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	CALL(cuStreamEndCapture, stream, &graph);
	CALL(cuGraphInstantiate, &exec, graph, 0);
	for (int i = 0; i < GRAPH_LAUNCHES; i++)
		CALL(cuGraphLaunch, exec, stream);
	CALL(cuStreamSynchronize, stream);
	printf("expected launches %d\n", GRAPH_LAUNCHES);
}

/* In all directions at once: CUPTI tells of such a call as it likes. */
static void copy_batch(void)
{
	CUdeviceptr here = (uintptr_t)pinned;
	CUdeviceptr target[] = { block, here + SMALL, other };
	CUdeviceptr source[] = { here, block, block };
	size_t size[] = { SMALL, 2 * SMALL, 3 * SMALL }, first = 0;
	CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };

	for (int i = 0; i < BATCHES; i++)
		CALL(cuMemcpyBatchAsync, target, source, size, 3, &attributes, &first, 1, stream);
	CALL(cuStreamSynchronize, stream);
	printf("expected batched %d\n", 3 * BATCHES);
}

/* To a second device, where there is one. */
static void copy_to_peer(void)
{
	CUcontext here, there;
	CUdeviceptr far;
	int devices = 0;

	CALL(cuDeviceGetCount, &devices);
	if (devices < 2)
		return;
	CALL(cuCtxGetCurrent, &here);
	CALL(cuDevicePrimaryCtxRetain, &there, 1);
	CALL(cuCtxSetCurrent, there);
	CALL(cuMemAlloc, &far, bytes);
	CALL(cuCtxSetCurrent, here);
	for (int i = 0; i < times; i++)
		CALL(cuMemcpyPeerAsync, far, there, block, here, bytes, stream);
	CALL(cuStreamSynchronize, stream);
	printf("expected peer %d\n", times);
}

static void touch_managed(void)
{
	size_t size = (size_t)16 << 20;

	CALL(cuMemAllocManaged, &managed, size, CU_MEM_ATTACH_GLOBAL);
	memset((void *)(uintptr_t)managed, 1, size);
	CALL(cuMemsetD8Async, managed, 2, size, stream);
	CALL(cuStreamSynchronize, stream);
	printf("expected migrated %zu\n", size);
}

int main(int argc, char **argv)
{
	CUfunction kernel;
	CUmodule module;

	bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 256) << 20;
	times = argc > 2 ? atoi(argv[2]) : 10;
	client_open();
	CALL(cuModuleLoadData, &module, kernel_text);
	CALL(cuModuleGetFunction, &kernel, module, "_Z7nothingv");
	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	CALL(cuEventCreate, &begin, CU_EVENT_DEFAULT);
	CALL(cuEventCreate, &end, CU_EVENT_DEFAULT);
	CALL(cuMemAlloc, &block, bytes * ACROSS);
	CALL(cuMemAlloc, &other, bytes * ACROSS);
	CALL(cuMemAllocHost, &pinned, bytes);
	measure("H2D", copy_up, bytes);
	measure("D2H", copy_down, bytes);
	measure("D2D", copy_across, bytes * ACROSS);
	copy_small();
	launch_kernels(kernel);
	launch_graph(kernel);
	copy_batch();
	copy_to_peer();
	touch_managed();
	return 0;
}
