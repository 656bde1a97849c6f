/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger_kinds.c - one kind of memory at a time, for the ledger.
 *
 *	ledger_kinds KIND	small, large, pitch, pool, vmm, managed, pinned, array,
 *				graph, module, heap, streams, context, ipc
 *
 * The program makes its blocks, waits a while as programs do at their peak, asks
 * how much memory is free, gives all back and asks again.  A driver without the
 * kind ends it with status 77.
 */
#include "client.h"

#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 64, MIB = 1 << 20, SETTLE_TURNS = 8, SETTLE_US = 6000 };

static CUcontext context;
static CUstream stream;
static CUdeviceptr block[4 * BLOCKS];

#define TRY(function, ...) try_call(function(__VA_ARGS__), CLIENT_NAME(function))

static void try_call(CUresult result, const char *function)
{
	if (result == CUDA_ERROR_NOT_SUPPORTED) {
		fprintf(stderr, "%s is not supported here\n", function);
		exit(CLIENT_SKIPPED);
	}
	client_must(result, function);
}

/* A quiet while, with the synchronise calls that programs make. */
static void settle(void)
{
	for (int i = 0; i < SETTLE_TURNS; i++) {
		CALL(cuCtxSynchronize, );
		usleep(SETTLE_US);
	}
}

static void note(const char *moment)
{
	const char *path = getenv("JOURNAL");
	size_t is_free, total;
	FILE *file;

	settle();
	CALL(cuMemGetInfo, &is_free, &total);
	printf("%s\n", moment);
	file = path ? fopen(path, "a") : NULL;
	if (!file)
		return;
	fprintf(file, "{\"check\": \"ledger\", \"moment\": \"%s\", ", moment);
	fprintf(file, "\"used\": %zu, \"held\": null}\n", total - is_free);
	fclose(file);
}

static void free_blocks(int count)
{
	for (int i = 0; i < count; i++)
		CALL(cuMemFree, block[i]);
}

/* Sizes that share pages, of which every second one goes before the peak. */
static void make_small(void)
{
	for (int i = 0; i < 4 * BLOCKS; i++)
		CALL(cuMemAlloc, &block[i], (size_t)(1 + i % 7) * 70000);
	for (int i = 0; i < 2 * BLOCKS; i++)
		CALL(cuMemFree, block[2 * i]);
	for (int i = 0; i < 2 * BLOCKS; i++)
		block[i] = block[2 * i + 1];
	note("peak");
	free_blocks(2 * BLOCKS);
}

static void make_large(void)
{
	for (int i = 0; i < BLOCKS; i++)
		CALL(cuMemAlloc, &block[i], (size_t)(i + 1) * 1500000);
	note("peak");
	free_blocks(BLOCKS);
}

static void make_pitch(void)
{
	size_t pitch;

	for (int i = 0; i < BLOCKS; i++)
		CALL(cuMemAllocPitch, &block[i], &pitch, 1000, 3000, 4);
	note("peak");
	free_blocks(BLOCKS);
}

/* Blocks of the default pool, half of which are back in it at the peak. */
static void make_pool(void)
{
	for (int i = 0; i < BLOCKS; i++)
		TRY(cuMemAllocAsync, &block[i], (size_t)(i + 1) * 500000, stream);
	for (int i = 0; i < BLOCKS / 2; i++)
		CALL(cuMemFreeAsync, block[2 * i], stream);
	note("peak");
	for (int i = 0; i < BLOCKS / 2; i++)
		CALL(cuMemFreeAsync, block[2 * i + 1], stream);
	CALL(cuStreamSynchronize, stream);
}

static void make_vmm(void)
{
	CUmemAllocationProp wanted = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle handle[2];
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	size_t bytes = 96 * (size_t)MIB;
	CUdeviceptr range;

	TRY(cuMemAddressReserve, &range, 2 * bytes, 0, 0, 0);
	for (int i = 0; i < 2; i++) {
		CALL(cuMemCreate, &handle[i], bytes, &wanted, 0);
		CALL(cuMemMap, range + i * bytes, bytes, 0, handle[i], 0);
		CALL(cuMemRelease, handle[i]); /* the mapping keeps the memory */
	}
	CALL(cuMemSetAccess, range, 2 * bytes, &access, 1);
	CALL(cuMemsetD8, range, 1, 2 * bytes);
	note("peak");
	CALL(cuMemUnmap, range, 2 * bytes);
	CALL(cuMemAddressFree, range, 2 * bytes);
}

/* All of it written by the device, so that it lies there. */
static void make_managed(void)
{
	size_t bytes = 256 * (size_t)MIB;

	for (int i = 0; i < 4; i++) {
		TRY(cuMemAllocManaged, &block[i], bytes, CU_MEM_ATTACH_GLOBAL);
		CALL(cuMemsetD8, block[i], 1, bytes);
	}
	note("peak");
	free_blocks(4);
}

static void make_pinned(void)
{
	void *host, *own = NULL;

	CALL(cuMemHostAlloc, &host, 64 * (size_t)MIB, 0);
	if (posix_memalign(&own, 4096, 8 * (size_t)MIB))
		exit(1);
	CALL(cuMemHostRegister, own, 8 * (size_t)MIB, 0);
	note("peak");
	CALL(cuMemHostUnregister, own);
	CALL(cuMemFreeHost, host);
	free(own);
}

