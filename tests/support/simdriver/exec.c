/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs: the nodes' work in one list, run as a single op of a stream. */
#include "sim.h"
#include "entries.h"
#include "graph.h"
#include "launch.h"

struct op exec_copy_op(const struct op *op)
{
	struct op copy = *op;

	if (op->kind == OP_KERNEL)
		launch_retain(op->kernel);
	else if (op->kind == OP_EVENT || op->kind == OP_EVENT_WAIT)
		handle_retain(op->event);
	else if (op->kind == OP_FREE)
		handle_retain(op->block);
	return copy;
}

static CUresult find_exec(CUgraphExec handle, struct exec **exec)
{
	CUresult error = handle_check(OBJECT_EXEC, handle);

	*exec = (struct exec *)handle;
	return error ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ making one */

static size_t count_steps(const struct graph *graph);

static size_t count_inside(const struct graph_node *node)
{
	size_t count = 0;

	if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return count_steps(node->params.child);
	if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		for (unsigned int i = 0; i < node->params.conditional.size; i++)
			count += count_steps(node->params.conditional.bodies[i]);
	return count;
}

static size_t count_steps(const struct graph *graph)
{
	size_t count = graph->node_count;

	for (struct graph_node *node = graph->first; node; node = node->next)
		count += count_inside(node);
	return count;
}

static void add_step(struct exec *exec, struct graph_node *node)
{
	exec->steps[exec->step_count++] = (struct exec_step){
		.node = node,
		.type = node->type,
		.op = exec_copy_op(&node->op),
		.enabled = true,
	};
}

static CUresult add_steps(struct exec *exec, struct graph *graph);

static CUresult add_bodies(struct exec *exec, const struct conditional *conditional)
{
	CUresult error = CUDA_SUCCESS;

	for (unsigned int i = 0; i < conditional->size && !error; i++) {
		size_t first = exec->step_count;

		error = add_steps(exec, conditional->bodies[i]);
		for (; i != conditional->chosen && first < exec->step_count; first++)
			exec->steps[first].skipped = true;
	}
	return error;
}

/* Children and bodies are laid out in place, behind the step of their node. */
static CUresult add_steps(struct exec *exec, struct graph *graph)
{
	struct graph_node **list = malloc((graph->node_count + 1) * sizeof(*list));
	CUresult error = list ? graph_sort(graph, list) : CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t i = 0; i < graph->node_count && !error; i++) {
		add_step(exec, list[i]);
		if (list[i]->type == CU_GRAPH_NODE_TYPE_GRAPH)
			error = add_steps(exec, list[i]->params.child);
		if (list[i]->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			error = add_bodies(exec, &list[i]->params.conditional);
	}
	free(list);
	return error;
}

static bool is_freed_in(const struct graph *graph, const struct block *block)
{
	for (struct graph_node *node = graph->first; node; node = node->next)
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE && node->op.block == block)
			return true;
	return false;
}

/* What stays allocated is handed out by the launch call itself, not by its run. */
static void leave_to_launch(struct exec *exec, const struct block *block)
{
	for (size_t i = 0; i < exec->step_count; i++)
		if (exec->steps[i].op.kind == OP_ALLOC && exec->steps[i].op.block == block)
			exec->steps[i].op.kind = OP_NOTHING;
}

static CUresult list_allocs(struct exec *exec, struct graph *graph)
{
	if (!graph->alloc_nodes)
		return CUDA_SUCCESS;
	exec->allocs = calloc(graph->alloc_nodes, sizeof(*exec->allocs));
	exec->freed_inside = calloc(graph->alloc_nodes, sizeof(*exec->freed_inside));
	if (!exec->allocs || !exec->freed_inside)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (struct graph_node *node = graph->first; node; node = node->next) {
		if (!node->block)
			continue;
		handle_retain(node->block);
		exec->freed_inside[exec->alloc_count] = is_freed_in(graph, node->block);
		if (!exec->freed_inside[exec->alloc_count])
			leave_to_launch(exec, node->block);
		exec->allocs[exec->alloc_count++] = node->block;
	}
	return CUDA_SUCCESS;
}

void exec_finish(void *object)
{
	struct exec *exec = object;

	for (size_t i = 0; i < exec->step_count; i++)
		op_release(&exec->steps[i].op);
	for (size_t i = 0; i < exec->alloc_count; i++)
		graphmem_drop(exec->allocs[i]);
	free(exec->steps);
	free(exec->allocs);
	free(exec->freed_inside);
	own_repay(&exec->owed);
	userobject_drop_held(exec->held);
}

