/* SPDX-License-Identifier: Apache-2.0 */
/* Private: graphs, their nodes and their executable form. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "sim.h"

union node_params {
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_HOST_NODE_PARAMS host;
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEM_ALLOC_NODE_PARAMS alloc;
	CUdeviceptr freed;
	CUevent event;
	struct graph *child;	/* owned */
};

struct graph_node {
	struct object object;
	struct graph *graph;
	CUgraphNodeType type;
	struct op op;		/* what a launch runs */
	union node_params params;
	bool captured_copy;	/* a copy whose params were made from its op */
	struct block *block;	/* of an allocation node */
	struct graph_node **before;
	size_t before_count, before_room;
	struct graph_node *original;	/* what it was cloned from */
	struct graph_node *next;
	unsigned mark;
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

struct graph {
	struct object object;
	struct graph_node *first, *last;
	size_t node_count;
	unsigned alloc_nodes;
	struct exec *live;	/* the one instance that a graph with allocations may have */
	bool owned;		/* a child: goes with its parent */
	struct held_object *held;
};

struct exec_step {
	struct graph_node *node;	/* which node it came from */
	struct op op;
	bool enabled;
};

struct exec {
	struct object object;
	struct graph *graph;	/* NULL once that is destroyed */
	unsigned long long flags;
	struct exec_step *steps;
	size_t step_count;
	struct block **allocs;	/* allocation nodes' blocks */
	size_t alloc_count;
};

void exec_run(struct exec *exec, struct stream *stream);
void exec_give(struct exec *exec);

#endif
