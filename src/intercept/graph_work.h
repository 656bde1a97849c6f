/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_work.h - what each launch of an executable graph copies.
 *
 * Work in a graph passes no hook when it runs.  So a graph is read when it is
 * made executable, changes are followed, and a launch looks up the sums: one for
 * each way that bytes go.  A graph that copies nothing is not kept at all.
 *
 * Memory that the nodes of a graph allocate begins with the launch, too, and as a
 * block only if the graph does not free it itself.
 *
 * An executable graph belongs to one thread at a time, as the driver demands;
 * different ones may be launched, made and destroyed by any threads at once.
 */
#ifndef CUSTODY_INTERCEPT_GRAPH_WORK_H
#define CUSTODY_INTERCEPT_GRAPH_WORK_H

#include "intercept/call.h"
#include "intercept/graph_list.h"

struct graph_work;

/* It is made of this; takes `list` over. */
void graph_work_keep(uint64_t exec, struct graph_list *list);

/*
 * It is about to be destroyed: another one may get its handle before that call is
 * back.  NULL: it was not kept.  One of the two pairs with it.
 */
struct graph_work *graph_work_take(uint64_t exec);
void graph_work_drop(struct graph_work *work);
void graph_work_put_back(uint64_t exec, struct graph_work *work);

/* Whether there is anything in it that a change could change: nodes keep their types. */
bool graph_work_is_kept(uint64_t exec);

/* One copy is another one now, or is left out, or is done again. */
void graph_work_change(uint64_t exec, uint64_t node, const struct graph_item *copy);
void graph_work_enable(uint64_t exec, uint64_t node, bool is_enabled);

/* The copies of `list` stand in for those of a child; of the whole where `node` is 0. */
void graph_work_assign(uint64_t exec, uint64_t node, struct graph_list *list);

/*
 * It was launched: a record for each way that bytes go, and for memory that is
 * the program's from now on or no longer.  Lock-free.
 */
void graph_work_launch(struct call *call, uint64_t exec, uint64_t stream);

/* Child of fork. */
void graph_work_reset(void);

#endif
