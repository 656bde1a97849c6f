/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_walk.h - asking the driver what is in a graph.
 *
 * Questions of the host alone, which need no gate: measured on an H200, all of
 * them are answered while a capture is live, whatever its mode and thread.
 */
#ifndef CUSTODY_INTERCEPT_GRAPH_WALK_H
#define CUSTODY_INTERCEPT_GRAPH_WALK_H

#include "intercept/cuda_abi.h"
#include "intercept/graph_list.h"

/* Read `graph` into the empty `list`. */
void graph_walk(struct graph_list *list, uint64_t graph);

/* What a copy or a memset does, from its description. */
void graph_walk_copy(struct graph_item *item, const CUDA_MEMCPY3D *copy);
void graph_walk_fill(struct graph_item *item, const CUDA_MEMSET_NODE_PARAMS *fill);

/*
 * A conditional node was made.  The driver tells its bodies then and never again;
 * the array is its own and lives as long as the node.
 */
void graph_walk_note_bodies(uint64_t node, const CUgraph *bodies, unsigned int count);

/* Child of fork. */
void graph_walk_reset(void);

#endif
