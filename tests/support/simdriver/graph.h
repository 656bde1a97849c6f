/* SPDX-License-Identifier: Apache-2.0 */
/* Private: graphs, their nodes and their executable form. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "own.h"

/* What decides about a conditional node; no kernel changes it here. */
struct condition {
	unsigned int value;
	struct condition *next;
};

struct conditional {
	struct graph **bodies;	/* owned */
	unsigned int size;
	unsigned int chosen;	/* the one that runs; size: none does */
};

union node_params {
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEM_ALLOC_NODE_PARAMS alloc;
	CUdeviceptr freed;
	CUevent event;
	struct graph *child;	/* owned */
	struct conditional conditional;
};

struct graph_node {
	struct object object;
	struct graph *graph;
	CUgraphNodeType type;
	struct op op;		/* what a launch runs */
	union node_params params;
	struct block *block;	/* of an allocation node, referenced */
	struct graph_node **before;
	size_t before_count, before_room;
	struct graph_node *original;	/* what it was cloned from */
	struct graph_node *next;
	unsigned mark;		/* scratch of a walk */
};

struct user_object {
	struct object object;
	void *pointer;
	CUhostFn destroy;
	atomic_uint count;
};

struct held_object {
	struct user_object *user;
	unsigned count;
	struct held_object *next;
};

/* Guarded by the client, as on a real driver: a graph belongs to one thread at a time. */
struct graph {
	struct object object;
	struct graph_node *first, *last;
	size_t node_count;
	unsigned alloc_nodes;
	struct exec *live;	/* the one instance that a graph with allocations may have */
	bool owned;		/* a child: goes with its parent */
	bool capturing;		/* goes with the end of the capture */
	struct held_object *held;
	struct condition *conditions;	/* owned */
};

struct exec_step {
	struct graph_node *node;	/* which node it came from */
	CUgraphNodeType type;
	struct op op;
	bool enabled;
	bool skipped;		/* of a body that does not run */
};

struct exec {
	struct object object;
	struct graph *graph;	/* with allocations: whose live instance this is */
	unsigned long long flags;
	pthread_mutex_t lock;	/* steps, against a launch that runs */
	struct exec_step *steps;
	size_t step_count;
	struct block **allocs;	/* blocks of allocation nodes, referenced */
	bool *freed_inside;	/* by a node of the same graph */
	size_t alloc_count;
	struct held_object *held;
	struct owed owed;	/* what it takes of the device, from its first launch or upload */
};

/* graph.c */
CUresult graph_find(CUgraph handle, struct graph **graph);
CUresult graph_find_node(CUgraphNode handle, struct graph_node **node);
struct graph *graph_new(void);
void graph_end(struct graph *graph);
CUresult graph_copy(struct graph *from, struct graph **to);
/* An empty node behind the given ones, which must be of the same graph. */
CUresult graph_add(struct graph *graph, CUgraphNodeType type, const CUgraphNode *before,
		   size_t count, struct graph_node **out);
/* Fills `list` (node_count places) so that every node stands behind what it waits for. */
CUresult graph_sort(struct graph *graph, struct graph_node **list);
void graph_end_node(struct graph_node *node);

/* node.c */
void node_describe_copy(struct graph_node *node, const struct place *dst, const struct place *src);
void node_describe(struct graph_node *node);
/* The node type that an op becomes. */
CUgraphNodeType node_type_of(const struct op *op);
CUresult node_make_copy(struct op *op, const CUDA_MEMCPY3D *params);
CUresult node_make_memset(struct op *op, const CUDA_MEMSET_NODE_PARAMS *params);
CUresult node_make_host(struct op *op, const CUDA_HOST_NODE_PARAMS *params);
CUresult node_make_kernel(struct op *op, const CUDA_KERNEL_NODE_PARAMS *params);
/* The node whose allocation starts at the address. */
struct graph_node *node_find_alloc(struct graph *graph, CUdeviceptr address);
CUresult node_new_alloc(struct graph *graph, const CUgraphNode *before, size_t count,
			struct device *device, size_t bytes, struct graph_node **out);
CUresult node_new_free(struct graph *graph, const CUgraphNode *before, size_t count,
		       CUdeviceptr address, struct graph_node **out);

/* exec.c */
void exec_run(struct exec *exec, struct stream *stream);
void exec_give(struct exec *exec);
void exec_finish(void *exec);
/* One more owner of what an op refers to. */
struct op exec_copy_op(const struct op *op);

/* conditional.c */
CUresult conditional_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
			 CUgraphNodeParams *params);
void conditional_end_node(struct graph_node *node);
void conditional_end_graph(struct graph *graph);

/* graphmem.c */
struct block *graphmem_new(struct device *device, size_t bytes);
void graphmem_drop(struct block *block);
CUresult graphmem_charge(struct block *block);
void graphmem_show(struct block *block);

/* userobject.c */
struct held_object *userobject_copy_held(const struct held_object *held);
void userobject_drop_held(struct held_object *held);

#endif
