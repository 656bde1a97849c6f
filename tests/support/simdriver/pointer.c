/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver knows of an address. */
#include "sim.h"
#include "entries.h"
#include "vmm.h"

enum { ORDINAL_UNKNOWN = -2 };

static bool is_host(const struct block *block)
{
	return block->kind == BLOCK_HOST || block->kind == BLOCK_REGISTERED;
}

static CUresult address_attribute(void *data, CUpointer_attribute attribute,
				  const struct block *block, CUdeviceptr ptr)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = ptr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!is_host(block) && block->kind != BLOCK_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)ptr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = (CUdeviceptr)vmm_range_start(block);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = vmm_range_size(block);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = (CUdeviceptr)block->base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = block->size;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static unsigned access_of(const struct block *block)
{
	int device = sim_thread.current ? sim_thread.current->device->index : 0;

	if (block->kind == BLOCK_MAPPED)
		return (unsigned)block->access[device];
	return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
}

static CUresult word_attribute(void *data, CUpointer_attribute attribute, struct block *block)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = is_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned *)data = atomic_load(&block->sync_memops);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)data = block->kind == BLOCK_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = block->device->index;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned *)data = block->kind == BLOCK_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned *)data = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(unsigned *)data = access_of(block);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*(unsigned *)data = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult get(void *data, CUpointer_attribute attribute, struct block *block, CUdeviceptr ptr)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = (CUcontext)block->context;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = block->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = (CUmemoryPool)block->pool;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		/* A side effect that the header promises. */
		atomic_store(&block->sync_memops, true);
		memset(data, 0, sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return address_attribute(data, attribute, block, ptr);
	default:
		return word_attribute(data, attribute, block);
	}
}

CUresult pointer_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct block *block = registry_find((void *)ptr);

	if (!data || !block)
		return CUDA_ERROR_INVALID_VALUE;
	return get(data, attribute, block, ptr);
}

/* The answer for what the driver does not know: zeros, but for two. */
static void clear(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(CUdeviceptr *)data = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = ORDINAL_UNKNOWN;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*(unsigned *)data = 0;
		break;
	default:
		*(uint64_t *)data = 0;
	}
}

CUresult pointer_attributes(unsigned int numAttributes, CUpointer_attribute *attributes,
			    void **data, CUdeviceptr ptr)
{
	struct block *block = registry_find((void *)ptr);

	if (!attributes || !data || numAttributes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < numAttributes; i++) {
		if (attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS || !data[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (!block || get(data[i], attributes[i], block, ptr))
			clear(data[i], attributes[i], ptr);
	}
	return CUDA_SUCCESS;
}

CUresult pointer_set_attribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct block *block = registry_find((void *)ptr);

	if (!value || !block || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&block->sync_memops, *(const unsigned *)value != 0);
	return CUDA_SUCCESS;
}
