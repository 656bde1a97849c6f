/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cover_graph.c - what graphs copy and allocate: each launch counts, by what
 * stands in the graph at that time.  A plan beside each graph says the sums.
 */
#include "cover.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 16, PLANNED = 16 };

static CUcontext context;
static CUdeviceptr block, other, managed;
static unsigned char *pinned, *pageable;
static CUstream stream;

/* What one copy of a graph moves, as this program means it. */
struct planned {
	const char *kind, *source, *target;
	uint64_t bytes;
	int is_off;
};

struct plan {
	struct planned copy[PLANNED];
	unsigned count;
};

static void operation(const char *api, CUresult result, const char *on)
{
	must(api, result);
	note_operation(api, on, 0);
}

static unsigned plan_copy(struct plan *plan, const char *kind, const char *source,
			  const char *target, uint64_t bytes)
{
	require(plan->count < PLANNED, "the plan has room for another copy");
	plan->copy[plan->count] = (struct planned){ kind, source, target, bytes, 0 };
	return plan->count++;
}

static int goes_the_same_way(const struct planned *one, const struct planned *two)
{
	return !one->is_off && !two->is_off && !strcmp(one->kind, two->kind) &&
	       !strcmp(one->source ? one->source : "-", two->source ? two->source : "-") &&
	       !strcmp(one->target, two->target);
}

static int was_summed(const struct plan *plan, unsigned at)
{
	for (unsigned i = 0; i < at; i++)
		if (goes_the_same_way(&plan->copy[i], &plan->copy[at]))
			return 1;
	return 0;
}

static void note_sum(const struct plan *plan, unsigned at)
{
	struct copy_note copy = {
		.kind = plan->copy[at].kind,
		.api = "cuGraphLaunch",
		.source_kind = plan->copy[at].source,
		.target_kind = plan->copy[at].target,
		.stream = "own",
		.is_async = 1,
	};

	for (unsigned i = at; i < plan->count; i++)
		if (goes_the_same_way(&plan->copy[i], &plan->copy[at])) {
			copy.bytes += plan->copy[i].bytes;
			copy.copies++;
		}
	note_copy(&copy);
}

static void launch(CUgraphExec exec, const struct plan *plan)
{
	operation("cuGraphLaunch", cuGraphLaunch(exec, stream), "own");
	for (unsigned i = 0; i < plan->count; i++)
		if (!plan->copy[i].is_off && !was_summed(plan, i))
			note_sum(plan, i);
	operation("cuStreamSynchronize", cuStreamSynchronize(stream), "own");
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	operation("cuGraphInstantiateWithFlags", cuGraphInstantiateWithFlags(&exec, graph, 0),
		  "none");
	return exec;
}

static CUgraph create(void)
{
	CUgraph graph;

	operation("cuGraphCreate", cuGraphCreate(&graph, 0), "none");
	return graph;
}

static void end(CUgraphExec exec)
{
	operation("cuGraphExecDestroy", cuGraphExecDestroy(exec), "none");
}

static void end_graph(CUgraph graph)
{
	operation("cuGraphDestroy", cuGraphDestroy(graph), "none");
}

static CUDA_MEMCPY3D copy_in(const void *from, CUdeviceptr to, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = from,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

static CUDA_MEMCPY3D copy_out(CUdeviceptr from, void *to, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = to,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

static CUDA_MEMCPY3D copy_unified(CUdeviceptr from, CUdeviceptr to, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = from,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = to,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

static CUDA_MEMSET_NODE_PARAMS fill(unsigned element, size_t width, size_t height)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = block,
		.pitch = 1024,
		.elementSize = element,
		.width = width,
		.height = height,
	};
}

static CUgraphNode add_copy(CUgraph graph, CUDA_MEMCPY3D copy)
{
	CUgraphNode node;

	operation("cuGraphAddMemcpyNode",
		  cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context), "none");
	return node;
}

static CUgraphNode add_fill(CUgraph graph, CUDA_MEMSET_NODE_PARAMS parameters)
{
	CUgraphNode node;

	operation("cuGraphAddMemsetNode",
		  cuGraphAddMemsetNode(&node, graph, NULL, 0, &parameters, context), "none");
	return node;
}

static CUgraphNode add_child(CUgraph graph, CUgraph child)
{
	CUgraphNode node;

	operation("cuGraphAddChildGraphNode",
		  cuGraphAddChildGraphNode(&node, graph, NULL, 0, child), "none");
	return node;
}