static void make_array(void)
{
	static const size_t side[] = { 64, 300, 1000, 4096 };
	CUDA_ARRAY_DESCRIPTOR shape = { .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	CUarray array[16];

	for (int i = 0; i < 16; i++) {
		shape.Width = shape.Height = side[i % 4];
		CALL(cuArrayCreate, &array[i], &shape);
	}
	note("peak");
	for (int i = 0; i < 16; i++)
		CALL(cuArrayDestroy, array[i]);
}

/* Memory that a graph's launch reserves, and keeps until it is trimmed. */
static void make_graph(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS wanted = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = 200 * (size_t)MIB,
	};
	CUgraphNode alloc, release;
	CUgraphExec exec;
	CUgraph graph;

	CALL(cuGraphCreate, &graph, 0);
	TRY(cuGraphAddMemAllocNode, &alloc, graph, NULL, 0, &wanted);
	CALL(cuGraphAddMemFreeNode, &release, graph, &alloc, 1, wanted.dptr);
	CALL(cuGraphInstantiate, &exec, graph, 0);
	for (int i = 0; i < 3; i++)
		CALL(cuGraphLaunch, exec, stream);
	note("peak");
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, graph);
	CALL(cuDeviceGraphMemTrim, 0);
}

static const char image[] =
	".version 8.0\n.target sm_52\n.address_size 64\n"
	".visible .global .align 4 .b8 table[33554432];\n"
	".visible .entry use(.param .u64 p)\n{\n"
	".local .align 8 .b8 own[16384];\n.reg .u64 %rd<5>;\n.reg .u32 %r<3>;\n"
	"ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\nmov.u64 %rd2, own;\n"
	"cvt.u64.u32 %rd3, %r1;\nand.b64 %rd3, %rd3, 16380;\nadd.u64 %rd4, %rd2, %rd3;\n"
	"st.local.u32 [%rd4], %r1;\nld.local.u32 %r2, [%rd2];\nst.global.u32 [%rd1], %r2;\n"
	"ret;\n}\n";

/* A module with a table, and a kernel whose first launch makes the driver take more. */
static void make_module(void)
{
	CUfunction function;
	CUdeviceptr table;
	CUmodule module;
	void *argument[] = { &block[0] };
	size_t bytes;

	CALL(cuMemAlloc, &block[0], 4096);
	CALL(cuModuleLoadData, &module, image);
	CALL(cuModuleGetGlobal, &table, &bytes, module, "table");
	CALL(cuModuleGetFunction, &function, module, "use");
	CALL(cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, stream, argument, NULL);
	note("peak");
	CALL(cuModuleUnload, module);
	free_blocks(1);
}

static void make_heap(void)
{
	size_t heap;

	CALL(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 4096);
	CALL(cuCtxGetLimit, &heap, CU_LIMIT_STACK_SIZE);
	printf("stack %zu\n", heap);
	make_module();
}

static void make_streams(void)
{
	CUstream more[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		CALL(cuStreamCreate, &more[i], CU_STREAM_NON_BLOCKING);
		CALL(cuMemAlloc, &block[i], 3 * MIB);
		CALL(cuMemsetD8Async, block[i], 1, MIB, more[i]);
	}
	note("peak");
	for (int i = 0; i < BLOCKS; i++)
		CALL(cuStreamDestroy, more[i]);
	free_blocks(BLOCKS);
}

/* Blocks that die with a context of their own. */
static void make_context(void)
{
	CUcontext other;

	CALL(cuCtxCreate, &other, NULL, 0, 0);
	for (int i = 0; i < BLOCKS; i++)
		CALL(cuMemAlloc, &block[i], 5 * MIB);
	note("peak");
	CALL(cuCtxDestroy, other);
	CALL(cuCtxSetCurrent, context);
}

/* The other side of make_ipc: bytes that are not its own. */
static int import(int from, int to)
{
	CUipcMemHandle handle;
	CUdeviceptr there;
	char done = 1;

	if (read(from, &handle, sizeof(handle)) != sizeof(handle))
		return 1;
	context = client_open();
	CALL(cuIpcOpenMemHandle, &there, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	settle();
	CALL(cuIpcCloseMemHandle, there);
	return write(to, &done, 1) != 1;
}

/* The child is forked before this process has touched CUDA. */
static void make_ipc(int to, int from)
{
	CUipcMemHandle handle;
	char done;

	CALL(cuMemAlloc, &block[0], 150 * (size_t)MIB);
	TRY(cuIpcGetMemHandle, &handle, block[0]);
	if (write(to, &handle, sizeof(handle)) != sizeof(handle) || read(from, &done, 1) != 1)
		exit(1);
	note("peak");
	free_blocks(1);
}

static int run_ipc(void)
{
	int there[2], back[2], status;
	pid_t child;

	if (pipe(there) || pipe(back))
		return 1;
	child = fork();
	if (!child) {
		close(there[1]);
		close(back[0]);
		exit(import(there[0], back[1]));
	}
	close(there[0]);
	close(back[1]);
	context = client_open();
	note("before");
	make_ipc(there[1], back[0]);
	waitpid(child, &status, 0);
	note("end");
	return status != 0;
}

static const struct kind {
	const char *name;
	void (*make)(void);
} kinds[] = {
	{ "small", make_small },     { "large", make_large },	{ "pitch", make_pitch },
	{ "pool", make_pool },	     { "vmm", make_vmm },	{ "managed", make_managed },
	{ "pinned", make_pinned },   { "array", make_array },	{ "graph", make_graph },
	{ "module", make_module },   { "heap", make_heap },	{ "streams", make_streams },
	{ "context", make_context },
};

int main(int count, char **argument)
{
	const char *name = count == 2 ? argument[1] : "";

	if (!strcmp(name, "ipc"))
		return run_ipc();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(name, kinds[i].name))
			continue;
		context = client_open();
		CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
		note("before");
		kinds[i].make();
		note("end");
		return 0;
	}
	fprintf(stderr, "usage: ledger_kinds KIND\n");
	return 2;
}
