/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frees_capture.c - one thread captures streams while eight others allocate and
 * free:
 *
 *	frees_capture CASE global|thread-local|relaxed
 *
 * A program's own free may spoil its capture, bare too; such calls get 900.  A
 * capture that is lost although no call of the program was told so is "lost for
 * nothing", and none may be.
 */
#include "frees.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, CAPTURES = 20, NODES = 20 };

/* Between the rounds of a thread; work under ThreadSanitizer takes ten times as long. */
#ifdef __SANITIZE_THREAD__
enum { PAUSE_US = 5000 };
#else
enum { PAUSE_US = 300 };
#endif

static atomic_int is_over;
static atomic_uint refused;   /* calls of the program that a capture forbade */
static atomic_uint is_closed; /* no allocation or free may begin */
static atomic_uint busy;      /* threads that are in one */
static atomic_uint ready;     /* threads that have what they need */
static CUdeviceptr target;
static unsigned lost, lost_for_nothing, wrong;

static CUstreamCaptureMode mode_of(const char *name)
{
	if (!strcmp(name, "global"))
		return CU_STREAM_CAPTURE_MODE_GLOBAL;
	if (!strcmp(name, "thread-local"))
		return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	require(!strcmp(name, "relaxed"), "a known mode");
	return CU_STREAM_CAPTURE_MODE_RELAXED;
}

/* ------------------------------------------------------------------ the eight */

static void relax(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	do_call(cuThreadExchangeStreamCaptureMode(&mode));
}

/* Anything but success and 900 is wrong. */
static int is_refused(CUresult result)
{
	if (!result)
		return 0;
	require(result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a capture is all that forbids");
	atomic_fetch_add(&refused, 1);
	return 1;
}

static void give(CUdeviceptr block)
{
	while (is_refused(cuMemFree(block)))
		usleep(100);
}

static void take_and_give(void)
{
	CUdeviceptr blocks[3];
	void *pinned;
	int i, taken = 0;

	for (i = 0; i < 3; i++)
		if (!is_refused(cuMemAlloc(&blocks[taken], 4096u << i)))
			taken++;
	if (!is_refused(cuMemAllocHost(&pinned, 4096)))
		while (is_refused(cuMemFreeHost(pinned)))
			usleep(100);
	while (taken)
		give(blocks[--taken]);
}

/* What no capture forbids, so that ours is the only reason why one could be lost. */
static void do_harmless(CUstream stream, CUdeviceptr own, unsigned char *host)
{
	CUstreamCaptureStatus status;
	unsigned type;
	size_t free, total;
	CUevent event;

	do_call(cuMemGetInfo(&free, &total));
	do_call(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, target));
	do_call(cuMemcpyHtoD(own, host, 64));
	do_call(cuStreamIsCapturing(stream, &status));
	do_call(cuMemsetD8Async(own + 64, 1, 64, stream));
	do_call(cuEventCreate(&event, 0));
	do_call(cuEventRecord(event, stream));
	do_call(cuEventDestroy(event));
}

static void *work_always(void *argument)
{
	frees_enter();
	if (argument)
		relax();
	atomic_fetch_add(&ready, 1);
	while (!atomic_load(&is_over)) {
		take_and_give();
		usleep(PAUSE_US);
	}
	return NULL;
}

/* Frees while no capture is live, and works all the time. */
static void *work_politely(void *argument)
{
	CUdeviceptr own;
	CUstream stream;
	void *host;

	(void)argument;
	frees_enter();
	do_call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	do_call(cuMemAllocHost(&host, 4096));
	own = target + 1024 + 128 * atomic_fetch_add(&ready, 1);
	while (!atomic_load(&is_over)) {
		atomic_fetch_add(&busy, 1);
		if (!atomic_load(&is_closed))
			take_and_give();
		atomic_fetch_sub(&busy, 1);
		do_harmless(stream, own, host);
		usleep(PAUSE_US);
	}
	return NULL;
}

/* ------------------------------------------------------------------ the one */

static CUresult begin(CUstream stream, CUstreamCaptureMode mode, CUgraph into)
{
	if (into)
		return cuStreamBeginCaptureToGraph(stream, into, NULL, NULL, 0, mode);
	return cuStreamBeginCapture(stream, mode);
}

static void run(CUgraph graph, unsigned round)
{
	CUgraphExec executable;
	size_t nodes = 0;
	unsigned char seen;

	do_call(cuGraphGetNodes(graph, NULL, &nodes));
	do_call(cuGraphInstantiate(&executable, graph, 0));
	do_call(cuGraphLaunch(executable, frees.work));
	while (is_refused(cuStreamSynchronize(frees.work)))
		;
	do_call(cuMemcpyDtoH(&seen, target, 1));
	wrong += nodes != NODES || seen != (unsigned char)round;
	do_call(cuGraphExecDestroy(executable));
}

