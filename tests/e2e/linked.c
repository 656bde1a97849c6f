/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linked.c - a program that is linked with libcustody and with the driver:
 *
 *	linked CASE [TRACE]
 *
 * With TRACE it begins a recording itself.  What it prints is the same however it
 * is recorded.
 */
#include <custody/custody.h>

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUFFERS = 14, KEPT = 1, HELD_US = 300000 };

static struct custody_context *context;
static struct custody_resource *resource;

static void fail(const char *what, int result)
{
	fprintf(stderr, "linked: %s answered %d: %s\n", what, result, custody_error_detail());
	exit(1);
}

static void check(int result, const char *what)
{
	if (result)
		fail(what, result);
}

#define DO(call) check(call, #call)

static void begin(void)
{
	DO(custody_context_current(0, &context));
	DO(custody_resource_device(context, &resource));
}

static size_t bytes_of(int i)
{
	return (size_t)(i + 1) * 4096;
}

static struct custody_buffer *make(size_t bytes)
{
	struct custody_buffer *buffer;

	DO(custody_buffer_create(resource, bytes, NULL, &buffer));
	return buffer;
}

static void use(struct custody_buffer *buffer, size_t bytes)
{
	static unsigned char host[BUFFERS * 4096 + 4096];

	memset(host, 7, bytes);
	DO(custody_buffer_write(buffer, 0, host, bytes, NULL));
	host[bytes - 1] = 0;
	DO(custody_buffer_read(buffer, 0, host, bytes, NULL));
	if (host[bytes - 1] != 7)
		fail("custody_buffer_read", host[bytes - 1]);
}

static void close_buffer(struct custody_buffer *buffer)
{
	DO(custody_buffer_close(buffer, NULL));
	DO(custody_buffer_release(buffer));
}

/* Blocks, copies, a stream and an event of the library: more frees than a queue holds. */
static void work(void)
{
	struct custody_buffer *buffer[BUFFERS];
	struct custody_stream *stream;
	struct custody_event *event;

	DO(custody_stream_create(context, NULL, &stream));
	DO(custody_event_create(context, NULL, &event));
	for (int i = 0; i < BUFFERS; i++)
		buffer[i] = make(bytes_of(i));
	for (int i = 0; i < BUFFERS; i++)
		use(buffer[i], bytes_of(i));
	DO(custody_event_record(event, stream));
	DO(custody_event_synchronize(event));
	for (int i = 0; i < BUFFERS - KEPT; i++)
		close_buffer(buffer[i]);
	DO(custody_event_destroy(event));
	DO(custody_stream_destroy(stream));
	puts("worked");
}

/* Calls of the program's own, past the library. */
static void work_bare(void)
{
	CUdeviceptr address;

	DO((int)cuCtxSetCurrent(custody_context_handle(context)));
	for (int i = 0; i < 3; i++) {
		DO((int)cuMemAlloc(&address, 100000));
		DO((int)cuMemsetD8(address, 1, 100000));
		DO((int)cuMemFree(address));
	}
	puts("worked alone");
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void tell(const char *who, double since)
{
	printf("%s: %s\n", who, now_us() - since > HELD_US / 2 ? "waited" : "at once");
}

static void hold(void)
{
	unsigned int microseconds = HELD_US;
	void *arguments[] = { &microseconds };
	CUmodule module;
	CUfunction function;

	DO((int)cuModuleLoadData(&module, "x"));
	DO((int)cuModuleGetFunction(&function, module, "sim_delay"));
	DO((int)cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
}

static void free_behind_work(void)
{
	struct custody_buffer *buffer = make(4096);
	struct custody_stream *stream;
	CUdeviceptr address;
	double start;

	DO(custody_stream_create(context, NULL, &stream));
	DO((int)cuCtxSetCurrent(custody_context_handle(context)));
	DO((int)cuMemAlloc(&address, 100000));
	hold();
	start = now_us();
	close_buffer(buffer);
	DO(custody_stream_destroy(stream));
	tell("library", start);
	start = now_us();
	DO((int)cuMemFree(address));
	tell("program", start);
	DO((int)cuCtxSynchronize());
}

/* The child may use nothing, and its end is none of its parent's. */
static void work_and_fork(void)
{
	struct custody_buffer *buffer;
	pid_t child;
	int status;

	work();
	fflush(stdout);
	child = fork();
	if (!child) {
		int result = custody_buffer_create(resource, 4096, NULL, &buffer);

		_exit(result != CUSTODY_E_FORKED || custody_trace_is_on());
	}
	waitpid(child, &status, 0);
	printf("child: %d\n", status);
	work();
}

/* The driver's own functions, with what the library does for them. */
static void use_functions(void)
{
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*release)(CUdeviceptr);
	CUdeviceptr address;

	*(void **)&alloc = custody_driver_function("cuMemAlloc_v2");
	*(void **)&release = custody_driver_function("cuMemFree_v2");
	if (!alloc || !release || custody_driver_function("cuNoSuchFunction"))
		fail("custody_driver_function", 0);
	DO((int)cuCtxSetCurrent(custody_context_handle(context)));
	for (int i = 0; i < 3; i++) {
		DO((int)alloc(&address, 5000));
		DO((int)release(address));
	}
	puts("used functions");
}

/* The driver is in use before the library is. */
static void begin_late(void)
{
	CUcontext handle;
	CUdevice device;
	CUdeviceptr address;

	DO((int)cuInit(0));
	DO((int)cuDeviceGet(&device, 0));
	DO((int)cuDevicePrimaryCtxRetain(&handle, device));
	DO((int)cuCtxSetCurrent(handle));
	DO((int)cuMemAlloc(&address, 100000));
	DO((int)cuMemFree(address));
}

int main(int count, char **arguments)
{
	const char *name = count > 1 ? arguments[1] : "";

	if (!strcmp(name, "late"))
		begin_late();
	if (count > 2)
		DO(custody_trace_start(arguments[2]));
	if (!strcmp(name, "started"))
		printf("is on: %d\n", custody_trace_is_on());
	begin();
	if (!strcmp(name, "fork"))
		work_and_fork();
	else if (!strcmp(name, "busy"))
		free_behind_work();
	else if (!strcmp(name, "functions"))
		use_functions();
	else
		work();
	if (!strcmp(name, "both") || !strcmp(name, "late"))
		work_bare();
	if (!strcmp(name, "started"))
		printf("again: %d\n", custody_trace_start(NULL) == 0);
	return 0;
}
