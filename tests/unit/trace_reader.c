/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_reader.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

const char *trace_reader_session(void)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/custody-test-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	ck_assert_ptr_nonnull(mkdtemp(path));
	setenv("CUSTODY_SESSION", path, 1);
	return path;
}

static int remove_entry(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
	(void)status;
	(void)flag;
	(void)walk;
	return remove(path);
}

void trace_reader_remove(const char *directory)
{
	nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void *map_file(const char *directory, const char *name, size_t bytes)
{
	char path[4200];
	void *map;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_msg(fd >= 0, "%s is not there", path);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	close(fd);
	return map;
}

void trace_reader_open(struct trace_reader *reader, const char *directory)
{
	reader->control = map_file(directory, "control", CONTROL_BYTES);
	reader->count = 0;
	trace_reader_update(reader, directory);
}

void trace_reader_update(struct trace_reader *reader, const char *directory)
{
	uint32_t count = atomic_load(&reader->control->segments);

	ck_assert_uint_le(count, READER_SEGMENTS);
	for (; reader->count < count; reader->count++) {
		char name[32];

		snprintf(name, sizeof(name), "segment.%u", reader->count);
		reader->segments[reader->count] = map_file(directory, name, SEGMENT_BYTES);
	}
}

uint32_t trace_reader_chunks(const struct trace_reader *reader)
{
	return reader->count * SEGMENT_CHUNKS;
}

struct trace_chunk *trace_reader_chunk(const struct trace_reader *reader, uint32_t index)
{
	return (struct trace_chunk *)(reader->segments[index / SEGMENT_CHUNKS] +
				      (size_t)(index % SEGMENT_CHUNKS) * CHUNK_BYTES);
}

uint32_t trace_reader_count_state(const struct trace_reader *reader, enum chunk_state state)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < trace_reader_chunks(reader); i++)
		count += atomic_load(&trace_reader_chunk(reader, i)->header.state) == state;
	return count;
}

static bool is_readable(struct trace_chunk *chunk)
{
	uint32_t state = atomic_load_explicit(&chunk->header.state, memory_order_acquire);

	return (state == CHUNK_OWNED || state == CHUNK_CLOSED) &&
	       chunk->header.use == CHUNK_OF_RECORDS;
}

struct trace_chunk *trace_reader_next(const struct trace_reader *reader, uint32_t thread,
				      uint64_t after)
{
	struct trace_chunk *next = NULL;

	for (uint32_t i = 0; i < trace_reader_chunks(reader); i++) {
		struct trace_chunk *chunk = trace_reader_chunk(reader, i);

		if (is_readable(chunk) && chunk->header.thread == thread &&
		    chunk->header.sequence > after &&
		    (!next || chunk->header.sequence < next->header.sequence))
			next = chunk;
	}
	return next;
}

static bool has_text(const struct record *record)
{
	return record->kind == RECORD_DEVICE || record->kind == RECORD_MODULE ||
	       record->kind == RECORD_UNCOVERED || record->kind == RECORD_THREAD;
}

static void walk_chunk(struct trace_chunk *chunk, trace_reader_visit *visit, void *argument)
{
	uint32_t written = atomic_load_explicit(&chunk->header.written, memory_order_acquire);

	for (uint32_t at = 0; at < written; at++) {
		const struct record *record = &chunk->record[at];

		visit(record, has_text(record) ? (const char *)(record + 1) : NULL, argument);
		at += has_text(record) ? record->text_slots : 0;
	}
}

void trace_reader_walk(const struct trace_reader *reader, uint32_t thread,
		       trace_reader_visit *visit, void *argument)
{
	struct trace_chunk *chunk = trace_reader_next(reader, thread, 0);

	for (; chunk; chunk = trace_reader_next(reader, thread, chunk->header.sequence))
		walk_chunk(chunk, visit, argument);
}

struct kind_count {
	enum record_kind kind;
	uint64_t count;
};

static void count_kind(const struct record *record, const char *text, void *argument)
{
	struct kind_count *wanted = argument;

	(void)text;
	wanted->count += record->kind == wanted->kind;
}

uint64_t trace_reader_count_kind(const struct trace_reader *reader, uint32_t thread,
				 enum record_kind kind)
{
	struct kind_count wanted = { .kind = kind };

	for (uint32_t i = 0; i < trace_reader_chunks(reader); i++) {
		struct trace_chunk *chunk = trace_reader_chunk(reader, i);

		if (is_readable(chunk) && (!thread || chunk->header.thread == thread))
			walk_chunk(chunk, count_kind, &wanted);
	}
	return wanted.count;
}

uint32_t trace_reader_free_closed(const struct trace_reader *reader)
{
	uint32_t freed = 0;

	for (uint32_t i = 0; i < trace_reader_chunks(reader); i++) {
		struct trace_chunk *chunk = trace_reader_chunk(reader, i);
		uint32_t state = atomic_load_explicit(&chunk->header.state, memory_order_acquire);

		if (state != CHUNK_CLOSED)
			continue;
		atomic_store_explicit(&chunk->header.state, CHUNK_FREE, memory_order_release);
		freed++;
	}
	return freed;
}
