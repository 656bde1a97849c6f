/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/graph_walk.h"
#include "core/lock.h"
#include "intercept/copy_end.h"
#include "intercept/real.h"

#include <errno.h>
#include <string.h>

enum {
	DEEPEST = 32,	/* graphs within graphs */
	BODIES = 1024,	/* conditional nodes that are known at a time */
	HOME_SHIFT = 54,
	NEAR = 4,	/* places that a node can have */
};

/* A node that finds no place pushes another one out, whose bodies are not known from then on. */
struct conditional {
	uint64_t node;
	const CUgraph *bodies;
	unsigned int count;
};

static struct {
	struct lock lock;
	struct conditional table[BODIES];
} known;

static struct conditional *place_of(uint64_t node, unsigned int i)
{
	return &known.table[((node * UINT64_C(0x9e3779b97f4a7c15) >> HOME_SHIFT) + i) % BODIES];
}

void graph_walk_note_bodies(uint64_t node, const CUgraph *bodies, unsigned int count)
{
	struct conditional *place;
	unsigned int i = 0;

	lock_take(&known.lock);
	while (i < NEAR && place_of(node, i)->node && place_of(node, i)->node != node)
		i++;
	place = place_of(node, i < NEAR ? i : (unsigned int)(node >> 4) % NEAR);
	*place = (struct conditional){ node, bodies, count };
	lock_give(&known.lock);
}

static bool find_bodies(uint64_t node, struct conditional *found)
{
	bool is_found = false;

	lock_take(&known.lock);
	for (unsigned int i = 0; i < NEAR && !is_found; i++) {
		*found = *place_of(node, i);
		is_found = found->node == node && found->bodies;
	}
	lock_give(&known.lock);
	return is_found;
}

void graph_walk_reset(void)
{
	memset(&known, 0, sizeof(known));
}

static uint64_t at_least_one(uint64_t extent)
{
	return extent ? extent : 1;
}

void graph_walk_copy(struct graph_item *item, const CUDA_MEMCPY3D *copy)
{
	struct copy_end source, target;
	struct box box;

	box_of_3d(&box, copy);
	source = copy_end_of(&box.source);
	target = copy_end_of(&box.target);
	copy_end_place(&source);
	copy_end_place(&target);
	item->kind = (uint8_t)copy_end_kind(&source, &target);
	item->source = (uint8_t)source.place;
	item->target = (uint8_t)target.place;
	item->bytes = copy->WidthInBytes * at_least_one(copy->Height) * at_least_one(copy->Depth);
}

void graph_walk_fill(struct graph_item *item, const CUDA_MEMSET_NODE_PARAMS *fill)
{
	struct copy_end target = {
		.address = fill->dst,
		.side = COPY_SIDE_DEVICE,
		.device = -1,
	};

	copy_end_place(&target);
	item->kind = TRANSFER_MEMSET;
	item->target = (uint8_t)target.place;
	item->bytes = (uint64_t)fill->elementSize * fill->width * at_least_one(fill->height);
}

/* A new item for a node that could be read; NULL: it could not, or there is no memory. */
static struct graph_item *add_item(struct graph_list *list, enum graph_item_type type,
				   CUgraphNode node, CUresult result)
{
	uint32_t at = UINT32_MAX;

	if (result == CUDA_SUCCESS)
		at = graph_list_add(list, type, (uintptr_t)node);
	else
		list->is_incomplete = true;
	return at == UINT32_MAX ? NULL : &list->item[at];
}

static void read_copy(struct graph_list *list, CUgraphNode node)
{
	CUDA_MEMCPY3D copy = { 0 };
	CUresult result = REAL(driver, cuGraphMemcpyNodeGetParams)(node, &copy);
	struct graph_item *item = add_item(list, GRAPH_ITEM_COPY, node, result);

	if (item)
		graph_walk_copy(item, &copy);
}

