/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reuse.c - addresses come back; blocks do not:
 *
 *	reuse THREADS ROUNDS
 *
 * Every thread allocates, copies into the middle of the block, and frees.  The
 * copy's length says which block it is meant for: thread * ROUNDS + round + 1
 * bytes, and the block is twice that length, so the trace can be asked whether
 * every copy was joined to the block of its own.
 */
#include "journal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS_MAX = 16 };

static CUcontext context;
static unsigned rounds;
static unsigned char host[1 << 20];

static void *work(void *argument)
{
	unsigned first = (unsigned)(uintptr_t)argument * rounds + 1, i;
	CUdeviceptr address;
	size_t bytes;

	require(!cuCtxSetCurrent(context), "the context can be made current");
	for (i = 0; i < rounds; i++) {
		bytes = first + i;
		require(!cuMemAlloc(&address, 2 * bytes), "an allocation succeeds");
		require(!cuMemcpyHtoD(address + bytes, host, bytes), "a copy succeeds");
		require(!cuMemFree(address), "a free succeeds");
	}
	return NULL;
}

int main(int count, char **arguments)
{
	unsigned threads = count > 1 ? (unsigned)atoi(arguments[1]) : 8, i;
	pthread_t thread[THREADS_MAX];
	CUdevice device;

	rounds = count > 2 ? (unsigned)atoi(arguments[2]) : 500;
	require(threads <= THREADS_MAX && threads * rounds <= sizeof(host), "it is not too much");
	require(!cuInit(0) && !cuDeviceGet(&device, 0) &&
			!cuDevicePrimaryCtxRetain(&context, device),
		"CUDA starts");
	for (i = 0; i < threads; i++)
		require(!pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i),
			"a thread starts");
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("%u\n", threads * rounds);
	return 0;
}
