/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_graph.h - graphs behind the real wrappers: a test describes their nodes,
 * and the driver's questions about them are answered from that.
 */
#ifndef CUSTODY_TESTS_FAKE_GRAPH_H
#define CUSTODY_TESTS_FAKE_GRAPH_H

#include "intercept/cuda_abi.h"

#include <stddef.h>

enum { FAKE_NODES = 8 };

struct fake_graph;

struct fake_node {
	CUgraphNodeType type;
	CUresult result; /* what a question about it is answered */
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_MEM_ALLOC_NODE_PARAMS alloc;
	CUdeviceptr freed;
	struct fake_graph *child;
};

struct fake_graph {
	struct fake_node node[FAKE_NODES];
	struct fake_node *many; /* instead of these, as many as the test has made room for */
	size_t count;
};

/* What the next cuGraphInstantiateWithFlags hands out. */
extern CUgraphExec fake_exec;

/* How often the driver was asked for the nodes of a graph. */
extern _Atomic unsigned int fake_graph_asked;

/* The functions that make, change and launch graphs, and all questions. */
void fake_graph_start(void);

/* Nodes to add to a graph; a copy or memset of `bytes`, whose host side is `host`. */
struct fake_node *fake_graph_in(struct fake_graph *graph, void *host, CUdeviceptr device,
				size_t bytes);
struct fake_node *fake_graph_fill(struct fake_graph *graph, CUdeviceptr device,
				  unsigned int element, size_t width, size_t height);
struct fake_node *fake_graph_child(struct fake_graph *graph, struct fake_graph *child);
struct fake_node *fake_graph_alloc(struct fake_graph *graph, CUdeviceptr address, size_t bytes);
struct fake_node *fake_graph_free(struct fake_graph *graph, CUdeviceptr address);

static inline CUgraph fake_graph_handle(struct fake_graph *graph)
{
	return (CUgraph)graph;
}

static inline CUgraphNode fake_graph_node(struct fake_node *node)
{
	return (CUgraphNode)node;
}

#endif
