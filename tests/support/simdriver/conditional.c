/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes of graphs.  Kernels do nothing here, so nobody changes what
 * decides: a body runs by the value given at first, and one that would be repeated
 * would be so for ever, which is not supported.
 */
#include "sim.h"
#include "entries.h"
#include "graph.h"

CUresult conditional_create(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx,
			    unsigned int defaultLaunchValue, unsigned int flags)
{
	struct condition *condition;
	struct graph *graph;
	CUresult error = graph_find(hGraph, &graph);

	if (!error)
		error = context_check(ctx);
	if (error || !pHandle_out || flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT)
		return error ? error : CUDA_ERROR_INVALID_VALUE;
	condition = calloc(1, sizeof(*condition));
	if (!condition)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (flags & CU_GRAPH_COND_ASSIGN_DEFAULT)
		condition->value = defaultLaunchValue;
	condition->next = graph->conditions;
	graph->conditions = condition;
	*pHandle_out = (CUgraphConditionalHandle)(uintptr_t)condition;
	return CUDA_SUCCESS;
}

static const struct condition *find(const struct graph *graph, CUgraphConditionalHandle handle)
{
	const struct condition *condition = graph->conditions;

	while (condition && (CUgraphConditionalHandle)(uintptr_t)condition != handle)
		condition = condition->next;
	return condition;
}

static bool has_good_size(const CUDA_CONDITIONAL_NODE_PARAMS *params)
{
	return params->size == 1 || (params->size == 2 && params->type == CU_GRAPH_COND_TYPE_IF) ||
	       (params->size > 2 && params->type == CU_GRAPH_COND_TYPE_SWITCH);
}

static unsigned int choose(const CUDA_CONDITIONAL_NODE_PARAMS *params, unsigned int value)
{
	if (params->type == CU_GRAPH_COND_TYPE_IF)
		return value ? 0 : 1;
	return value < params->size ? value : params->size;
}

static CUresult make_bodies(struct conditional *conditional, unsigned int size)
{
	conditional->bodies = calloc(size, sizeof(*conditional->bodies));
	if (!conditional->bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (; conditional->size < size; conditional->size++) {
		struct graph *body = graph_new();

		if (!body)
			return CUDA_ERROR_OUT_OF_MEMORY;
		body->owned = true;
		conditional->bodies[conditional->size] = body;
	}
	return CUDA_SUCCESS;
}

CUresult conditional_add(CUgraphNode *out, CUgraph handle, const CUgraphNode *before, size_t count,
			 CUgraphNodeParams *params)
{
	const struct condition *condition = NULL;
	struct graph *graph;
	struct graph_node *node;
	CUresult error = graph_find(handle, &graph);

	if (!error)
		condition = find(graph, params->conditional.handle);
	if (!out || !condition || !has_good_size(&params->conditional))
		return CUDA_ERROR_INVALID_VALUE;
	if (params->conditional.type == CU_GRAPH_COND_TYPE_WHILE)
		return CUDA_ERROR_NOT_SUPPORTED;
	error = graph_add(graph, CU_GRAPH_NODE_TYPE_CONDITIONAL, before, count, &node);
	if (error)
		return error;
	node->params.conditional.chosen = choose(&params->conditional, condition->value);
	error = make_bodies(&node->params.conditional, params->conditional.size);
	if (error) {
		graph_destroy_node((CUgraphNode)node);
		return error;
	}
	params->conditional.phGraph_out = (CUgraph *)node->params.conditional.bodies;
	*out = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

void conditional_end_node(struct graph_node *node)
{
	for (unsigned int i = 0; i < node->params.conditional.size; i++)
		graph_end(node->params.conditional.bodies[i]);
	free(node->params.conditional.bodies);
}

void conditional_end_graph(struct graph *graph)
{
	struct condition *condition, *next;

	for (condition = graph->conditions; condition; condition = next) {
		next = condition->next;
		free(condition);
	}
}