/* The thread whose call was refused may not have told of it yet. */
static void note_loss(unsigned refused_before)
{
	unsigned i;

	lost++;
	for (i = 0; i < 1000 && atomic_load(&refused) == refused_before; i++)
		usleep(100);
	lost_for_nothing += i == 1000;
}

/* One capture; some are made into a graph that is there already. */
static void capture(CUstreamCaptureMode mode, unsigned round)
{
	unsigned before = atomic_load(&refused), i;
	CUgraph graph = NULL, into = NULL;
	CUresult result;

	if (round % 3 == 1)
		do_call(cuGraphCreate(&into, 0));
	do_call(begin(frees.work, mode, into));
	for (i = 0; i < NODES; i++) {
		result = cuMemsetD8Async(target, (unsigned char)round, 64, frees.work);
		require(!result || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "a node");
		if (i % 8 == 0)
			usleep(200);
	}
	result = cuStreamEndCapture(frees.work, &graph);
	require(!result || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an end");
	if (result)
		note_loss(before);
	else
		run(graph, round);
	if (into || !result)
		do_call(cuGraphDestroy(into ? into : graph));
}

/* The stream of a capture is destroyed: that is an end too. */
static void abandon(CUstreamCaptureMode mode)
{
	CUstream stream;

	do_call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	do_call(cuStreamBeginCapture(stream, mode));
	do_call(cuStreamDestroy(stream));
}

static void close_doors(unsigned yes)
{
	atomic_store(&is_closed, yes);
	while (yes && atomic_load(&busy))
		usleep(50);
}

static void with_eight(void *(*work)(void *), void *argument, CUstreamCaptureMode mode)
{
	pthread_t threads[THREADS];
	unsigned i;

	target = frees_block(4096);
	for (i = 0; i < THREADS; i++)
		require(!pthread_create(&threads[i], NULL, work, argument), "a thread starts");
	while (atomic_load(&ready) < THREADS)
		usleep(100);
	for (i = 0; i < CAPTURES; i++) {
		close_doors(1);
		if (i % 10 == 9)
			abandon(mode);
		else
			capture(mode, i);
		close_doors(0);
		usleep(500);
	}
	atomic_store(&is_over, 1);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	take_and_give(); /* on a slow machine no thread has, since the last capture */
	do_call(cuCtxSynchronize());
}

static void tell(void)
{
	say("captures lost for nothing: %u", lost_for_nothing);
	say("graphs wrong: %u", wrong);
}

/* They free whenever they like; a capture of mode global dies of that, bare too. */
static void capture_rough(char **arguments)
{
	with_eight(work_always, NULL, mode_of(arguments[0]));
	tell();
	if (mode_of(arguments[0]) != CU_STREAM_CAPTURE_MODE_GLOBAL)
		say("captures lost: %u, calls refused: %u", lost, atomic_load(&refused));
}

/* They have said that they know of captures: no mode forbids them anything. */
static void capture_relaxed(char **arguments)
{
	with_eight(work_always, &target, mode_of(arguments[0]));
	tell();
	say("captures lost: %u, calls refused: %u", lost, atomic_load(&refused));
}

/* They free between captures only: calls of ours are all that could spoil one. */
static void capture_polite(char **arguments)
{
	with_eight(work_politely, NULL, mode_of(arguments[0]));
	tell();
	say("captures lost: %u, calls refused: %u", lost, atomic_load(&refused));
}

static void *free_late(void *argument)
{
	frees_enter();
	do_call(cuMemFree((CUdeviceptr)argument));
	return NULL;
}

/* A free waits already when the capture begins, and until after it has ended. */
static void capture_waiting(char **arguments)
{
	CUdeviceptr block = frees_block(MIB);
	pthread_t thread;
	CUgraph graph;
	unsigned i;

	target = frees_block(4096);
	for (i = 0; i < 3; i++) {
		frees_hold(frees.quiet);
		require(!pthread_create(&thread, NULL, free_late, (void *)block),
			"a thread starts");
		usleep(50000);
		do_call(cuStreamBeginCapture(frees.work, mode_of(arguments[0])));
		do_call(cuMemsetD8Async(target, 1, 64, frees.work));
		usleep(20000);
		say("end: %d", (int)cuStreamEndCapture(frees.work, &graph));
		frees_let_go();
		pthread_join(thread, NULL);
		block = frees_block(MIB);
	}
	do_call(cuMemFree(block));
}

int main(int count, char **arguments)
{
	static const struct frees_case cases[] = {
		{ "rough", capture_rough },   { "relaxed", capture_relaxed },
		{ "polite", capture_polite }, { "waiting", capture_waiting },
		{ NULL, NULL },
	};

	(void)count;
	return frees_main(cases, arguments);
}
