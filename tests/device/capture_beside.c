/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture_beside.c - one thread captures graphs, over and over, while eight others
 * allocate, set, free and copy.  In mode GLOBAL the driver forbids others to
 * allocate and free meanwhile, so there they free before the capture begins, with
 * work under way, and during it only do what is allowed.  Every graph is launched
 * and its result looked at.  A call made behind the program's back would spoil
 * the capture; what is printed is how many were good.
 *
 *	capture_beside [ROUNDS]	[40]
 */
#include "client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { WORKERS = 8, WORDS = 1 << 16, BLOCKS = 6, BLOCK = 1 << 18, MODES = 3, TURNS = 8 };

static const struct mode {
	const char *name;
	CUstreamCaptureMode mode;
} mode[MODES] = {
	{ "GLOBAL", CU_STREAM_CAPTURE_MODE_GLOBAL },
	{ "THREAD_LOCAL", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL },
	{ "RELAXED", CU_STREAM_CAPTURE_MODE_RELAXED },
};

static CUcontext context;
static int rounds = 40;
static CUstreamCaptureMode current_mode;
static pthread_barrier_t begin, end;
static atomic_bool is_captured, is_over;
static atomic_ulong refused; /* calls of the workers that failed */

struct worker {
	pthread_t thread;
	CUstream stream;
	CUdeviceptr kept;
	uint32_t word[64];
};

static void count_refused(CUresult result)
{
	if (result != CUDA_SUCCESS)
		atomic_fetch_add(&refused, 1);
}

/* Blocks come, are worked on, and go while that is under way. */
static void churn(struct worker *self)
{
	CUdeviceptr block[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		CUresult result = cuMemAlloc(&block[i], (size_t)BLOCK << i % 3);

		count_refused(result);
		if (result != CUDA_SUCCESS)
			block[i] = 0;
		else
			count_refused(cuMemsetD8Async(block[i], 1, BLOCK, self->stream));
	}
	for (int i = 0; i < BLOCKS; i++)
		count_refused(cuMemFree(block[i]));
}

/* What survives a capture of another thread in every mode. */
static void look_around(struct worker *self)
{
	CUmemorytype type;
	CUevent event;
	size_t free_bytes, total;

	count_refused(cuMemGetInfo(&free_bytes, &total));
	count_refused(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, self->kept));
	count_refused(cuMemcpyHtoD(self->kept, self->word, sizeof(self->word)));
	count_refused(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	count_refused(cuEventDestroy(event));
}

static void *work(void *data)
{
	struct worker *self = data;

	CALL(cuCtxSetCurrent, context);
	CALL(cuStreamCreate, &self->stream, CU_STREAM_NON_BLOCKING);
	CALL(cuMemAlloc, &self->kept, BLOCK);
	for (;;) {
		if (!atomic_load(&is_over))
			churn(self);
		pthread_barrier_wait(&begin);
		if (atomic_load(&is_over))
			break;
		for (int i = 0; i < TURNS && (i == 0 || !atomic_load(&is_captured)); i++) {
			look_around(self);
			if (current_mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
				churn(self);
		}
		pthread_barrier_wait(&end);
	}
	return NULL;
}

/* NULL where the capture was lost; *lost is why. */
static CUgraph capture_one(CUstream stream, CUdeviceptr cell, uint32_t value, CUresult *lost)
{
	CUgraph graph = NULL;

	*lost = cuStreamBeginCapture(stream, current_mode);
	for (uint32_t i = 0; !*lost && i < 32; i++) {
		*lost = cuMemsetD32Async(cell, value + i, WORDS, stream);
		if (!*lost)
			*lost = cuMemcpyDtoDAsync(cell + WORDS * 4, cell, WORDS * 4, stream);
	}
	if (*lost)
		cuStreamEndCapture(stream, &graph);
	else
		*lost = cuStreamEndCapture(stream, &graph);
	return *lost ? NULL : graph;
}

/* Whether the graph does what was captured. */
static bool run_graph(CUgraph graph, CUstream stream, CUdeviceptr cell, uint32_t value)
{
	uint32_t last = 0;
	CUgraphExec exec;

	CALL(cuGraphInstantiate, &exec, graph, 0);
	CALL(cuGraphLaunch, exec, stream);
	CALL(cuMemcpyDtoHAsync, &last, cell + (2 * WORDS - 1) * 4, 4, stream);
	CALL(cuStreamSynchronize, stream);
	CALL(cuGraphExecDestroy, exec);
	CALL(cuGraphDestroy, graph);
	return last == value + 31;
}

static void run_mode(const struct mode *one, CUstream stream, CUdeviceptr cell)
{
	int good = 0, lost = 0, wrong = 0;
	CUresult why = CUDA_SUCCESS, result;

	current_mode = one->mode;
	atomic_store(&refused, 0);
	for (int i = 0; i < rounds; i++) {
		CUgraph graph;

		atomic_store(&is_captured, false);
		pthread_barrier_wait(&begin);
		graph = capture_one(stream, cell, (uint32_t)i * 100, &result);
		atomic_store(&is_captured, true);
		pthread_barrier_wait(&end);
		if (!graph) {
			lost++;
			why = result;
		} else if (run_graph(graph, stream, cell, (uint32_t)i * 100)) {
			good++;
		} else {
			wrong++;
		}
	}
	printf("%s: %d captures good, %d wrong, %d lost", one->name, good, wrong, lost);
	if (lost)
		printf(" (%d)", (int)why);
	printf("; %lu calls of others refused\n", atomic_load(&refused));
}

int main(int argc, char **argv)
{
	static struct worker worker[WORKERS];
	CUdeviceptr cell;
	CUstream stream;

	if (argc > 1)
		rounds = atoi(argv[1]);
	if (argc > 2 || rounds < 1) {
		fprintf(stderr, "usage: capture_beside [ROUNDS]\n");
		return 2;
	}
	context = client_open();
	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	CALL(cuMemAlloc, &cell, WORDS * 8);
	pthread_barrier_init(&begin, NULL, WORKERS + 1);
	pthread_barrier_init(&end, NULL, WORKERS + 1);
	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&worker[i].thread, NULL, work, &worker[i]))
			return 1;
	for (int i = 0; i < MODES; i++)
		run_mode(&mode[i], stream, cell);
	atomic_store(&is_over, true);
	pthread_barrier_wait(&begin);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(worker[i].thread, NULL);
	return 0;
}
