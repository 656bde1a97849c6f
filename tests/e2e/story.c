/* SPDX-License-Identifier: Apache-2.0 */
/* story.c - alloc, copy, set, fail and free, with the rows each call must leave. */
#include "story.h"

#include "journal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BIG = 3 << 20, SMALL = 4096, OFFSET = 512 };

#define AT(member) offsetof(struct story_driver, member)

const struct story_function story_functions[] = {
	{ "cuInit", "", "", 2000, AT(init) },
	{ "cuDriverGetVersion", "", "", 2020, AT(driver_get_version) },
	{ "cuDeviceGet", "", "", 2000, AT(device_get) },
	{ "cuDevicePrimaryCtxRetain", "", "", 7000, AT(primary_retain) },
	{ "cuCtxSetCurrent", "", "", 4000, AT(ctx_set_current) },
	{ "cuCtxSynchronize", "", "", 2000, AT(ctx_synchronize) },
	{ "cuMemAlloc", "_v2", "", 3020, AT(mem_alloc) },
	{ "cuMemFree", "_v2", "", 3020, AT(mem_free) },
	{ "cuMemHostAlloc", "", "", 2020, AT(mem_host_alloc) },
	{ "cuMemFreeHost", "", "", 2000, AT(mem_free_host) },
	{ "cuPointerGetAttribute", "", "", 4000, AT(pointer_get_attribute) },
	{ "cuMemcpy", "", "_ptds", 4000, AT(memcpy) },
	{ "cuMemcpyHtoD", "_v2", "_ptds", 3020, AT(memcpy_htod) },
	{ "cuMemcpyDtoH", "_v2", "_ptds", 3020, AT(memcpy_dtoh) },
	{ "cuMemcpyDtoD", "_v2", "_ptds", 3020, AT(memcpy_dtod) },
	{ "cuMemcpyHtoDAsync", "_v2", "_ptsz", 3020, AT(memcpy_htod_async) },
	{ "cuMemcpyDtoHAsync", "_v2", "_ptsz", 3020, AT(memcpy_dtoh_async) },
	{ "cuMemsetD8", "_v2", "_ptds", 3020, AT(memset_d8) },
	{ "cuMemsetD32Async", "", "_ptsz", 3020, AT(memset_d32_async) },
	{ "cuMemAllocAsync", "", "_ptsz", 11020, AT(mem_alloc_async) },
	{ "cuMemFreeAsync", "", "_ptsz", 11020, AT(mem_free_async) },
	{ "cuStreamCreate", "", "", 2000, AT(stream_create) },
	{ "cuStreamSynchronize", "", "_ptsz", 2000, AT(stream_synchronize) },
	{ "cuStreamDestroy", "_v2", "", 4000, AT(stream_destroy) },
	{ NULL, NULL, NULL, 0, 0 },
};

static int per_thread;
static const char *default_stream;
static unsigned char host[BIG], back[BIG];

const char *story_symbol(const struct story_function *function, int is_per_thread)
{
	char *symbol;

	if (asprintf(&symbol, "%s%s%s", function->base, function->abi,
		     is_per_thread ? function->twin : "") < 0)
		abort();
	return symbol;
}

/* The exact symbol behind a base name, in the telling that goes on. */
static const char *symbol_of(const char *base)
{
	const struct story_function *function;

	for (function = story_functions; function->base; function++)
		if (!strcmp(function->base, base))
			return story_symbol(function, per_thread);
	abort();
}

static void start(const struct story_driver *driver)
{
	CUdevice device;
	CUcontext context;
	int version = 0;

	must("cuInit", driver->init(0));
	note_operation("cuInit", "none", 0);
	must("cuDriverGetVersion", driver->driver_get_version(&version));
	must("cuDeviceGet", driver->device_get(&device, 0));
	must("cuDevicePrimaryCtxRetain", driver->primary_retain(&context, device));
	note_operation("cuDevicePrimaryCtxRetain", "none", 0);
	must("cuCtxSetCurrent", driver->ctx_set_current(context));
	note_operation("cuCtxSetCurrent", "none", 0);
	printf("driver %d\n", version);
}

