/* SPDX-License-Identifier: Apache-2.0 */
/*
 * null_driver.c - a libcuda.so.1 that does nothing: what bench_calls measures
 * on it, under a preload, is the preload alone, also with more threads than a
 * real driver lets run at once.
 */
#include <cuda.h>

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { FIRST_ADDRESS = 0x10000000, PAGE = 4096, REGION = 2 << 20 };

static _Thread_local CUcontext current;
static _Atomic uint64_t next_address = FIRST_ADDRESS;
static char context, module, function;

/*
 * Addresses are handed out once, so that blocks never overlap, and from regions
 * of each thread's own, so that threads do not wait for each other in here.
 */
static CUresult give_address(CUdeviceptr *block, size_t bytes)
{
	static _Thread_local uint64_t next, end;
	size_t taken = (bytes + PAGE - 1) / PAGE * PAGE;

	if (taken > REGION)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (end - next < taken) {
		next = atomic_fetch_add(&next_address, REGION);
		end = next + REGION;
	}
	*block = next;
	next += taken;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuInit(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
	(void)device;
	strncpy(name, "nothing", (size_t)bytes);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
	(void)device;
	*bytes = (size_t)1 << 36;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
	(void)device;
	*out = (CUcontext)&context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
	current = ctx;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	*ctx = current;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = 0;
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	(void)flags;
	*stream = malloc(1);
	return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	(void)flags;
	*event = malloc(1);
	return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	(void)stream;
	return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemAllocHost(void **block, size_t bytes)
{
	*block = malloc(bytes);
	return *block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *block, size_t bytes)
{
	return give_address(block, bytes);
}

EXPORT CUresult cuMemFree(CUdeviceptr block)
{
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *block, size_t bytes, CUstream stream)
{
	(void)stream;
	return give_address(block, bytes);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr block, CUstream stream)
{
	(void)stream;
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
	return to && from && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	(void)stream;
	return to && from && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
	(void)value;
	(void)stream;
	return to && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
				      CUdeviceptr address)
{
	if (attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE || address < FIRST_ADDRESS)
		return CUDA_ERROR_INVALID_VALUE;
	*(CUmemorytype *)data = CU_MEMORYTYPE_DEVICE;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
	*out = (CUmodule)&module;
	return image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule from, const char *name)
{
	(void)from;
	*out = (CUfunction)&function;
	return name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			       unsigned int bx, unsigned int by, unsigned int bz,
			       unsigned int shared, CUstream stream, void **parameters,
			       void **extra)
{
	(void)shared;
	(void)stream;
	(void)parameters;
	(void)extra;
	return f && gx && gy && gz && bx && by && bz ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
