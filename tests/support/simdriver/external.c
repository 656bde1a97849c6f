/* SPDX-License-Identifier: Apache-2.0 */
/*
 * External memory: any file that can be mapped stands for what a graphics interface
 * exported.  Its bytes belong to that interface and count nowhere here; buffers and
 * arrays on it end by calls of their own.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"
#include "entries.h"
#include "array.h"
#include "external.h"
#include "share.h"

static CUresult find(CUexternalMemory handle, struct external_memory **memory)
{
	*memory = (struct external_memory *)handle;
	return handle_check(OBJECT_EXTERNAL_MEMORY, handle);
}

/* The descriptor is the driver's from a successful import on. */
CUresult external_import(CUexternalMemory *extMem_out,
			 const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
	const unsigned known = CUDA_EXTERNAL_MEMORY_DEDICATED;
	struct external_memory *memory;
	struct stat status;

	if (!extMem_out || !memHandleDesc || memHandleDesc->size == 0 ||
	    (memHandleDesc->flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	if (memHandleDesc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (fstat(memHandleDesc->handle.fd, &status) ||
	    (uint64_t)status.st_size < memHandleDesc->size)
		return CUDA_ERROR_INVALID_HANDLE;
	memory = handle_new(OBJECT_EXTERNAL_MEMORY);
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memory->fd = memHandleDesc->handle.fd;
	memory->bytes = memHandleDesc->size;
	*extMem_out = (CUexternalMemory)memory;
	return CUDA_SUCCESS;
}

/* What is mapped stays mapped until it is freed itself. */
CUresult external_destroy(CUexternalMemory extMem)
{
	struct external_memory *memory;
	CUresult error = find(extMem, &memory);

	if (error)
		return error;
	close(memory->fd);
	handle_kill(memory);
	handle_give(OBJECT_EXTERNAL_MEMORY, memory);
	return CUDA_SUCCESS;
}

static bool lies_within(const struct external_memory *memory, uint64_t offset, uint64_t bytes)
{
	return bytes && offset <= memory->bytes && bytes <= memory->bytes - offset;
}

CUresult external_buffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
			 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	struct context *context = context_current();
	struct external_memory *memory;
	struct block *block;
	char *base;
	CUresult error = find(extMem, &memory);

	if (error)
		return error;
	if (!devPtr || !desc || desc->flags || !lies_within(memory, desc->offset, desc->size))
		return CUDA_ERROR_INVALID_VALUE;
	base = share_map(context->device, memory->fd, desc->offset, desc->size);
	block = base ? memory_block(BLOCK_EXTERNAL, base, desc->size, desc->size) : NULL;
	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block->alias = space_alias(context->device, base);
	block->device = context->device;
	context_add_block(context, block);
	registry_add(block);
	*devPtr = (CUdeviceptr)base;
	return CUDA_SUCCESS;
}

CUresult external_mipmap(CUmipmappedArray *mipmap, CUexternalMemory extMem,
			 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
	struct external_memory *memory;
	struct array_source from;
	CUresult error = find(extMem, &memory);

	if (error)
		return error;
	if (!mipmap || !desc || desc->offset >= memory->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	from = (struct array_source){memory->fd, desc->offset, memory->bytes};
	return array_make_mipmap(mipmap, &desc->arrayDesc, desc->numLevels, &from);
}
