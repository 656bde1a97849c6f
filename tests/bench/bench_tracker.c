/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_tracker [THREADS]: what the tracker costs, in nanoseconds a step, as the
 * best of several rounds.  One thread first, then that many, each with blocks
 * of its own.
 */
#include "core/clock.h"
#include "core/tracker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 60, STEPS = 20000, MOST_THREADS = 256 };

#define BASE UINT64_C(0x7f0000000000)
#define FAR (UINT64_C(1) << 36)

struct work {
	uint64_t address; /* of this thread's first block */
	uint64_t bytes;
	uint64_t stride;
	int live;	  /* blocks that stay while one is added and taken */
	uint64_t apart;	  /* from one thread's first block to the next one's */
};

static struct block make_block(uint64_t address, uint64_t bytes)
{
	return (struct block){
		.id = tracker_next_id(), .address = address, .bytes = bytes, .references = 1,
		.kind = BLOCK_DEVICE, .space = SPACE_ADDRESS, .context = 1 };
}

static void fill(const struct work *work)
{
	for (int i = 0; i < work->live; i++) {
		struct block block =
			make_block(work->address + (uint64_t)i * work->stride, work->bytes);

		tracker_add(&block);
	}
}

static void *add_and_take(void *argument)
{
	const struct work *work = argument;
	uint64_t address = work->address + (uint64_t)work->live * work->stride;

	for (int i = 0; i < STEPS; i++) {
		struct block block = make_block(address, work->bytes);

		tracker_add(&block);
		if (!tracker_take(SPACE_ADDRESS, address, &block))
			abort();
	}
	return NULL;
}

static void *find(void *argument)
{
	const struct work *work = argument;

	for (int i = 0; i < STEPS; i++) {
		struct block block;

		if (!tracker_find(SPACE_ADDRESS,
				  work->address + (uint64_t)(i % work->live) * work->stride + 8,
				  &block))
			abort();
	}
	return NULL;
}

static uint64_t run(void *(*body)(void *), struct work *works, int threads)
{
	pthread_t ids[MOST_THREADS];
	uint64_t start = clock_system_ns(CLOCK_MONOTONIC);

	if (threads == 1) {
		body(&works[0]);
		return clock_system_ns(CLOCK_MONOTONIC) - start;
	}
	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, body, &works[i]);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	return clock_system_ns(CLOCK_MONOTONIC) - start;
}

static void measure(const char *name, void *(*body)(void *), const struct work *work, int threads)
{
	static struct work works[MOST_THREADS];
	uint64_t best = UINT64_MAX;

	tracker_reset();
	for (int i = 0; i < threads; i++) {
		works[i] = *work;
		works[i].address += (uint64_t)i * work->apart;
		fill(&works[i]);
	}
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t taken = run(body, works, threads);

		best = taken < best ? taken : best;
	}
	printf("%-28s %3d threads  %7.1f ns\n", name, threads, (double)best / STEPS);
}

int main(int argc, char **argv)
{
	const struct work small = { BASE, 512, 512, 100, FAR };
	const struct work middle = { BASE, 2 << 20, 2 << 20, 100, FAR };
	const struct work many = { BASE, 2 << 20, 2 << 20, 20000, FAR };
	const struct work neighbours = { BASE, 4096, 4096, 0, 4096 };
	int most = argc > 1 ? atoi(argv[1]) : 2;

	if (most < 1 || most > MOST_THREADS) {
		fprintf(stderr, "bench_tracker: threads are 1 to %d\n", MOST_THREADS);
		return 2;
	}
	for (int threads = 1;; threads = most) {
		measure("add+take, 512 B", add_and_take, &small, threads);
		measure("add+take, 4 KiB neighbours", add_and_take, &neighbours, threads);
		measure("add+take, 2 MiB", add_and_take, &middle, threads);
		measure("add+take, 2 MiB, 20000 live", add_and_take, &many, threads);
		measure("find, 512 B", find, &small, threads);
		measure("find, 2 MiB", find, &middle, threads);
		measure("find, 2 MiB, 20000 live", find, &many, threads);
		if (threads == most)
			return 0;
	}
}
