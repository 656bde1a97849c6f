/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as a structure: nodes, what stands behind what, copies, order. */
#include "sim.h"
#include "entries.h"
#include "graph.h"

CUresult graph_find(CUgraph handle, struct graph **graph)
{
	CUresult error = handle_check(OBJECT_GRAPH, handle);

	*graph = (struct graph *)handle;
	return error ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult graph_find_node(CUgraphNode handle, struct graph_node **node)
{
	CUresult error = handle_check(OBJECT_NODE, handle);

	*node = (struct graph_node *)handle;
	return error ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ nodes and edges */

static bool has_edge(const struct graph_node *from, const struct graph_node *to)
{
	for (size_t i = 0; i < to->before_count; i++)
		if (to->before[i] == from)
			return true;
	return false;
}

static CUresult add_edge(struct graph_node *from, struct graph_node *to)
{
	struct graph_node **before;

	if (to->before_count == to->before_room) {
		size_t room = to->before_room ? to->before_room * 2 : 2;

		before = realloc(to->before, room * sizeof(*before));
		if (!before)
			return CUDA_ERROR_OUT_OF_MEMORY;
		to->before = before;
		to->before_room = room;
	}
	to->before[to->before_count++] = from;
	return CUDA_SUCCESS;
}

static bool drop_edge(struct graph_node *from, struct graph_node *to)
{
	for (size_t i = 0; i < to->before_count; i++) {
		if (to->before[i] != from)
			continue;
		to->before_count--;
		memmove(&to->before[i], &to->before[i + 1],
			(to->before_count - i) * sizeof(*to->before));
		return true;
	}
	return false;
}

static CUresult check_before(struct graph *graph, const CUgraphNode *before, size_t count)
{
	struct graph_node *node;
	CUresult error;

	if (count && !before)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		error = graph_find_node(before[i], &node);
		if (error || node->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult graph_add(struct graph *graph, CUgraphNodeType type, const CUgraphNode *before,
		   size_t count, struct graph_node **out)
{
	CUresult error = check_before(graph, before, count);
	struct graph_node *node;

	if (error)
		return error;
	node = handle_new(OBJECT_NODE);
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->graph = graph;
	node->type = type;
	for (size_t i = 0; i < count && !error; i++)
		error = add_edge((struct graph_node *)before[i], node);
	if (error) {
		graph_end_node(node);
		return error;
	}
	if (graph->last)
		graph->last->next = node;
	else
		graph->first = node;
	graph->last = node;
	graph->node_count++;
	*out = node;
	return CUDA_SUCCESS;
}

/* Frees what a node owns; it is off its graph's list already. */
void graph_end_node(struct graph_node *node)
{
	op_release(&node->op);
	node->op.kind = OP_NOTHING;
	if (node->type == CU_GRAPH_NODE_TYPE_GRAPH && node->params.child)
		graph_end(node->params.child);
	if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		conditional_end_node(node);
	if (node->block)
		graphmem_drop(node->block);
	free(node->before);
	handle_kill(node);
	handle_give(OBJECT_NODE, node);
}

static CUresult change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
			     size_t count, bool add)
{
	struct graph *graph;
	CUresult error = graph_find(handle, &graph);

	if (!error)
		error = check_before(graph, from, count);
	if (!error)
		error = check_before(graph, to, count);
	for (size_t i = 0; i < count && !error; i++) {
		struct graph_node *a = (struct graph_node *)from[i];
		struct graph_node *b = (struct graph_node *)to[i];

		if (a == b || (add && has_edge(a, b)))
			error = CUDA_ERROR_INVALID_VALUE;
		else if (add)
			error = add_edge(a, b);
		else if (!drop_edge(a, b))
			error = CUDA_ERROR_INVALID_VALUE;
	}
	return error;
}

CUresult graph_link(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
		    const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	(void)edgeData;
	return change_edges(hGraph, from, to, numDependencies, true);
}

CUresult graph_link_old(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
			size_t numDependencies)
{
	return change_edges(hGraph, from, to, numDependencies, true);
}

CUresult graph_unlink(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
		      const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	(void)edgeData;
	return change_edges(hGraph, from, to, numDependencies, false);
}

CUresult graph_unlink_old(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
			  size_t numDependencies)
{
	return change_edges(hGraph, from, to, numDependencies, false);
}

CUresult graph_destroy_node(CUgraphNode hNode)
{
	struct graph_node *node, **place, *last = NULL;
	CUresult error = graph_find_node(hNode, &node);
	struct graph *graph;

	if (error)
		return error;
	/* Nodes of memory hold the graph together: not supported on a real driver either. */
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return CUDA_ERROR_NOT_SUPPORTED;
	graph = node->graph;
	for (place = &graph->first; *place != node; place = &(*place)->next)
		last = *place;
	*place = node->next;
	if (graph->last == node)
		graph->last = last;
	graph->node_count--;
	for (struct graph_node *other = graph->first; other; other = other->next)
		drop_edge(node, other);
	graph_end_node(node);
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ whole graphs */

struct graph *graph_new(void)
{
	return handle_new(OBJECT_GRAPH);
}

CUresult graph_create(CUgraph *phGraph, unsigned int flags)
{
	if (!phGraph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = (CUgraph)graph_new();
	return *phGraph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void graph_end(struct graph *graph)
{
	struct graph_node *node, *next;

	handle_kill(graph);
	if (graph->live)
		graph->live->graph = NULL;
	for (node = graph->first; node; node = next) {
		next = node->next;
		graph_end_node(node);
	}
	userobject_drop_held(graph->held);
	conditional_end_graph(graph);
	handle_give(OBJECT_GRAPH, graph);
}

CUresult graph_destroy(CUgraph hGraph)
{
	struct graph *graph;
	CUresult error = graph_find(hGraph, &graph);

	if (error || graph->owned || graph->capturing)
		return error ? error : CUDA_ERROR_INVALID_VALUE;
	graph_end(graph);
	return CUDA_SUCCESS;
}

static struct graph_node *find_copy(const struct graph *graph, const struct graph_node *original)
{
	struct graph_node *node = graph->first;

	while (node && node->original != original)
		node = node->next;
	return node;
}

static CUresult copy_node(const struct graph_node *from, struct graph *to)
{
	struct graph_node *node;
	CUresult error = graph_add(to, from->type, NULL, 0, &node);

	if (error)
		return error;
	node->original = (struct graph_node *)(uintptr_t)from;
	node->op = exec_copy_op(&from->op);
	node->params = from->params;
	if (from->type != CU_GRAPH_NODE_TYPE_GRAPH)
		return CUDA_SUCCESS;
	node->params.child = NULL;
	error = graph_copy(from->params.child, &node->params.child);
	if (!error)
		node->params.child->owned = true;
	return error;
}

static CUresult copy_edges(const struct graph_node *from, const struct graph *to)
{
	struct graph_node *node = find_copy(to, from);
	CUresult error = CUDA_SUCCESS;

	for (size_t i = 0; i < from->before_count && !error; i++)
		error = add_edge(find_copy(to, from->before[i]), node);
	return error;
}

CUresult graph_copy(struct graph *from, struct graph **to)
{
	struct graph *graph;
	CUresult error = CUDA_SUCCESS;

	if (from->alloc_nodes || from->conditions)
		return CUDA_ERROR_NOT_SUPPORTED;
	graph = graph_new();
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (struct graph_node *node = from->first; node && !error; node = node->next)
		error = copy_node(node, graph);
	for (struct graph_node *node = from->first; node && !error; node = node->next)
		error = copy_edges(node, graph);
	if (error) {
		graph_end(graph);
		return error;
	}
	graph->held = userobject_copy_held(from->held);
	*to = graph;
	return CUDA_SUCCESS;
}

CUresult graph_clone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	struct graph *graph, *copy;
	CUresult error = graph_find(originalGraph, &graph);

	if (!error && !phGraphClone)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = graph_copy(graph, &copy);
	if (!error)
		*phGraphClone = (CUgraph)copy;
	return error;
}

CUresult graph_find_clone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
	struct graph *graph;
	struct graph_node *node;
	CUresult error = graph_find(hClonedGraph, &graph);

	if (error || !phNode)
		return CUDA_ERROR_INVALID_VALUE;
	node = find_copy(graph, (struct graph_node *)hOriginalNode);
	if (!node || !hOriginalNode)
		return CUDA_ERROR_INVALID_VALUE;
	*phNode = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ order */

static void visit(struct graph_node *node, struct graph_node **list, size_t *count, bool *cycle)
{
	if (node->mark == 2)
		return;
	if (node->mark == 1) {
		*cycle = true;
		return;
	}
	node->mark = 1;
	for (size_t i = 0; i < node->before_count; i++)
		visit(node->before[i], list, count, cycle);
	node->mark = 2;
	list[(*count)++] = node;
}

CUresult graph_sort(struct graph *graph, struct graph_node **list)
{
	size_t count = 0;
	bool cycle = false;

	for (struct graph_node *node = graph->first; node; node = node->next)
		node->mark = 0;
	for (struct graph_node *node = graph->first; node; node = node->next)
		visit(node, list, &count, &cycle);
	return cycle ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ questions */

/* The driver's habit: NULL asks for the count, else the list is filled up to it. */
struct answer {
	CUgraphNode *nodes;
	size_t room, count;
};

static void put(struct answer *answer, const struct graph_node *node)
{
	if (answer->nodes && answer->count < answer->room)
		answer->nodes[answer->count] = (CUgraphNode)(uintptr_t)node;
	answer->count++;
}

static CUresult finish(const struct answer *answer, size_t *count)
{
	for (size_t i = answer->count; answer->nodes && i < answer->room; i++)
		answer->nodes[i] = NULL;
	*count = answer->count;
	return CUDA_SUCCESS;
}

static CUresult list_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count, bool roots)
{
	struct answer answer = { .nodes = nodes, .room = count ? *count : 0 };
	struct graph *graph;
	CUresult error = graph_find(handle, &graph);

	if (error || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct graph_node *node = graph->first; node; node = node->next)
		if (!roots || node->before_count == 0)
			put(&answer, node);
	return finish(&answer, count);
}

CUresult graph_nodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	return list_nodes(hGraph, nodes, numNodes, false);
}

CUresult graph_roots(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	return list_nodes(hGraph, rootNodes, numRootNodes, true);
}

static void clear_edges(CUgraphEdgeData *edges, size_t count)
{
	if (edges)
		memset(edges, 0, count * sizeof(*edges));
}

CUresult graph_edges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData,
		     size_t *numEdges)
{
	struct answer sources = { .nodes = from, .room = numEdges ? *numEdges : 0 };
	struct answer targets = { .nodes = to, .room = sources.room };
	struct graph *graph;
	CUresult error = graph_find(hGraph, &graph);

	if (error || !numEdges)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct graph_node *node = graph->first; node; node = node->next)
		for (size_t i = 0; i < node->before_count; i++) {
			put(&sources, node->before[i]);
			put(&targets, node);
		}
	clear_edges(edgeData, sources.room);
	finish(&targets, numEdges);
	return finish(&sources, numEdges);
}

CUresult graph_edges_old(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	return graph_edges(hGraph, from, to, NULL, numEdges);
}

CUresult graph_node_type(CUgraphNode hNode, CUgraphNodeType *type)
{
	struct graph_node *node;
	CUresult error = graph_find_node(hNode, &node);

	if (error || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = node->type;
	return CUDA_SUCCESS;
}

CUresult graph_node_before(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData,
			   size_t *numDependencies)
{
	struct answer answer = { .nodes = dependencies,
				 .room = numDependencies ? *numDependencies : 0 };
	struct graph_node *node;
	CUresult error = graph_find_node(hNode, &node);

	if (error || !numDependencies)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < node->before_count; i++)
		put(&answer, node->before[i]);
	clear_edges(edgeData, answer.room);
	return finish(&answer, numDependencies);
}

CUresult graph_node_before_old(CUgraphNode hNode, CUgraphNode *dependencies,
			       size_t *numDependencies)
{
	return graph_node_before(hNode, dependencies, NULL, numDependencies);
}

CUresult graph_node_after(CUgraphNode hNode, CUgraphNode *dependentNodes,
			  CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	struct answer answer = { .nodes = dependentNodes,
				 .room = numDependentNodes ? *numDependentNodes : 0 };
	struct graph_node *node;
	CUresult error = graph_find_node(hNode, &node);

	if (error || !numDependentNodes)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct graph_node *other = node->graph->first; other; other = other->next)
		if (has_edge(node, other))
			put(&answer, other);
	clear_edges(edgeData, answer.room);
	return finish(&answer, numDependentNodes);
}

CUresult graph_node_after_old(CUgraphNode hNode, CUgraphNode *dependentNodes,
			      size_t *numDependentNodes)
{
	return graph_node_after(hNode, dependentNodes, NULL, numDependentNodes);
}