/* Directions, places, widths and shapes; launched when the graph is long gone. */
static void by_hand(void)
{
	CUDA_MEMCPY3D rows = copy_in(pinned, other, 100);
	struct plan plan = { .count = 0 };
	CUgraph graph = create();
	CUgraphExec exec;

	add_copy(graph, copy_in(pinned, block, 1000));
	plan_copy(&plan, "H2D", "pinned", "device", 1000);
	add_copy(graph, copy_in(pageable, block, 200));
	plan_copy(&plan, "H2D", "pageable", "device", 200);
	add_copy(graph, copy_out(block, pinned, 300));
	plan_copy(&plan, "D2H", "device", "pinned", 300);
	add_copy(graph, copy_unified(block, other, 40));
	plan_copy(&plan, "D2D", "device", "device", 40);
	add_copy(graph, copy_unified(managed, block, 5));
	plan_copy(&plan, "D2D", "managed", "device", 5);
	rows.srcPitch = 128;
	rows.dstPitch = 256;
	rows.Height = 7;
	add_copy(graph, rows);
	plan_copy(&plan, "H2D", "pinned", "device", 700);
	add_fill(graph, fill(1, 33, 1));
	add_fill(graph, fill(2, 33, 1));
	add_fill(graph, fill(4, 33, 5));
	plan_copy(&plan, "MEMSET", NULL, "device", 33);
	plan_copy(&plan, "MEMSET", NULL, "device", 66);
	plan_copy(&plan, "MEMSET", NULL, "device", 660);
	exec = instantiate(graph);
	end_graph(graph);
	for (int i = 0; i < 3; i++)
		launch(exec, &plan);
	end(exec);
}

/* One node by the function that takes any kind. */
static void by_any_function(void)
{
	CUgraphNodeParams copy = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };
	CUgraphNodeParams set = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
	struct plan plan = { .count = 0 };
	CUgraph graph = create();
	CUgraphNode copy_node, set_node;
	CUgraphExec exec;

	copy.memcpy.copyParams = copy_in(pinned, block, 77);
	copy.memcpy.copyCtx = context;
	set.memset.dst = block;
	set.memset.elementSize = 2;
	set.memset.width = 50;
	set.memset.height = 1;
	set.memset.ctx = context;
	operation("cuGraphAddNode_v2",
		  cuGraphAddNode_v2(&copy_node, graph, NULL, NULL, 0, &copy), "none");
	operation("cuGraphAddNode", cuGraphAddNode(&set_node, graph, &copy_node, 1, &set), "none");
	plan_copy(&plan, "H2D", "pinned", "device", 77);
	plan_copy(&plan, "MEMSET", NULL, "device", 100);
	exec = instantiate(graph);
	launch(exec, &plan);
	copy.memcpy.copyParams.WidthInBytes = 7;
	set.memset.width = 4;
	operation("cuGraphExecNodeSetParams", cuGraphExecNodeSetParams(exec, copy_node, &copy),
		  "none");
	operation("cuGraphExecNodeSetParams", cuGraphExecNodeSetParams(exec, set_node, &set),
		  "none");
	plan.copy[0].bytes = 7;
	plan.copy[1].bytes = 8;
	launch(exec, &plan);
	end(exec);
	end_graph(graph);
}

static void changes(void)
{
	CUDA_MEMCPY3D shorter = copy_in(pinned, block, 60);
	CUDA_MEMSET_NODE_PARAMS narrower = fill(4, 3, 1);
	struct plan plan = { .count = 0 };
	CUgraph graph = create();
	CUgraphNode copy, set;
	CUgraphExec exec;

	copy = add_copy(graph, copy_in(pinned, block, 1000));
	plan_copy(&plan, "H2D", "pinned", "device", 1000);
	set = add_fill(graph, fill(4, 100, 1));
	plan_copy(&plan, "MEMSET", NULL, "device", 400);
	exec = instantiate(graph);
	launch(exec, &plan);
	operation("cuGraphExecMemcpyNodeSetParams",
		  cuGraphExecMemcpyNodeSetParams(exec, copy, &shorter, context), "none");
	plan.copy[0].bytes = 60;
	operation("cuGraphExecMemsetNodeSetParams",
		  cuGraphExecMemsetNodeSetParams(exec, set, &narrower, context), "none");
	plan.copy[1].bytes = 12;
	launch(exec, &plan);
	operation("cuGraphNodeSetEnabled", cuGraphNodeSetEnabled(exec, copy, 0), "none");
	plan.copy[0].is_off = 1;
	launch(exec, &plan);
	operation("cuGraphNodeSetEnabled", cuGraphNodeSetEnabled(exec, set, 0), "none");
	plan.copy[1].is_off = 1;
	launch(exec, &plan);
	operation("cuGraphNodeSetEnabled", cuGraphNodeSetEnabled(exec, copy, 1), "none");
	plan.copy[0].is_off = 0;
	launch(exec, &plan);
	end(exec);
	end_graph(graph);
}

