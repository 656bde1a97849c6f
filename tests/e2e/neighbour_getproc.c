/* SPDX-License-Identifier: Apache-2.0 */
/* neighbour_getproc.c - wraps cuGetProcAddress and hands out a wrapper of its own. */
#include "neighbour.h"

#include <cuda.h>
#include <dlfcn.h>

static __typeof__(cuMemAlloc) *real_alloc;

EXPORTED CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
	CUresult result;

	if (!real_alloc)
		real_alloc = (__typeof__(cuMemAlloc) *)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	neighbour_saw("cuMemAlloc_v2");
	result = real_alloc(address, bytes);
	neighbour_leaves();
	return result;
}

EXPORTED CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
				   CUdriverProcAddressQueryResult *status)
{
	static __typeof__(cuGetProcAddress) *next;
	CUresult result;

	if (!next)
		next = (__typeof__(cuGetProcAddress) *)dlsym(RTLD_NEXT, "cuGetProcAddress_v2");
	neighbour_saw("cuGetProcAddress_v2");
	result = next(name, function, version, flags, status);
	if (result == CUDA_SUCCESS && *function && !strcmp(name, "cuMemAlloc")) {
		real_alloc = (__typeof__(cuMemAlloc) *)*function;
		*function = (void *)cuMemAlloc;
	}
	neighbour_leaves();
	return result;
}
