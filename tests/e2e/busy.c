/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy.c - threads that call the driver without end, and a count of the calls
 * that returned, which outlives them:
 *
 *	busy COUNTS THREADS
 *
 * COUNTS is a file of struct busy_count, mapped shared: one per thread, written
 * after each return, so whatever it says has returned, however the process ends.
 */
#include "journal.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS_MAX = 16, BYTES = 2048, LIFE_SECONDS = 20 };

struct busy_count {
	_Atomic uint64_t tid;
	_Atomic uint64_t allocs, frees, copies, sets, queries;
	uint64_t reserved[2];
};

static struct busy_count *counts;
static CUcontext context;

static void add(_Atomic uint64_t *count)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
			      memory_order_release);
}

static void go_round(struct busy_count *count, unsigned char *host)
{
	CUdeviceptr address;
	CUcontext current;

	require(!cuMemAlloc(&address, BYTES), "an allocation succeeds");
	add(&count->allocs);
	require(!cuMemcpyHtoD(address, host, BYTES), "a copy succeeds");
	add(&count->copies);
	require(!cuMemsetD8(address, 1, BYTES / 2), "a memset succeeds");
	add(&count->sets);
	require(!cuCtxGetCurrent(&current), "a query succeeds");
	add(&count->queries);
	require(!cuMemFree(address), "a free succeeds");
	add(&count->frees);
}

static void *work(void *argument)
{
	struct busy_count *count = argument;
	unsigned char host[BYTES] = { 0 };

	require(!cuCtxSetCurrent(context), "the context can be made current");
	atomic_store(&count->tid, (uint64_t)syscall(SYS_gettid));
	for (;;)
		go_round(count, host);
	return NULL;
}

int main(int count, char **arguments)
{
	int threads = count > 2 ? atoi(arguments[2]) : 4;
	pthread_t thread;
	CUdevice device;
	int i, file;

	require(count > 1 && threads > 0 && threads <= THREADS_MAX, "busy COUNTS THREADS");
	file = open(arguments[1], O_RDWR | O_CREAT, 0600);
	require(file >= 0 && !ftruncate(file, THREADS_MAX * sizeof(*counts)), "there is a file");
	counts = mmap(NULL, THREADS_MAX * sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, file,
		      0);
	require(counts != MAP_FAILED, "the file can be mapped");
	require(!cuInit(0) && !cuDeviceGet(&device, 0) &&
			!cuDevicePrimaryCtxRetain(&context, device),
		"CUDA starts");
	for (i = 0; i < threads; i++)
		require(!pthread_create(&thread, NULL, work, &counts[i]), "a thread starts");
	alarm(LIFE_SECONDS); /* a test that fails leaves nothing that runs for ever */
	pause();
	return 0;
}
