/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scarce_room.c - what a program finds out of the memory that it may have:
 *
 *	scarce_room CASE ARGUMENT...
 */
#include "scarce.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* cuda.h gives these names a newer meaning. */
#undef cuDeviceTotalMem
#undef cuMemGetInfo
CUresult CUDAAPI cuDeviceTotalMem(unsigned int *bytes, CUdevice device);
CUresult CUDAAPI cuMemGetInfo(unsigned int *is_free, unsigned int *total);
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);

static CUcontext context;

static CUmemAllocationProp on_device(int device)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
	};
}

static size_t total_of(void)
{
	size_t bytes;

	do_call(cuDeviceTotalMem_v2(&bytes, 0));
	return bytes;
}

static size_t free_of(void)
{
	size_t is_free, total;

	do_call(cuMemGetInfo_v2(&is_free, &total));
	if (total != total_of())
		say("cuMemGetInfo tells of %zu bytes, cuDeviceTotalMem of %zu", total, total_of());
	return is_free;
}

/* ------------------------------------------------------------------ the largest block */

static CUresult try_linear(size_t bytes)
{
	CUdeviceptr block;
	CUresult result = cuMemAlloc(&block, bytes);

	if (!result)
		do_call(cuMemFree(block));
	return result;
}

static CUresult try_created(size_t bytes)
{
	CUmemAllocationProp properties = on_device(0);
	CUmemGenericAllocationHandle memory;
	CUresult result = cuMemCreate(&memory, bytes, &properties, 0);

	if (!result)
		do_call(cuMemRelease(memory));
	return result;
}

static CUresult try_pooled(size_t bytes)
{
	CUdeviceptr block;
	CUresult result = cuMemAllocAsync(&block, bytes, NULL);

	if (!result)
		do_call(cuMemFreeAsync(block, NULL));
	do_call(cuStreamSynchronize(NULL));
	return result;
}

static CUresult try_array(size_t bytes)
{
	CUDA_ARRAY_DESCRIPTOR shape = { 32768, bytes / 131072, CU_AD_FORMAT_FLOAT, 1 };
	CUarray array;
	CUresult result = cuArrayCreate(&array, &shape);

	if (!result)
		do_call(cuArrayDestroy(array));
	return result;
}

static CUresult try_pitched(size_t bytes)
{
	CUdeviceptr block;
	size_t pitch;
	CUresult result = cuMemAllocPitch(&block, &pitch, 1000, bytes / 1024, 4);

	if (!result)
		do_call(cuMemFree(block));
	return result;
}

/* Between what works and what does not, in steps of `step`. */
static size_t search(CUresult (*attempt)(size_t), size_t step)
{
	size_t good = 0, bad = (size_t)1 << 33;

	while (bad - good > step) {
		size_t middle = (good + bad) / 2 / step * step;
		CUresult result = attempt(middle);

		if (result && result != CUDA_ERROR_OUT_OF_MEMORY)
			say("%zu bytes: %d", middle, (int)result);
		if (result)
			bad = middle;
		else
			good = middle;
	}
	return good;
}

static const struct {
	const char *name;
	CUresult (*attempt)(size_t);
	size_t step;
} kinds[] = {
	{ "linear", try_linear, 1 },	   { "pitched", try_pitched, PAGE },
	{ "array", try_array, PAGE },	   { "created", try_created, PAGE },
	{ "pooled", try_pooled, 512 },	   { "linear", try_linear, 1 },
};

static void find_room(void)
{
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		say("%s: %zu of %zu", kinds[i].name, search(kinds[i].attempt, kinds[i].step),
		    free_of());
}

/* search [BYTES]: the largest block of each kind, beside a block of so many bytes. */
static void room_search(char **arguments)
{
	CUdeviceptr block;

	context = scarce_start();
	say("total: %zu", total_of());
	find_room();
	if (!arguments[0])
		return;
	do_call(cuMemAlloc(&block, strtoul(arguments[0], NULL, 0)));
	find_room();
	do_call(cuMemFree(block));
	find_room();
}

/* ------------------------------------------------------------------ what is told */

/* info: all forms in which a program can ask. */
static void room_info(char **arguments)
{
	unsigned int small_free, small_total, small;
	CUdeviceptr block;
	size_t first;

	(void)arguments;
	context = scarce_start();
	first = free_of();
	say("total %zu, free %zu", total_of(), first);
	do_call(cuDeviceTotalMem(&small, 0));
	do_call(cuMemGetInfo(&small_free, &small_total));
	say("32 bits: %u, %u, free %u", small, small_total, small_free);
	do_call(cuMemAlloc(&block, 5 * MIB));
	say("5 MiB take %zu", first - free_of());
	do_call(cuMemFree(block));
	do_call(cuCtxSynchronize());
	say("and give back %zu", first - free_of());
}

/* ------------------------------------------------------------------ filling up */

enum { MOST = 100000 };

static CUdeviceptr taken[MOST];

/* Blocks of one size until there are no more. */
static unsigned fill(size_t bytes, CUresult (*take)(CUdeviceptr *, size_t))
{
	unsigned count = 0;

	while (count < MOST && !take(&taken[count], bytes))
		count++;
	return count;
}

