/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_graph.h"
#include "fake_driver.h"

#include <string.h>

CUgraphExec fake_exec;
_Atomic unsigned int fake_graph_asked;

static struct fake_node *node_at(struct fake_graph *graph, size_t i)
{
	return graph->many ? &graph->many[i] : &graph->node[i];
}

static struct fake_node *add(struct fake_graph *graph, CUgraphNodeType type)
{
	struct fake_node *node = node_at(graph, graph->count++);

	memset(node, 0, sizeof(*node));
	node->type = type;
	return node;
}

struct fake_node *fake_graph_in(struct fake_graph *graph, void *host, CUdeviceptr device,
				size_t bytes)
{
	struct fake_node *node = add(graph, CU_GRAPH_NODE_TYPE_MEMCPY);

	node->copy = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
	return node;
}

struct fake_node *fake_graph_fill(struct fake_graph *graph, CUdeviceptr device,
				  unsigned int element, size_t width, size_t height)
{
	struct fake_node *node = add(graph, CU_GRAPH_NODE_TYPE_MEMSET);

	node->fill = (CUDA_MEMSET_NODE_PARAMS){
		.dst = device,
		.elementSize = element,
		.width = width,
		.height = height,
	};
	return node;
}

struct fake_node *fake_graph_child(struct fake_graph *graph, struct fake_graph *child)
{
	struct fake_node *node = add(graph, CU_GRAPH_NODE_TYPE_GRAPH);

	node->child = child;
	return node;
}

struct fake_node *fake_graph_alloc(struct fake_graph *graph, CUdeviceptr address, size_t bytes)
{
	struct fake_node *node = add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC);

	node->alloc = (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 2 },
		.bytesize = bytes,
		.dptr = address,
	};
	return node;
}

struct fake_node *fake_graph_free(struct fake_graph *graph, CUdeviceptr address)
{
	struct fake_node *node = add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE);

	node->freed = address;
	return node;
}

static CUresult CUDAAPI get_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
	struct fake_graph *graph = (struct fake_graph *)handle;

	fake_graph_asked++;
	for (size_t i = 0; nodes && i < *count && i < graph->count; i++)
		nodes[i] = fake_graph_node(node_at(graph, i));
	*count = graph->count;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_type(CUgraphNode handle, CUgraphNodeType *type)
{
	*type = ((struct fake_node *)handle)->type;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_copy(CUgraphNode handle, CUDA_MEMCPY3D *copy)
{
	*copy = ((struct fake_node *)handle)->copy;
	return ((struct fake_node *)handle)->result;
}

static CUresult CUDAAPI get_fill(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS *fill)
{
	*fill = ((struct fake_node *)handle)->fill;
	return ((struct fake_node *)handle)->result;
}

static CUresult CUDAAPI get_child(CUgraphNode handle, CUgraph *child)
{
	*child = fake_graph_handle(((struct fake_node *)handle)->child);
	return ((struct fake_node *)handle)->result;
}

static CUresult CUDAAPI get_alloc(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS *alloc)
{
	*alloc = ((struct fake_node *)handle)->alloc;
	return ((struct fake_node *)handle)->result;
}

static CUresult CUDAAPI get_free(CUgraphNode handle, CUdeviceptr *address)
{
	*address = ((struct fake_node *)handle)->freed;
	return ((struct fake_node *)handle)->result;
}

static CUresult CUDAAPI instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	(void)graph;
	(void)flags;
	*exec = fake_exec;
	return fake_result;
}

static CUresult CUDAAPI launch(CUgraphExec exec, CUstream stream)
{
	(void)exec;
	(void)stream;
	return fake_result;
}

static CUresult CUDAAPI destroy(CUgraphExec exec)
{
	(void)exec;
	return fake_result;
}

static CUresult CUDAAPI set_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy,
				 CUcontext context)
{
	(void)exec;
	(void)node;
	(void)copy;
	(void)context;
	return fake_result;
}

static CUresult CUDAAPI set_fill(CUgraphExec exec, CUgraphNode node,
				 const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
	(void)exec;
	(void)node;
	(void)fill;
	(void)context;
	return fake_result;
}

static CUresult CUDAAPI set_child(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
	(void)exec;
	(void)node;
	(void)child;
	return fake_result;
}

static CUresult CUDAAPI set_any(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *parameters)
{
	(void)exec;
	(void)node;
	(void)parameters;
	return fake_result;
}

static CUresult CUDAAPI enable(CUgraphExec exec, CUgraphNode node, unsigned int is_enabled)
{
	(void)exec;
	(void)node;
	(void)is_enabled;
	return fake_result;
}

static CUresult CUDAAPI update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	(void)exec;
	(void)graph;
	(void)info;
	return fake_result;
}

void fake_graph_start(void)
{
	fake_exec = (CUgraphExec)0x9000;
	fake_graph_asked = 0;
	fake_set(API_cuGraphGetNodes, get_nodes);
	fake_set(API_cuGraphNodeGetType, get_type);
	fake_set(API_cuGraphMemcpyNodeGetParams, get_copy);
	fake_set(API_cuGraphMemsetNodeGetParams, get_fill);
	fake_set(API_cuGraphChildGraphNodeGetGraph, get_child);
	fake_set(API_cuGraphMemAllocNodeGetParams, get_alloc);
	fake_set(API_cuGraphMemFreeNodeGetParams, get_free);
	fake_set(API_cuGraphInstantiateWithFlags, instantiate);
	fake_set(API_cuGraphLaunch, launch);
	fake_set(API_cuGraphExecDestroy, destroy);
	fake_set(API_cuGraphExecMemcpyNodeSetParams, set_copy);
	fake_set(API_cuGraphExecMemsetNodeSetParams, set_fill);
	fake_set(API_cuGraphExecChildGraphNodeSetParams, set_child);
	fake_set(API_cuGraphExecNodeSetParams, set_any);
	fake_set(API_cuGraphNodeSetEnabled, enable);
	fake_set(API_cuGraphExecUpdate_v2, update);
}
