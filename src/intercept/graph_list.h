/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_list.h - what stands in a graph, as far as memory is concerned.
 *
 * Items come in the order in which the driver lists the nodes; what is inside of
 * a child graph or of a conditional node stands directly behind it.
 */
#ifndef CUSTODY_INTERCEPT_GRAPH_LIST_H
#define CUSTODY_INTERCEPT_GRAPH_LIST_H

#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum graph_item_type {
	GRAPH_ITEM_COPY,	/* or memset */
	GRAPH_ITEM_CHILD,
	GRAPH_ITEM_CONDITIONAL, /* its bodies run never, once or often */
	GRAPH_ITEM_ALLOC,
	GRAPH_ITEM_FREE,
};

struct graph_item {
	uint64_t node;	  /* handle, in the graph that was read */
	uint64_t address; /* of memory that is allocated or freed */
	uint64_t bytes;
	uint32_t inside;  /* how many of the items behind this one are part of it */
	int16_t device;	  /* of memory, -1: unknown */
	uint8_t type;	  /* enum graph_item_type */
	uint8_t kind;	  /* enum transfer_kind */
	uint8_t source, target; /* enum place_kind */
	bool is_enabled;
	bool is_conditional; /* inside of a conditional node */
	bool is_lasting;     /* memory that outlives the launch; after graph_list_pair() */
};

/* Open addressing; without slots nothing was entered. */
struct graph_index {
	struct graph_slot *slot;
	uint32_t mask;
	unsigned int class;
};

struct graph_list {
	struct graph_item *item;
	uint32_t count, capacity;
	unsigned int class;
	bool is_incomplete;	 /* there is something that could not be read */
	struct graph_index node; /* items by node, from the first search on */
};

/* A new item behind the others, all 0 but enabled; its index, UINT32_MAX: no memory for it. */
uint32_t graph_list_add(struct graph_list *list, enum graph_item_type type, uint64_t node);
void graph_list_free(struct graph_list *list);

/* What is copied by `item` is what `from` copies now. */
void graph_list_copy(struct graph_item *item, const struct graph_item *from);

/*
 * Take the copies of `from`, read from a graph of the same shape, into the items
 * [first, first + count); their nodes and whether they are enabled stay.  False:
 * the shape is another one.
 */
bool graph_list_assign(struct graph_list *list, uint32_t first, uint32_t count,
		       const struct graph_list *from);

/* The item of this node in a list that grows no more; UINT32_MAX: there is none. */
uint32_t graph_list_find(struct graph_list *list, uint64_t node);

/*
 * Mark memory that is allocated and not freed in the list, or freed and not
 * allocated.  Where there is no memory to tell, nothing is marked.
 */
void graph_list_pair(struct graph_list *list);

/* Memory for as long as a graph is read. */
void *graph_list_take_memory(size_t bytes, unsigned int *class);
void graph_list_give_memory(void *memory, unsigned int class);

/* Child of fork. */
void graph_list_reset(void);

#endif
