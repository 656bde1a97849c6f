/* SPDX-License-Identifier: Apache-2.0 */
/*
 * story.h - one short story of driver calls, told through every door.
 *
 * The functions arrive as a table of pointers; a door_*.c fills it in its own
 * way: with small functions that call the linked symbols, with the symbols'
 * addresses in data, or with what a look-up returned.
 */
#ifndef CUSTODY_TESTS_E2E_STORY_H
#define CUSTODY_TESTS_E2E_STORY_H

#include <cuda.h>

struct story_driver {
	__typeof__(cuInit) *init;
	__typeof__(cuDriverGetVersion) *driver_get_version;
	__typeof__(cuDeviceGet) *device_get;
	__typeof__(cuDevicePrimaryCtxRetain) *primary_retain;
	__typeof__(cuCtxSetCurrent) *ctx_set_current;
	__typeof__(cuCtxSynchronize) *ctx_synchronize;
	__typeof__(cuMemAlloc) *mem_alloc;
	__typeof__(cuMemFree) *mem_free;
	__typeof__(cuMemHostAlloc) *mem_host_alloc;
	__typeof__(cuMemFreeHost) *mem_free_host;
	__typeof__(cuPointerGetAttribute) *pointer_get_attribute;
	__typeof__(cuMemcpy) *memcpy;
	__typeof__(cuMemcpyHtoD) *memcpy_htod;
	__typeof__(cuMemcpyDtoH) *memcpy_dtoh;
	__typeof__(cuMemcpyDtoD) *memcpy_dtod;
	__typeof__(cuMemcpyHtoDAsync) *memcpy_htod_async;
	__typeof__(cuMemcpyDtoHAsync) *memcpy_dtoh_async;
	__typeof__(cuMemsetD8) *memset_d8;
	__typeof__(cuMemsetD32Async) *memset_d32_async;
	__typeof__(cuMemAllocAsync) *mem_alloc_async;
	__typeof__(cuMemFreeAsync) *mem_free_async;
	__typeof__(cuStreamCreate) *stream_create;
	__typeof__(cuStreamSynchronize) *stream_synchronize;
	__typeof__(cuStreamDestroy) *stream_destroy;
};

/* How a door finds one of them. */
struct story_function {
	const char *base; /* name for cuGetProcAddress */
	const char *abi;  /* "" or "_v2": the exported symbol is base + abi + twin */
	const char *twin; /* "", "_ptds" or "_ptsz": where per-thread streams are asked for */
	int version;	  /* of that ABI, for cuGetProcAddress */
	size_t offset;	  /* in struct story_driver */
};

/* Ends with a row whose base is NULL. */
extern const struct story_function story_functions[];

/* Tell it.  `is_per_thread`: the functions are the per-thread twins. */
void story_tell(const struct story_driver *driver, int is_per_thread);

/* The exact symbol of `base` in the story that is being told; valid until exit. */
const char *story_symbol(const struct story_function *function, int is_per_thread);

#endif
