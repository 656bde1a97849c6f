/* SPDX-License-Identifier: Apache-2.0 */
/* neighbour_handle.c - wraps driver functions and asks a handle of libcuda for the real ones. */
#include "neighbour.h"

#include <cuda.h>
#include <dlfcn.h>

static void *driver_symbol(const char *name)
{
	static void *driver;

	if (!driver)
		driver = dlopen("libcuda.so.1", RTLD_NOW);
	return dlsym(driver, name);
}

EXPORTED CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
	static __typeof__(cuMemAlloc) *real;
	CUresult result;

	if (!real)
		real = (__typeof__(cuMemAlloc) *)driver_symbol("cuMemAlloc_v2");
	neighbour_saw("cuMemAlloc_v2");
	result = real(address, bytes);
	neighbour_leaves();
	return result;
}

EXPORTED CUresult cuMemcpyHtoD(CUdeviceptr target, const void *source, size_t bytes)
{
	static __typeof__(cuMemcpyHtoD) *real;
	CUresult result;

	if (!real)
		real = (__typeof__(cuMemcpyHtoD) *)driver_symbol("cuMemcpyHtoD_v2");
	neighbour_saw("cuMemcpyHtoD_v2");
	result = real(target, source, bytes);
	neighbour_leaves();
	return result;
}
