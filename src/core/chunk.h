/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk.h - the segment files of this process and the chunks in them: who gets
 * one, and when there is none to get.
 */
#ifndef CUSTODY_CORE_CHUNK_H
#define CUSTODY_CORE_CHUNK_H

#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Begin with no segment, in the directory of this process.  `control` stays the
 * caller's and must outlive all use.  Returns 0, or -1 with errno.
 */
int chunk_start(const char *directory, struct trace_control *control);

/* Child of fork: unmap the parent's segments; the parent keeps its own mappings. */
void chunk_abandon(void);

/*
 * A chunk for one thread, its header filled and its state OWNED; NULL: the
 * buffer is at its limit, or no file can be made now.  A chunk that the
 * collector has freed comes before a new segment.  `before` is the triple of the
 * thread's last chunk, or the start of the process.  Any thread; cheap to call
 * again and again when there is nothing.
 */
struct trace_chunk *chunk_take_records(uint32_t thread, uint32_t tid,
				       const struct clock_triple *before);

/* The same for counters: it belongs to no thread, all of it is zero, and it is never closed. */
struct trace_chunk *chunk_take_counters(const struct clock_triple *before);

/* Hand the chunk to the collector.  Its owner only; nothing of it may be touched afterwards. */
void chunk_close(struct trace_chunk *chunk);

/* The clock of the next chunk. */
enum clock_mode chunk_clock(void);

/* Why there was no chunk to take, as the end of a sentence. */
void chunk_explain(char *text, size_t bytes);

#endif