void exec_give(struct exec *exec)
{
	handle_give(OBJECT_EXEC, exec);
}

static CUresult build(struct graph *graph, unsigned long long flags, struct exec **out)
{
	struct exec *exec;
	CUresult error;

	if (graph->alloc_nodes && graph->live)
		return CUDA_ERROR_NOT_SUPPORTED;
	exec = handle_new(OBJECT_EXEC);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&exec->lock, NULL);
	exec->flags = flags;
	exec->steps = calloc(count_steps(graph) + 1, sizeof(*exec->steps));
	error = exec->steps ? add_steps(exec, graph) : CUDA_ERROR_OUT_OF_MEMORY;
	if (!error)
		error = list_allocs(exec, graph);
	if (error) {
		exec_give(exec);
		return error;
	}
	exec->held = userobject_copy_held(graph->held);
	if (graph->alloc_nodes) {
		exec->graph = graph;
		graph->live = exec;
	}
	*out = exec;
	return CUDA_SUCCESS;
}

CUresult exec_create(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
	struct graph *graph;
	struct exec *exec;
	CUresult error = graph_find(hGraph, &graph);

	if (error || !phGraphExec)
		return CUDA_ERROR_INVALID_VALUE;
	if (graph->capturing)
		return CUDA_ERROR_ILLEGAL_STATE;
	error = build(graph, flags, &exec);
	if (!error)
		*phGraphExec = (CUgraphExec)exec;
	return error;
}

CUresult exec_create_old(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
			 char *logBuffer, size_t bufferSize)
{
	if (phErrorNode)
		*phErrorNode = NULL;
	if (logBuffer && bufferSize)
		*logBuffer = '\0';
	return exec_create(phGraphExec, hGraph, 0);
}

CUresult exec_create_params(CUgraphExec *phGraphExec, CUgraph hGraph,
			    CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUresult error;

	if (!instantiateParams)
		return CUDA_ERROR_INVALID_VALUE;
	error = exec_create(phGraphExec, hGraph, instantiateParams->flags);
	instantiateParams->hErrNode_out = NULL;
	instantiateParams->result_out = error ? CUDA_GRAPH_INSTANTIATE_ERROR :
						CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return error;
}

CUresult exec_destroy(CUgraphExec hGraphExec)
{
	struct exec *exec;
	CUresult error = find_exec(hGraphExec, &exec);

	if (error)
		return error;
	if (exec->graph)
		exec->graph->live = NULL;
	/* Now, not when the worker lets go of its last run. */
	own_repay(&exec->owed);
	handle_kill(exec);
	exec_give(exec);
	return CUDA_SUCCESS;
}

