/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frees_context.c - contexts end while blocks of theirs are pending:
 *
 *	frees_context CASE
 */
#include "frees.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 6, THREADS = 8, ROUNDS = 12 };

/* ------------------------------------------------------------------ another thread does it */

struct order {
	CUresult (*call)(void *);
	void *argument;
	CUresult result;
};

static void *obey(void *argument)
{
	struct order *order = argument;

	order->result = order->call(order->argument);
	return NULL;
}

static CUresult elsewhere(CUresult (*call)(void *), void *argument)
{
	struct order order = { call, argument, CUDA_ERROR_UNKNOWN };
	pthread_t thread;

	require(!pthread_create(&thread, NULL, obey, &order), "a thread starts");
	pthread_join(thread, NULL);
	return order.result;
}

static CUresult free_one(void *argument)
{
	return cuMemFree((CUdeviceptr)argument);
}

static CUresult destroy(void *context)
{
	return cuCtxDestroy(context);
}

static CUresult release_primary(void *unused)
{
	(void)unused;
	return cuDevicePrimaryCtxRelease(frees.device);
}

static CUresult reset_primary(void *unused)
{
	(void)unused;
	return cuDevicePrimaryCtxReset(frees.device);
}

/* ------------------------------------------------------------------ cases */

/* Blocks of the current context, freed here and by threads without a context. */
static void leave_pending(void)
{
	CUdeviceptr block;
	void *pinned;
	int i;

	for (i = 0; i < BLOCKS; i++) {
		block = frees_block(MIB << (i % 3));
		if (i % 2)
			do_call(cuMemFree(block));
		else
			do_call(elsewhere(free_one, (void *)block));
	}
	do_call(cuMemAllocHost(&pinned, MIB));
	do_call(cuMemFreeHost(pinned));
	frees_block(MIB); /* this one goes with the context, never freed */
}

/* What works before works afterwards. */
static void use(void)
{
	CUdeviceptr block;
	int i;

	for (i = 0; i < 2 * BLOCKS; i++) {
		block = frees_block(2 * MIB);
		do_call(cuMemsetD8(block, 1, MIB));
		do_call(cuMemFree(block));
	}
	do_call(cuCtxSynchronize());
}

static CUcontext make(void)
{
	CUcontext context;

	do_call(cuCtxCreate_v2(&context, 0, frees.device));
	return context;
}

static void context_destroy(char **arguments)
{
	CUcontext context;
	int i;

	(void)arguments;
	for (i = 0; i < 5; i++) {
		context = make();
		leave_pending();
		if (i % 2)
			do_call(cuCtxPopCurrent(NULL));
		say("destroyed: %d",
		    (int)(i % 2 ? elsewhere(destroy, context) : cuCtxDestroy(context)));
		use();
	}
}

/* A free of a block whose context is gone, and of one that was pending in it. */
static void context_late(char **arguments)
{
	CUdeviceptr pending, live;
	CUcontext context;

	(void)arguments;
	context = make();
	pending = frees_block(4 * MIB);
	live = frees_block(4 * MIB);
	do_call(cuMemFree(pending));
	do_call(cuCtxDestroy(context));
	say("live: %d", (int)cuMemFree(live));
	say("pending: %d", (int)cuMemFree(pending));
	use();
}

/* The primary context dies with its last reference only. */
static void context_release(char **arguments)
{
	CUcontext again;
	int i;

	(void)arguments;
	for (i = 0; i < 4; i++) {
		leave_pending();
		do_call(cuDevicePrimaryCtxRetain(&again, frees.device));
		say("one of two: %d", (int)elsewhere(release_primary, NULL));
		use();
		leave_pending();
		say("the last: %d", (int)elsewhere(release_primary, NULL));
		frees_take();
		use();
	}
}

