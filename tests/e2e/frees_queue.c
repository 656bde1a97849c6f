/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frees_queue.c - frees that fill a queue:
 *
 *	frees_queue CASE ARGUMENT...
 */
#include "frees.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS_MAX = 256 };

static CUdeviceptr blocks[BLOCKS_MAX];

static void take(unsigned count, size_t bytes)
{
	unsigned i;

	require(count <= BLOCKS_MAX, "so many blocks");
	for (i = 0; i < count; i++)
		blocks[i] = frees_block(bytes);
}

/* Prints the results as runs of equals: "12 x 0". */
static void give(unsigned count)
{
	CUresult result = CUDA_SUCCESS, last = CUDA_SUCCESS;
	unsigned i, run = 0;

	for (i = 0; i < count; i++, run++) {
		result = cuMemFree(blocks[i]);
		if (run && result != last) {
			say("frees: %u x %d", run, (int)last);
			run = 0;
		}
		last = result;
	}
	say("frees: %u x %d", run, (int)last);
}

/* count COUNT BYTES: so many frees in an idle context, and nothing else. */
static void queue_count(char **arguments)
{
	unsigned count = (unsigned)atoi(arguments[0]);

	take(count, strtoul(arguments[1], NULL, 0));
	give(count);
}

/* sync COUNT HOW: then wait for nothing, in the way that is asked for. */
static void queue_sync(char **arguments)
{
	unsigned count = (unsigned)atoi(arguments[0]);
	const char *how = arguments[1];
	unsigned char byte;
	size_t free, total;
	CUdeviceptr kept = frees_block(64);
	CUevent event;

	do_call(cuEventCreate(&event, 0));
	take(count, 2 * MIB);
	give(count);
	if (!strcmp(how, "context"))
		do_call(cuCtxSynchronize());
	else if (!strcmp(how, "stream"))
		do_call(cuStreamSynchronize(frees.quiet));
	else if (!strcmp(how, "event"))
		do_call(cuEventSynchronize(event));
	else if (!strcmp(how, "copy"))
		do_call(cuMemcpyDtoH(&byte, kept, 1));
	else if (!strcmp(how, "info"))
		do_call(cuMemGetInfo(&free, &total));
	else
		require(!strcmp(how, "nothing"), "a known way to wait");
	raise(SIGKILL); /* what is pending now stays so */
}

/* busy COUNT: they are freed behind a stream that stands still; then it goes on. */
static void queue_busy(char **arguments)
{
	unsigned count = (unsigned)atoi(arguments[0]);

	take(count, 2 * MIB);
	frees_hold(frees.work);
	give(count);
	frees_let_go();
	do_call(cuCtxSynchronize());
}

/* twice: two large blocks, freed while a stream stands still for a while. */
static void queue_twice(char **arguments)
{
	(void)arguments;
	take(2, 64 * MIB);
	frees_hold(frees.work);
	frees_let_go_after(100);
	do_call(cuMemFree(blocks[0]));
	say("first: %s", frees_is_let_go() ? "after" : "before");
	do_call(cuMemFree(blocks[1]));
	say("second: %s", frees_is_let_go() ? "after" : "before");
	frees_join();
	do_call(cuCtxSynchronize());
}

/* inject COUNT ROUNDS: passes, of which something may go wrong in any place. */
static void queue_inject(char **arguments)
{
	unsigned count = (unsigned)atoi(arguments[0]), rounds = (unsigned)atoi(arguments[1]);
	unsigned char byte = 1;

	while (rounds--) {
		take(count, 2 * MIB);
		do_call(cuMemsetD8Async(blocks[0], 1, MIB, frees.work));
		give(count);
		do_call(cuCtxSynchronize());
		blocks[0] = frees_block(64 * KIB);
		do_call(cuMemcpyHtoD(blocks[0], &byte, 1));
		do_call(cuMemFree(blocks[0]));
	}
	do_call(cuCtxSynchronize());
}

/* fault: the device fails while a free waits; what the calls say then. */
static void queue_fault(char **arguments)
{
	CUdeviceptr late;

	(void)arguments;
	take(6, 2 * MIB);
	late = frees_block(64);
	give(6);
	frees_busy(frees.work, 20);
	say("free: %d", (int)cuMemFree(late));
	say("allocation: %d", (int)cuMemAlloc(&late, 64));
	say("synchronise: %d", (int)cuCtxSynchronize());
	say("stream: %d", (int)cuStreamSynchronize(frees.work));
}

