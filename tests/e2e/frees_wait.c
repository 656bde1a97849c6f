/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frees_wait.c - whether a free waits for the work of its context, and programs
 * that live by that:
 *
 *	frees_wait CASE
 */
#include "frees.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { HELD_MS = 120 };

static const char *when(void)
{
	return frees_is_let_go() ? "after" : "before";
}

/* ------------------------------------------------------------------ what waits */

static CUresult free_device(void *what)
{
	return cuMemFree((CUdeviceptr)what);
}

static CUresult free_array(void *what)
{
	return cuArrayDestroy(what);
}

static CUresult free_mipmap(void *what)
{
	return cuMipmappedArrayDestroy(what);
}

static CUresult unload(void *what)
{
	return cuModuleUnload(what);
}

static void try_free(const char *what, CUresult (*release)(void *), void *handle)
{
	CUresult result;

	frees_hold(frees.work);
	frees_let_go_after(HELD_MS);
	result = release(handle);
	say("%s: %d, %s the flag was set", what, (int)result, when());
	frees_join();
	do_call(cuCtxSynchronize());
}

static void *new_array(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = { 64, 64, CU_AD_FORMAT_FLOAT, 1 };
	CUarray array;

	do_call(cuArrayCreate(&array, &shape));
	return array;
}

static void *new_mipmap(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { 64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
	CUmipmappedArray array;

	do_call(cuMipmappedArrayCreate(&array, &shape, 2));
	return array;
}

/* The kernel polls on one stream; the program frees, and synchronises the other. */
static void wait_poll(char **arguments)
{
	CUdeviceptr block = frees_block(4 * MIB);

	(void)arguments;
	frees_hold(frees.work);
	frees_let_go_after(HELD_MS);
	do_call(cuMemFree(block));
	say("the free returns %s the flag is set", when());
	do_call(cuStreamSynchronize(frees.quiet));
	say("the other stream is idle %s", when());
	frees_join();
	do_call(cuStreamSynchronize(frees.work));
}

/* Nobody sets the flag but the thread that frees: it stands for ever if its free waits. */
static void wait_alone(char **arguments)
{
	CUdeviceptr block = frees_block(4 * MIB);
	int i;

	(void)arguments;
	frees_hold(frees.work);
	for (i = 0; i < 30; i++) {
		do_call(cuMemFree(block));
		do_call(cuStreamSynchronize(frees.quiet));
		block = frees_block(4 * MIB);
	}
	frees_let_go();
	do_call(cuStreamSynchronize(frees.work));
	do_call(cuMemFree(block));
	say("done");
}

static void wait_kinds(char **arguments)
{
	CUdeviceptr address;
	CUmodule module;
	size_t pitch;
	void *host;

	(void)arguments;
	try_free("small", free_device, (void *)frees_block(4 * KIB));
	try_free("large", free_device, (void *)frees_block(64 * MIB));
	do_call(cuMemAllocPitch(&address, &pitch, 100, 100, 4));
	try_free("pitch", free_device, (void *)address);
	do_call(cuMemAllocManaged(&address, MIB, CU_MEM_ATTACH_GLOBAL));
	try_free("managed", free_device, (void *)address);
	do_call(cuMemAllocHost(&host, MIB));
	try_free("pinned", cuMemFreeHost, host);
	try_free("array", free_array, new_array());
	try_free("mipmapped array", free_mipmap, new_mipmap());
	do_call(cuModuleLoadData(&module, "an image"));
	try_free("module", unload, module);
}

/* ------------------------------------------------------------------ who leans on it */

/* A kernel writes to mapped memory; any free is what makes the host wait for it. */
static void wait_mapped(char **arguments)
{
	volatile uint32_t *result;
	uint32_t right = 0, i;
	void *host;

	(void)arguments;
	do_call(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	result = host;
	for (i = 1; i <= 20; i++) {
		CUdeviceptr scratch = frees_block(64 * KIB);

		frees_busy(frees.work, 5);
		frees_fill(frees.work, (uintptr_t)host, i, 1024);
		do_call(cuMemFree(scratch));
		right += result[1023] == i;
	}
	say("%u of 20 results were there", right);
	do_call(cuCtxSynchronize());
}

/* Two streams that nothing orders but the free between them. */
static void wait_order(char **arguments)
{
	CUdeviceptr block = frees_block(4096);
	uint32_t right = 0, i;
	void *host;

	(void)arguments;
	do_call(cuMemAllocHost(&host, 4096));
	for (i = 1; i <= 20; i++) {
		CUdeviceptr scratch = frees_block(2 * MIB);

		frees_busy(frees.work, 5);
		frees_fill(frees.work, block, i, 1024);
		do_call(cuMemFree(scratch));
		do_call(cuMemcpyDtoHAsync(host, block, 4096, frees.quiet));
		do_call(cuStreamSynchronize(frees.quiet));
		right += ((volatile uint32_t *)host)[1023] == i;
	}
	say("%u of 20 copies were right", right);
	do_call(cuCtxSynchronize());
}

/* ------------------------------------------------------------------ who else stands */

static atomic_int has_begun, is_over;
static uint64_t worst_gap;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *launch(void *argument)
{
	uint64_t then, last;
	CUdeviceptr block;
	CUstream own;

	(void)argument;
	frees_enter();
	block = frees_block(4096);
	do_call(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
	for (last = now(); !atomic_load(&is_over); last = then) {
		do_call(cuMemsetD8Async(block, 1, 64, own));
		do_call(cuStreamSynchronize(own));
		then = now();
		if (then - last > worst_gap)
			worst_gap = then - last;
		atomic_store(&has_begun, 1);
	}
	return NULL;
}

/* Another thread works while this one frees behind a stream that stands still. */
static void wait_others(char **arguments)
{
	CUdeviceptr block = frees_block(4 * MIB);
	pthread_t launcher;

	(void)arguments;
	require(!pthread_create(&launcher, NULL, launch, NULL), "a thread starts");
	while (!atomic_load(&has_begun))
		;
	frees_hold(frees.work);
	frees_let_go_after(2 * HELD_MS);
	do_call(cuMemFree(block));
	frees_join();
	atomic_store(&is_over, 1);
	pthread_join(launcher, NULL);
	say("the other thread %s",
	    worst_gap > HELD_MS * 1000000ull ? "stands still" : "goes on");
}

int main(int count, char **arguments)
{
	static const struct frees_case cases[] = {
		{ "poll", wait_poll },     { "alone", wait_alone },   { "kinds", wait_kinds },
		{ "mapped", wait_mapped }, { "order", wait_order },   { "others", wait_others },
		{ NULL, NULL },
	};

	(void)count;
	return frees_main(cases, arguments);
}
