/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scarce_turn.c - one allocation of each kind, and what becomes of it:
 *
 *	scarce_turn each		"NUMBER FUNCTION RESULT" a line
 *	scarce_turn threads COUNT EACH	how many of the threads' allocations fail
 *	scarce_turn fork		a parent and its child, three allocations each
 *	scarce_turn exec PROGRAM	one allocation, then another program
 */
#include "scarce.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CUcontext context;
static CUmemoryPool pool;
static CUgraph graph;
static CUdeviceptr shared;
static char registered[64 * KIB] __attribute__((aligned(4096)));

static CUmemAllocationProp on_device(void)
{
	return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
}

static CUresult turn_alloc(void)
{
	CUdeviceptr block;
	CUresult result = cuMemAlloc(&block, 3 * MIB);

	if (!result)
		do_call(cuMemFree(block));
	return result;
}

static CUresult turn_pitch(void)
{
	CUdeviceptr block;
	size_t pitch;
	CUresult result = cuMemAllocPitch(&block, &pitch, 100, 100, 4);

	if (!result)
		do_call(cuMemFree(block));
	return result;
}

static CUresult turn_managed(void)
{
	CUdeviceptr block;
	CUresult result = cuMemAllocManaged(&block, MIB, CU_MEM_ATTACH_GLOBAL);

	if (!result)
		do_call(cuMemFree(block));
	return result;
}

static CUresult turn_alloc_host(void)
{
	void *block;
	CUresult result = cuMemAllocHost(&block, MIB);

	if (!result)
		do_call(cuMemFreeHost(block));
	return result;
}

static CUresult turn_host_alloc(void)
{
	void *block;
	CUresult result = cuMemHostAlloc(&block, MIB, 0);

	if (!result)
		do_call(cuMemFreeHost(block));
	return result;
}

static CUresult turn_register(void)
{
	CUresult result = cuMemHostRegister(registered, sizeof(registered), 0);

	if (!result)
		do_call(cuMemHostUnregister(registered));
	return result;
}

static CUresult turn_async(void)
{
	CUdeviceptr block;
	CUresult result = cuMemAllocAsync(&block, MIB, NULL);

	if (!result)
		do_call(cuMemFreeAsync(block, NULL));
	return result;
}

static CUresult turn_from_pool(void)
{
	CUdeviceptr block;
	CUresult result = cuMemAllocFromPoolAsync(&block, MIB, pool, NULL);

	if (!result)
		do_call(cuMemFreeAsync(block, NULL));
	return result;
}

static CUresult turn_create(void)
{
	CUmemAllocationProp properties = on_device();
	CUmemGenericAllocationHandle memory;
	CUresult result = cuMemCreate(&memory, PAGE, &properties, 0);

	if (!result)
		do_call(cuMemRelease(memory));
	return result;
}

static CUresult turn_array(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = { 64, 64, CU_AD_FORMAT_FLOAT, 1 };
	CUarray array;
	CUresult result = cuArrayCreate(&array, &shape);

	if (!result)
		do_call(cuArrayDestroy(array));
	return result;
}

static CUresult turn_array_3d(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { 16, 16, 16, CU_AD_FORMAT_FLOAT, 1, 0 };
	CUarray array;
	CUresult result = cuArray3DCreate(&array, &shape);

	if (!result)
		do_call(cuArrayDestroy(array));
	return result;
}

static CUresult turn_mipmap(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { 64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
	CUmipmappedArray array;
	CUresult result = cuMipmappedArrayCreate(&array, &shape, 2);

	if (!result)
		do_call(cuMipmappedArrayDestroy(array));
	return result;
}

static CUresult turn_alloc_node(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS parameters = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = MIB,
	};
	CUgraphNode node;

	return cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters);
}

static CUresult turn_any_node(void)
{
	CUgraphNodeParams parameters = {
		.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		.alloc = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
			   .bytesize = MIB },
	};
	CUgraphNode node;

	return cuGraphAddNode(&node, graph, NULL, NULL, 0, &parameters);
}

