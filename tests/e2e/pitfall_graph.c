/* SPDX-License-Identifier: Apache-2.0 */
/* pitfall_graph.c - work inside graphs, and memory that graphs allocate. */
#include "pitfall.h"

enum { PIECE = 64 * KIB };

static CUgraphExec instantiate(CUgraph graph, unsigned long long flags)
{
	CUgraphExec exec;

	need(cuGraphInstantiate(&exec, graph, flags));
	return exec;
}

static void launch(CUgraphExec exec)
{
	need(cuGraphLaunch(exec, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr target, CUdeviceptr source, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = source,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = target,
		.WidthInBytes = bytes, .Height = 1, .Depth = 1,
	};
}

/*
 * A copy that no call makes: 5001 bytes at each of two launches, 5002 at one, and
 * none at a fourth.
 */
static void launches(void)
{
	CUdeviceptr first, second;
	CUDA_MEMCPY3D copy;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;

	pitfall_start();
	first = new_block(PIECE);
	second = new_block(PIECE);
	need(cuMemsetD32(first, 61, 16));
	need(cuCtxSynchronize());
	copy = copy_of(second, first, 5001);
	need(cuGraphCreate(&graph, 0));
	need(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, pitfall.context));
	exec = instantiate(graph, 0);
	launch(exec);
	launch(exec);
	copy = copy_of(second, first, 5002);
	need(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, pitfall.context));
	launch(exec);
	need(cuGraphNodeSetEnabled(exec, node, 0));
	launch(exec);
	tell("word", read_word(second));
	need(cuGraphExecDestroy(exec));
	need(cuGraphDestroy(graph));
	need(cuMemFree(first));
	need(cuMemFree(second));
}

static CUgraph capture_alloc(CUdeviceptr *address)
{
	CUgraph graph;

	need(cuStreamBeginCapture(pitfall.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	need(cuMemAllocAsync(address, 4 * MIB, pitfall.stream));
	need(cuMemsetD32Async(*address, 62, 16, pitfall.stream));
	need(cuStreamEndCapture(pitfall.stream, &graph));
	return graph;
}

static long long reserved_mib(void)
{
	cuuint64_t bytes = 0;

	need(cuDeviceGetGraphMemAttribute(pitfall.device,
					  CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
	return (long long)(bytes / MIB);
}

/* An address without memory, until the first launch; then reserved until a trim. */
static void memory(void)
{
	CUdeviceptr address;
	CUgraphExec exec;
	CUgraph graph;
	size_t before;
	unsigned type;

	pitfall_start();
	before = used_bytes();
	graph = capture_alloc(&address);
	exec = instantiate(graph, 0);
	tell("attribute before the launch",
	     cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
		     CUDA_SUCCESS);
	tell("MiB before the launch", (long long)(used_bytes() - before) / MIB);
	launch(exec);
	tell("word", read_word(address));
	tell("MiB reserved", reserved_mib());
	tell("free of it", cuMemFree(address));
	tell("MiB reserved behind the free", reserved_mib());
	need(cuGraphExecDestroy(exec));
	need(cuGraphDestroy(graph));
	tell("MiB reserved without the graph", reserved_mib());
	need(cuDeviceGraphMemTrim(pitfall.device));
	tell("MiB reserved behind a trim", reserved_mib());
}

/* What a launch has allocated stands in the way of the next, of others, of copies. */
static void unfreed(void)
{
	CUdeviceptr address;
	CUgraphExec exec, second;
	CUgraph graph, clone;

	pitfall_start();
	graph = capture_alloc(&address);
	exec = instantiate(graph, 0);
	launch(exec);
	tell("launch with it unfreed", cuGraphLaunch(exec, pitfall.stream));
	tell("a second instance", cuGraphInstantiate(&second, graph, 0));
	tell("a clone", cuGraphClone(&clone, graph));
	tell("free in stream order", cuMemFreeAsync(address, pitfall.stream));
	launch(exec);
	tell("free", cuMemFree(address));
	tell("free of it again", cuMemFree(address));
	need(cuGraphExecDestroy(exec));
	need(cuGraphDestroy(graph));
	graph = capture_alloc(&address);
	exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	launch(exec);
	tell("launch that frees it first", cuGraphLaunch(exec, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	need(cuMemFree(address));
	need(cuGraphExecDestroy(exec));
	need(cuGraphDestroy(graph));
	need(cuDeviceGraphMemTrim(pitfall.device));
}

/* A plain block cannot be freed in a capture; nobody may make its free one. */
static void plain_free(void)
{
	CUdeviceptr block;
	CUgraph graph;

	pitfall_start();
	block = new_block(PIECE);
	need(cuStreamBeginCapture(pitfall.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	tell("free in stream order", cuMemFreeAsync(block, pitfall.stream));
	tell("free", cuMemFree(block));
	tell("end of the capture", cuStreamEndCapture(pitfall.stream, &graph));
}

const struct pitfall_case pitfall_graph_cases[] = {
	{ "graph-launches", launches },
	{ "graph-memory", memory },
	{ "graph-unfreed", unfreed },
	{ "graph-plain-free", plain_free },
	{ NULL, NULL },
};
