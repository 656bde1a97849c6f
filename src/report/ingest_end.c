/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_end.h"

#include <stdlib.h>

/*
 * A block is live until its free, and pending from then until its release.  `sign`
 * is -1 to take back what was counted of that.
 */
static void count_end(struct ingest_process *process, const struct ingest_block *block, int sign)
{
	if (!block->is_deferred || block->pending_ns >= block->released_ns) {
		ingest_record_use(process, block, block->released_ns, -sign, 0);
		return;
	}
	ingest_record_use(process, block, block->pending_ns, -sign, sign);
	ingest_record_use(process, block, block->released_ns, 0, -sign);
}

void ingest_end_early(struct ingest_process *process, struct ingest_block *block, int64_t at_ns)
{
	count_end(process, block, -1);
	ingest_block_shorten(&process->blocks, block, at_ns);
	count_end(process, block, 1);
	ingest_record_batch(process, block);
}

/* The block's bytes are back at `at_ns`, or when another block got its address. */
static void release(struct ingest_process *process, struct ingest_block *block, int64_t at_ns,
		    enum release_cause cause)
{
	if (block->replaced_ns && block->replaced_ns < at_ns)
		at_ns = block->replaced_ns;
	block->released_ns = at_ns > block->live_ns ? at_ns : block->live_ns;
	if (!block->released_ns)
		block->released_ns = 1;
	block->cause = cause;
	if (block->is_pending && block->pending_ns < block->released_ns) {
		ingest_record_use(process, block, block->released_ns, 0, -1);
	} else {
		/* Where it went during its own free it was never pending. */
		if (block->is_pending)
			ingest_record_use(process, block, block->pending_ns, 1, -1);
		ingest_record_use(process, block, block->released_ns, -1, 0);
	}
	block->is_pending = false;
	ingest_record_batch(process, block);
}

/*
 * What the free would have waited for the device, had it waited.  A thread waits
 * once for the same work however many blocks it frees meanwhile; releases come
 * nearly in the order of frees, and one that does not may be counted too high.
 */
static void note_saved(struct ingest_process *process, struct ingest_block *block)
{
	int64_t from_ns = block->free_ns, to_ns = block->ready_ns, early_ns = 0, start_ns;
	struct ingest_wait *wait = ingest_table_find(&process->waits, block->free_thread_id);

	if (!process->never_waits || !block->is_deferred || !to_ns)
		return;
	block->has_saved = true;
	if (to_ns <= from_ns)
		return;
	if (!wait) {
		wait = ingest_table_memory(NULL, 1, sizeof(*wait));
		*wait = (struct ingest_wait){ 0 };
		ingest_table_put(&process->waits, block->free_thread_id, wait);
	}
	if (from_ns < wait->from_ns)
		early_ns = (to_ns < wait->from_ns ? to_ns : wait->from_ns) - from_ns;
	start_ns = from_ns > wait->to_ns ? from_ns : wait->to_ns;
	block->saved_ns = early_ns + (to_ns > start_ns ? to_ns - start_ns : 0);
	if (from_ns > wait->to_ns)
		wait->from_ns = from_ns;
	if (to_ns > wait->to_ns)
		wait->to_ns = to_ns;
}

static void release_for_good(struct ingest_process *process, struct ingest_block *block,
			     int64_t at_ns, enum release_cause cause)
{
	release(process, block, at_ns, cause);
	note_saved(process, block);
	ingest_block_retire(&process->blocks, block);
}

/* Its release was met before, and counted as the end of its life, which the free was. */
static void meet_release(struct ingest_process *process, struct ingest_block *block)
{
	ingest_record_use(process, block, block->released_ns, 1, 0);
	count_end(process, block, 1);
	note_saved(process, block);
	ingest_block_retire(&process->blocks, block);
	ingest_record_batch(process, block);
}

static void note_free(struct ingest_process *process, struct ingest_block *block, uint32_t clock,
		      const struct record *record, const struct store_row_call *call)
{
	block->free_api = call->api;
	block->free_thread_id = call->thread_id;
	block->free_ns = call->start_ns;
	block->free_duration_ns = call->duration_ns;
	block->free_caller = call->caller;
	block->is_deferred = record->flags & RECORD_PENDING;
	if (!block->is_deferred)
		return;
	block->waited_ns = ingest_clock_span(&process->clock, record->stream, clock);
	if (block->waited_ns > call->duration_ns)
		block->waited_ns = call->duration_ns;
	block->pending_ns = call->start_ns + block->waited_ns;
}