/* kinds ROUNDS: one of each kind that may wait, round after round. */
static void queue_kinds(char **arguments)
{
	CUDA_ARRAY_DESCRIPTOR shape = { 512, 512, CU_AD_FORMAT_FLOAT, 1 };
	unsigned rounds = (unsigned)atoi(arguments[0]);
	CUdeviceptr managed, pitched;
	CUmodule module;
	CUarray array;
	size_t pitch;
	void *pinned;

	while (rounds--) {
		do_call(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
		do_call(cuMemAllocPitch(&pitched, &pitch, 1000, 1000, 4));
		do_call(cuMemAllocHost(&pinned, MIB));
		do_call(cuArrayCreate(&array, &shape));
		do_call(cuModuleLoadData(&module, "an image"));
		do_call(cuMemsetD8Async(pitched, 1, 1000, frees.work));
		do_call(cuMemFree(managed));
		do_call(cuMemFree(pitched));
		do_call(cuMemFreeHost(pinned));
		do_call(cuArrayDestroy(array));
		do_call(cuModuleUnload(module));
	}
	say("done");
}

/* forwarded: what is never put off, by whatever call it is freed. */
static void queue_forwarded(char **arguments)
{
	CUdeviceptr exported = frees_block(MIB), pooled, ordered = frees_block(MIB);
	CUipcMemHandle handle;

	(void)arguments;
	do_call(cuIpcGetMemHandle(&handle, exported));
	do_call(cuMemFree(exported));
	do_call(cuMemAllocAsync(&pooled, MIB, frees.work));
	do_call(cuStreamSynchronize(frees.work));
	do_call(cuMemFree(pooled));
	do_call(cuMemAllocAsync(&pooled, MIB, frees.work));
	do_call(cuMemFreeAsync(pooled, frees.work));
	do_call(cuMemFreeAsync(ordered, frees.work));
	say("done");
}

/* fork COUNT: a child knows nothing of what is pending, and harms nobody by leaving. */
static void queue_fork(char **arguments)
{
	unsigned count = (unsigned)atoi(arguments[0]);
	int status = 0;
	pid_t child;

	take(count + 1, MIB);
	give(count);
	child = fork();
	if (!child) {
		say("free in the child: %d", (int)cuMemFree(blocks[count]));
		_exit(0);
	}
	require(waitpid(child, &status, 0) == child && !status, "the child ends well");
	say("free in the parent: %d", (int)cuMemFree(blocks[count]));
	do_call(cuCtxSynchronize());
}

static void free_late(void)
{
	unsigned i;

	for (i = 0; i < 12; i++)
		say("free in a handler: %d", (int)cuMemFree(blocks[i]));
	say("synchronise in a handler: %d", (int)cuCtxSynchronize());
}

static int is_late;

__attribute__((destructor)) static void free_too_late(void)
{
	if (!is_late)
		return;
	say("free in a destructor: %d", (int)cuMemFree(blocks[12]));
	say("allocation in a destructor: %d", (int)cuMemAlloc(&blocks[12], MIB));
}

/* late: frees in exit handlers, where CUDA still works, and in destructors, where not. */
static void queue_late(char **arguments)
{
	(void)arguments;
	take(20, MIB);
	frees_busy(frees.work, 5);
	say("free: %d", (int)cuMemFree(blocks[19]));
	is_late = 1;
	atexit(free_late);
	exit(0);
}

static void leave(const char *how)
{
	struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	if (!strcmp(how, "exit"))
		exit(0);
	if (!strcmp(how, "_exit"))
		_exit(0);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "kill"))
		raise(SIGKILL);
	require(0, "a known end");
}

/* end HOW COUNT: the process ends with so many pending, and two that live. */
static void queue_end(char **arguments)
{
	unsigned count = (unsigned)atoi(arguments[1]);

	frees_block(4096);
	frees_block(3 * MIB);
	take(count, MIB);
	give(count);
	leave(arguments[0]);
}

int main(int count, char **arguments)
{
	static const struct frees_case cases[] = {
		{ "count", queue_count },   { "sync", queue_sync },   { "busy", queue_busy },
		{ "twice", queue_twice },
		{ "inject", queue_inject }, { "fault", queue_fault }, { "kinds", queue_kinds },
		{ "fork", queue_fork },	    { "late", queue_late },   { "end", queue_end },
		{ "forwarded", queue_forwarded }, { NULL, NULL },
	};

	(void)count;
	return frees_main(cases, arguments);
}
