/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of graph nodes: made from parameters or from a captured op, and asked back. */
#include "sim.h"
#include "entries.h"
#include "copybox.h"
#include "graph.h"
#include "launch.h"

CUgraphNodeType node_type_of(const struct op *op)
{
	switch (op->kind) {
	case OP_COPY:
		return CU_GRAPH_NODE_TYPE_MEMCPY;
	case OP_FILL:
		return CU_GRAPH_NODE_TYPE_MEMSET;
	case OP_KERNEL:
		return CU_GRAPH_NODE_TYPE_KERNEL;
	case OP_HOST:
		return CU_GRAPH_NODE_TYPE_HOST;
	case OP_WAIT_VALUE:
	case OP_WRITE_VALUE:
		return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	default:
		return CU_GRAPH_NODE_TYPE_EMPTY;
	}
}

/* ------------------------------------------------------------------ parameters of captured ops */

static CUmemorytype type_of(const struct place *place)
{
	switch (place->kind) {
	case PLACE_PAGEABLE:
	case PLACE_PINNED:
		return CU_MEMORYTYPE_HOST;
	case PLACE_ARRAY:
		return CU_MEMORYTYPE_ARRAY;
	default:
		return CU_MEMORYTYPE_DEVICE;
	}
}

static size_t slices_of(size_t slice, size_t pitch)
{
	return pitch ? slice / pitch : 0;
}

void node_describe_copy(struct graph_node *node, const struct place *dst, const struct place *src)
{
	const struct box *box = &node->op.box;
	CUDA_MEMCPY3D *p = &node->params.copy;

	*p = (CUDA_MEMCPY3D){
		.srcMemoryType = type_of(src), .dstMemoryType = type_of(dst),
		.srcPitch = box->src_pitch, .dstPitch = box->dst_pitch,
		.srcHeight = slices_of(box->src_slice, box->src_pitch),
		.dstHeight = slices_of(box->dst_slice, box->dst_pitch),
		.WidthInBytes = box->width, .Height = box->height, .Depth = box->depth,
		.srcArray = (CUarray)src->array, .dstArray = (CUarray)dst->array,
	};
	if (p->srcMemoryType == CU_MEMORYTYPE_HOST)
		p->srcHost = (void *)src->address;
	else if (p->srcMemoryType == CU_MEMORYTYPE_DEVICE)
		p->srcDevice = src->address;
	if (p->dstMemoryType == CU_MEMORYTYPE_HOST)
		p->dstHost = (void *)dst->address;
	else if (p->dstMemoryType == CU_MEMORYTYPE_DEVICE)
		p->dstDevice = dst->address;
}

void node_describe(struct graph_node *node)
{
	const struct op *op = &node->op;

	switch (op->kind) {
	case OP_FILL:
		node->params.fill = (CUDA_MEMSET_NODE_PARAMS){
			.dst = (CUdeviceptr)op->box.src, .pitch = op->box.dst_pitch,
			.value = op->value, .elementSize = op->element,
			.width = op->box.width, .height = op->box.height,
		};
		break;
	case OP_HOST:
		node->params.host = (CUDA_HOST_NODE_PARAMS){ .fn = op->host, .userData = op->data };
		break;
	case OP_KERNEL:
		launch_describe(op->kernel, &node->params.kernel);
		break;
	default:
		break;
	}
}

/* ------------------------------------------------------------------ ops from parameters */

CUresult node_make_copy(struct op *op, const CUDA_MEMCPY3D *params)
{
	struct place dst = {0}, src = {0};
	struct boxcopy copy;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	copy = copybox_from_3d(params);
	return copybox_op(&copy, op, &dst, &src);
}

