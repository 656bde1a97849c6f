/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: streams of their own on some of a device's processors.  The view of
 * one is a context whose memory, modules and events are the primary context's.
 */
#include "sim.h"
#include "entries.h"
#include "green.h"

/* Of this compute capability: parts of 8 processors, or of 2 when asked for. */
enum { PART = 8, FINE_PART = 2 };

/* Measured: a green context and its view have one handle. */
static CUresult find(CUgreenCtx handle, struct green **green)
{
	struct context *view = (struct context *)handle;

	if (handle_check(OBJECT_CONTEXT, view) || !view->green)
		return CUDA_ERROR_INVALID_CONTEXT;
	*green = view->green;
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ resources */

/* The device lies in the padding that belongs to the driver. */
static CUdevResource make_resource(const struct device *device, unsigned processors)
{
	CUdevResource resource = { .type = CU_DEV_RESOURCE_TYPE_SM };

	resource.sm.smCount = processors;
	resource.sm.minSmPartitionSize = PART;
	resource.sm.smCoscheduledAlignment = PART;
	resource._internal_padding[0] = (unsigned char)(device->index + 1);
	return resource;
}

static CUresult find_device_of(const CUdevResource *resource, struct device **device)
{
	if (resource->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	if (device_find(resource->_internal_padding[0] - 1, device))
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	return CUDA_SUCCESS;
}

static CUresult answer(CUdevResource *resource, CUdevResourceType type,
		       const struct device *device, unsigned processors)
{
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	*resource = make_resource(device, processors);
	return CUDA_SUCCESS;
}

CUresult green_device_resource(CUdevice dev, CUdevResource *resource, CUdevResourceType type)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	return error ? error : answer(resource, type, device, DEVICE_PROCESSORS);
}

CUresult green_context_resource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct context *context = (struct context *)hCtx;
	CUresult error = context_check(hCtx);

	if (error)
		return error;
	return answer(resource, type, context->device,
		      context->green ? context->green->processors : DEVICE_PROCESSORS);
}

CUresult green_resource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct green *green;
	CUresult error = find(hCtx, &green);

	return error ? error : answer(resource, type, green->device, green->processors);
}

CUresult green_split(CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input,
		     CUdevResource *remaining, unsigned int useFlags, unsigned int minCount)
{
	const unsigned part = useFlags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ?
			      FINE_PART : PART;
	unsigned each = (unsigned)round_up(minCount ? minCount : 1, part), groups;
	struct device *device;
	CUresult error;

	if (!nbGroups || !input || (useFlags & ~3u) || minCount > input->sm.smCount)
		return CUDA_ERROR_INVALID_VALUE;
	error = find_device_of(input, &device);
	if (error)
		return error;
	groups = input->sm.smCount / each;
	if (groups == 0)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (result && groups > *nbGroups)
		groups = *nbGroups;
	*nbGroups = groups;
	for (unsigned i = 0; result && i < groups; i++)
		result[i] = make_resource(device, each);
	if (remaining) {
		*remaining = make_resource(device, input->sm.smCount - groups * each);
		if (!remaining->sm.smCount)
			remaining->type = CU_DEV_RESOURCE_TYPE_INVALID;
	}
	return CUDA_SUCCESS;
}

CUresult green_describe(CUdevResourceDesc *phDesc, CUdevResource *resources,
			unsigned int nbResources)
{
	struct device *device = NULL, *other;
	struct resources *made;
	unsigned processors = 0;

	if (!phDesc || !resources || !nbResources)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < nbResources; i++) {
		CUresult error = find_device_of(&resources[i], &other);

		if (error)
			return error;
		if (device && other != device)
			return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		device = other;
		processors += resources[i].sm.smCount;
	}
	if (processors > DEVICE_PROCESSORS)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	made = handle_new(OBJECT_RESOURCES);
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->device = device;
	made->processors = processors;
	*phDesc = (CUdevResourceDesc)made;
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ create and destroy */

static CUresult make(const struct resources *resources, struct green **out)
{
	struct device *device = resources->device;
	struct green *green = calloc(1, sizeof(*green));
	CUcontext primary;
	CUresult error;

	if (!green)
		return CUDA_ERROR_OUT_OF_MEMORY;
	green->device = device;
	green->processors = resources->processors;
	error = primary_retain(&primary, device->index);
	if (!error) {
		error = context_new_view((struct context *)primary, &green->view);
		if (error)
			primary_release(device->index);
	}
	if (error) {
		free(green);
		return error;
	}
	green->view->green = green;
	*out = green;
	return CUDA_SUCCESS;
}

CUresult green_create(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	struct resources *resources = (struct resources *)desc;
	struct device *device;
	struct green *green;
	CUresult error = device_find(dev, &device);

	if (!error)
		error = handle_check(OBJECT_RESOURCES, desc);
	if (error)
		return error;
	if (!phCtx || flags != CU_GREEN_CTX_DEFAULT_STREAM || resources->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	error = make(resources, &green);
	if (!error)
		*phCtx = (CUgreenCtx)green->view;
	return error;
}

/* Streams that are left stay as handles of a context that is gone. */
CUresult green_destroy(CUgreenCtx hCtx)
{
	struct green *green;
	CUresult error = find(hCtx, &green);

	if (error)
		return error;
	context_end_view(green->view);
	green->view->green = NULL;
	error = primary_release(green->device->index);
	free(green);
	return error;
}

CUresult green_context(CUcontext *pContext, CUgreenCtx hCtx)
{
	struct green *green;
	CUresult error = find(hCtx, &green);

	if (!error && !pContext)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*pContext = (CUcontext)green->view;
	return error;
}

CUresult green_id(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
	struct green *green;
	CUresult error = find(greenCtx, &green);

	if (!error && !greenCtxId)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*greenCtxId = green->view->id;
	return error;
}

/* ------------------------------------------------------------------ work */

CUresult green_record(CUgreenCtx hCtx, CUevent hEvent)
{
	struct green *green;
	CUresult error = find(hCtx, &green);

	return error ? error : context_record_event((CUcontext)green->view, hEvent);
}

CUresult green_wait(CUgreenCtx hCtx, CUevent hEvent)
{
	struct green *green;
	CUresult error = find(hCtx, &green);

	return error ? error : context_wait_event((CUcontext)green->view, hEvent);
}

CUresult green_stream(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)
{
	struct green *green;
	CUresult error = find(greenCtx, &green);

	if (error)
		return error;
	if (flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	return stream_create_in(green->view, phStream, flags, priority);
}

CUresult green_of_stream(CUstream hStream, CUgreenCtx *phCtx)
{
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && !phCtx)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*phCtx = stream->context->green ? (CUgreenCtx)stream->context : NULL;
	return error;
}
