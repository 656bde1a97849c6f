/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory: allocated by the driver, or the client's own, registered. */
#include <sys/mman.h>

#include "sim.h"
#include "entries.h"

CUresult hostmem_alloc_flags(void **pp, size_t bytesize, unsigned int Flags)
{
	const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
			       CU_MEMHOSTALLOC_WRITECOMBINED;
	size_t span = round_up(bytesize, 4096);
	struct block *block;
	void *base;

	if (!pp || bytesize == 0 || (Flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	context_pass_gate(context_current());
	if (!config_may_allocate() || span < bytesize)
		return CUDA_ERROR_OUT_OF_MEMORY;
	base = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block = memory_block(BLOCK_HOST, base, bytesize, span);
	if (!block) {
		munmap(base, span);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	block->flags = Flags;
	block->device = context_current()->device;
	context_add_block(context_current(), block);
	registry_add(block);
	*pp = base;
	return CUDA_SUCCESS;
}

/* Under unified addressing this memory is portable and mapped. */
CUresult hostmem_alloc(void **pp, size_t bytesize)
{
	return hostmem_alloc_flags(pp, bytesize, CU_MEMHOSTALLOC_PORTABLE |
						 CU_MEMHOSTALLOC_DEVICEMAP);
}

static struct block *find(const void *p, enum block_kind kind)
{
	struct block *block = registry_find(p);

	return block && block->kind == kind && block->base == p ? block : NULL;
}

/* Both ways of giving pinned memory up wait for all work of the owner. */
static CUresult give(const void *p, enum block_kind kind, CUresult otherwise)
{
	struct block *block = find(p, kind);
	struct context *owner;

	if (!block)
		return otherwise;
	owner = block->context;
	pthread_mutex_lock(&owner->api);
	context_wait_idle(owner);
	if (find(p, kind) == block) {
		memory_drop(block);
		otherwise = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&owner->api);
	return otherwise;
}

CUresult hostmem_free(void *p)
{
	return give(p, BLOCK_HOST, CUDA_ERROR_INVALID_VALUE);
}

CUresult hostmem_register(void *p, size_t bytesize, unsigned int Flags)
{
	const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
			       CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
	struct block *block;

	if (!p || bytesize == 0 || (Flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	if (registry_overlaps(p, bytesize))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (!config_may_allocate())
		return CUDA_ERROR_OUT_OF_MEMORY;
	block = memory_block(BLOCK_REGISTERED, p, bytesize, bytesize);
	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block->flags = Flags;
	block->device = context_current()->device;
	context_add_block(context_current(), block);
	registry_add(block);
	return CUDA_SUCCESS;
}

CUresult hostmem_unregister(void *p)
{
	return give(p, BLOCK_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static struct block *find_pinned(const void *p)
{
	struct block *block = registry_find(p);

	if (block && (block->kind == BLOCK_HOST || block->kind == BLOCK_REGISTERED))
		return block;
	return NULL;
}

CUresult hostmem_device_pointer(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	if (!pdptr || Flags || !find_pinned(p))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (CUdeviceptr)p;
	return CUDA_SUCCESS;
}

CUresult hostmem_flags(unsigned int *pFlags, void *p)
{
	struct block *block = find_pinned(p);

	if (!pFlags || !block)
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = block->flags;
	return CUDA_SUCCESS;
}
