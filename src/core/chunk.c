/* SPDX-License-Identifier: Apache-2.0 */
#include "core/chunk.h"
#include "core/clock.h"
#include "core/lock.h"
#include "core/memory_limit.h"
#include "core/notice.h"
#include "core/raw_file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	PATH_BYTES = CONTROL_PATH_BYTES + 32,
	STARVED_PROBES = 4, /* chunks looked at by a thread that is losing records */
	FULL = -1,	    /* trouble: the limit is reached; else an errno */
};

#define SCAN_AGAIN_NS UINT64_C(1000000)
#define GROW_AGAIN_NS UINT64_C(100000000)

/*
 * Started and abandoned under the lock of process.c; otherwise `segments` and
 * `count` only grow, under `growing`.
 */
static struct {
	char directory[CONTROL_PATH_BYTES];
	struct trace_control *control;
	unsigned char **segments; /* where each is mapped; `most` places */
	uint32_t most;
	uint64_t memory_bytes; /* that the process may use in all, for whatever */
	struct lock growing;
	_Atomic uint32_t count;	   /* segments */
	_Atomic uint32_t cursor;   /* chunk to look at first */
	_Atomic uint64_t sequence; /* last hand-out number */
	_Atomic uint32_t clock;
	_Atomic uint64_t scan_again_ns; /* nothing was free a moment ago */
	_Atomic uint64_t grow_again_ns; /* no file could be made a moment ago */
	_Atomic int trouble;
} pool;

int chunk_start(const char *directory, struct trace_control *control)
{
	uint32_t most = (uint32_t)(control->buffer_bytes / SEGMENT_BYTES);
	void *segments = mmap(NULL, most * sizeof(*pool.segments), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (segments == MAP_FAILED)
		return -1;
	memset(&pool, 0, sizeof(pool));
	snprintf(pool.directory, sizeof(pool.directory), "%s", directory);
	pool.control = control;
	pool.segments = segments;
	pool.most = most;
	pool.memory_bytes = memory_limit_bytes();
	pool.clock = control->clock;
	return 0;
}

void chunk_abandon(void)
{
	uint32_t count = atomic_load_explicit(&pool.count, memory_order_relaxed);

	for (uint32_t i = 0; i < count; i++)
		munmap(pool.segments[i], SEGMENT_BYTES);
	if (pool.segments)
		munmap(pool.segments, pool.most * sizeof(*pool.segments));
	memset(&pool, 0, sizeof(pool));
}

/* Milliseconds are enough, and cheaper than a fine clock. */
static uint64_t coarse_ns(void)
{
	return clock_system_ns(CLOCK_MONOTONIC_COARSE);
}

static struct trace_chunk *chunk_at(uint32_t index)
{
	unsigned char *segment = pool.segments[index / SEGMENT_CHUNKS];

	return (struct trace_chunk *)(segment + index % SEGMENT_CHUNKS * CHUNK_BYTES);
}

/* Pairs with the collector's release store of FREE, which follows its last look at the chunk. */
static bool claim_chunk(struct trace_chunk *chunk)
{
	uint32_t expected = CHUNK_FREE;

	if (atomic_load_explicit(&chunk->header.state, memory_order_relaxed) != CHUNK_FREE)
		return false;
	return atomic_compare_exchange_strong_explicit(&chunk->header.state, &expected,
						       CHUNK_TAKEN, memory_order_acquire,
						       memory_order_relaxed);
}

/*
 * Look at up to `probes` chunks from the cursor on.  The collector frees chunks
 * about in the order they were handed out, so the first look mostly finds one;
 * all of them are looked at only before a new segment is made, once in 16 chunks.
 */
static struct trace_chunk *find_free(uint32_t probes)
{
	uint32_t total = atomic_load_explicit(&pool.count, memory_order_acquire) * SEGMENT_CHUNKS;
	uint32_t at = atomic_load_explicit(&pool.cursor, memory_order_relaxed);
	struct trace_chunk *found = NULL;

	for (uint32_t i = 0; i < probes && i < total && !found; i++, at++) {
		if (at >= total)
			at = 0;
		if (claim_chunk(chunk_at(at)))
			found = chunk_at(at);
	}
	atomic_store_explicit(&pool.cursor, at, memory_order_relaxed);
	return found;
}

/* Of what the file system has left, a quarter at most, and an eighth of a limit on memory. */
static int ask_for_room(uint32_t count)
{
	uint64_t own = (uint64_t)count * SEGMENT_BYTES, room;

	if (count >= pool.most)
		return FULL;
	if (raw_file_room(pool.directory, &room))
		return errno;
	if (own + SEGMENT_BYTES > pool.memory_bytes / 8)
		return ENOMEM;
	return own + SEGMENT_BYTES > (room + own) / 4 ? ENOSPC : 0;
}

/* The descriptor is closed at once: the program may close or reuse any number it likes. */
static unsigned char *map_file(const char *path)
{
	int fd = raw_file_create(path), error;
	void *map = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (!raw_file_reserve(fd, SEGMENT_BYTES))
		map = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			   fd, 0);
	error = errno;
	close(fd);
	if (map != MAP_FAILED)
		return map;
	unlink(path);
	errno = error;
	return NULL;
}

/* Under `growing`.  The first chunk of the new segment is the caller's. */
static struct trace_chunk *add_segment(void)
{
	uint32_t count = atomic_load_explicit(&pool.count, memory_order_relaxed);
	int trouble = ask_for_room(count);
	unsigned char *segment = NULL;
	char path[PATH_BYTES];

