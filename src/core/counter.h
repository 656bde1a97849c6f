/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counter.h - blocks of counters, one for each living thread, in chunks of their
 * own: what was counted survives the process however it ends.
 */
#ifndef CUSTODY_CORE_COUNTER_H
#define CUSTODY_CORE_COUNTER_H

#include "core/record.h"

/* What counter_block.in_use goes through; the collector reads blocks that are in use. */
enum counter_use { COUNTER_FREE, COUNTER_IN_USE, COUNTER_TAKEN };

/* Forget all chunks: a new process.  Returns 0, or -1 with errno. */
int counter_start(const struct trace_control *control);

/* Child of fork. */
void counter_abandon(void);

/* A block of zeros for this thread, or NULL.  Any thread. */
struct counter_block *counter_take(uint32_t thread, uint32_t tid, uint32_t clock,
				   const struct clock_triple *before);

/* Give it back: its counters are in records and zero again, its gap is told. */
void counter_give(struct counter_block *block);

#endif
