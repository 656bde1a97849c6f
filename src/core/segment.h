/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h - the writing side of a trace: per-thread chunks of mapped files.
 *
 * One thread writes one chunk; nothing here takes a lock, makes a system call
 * or allocates on the common path.  The uncommon ones - first call of a thread,
 * a full chunk, a child of fork - are functions in segment.c.
 */
#ifndef CUSTODY_CORE_SEGMENT_H
#define CUSTODY_CORE_SEGMENT_H

#include "core/clock.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * What a thread keeps of its chunk.  Initial-exec TLS: the preload is always in
 * the start-up set, and a TLS access that calls malloc would recurse into the
 * program's allocator.
 */
struct thread_segment {
	uint64_t generation;	   /* equals *process_generation while the rest is good */
	struct trace_chunk *chunk; /* NULL: nothing can be recorded now */
	uint32_t written;	   /* slots used in chunk */
	uint32_t clock;		   /* enum clock_mode of this chunk */
	uint32_t thread;	   /* number in the process, 0 before the first call */
	uint32_t in_call;	   /* a call of the program is being recorded */
	struct counter_block *counters; /* NULL: counts are dropped */
	const void *caller; /* of libcustody, for which it makes calls; NULL: it makes none */
};

extern __thread struct thread_segment thread_segment __attribute__((tls_model("initial-exec")));

/*
 * Points into a page with MADV_WIPEONFORK: a child of fork reads 0 there, which
 * no thread's generation equals, and takes the slow path.  Before the first
 * call it points at a constant that equals nothing either.
 */
extern const _Atomic uint64_t *_Atomic process_generation;

/* True if this thread may record without further ado. */
static inline bool segment_is_ready(const struct thread_segment *self)
{
	const _Atomic uint64_t *generation =
		atomic_load_explicit(&process_generation, memory_order_acquire);

	return self->generation == atomic_load_explicit(generation, memory_order_relaxed);
}

/*
 * Make this thread ready: on the first call of a process find or make the
 * session's directory (CUSTODY_SESSION, else one of our own and a collector),
 * after a fork start afresh, then take a chunk.  Never fails in a way the caller
 * must handle: where nothing can be recorded, thread_segment.chunk stays NULL.
 * Preserves errno.  Returns true if the *process* was set up by this call (a
 * first call, or the first one in a child of fork): the caller then drops what
 * it inherited.  The tracker and the contexts are empty by then: they were reset
 * before any other thread of the child could get past this function.
 */
bool segment_enter(void);

/*
 * Close the full chunk and take another; on failure count `lost` records.
 * Returns the first of `slots` free slots, or NULL.
 */
struct record *segment_refill(uint32_t slots);

/* The next `slots` slots of this thread's chunk, not yet published; NULL: lost and counted. */
static inline struct record *segment_reserve(struct thread_segment *self, uint32_t slots)
{
	if (__builtin_expect(!self->chunk || self->written + slots > CHUNK_RECORDS, 0))
		return segment_refill(slots);
	return &self->chunk->record[self->written];
}

/* Publish what segment_reserve() gave; pairs with the acquire load of the collector. */
static inline void segment_publish(struct thread_segment *self, uint32_t slots)
{
	self->written += slots;
	atomic_store_explicit(&self->chunk->header.written, self->written, memory_order_release);
}

/* The collector keeps freed blocks as long as a call that may name them is in flight. */
static inline void segment_mark_busy(struct thread_segment *self, uint64_t start)
{
	if (self->chunk)
		atomic_store_explicit(&self->chunk->header.busy_since, start,
				      memory_order_relaxed);
}

/* One writer per counter: a plain read-modify-write, atomic only for the reader's sake. */
static inline void segment_count(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

/*
 * Write a record of a kind that carries text: `record` gives all fields but
 * text_slots; `text` is `bytes` long and cut to what fits one chunk.  Any thread
 * that is ready.  False: lost, and counted.
 */
bool segment_write_text(const struct record *record, const char *text, size_t bytes);

/* Note that an image is about to end or be replaced (enum control_end). */
void segment_end(enum control_end how);

/* Note what is not recorded of this process (enum control_note). */
void segment_note(uint32_t note);

/* The driver's version, once the program has asked for it or a context exists. */
void segment_set_driver(int version);

/* Text for control.policy; call before the first segment_enter(). */
void segment_set_policy(const char *policy);

/* Which api has which counter slot, from driver_table.h, so that a thread's end can tell. */
void segment_set_counter_apis(const uint16_t *api_of_slot, uint32_t slots, uint32_t apis);

/* Directory of this process in the session, "" if nothing is recorded. */
const char *segment_directory(void);

#endif
