/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primary contexts: one per device, counted, and always under the same handle.  After
 * a reset or the last release that handle answers CONTEXT_IS_DESTROYED until the next
 * retain brings it back.
 */
#include "sim.h"
#include "entries.h"

/* A context with a fault is of no use, but it is there until it is reset. */
static bool is_active(const struct device *device)
{
	return device->primary &&
	       (atomic_load(&device->primary->alive) || atomic_load(&device->primary->error));
}

CUresult primary_retain(CUcontext *pctx, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&device->primary_lock);
	if (!is_active(device)) {
		error = config_may_allocate() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		if (!error)
			error = context_new(device, device->primary_flags, true, &device->primary);
	}
	if (!error) {
		device->primary_refs++;
		*pctx = (CUcontext)device->primary;
	}
	pthread_mutex_unlock(&device->primary_lock);
	return error;
}

CUresult primary_release(CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	pthread_mutex_lock(&device->primary_lock);
	if (device->primary_refs == 0)
		error = CUDA_ERROR_INVALID_CONTEXT;
	else if (--device->primary_refs == 0 && is_active(device))
		context_end(device->primary);
	pthread_mutex_unlock(&device->primary_lock);
	return error;
}

/* Ends the context whatever the count is, and leaves the count alone. */
CUresult primary_reset(CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	pthread_mutex_lock(&device->primary_lock);
	if (is_active(device))
		context_end(device->primary);
	pthread_mutex_unlock(&device->primary_lock);
	return CUDA_SUCCESS;
}

CUresult primary_state(CUdevice dev, unsigned int *flags, int *active)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&device->primary_lock);
	*active = is_active(device);
	*flags = *active ? device->primary->flags : device->primary_flags;
	pthread_mutex_unlock(&device->primary_lock);
	return CUDA_SUCCESS;
}

CUresult primary_set_flags(CUdevice dev, unsigned int flags)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&device->primary_lock);
	device->primary_flags = flags;
	if (is_active(device))
		device->primary->flags = flags;
	pthread_mutex_unlock(&device->primary_lock);
	return CUDA_SUCCESS;
}
