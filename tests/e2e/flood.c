/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood.c - exactly so many records: flood COPIES.  Says "ready" after the first
 * and waits for a line (or the end of its input), says "done" after the last and
 * waits for the end of its input.
 */
#include "journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LIFE_SECONDS = 60 };

static unsigned char host[64];

static void say(const char *what)
{
	printf("%s 0\n", what);
	fflush(stdout);
}

int main(int count, char **arguments)
{
	int copies = count > 1 ? atoi(arguments[1]) : 1000, i, byte;
	CUdeviceptr address;
	CUcontext context;
	CUdevice device;

	require(!cuInit(0) && !cuDeviceGet(&device, 0) &&
			!cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context),
		"CUDA starts");
	require(!cuMemAlloc(&address, sizeof(host)), "there is memory");
	require(!cuMemcpyHtoD(address, host, sizeof(host)), "a copy succeeds");
	alarm(LIFE_SECONDS);
	say("ready");
	do
		byte = getchar();
	while (byte != '\n' && byte != EOF);
	for (i = 1; i < copies; i++)
		require(!cuMemcpyHtoD(address, host, sizeof(host)), "a copy succeeds");
	say("done");
	while (getchar() != EOF)
		continue;
	return 0;
}
