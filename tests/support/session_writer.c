/* SPDX-License-Identifier: Apache-2.0 */
#include "session_writer.h"

#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	abort();
}

static void *make_file(const char *directory, const char *name, size_t bytes)
{
	char path[PATH_MAX + 32];
	void *memory;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		fail(path);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail(path);
	close(fd);
	return memory;
}

void session_writer_session(char directory[PATH_MAX], const char *trace)
{
	char path[PATH_MAX + 32];
	FILE *stream;

	snprintf(directory, PATH_MAX, "/tmp/custody-session-XXXXXX");
	if (!mkdtemp(directory))
		fail(directory);
	snprintf(path, sizeof(path), "%s/session", directory);
	stream = fopen(path, "w");
	if (!stream)
		fail(path);
	fprintf(stream, "mode=preload\npid=0\noutput=%s\n", trace);
	fclose(stream);
}

void session_writer_open(struct session_writer *writer, const char *session, int pid, int serial)
{
	memset(writer, 0, sizeof(*writer));
	snprintf(writer->directory, sizeof(writer->directory), "%s/%d-%d", session, pid, serial);
	if (mkdir(writer->directory, 0700))
		fail(writer->directory);
	writer->control = make_file(writer->directory, "control", CONTROL_BYTES);
	writer->clock = CLOCK_TICKS_MONOTONIC;
	writer->now = 1000;
	writer->control->layout = TRACE_LAYOUT;
	writer->control->clock = writer->clock;
	writer->control->pid = pid;
	writer->control->exec_serial = (uint32_t)serial;
	writer->control->start = (struct clock_triple){ 1000, 1000, 5000 };
	strcpy(writer->control->executable, "/usr/bin/synthetic");
	strcpy(writer->control->host, "testhost");
	strcpy(writer->control->policy, "immediate");
	writer->control->magic = TRACE_MAGIC;
}

static struct trace_chunk *chunk_at(struct session_writer *writer, uint32_t number)
{
	return (struct trace_chunk *)(writer->segment[number / SEGMENT_CHUNKS] +
				      (size_t)(number % SEGMENT_CHUNKS) * CHUNK_BYTES);
}

static void add_segment(struct session_writer *writer)
{
	uint32_t number = writer->next_chunk / SEGMENT_CHUNKS;
	char name[32];

	snprintf(name, sizeof(name), "segment.%u", number);
	writer->segment[number] = make_file(writer->directory, name, SEGMENT_BYTES);
	atomic_store(&writer->control->segments, number + 1);
}

/* One given back before one that is new, as the real writer does. */
static struct trace_chunk *find_free(struct session_writer *writer)
{
	for (uint32_t i = 0; writer->segments_most && i < writer->next_chunk; i++) {
		struct trace_chunk *chunk = chunk_at(writer, i);

		if (atomic_load_explicit(&chunk->header.state, memory_order_acquire) == CHUNK_FREE)
			return chunk;
	}
	if (writer->segments_most &&
	    writer->next_chunk == writer->segments_most * SEGMENT_CHUNKS) {
		usleep(100);
		return find_free(writer);
	}
	if (writer->next_chunk % SEGMENT_CHUNKS == 0)
		add_segment(writer);
	return chunk_at(writer, writer->next_chunk++);
}

static struct trace_chunk *take_chunk(struct session_writer *writer, uint32_t thread,
				      enum chunk_use use)
{
	struct trace_chunk *chunk = find_free(writer);

	chunk->header.use = use;
	chunk->header.sequence = ++writer->sequence;
	chunk->header.thread = thread;
	chunk->header.tid = writer->tid ? writer->tid : 1000 + thread;
	chunk->header.clock = writer->clock;
	if (writer->tid)
		clock_read_triple(&chunk->header.triple, writer->clock);
	else
		chunk->header.triple =
			(struct clock_triple){ writer->now, writer->now, writer->now };
	atomic_store(&chunk->header.written, 0);
	atomic_store(&chunk->header.busy_since, 0);
	atomic_store_explicit(&chunk->header.state, CHUNK_OWNED, memory_order_release);
	return chunk;
}

static struct record *reserve(struct session_writer *writer, uint32_t thread, uint32_t slots)
{
	struct trace_chunk **chunk = &writer->chunk[thread];

	if (*chunk && atomic_load(&(*chunk)->header.written) + slots > CHUNK_RECORDS) {
		atomic_store_explicit(&(*chunk)->header.state, CHUNK_CLOSED,
				      memory_order_release);
		*chunk = NULL;
	}
	if (!*chunk)
		*chunk = take_chunk(writer, thread, CHUNK_OF_RECORDS);
	return &(*chunk)->record[atomic_load(&(*chunk)->header.written)];
}

static void publish(struct session_writer *writer, uint32_t thread, uint32_t slots)
{
	_Atomic uint32_t *written = &writer->chunk[thread]->header.written;

	atomic_store_explicit(written, atomic_load(written) + slots, memory_order_release);
}