static void context_reset(char **arguments)
{
	CUdeviceptr block;
	CUresult result;
	int i;

	(void)arguments;
	for (i = 0; i < 4; i++) {
		leave_pending();
		block = frees_block(MIB);
		result = i % 2 ? elsewhere(reset_primary, NULL) : reset_primary(NULL);
		say("reset: %d", (int)result);
		say("free: %d", (int)cuMemFree(block));
		say("allocation: %d", (int)cuMemAlloc(&block, MIB));
		frees_take();
		use();
	}
}

/* The end of a context that fails is none: what is pending is released later. */
static void context_survives(char **arguments)
{
	CUcontext context;

	(void)arguments;
	context = make();
	leave_pending();
	say("destroyed: %d", (int)cuCtxDestroy(context));
	use();
	say("destroyed: %d", (int)cuCtxDestroy(context));
	use();
}

/* Work still runs when the context ends. */
static void context_busy(char **arguments)
{
	CUcontext context;
	CUstream stream;

	(void)arguments;
	context = make();
	do_call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	do_call(cuMemsetD8Async(frees_block(MIB), 1, MIB, stream));
	leave_pending();
	do_call(cuCtxPopCurrent(NULL));
	say("destroyed: %d", (int)elsewhere(destroy, context));
	use();
}

static void *live_and_die(void *argument)
{
	CUcontext context;
	CUdeviceptr block;
	int i, k;

	(void)argument;
	for (i = 0; i < ROUNDS; i++) {
		do_call(cuCtxCreate_v2(&context, 0, frees.device));
		for (k = 0; k < BLOCKS; k++) {
			block = frees_block(64 * KIB);
			do_call(cuMemsetD8Async(block, 1, 64, CU_STREAM_LEGACY));
			do_call(cuMemFree(block));
		}
		do_call(cuCtxDestroy(context));
		frees_enter();
		block = frees_block(4096);
		do_call(cuMemFree(block));
	}
	return NULL;
}

static void context_threads(char **arguments)
{
	pthread_t threads[THREADS];
	int i;

	(void)arguments;
	for (i = 0; i < THREADS; i++)
		require(!pthread_create(&threads[i], NULL, live_and_die, NULL), "a thread starts");
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	use();
	say("done");
}

/* Blocks of two devices, freed from whichever context is current. */
static void context_devices(char **arguments)
{
	CUcontext second;
	CUdeviceptr blocks[2 * BLOCKS];
	int i;

	(void)arguments;
	do_call(cuDevicePrimaryCtxRetain(&second, 1));
	for (i = 0; i < 2 * BLOCKS; i++) {
		do_call(cuCtxSetCurrent(i % 2 ? second : frees.context));
		blocks[i] = frees_block(2 * MIB);
	}
	for (i = 0; i < 2 * BLOCKS; i++)
		say("free: %d", (int)cuMemFree(blocks[i]));
	do_call(cuCtxSynchronize());
	do_call(cuDevicePrimaryCtxRelease(1));
	frees_enter();
	use();
}

/* An event sees the work of one context only: peers are told at once. */
static void context_peers(char **arguments)
{
	CUdeviceptr block;
	CUcontext second;
	int i;

	(void)arguments;
	do_call(cuDevicePrimaryCtxRetain(&second, 1));
	do_call(cuCtxEnablePeerAccess(second, 0));
	for (i = 0; i < BLOCKS; i++) {
		do_call(cuCtxSetCurrent(i % 2 ? second : frees.context));
		block = frees_block(2 * MIB);
		say("free: %d", (int)cuMemFree(block));
	}
}

int main(int count, char **arguments)
{
	static const struct frees_case cases[] = {
		{ "destroy", context_destroy }, { "late", context_late },
		{ "release", context_release }, { "reset", context_reset },
		{ "survives", context_survives }, { "busy", context_busy },
		{ "threads", context_threads }, { "devices", context_devices },
		{ "peers", context_peers },
		{ NULL, NULL },
	};

	(void)count;
	return frees_main(cases, arguments);
}