	if (!trouble) {
		snprintf(path, sizeof(path), "%s/segment.%u", pool.directory, count);
		segment = map_file(path);
		trouble = segment ? 0 : errno;
	}
	atomic_store_explicit(&pool.trouble, trouble, memory_order_relaxed);
	if (!segment)
		return NULL;
	pool.segments[count] = segment;
	atomic_store_explicit(&chunk_at(count * SEGMENT_CHUNKS)->header.state, CHUNK_TAKEN,
			      memory_order_relaxed);
	atomic_store_explicit(&pool.cursor, count * SEGMENT_CHUNKS + 1, memory_order_relaxed);
	atomic_store_explicit(&pool.count, count + 1, memory_order_release);
	atomic_store_explicit(&pool.control->segments, count + 1, memory_order_release);
	return chunk_at(count * SEGMENT_CHUNKS);
}

/*
 * Other threads wait here only while one of them makes a file.  No signal may
 * come in between: its handler could make a driver call and want the lock, and a
 * timer's would break off the reservation for ever.
 */
static struct trace_chunk *grow(void)
{
	struct trace_chunk *chunk;
	sigset_t all, before;

	if (coarse_ns() < atomic_load_explicit(&pool.grow_again_ns, memory_order_relaxed))
		return NULL;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	lock_take(&pool.growing);
	chunk = find_free(UINT32_MAX);
	if (!chunk && coarse_ns() >= atomic_load_explicit(&pool.grow_again_ns,
							  memory_order_relaxed)) {
		chunk = add_segment();
		if (!chunk)
			atomic_store_explicit(&pool.grow_again_ns, coarse_ns() + GROW_AGAIN_NS,
					      memory_order_relaxed);
	}
	lock_give(&pool.growing);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return chunk;
}

/* A thread that is losing records looks at a few chunks each time and at all every millisecond. */
static struct trace_chunk *find_or_grow(void)
{
	uint64_t again = atomic_load_explicit(&pool.scan_again_ns, memory_order_relaxed);
	struct trace_chunk *chunk;

	if (again && coarse_ns() < again)
		return find_free(STARVED_PROBES);
	chunk = find_free(UINT32_MAX);
	if (!chunk)
		chunk = grow();
	if (!chunk || again)
		atomic_store_explicit(&pool.scan_again_ns, chunk ? 0 : coarse_ns() + SCAN_AGAIN_NS,
				      memory_order_relaxed);
	return chunk;
}

enum clock_mode chunk_clock(void)
{
	return (enum clock_mode)atomic_load_explicit(&pool.clock, memory_order_relaxed);
}

/* A counter that has strayed is left by the whole process, for good. */
static void stamp_chunk(struct chunk_header *header, const struct clock_triple *before)
{
	enum clock_mode clock = chunk_clock();

	clock_read_triple(&header->triple, clock);
	if (clock == CLOCK_TICKS_TSC &&
	    !clock_is_consistent(&pool.control->start, before, &header->triple)) {
		clock = CLOCK_TICKS_MONOTONIC;
		atomic_store_explicit(&pool.clock, clock, memory_order_relaxed);
		header->triple.ticks = header->triple.monotonic_ns;
	}
	header->clock = clock;
}

static void hand_out(struct trace_chunk *chunk, enum chunk_use use, uint32_t thread, uint32_t tid,
		     const struct clock_triple *before)
{
	struct chunk_header *header = &chunk->header;

	atomic_store_explicit(&header->written, 0, memory_order_relaxed);
	atomic_store_explicit(&header->consumed, 0, memory_order_relaxed);
	atomic_store_explicit(&header->busy_since, 0, memory_order_relaxed);
	header->use = use;
	header->thread = thread;
	header->tid = tid;
	header->sequence = 1 + atomic_fetch_add_explicit(&pool.sequence, 1, memory_order_relaxed);
	stamp_chunk(header, before);
	atomic_store_explicit(&header->state, CHUNK_OWNED, memory_order_release);
}

struct trace_chunk *chunk_take_records(uint32_t thread, uint32_t tid,
				       const struct clock_triple *before)
{
	struct trace_chunk *chunk = find_or_grow();

	if (chunk)
		hand_out(chunk, CHUNK_OF_RECORDS, thread, tid, before);
	return chunk;
}

struct trace_chunk *chunk_take_counters(const struct clock_triple *before)
{
	struct trace_chunk *chunk = find_or_grow();

	if (chunk) {
		memset(chunk->block, 0, sizeof(chunk->block));
		hand_out(chunk, CHUNK_OF_COUNTERS, 0, 0, before);
	}
	return chunk;
}

void chunk_close(struct trace_chunk *chunk)
{
	atomic_store_explicit(&chunk->header.busy_since, 0, memory_order_relaxed);
	atomic_store_explicit(&chunk->header.state, CHUNK_CLOSED, memory_order_release);
}

void chunk_explain(char *text, size_t bytes)
{
	int trouble = atomic_load_explicit(&pool.trouble, memory_order_relaxed);

	if (trouble == FULL)
		snprintf(text, bytes, "the recording buffer (CUSTODY_BUFFER) is full");
	else
		snprintf(text, bytes, "no file can be made in %.512s: %s", pool.directory,
			 notice_error(trouble));
}