void session_writer_put(struct session_writer *writer, uint32_t thread, struct record record)
{
	writer->now = record.start;
	*reserve(writer, thread, 1) = record;
	publish(writer, thread, 1);
}

void session_writer_put_text(struct session_writer *writer, uint32_t thread,
			     struct record record, const char *text)
{
	uint32_t slots = (uint32_t)(strlen(text) / RECORD_BYTES + 1);
	struct record *place;

	writer->now = record.start;
	place = reserve(writer, thread, slots + 1);
	record.text_slots = slots;
	*place = record;
	memset(place + 1, 0, (size_t)slots * RECORD_BYTES);
	memcpy(place + 1, text, strlen(text));
	publish(writer, thread, slots + 1);
}

struct counter_block *session_writer_counters(struct session_writer *writer, uint32_t thread)
{
	struct trace_chunk *chunk = take_chunk(writer, 0, CHUNK_OF_COUNTERS);
	struct counter_block *block = (struct counter_block *)chunk->block[0];

	block->thread = thread;
	block->tid = 1000 + thread;
	block->clock = writer->clock;
	atomic_store(&block->in_use, 1);
	return block;
}

void session_writer_close(struct session_writer *writer)
{
	for (uint32_t i = 0; i < SESSION_WRITER_SEGMENTS && writer->segment[i]; i++)
		munmap(writer->segment[i], SEGMENT_BYTES);
	munmap(writer->control, CONTROL_BYTES);
}

struct record session_writer_alloc(uint64_t start, uint32_t duration, uint64_t id,
				   uint64_t address, uint64_t bytes, enum block_kind kind)
{
	return (struct record){
		.kind = RECORD_ALLOC,
		.start = start,
		.duration = duration,
		.a = address,
		.b = id,
		.c = bytes,
		.aux = (uint16_t)(kind | 1 << 8),
	};
}

struct record session_writer_free(uint64_t start, uint32_t duration, uint64_t id)
{
	return (struct record){
		.kind = RECORD_FREE,
		.start = start,
		.duration = duration,
		.b = id,
		.aux = RELEASE_FREED,
	};
}

struct record session_writer_copy(uint64_t start, uint32_t duration, enum transfer_kind kind,
				  uint64_t source, uint64_t target, uint64_t bytes)
{
	return (struct record){
		.kind = RECORD_TRANSFER,
		.start = start,
		.duration = duration,
		.a = source,
		.b = target,
		.c = bytes,
		.aux = AUX_TRANSFER(kind, PLACE_UNKNOWN, PLACE_UNKNOWN, 0),
	};
}

struct record session_writer_defer(uint64_t start, uint32_t duration, uint64_t waited, uint64_t id)
{
	struct record record = session_writer_free(start, duration, id);

	record.flags = RECORD_PENDING;
	record.stream = waited;
	return record;
}

struct record session_writer_release(uint64_t at, uint64_t id, uint64_t ready,
				     enum release_cause cause)
{
	return (struct record){
		.kind = RECORD_RELEASE,
		.flags = RECORD_BY_CUSTODY | RECORD_MORE,
		.start = at,
		.b = id,
		.stream = ready,
		.aux = (uint16_t)cause,
	};
}

struct record session_writer_flush(uint64_t start, uint32_t duration, uint64_t count,
				   uint64_t bytes, enum release_cause cause)
{
	return (struct record){
		.kind = RECORD_FLUSH,
		.flags = RECORD_BY_CUSTODY | RECORD_MORE,
		.start = start,
		.duration = duration,
		.a = count,
		.b = bytes,
		.aux = (uint16_t)(cause | QUEUE_MEMORY << 8),
	};
}

struct record session_writer_finding(uint64_t start, uint64_t id, uint64_t address,
				     enum finding_kind kind)
{
	return (struct record){
		.kind = RECORD_FINDING,
		.flags = RECORD_MORE,
		.start = start,
		.a = address,
		.b = id,
		.aux = (uint16_t)kind,
	};
}

struct record session_writer_reading(uint64_t at, enum reading_moment moment,
				     enum reading_weighed weighed, uint64_t free_bytes,
				     uint64_t total_bytes, uint64_t pools, uint64_t graphs)
{
	return (struct record){
		.kind = RECORD_READING,
		.flags = RECORD_BY_CUSTODY | RECORD_MORE,
		.start = at,
		.a = free_bytes,
		.b = total_bytes,
		.c = pools,
		.stream = graphs,
		.caller_context = UINT64_C(1) << RECORD_CALLER_BITS,
		.aux = AUX_READING(0, moment, weighed),
	};
}

struct record session_writer_context(uint64_t start, uint32_t number, uint64_t handle)
{
	return (struct record){
		.kind = RECORD_CONTEXT,
		.start = start,
		.a = handle,
		.c = 1,
		.caller_context = (uint64_t)number << RECORD_CALLER_BITS,
		.aux = 1,
	};
}
