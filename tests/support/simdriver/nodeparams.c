/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of graph nodes: read back, changed, and the call that takes any kind. */
#include "sim.h"
#include "entries.h"
#include "graph.h"
#include "launch.h"

static CUresult find(CUgraphNode handle, CUgraphNodeType type, const void *argument,
		     struct graph_node **node)
{
	CUresult error = graph_find_node(handle, node);

	if (error || (*node)->type != type || !argument)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult nodeparams_copy(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	struct graph_node *node;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams, &node);

	if (!error)
		*nodeParams = node->params.copy;
	return error;
}

CUresult nodeparams_memset(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	struct graph_node *node;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, &node);

	if (!error)
		*nodeParams = node->params.fill;
	return error;
}

CUresult nodeparams_host(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct graph_node *node;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams, &node);

	if (!error)
		*nodeParams = node->params.host;
	return error;
}

CUresult nodeparams_kernel(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct graph_node *node;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, &node);

	if (!error)
		*nodeParams = node->params.kernel;
	return error;
}

/* The older structure is the beginning of the newer one. */
CUresult nodeparams_kernel_old(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS params;
	CUresult error = nodeParams ? nodeparams_kernel(hNode, &params) : CUDA_ERROR_INVALID_VALUE;

	if (!error)
		memcpy(nodeParams, &params, sizeof(*nodeParams));
	return error;
}

CUresult nodeparams_alloc(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	struct graph_node *node;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params_out, &node);

	if (!error)
		*params_out = node->params.alloc;
	return error;
}

CUresult nodeparams_free(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	struct graph_node *node;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, dptr_out, &node);

	if (!error)
		*dptr_out = node->params.freed;
	return error;
}

CUresult nodeparams_child(CUgraphNode hNode, CUgraph *phGraph)
{
	struct graph_node *node;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_GRAPH, phGraph, &node);

	if (!error)
		*phGraph = (CUgraph)node->params.child;
	return error;
}

CUresult nodeparams_record(CUgraphNode hNode, CUevent *event_out)
{
	struct graph_node *node;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out, &node);

	if (!error)
		*event_out = node->params.event;
	return error;
}

CUresult nodeparams_wait(CUgraphNode hNode, CUevent *event_out)
{
	struct graph_node *node;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out, &node);

	if (!error)
		*event_out = node->params.event;
	return error;
}

/* ------------------------------------------------------------------ changing */

static void replace(struct graph_node *node, const struct op *op)
{
	op_release(&node->op);
	node->op = *op;
}

CUresult nodeparams_set_copy(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	struct graph_node *node;
	struct op op;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams, &node);

	if (!error)
		error = node_make_copy(&op, nodeParams);
	if (error)
		return error;
	replace(node, &op);
	node->params.copy = *nodeParams;
	return CUDA_SUCCESS;
}

CUresult nodeparams_set_memset(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	struct graph_node *node;
	struct op op;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, &node);

	if (!error)
		error = node_make_memset(&op, nodeParams);
	if (error)
		return error;
	replace(node, &op);
	node->params.fill = *nodeParams;
	return CUDA_SUCCESS;
}

CUresult nodeparams_set_host(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct graph_node *node;
	struct op op;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams, &node);

	if (!error)
		error = node_make_host(&op, nodeParams);
	if (error)
		return error;
	replace(node, &op);
	node->params.host = *nodeParams;
	return CUDA_SUCCESS;
}

CUresult nodeparams_set_kernel(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct graph_node *node;
	struct op op;
	CUresult error = find(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, &node);

	if (!error)
		error = node_make_kernel(&op, nodeParams);
	if (error)
		return error;
	replace(node, &op);
	launch_describe(node->op.kernel, &node->params.kernel);
	return CUDA_SUCCESS;
}

CUresult nodeparams_set_kernel_old(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS params = {0};

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&params, nodeParams, sizeof(*nodeParams));
	return nodeparams_set_kernel(hNode, &params);
}

/* ------------------------------------------------------------------ any kind */

static CUresult add_any_copy(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
			     size_t count, CUgraphNodeParams *p)
{
	return node_add_copy(out, graph, before, count, &p->memcpy.copyParams,
			     p->memcpy.copyCtx ? p->memcpy.copyCtx : (CUcontext)sim_thread.current);
}

static CUresult add_any_memset(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
			       size_t count, CUgraphNodeParams *p)
{
	const CUDA_MEMSET_NODE_PARAMS params = {
		.dst = p->memset.dst, .pitch = p->memset.pitch, .value = p->memset.value,
		.elementSize = p->memset.elementSize, .width = p->memset.width,
		.height = p->memset.height,
	};

	return node_add_memset(out, graph, before, count, &params,
			       p->memset.ctx ? p->memset.ctx : (CUcontext)sim_thread.current);
}

static CUresult add_any_kernel(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
			       size_t count, CUgraphNodeParams *p)
{
	const CUDA_KERNEL_NODE_PARAMS params = {
		.func = p->kernel.func, .kern = p->kernel.kern, .ctx = p->kernel.ctx,
		.gridDimX = p->kernel.gridDimX, .gridDimY = p->kernel.gridDimY,
		.gridDimZ = p->kernel.gridDimZ, .blockDimX = p->kernel.blockDimX,
		.blockDimY = p->kernel.blockDimY, .blockDimZ = p->kernel.blockDimZ,
		.sharedMemBytes = p->kernel.sharedMemBytes,
		.kernelParams = p->kernel.kernelParams, .extra = p->kernel.extra,
	};

	return node_add_kernel(out, graph, before, count, &params);
}

static CUresult add_any_alloc(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
			      size_t count, CUgraphNodeParams *p)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = p->alloc.poolProps, .bytesize = p->alloc.bytesize,
	};
	CUresult error = node_add_alloc(out, graph, before, count, &params);

	p->alloc.dptr = params.dptr;
	return error;
}

CUresult nodeparams_add(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			const CUgraphEdgeData *dependencyData, size_t numDependencies,
			CUgraphNodeParams *nodeParams)
{
	(void)dependencyData;
	return nodeparams_add_old(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult nodeparams_add_old(CUgraphNode *phGraphNode, CUgraph hGraph,
			    const CUgraphNode *dependencies, size_t numDependencies,
			    CUgraphNodeParams *nodeParams)
{
	const CUgraphNode *before = dependencies;
	size_t count = numDependencies;
	CUDA_HOST_NODE_PARAMS host;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	switch (nodeParams->type) {
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return node_add_empty(phGraphNode, hGraph, before, count);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return add_any_copy(phGraphNode, hGraph, before, count, nodeParams);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return add_any_memset(phGraphNode, hGraph, before, count, nodeParams);
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return add_any_kernel(phGraphNode, hGraph, before, count, nodeParams);
	case CU_GRAPH_NODE_TYPE_HOST:
		host = (CUDA_HOST_NODE_PARAMS){ nodeParams->host.fn, nodeParams->host.userData };
		return node_add_host(phGraphNode, hGraph, before, count, &host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return node_add_child(phGraphNode, hGraph, before, count, nodeParams->graph.graph);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return node_add_record(phGraphNode, hGraph, before, count,
				       nodeParams->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return node_add_wait(phGraphNode, hGraph, before, count,
				     nodeParams->eventWait.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return add_any_alloc(phGraphNode, hGraph, before, count, nodeParams);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return node_add_free(phGraphNode, hGraph, before, count, nodeParams->free.dptr);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return conditional_add(phGraphNode, hGraph, before, count, nodeParams);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}