static CUresult take_linear(CUdeviceptr *block, size_t bytes)
{
	return cuMemAlloc(block, bytes);
}

static CUresult take_pooled(CUdeviceptr *block, size_t bytes)
{
	return cuMemAllocAsync(block, bytes, NULL);
}

/* fill BYTES: how many blocks there are to be had, and again when all were freed. */
static void room_fill(char **arguments)
{
	size_t bytes = strtoul(arguments[0], NULL, 0);
	unsigned count, again;

	context = scarce_start();
	count = fill(bytes, take_linear);
	say("%u blocks, %zu bytes are left", count, free_of());
	for (unsigned i = 0; i < count; i += 2)
		do_call(cuMemFree(taken[i]));
	again = 0;
	for (unsigned i = 0; i < count; i += 2)
		again += !cuMemAlloc(&taken[i], bytes);
	say("%u of %u come back, one more: %d", again, (count + 1) / 2,
	    (int)cuMemAlloc(&taken[count], bytes));
}

/* A pool that gives nothing back by itself is filled, emptied and filled again. */
static void fill_pool(size_t bytes)
{
	cuuint64_t keep = UINT64_MAX;
	CUmemoryPool pool;
	unsigned count;
	size_t room;

	do_call(cuDeviceGetDefaultMemPool(&pool, 0));
	do_call(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	room = free_of();
	count = fill(bytes, take_pooled);
	say("%u blocks of a pool", count);
	for (unsigned i = 0; i < count; i++)
		do_call(cuMemFreeAsync(taken[i], NULL));
	do_call(cuStreamSynchronize(NULL));
	say("some are kept: %d", free_of() < room);
	say("again: %u", fill(bytes, take_pooled));
	for (unsigned i = 0; i < count; i++)
		do_call(cuMemFreeAsync(taken[i], NULL));
	do_call(cuStreamSynchronize(NULL));
}

/* pool BYTES */
static void room_pool(char **arguments)
{
	context = scarce_start();
	fill_pool(strtoul(arguments[0], NULL, 0));
}

/* kept: what a pool keeps goes to whoever needs it. */
static void room_kept(char **arguments)
{
	size_t room;

	(void)arguments;
	context = scarce_start();
	room = free_of();
	fill_pool(4 * MIB);
	say("all as one block: %d", (int)try_linear(room));
}

/* ------------------------------------------------------------------ pending blocks */

/* pending: a block is taken over and over, of a size of which there is room for one. */
static void room_pending(char **arguments)
{
	unsigned failed = 0, rounds = (unsigned)atoi(arguments[0]);
	CUdeviceptr block;
	size_t bytes, off = 0;

	context = scarce_start();
	bytes = free_of() / PAGE * PAGE;
	for (unsigned i = 0; i < rounds; i++) {
		if (cuMemAlloc(&block, bytes)) {
			failed++;
			continue;
		}
		do_call(cuMemsetD8Async(block, 1, 64 * KIB, NULL));
		do_call(cuMemFree(block));
		off += free_of() != bytes;
	}
	say("%u failed, %zu times not all was free again", failed, off);
}

/* ------------------------------------------------------------------ threads */

enum { THREADS = 8 };

static atomic_long pages_left;
static atomic_uint failures;
static unsigned rounds;

static void *compete(void *argument)
{
	unsigned state = (unsigned)(uintptr_t)argument;
	CUdeviceptr block;

	do_call(cuCtxSetCurrent(context));
	for (unsigned i = 0; i < rounds; i++) {
		long pages;

		state = state * 1103515245 + 12345;
		pages = 1 + (state >> 24) % 6;
		if (atomic_fetch_sub(&pages_left, pages) < pages) {
			atomic_fetch_add(&pages_left, pages);
			continue;
		}
		if (cuMemAlloc(&block, (size_t)pages * PAGE))
			atomic_fetch_add(&failures, 1);
		else
			do_call(cuMemFree(block));
		atomic_fetch_add(&pages_left, pages);
	}
	return NULL;
}

/* All want more than there is, and hold what they get. */
static void *grab(void *argument)
{
	CUdeviceptr block;

	do_call(cuCtxSetCurrent(context));
	while (!cuMemAlloc(&block, PAGE))
		atomic_fetch_add((atomic_uint *)argument, 1);
	return NULL;
}

static void run_threads(void *(*work)(void *), void *argument)
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, argument ? argument : (void *)(i + 1)))
			exit(91);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* threads ROUNDS: what fits never fails; and together they get what there is, no more. */
static void room_threads(char **arguments)
{
	atomic_uint got = 0;
	size_t room;

	context = scarce_start();
	room = free_of();
	rounds = (unsigned)atoi(arguments[0]);
	atomic_store(&pages_left, (long)(room / PAGE));
	run_threads(compete, NULL);
	say("%u failures", atomic_load(&failures));
	do_call(cuCtxSynchronize());
	run_threads(grab, &got);
	say("%u of %zu pages", atomic_load(&got), room / PAGE);
}

