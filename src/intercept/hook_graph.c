/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node is an operation, whatever it will do: an allocation node only sets an
 * address aside.  What is copied and what memory there is comes with the launch.
 */
#include "intercept/current.h"
#include "intercept/graph_walk.h"
#include "intercept/graph_work.h"
#include "intercept/hook.h"

/* One that was refused by us says why. */
static void write_alloc(struct call *call, uint64_t graph, uint64_t address, uint64_t bytes)
{
	if (call->refusal)
		block_begin(call, &(struct block_facts){
					  .kind = BLOCK_GRAPH,
					  .bytes = bytes,
					  .device = -1,
				  });
	else
		hook_operation(call, address, graph, bytes, STREAM_NONE);
}

void hook_graph_alloc_node(struct call *call, uint64_t graph,
			   const CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	bool is_done = call->result == CUDA_SUCCESS && parameters;

	write_alloc(call, graph, is_done ? parameters->dptr : 0,
		    parameters ? parameters->bytesize : 0);
}

void hook_graph_free_node(struct call *call, uint64_t graph, uint64_t address)
{
	hook_operation(call, address, graph, 0, STREAM_NONE);
}

static bool is_read(const struct call *call, const void *parameters)
{
	return call->result == CUDA_SUCCESS && parameters;
}

void hook_graph_add_node(struct call *call, uint64_t graph, uint64_t node,
			 const CUgraphNodeParams *parameters)
{
	CUgraphNodeType type = is_read(call, parameters) ? parameters->type :
							   CU_GRAPH_NODE_TYPE_EMPTY;

	if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		graph_walk_note_bodies(node, parameters->conditional.phGraph_out,
				       parameters->conditional.size);
	if (type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		hook_graph_free_node(call, graph, parameters->free.dptr);
	else if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		write_alloc(call, graph, parameters->alloc.dptr, parameters->alloc.bytesize);
	else if (call->refusal)
		write_alloc(call, graph, 0, parameters->alloc.bytesize);
	else
		hook_operation(call, node, graph, 0, STREAM_NONE);
}

/* The graph may be gone before what was made of it is launched: it is read now. */
void hook_graph_instantiate(struct call *call, uint64_t exec, uint64_t graph)
{
	struct graph_list list;

	hook_operation(call, exec, graph, 0, STREAM_NONE);
	if (call->result != CUDA_SUCCESS || !exec)
		return;
	graph_walk(&list, graph);
	graph_work_keep(exec, &list);
}

void hook_graph_launch(struct call *call, uint64_t exec, uint64_t stream)
{
	hook_operation(call, exec, 0, 0, stream);
	if (call->result == CUDA_SUCCESS)
		graph_work_launch(call, exec, stream);
}

/* The handle may be another one's before the driver has answered. */
void hook_graph_destroy_before(struct call *call, uint64_t exec)
{
	call->work = graph_work_take(exec);
}

void hook_graph_destroy_after(struct call *call, uint64_t exec)
{
	if (call->work && call->result == CUDA_SUCCESS)
		graph_work_drop(call->work);
	else if (call->work)
		graph_work_put_back(exec, call->work);
	hook_operation(call, exec, 0, 0, STREAM_NONE);
}

void hook_graph_set_copy(struct call *call, uint64_t exec, uint64_t node,
			 const CUDA_MEMCPY3D *copy)
{
	struct graph_item item = { .node = node };

	hook_operation(call, exec, node, 0, STREAM_NONE);
	if (!is_read(call, copy))
		return;
	graph_walk_copy(&item, copy);
	graph_work_change(exec, node, &item);
}

void hook_graph_set_fill(struct call *call, uint64_t exec, uint64_t node,
			 const CUDA_MEMSET_NODE_PARAMS *fill)
{
	struct graph_item item = { .node = node };

	hook_operation(call, exec, node, 0, STREAM_NONE);
	if (!is_read(call, fill))
		return;
	graph_walk_fill(&item, fill);
	graph_work_change(exec, node, &item);
}

/* Of a node, or of all where `node` is 0, the copies are those of `graph` from now on. */
static void follow(struct call *call, uint64_t exec, uint64_t node, uint64_t graph)
{
	struct graph_list list;

	if (call->result != CUDA_SUCCESS || !graph_work_is_kept(exec))
		return;
	graph_walk(&list, graph);
	graph_work_assign(exec, node, &list);
}

void hook_graph_set_child(struct call *call, uint64_t exec, uint64_t node, uint64_t graph)
{
	hook_operation(call, exec, node, 0, STREAM_NONE);
	follow(call, exec, node, graph);
}

void hook_graph_update(struct call *call, uint64_t exec, uint64_t graph)
{
	hook_operation(call, exec, graph, 0, STREAM_NONE);
	follow(call, exec, 0, graph);
}

void hook_graph_enable(struct call *call, uint64_t exec, uint64_t node, bool is_enabled)
{
	hook_operation(call, exec, node, 0, STREAM_NONE);
	if (call->result == CUDA_SUCCESS)
		graph_work_enable(exec, node, is_enabled);
}

static void set_any_fill(struct call *call, uint64_t exec, uint64_t node,
			 const CUDA_MEMSET_NODE_PARAMS_v2 *fill)
{
	hook_graph_set_fill(call, exec, node,
			    &(CUDA_MEMSET_NODE_PARAMS){
				    .dst = fill->dst,
				    .elementSize = fill->elementSize,
				    .width = fill->width,
				    .height = fill->height,
			    });
}

void hook_graph_set_node(struct call *call, uint64_t exec, uint64_t node,
			 const CUgraphNodeParams *parameters)
{
	CUgraphNodeType type = is_read(call, parameters) ? parameters->type :
							   CU_GRAPH_NODE_TYPE_EMPTY;

	switch (type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		hook_graph_set_copy(call, exec, node, &parameters->memcpy.copyParams);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		set_any_fill(call, exec, node, &parameters->memset);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		hook_graph_set_child(call, exec, node, (uintptr_t)parameters->graph.graph);
		break;
	default:
		hook_operation(call, exec, node, 0, STREAM_NONE);
		break;
	}
}
