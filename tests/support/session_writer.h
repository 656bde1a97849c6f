/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_writer.h - writes a session as a traced process would, but exactly
 * what a test wants: any time, any order, any damage.  One thread.
 */
#ifndef CUSTODY_TESTS_SESSION_WRITER_H
#define CUSTODY_TESTS_SESSION_WRITER_H

#include "core/record.h"

#include <limits.h>
#include <stddef.h>

enum { SESSION_WRITER_THREADS = 64, SESSION_WRITER_SEGMENTS = 4096 };

struct session_writer {
	char directory[PATH_MAX]; /* of the process */
	struct trace_control *control;
	unsigned char *segment[SESSION_WRITER_SEGMENTS];
	uint32_t next_chunk; /* never used before: segment * SEGMENT_CHUNKS + index */
	uint64_t sequence;
	struct trace_chunk *chunk[SESSION_WRITER_THREADS + 1]; /* by number of the thread */
	uint32_t clock;
	uint64_t now; /* ticks, for the headers of chunks */
	uint32_t tid; /* of a thread that lives, whose clocks count; 0: all is made up */
	uint32_t segments_most; /* beyond these only chunks given back are used; 0: no bound */
};

/* An empty session directory whose trace will be `trace`. */
void session_writer_session(char directory[PATH_MAX], const char *trace);

/*
 * A process "<pid>-<serial>" in it.  With a pid that no process has, it counts as
 * ended.  Ticks are nanoseconds until `clock` is changed.
 */
void session_writer_open(struct session_writer *writer, const char *session, int pid, int serial);

/* Append a record to the thread's chunk; takes another one when it is full. */
void session_writer_put(struct session_writer *writer, uint32_t thread, struct record record);
void session_writer_put_text(struct session_writer *writer, uint32_t thread,
			     struct record record, const char *text);

/* A counter chunk with one block in use by the thread. */
struct counter_block *session_writer_counters(struct session_writer *writer, uint32_t thread);

/* Unmap; the files stay. */
void session_writer_close(struct session_writer *writer);

/* Records in short: times are start and duration in ticks. */
struct record session_writer_alloc(uint64_t start, uint32_t duration, uint64_t id,
				   uint64_t address, uint64_t bytes, enum block_kind kind);
struct record session_writer_free(uint64_t start, uint32_t duration, uint64_t id);
struct record session_writer_copy(uint64_t start, uint32_t duration, enum transfer_kind kind,
				  uint64_t source, uint64_t target, uint64_t bytes);

/* A free that is deferred: of its duration it waited `waited`; now the block is pending. */
struct record session_writer_defer(uint64_t start, uint32_t duration, uint64_t waited, uint64_t id);

/* The release that belongs to it; `ready` is when its device work was seen done, 0: never. */
struct record session_writer_release(uint64_t at, uint64_t id, uint64_t ready,
				     enum release_cause cause);
struct record session_writer_flush(uint64_t start, uint32_t duration, uint64_t count,
				   uint64_t bytes, enum release_cause cause);
struct record session_writer_finding(uint64_t start, uint64_t id, uint64_t address,
				     enum finding_kind kind);

/*
 * What the driver says at `at` of device 0, to a thread whose context is number 1.
 * pools and graphs may be READING_UNKNOWN.
 */
struct record session_writer_reading(uint64_t at, enum reading_moment moment,
				     enum reading_weighed weighed, uint64_t free_bytes,
				     uint64_t total_bytes, uint64_t pools, uint64_t graphs);

/* A context of device 0, first seen in a call that began at `start`. */
struct record session_writer_context(uint64_t start, uint32_t number, uint64_t handle);

#endif
