/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools that other processes see.  What is exported of a pool is a small file that
 * names it; each block is exported by itself, as a ticket to the file of its segment.
 */
#include <fcntl.h>
#include <unistd.h>

#include "sim.h"
#include "entries.h"
#include "pool.h"
#include "share.h"

enum { BLOCK_MAGIC = 0x706f6f6c };

static bool is_exportable(const struct pool *pool)
{
	return !pool->imported &&
	       pool->props.handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

CUresult poolshare_export(void *handle_out, CUmemoryPool handle,
			  CUmemAllocationHandleType handleType, unsigned long long flags)
{
	struct pool *pool;
	CUresult error = poolapi_find(handle, &pool);
	int fd;

	if (error)
		return error;
	if (!handle_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !is_exportable(pool))
		return CUDA_ERROR_INVALID_VALUE;
	fd = share_new_file("pool", pool->device->index, sizeof(pool->props));
	if (fd < 0 || write(fd, &pool->props, sizeof(pool->props)) != sizeof(pool->props))
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)handle_out = fd;
	return CUDA_SUCCESS;
}

CUresult poolshare_import(CUmemoryPool *pool_out, void *handle,
			  CUmemAllocationHandleType handleType, unsigned long long flags)
{
	int fd = (int)(intptr_t)handle, device;
	CUmemPoolProps props;
	struct pool *pool;

	if (!settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !share_is_file(fd, "pool", &device) ||
	    pread(fd, &props, sizeof(props), 0) != sizeof(props))
		return CUDA_ERROR_INVALID_VALUE;
	pool = pool_new(device_at(device));
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->props = props;
	pool->imported = true;
	*pool_out = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

CUresult poolshare_export_pointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct block *block = registry_find((void *)ptr);
	struct share_ticket ticket;
	CUresult error;

	if (!shareData_out || !block || block->kind != BLOCK_POOL ||
	    block->base != (char *)ptr || !is_exportable(block->pool))
		return CUDA_ERROR_INVALID_VALUE;
	error = share_write_ticket(&ticket, BLOCK_MAGIC, block);
	if (error)
		return error;
	memset(shareData_out, 0, sizeof(*shareData_out));
	memcpy(shareData_out, &ticket, sizeof(ticket));
	return CUDA_SUCCESS;
}

static struct block *import_block(struct pool *pool, const struct share_ticket *ticket)
{
	int fd = share_open(ticket);
	char *base = fd >= 0 ? share_map(pool->device, fd, ticket->offset, ticket->size) : NULL;
	struct block *block = base ? memory_block(BLOCK_IMPORTED, base, ticket->size,
						  ticket->size) : NULL;

	if (fd >= 0)
		close(fd);
	if (!block)
		return NULL;
	handle_retain(pool);
	block->pool = pool;
	block->device = pool->device;
	block->alias = space_alias(pool->device, base);
	registry_add(block);
	return block;
}

CUresult poolshare_import_pointer(CUdeviceptr *ptr_out, CUmemoryPool handle,
				  CUmemPoolPtrExportData *shareData)
{
	struct share_ticket ticket;
	struct block *block;
	struct pool *pool;
	CUresult error = poolapi_find(handle, &pool);

	if (error)
		return error;
	if (!ptr_out || !shareData || !pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&ticket, shareData, sizeof(ticket));
	if (ticket.magic != BLOCK_MAGIC || ticket.device != pool->device->index)
		return CUDA_ERROR_INVALID_VALUE;
	block = import_block(pool, &ticket);
	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	*ptr_out = (CUdeviceptr)block->base;
	return CUDA_SUCCESS;
}