/* Blocks of 1 to 24 MiB of the one pool, freed at random: what is idle is in pieces. */
static void *break_up(void *argument)
{
	unsigned state = (unsigned)(uintptr_t)argument * 77 + 1, got = 0;
	CUdeviceptr block[64] = { 0 };
	CUstream stream;

	do_call(cuCtxSetCurrent(context));
	do_call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < rounds; i++) {
		CUdeviceptr *slot;

		state = state * 1103515245 + 12345;
		slot = &block[state >> 8 & 63];
		if (*slot) {
			do_call(cuMemFreeAsync(*slot, stream));
			*slot = 0;
		} else if (!cuMemAllocAsync(slot, (1 + (state >> 16) % 24) * (size_t)MIB, stream)) {
			got++;
		} else if (*slot) {
			say("a block that there is not lies at %llx", *slot);
			*slot = 0;
		}
	}
	for (unsigned i = 0; i < 64; i++)
		if (block[i])
			do_call(cuMemFreeAsync(block[i], stream));
	atomic_fetch_add(&failures, !got);
	return NULL;
}

/* pieces ROUNDS */
static void room_pieces(char **arguments)
{
	context = scarce_start();
	rounds = (unsigned)atoi(arguments[0]);
	run_threads(break_up, NULL);
	say("%u threads got nothing", atomic_load(&failures));
	free_of();
}

/* ------------------------------------------------------------------ places */

/* devices: each has its own room, whichever context is current, or none. */
static void room_devices(char **arguments)
{
	CUmemAllocationProp there = on_device(1);
	CUmemGenericAllocationHandle memory[2] = { 0, 0 };
	CUcontext other;
	size_t all;

	(void)arguments;
	do_call(cuInit(0));
	do_call(cuDeviceTotalMem_v2(&all, 1));
	say("without a context: %d", (int)cuMemCreate(&memory[0], all, &there, 0));
	say("more: %d", (int)cuMemCreate(&memory[1], PAGE, &there, 0));
	do_call(cuMemRelease(memory[0]));
	do_call(cuDevicePrimaryCtxRetain(&other, 1));
	context = scarce_start();
	say("all of it again: %d", (int)cuMemCreate(&memory[0], all, &there, 0));
	say("half of it: %d", (int)cuMemCreate(&memory[0], all / 2 / PAGE * PAGE, &there, 0));
	say("half of it: %d", (int)cuMemCreate(&memory[1], all / 2 / PAGE * PAGE, &there, 0));
	say("here: %d", (int)try_linear(free_of()));
	do_call(cuMemRelease(memory[0]));
	do_call(cuDevicePrimaryCtxRelease(1));
	say("without a context: %d", (int)cuMemCreate(&memory[0], all, &there, 0));
}

/* host: only devices are smaller. */
static void room_host(char **arguments)
{
	CUdeviceptr managed;
	size_t bytes;
	void *pinned;

	(void)arguments;
	context = scarce_start();
	bytes = 2 * total_of();
	say("pinned: %d", (int)cuMemAllocHost(&pinned, bytes));
	say("managed: %d", (int)cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL));
}

/* tiny: a context alone takes more. */
static void room_tiny(char **arguments)
{
	CUdeviceptr block;

	(void)arguments;
	context = scarce_start();
	say("free: %zu", free_of());
	for (int i = 0; i < 3; i++)
		say("a block: %d", (int)cuMemAlloc(&block, 256));
}

/* capture: while one is live on another thread's stream nothing is spoilt. */
static void room_capture(char **arguments)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr block = 0, node = 0;
	CUstream stream;
	CUgraph graph;
	size_t room;

	(void)arguments;
	context = scarce_start();
	room = free_of();
	do_call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	do_call(cuStreamBeginCapture(stream, mode));
	say("too much: %d", (int)cuMemAlloc(&block, room + 1));
	say("enough: %d", (int)cuMemAlloc(&block, room));
	say("for a graph: %d", (int)cuMemAllocAsync(&node, PAGE, stream));
	do_call(cuMemFreeAsync(node, stream));
	do_call(cuMemFree(block));
	say("free: %d", free_of() == room);
	say("its end: %d", (int)cuStreamEndCapture(stream, &graph));
}

/* fork: a child has the same room, whatever its parent did before it. */
static void room_fork(char **arguments)
{
	pid_t child = fork();

	(void)arguments;
	if (child)
		waitpid(child, NULL, 0);
	context = scarce_start();
	say("%s: %zu", child ? "parent" : "child", search(try_linear, 1));
}

int main(int count, char **arguments)
{
	static const struct scarce_case cases[] = {
		{ "search", room_search },   { "info", room_info },
		{ "fill", room_fill },	     { "pool", room_pool },
		{ "kept", room_kept },	     { "pending", room_pending },
		{ "threads", room_threads }, { "devices", room_devices },
		{ "host", room_host },	     { "tiny", room_tiny },
		{ "capture", room_capture }, { "pieces", room_pieces },
		{ "fork", room_fork },	     { NULL, NULL },
	};

	(void)count;
	return scarce_main(cases, arguments);
}
