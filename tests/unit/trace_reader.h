/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_reader.h - a session directory for a test, and a collector small enough
 * to be right: it maps what a process wrote and walks it.
 */
#ifndef CUSTODY_TESTS_TRACE_READER_H
#define CUSTODY_TESTS_TRACE_READER_H

#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>

enum { READER_SEGMENTS = 512 };

struct trace_reader {
	struct trace_control *control;
	unsigned char *segments[READER_SEGMENTS];
	uint32_t count;
};

/* A new directory on a memory file system, put into CUSTODY_SESSION. */
const char *trace_reader_session(void);

/* Remove a directory and all in it. */
void trace_reader_remove(const char *directory);

/* Map the control file of a process directory; aborts the test where there is none. */
void trace_reader_open(struct trace_reader *reader, const char *directory);

/* Map segments that were made since. */
void trace_reader_update(struct trace_reader *reader, const char *directory);

struct trace_chunk *trace_reader_chunk(const struct trace_reader *reader, uint32_t index);
uint32_t trace_reader_chunks(const struct trace_reader *reader);

/* How many chunks are in a state. */
uint32_t trace_reader_count_state(const struct trace_reader *reader, enum chunk_state state);

/* The chunk of a thread with the next sequence number after `after`, or NULL. */
struct trace_chunk *trace_reader_next(const struct trace_reader *reader, uint32_t thread,
				      uint64_t after);

/*
 * Call `visit` with every published record of a thread, in the order written;
 * `text` is behind a record that has one.
 */
typedef void trace_reader_visit(const struct record *record, const char *text, void *argument);
void trace_reader_walk(const struct trace_reader *reader, uint32_t thread,
		       trace_reader_visit *visit, void *argument);

/* Records of a kind in all chunks of a thread; 0 for all threads. */
uint64_t trace_reader_count_kind(const struct trace_reader *reader, uint32_t thread,
				 enum record_kind kind);

/* What the collector does after its commit: CLOSED -> FREE.  Returns how many. */
uint32_t trace_reader_free_closed(const struct trace_reader *reader);

#endif
