/* SPDX-License-Identifier: Apache-2.0 */
/* pitfall_capture.c - calls that a stream capture forbids, and callbacks. */
#include "pitfall.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE = 64 * KIB };

static CUdeviceptr spare, target;

static void begin(CUstreamCaptureMode mode)
{
	need(cuStreamBeginCapture(pitfall.stream, mode));
}

static void end(const char *what)
{
	char text[80];
	CUgraph graph;
	CUresult result = cuStreamEndCapture(pitfall.stream, &graph);

	snprintf(text, sizeof(text), "capture after %s", what);
	tell(text, result);
	if (!result)
		need(cuGraphDestroy(graph));
}

/* ---------------------------------------------------------------- one call each */

static CUresult call_info(void)
{
	size_t free_bytes, total_bytes;

	return cuMemGetInfo(&free_bytes, &total_bytes);
}

static CUresult call_attribute(void)
{
	unsigned type;

	return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, target);
}

static CUresult call_copy(void)
{
	static char bytes[64];

	return cuMemcpyHtoD(target, bytes, sizeof(bytes));
}

static CUresult call_alloc(void)
{
	CUdeviceptr block;
	CUresult result = cuMemAlloc(&block, PIECE);

	return result ? result : cuMemFree(block);
}

static CUresult call_free(void)
{
	return cuMemFree(spare);
}

static CUresult call_host_alloc(void)
{
	void *memory;

	return cuMemHostAlloc(&memory, PIECE, 0);
}

static CUresult call_query(void)
{
	return cuStreamQuery(pitfall.other);
}

static CUresult call_synchronize(void)
{
	return cuCtxSynchronize();
}

static const struct {
	const char *name;
	CUresult (*call)(void);
} calls[] = {
	{ "cuMemGetInfo", call_info },
	{ "cuPointerGetAttribute", call_attribute },
	{ "cuMemcpyHtoD", call_copy },
	{ "cuMemAlloc", call_alloc },
	{ "cuMemFree", call_free },
	{ "cuMemHostAlloc", call_host_alloc },
	{ "cuStreamQuery", call_query },
	{ "cuCtxSynchronize", call_synchronize },
};

enum { CALLS = sizeof(calls) / sizeof(*calls) };

static void open_blocks(void)
{
	pitfall_start();
	target = new_block(PIECE);
	spare = new_block(PIECE);
}

/* Which calls a capture of one's own survives. */
static void own(void)
{
	open_blocks();
	for (int i = 0; i < CALLS; i++) {
		begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
		tell(calls[i].name, calls[i].call());
		end(calls[i].name);
	}
}

/* Relaxed, all of them but those that wait for the whole context. */
static void relaxed(void)
{
	open_blocks();
	for (int i = 0; i < CALLS; i++) {
		begin(CU_STREAM_CAPTURE_MODE_RELAXED);
		tell(calls[i].name, calls[i].call());
		end(calls[i].name);
	}
}

static void *make_calls(void *argument)
{
	need(cuCtxSetCurrent(pitfall.context));
	tell(calls[*(int *)argument].name, calls[*(int *)argument].call());
	return NULL;
}

/* A thread that captures nothing kills another's capture as well. */
static void others(void)
{
	pthread_t thread;

	open_blocks();
	for (int i = 0; i < CALLS; i++) {
		begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
		if (pthread_create(&thread, NULL, make_calls, &i))
			exit(91);
		pthread_join(thread, NULL);
		end(calls[i].name);
	}
}

/* What was freed before is still to be released: nobody may do so in a capture. */
static void pending(void)
{
	CUdeviceptr blocks[32];
	CUgraph graph;
	CUgraphExec exec;

	open_blocks();
	for (int i = 0; i < 32; i++)
		blocks[i] = new_block(2 * MIB);
	hold(pitfall.other);
	let_go_after(100);
	for (int i = 0; i < 32; i++)
		need(cuMemFree(blocks[i]));
	begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	for (int i = 0; i < 20; i++) {
		need(cuMemsetD32Async(target, (unsigned)i, 16, pitfall.stream));
		usleep(20000);
	}
	need(cuStreamEndCapture(pitfall.stream, &graph));
	join_letting_go();
	need(cuGraphInstantiate(&exec, graph, 0));
	need(cuGraphLaunch(exec, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	tell("word", read_word(target));
	need(cuGraphExecDestroy(exec));
	need(cuGraphDestroy(graph));
}

/* With a blocking stream in a capture the legacy stream is forbidden to everybody. */
static void blocking(void)
{
	CUdeviceptr blocks[8];
	CUstream stream;
	CUgraph graph;

	open_blocks();
	need(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	for (int i = 0; i < 8; i++) {
		blocks[i] = new_block(2 * MIB);
		need(cuMemFree(blocks[i]));
	}
	need(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	need(cuMemsetD32Async(target, 1, 16, stream));
	usleep(200000);
	need(cuMemsetD32Async(target, 2, 16, stream));
	tell("end of the capture", cuStreamEndCapture(stream, &graph));
	need(cuGraphDestroy(graph));
	need(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	tell("a synchronous copy", call_copy());
	tell("end of the capture", cuStreamEndCapture(stream, &graph));
}

/* ---------------------------------------------------------------- callbacks */

static atomic_int calls_back;
static atomic_bool may_return;

static void CUDA_CB call_back(void *argument)
{
	(void)argument;
	atomic_fetch_add(&calls_back, 1);
	while (!atomic_load(&may_return))
		usleep(1000);
}

/*
 * A stream that stands still until this thread has freed and allocated, in a function
 * of the host or on a word: who waits for it in one of those calls waits for ever.
 */
static void callback(void)
{
	CUdeviceptr blocks[40], pooled;

	pitfall_start();
	for (int i = 0; i < 40; i++)
		blocks[i] = new_block(2 * MIB);
	need(cuMemAllocAsync(&pooled, MIB, pitfall.other));
	for (int i = 0; i < 20; i++)
		need(cuMemFree(blocks[i]));
	need(cuLaunchHostFunc(pitfall.stream, call_back, NULL));
	hold(pitfall.stream);
	for (int i = 0; i < 20; i++)
		blocks[i] = new_block(2 * MIB);
	need(cuMemFreeAsync(pooled, pitfall.other));
	need(cuMemAllocAsync(&pooled, MIB, pitfall.other));
	tell("held all the while", !is_done(pitfall.stream));
	atomic_store(&may_return, 1);
	let_go();
	need(cuStreamSynchronize(pitfall.stream));
	tell("functions called", atomic_load(&calls_back));
	for (int i = 0; i < 40; i++)
		need(cuMemFree(blocks[i]));
	need(cuMemFreeAsync(pooled, pitfall.other));
	need(cuStreamSynchronize(pitfall.other));
}

const struct pitfall_case pitfall_capture_cases[] = {
	{ "capture-own", own },
	{ "capture-relaxed", relaxed },
	{ "capture-others", others },
	{ "capture-pending", pending },
	{ "capture-blocking", blocking },
	{ "callback", callback },
	{ NULL, NULL },
};
