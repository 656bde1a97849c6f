/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freed_graph.c - a freed block in memory operations of streams, in graphs and
 * in captures.
 */
#include "freed.h"

static CUstreamBatchMemOpParams write_of(CUdeviceptr address)
{
	return (CUstreamBatchMemOpParams){
		.writeValue = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
				.address = address,
				.value = 1 },
	};
}

void ask_wait(CUdeviceptr address)
{
	CUstreamBatchMemOpParams ops[] = { write_of(freed.alive), write_of(address) };

	tell("cuStreamWriteValue32", cuStreamWriteValue32(freed.stream, address, 1, 0));
	tell("cuStreamWriteValue64", cuStreamWriteValue64(freed.stream, address, 1, 0));
	tell("cuStreamWaitValue32",
	     cuStreamWaitValue32(freed.stream, address, 0, CU_STREAM_WAIT_VALUE_GEQ));
	tell("cuStreamWaitValue64",
	     cuStreamWaitValue64(freed.stream, address, 0, CU_STREAM_WAIT_VALUE_GEQ));
	tell("cuStreamBatchMemOp", cuStreamBatchMemOp(freed.stream, 2, ops, 0));
}

static CUDA_MEMCPY3D copy_to(CUdeviceptr address)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = freed.alive,
		.srcPitch = 16,
		.srcHeight = 1,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = address,
		.dstPitch = 16,
		.dstHeight = 1,
		.WidthInBytes = 16,
		.Height = 1,
		.Depth = 1,
	};
}

static CUDA_MEMSET_NODE_PARAMS fill_of(CUdeviceptr address)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = address, .value = 1, .elementSize = 1, .width = 16, .height = 1
	};
}

static CUgraph graph;
static CUgraphNode copy_node, fill_node;
static CUgraphExec executable;

void make_graph(void)
{
	CUDA_MEMCPY3D copy = copy_to(freed.alive + 1024);
	CUDA_MEMSET_NODE_PARAMS fill = fill_of(freed.alive + 2048);

	need(cuGraphCreate(&graph, 0), "cuGraphCreate");
	need(cuGraphAddMemcpyNode(&copy_node, graph, NULL, 0, &copy, freed.context), "a copy");
	need(cuGraphAddMemsetNode(&fill_node, graph, NULL, 0, &fill, freed.context), "a fill");
	need(cuGraphInstantiate(&executable, graph, 0), "cuGraphInstantiate");
}

static void ask_parameters(CUdeviceptr address)
{
	CUDA_MEMCPY3D to = copy_to(address);
	CUDA_MEMSET_NODE_PARAMS of = fill_of(address);

	tell("cuGraphMemcpyNodeSetParams", cuGraphMemcpyNodeSetParams(copy_node, &to));
	tell("cuGraphMemsetNodeSetParams", cuGraphMemsetNodeSetParams(fill_node, &of));
	tell("cuGraphExecMemcpyNodeSetParams",
	     cuGraphExecMemcpyNodeSetParams(executable, copy_node, &to, freed.context));
	tell("cuGraphExecMemsetNodeSetParams",
	     cuGraphExecMemsetNodeSetParams(executable, fill_node, &of, freed.context));
}

static CUgraphNodeParams any_copy_to(CUdeviceptr address)
{
	CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };

	any.memcpy.copyCtx = freed.context;
	any.memcpy.copyParams = copy_to(address);
	return any;
}

static CUgraphNodeParams any_fill_of(CUdeviceptr address)
{
	CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_MEMSET };

	any.memset.dst = address;
	any.memset.value = 1;
	any.memset.elementSize = 1;
	any.memset.width = 16;
	any.memset.height = 1;
	any.memset.ctx = freed.context;
	return any;
}

void ask_node(CUdeviceptr address)
{
	CUgraphNodeParams copy = any_copy_to(address), fill = any_fill_of(address);

	tell("cuGraphNodeSetParams copy", cuGraphNodeSetParams(copy_node, &copy));
	tell("cuGraphNodeSetParams fill", cuGraphNodeSetParams(fill_node, &fill));
	tell("cuGraphExecNodeSetParams copy",
	     cuGraphExecNodeSetParams(executable, copy_node, &copy));
	tell("cuGraphExecNodeSetParams fill",
	     cuGraphExecNodeSetParams(executable, fill_node, &fill));
}

static void add_any_node(CUdeviceptr address)
{
	CUgraphNodeParams copy = any_copy_to(address), fill = any_fill_of(address);
	CUgraphNode node;

	tell("cuGraphAddNode copy", cuGraphAddNode(&node, graph, NULL, NULL, 0, &copy));
	tell("cuGraphAddNode fill", cuGraphAddNode(&node, graph, NULL, NULL, 0, &fill));
}

void ask_graph(CUdeviceptr address)
{
	CUDA_MEMCPY3D to = copy_to(address);
	CUDA_MEMSET_NODE_PARAMS of = fill_of(address);
	CUstreamBatchMemOpParams op = write_of(address);
	CUDA_BATCH_MEM_OP_NODE_PARAMS ops = { freed.context, 1, &op, 0 };
	CUgraphNode node;

	ask_parameters(address);
	add_any_node(address);
	tell("cuGraphAddMemcpyNode",
	     cuGraphAddMemcpyNode(&node, graph, NULL, 0, &to, freed.context));
	tell("cuGraphAddMemsetNode",
	     cuGraphAddMemsetNode(&node, graph, NULL, 0, &of, freed.context));
	tell("cuGraphAddMemFreeNode", cuGraphAddMemFreeNode(&node, graph, NULL, 0, address));
	tell("cuGraphAddBatchMemOpNode", cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &ops));
}

/* What a refused call does to the capture it was made in. */
void ask_capture(CUdeviceptr address)
{
	CUDA_MEMCPY2D plane = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				.srcDevice = freed.alive,
				.srcPitch = 16,
				.dstMemoryType = CU_MEMORYTYPE_DEVICE,
				.dstDevice = address,
				.dstPitch = 16,
				.WidthInBytes = 16,
				.Height = 2 };
	CUgraph captured = NULL;

	need(cuStreamBeginCapture(freed.stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "a capture");
	tell("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync(address, freed.pinned, 16, freed.stream));
	tell("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync(freed.alive, address, 16, freed.stream));
	tell("cuMemcpy2DAsync", cuMemcpy2DAsync(&plane, freed.stream));
	tell("cuMemFreeAsync", cuMemFreeAsync(address, freed.stream));
	tell("cuStreamEndCapture", cuStreamEndCapture(freed.stream, &captured));
	printf("graph %d\n", captured != NULL);
}

void ask_captured(CUdeviceptr address)
{
	CUgraph captured = NULL;

	need(cuStreamBeginCapture(freed.stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "a capture");
	tell("cuMemsetD8Async", cuMemsetD8Async(address, 1, 16, freed.stream));
	tell("cuMemsetD2D32Async", cuMemsetD2D32Async(address, 64, 1, 16, 4, freed.stream));
	tell("cuStreamEndCapture", cuStreamEndCapture(freed.stream, &captured));
	printf("graph %d\n", captured != NULL);
}