static unsigned allocate(const struct story_driver *driver, size_t bytes, CUdeviceptr *address)
{
	must("cuMemAlloc_v2", driver->mem_alloc(address, bytes));
	return note_alloc("device", *address, bytes, "cuMemAlloc_v2");
}

static void release(const struct story_driver *driver, CUdeviceptr address, unsigned block)
{
	must("cuMemFree_v2", driver->mem_free(address));
	note_free(block, "cuMemFree_v2");
}

static void note(const char *kind, const char *base, size_t bytes, uint64_t source, uint64_t target,
		 const char *stream)
{
	struct copy_note copy = {
		.kind = kind,
		.api = symbol_of(base),
		.bytes = bytes,
		.source = source,
		.target = target,
		.stream = stream ? stream : default_stream,
		.is_async = strstr(base, "Async") != NULL,
	};

	note_copy(&copy);
}

/* There and back by way of two blocks, the second read from its middle. */
static void copy_in_line(const struct story_driver *driver, CUdeviceptr big, CUdeviceptr small)
{
	must(symbol_of("cuMemcpyHtoD"), driver->memcpy_htod(big, host, BIG));
	note("H2D", "cuMemcpyHtoD", BIG, (uintptr_t)host, big, NULL);
	must(symbol_of("cuMemcpyDtoD"), driver->memcpy_dtod(small, big + OFFSET, SMALL));
	note("D2D", "cuMemcpyDtoD", SMALL, big + OFFSET, small, NULL);
	must(symbol_of("cuMemcpyDtoH"), driver->memcpy_dtoh(back, small + OFFSET, OFFSET));
	note("D2H", "cuMemcpyDtoH", OFFSET, small + OFFSET, (uintptr_t)back, NULL);
	require(!memcmp(back, host + 2 * OFFSET, OFFSET), "the bytes came back");
}

/* cuMemcpy does not say the direction: the interposer has to know. */
static void copy_without_direction(const struct story_driver *driver, CUdeviceptr big,
				   CUdeviceptr small)
{
	must(symbol_of("cuMemcpy"), driver->memcpy(small, (uintptr_t)host, SMALL));
	note("H2D", "cuMemcpy", SMALL, (uintptr_t)host, small, NULL);
	must(symbol_of("cuMemcpy"), driver->memcpy((uintptr_t)back, small, SMALL));
	note("D2H", "cuMemcpy", SMALL, small, (uintptr_t)back, NULL);
	must(symbol_of("cuMemcpy"), driver->memcpy(big, small, SMALL));
	note("D2D", "cuMemcpy", SMALL, small, big, NULL);
	require(!memcmp(back, host, SMALL), "the bytes came back without a direction");
	/* A copy from device to device may still run when its call has returned. */
	must("cuCtxSynchronize", driver->ctx_synchronize());
	note_operation("cuCtxSynchronize", "none", 0);
}

static void copy_on_streams(const struct story_driver *driver, CUdeviceptr big, void *pinned)
{
	CUstream stream;

	must("cuStreamCreate", driver->stream_create(&stream, CU_STREAM_NON_BLOCKING));
	note_operation("cuStreamCreate", "none", 0);
	must(symbol_of("cuMemcpyHtoDAsync"), driver->memcpy_htod_async(big, pinned, SMALL, stream));
	note("H2D", "cuMemcpyHtoDAsync", SMALL, (uintptr_t)pinned, big, "own");
	must(symbol_of("cuStreamSynchronize"), driver->stream_synchronize(stream));
	note_operation(symbol_of("cuStreamSynchronize"), "own", 0);
	must(symbol_of("cuMemcpyDtoHAsync"), driver->memcpy_dtoh_async(pinned, big, SMALL, NULL));
	note("D2H", "cuMemcpyDtoHAsync", SMALL, big, (uintptr_t)pinned, NULL);
	must(symbol_of("cuStreamSynchronize"), driver->stream_synchronize(NULL));
	note_operation(symbol_of("cuStreamSynchronize"), default_stream, 0);
	must("cuStreamDestroy_v2", driver->stream_destroy(stream));
	note_operation("cuStreamDestroy_v2", "none", 0);
}