void ingest_end_free(struct ingest_process *process, uint32_t clock, const struct record *record,
		     const struct store_row_call *call)
{
	struct ingest_block *block = record->b ? ingest_block_find(&process->blocks, record->b) :
						 NULL;

	/* A free that is pending is no program's to repeat: a second one is damage. */
	if (!block || block->is_pending)
		return;
	note_free(process, block, clock, record, call);
	if (block->awaits_free) {
		meet_release(process, block);
		return;
	}
	if (!block->is_deferred) {
		release_for_good(process, block, call->start_ns + call->duration_ns,
				 record->aux ? record->aux : RELEASE_FREED);
		return;
	}
	block->is_pending = true;
	ingest_record_use(process, block, block->pending_ns, -1, 1);
	ingest_record_batch(process, block);
}

void ingest_end_release(struct ingest_process *process, uint32_t clock, const struct record *record,
			const struct store_row_call *call)
{
	struct ingest_block *block = record->b ? ingest_block_find(&process->blocks, record->b) :
						 NULL;
	enum release_cause cause = record->result ? RELEASE_FAILED :
				   record->aux	  ? record->aux :
						    RELEASE_FREED;
	int64_t at_ns = call->start_ns + call->duration_ns;

	if (!block || block->awaits_free)
		return;
	if (record->stream)
		block->ready_ns = ingest_clock_ns(&process->clock, record->stream, clock);
	if (block->ready_ns > at_ns)
		block->ready_ns = at_ns;
	if (block->is_pending) {
		release_for_good(process, block, at_ns, cause);
		return;
	}
	release(process, block, at_ns, cause);
	ingest_block_await(&process->blocks, block);
}

void ingest_end_flush(struct ingest_process *process, uint32_t clock, const struct record *record,
		      const struct store_row_call *call)
{
	const struct store_row_flush flush = {
		.queue = record->aux >> 8,
		.cause = record->aux & 0xff,
		.count = record->a,
		.bytes = record->b,
		.failed = record->stream,
		.waited_ns = ingest_clock_span(&process->clock, record->c, clock),
	};

	store_row_flush(&process->ingest->rows, call, &flush);
}

void ingest_end_finding(struct ingest_process *process, const struct record *record,
			struct store_row_call *call)
{
	const struct ingest_block *block =
		record->b ? ingest_block_find(&process->blocks, record->b) : NULL;

	if (!block)
		block = ingest_block_at(&process->blocks, record->a, call->start_ns);
	call->object = record->a;
	if (record->aux != FINDING_NONE)
		store_row_finding(&process->ingest->rows, call, record->aux, block ? block->id : 0);
}

/* What its driver keeps when a context dies: memory of pools, of graphs, and virtual memory. */
static bool dies_with(const struct ingest_block *block, uint32_t context_id)
{
	return block->context_id == context_id && block->kind != BLOCK_POOL &&
	       block->kind != BLOCK_VMM && block->kind != BLOCK_GRAPH;
}

static bool is_over(const struct ingest_block *block, uint32_t context_id)
{
	if (block->awaits_free)
		return !context_id;
	return context_id ? dies_with(block, context_id) : block->is_pending || block->replaced_ns;
}

static void finish(struct ingest_process *process, struct ingest_block *block, int64_t at_ns,
		   enum release_cause cause)
{
	if (block->awaits_free)
		meet_release(process, block);
	else
		release_for_good(process, block, at_ns, block->replaced_ns ? RELEASE_FREED : cause);
}

enum { DYING_LEAST = 64 };

void ingest_end_all(struct ingest_process *process, uint32_t context_id, int64_t at_ns,
		    enum release_cause cause)
{
	struct ingest_block **dying = NULL;
	struct ingest_block *block;
	size_t count = 0, capacity = 0;
	size_t at = 0;

	while ((block = ingest_table_next(&process->blocks.by_number, &at))) {
		if (!is_over(block, context_id))
			continue;
		if (count == capacity) {
			capacity = capacity ? 2 * capacity : DYING_LEAST;
			dying = ingest_table_memory(dying, capacity, sizeof(*dying));
		}
		dying[count++] = block;
	}
	for (size_t i = 0; i < count; i++)
		finish(process, dying[i], at_ns, cause);
	free(dying);
}