/* Graphs in graphs, one of whose nodes is switched off and whose child is another one later. */
static void children(void)
{
	struct plan plan = { .count = 0 };
	CUgraph inner = create(), middle = create(), graph = create(), seen;
	CUgraphNode child, inside[4];
	CUgraphExec exec;
	size_t count = 4;

	add_copy(inner, copy_in(pinned, block, 11));
	add_fill(inner, fill(1, 22, 1));
	add_copy(middle, copy_out(block, pinned, 33));
	add_child(middle, inner);
	add_copy(graph, copy_in(pinned, block, 44));
	child = add_child(graph, middle);
	plan_copy(&plan, "H2D", "pinned", "device", 44);
	plan_copy(&plan, "D2H", "device", "pinned", 33);
	plan_copy(&plan, "H2D", "pinned", "device", 11);
	plan_copy(&plan, "MEMSET", NULL, "device", 22);
	exec = instantiate(graph);
	launch(exec, &plan);
	must("cuGraphChildGraphNodeGetGraph", cuGraphChildGraphNodeGetGraph(child, &seen));
	must("cuGraphGetNodes", cuGraphGetNodes(seen, inside, &count));
	operation("cuGraphNodeSetEnabled", cuGraphNodeSetEnabled(exec, inside[0], 0), "none");
	plan.copy[1].is_off = 1;
	launch(exec, &plan);
	end_graph(inner);
	inner = create();
	add_copy(inner, copy_in(pinned, block, 111));
	add_fill(inner, fill(1, 222, 1));
	end_graph(middle);
	middle = create();
	add_copy(middle, copy_out(block, pinned, 333));
	add_child(middle, inner);
	operation("cuGraphExecChildGraphNodeSetParams",
		  cuGraphExecChildGraphNodeSetParams(exec, child, middle), "none");
	plan.copy[1].bytes = 333;
	plan.copy[2].bytes = 111;
	plan.copy[3].bytes = 222;
	launch(exec, &plan);
	end(exec);
	end_graph(graph);
	end_graph(middle);
	end_graph(inner);
}

/* Two captures, one put in the place of the other. */
static CUgraph capture(size_t bytes)
{
	struct copy_note in = {
		.kind = "H2D",
		.api = "cuMemcpyHtoDAsync_v2",
		.bytes = bytes,
		.source = (uintptr_t)pinned,
		.target = block,
		.stream = "own",
		.is_async = 1,
		.is_captured = 1,
	};
	struct copy_note set = {
		.kind = "MEMSET",
		.api = "cuMemsetD2D16Async",
		.bytes = 2 * bytes,
		.target = block,
		.stream = "own",
		.is_async = 1,
		.is_captured = 1,
	};
	CUgraph graph;

	operation("cuStreamBeginCapture_v2",
		  cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "own");
	must("cuMemcpyHtoDAsync_v2", cuMemcpyHtoDAsync_v2(block, pinned, bytes, stream));
	note_copy(&in);
	must("cuMemsetD2D16Async",
	     cuMemsetD2D16Async(block, 1024, 1, bytes / 10, 10, stream));
	note_copy(&set);
	operation("cuStreamEndCapture", cuStreamEndCapture(stream, &graph), "own");
	return graph;
}

static void updates(void)
{
	CUgraph graph = capture(500), later = capture(900);
	CUgraphExecUpdateResultInfo info;
	struct plan plan = { .count = 0 };
	CUgraphExec exec = instantiate(graph);

	plan_copy(&plan, "H2D", "pinned", "device", 500);
	plan_copy(&plan, "MEMSET", NULL, "device", 1000);
	launch(exec, &plan);
	operation("cuGraphExecUpdate_v2", cuGraphExecUpdate_v2(exec, later, &info), "none");
	plan.copy[0].bytes = 900;
	plan.copy[1].bytes = 1800;
	launch(exec, &plan);
	launch(exec, &plan);
	end(exec);
	end_graph(graph);
	end_graph(later);
}

