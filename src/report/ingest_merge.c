/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of one process in the order of time: each thread's chunks form a
 * queue, the queues form a heap by the time of their next record.
 */
#include "report/ingest.h"
#include "report/message.h"

#include <stdlib.h>
#include <string.h>

/* Nothing is published in slots a record does not have: a text is read whole or not at all. */
static uint32_t text_slots(const struct record *record)
{
	switch (record->kind) {
	case RECORD_DEVICE:
	case RECORD_MODULE:
	case RECORD_UNCOVERED:
	case RECORD_THREAD:
	case RECORD_GPU_NAME:
		return record->text_slots;
	default:
		return 0;
	}
}

/* When the record has its turn: blocks at the end of their call, all else at the start. */
static int64_t key_of(struct ingest_process *process, const struct ingest_chunk *chunk)
{
	const struct record *record = &chunk->chunk->record[chunk->read];
	uint64_t ticks = record->start;

	if (record->kind == RECORD_ALLOC)
		ticks += record_ticks(record);
	return ingest_clock_ns(&process->clock, ticks, chunk->clock);
}

static bool is_sooner(const struct ingest_queue *a, const struct ingest_queue *b)
{
	return a->key < b->key;
}

static void sift_down(struct ingest_process *process, uint32_t at)
{
	struct ingest_queue **heap = process->heap;
	struct ingest_queue *queue = heap[at];

	for (uint32_t child = at * 2 + 1; child < process->heap_count; child = at * 2 + 1) {
		if (child + 1 < process->heap_count && is_sooner(heap[child + 1], heap[child]))
			child++;
		if (!is_sooner(heap[child], queue))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = queue;
}

static void push(struct ingest_process *process, struct ingest_queue *queue)
{
	uint32_t at = process->heap_count++;

	if (process->heap_count > process->heap_capacity) {
		process->heap_capacity = process->heap_capacity * 2 + 16;
		process->heap = ingest_table_memory(process->heap, process->heap_capacity,
						    sizeof(*process->heap));
	}
	while (at && is_sooner(queue, process->heap[(at - 1) / 2])) {
		process->heap[at] = process->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	process->heap[at] = queue;
	queue->is_waiting = true;
}

static void pop(struct ingest_process *process)
{
	process->heap[0]->is_waiting = false;
	process->heap[0] = process->heap[--process->heap_count];
	if (process->heap_count)
		sift_down(process, 0);
}

/* Move on to the first chunk that has something to read; false: nothing now. */
static bool find_next(struct ingest_process *process, struct ingest_queue *queue)
{
	struct ingest_chunk *chunk = queue->first;

	while (chunk && chunk->read >= chunk->end) {
		if (!chunk->is_closed)
			return false;
		chunk = chunk->next;
		queue->first = chunk;
	}
	if (!chunk)
		return false;
	queue->key = key_of(process, chunk);
	return true;
}

/* The chunk joins its thread's queue at the place its sequence number gives it. */
static void enqueue(struct ingest_queue *queue, struct ingest_chunk *chunk)
{
	struct ingest_chunk **place = &queue->first;

	while (*place && (*place)->sequence < chunk->sequence)
		place = &(*place)->next;
	chunk->next = *place;
	*place = chunk;
}

/* Where a chunk was read to by a collector that has died; 0: not at all. */
static uint32_t find_saved(struct ingest_process *process, const struct ingest_chunk *chunk)
{
	sqlite3_stmt *statement = NULL;
	uint32_t consumed = 0;

	if (!process->ingest->is_resumed)
		return 0;
	if (sqlite3_prepare_v2(process->ingest->store->db,
			       "SELECT consumed FROM ingest WHERE process_id = ? AND segment = ? "
			       "AND chunk = ? AND sequence = ?",
			       -1, &statement, NULL) != SQLITE_OK)
		store_fail(process->ingest->store);
	sqlite3_bind_int64(statement, 1, process->id);
	sqlite3_bind_int64(statement, 2, chunk->segment);
	sqlite3_bind_int64(statement, 3, chunk->index);
	sqlite3_bind_int64(statement, 4, (int64_t)chunk->sequence);
	if (store_next(process->ingest->store, statement))
		consumed = (uint32_t)sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return consumed;
}

static void discover(struct ingest_process *process, struct ingest_chunk *chunk)
{
	const struct chunk_header *header = chunk->header;
	struct ingest_thread *thread;

	chunk->sequence = header->sequence;
	chunk->thread = header->thread;
	chunk->clock = header->clock;
	chunk->is_counters = header->use == CHUNK_OF_COUNTERS;
	chunk->is_closed = chunk->is_damaged = false;
	chunk->next = NULL;
	chunk->end = 0;
	chunk->read = chunk->committed = chunk->is_counters ? 0 : find_saved(process, chunk);
	if (chunk->is_counters)
		return;
	thread = ingest_identity_thread(process, header->thread, header->tid,
					ingest_clock_ns(&process->clock, header->triple.ticks,
							header->clock));
	enqueue(&thread->queue, chunk);
}

/*
 * What is written is read after the state: a chunk seen closed has its final
 * count.  The call in flight is read before the count: if it has returned since,
 * its record is counted already.
 */
static void look_at(struct ingest_process *process, struct ingest_chunk *chunk)
{
	struct chunk_header *header = chunk->header;
	uint32_t state = atomic_load_explicit(&header->state, memory_order_acquire);
	uint64_t busy;
	uint32_t written;

	if (state != CHUNK_OWNED && state != CHUNK_CLOSED)
		return;
	if (chunk->sequence != header->sequence)
		discover(process, chunk);
	if (chunk->is_counters)
		return;
	busy = atomic_load_explicit(&header->busy_since, memory_order_acquire);
	written = atomic_load_explicit(&header->written, memory_order_acquire);
	if (written > CHUNK_RECORDS)
		written = CHUNK_RECORDS;
	if (written > chunk->end)
		chunk->end = written;
	chunk->is_closed = state == CHUNK_CLOSED || process->is_ended;
	if (busy && state == CHUNK_OWNED && !process->is_ended) {
		int64_t since = ingest_clock_ns(&process->clock, busy, chunk->clock);

		if (since < process->busy_ns)
			process->busy_ns = since;
	}
}

/* Chunks never move, because queues point to them. */
static void know_segments(struct ingest_process *process)
{
	if (process->map.segments == process->chunk_segments)
		return;
	process->chunk = ingest_table_memory(process->chunk, process->map.segments,
					     sizeof(*process->chunk));
	for (; process->chunk_segments < process->map.segments; process->chunk_segments++) {
		uint32_t segment = process->chunk_segments;
		struct ingest_chunk *chunk =
			ingest_table_memory(NULL, SEGMENT_CHUNKS, sizeof(*chunk));

		process->chunk[segment] = chunk;
		memset(chunk, 0, SEGMENT_CHUNKS * sizeof(*chunk));
		for (uint32_t i = 0; i < SEGMENT_CHUNKS; i++) {
			chunk[i].segment = segment;
			chunk[i].index = i;
			chunk[i].chunk = ingest_map_chunk(&process->map, segment, i);
			chunk[i].header = ingest_map_header(&process->map, segment, i);
		}
	}
}

/* The moments in new chunk headers, in order, so that the clock knows them before it is asked. */
static int compare_moments(const void *a, const void *b)
{
	const struct clock_triple *const *x = a, *const *y = b;

	return ((*x)->ticks > (*y)->ticks) - ((*x)->ticks < (*y)->ticks);
}

static bool is_new(const struct ingest_chunk *chunk)
{
	uint32_t state;

	if (!chunk->chunk)
		return false;
	state = atomic_load_explicit(&chunk->header->state, memory_order_acquire);
	return (state == CHUNK_OWNED || state == CHUNK_CLOSED) &&
	       chunk->header->sequence != chunk->sequence &&
	       chunk->header->clock == CLOCK_TICKS_TSC;
}

static void learn_moments(struct ingest_process *process)
{
	const struct clock_triple **moment =
		ingest_table_memory(NULL, (size_t)process->chunk_segments * SEGMENT_CHUNKS + 1,
				    sizeof(*moment));
	size_t count = 0;

	for (uint32_t i = 0; i < process->chunk_segments; i++)
		for (uint32_t j = 0; j < SEGMENT_CHUNKS; j++)
			if (is_new(&process->chunk[i][j]))
				moment[count++] = &process->chunk[i][j].header->triple;
	qsort(moment, count, sizeof(*moment), compare_moments);
	for (size_t i = 0; i < count; i++)
		ingest_clock_add(&process->clock, moment[i]->ticks, moment[i]->monotonic_ns);
	free(moment);
}

void ingest_merge_learn(struct ingest_process *process)
{
	char why[CONTROL_PATH_BYTES + 128];

	if (!ingest_map_refresh(&process->map, why, sizeof(why)))
		message_warn("%s; its records are lost", why);
	know_segments(process);
	learn_moments(process);
}

/* What a chunk held that was given back; more than it can hold is damage. */
static uint64_t count_given_back(const struct chunk_header *header)
{
	uint32_t consumed = atomic_load_explicit(&header->consumed, memory_order_relaxed);

	return consumed < CHUNK_RECORDS ? consumed : CHUNK_RECORDS;
}

uint64_t ingest_merge_missing(const struct ingest_process *process)
{
	uint64_t missing = 0, present = 0, latest = 0;
	bool is_whole = process->is_ended;

	for (uint32_t i = 0; i < process->chunk_segments * SEGMENT_CHUNKS; i++) {
		const struct chunk_header *header =
			process->chunk[i / SEGMENT_CHUNKS][i % SEGMENT_CHUNKS].header;
		uint32_t state = CHUNK_FREE;

		if (header)
			state = atomic_load_explicit(&header->state, memory_order_acquire);
		if (header && state == CHUNK_FREE)
			missing += count_given_back(header);
		present += state != CHUNK_FREE;
		if (state != CHUNK_FREE && header->sequence > latest)
			latest = header->sequence;
		is_whole &= header != NULL;
	}
	/* Chunks that were given back and taken again leave holes in the numbers. */
	return !missing && is_whole && latest > present ? 1 : missing;
}

void ingest_merge_look(struct ingest_process *process)
{
	size_t at = 0;
	struct ingest_thread *thread;

	process->busy_ns = INT64_MAX;
	for (uint32_t i = 0; i < process->chunk_segments; i++)
		for (uint32_t j = 0; j < SEGMENT_CHUNKS; j++)
			if (process->chunk[i][j].chunk)
				look_at(process, &process->chunk[i][j]);
	while ((thread = ingest_table_next(&process->threads, &at)))
		if (!thread->queue.is_waiting && find_next(process, &thread->queue))
			push(process, &thread->queue);
}

/* A text that claims more slots than were published with it comes from a damaged file. */
static uint32_t take_record(struct ingest_process *process, struct ingest_queue *queue)
{
	struct ingest_chunk *chunk = queue->first;
	const struct record *record = &chunk->chunk->record[chunk->read];
	uint32_t slots = text_slots(record);

	if (slots >= chunk->end - chunk->read) {
		chunk->is_damaged |= slots > 0;
		slots = chunk->end - chunk->read - 1;
	}
	ingest_record(process, queue->thread, chunk->clock, record, (const char *)(record + 1),
		      (size_t)slots * RECORD_BYTES);
	chunk->read += slots + 1;
	return slots + 1;
}

/* The time up to which the first queue may run on without looking at the others. */
static int64_t second_key(const struct ingest_process *process)
{
	int64_t key = INT64_MAX;

	for (uint32_t i = 1; i < 3 && i < process->heap_count; i++)
		if (process->heap[i]->key < key)
			key = process->heap[i]->key;
	return key;
}

uint64_t ingest_merge_run(struct ingest_process *process, int64_t until_ns, uint64_t limit)
{
	uint64_t taken = 0;

	while (process->heap_count && taken < limit) {
		struct ingest_queue *queue = process->heap[0];
		int64_t until = second_key(process);
		bool has_more = true;

		if (queue->key >= until_ns && !process->is_ended)
			break;
		while (has_more && taken < limit && queue->key <= until &&
		       (queue->key < until_ns || process->is_ended)) {
			taken += take_record(process, queue);
			has_more = find_next(process, queue);
		}
		if (has_more)
			sift_down(process, 0);
		else
			pop(process);
	}
	return taken;
}

bool ingest_merge_is_empty(const struct ingest_process *process)
{
	return !process->heap_count;
}

uint64_t ingest_merge_left(const struct ingest_process *process)
{
	uint64_t left = 0;

	for (uint32_t i = 0; i < process->chunk_segments; i++)
		for (uint32_t j = 0; j < SEGMENT_CHUNKS; j++)
			if (process->chunk[i][j].sequence && !process->chunk[i][j].is_counters &&
			    process->chunk[i][j].end > process->chunk[i][j].read)
				left += process->chunk[i][j].end - process->chunk[i][j].read;
	return left;
}

void ingest_merge_save(struct ingest_process *process)
{
	for (uint32_t i = 0; i < process->chunk_segments; i++) {
		for (uint32_t j = 0; j < SEGMENT_CHUNKS; j++) {
			struct ingest_chunk *chunk = &process->chunk[i][j];

			if (chunk->sequence && chunk->read != chunk->committed)
				store_row_ingest(&process->ingest->rows, process->id, i, j,
						 chunk->sequence, chunk->read);
		}
	}
}

/* The owner of an OWNED chunk has died without closing it: all it wrote is there to be seen. */
static void close_for(struct ingest_chunk *chunk)
{
	uint32_t owned = CHUNK_OWNED;

	atomic_compare_exchange_strong_explicit(&chunk->header->state, &owned, CHUNK_CLOSED,
						memory_order_acq_rel, memory_order_relaxed);
}

void ingest_merge_reclaim(struct ingest_process *process,
			  bool (*is_dead)(const struct ingest_process *process, uint32_t tid))
{
	for (uint32_t i = 0; i < process->chunk_segments; i++) {
		for (uint32_t j = 0; j < SEGMENT_CHUNKS; j++) {
			struct ingest_chunk *chunk = &process->chunk[i][j];

			if (!chunk->sequence || chunk->is_counters || chunk->is_closed)
				continue;
			if (is_dead(process, chunk->header->tid))
				close_for(chunk);
		}
	}
}

static void give_back(struct ingest_chunk *chunk)
{
	struct chunk_header *header = chunk->header;
	uint32_t closed = CHUNK_CLOSED;

	chunk->committed = chunk->read;
	atomic_store_explicit(&header->consumed, chunk->committed, memory_order_release);
	if (!chunk->is_closed || chunk->read < chunk->end)
		return;
	ingest_map_let_go(chunk->chunk);
	/* Ours to free only if it is still what we read. */
	if (header->sequence == chunk->sequence &&
	    atomic_compare_exchange_strong_explicit(&header->state, &closed, CHUNK_FREE,
						    memory_order_release, memory_order_relaxed))
		chunk->sequence = 0;
}

void ingest_merge_give_back(struct ingest_process *process)
{
	for (uint32_t i = 0; i < process->chunk_segments; i++) {
		for (uint32_t j = 0; j < SEGMENT_CHUNKS; j++) {
			struct ingest_chunk *chunk = &process->chunk[i][j];

			if (!chunk->sequence || chunk->is_counters)
				continue;
			if (chunk->read != chunk->committed || chunk->is_closed)
				give_back(chunk);
		}
	}
}

void ingest_merge_free(struct ingest_process *process)
{
	for (uint32_t i = 0; i < process->chunk_segments; i++)
		free(process->chunk[i]);
	free(process->chunk);
	free(process->heap);
}
