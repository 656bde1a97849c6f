/* SPDX-License-Identifier: Apache-2.0 */
/* neighbour_next.c - wraps driver functions, and one of libc's, by dlsym(RTLD_NEXT, ...). */
#include "neighbour.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

EXPORTED CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
	static __typeof__(cuMemAlloc) *_Atomic next; /* threads may look it up at once */
	CUresult result;

	if (!next)
		next = (__typeof__(cuMemAlloc) *)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	neighbour_saw("cuMemAlloc_v2");
	result = next(address, bytes);
	neighbour_leaves();
	return result;
}

EXPORTED CUresult cuMemcpyHtoD(CUdeviceptr target, const void *source, size_t bytes)
{
	static __typeof__(cuMemcpyHtoD) *_Atomic next;
	CUresult result;

	if (!next)
		next = (__typeof__(cuMemcpyHtoD) *)dlsym(RTLD_NEXT, "cuMemcpyHtoD_v2");
	neighbour_saw("cuMemcpyHtoD_v2");
	result = next(target, source, bytes);
	neighbour_leaves();
	return result;
}

/* The classic victim: it finds itself if the caller of dlsym is taken for another. */
EXPORTED int puts(const char *text)
{
	static __typeof__(puts) *_Atomic next;
	int result;

	if (!next)
		next = (__typeof__(puts) *)dlsym(RTLD_NEXT, "puts");
	neighbour_saw("puts");
	result = next(text);
	neighbour_leaves();
	return result;
}