static void set(const struct story_driver *driver, CUdeviceptr big)
{
	must(symbol_of("cuMemsetD8"), driver->memset_d8(big, 0x5a, SMALL));
	note("MEMSET", "cuMemsetD8", SMALL, 0, big, NULL);
	must(symbol_of("cuMemsetD32Async"),
	     driver->memset_d32_async(big + OFFSET, 0x01020304, SMALL, NULL));
	note("MEMSET", "cuMemsetD32Async", 4 * SMALL, 0, big + OFFSET, NULL);
	must("cuCtxSynchronize", driver->ctx_synchronize());
	note_operation("cuCtxSynchronize", "none", 0);
}

static void use_the_pool(const struct story_driver *driver)
{
	CUdeviceptr address;
	unsigned block;

	must(symbol_of("cuMemAllocAsync"), driver->mem_alloc_async(&address, SMALL, NULL));
	block = note_alloc("pool", address, SMALL, symbol_of("cuMemAllocAsync"));
	must(symbol_of("cuMemFreeAsync"), driver->mem_free_async(address, NULL));
	note_free(block, symbol_of("cuMemFreeAsync"));
}

/* What the driver refuses stays refused, and leaves a failure and nothing else. */
static void fail_politely(const struct story_driver *driver)
{
	CUmemorytype type;
	CUdeviceptr address = 0;

	require(called("cuMemAlloc_v2", driver->mem_alloc(&address, (size_t)1 << 42)) ==
			CUDA_ERROR_OUT_OF_MEMORY,
		"4 TiB are refused");
	require(called("cuMemFree_v2", driver->mem_free(0x1234560)) == CUDA_ERROR_INVALID_VALUE,
		"a free of nothing that exists is refused");
	require(called("cuPointerGetAttribute",
		       driver->pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						     0x1234560)) == CUDA_ERROR_INVALID_VALUE,
		"an unknown address has no attributes");
	/* A free of nothing is a call like another, and touches no block. */
	must("cuMemFree_v2", driver->mem_free(0));
	note_operation("cuMemFree_v2", "none", 0);
}

static void fill_host(void)
{
	unsigned i;

	for (i = 0; i < BIG; i++)
		host[i] = (unsigned char)(i * 7 + (i >> 9));
}

void story_tell(const struct story_driver *driver, int is_per_thread)
{
	CUdeviceptr big, small, again;
	unsigned big_block, small_block, pinned_block;
	void *pinned;

	per_thread = is_per_thread;
	default_stream = per_thread ? "per-thread" : "legacy";
	fill_host();
	start(driver);
	big_block = allocate(driver, BIG, &big);
	small_block = allocate(driver, SMALL, &small);
	must("cuMemHostAlloc", driver->mem_host_alloc(&pinned, SMALL, 0));
	pinned_block = note_alloc("pinned", (uintptr_t)pinned, SMALL, "cuMemHostAlloc");
	copy_in_line(driver, big, small);
	copy_without_direction(driver, big, small);
	copy_on_streams(driver, big, pinned);
	set(driver, big);
	use_the_pool(driver);
	fail_politely(driver);
	release(driver, small, small_block);
	must("cuMemFreeHost", driver->mem_free_host(pinned));
	note_free(pinned_block, "cuMemFreeHost");
	allocate(driver, SMALL, &again);
	must(symbol_of("cuMemcpyHtoD"), driver->memcpy_htod(again, host, SMALL));
	note("H2D", "cuMemcpyHtoD", SMALL, (uintptr_t)host, again, NULL);
	release(driver, big, big_block);
	note_end_of_all("-");
	journal_end();
	printf("told %s\n", default_stream);
}
