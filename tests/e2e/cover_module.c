/* SPDX-License-Identifier: Apache-2.0 */
/* cover_module.c - modules and their variables, kernels, sharing, advice, graph memory. */
#include "cover.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 16, LAUNCHES = 30 };

static CUdeviceptr block;
static unsigned block_ordinal;
static CUstream stream;

static void operation(const char *api, CUresult result, const char *on)
{
	must(api, result);
	note_operation(api, on, 0);
}

static void copy_to(CUdeviceptr target, size_t bytes)
{
	static unsigned char host[BYTES];
	struct copy_note copy = {
		.kind = "H2D",
		.api = "cuMemcpyHtoD_v2",
		.bytes = bytes,
		.source = (uintptr_t)host,
		.target = target,
		.stream = "legacy",
	};

	must("cuMemcpyHtoD_v2", cuMemcpyHtoD_v2(target, host, bytes));
	note_copy(&copy);
}

/* A variable is memory that comes with its module and ends with it. */
static void variables(void)
{
	CUmodule module;
	CUdeviceptr address, again;
	size_t bytes;
	unsigned variable;

	operation("cuModuleLoadData", cuModuleLoadData(&module, "any image"), "none");
	must("cuModuleGetGlobal_v2", cuModuleGetGlobal_v2(&address, &bytes, module, "counters"));
	variable = note_alloc("module", address, bytes, "cuModuleGetGlobal_v2");
	must("cuModuleGetGlobal_v2", cuModuleGetGlobal_v2(&again, NULL, module, "counters"));
	require(again == address, "a variable has one address");
	copy_to(address, bytes / 2);
	operation("cuModuleUnload", cuModuleUnload(module), "none");
	note_free(variable, "cuModuleUnload");
}

static void libraries(void)
{
	CUlibrary library;
	CUdeviceptr address;
	size_t bytes;
	unsigned variable;

	operation("cuLibraryLoadData",
		  cuLibraryLoadData(&library, "any image", NULL, NULL, 0, NULL, NULL, 0), "none");
	must("cuLibraryGetGlobal", cuLibraryGetGlobal(&address, &bytes, library, "table"));
	variable = note_alloc("module", address, bytes, "cuLibraryGetGlobal");
	operation("cuLibraryUnload", cuLibraryUnload(library), "none");
	note_free(variable, "cuLibraryUnload");
}

/* Launches are counted and timed; only one that fails leaves a row. */
static void kernels(void)
{
	CUfunction function;
	CUmodule module;
	unsigned i;

	operation("cuModuleLoadData", cuModuleLoadData(&module, "any image"), "none");
	must("cuModuleGetFunction", cuModuleGetFunction(&function, module, "kernel"));
	for (i = 0; i < LAUNCHES; i++) {
		must("cuLaunchKernel",
		     cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
		must("cuLaunchKernel_ptsz",
		     cuLaunchKernel_ptsz(function, 4, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	}
	require(called("cuLaunchKernel", cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, stream,
							NULL, NULL)) == CUDA_ERROR_INVALID_VALUE,
		"a launch of nothing is refused");
	operation("cuModuleUnload", cuModuleUnload(module), "none");
}

static void advice(void)
{
	CUdeviceptr managed;
	CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };

	must("cuMemAllocManaged", cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	note_alloc("managed", managed, BYTES, "cuMemAllocManaged");
	operation("cuMemAdvise_v2",
		  cuMemAdvise_v2(managed, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, device), "none");
}

static void graph_memory(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS parameters = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } },
		.bytesize = 12345,
	};
	CUgraphNode allocation, release;
	CUgraph graph;

	operation("cuGraphCreate", cuGraphCreate(&graph, 0), "none");
	operation("cuGraphAddMemAllocNode",
		  cuGraphAddMemAllocNode(&allocation, graph, NULL, 0, &parameters), "none");
	operation("cuGraphAddMemFreeNode",
		  cuGraphAddMemFreeNode(&release, graph, &allocation, 1, parameters.dptr), "none");
	operation("cuGraphDestroy", cuGraphDestroy(graph), "none");
}

/* An opened handle is a view of somebody's bytes, and the block is known as exported. */
static void sharing(void)
{
	CUipcMemHandle handle;
	CUdeviceptr opened;
	unsigned view;

	operation("cuIpcGetMemHandle", cuIpcGetMemHandle(&handle, block), "none");
	must("cuIpcOpenMemHandle_v2",
	     cuIpcOpenMemHandle_v2(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	view = note_alloc("ipc", opened, BYTES, "cuIpcOpenMemHandle_v2");
	must("cuIpcCloseMemHandle", cuIpcCloseMemHandle(opened));
	note_free(view, "cuIpcCloseMemHandle");
}

/* The forms that programs of other times are linked with. */
static void old_forms(void)
{
	CUstream old_stream;
	CUevent old_event;
	CUcontext context, primary;

	operation("cuStreamCreate", cuStreamCreate(&old_stream, 0), "none");
	operation("cuStreamDestroy", cuStreamDestroy(old_stream), "none");
	operation("cuEventCreate", cuEventCreate(&old_event, 0), "none");
	operation("cuEventDestroy", cuEventDestroy(old_event), "none");
	must("cuCtxGetCurrent", cuCtxGetCurrent(&primary));
	operation("cuCtxCreate_v3", cuCtxCreate_v3(&context, NULL, 0, 0, 0), "none");
	cover_alloc(1111, NULL);
	operation("cuCtxDestroy_v2", cuCtxDestroy_v2(context), "none");
	note_end(block_ordinal + 1, "context");
	cover_set_current(primary);
}

static void push_and_pop(void)
{
	CUcontext context, popped;
	unsigned in_it;

	operation("cuCtxCreate_v4", cuCtxCreate_v4(&context, NULL, 0, 0), "none");
	operation("cuCtxPopCurrent_v2", cuCtxPopCurrent_v2(&popped), "none");
	operation("cuCtxPushCurrent_v2", cuCtxPushCurrent_v2(context), "none");
	cover_alloc(2222, &in_it);
	operation("cuCtxPopCurrent_v2", cuCtxPopCurrent_v2(&popped), "none");
	operation("cuCtxDestroy_v2", cuCtxDestroy_v2(context), "none");
	note_end(in_it, "context");
}

int main(void)
{
	cover_start(0);
	block = cover_alloc(BYTES, &block_ordinal);
	old_forms();
	push_and_pop();
	operation("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "none");
	sharing();
	variables();
	libraries();
	kernels();
	advice();
	graph_memory();
	cover_end();
	return 0;
}