CUresult node_make_memset(struct op *op, const CUDA_MEMSET_NODE_PARAMS *params)
{
	struct place place;
	CUresult error;
	size_t bytes;

	if (!params || (params->elementSize != 1 && params->elementSize != 2 &&
			params->elementSize != 4) || !params->width || !params->height)
		return CUDA_ERROR_INVALID_VALUE;
	bytes = (params->height - 1) * params->pitch + params->width * params->elementSize;
	error = memory_place(params->dst, bytes, &place);
	*op = (struct op){
		.kind = OP_FILL,
		.box = {
			.dst = place.bytes, .src = (const char *)params->dst,
			.width = params->width, .height = params->height, .depth = 1,
			.dst_pitch = params->pitch,
		},
		.value = params->value,
		.element = params->elementSize,
	};
	return error;
}

CUresult node_make_host(struct op *op, const CUDA_HOST_NODE_PARAMS *params)
{
	if (!params || !params->fn)
		return CUDA_ERROR_INVALID_VALUE;
	*op = (struct op){ .kind = OP_HOST, .host = params->fn, .data = params->userData };
	return CUDA_SUCCESS;
}

CUresult node_make_kernel(struct op *op, const CUDA_KERNEL_NODE_PARAMS *params)
{
	*op = (struct op){ .kind = OP_KERNEL };
	return params ? launch_from_params(params, &op->kernel) : CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ memory nodes */

struct graph_node *node_find_alloc(struct graph *graph, CUdeviceptr address)
{
	struct graph_node *node = graph->first;

	while (node && !(node->block && (CUdeviceptr)node->block->base == address))
		node = node->next;
	return node;
}

CUresult node_new_alloc(struct graph *graph, const CUgraphNode *before, size_t count,
			struct device *device, size_t bytes, struct graph_node **out)
{
	struct block *block = graphmem_new(device, bytes);
	struct graph_node *node;
	CUresult error;

	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, before, count, &node);
	if (error) {
		graphmem_drop(block);
		return error;
	}
	graph->alloc_nodes++;
	node->block = block;
	node->op = (struct op){ .kind = OP_ALLOC, .block = block };
	node->params.alloc = (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = {
			.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->index },
		},
		.bytesize = bytes,
		.dptr = (CUdeviceptr)block->base,
	};
	*out = node;
	return CUDA_SUCCESS;
}

/* What is freed must be allocated in the same graph, or be a live graph allocation. */
CUresult node_new_free(struct graph *graph, const CUgraphNode *before, size_t count,
		       CUdeviceptr address, struct graph_node **out)
{
	struct graph_node *alloc = node_find_alloc(graph, address), *node;
	struct block *block = alloc ? alloc->block : registry_find((void *)address);
	CUresult error;

	if (!block || block->kind != BLOCK_GRAPH || (CUdeviceptr)block->base != address)
		return CUDA_ERROR_INVALID_VALUE;
	error = graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, before, count, &node);
	if (error)
		return error;
	handle_retain(block);
	node->block = NULL;
	node->op = (struct op){ .kind = OP_FREE, .block = block };
	node->params.freed = address;
	*out = node;
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ the calls that add */