/* Nothing is allocated, but an address is handed out. */
static CUresult turn_captured(void)
{
	CUdeviceptr block;
	CUstream stream;
	CUgraph captured;
	CUresult result;

	do_call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	do_call(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	result = cuMemAllocAsync(&block, MIB, stream);
	if (!result)
		do_call(cuMemFreeAsync(block, stream));
	do_call(cuStreamEndCapture(stream, &captured));
	do_call(cuGraphDestroy(captured));
	do_call(cuStreamDestroy(stream));
	return result;
}

static CUresult turn_ipc(void)
{
	CUipcMemHandle handle;
	CUdeviceptr block;
	CUresult result;

	do_call(cuIpcGetMemHandle(&handle, shared));
	result = cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (!result)
		do_call(cuIpcCloseMemHandle(block));
	return result;
}

/* The first one makes what the last one needs. */
static CUresult turn_shared(void)
{
	return cuMemAlloc(&shared, PAGE);
}

static const struct {
	const char *name;
	CUresult (*take)(void);
} turns[] = {
	{ "cuMemAlloc_v2", turn_shared },
	{ "cuMemAlloc_v2", turn_alloc },
	{ "cuMemAllocPitch_v2", turn_pitch },
	{ "cuMemAllocManaged", turn_managed },
	{ "cuMemAllocHost_v2", turn_alloc_host },
	{ "cuMemHostAlloc", turn_host_alloc },
	{ "cuMemHostRegister_v2", turn_register },
	{ "cuMemAllocAsync", turn_async },
	{ "cuMemAllocFromPoolAsync", turn_from_pool },
	{ "cuMemCreate", turn_create },
	{ "cuArrayCreate_v2", turn_array },
	{ "cuArray3DCreate_v2", turn_array_3d },
	{ "cuMipmappedArrayCreate", turn_mipmap },
	{ "cuGraphAddMemAllocNode", turn_alloc_node },
	{ "cuGraphAddNode_v2", turn_any_node },
	{ "cuMemAllocAsync", turn_captured },
	{ "cuIpcOpenMemHandle_v2", turn_ipc },
};

enum { TURNS = sizeof(turns) / sizeof(turns[0]) };

/* A node that is no allocation has no turn; what a question learns takes none either. */
static void add_empty_nodes(void)
{
	CUgraphNodeParams parameters = { .type = CU_GRAPH_NODE_TYPE_EMPTY };
	CUgraphNode node;

	do_call(cuGraphCreate(&graph, 0));
	do_call(cuGraphAddNode(&node, graph, NULL, NULL, 0, &parameters));
	do_call(cuDeviceGetDefaultMemPool(&pool, 0));
}

static void turn_each(char **arguments)
{
	(void)arguments;
	context = scarce_start();
	add_empty_nodes();
	for (unsigned i = 0; i < TURNS; i++) {
		if (turns[i].take == turn_ipc && !shared)
			say("%u nothing to share", i + 1);
		else
			say("%u %s %d", i + 1, turns[i].name, (int)turns[i].take());
	}
	do_call(cuCtxSynchronize());
}

static atomic_uint failures;
static unsigned each;

static void *allocate(void *unused)
{
	CUdeviceptr block;

	(void)unused;
	do_call(cuCtxSetCurrent(context));
	for (unsigned i = 0; i < each; i++) {
		if (cuMemAlloc(&block, 4 * KIB))
			atomic_fetch_add(&failures, 1);
		else
			do_call(cuMemFree(block));
	}
	return NULL;
}

enum { MOST_THREADS = 16 };

static void turn_threads(char **arguments)
{
	unsigned count = (unsigned)atoi(arguments[0]);
	pthread_t thread[MOST_THREADS];

	context = scarce_start();
	each = (unsigned)atoi(arguments[1]);
	for (unsigned i = 0; i < count && i < MOST_THREADS; i++)
		if (pthread_create(&thread[i], NULL, allocate, NULL))
			exit(91);
	for (unsigned i = 0; i < count && i < MOST_THREADS; i++)
		pthread_join(thread[i], NULL);
	say("%u failures", atomic_load(&failures));
}

static void three(const char *who)
{
	for (int i = 1; i <= 3; i++)
		say("%s %d: %d", who, i, (int)turn_alloc());
}

/* The child comes before CUDA does in its parent, or after the parent has counted. */
static void turn_fork(char **arguments)
{
	pid_t child;

	if (!strcmp(arguments[0], "after")) {
		scarce_start();
		three("parent");
	}
	child = fork();
	if (!child) {
		/* After CUDA was started in the parent the driver is good for nothing here. */
		if (!strcmp(arguments[0], "before"))
			scarce_start();
		three("child");
		exit(0);
	}
	waitpid(child, NULL, 0);
	if (!strcmp(arguments[0], "before")) {
		scarce_start();
		three("parent");
	}
}

static void turn_exec(char **arguments)
{
	scarce_start();
	say("before: %d", (int)turn_alloc());
	execv(arguments[0], arguments);
	exit(91);
}

int main(int count, char **arguments)
{
	static const struct scarce_case cases[] = {
		{ "each", turn_each },
		{ "threads", turn_threads },
		{ "fork", turn_fork },
		{ "exec", turn_exec },
		{ NULL, NULL },
	};

	(void)count;
	return scarce_main(cases, arguments);
}
