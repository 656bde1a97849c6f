/* SPDX-License-Identifier: Apache-2.0 */
/* Hints on managed memory: checked, and nothing moves. */
#include "sim.h"
#include "entries.h"

/* Hints take managed memory, and what the host can reach as well as the device. */
static CUresult check_range(CUdeviceptr address, size_t bytes)
{
	struct block *block = registry_find((void *)address);

	if (!settings.managed_access)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!block || bytes == 0 || block->kind != BLOCK_MANAGED ||
	    (char *)address + bytes > block->base + block->size)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult check_location(const CUmemLocation *location)
{
	struct device *device;

	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return device_find(location->id, &device);
	return CUDA_SUCCESS;
}

CUresult advise_set(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	CUresult error = check_range(devPtr, count);

	if (!error && (advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
		       advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY))
		error = CUDA_ERROR_INVALID_VALUE;
	return error ? error : check_location(&location);
}

static CUmemLocation location_of(CUdevice device)
{
	return (CUmemLocation){
		.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST :
						  CU_MEM_LOCATION_TYPE_DEVICE,
		.id = device,
	};
}

CUresult advise_set_old(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	return advise_set(devPtr, count, advice, location_of(device));
}

static CUresult prefetch_ready(CUstream handle, struct stream **stream)
{
	CUresult error = stream_find(handle, stream);

	if (!error)
		error = capture_check_legacy(*stream);
	return error ? error : capture_check_stream(*stream);
}

static CUresult start_prefetch(struct stream *stream)
{
	struct op op = { .kind = OP_NOTHING };

	context_pass_gate(stream->context);
	return queue_submit(stream, &op, NULL);
}

CUresult advise_prefetch(CUdeviceptr devPtr, size_t count, CUmemLocation location,
			 unsigned int flags, CUstream hStream)
{
	struct stream *stream;
	CUresult error = prefetch_ready(hStream, &stream);

	if (!error && flags)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = check_range(devPtr, count);
	if (!error)
		error = check_location(&location);
	return error ? error : start_prefetch(stream);
}

CUresult advise_prefetch_old(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	return advise_prefetch(devPtr, count, location_of(dstDevice), 0, hStream);
}

CUresult advise_prefetch_batch(CUdeviceptr *dptrs, size_t *sizes, size_t count,
			       CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
			       size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)
{
	struct stream *stream;
	CUresult error = prefetch_ready(hStream, &stream);

	if (!error && (!dptrs || !sizes || !count || !prefetchLocs || !prefetchLocIdxs ||
		       !numPrefetchLocs || numPrefetchLocs > count || flags))
		error = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numPrefetchLocs && !error; i++)
		error = check_location(&prefetchLocs[i]);
	for (size_t i = 0; i < count && !error; i++)
		error = check_range(dptrs[i], sizes[i]);
	return error ? error : start_prefetch(stream);
}

/* The bytes may be anything afterwards; here they stay. */
CUresult advise_discard_batch(CUdeviceptr *dptrs, size_t *sizes, size_t count,
			      unsigned long long flags, CUstream hStream)
{
	struct stream *stream;
	CUresult error = prefetch_ready(hStream, &stream);

	if (!error && (!dptrs || !sizes || !count || flags))
		error = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !error; i++)
		error = check_range(dptrs[i], sizes[i]);
	return error ? error : start_prefetch(stream);
}

CUresult advise_attach(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
	struct block *block = registry_find((void *)dptr);
	struct stream *stream;
	CUresult error = prefetch_ready(hStream, &stream);

	if (error)
		return error;
	if (!block || block->kind != BLOCK_MANAGED || block->base != (char *)dptr ||
	    (length && length != block->size) || flags == 0 || flags > CU_MEM_ATTACH_SINGLE)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* No range has a preference, so every attribute is "none". */
CUresult advise_range_attribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
				CUdeviceptr devPtr, size_t count)
{
	CUresult error = check_range(devPtr, count);

	if (!error && (!data || dataSize == 0 || dataSize % 4))
		error = CUDA_ERROR_INVALID_VALUE;
	if (error)
		return error;
	memset(data, 0, dataSize);
	if (attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ||
	    attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION ||
	    attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
		for (size_t i = 0; i < dataSize / 4; i++)
			((int *)data)[i] = CU_DEVICE_INVALID;
	return CUDA_SUCCESS;
}

CUresult advise_range_attributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
				 size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	CUresult error = CUDA_SUCCESS;

	if (!data || !dataSizes || !attributes || numAttributes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numAttributes && !error; i++)
		error = advise_range_attribute(data[i], dataSizes[i], attributes[i], devPtr, count);
	return error;
}

CUresult advise_flush_rdma(CUflushGPUDirectRDMAWritesTarget target,
			   CUflushGPUDirectRDMAWritesScope scope)
{
	(void)target;
	(void)scope;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult advise_range_handle(void *handle, CUdeviceptr dptr, size_t size,
			     CUmemRangeHandleType handleType, unsigned long long flags)
{
	(void)handleType;
	(void)flags;
	if (!handle || !registry_find((void *)dptr) || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_NOT_SUPPORTED;
}
