/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door_linked.c - calls of linked symbols, one call instruction each.  Built
 * lazily bound, bound at start (-z now), without a PLT (-fno-plt), and with
 * per-thread default streams, where cuda.h names the twins; and as a plugin.
 */
#include "story.h"

#include <dlfcn.h>
#include <stdio.h>

static CUresult init(unsigned flags)
{
	return cuInit(flags);
}

static CUresult driver_get_version(int *version)
{
	return cuDriverGetVersion(version);
}

static CUresult device_get(CUdevice *device, int ordinal)
{
	return cuDeviceGet(device, ordinal);
}

static CUresult primary_retain(CUcontext *context, CUdevice device)
{
	return cuDevicePrimaryCtxRetain(context, device);
}

static CUresult ctx_set_current(CUcontext context)
{
	return cuCtxSetCurrent(context);
}

static CUresult ctx_synchronize(void)
{
	return cuCtxSynchronize();
}

static CUresult mem_alloc(CUdeviceptr *address, size_t bytes)
{
	return cuMemAlloc(address, bytes);
}

static CUresult mem_free(CUdeviceptr address)
{
	return cuMemFree(address);
}

static CUresult mem_host_alloc(void **address, size_t bytes, unsigned flags)
{
	return cuMemHostAlloc(address, bytes, flags);
}

static CUresult mem_free_host(void *address)
{
	return cuMemFreeHost(address);
}

static CUresult pointer_get_attribute(void *value, CUpointer_attribute attribute,
				      CUdeviceptr address)
{
	return cuPointerGetAttribute(value, attribute, address);
}

static CUresult copy(CUdeviceptr target, CUdeviceptr source, size_t bytes)
{
	return cuMemcpy(target, source, bytes);
}

static CUresult copy_htod(CUdeviceptr target, const void *source, size_t bytes)
{
	return cuMemcpyHtoD(target, source, bytes);
}

static CUresult copy_dtoh(void *target, CUdeviceptr source, size_t bytes)
{
	return cuMemcpyDtoH(target, source, bytes);
}

static CUresult copy_dtod(CUdeviceptr target, CUdeviceptr source, size_t bytes)
{
	return cuMemcpyDtoD(target, source, bytes);
}

static CUresult copy_htod_async(CUdeviceptr target, const void *source, size_t bytes,
				CUstream stream)
{
	return cuMemcpyHtoDAsync(target, source, bytes, stream);
}

static CUresult copy_dtoh_async(void *target, CUdeviceptr source, size_t bytes, CUstream stream)
{
	return cuMemcpyDtoHAsync(target, source, bytes, stream);
}

static CUresult set_d8(CUdeviceptr target, unsigned char value, size_t count)
{
	return cuMemsetD8(target, value, count);
}

static CUresult set_d32_async(CUdeviceptr target, unsigned value, size_t count, CUstream stream)
{
	return cuMemsetD32Async(target, value, count, stream);
}

static CUresult alloc_async(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	return cuMemAllocAsync(address, bytes, stream);
}

static CUresult free_async(CUdeviceptr address, CUstream stream)
{
	return cuMemFreeAsync(address, stream);
}

static CUresult stream_create(CUstream *stream, unsigned flags)
{
	return cuStreamCreate(stream, flags);
}

static CUresult stream_synchronize(CUstream stream)
{
	return cuStreamSynchronize(stream);
}

static CUresult stream_destroy(CUstream stream)
{
	return cuStreamDestroy(stream);
}

static const struct story_driver driver = {
	init,
	driver_get_version,
	device_get,
	primary_retain,
	ctx_set_current,
	ctx_synchronize,
	mem_alloc,
	mem_free,
	mem_host_alloc,
	mem_free_host,
	pointer_get_attribute,
	copy,
	copy_htod,
	copy_dtoh,
	copy_dtod,
	copy_htod_async,
	copy_dtoh_async,
	set_d8,
	set_d32_async,
	alloc_async,
	free_async,
	stream_create,
	stream_synchronize,
	stream_destroy,
};

#ifdef DOOR_PLUGIN
/*
 * For door_plugin.c, which opens this file built as a library.  What RTLD_DEFAULT
 * finds depends on who asks: this library has the driver in its scope.
 */
__attribute__((visibility("default"))) void plugin_tell(void);

void plugin_tell(void)
{
	printf("by default: %s\n", dlsym(RTLD_DEFAULT, "cuInit") ? "there" : "missing");
	story_tell(&driver, 0);
}
#else
int main(void)
{
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
	story_tell(&driver, 1);
#else
	story_tell(&driver, 0);
#endif
	return 0;
}
#endif