CUresult exec_flags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	struct exec *exec;
	CUresult error = find_exec(hGraphExec, &exec);

	if (error || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ launching */

/* Allocations that the last launch left open are an error, or freed now. */
static CUresult prepare_allocs(struct exec *exec)
{
	const bool auto_free = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
	CUresult error = CUDA_SUCCESS;

	for (size_t i = 0; i < exec->alloc_count && !error; i++) {
		struct block *block = exec->allocs[i];

		if (!exec->freed_inside[i] && block->live && !auto_free)
			return CUDA_ERROR_INVALID_VALUE;
		error = graphmem_charge(block);
	}
	for (size_t i = 0; i < exec->alloc_count && !error; i++)
		if (!exec->freed_inside[i] && !exec->allocs[i]->live)
			graphmem_show(exec->allocs[i]);
	return error;
}

/* An executable graph lies on the device from its first launch or upload. */
static CUresult take_room(struct exec *exec, struct context *context)
{
	if (exec->owed.bytes && exec->owed.context_id == context->id)
		return CUDA_SUCCESS;
	own_repay(&exec->owed);
	return own_owe(&exec->owed, context, settings.graph_bytes);
}

CUresult exec_launch(CUgraphExec hGraph, CUstream hStream)
{
	struct op op = { .kind = OP_GRAPH };
	struct stream *stream;
	struct exec *exec;
	CUresult error = find_exec(hGraph, &exec);

	if (!error)
		error = stream_find(hStream, &stream);
	if (!error)
		error = capture_check_legacy(stream);
	/* A launch does not become a child node here. */
	if (!error)
		error = capture_check_stream(stream);
	if (error)
		return error;
	if (!config_may_allocate())
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = take_room(exec, stream->context);
	if (!error)
		error = prepare_allocs(exec);
	if (error)
		return error;
	context_pass_gate(stream->context);
	handle_retain(exec);
	op.exec = exec;
	return queue_submit(stream, &op, NULL);
}

CUresult exec_upload(CUgraphExec hGraph, CUstream hStream)
{
	struct stream *stream;
	struct exec *exec;
	CUresult error = find_exec(hGraph, &exec);

	if (!error)
		error = stream_find(hStream, &stream);
	return error ? error : take_room(exec, stream->context);
}

void exec_run(struct exec *exec, struct stream *stream)
{
	pthread_mutex_lock(&exec->lock);
	for (size_t i = 0; i < exec->step_count && !atomic_load(&config_stopping); i++)
		if (exec->steps[i].enabled && !exec->steps[i].skipped)
			op_run(&exec->steps[i].op, stream);
	pthread_mutex_unlock(&exec->lock);
}

/* ------------------------------------------------------------------ changing it */

static struct exec_step *find_step(struct exec *exec, CUgraphNode node)
{
	for (size_t i = 0; i < exec->step_count; i++)
		if (exec->steps[i].node == (struct graph_node *)node)
			return &exec->steps[i];
	return NULL;
}

static void replace(struct exec *exec, struct exec_step *step, const struct op *op)
{
	pthread_mutex_lock(&exec->lock);
	op_release(&step->op);
	step->op = *op;
	pthread_mutex_unlock(&exec->lock);
}

static CUresult find_both(CUgraphExec handle, CUgraphNode node, CUgraphNodeType type,
			  struct exec **exec, struct exec_step **step)
{
	CUresult error = find_exec(handle, exec);

	if (error)
		return error;
	*step = find_step(*exec, node);
	return *step && (*step)->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult exec_set_copy(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams,
		       CUcontext ctx)
{
	struct exec_step *step;
	struct exec *exec;
	struct op op;
	CUresult error = find_both(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &exec, &step);

	if (!error)
		error = context_check(ctx);
	if (!error)
		error = node_make_copy(&op, copyParams);
	if (!error)
		replace(exec, step, &op);
	return error;
}

CUresult exec_set_memset(CUgraphExec hGraphExec, CUgraphNode hNode,
			 const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	struct exec_step *step;
	struct exec *exec;
	struct op op;
	CUresult error = find_both(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMSET, &exec, &step);

	if (!error)
		error = context_check(ctx);
	if (!error)
		error = node_make_memset(&op, memsetParams);
	if (!error)
		replace(exec, step, &op);
	return error;
}

CUresult exec_set_host(CUgraphExec hGraphExec, CUgraphNode hNode,
		       const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct exec_step *step;
	struct exec *exec;
	struct op op;
	CUresult error = find_both(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_HOST, &exec, &step);

	if (!error)
		error = node_make_host(&op, nodeParams);
	if (!error)
		replace(exec, step, &op);
	return error;
}

CUresult exec_set_kernel(CUgraphExec hGraphExec, CUgraphNode hNode,
			 const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct exec_step *step;
	struct exec *exec;
	struct op op;
	CUresult error = find_both(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL, &exec, &step);

	if (!error)
		error = node_make_kernel(&op, nodeParams);
	if (!error)
		replace(exec, step, &op);
	return error;
}

CUresult exec_set_kernel_old(CUgraphExec hGraphExec, CUgraphNode hNode,
			     const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS params = {0};

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&params, nodeParams, sizeof(*nodeParams));
	return exec_set_kernel(hGraphExec, hNode, &params);
}

/* Kernels, copies and memsets can be switched off, nothing else. */
CUresult exec_set_enabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
	struct exec *exec;
	struct exec_step *step;
	CUresult error = find_exec(hGraphExec, &exec);

	if (error)
		return error;
	step = find_step(exec, hNode);
	if (!step || (step->type != CU_GRAPH_NODE_TYPE_KERNEL &&
		      step->type != CU_GRAPH_NODE_TYPE_MEMCPY &&
		      step->type != CU_GRAPH_NODE_TYPE_MEMSET))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&exec->lock);
	step->enabled = isEnabled;
	pthread_mutex_unlock(&exec->lock);
	return CUDA_SUCCESS;
}

