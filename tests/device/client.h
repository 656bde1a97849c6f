/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - what the driver API programs of tests/device and tests/bench share:
 * a call that must succeed, the time, a context, the memory that is really free.
 */
#ifndef CUSTODY_DEVICE_CLIENT_H
#define CUSTODY_DEVICE_CLIENT_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLIENT_SKIPPED = 77 };

#define CLIENT_TEXT(text)   #text
#define CLIENT_NAME(symbol) CLIENT_TEXT(symbol)

/* CALL(function, arguments...): it succeeds, or the program ends. */
#define CALL(function, ...) client_must(function(__VA_ARGS__), CLIENT_NAME(function))

static inline void client_must(CUresult result, const char *function)
{
	if (result == CUDA_SUCCESS)
		return;
	fflush(stdout);
	fprintf(stderr, "%s answered %d\n", function, (int)result);
	exit(1);
}

static inline uint64_t client_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The primary context of the first device, current; without a device the program is skipped. */
static inline CUcontext client_open(void)
{
	CUcontext context;
	CUdevice device;

	if (cuInit(0) != CUDA_SUCCESS) {
		fprintf(stderr, "no CUDA device\n");
		exit(CLIENT_SKIPPED);
	}
	CALL(cuDeviceGet, &device, 0);
	CALL(cuDevicePrimaryCtxRetain, &context, device);
	CALL(cuCtxSetCurrent, context);
	return context;
}

static inline uint32_t client_random(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 32);
}

/* ------------------------------------------- what NVML says, past the driver */

struct client_nvml_memory {
	unsigned long long total, free, used;
};

/* Bytes in use on the first device by anybody; 0: NVML is not there. */
static inline uint64_t client_nvml_used(void)
{
	static int (*ask)(void *, struct client_nvml_memory *);
	static void *device;
	static int is_looked_up;
	struct client_nvml_memory memory;

	if (!is_looked_up++) {
		void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
		int (*init)(void) = NULL;
		int (*handle)(unsigned int, void **) = NULL;

		if (library) {
			*(void **)&init = dlsym(library, "nvmlInit_v2");
			*(void **)&handle = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
		}
		if (init && handle && !init() && !handle(0, &device))
			*(void **)&ask = dlsym(library, "nvmlDeviceGetMemoryInfo");
	}
	return ask && !ask(device, &memory) ? memory.used : 0;
}

#endif
