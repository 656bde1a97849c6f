/* SPDX-License-Identifier: Apache-2.0 */
#include "core/counter.h"
#include "core/chunk.h"
#include "core/lock.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

/* Chunks are added under `adding` and stay until the process ends. */
static struct {
	struct trace_chunk **chunks; /* `most` places */
	uint32_t most;
	_Atomic uint32_t count;
	_Atomic uint32_t cursor; /* chunk to look at first */
	struct lock adding;
} blocks;

int counter_start(const struct trace_control *control)
{
	uint32_t most = (uint32_t)(control->buffer_bytes / CHUNK_BYTES);
	void *chunks = mmap(NULL, most * sizeof(*blocks.chunks), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (chunks == MAP_FAILED)
		return -1;
	memset(&blocks, 0, sizeof(blocks));
	blocks.chunks = chunks;
	blocks.most = most;
	return 0;
}

void counter_abandon(void)
{
	if (blocks.chunks)
		munmap(blocks.chunks, blocks.most * sizeof(*blocks.chunks));
	memset(&blocks, 0, sizeof(blocks));
}

static struct counter_block *claim_in_chunk(struct trace_chunk *chunk)
{
	for (int i = 0; i < CHUNK_COUNTER_BLOCKS; i++) {
		struct counter_block *block = (struct counter_block *)chunk->block[i];
		uint32_t expected = COUNTER_FREE;

		if (atomic_load_explicit(&block->in_use, memory_order_relaxed) == COUNTER_FREE &&
		    atomic_compare_exchange_strong_explicit(&block->in_use, &expected,
							    COUNTER_TAKEN, memory_order_acquire,
							    memory_order_relaxed))
			return block;
	}
	return NULL;
}

static struct counter_block *claim_block(void)
{
	uint32_t count = atomic_load_explicit(&blocks.count, memory_order_acquire);
	uint32_t at = atomic_load_explicit(&blocks.cursor, memory_order_relaxed);
	struct counter_block *block = NULL;

	for (uint32_t i = 0; i < count; i++, at++) {
		if (at >= count)
			at = 0;
		block = claim_in_chunk(blocks.chunks[at]);
		if (block)
			break;
	}
	atomic_store_explicit(&blocks.cursor, at, memory_order_relaxed);
	return block;
}

/* Under `adding`.  A chunk of counters belongs to no thread; its blocks do. */
static struct counter_block *add_chunk(const struct clock_triple *before)
{
	uint32_t count = atomic_load_explicit(&blocks.count, memory_order_relaxed);
	struct trace_chunk *chunk;

	if (count >= blocks.most)
		return NULL;
	chunk = chunk_take_counters(before);
	if (!chunk)
		return NULL;
	blocks.chunks[count] = chunk;
	atomic_store_explicit(&blocks.count, count + 1, memory_order_release);
	return claim_in_chunk(chunk);
}

struct counter_block *counter_take(uint32_t thread, uint32_t tid, uint32_t clock,
				   const struct clock_triple *before)
{
	struct counter_block *block = claim_block();

	if (!block) {
		lock_take(&blocks.adding);
		block = claim_block();
		if (!block)
			block = add_chunk(before);
		lock_give(&blocks.adding);
	}
	if (!block)
		return NULL;
	block->thread = thread;
	block->tid = tid;
	block->clock = clock;
	atomic_store_explicit(&block->in_use, COUNTER_IN_USE, memory_order_release);
	return block;
}

void counter_give(struct counter_block *block)
{
	atomic_store_explicit(&block->lost, 0, memory_order_relaxed);
	atomic_store_explicit(&block->lost_from, 0, memory_order_relaxed);
	atomic_store_explicit(&block->lost_to, 0, memory_order_relaxed);
	atomic_store_explicit(&block->in_use, COUNTER_FREE, memory_order_release);
}