/* Puts a finished op into a new node; the op is released when that fails. */
static CUresult add_op(CUgraphNode *out, CUgraph handle, const CUgraphNode *before, size_t count,
		       CUgraphNodeType type, struct op *op, const union node_params *params)
{
	struct graph *graph;
	struct graph_node *node = NULL;
	CUresult error = graph_find(handle, &graph);

	if (!error && !out)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = graph_add(graph, type, before, count, &node);
	if (error) {
		op_release(op);
		return error;
	}
	node->op = *op;
	node->params = *params;
	*out = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

CUresult node_add_empty(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			size_t numDependencies)
{
	const union node_params params = { .freed = 0 };
	struct op op = { .kind = OP_NOTHING };

	return add_op(phGraphNode, hGraph, dependencies, numDependencies,
		      CU_GRAPH_NODE_TYPE_EMPTY, &op, &params);
}

CUresult node_add_copy(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
		       size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	union node_params params = { .freed = 0 };
	struct op op;
	CUresult error = context_check(ctx);

	if (!error)
		error = node_make_copy(&op, copyParams);
	if (error)
		return error;
	params.copy = *copyParams;
	return add_op(phGraphNode, hGraph, dependencies, numDependencies,
		      CU_GRAPH_NODE_TYPE_MEMCPY, &op, &params);
}

CUresult node_add_memset(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			 size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams,
			 CUcontext ctx)
{
	union node_params params = { .freed = 0 };
	struct op op;
	CUresult error = context_check(ctx);

	if (!error)
		error = node_make_memset(&op, memsetParams);
	if (error)
		return error;
	params.fill = *memsetParams;
	return add_op(phGraphNode, hGraph, dependencies, numDependencies,
		      CU_GRAPH_NODE_TYPE_MEMSET, &op, &params);
}

CUresult node_add_host(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
		       size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	union node_params params = { .freed = 0 };
	struct op op;
	CUresult error = node_make_host(&op, nodeParams);

	if (error)
		return error;
	params.host = *nodeParams;
	return add_op(phGraphNode, hGraph, dependencies, numDependencies,
		      CU_GRAPH_NODE_TYPE_HOST, &op, &params);
}

CUresult node_add_kernel(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			 size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	union node_params params = { .freed = 0 };
	struct op op;
	CUresult error = node_make_kernel(&op, nodeParams);

	if (error)
		return error;
	launch_describe(op.kernel, &params.kernel);
	return add_op(phGraphNode, hGraph, dependencies, numDependencies,
		      CU_GRAPH_NODE_TYPE_KERNEL, &op, &params);
}

CUresult node_add_kernel_old(CUgraphNode *phGraphNode, CUgraph hGraph,
			     const CUgraphNode *dependencies, size_t numDependencies,
			     const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS params = {0};

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&params, nodeParams, sizeof(*nodeParams));
	return node_add_kernel(phGraphNode, hGraph, dependencies, numDependencies, &params);
}

CUresult node_add_alloc(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	struct graph *graph;
	struct graph_node *node;
	struct device *device;
	CUresult error = graph_find(hGraph, &graph);

	if (error || !phGraphNode || !nodeParams || !nodeParams->bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	error = device_find(nodeParams->poolProps.location.id, &device);
	if (!error)
		error = node_new_alloc(graph, dependencies, numDependencies, device,
				       nodeParams->bytesize, &node);
	if (error)
		return error;
	nodeParams->dptr = node->params.alloc.dptr;
	*phGraphNode = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

CUresult node_add_free(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
		       size_t numDependencies, CUdeviceptr dptr)
{
	struct graph *graph;
	struct graph_node *node;
	CUresult error = graph_find(hGraph, &graph);

	if (error || !phGraphNode)
		return CUDA_ERROR_INVALID_VALUE;
	error = node_new_free(graph, dependencies, numDependencies, dptr, &node);
	if (!error)
		*phGraphNode = (CUgraphNode)node;
	return error;
}

CUresult node_add_child(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			size_t numDependencies, CUgraph childGraph)
{
	union node_params params = { .freed = 0 };
	struct op op = { .kind = OP_NOTHING };
	struct graph *child;
	CUresult error = graph_find(childGraph, &child);

	if (!error)
		error = graph_copy(child, &params.child);
	if (error)
		return error;
	params.child->owned = true;
	error = add_op(phGraphNode, hGraph, dependencies, numDependencies,
		       CU_GRAPH_NODE_TYPE_GRAPH, &op, &params);
	if (error)
		graph_end(params.child);
	return error;
}

static CUresult add_event(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
			  CUgraphNodeType type, CUevent event)
{
	const union node_params params = { .event = event };
	struct op op = {
		.kind = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? OP_EVENT : OP_EVENT_WAIT,
		.event = (struct event *)event,
	};
	CUresult error = handle_check(OBJECT_EVENT, event);

	if (error)
		return error;
	handle_retain(event);
	return add_op(out, graph, before, count, type, &op, &params);
}

CUresult node_add_record(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			 size_t numDependencies, CUevent event)
{
	return add_event(phGraphNode, hGraph, dependencies, numDependencies,
			 CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult node_add_wait(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
		       size_t numDependencies, CUevent event)
{
	return add_event(phGraphNode, hGraph, dependencies, numDependencies,
			 CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}
