/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank.c - one of several processes that share a device:
 *
 *	rank BYTES COPIES
 *
 * Holds a block of BYTES, fills it in COPIES copies, says "ready", waits for the
 * end of its input, frees the block and leaves another one of 777 bytes behind.
 */
#include "journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned char host[1 << 16];

int main(int count, char **arguments)
{
	size_t bytes = count > 1 ? (size_t)strtoull(arguments[1], NULL, 10) : sizeof(host);
	int copies = count > 2 ? atoi(arguments[2]) : 1;
	CUdeviceptr address, leak;
	CUcontext context;
	CUdevice device;
	char byte;

	require(!cuInit(0) && !cuDeviceGet(&device, 0) &&
			!cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context),
		"CUDA starts");
	require(!cuMemAlloc(&address, bytes), "an allocation succeeds");
	for (int i = 0; i < copies; i++)
		require(!cuMemcpyHtoD(address, host, sizeof(host)), "a copy succeeds");
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	require(!cuMemFree(address), "a free succeeds");
	require(!cuMemAlloc(&leak, 777), "an allocation succeeds");
	return 0;
}
