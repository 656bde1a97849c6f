/* SPDX-License-Identifier: Apache-2.0 */
/* frees.c - a context, streams that stand still on demand, kernels that write. */
#include "frees.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct frees frees;

static pthread_t letting_go;

void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

void require(int is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "not so: %s\n", what);
	exit(91);
}

void require_success(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %d\n", what, (int)result);
	exit(91);
}

void frees_take(void)
{
	static const char image[] = "any image";
	void *flag;

	do_call(cuDevicePrimaryCtxRetain(&frees.context, frees.device));
	do_call(cuCtxSetCurrent(frees.context));
	do_call(cuStreamCreate(&frees.work, CU_STREAM_NON_BLOCKING));
	do_call(cuStreamCreate(&frees.quiet, CU_STREAM_NON_BLOCKING));
	do_call(cuModuleLoadData(&frees.module, image));
	do_call(cuModuleGetFunction(&frees.delay, frees.module, "sim_delay"));
	do_call(cuModuleGetFunction(&frees.fill, frees.module, "sim_fill"));
	do_call(cuModuleGetFunction(&frees.poll, frees.module, "poll"));
	do_call(cuMemHostAlloc(&flag, 64, CU_MEMHOSTALLOC_DEVICEMAP));
	frees.flag = flag;
	frees_let_go();
}

void frees_start(void)
{
	do_call(cuInit(0));
	do_call(cuDeviceGet(&frees.device, 0));
	frees_take();
}

void frees_enter(void)
{
	do_call(cuCtxSetCurrent(frees.context));
}

CUdeviceptr frees_block(size_t bytes)
{
	CUdeviceptr address;

	do_call(cuMemAlloc(&address, bytes));
	return address;
}

void frees_hold(CUstream stream)
{
	uint64_t address = (uint64_t)(uintptr_t)frees.flag;
	void *parameters[] = { &address };

	__atomic_store_n(frees.flag, 0, __ATOMIC_RELEASE);
	do_call(cuLaunchKernel(frees.poll, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void frees_let_go(void)
{
	__atomic_store_n(frees.flag, 1, __ATOMIC_RELEASE);
}

int frees_is_let_go(void)
{
	return (int)__atomic_load_n(frees.flag, __ATOMIC_ACQUIRE);
}

static void *let_go_later(void *argument)
{
	usleep(1000 * (unsigned)(uintptr_t)argument);
	frees_let_go();
	return NULL;
}

void frees_let_go_after(unsigned milliseconds)
{
	require(!pthread_create(&letting_go, NULL, let_go_later,
				(void *)(uintptr_t)milliseconds),
		"a thread starts");
}

void frees_join(void)
{
	pthread_join(letting_go, NULL);
}

void frees_busy(CUstream stream, unsigned milliseconds)
{
	unsigned microseconds = 1000 * milliseconds;
	void *parameters[] = { &microseconds };

	do_call(cuLaunchKernel(frees.delay, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void frees_fill(CUstream stream, uint64_t address, uint32_t value, uint32_t words)
{
	void *parameters[] = { &address, &value, &words };

	do_call(cuLaunchKernel(frees.fill, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

int frees_main(const struct frees_case *cases, char **arguments)
{
	for (; cases->name; cases++) {
		if (!arguments[1] || strcmp(cases->name, arguments[1]))
			continue;
		alarm(50); /* a test that hangs ends */
		frees_start();
		cases->run(arguments + 2);
		return 0;
	}
	fprintf(stderr, "no such case\n");
	return 92;
}