CUresult exec_enabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
	struct exec *exec;
	struct exec_step *step;
	CUresult error = find_exec(hGraphExec, &exec);

	if (error)
		return error;
	step = find_step(exec, hNode);
	if (!step || !isEnabled)
		return CUDA_ERROR_INVALID_VALUE;
	*isEnabled = step->enabled;
	return CUDA_SUCCESS;
}

/* The steps from `first` on get what `fresh` does, whose nodes are the same in the same order. */
static CUgraphExecUpdateResult take_steps(struct exec *exec, size_t first, size_t count,
					  struct exec *fresh)
{
	struct exec_step *steps = &exec->steps[first];

	if (fresh->step_count != count)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	for (size_t i = 0; i < count; i++)
		if (fresh->steps[i].type != steps[i].type)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
	pthread_mutex_lock(&exec->lock);
	for (size_t i = 0; i < count; i++) {
		struct op before = steps[i].op;

		steps[i].op = fresh->steps[i].op;
		fresh->steps[i].op = before;
	}
	pthread_mutex_unlock(&exec->lock);
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUgraphExecUpdateResult update(struct exec *exec, size_t first, size_t count,
				      struct graph *graph)
{
	CUgraphExecUpdateResult result;
	struct exec *fresh;

	if (graph->alloc_nodes || exec->alloc_count)
		return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
	if (build(graph, exec->flags, &fresh))
		return CU_GRAPH_EXEC_UPDATE_ERROR;
	result = take_steps(exec, first, count, fresh);
	exec_give(fresh);
	return result;
}

CUresult exec_update(CUgraphExec hGraphExec, CUgraph hGraph,
		     CUgraphExecUpdateResultInfo *resultInfo)
{
	struct exec *exec;
	struct graph *graph;
	CUresult error = find_exec(hGraphExec, &exec);

	if (!error)
		error = graph_find(hGraph, &graph);
	if (error || !resultInfo)
		return CUDA_ERROR_INVALID_VALUE;
	*resultInfo = (CUgraphExecUpdateResultInfo){
		.result = update(exec, 0, exec->step_count, graph)
	};
	return resultInfo->result ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : CUDA_SUCCESS;
}

CUresult exec_update_old(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
			 CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info;
	CUresult error;

	if (!updateResult_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (hErrorNode_out)
		*hErrorNode_out = NULL;
	error = exec_update(hGraphExec, hGraph, &info);
	if (!error || error == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
		*updateResult_out = info.result;
	return error;
}

/* A child's steps stand behind that of its node. */
CUresult exec_set_child(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
	struct exec_step *step;
	struct exec *exec;
	struct graph *child;
	CUresult error = find_both(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_GRAPH, &exec, &step);

	if (!error)
		error = graph_find(childGraph, &child);
	if (!error && update(exec, (size_t)(step - exec->steps) + 1,
			     count_steps(step->node->params.child), child))
		error = CUDA_ERROR_INVALID_VALUE;
	return error;
}

static CUcontext or_current(CUcontext context)
{
	return context ? context : (CUcontext)sim_thread.current;
}

CUresult exec_set_any(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_HOST_NODE_PARAMS host;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	switch (nodeParams->type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return exec_set_copy(hGraphExec, hNode, &nodeParams->memcpy.copyParams,
				     or_current(nodeParams->memcpy.copyCtx));
	case CU_GRAPH_NODE_TYPE_MEMSET:
		fill = (CUDA_MEMSET_NODE_PARAMS){
			.dst = nodeParams->memset.dst,
			.pitch = nodeParams->memset.pitch,
			.value = nodeParams->memset.value,
			.elementSize = nodeParams->memset.elementSize,
			.width = nodeParams->memset.width,
			.height = nodeParams->memset.height,
		};
		return exec_set_memset(hGraphExec, hNode, &fill,
				       or_current(nodeParams->memset.ctx));
	case CU_GRAPH_NODE_TYPE_HOST:
		host = (CUDA_HOST_NODE_PARAMS){ nodeParams->host.fn, nodeParams->host.userData };
		return exec_set_host(hGraphExec, hNode, &host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return exec_set_child(hGraphExec, hNode, nodeParams->graph.graph);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}
