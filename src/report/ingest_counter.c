/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_counter.h"

#include "core/api_names.h"

#define LOST_MOST (UINT64_C(1) << 50) /* more is damage, and is summed all the same */

void ingest_counter_add(struct ingest_process *process, uint32_t clock,
			const struct record *record, const struct store_row_call *call)
{
	struct store_row_calls *calls = ingest_total_calls(&process->ingest->total, process->id,
							   call->thread_id, call->api);
	int64_t max_ns = ingest_clock_span(&process->clock, record->stream, clock);

	calls->calls += record->a;
	calls->errors += record->b;
	calls->is_timed |= record->c != 0;
	calls->total_ns += ingest_clock_span(&process->clock, record->c, clock);
	if (max_ns > calls->max_ns)
		calls->max_ns = max_ns;
}

void ingest_counter_lost(struct ingest_process *process, uint32_t thread_id, uint32_t clock,
			 uint64_t count, uint64_t from, uint64_t to)
{
	if (count > LOST_MOST)
		count = LOST_MOST;
	process->lost += count;
	store_row_gap(&process->ingest->rows, process->id, thread_id, count,
		      from ? ingest_clock_ns(&process->clock, from, clock) : 0,
		      to ? ingest_clock_ns(&process->clock, to, clock) : 0);
}

static void read_block(struct ingest_process *process, const struct counter_block *block)
{
	struct ingest_thread *thread =
		ingest_identity_thread(process, block->thread, block->tid, 0);
	uint64_t lost = atomic_load_explicit(&block->lost, memory_order_relaxed);

	for (uint16_t api = 0; ingest_record_has_our_names(process) && api < API_NAMES; api++) {
		const struct trace_counter *counter;
		struct record record = { .kind = RECORD_COUNTER, .api = api };
		struct store_row_call call = { .thread_id = thread->id };

		if (api_names[api].slot < 0 || api_names[api].slot >= COUNTER_SLOTS)
			continue;
		counter = &block->counter[api_names[api].slot];
		record.a = atomic_load_explicit(&counter->calls, memory_order_relaxed);
		record.b = atomic_load_explicit(&counter->errors, memory_order_relaxed);
		record.c = atomic_load_explicit(&counter->ticks, memory_order_relaxed);
		record.stream = atomic_load_explicit(&counter->max_ticks, memory_order_relaxed);
		if (!record.a || ingest_record_refuse(process, thread, block->clock, &record))
			continue;
		call.api = ingest_record_api(process, api);
		ingest_counter_add(process, block->clock, &record, &call);
	}
	if (lost)
		ingest_counter_lost(process, thread->id, block->clock, lost,
			 atomic_load_explicit(&block->lost_from, memory_order_relaxed),
			 atomic_load_explicit(&block->lost_to, memory_order_relaxed));
}

static void read_counters(struct ingest_process *process, const struct trace_chunk *chunk)
{
	for (int i = 0; i < CHUNK_COUNTER_BLOCKS; i++) {
		const struct counter_block *block =
			(const struct counter_block *)chunk->block[i];

		if (atomic_load_explicit(&block->in_use, memory_order_acquire) == 1)
			read_block(process, block);
	}
}

void ingest_counter_leftovers(struct ingest_process *process)
{
	const struct trace_control *control = process->map.control;
	uint64_t lost = atomic_load_explicit(&control->lost, memory_order_relaxed);

	store_begin(process->ingest->store);
	for (uint32_t i = 0; i < process->chunk_segments; i++)
		for (uint32_t j = 0; j < SEGMENT_CHUNKS; j++)
			if (process->chunk[i][j].is_counters)
				read_counters(process, process->chunk[i][j].chunk);
	if (lost)
		ingest_counter_lost(process, 0, control->clock, lost,
			 atomic_load_explicit(&control->lost_from, memory_order_relaxed),
			 atomic_load_explicit(&control->lost_to, memory_order_relaxed));
}
