/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_table.h - executable graphs by their handles, for graph_work.c.
 *
 * Read without a lock by every launch; written under the lock of the caller.  One
 * who launches a graph that is being destroyed may still find it.
 */
#ifndef CUSTODY_INTERCEPT_GRAPH_TABLE_H
#define CUSTODY_INTERCEPT_GRAPH_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct graph_work;

/* NULL: it is not there. */
struct graph_work *graph_table_find(uint64_t exec);

/* `exec` is not in it.  False: there is no memory. */
bool graph_table_enter(uint64_t exec, struct graph_work *work);

/* Take it out; NULL: it was not there. */
struct graph_work *graph_table_take(uint64_t exec);

/* Child of fork. */
void graph_table_reset(void);

#endif
