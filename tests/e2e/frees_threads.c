/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frees_threads.c - many threads that allocate, write, look and free:
 *
 *	frees_threads churn THREADS ROUNDS
 *	frees_threads again ROUNDS
 *
 * Every block gets a value of its own, by work on a stream of the thread, and
 * is looked at before it is freed, with work on other blocks still pending.
 */
#include "frees.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS_MAX = 64, BLOCKS = 6, WORDS = 64 };

static unsigned rounds;

struct worker {
	pthread_t thread;
	unsigned number, wrong;
	CUstream stream;
	uint32_t *seen; /* pinned */
	CUdeviceptr blocks[BLOCKS];
	uint32_t values[BLOCKS];
	size_t bytes[BLOCKS];
};

static size_t bytes_of(unsigned number, unsigned round)
{
	static const size_t sizes[] = { 256, 4 * KIB, 300 * KIB, MIB, 2 * MIB, 3 * MIB };

	return sizes[(number * 7 + round * 5) % 6];
}

/* Value first and last, and nobody else's in between. */
static void look(struct worker *worker, unsigned at)
{
	CUdeviceptr block = worker->blocks[at];
	size_t last = worker->bytes[at] - WORDS * 4;
	unsigned i;

	do_call(cuMemcpyDtoHAsync(worker->seen, block, WORDS * 4, worker->stream));
	do_call(cuMemcpyDtoHAsync(worker->seen + WORDS, block + last, WORDS * 4, worker->stream));
	do_call(cuStreamSynchronize(worker->stream));
	for (i = 0; i < 2 * WORDS; i++)
		worker->wrong += worker->seen[i] != worker->values[at];
}

static void give(struct worker *worker, unsigned at)
{
	look(worker, at);
	do_call(cuMemFree(worker->blocks[at]));
	worker->blocks[at] = 0;
}

static void take(struct worker *worker, unsigned at, unsigned round)
{
	worker->bytes[at] = bytes_of(worker->number, round);
	worker->values[at] = worker->number << 20 | round;
	worker->blocks[at] = frees_block(worker->bytes[at]);
	do_call(cuMemsetD32Async(worker->blocks[at], worker->values[at], worker->bytes[at] / 4,
				 worker->stream));
}

static void *churn(void *argument)
{
	struct worker *worker = argument;
	void *pinned;
	unsigned i;

	frees_enter();
	do_call(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
	do_call(cuMemAllocHost(&pinned, 2 * WORDS * 4));
	worker->seen = pinned;
	for (i = 1; i <= rounds; i++) {
		if (worker->blocks[i % BLOCKS])
			give(worker, i % BLOCKS);
		take(worker, i % BLOCKS, i);
	}
	for (i = 0; i < BLOCKS; i++)
		if (worker->blocks[i])
			give(worker, i);
	do_call(cuMemFreeHost(pinned));
	do_call(cuStreamDestroy(worker->stream));
	return NULL;
}

static void threads_churn(char **arguments)
{
	static struct worker workers[THREADS_MAX];
	unsigned count = (unsigned)atoi(arguments[0]), wrong = 0, i;

	rounds = (unsigned)atoi(arguments[1]);
	for (i = 0; i < count; i++) {
		workers[i].number = i;
		require(!pthread_create(&workers[i].thread, NULL, churn, &workers[i]),
			"a thread starts");
	}
	for (i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		wrong += workers[i].wrong;
	}
	do_call(cuCtxSynchronize());
	say("%u threads, %u rounds, %u words wrong", count, rounds, wrong);
}

/* One block after the other, at one address where the driver gives it again at once. */
static void threads_again(char **arguments)
{
	static uint32_t seen[WORDS];
	unsigned times = (unsigned)atoi(arguments[0]), wrong = 0, i, k;
	CUdeviceptr block;

	for (i = 1; i <= times; i++) {
		block = frees_block(bytes_of(0, i));
		do_call(cuMemsetD32Async(block, i, WORDS, frees.work));
		do_call(cuMemcpyDtoHAsync(seen, block, sizeof(seen), frees.work));
		do_call(cuStreamSynchronize(frees.work));
		for (k = 0; k < WORDS; k++)
			wrong += seen[k] != i;
		do_call(cuMemFree(block));
		if (i % 3 == 0)
			do_call(cuStreamSynchronize(frees.quiet));
	}
	do_call(cuCtxSynchronize());
	say("%u rounds, %u words wrong", times, wrong);
}

int main(int count, char **arguments)
{
	static const struct frees_case cases[] = {
		{ "churn", threads_churn }, { "again", threads_again }, { NULL, NULL },
	};

	(void)count;
	return frees_main(cases, arguments);
}