static void read_fill(struct graph_list *list, CUgraphNode node)
{
	CUDA_MEMSET_NODE_PARAMS fill = { 0 };
	CUresult result = REAL(driver, cuGraphMemsetNodeGetParams)(node, &fill);
	struct graph_item *item = add_item(list, GRAPH_ITEM_COPY, node, result);

	if (item)
		graph_walk_fill(item, &fill);
}

static void read_alloc(struct graph_list *list, CUgraphNode node)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = { 0 };
	CUresult result = REAL(driver, cuGraphMemAllocNodeGetParams)(node, &alloc);
	struct graph_item *item = add_item(list, GRAPH_ITEM_ALLOC, node, result);

	if (!item)
		return;
	item->address = alloc.dptr;
	item->bytes = alloc.bytesize;
	if (alloc.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		item->device = (int16_t)alloc.poolProps.location.id;
}

static void read_free(struct graph_list *list, CUgraphNode node)
{
	CUdeviceptr address = 0;
	CUresult result = REAL(driver, cuGraphMemFreeNodeGetParams)(node, &address);
	struct graph_item *item = add_item(list, GRAPH_ITEM_FREE, node, result);

	if (item)
		item->address = address;
}

static void read_graph(struct graph_list *list, CUgraph graph, int depth);

/* All behind `at` was read from within it. */
static void close_item(struct graph_list *list, uint32_t at)
{
	if (at < list->count)
		list->item[at].inside = list->count - at - 1;
}

static void read_child(struct graph_list *list, CUgraphNode node, int depth)
{
	uint32_t at = graph_list_add(list, GRAPH_ITEM_CHILD, (uintptr_t)node);
	CUgraph child = NULL;

	if (REAL(driver, cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS)
		read_graph(list, child, depth);
	else
		list->is_incomplete = true;
	close_item(list, at);
}

static void read_conditional(struct graph_list *list, CUgraphNode node, int depth)
{
	uint32_t at = graph_list_add(list, GRAPH_ITEM_CONDITIONAL, (uintptr_t)node);
	struct conditional conditional;

	if (!find_bodies((uintptr_t)node, &conditional)) {
		list->is_incomplete = true;
		return;
	}
	for (unsigned int i = 0; i < conditional.count; i++)
		read_graph(list, conditional.bodies[i], depth);
	close_item(list, at);
	for (uint32_t i = at; i < list->count; i++)
		list->item[i].is_conditional = i > at;
}

static void read_node(struct graph_list *list, CUgraphNode node, int depth)
{
	CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;

	if (REAL(driver, cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS) {
		list->is_incomplete = true;
		return;
	}
	switch (type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		read_copy(list, node);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		read_fill(list, node);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		read_child(list, node, depth + 1);
		break;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		read_conditional(list, node, depth + 1);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		read_alloc(list, node);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		read_free(list, node);
		break;
	default: /* neither copies nor holds memory */
		break;
	}
}

static void read_nodes(struct graph_list *list, CUgraph graph, size_t count, int depth)
{
	unsigned int class;
	CUgraphNode *nodes = graph_list_take_memory(count * sizeof(*nodes), &class);

	if (!nodes || REAL(driver, cuGraphGetNodes)(graph, nodes, &count) != CUDA_SUCCESS)
		list->is_incomplete = true;
	else
		for (size_t i = 0; i < count; i++)
			read_node(list, nodes[i], depth);
	if (nodes)
		graph_list_give_memory(nodes, class);
}

static void read_graph(struct graph_list *list, CUgraph graph, int depth)
{
	size_t count = 0;

	if (depth > DEEPEST ||
	    REAL(driver, cuGraphGetNodes)(graph, NULL, &count) != CUDA_SUCCESS)
		list->is_incomplete = true;
	else if (count)
		read_nodes(list, graph, count, depth);
}

void graph_walk(struct graph_list *list, uint64_t graph)
{
	int saved_errno = errno;

	*list = (struct graph_list){ 0 };
	read_graph(list, (CUgraph)(uintptr_t)graph, 0);
	errno = saved_errno;
}