/* Bodies of conditional nodes run as often as the device likes: they are told of, uncounted. */
static void conditions(void)
{
	CUgraphNodeParams parameters = { .type = CU_GRAPH_NODE_TYPE_CONDITIONAL };
	struct copy_note either = {
		.kind = "H2D",
		.api = "cuGraphLaunch",
		.bytes = 500 + 70,
		.source_kind = "pinned",
		.target_kind = "device",
		.stream = "own",
		.is_async = 1,
		.is_captured = 1,
		.copies = UNCOUNTED,
	};
	struct plan plan = { .count = 0 };
	CUgraph graph = create(), *bodies;
	CUgraphExec exec;
	CUgraphNode node;

	operation("cuGraphConditionalHandleCreate",
		  cuGraphConditionalHandleCreate(&parameters.conditional.handle, graph, context, 1,
						 CU_GRAPH_COND_ASSIGN_DEFAULT),
		  "none");
	parameters.conditional.type = CU_GRAPH_COND_TYPE_IF;
	parameters.conditional.size = 2;
	parameters.conditional.ctx = context;
	add_copy(graph, copy_in(pinned, block, 1000));
	plan_copy(&plan, "H2D", "pinned", "device", 1000);
	operation("cuGraphAddNode_v2",
		  cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &parameters), "none");
	bodies = parameters.conditional.phGraph_out;
	add_copy(bodies[0], copy_in(pinned, block, 500));
	add_copy(bodies[1], copy_in(pinned, block, 70));
	exec = instantiate(graph);
	operation("cuGraphLaunch", cuGraphLaunch(exec, stream), "own");
	note_sum(&plan, 0);
	note_copy(&either);
	end(exec);
	end_graph(graph);
}

/* A launch that the driver refuses moves nothing. */
static void a_refused_launch(void)
{
	struct plan plan = { .count = 0 };
	CUgraph graph = create();
	CUgraphNode node;
	CUDA_MEM_ALLOC_NODE_PARAMS parameters = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } },
		.bytesize = 5000,
	};
	CUgraphExec exec;
	unsigned left;

	operation("cuGraphAddMemAllocNode",
		  cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters), "none");
	add_copy(graph, copy_in(pinned, block, 10));
	plan_copy(&plan, "H2D", "pinned", "device", 10);
	exec = instantiate(graph);
	launch(exec, &plan);
	left = note_alloc("graph", parameters.dptr, 5000, "cuGraphLaunch");
	require(called("cuGraphLaunch", cuGraphLaunch(exec, stream)) == CUDA_ERROR_INVALID_VALUE,
		"a graph whose memory is still there cannot be launched again");
	note_operation("cuGraphLaunch", "own", CUDA_ERROR_INVALID_VALUE);
	must("cuMemFree_v2", cuMemFree_v2(parameters.dptr));
	note_free(left, "cuMemFree_v2");
	launch(exec, &plan);
	left = note_alloc("graph", parameters.dptr, 5000, "cuGraphLaunch");
	must("cuMemFreeAsync", cuMemFreeAsync(parameters.dptr, stream));
	note_free(left, "cuMemFreeAsync");
	end(exec);
	end_graph(graph);
	operation("cuDeviceGraphMemTrim", cuDeviceGraphMemTrim(0), "none");
}

/* Freed by the launch itself where the graph wants it so, and by another graph's launch. */
static void memory(void)
{
	struct plan nothing = { .count = 0 };
	CUgraph graph, freeing = create();
	CUgraphExec exec, free_exec;
	CUdeviceptr kept, passing;
	CUgraphNode node;
	unsigned left;

	operation("cuStreamBeginCapture_v2",
		  cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "own");
	operation("cuMemAllocAsync", cuMemAllocAsync(&kept, 4096, stream), "own");
	operation("cuMemAllocAsync", cuMemAllocAsync(&passing, 8192, stream), "own");
	operation("cuMemFreeAsync", cuMemFreeAsync(passing, stream), "own");
	operation("cuStreamEndCapture", cuStreamEndCapture(stream, &graph), "own");
	operation("cuGraphInstantiateWithFlags",
		  cuGraphInstantiateWithFlags(&exec, graph,
					      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
		  "none");
	launch(exec, &nothing);
	left = note_alloc("graph", kept, 4096, "cuGraphLaunch");
	launch(exec, &nothing);
	operation("cuGraphAddMemFreeNode", cuGraphAddMemFreeNode(&node, freeing, NULL, 0, kept),
		  "none");
	free_exec = instantiate(freeing);
	launch(free_exec, &nothing);
	note_free(left, "cuGraphLaunch");
	end(free_exec);
	end_graph(freeing);
	end(exec);
	end_graph(graph);
}

static void set_up(void)
{
	context = cover_start(0);
	block = cover_alloc(BYTES, NULL);
	other = cover_alloc(BYTES, NULL);
	must("cuMemAllocManaged", cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	note_alloc("managed", managed, BYTES, "cuMemAllocManaged");
	must("cuMemHostAlloc", cuMemHostAlloc((void **)&pinned, BYTES, 0));
	note_alloc("pinned", (uintptr_t)pinned, BYTES, "cuMemHostAlloc");
	pageable = calloc(1, BYTES);
	operation("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "none");
}

int main(void)
{
	set_up();
	by_hand();
	by_any_function();
	changes();
	children();
	updates();
	conditions();
	a_refused_launch();
	memory();
	free(pageable);
	cover_end();
	return 0;
}
