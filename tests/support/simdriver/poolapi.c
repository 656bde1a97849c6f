/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered memory: the calls. */
#include "sim.h"
#include "entries.h"
#include "pool.h"

CUresult poolapi_find(CUmemoryPool handle, struct pool **pool)
{
	CUresult error;

	if (!settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	error = handle_check(OBJECT_POOL, handle);
	*pool = (struct pool *)handle;
	return error ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ allocating */

/* `pool` NULL: the current one of the stream's device. */
static CUresult alloc_on(CUdeviceptr *dptr, size_t bytes, struct pool *pool, CUstream handle)
{
	struct block *block;
	struct stream *stream;
	CUresult error = stream_find(handle, &stream);

	if (!error && (!dptr || bytes == 0))
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = capture_check_legacy(stream);
	if (error)
		return error;
	if (!pool)
		pool = atomic_load(&stream->context->device->current_pool);
	if (pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	if (capture_takes_alloc(stream, pool->device, bytes, dptr, &error))
		return error;
	error = capture_check_unsafe();
	if (error)
		return error;
	if (!config_may_allocate())
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = pool_take(pool, bytes, stream, &block);
	if (!error)
		*dptr = (CUdeviceptr)block->base;
	return error;
}

CUresult poolapi_alloc(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	if (!settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	return alloc_on(dptr, bytesize, NULL, hStream);
}

CUresult poolapi_alloc_from(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool handle,
			    CUstream hStream)
{
	struct pool *pool;
	CUresult error = poolapi_find(handle, &pool);

	return error ? error : alloc_on(dptr, bytesize, pool, hStream);
}

/* ------------------------------------------------------------------ freeing */

/*
 * A plain cuMemAlloc block: gone in stream order too, but its bytes come back only when
 * the host has waited for this very stream, as measured.
 */
static CUresult release_plain(struct block *block, struct stream *stream)
{
	if (block->released)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&stream->lock);
	block->released = true;
	block->free_seq = atomic_load(&stream->submitted);
	block->free_next = atomic_load(&stream->released);
	atomic_store(&stream->released, block);
	pthread_mutex_unlock(&stream->lock);
	return CUDA_SUCCESS;
}

static CUresult free_on(struct block *block, struct stream *stream)
{
	switch (block->kind) {
	case BLOCK_POOL:
		pool_give(block, stream, atomic_load(&stream->submitted), true);
		return CUDA_SUCCESS;
	case BLOCK_GRAPH:
		graphmem_give(block);
		return CUDA_SUCCESS;
	case BLOCK_DEVICE:
		return settings.free_plain ? release_plain(block, stream) :
					     CUDA_ERROR_INVALID_VALUE;
	case BLOCK_IMPORTED:
		return release_plain(block, stream);
	case BLOCK_MANAGED:
	case BLOCK_HOST:
		if (!block->pool)
			return block->kind == BLOCK_MANAGED ? CUDA_ERROR_NOT_SUPPORTED :
							      CUDA_ERROR_INVALID_VALUE;
		pool_give(block, stream, atomic_load(&stream->submitted), true);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult poolapi_free(CUdeviceptr dptr, CUstream hStream)
{
	struct block *block;
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!error)
		error = capture_check_legacy(stream);
	if (error)
		return error;
	if (capture_takes_free(stream, dptr, &error))
		return error;
	error = capture_check_unsafe();
	if (error)
		return error;
	block = registry_find((void *)dptr);
	if (!block || block->base != (char *)dptr)
		return CUDA_ERROR_INVALID_VALUE;
	return free_on(block, stream);
}

/* ------------------------------------------------------------------ pools as handles */

static bool is_managed(CUmemAllocationType type)
{
	return type == CU_MEM_ALLOCATION_TYPE_MANAGED;
}

static CUresult give_pool(CUmemoryPool *out, CUdevice dev, bool current)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	*out = (CUmemoryPool)(current ? atomic_load(&device->current_pool) : device->default_pool);
	return CUDA_SUCCESS;
}

CUresult poolapi_default(CUmemoryPool *pool_out, CUdevice dev)
{
	return give_pool(pool_out, dev, false);
}

CUresult poolapi_current(CUmemoryPool *pool, CUdevice dev)
{
	return give_pool(pool, dev, true);
}

CUresult poolapi_set_current(CUdevice dev, CUmemoryPool handle)
{
	struct device *device;
	struct pool *pool;
	CUresult error = device_find(dev, &device);

	if (!error)
		error = poolapi_find(handle, &pool);
	if (error)
		return error;
	if (pool->device != device || pool->imported || is_managed(pool->props.allocType))
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&device->current_pool, pool);
	return CUDA_SUCCESS;
}

static bool is_host(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && location->id == 0);
}

/* Pools of the host, and managed ones that prefer no device, are the first device's. */
static CUresult find_location(const CUmemLocation *location, CUmemAllocationType type,
			      struct device **device)
{
	if (!location)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_managed(type) && !settings.managed)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (is_host(location) && (is_managed(type) || type == CU_MEM_ALLOCATION_TYPE_PINNED))
		return device_find(0, device);
	if (is_managed(type) && location->type == CU_MEM_LOCATION_TYPE_NONE)
		return device_find(0, device);
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    (type != CU_MEM_ALLOCATION_TYPE_PINNED && !is_managed(type)))
		return CUDA_ERROR_NOT_SUPPORTED;
	return device_find(location->id, device);
}

static CUresult give_managed(CUmemoryPool *out, const struct device *device, bool current)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUmemoryPool)(current ? atomic_load(&device->current_managed_pool) :
					device->managed_pool);
	return CUDA_SUCCESS;
}

static CUresult give_pool_at(CUmemoryPool *out, const CUmemLocation *location,
			     CUmemAllocationType type, bool current)
{
	struct device *device;
	CUresult error = find_location(location, type, &device);

	if (!error && !is_managed(type) && is_host(location))
		error = CUDA_ERROR_NOT_SUPPORTED;
	if (error)
		return error;
	return is_managed(type) ? give_managed(out, device, current) :
				  give_pool(out, device->index, current);
}

CUresult poolapi_default_at(CUmemoryPool *pool_out, CUmemLocation *location,
			    CUmemAllocationType type)
{
	return give_pool_at(pool_out, location, type, false);
}

CUresult poolapi_current_at(CUmemoryPool *pool_out, CUmemLocation *location,
			    CUmemAllocationType type)
{
	return give_pool_at(pool_out, location, type, true);
}

CUresult poolapi_set_at(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool handle)
{
	struct device *device;
	struct pool *pool;
	CUresult error = find_location(location, type, &device);

	if (!error && !is_managed(type))
		return is_host(location) ? CUDA_ERROR_NOT_SUPPORTED :
					   poolapi_set_current(device->index, handle);
	if (!error)
		error = poolapi_find(handle, &pool);
	if (!error && (pool->device != device || !is_managed(pool->props.allocType)))
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		atomic_store(&device->current_managed_pool, pool);
	return error;
}

CUresult poolapi_create(CUmemoryPool *out, const CUmemPoolProps *poolProps)
{
	struct device *device;
	struct pool *pool;
	CUresult error;

	if (!out || !poolProps)
		return CUDA_ERROR_INVALID_VALUE;
	if (!settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	error = find_location(&poolProps->location, poolProps->allocType, &device);
	if (!error && poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
	    (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	     is_managed(poolProps->allocType) || is_host(&poolProps->location)))
		error = CUDA_ERROR_NOT_SUPPORTED;
	if (error)
		return error;
	pool = pool_new(device);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->props = *poolProps;
	*out = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

/* Blocks in use stay valid; the memory goes with the last of them. */
CUresult poolapi_destroy(CUmemoryPool handle)
{
	struct pool *pool;
	CUresult error = poolapi_find(handle, &pool);

	if (error || pool->is_default)
		return error ? error : CUDA_ERROR_INVALID_VALUE;
	if (atomic_load(&pool->device->current_pool) == pool)
		atomic_store(&pool->device->current_pool, pool->device->default_pool);
	if (atomic_load(&pool->device->current_managed_pool) == pool)
		atomic_store(&pool->device->current_managed_pool, pool->device->managed_pool);
	pool_end(pool);
	return CUDA_SUCCESS;
}

CUresult poolapi_trim(CUmemoryPool handle, size_t minBytesToKeep)
{
	struct pool *pool;
	CUresult error = poolapi_find(handle, &pool);

	if (!error)
		pool_trim_to(pool, minBytesToKeep);
	return error;
}

/* ------------------------------------------------------------------ attributes */

static bool is_reuse(CUmemPool_attribute attr)
{
	return attr == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
	       attr == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
	       attr == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

static CUresult get_attribute(const struct pool *pool, CUmemPool_attribute attr, void *value)
{
	cuuint64_t *number = value;

	switch (attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*number = pool->threshold;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*number = pool->reserved;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*number = pool->reserved_high;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*number = pool->used;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*number = pool->used_high;
		break;
	default:
		if (!is_reuse(attr))
			return CUDA_ERROR_INVALID_VALUE;
		*(int *)value = pool->reuse[attr];
	}
	return CUDA_SUCCESS;
}

/* A high-water mark can only be set to 0, which means: to what is current. */
static CUresult put_attribute(struct pool *pool, CUmemPool_attribute attr, const void *value)
{
	const cuuint64_t *number = value;

	switch (attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = *number;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		pool->reserved_high = pool->reserved;
		return *number ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		pool->used_high = pool->used;
		return *number ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	default:
		if (!is_reuse(attr))
			return CUDA_ERROR_INVALID_VALUE;
		pool->reuse[attr] = *(const int *)value;
		return CUDA_SUCCESS;
	}
}

CUresult poolapi_attribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
	struct pool *pool;
	CUresult error = poolapi_find(handle, &pool);

	if (!error && !value)
		error = CUDA_ERROR_INVALID_VALUE;
	if (error)
		return error;
	pthread_mutex_lock(&pool->lock);
	error = get_attribute(pool, attr, value);
	pthread_mutex_unlock(&pool->lock);
	return error;
}

CUresult poolapi_set_attribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
	struct pool *pool;
	CUresult error = poolapi_find(handle, &pool);

	if (!error && !value)
		error = CUDA_ERROR_INVALID_VALUE;
	if (error)
		return error;
	pthread_mutex_lock(&pool->lock);
	error = put_attribute(pool, attr, value);
	pthread_mutex_unlock(&pool->lock);
	return error;
}

CUresult poolapi_set_access(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
	struct device *device;
	struct pool *pool;
	CUresult error = poolapi_find(handle, &pool);

	if (!error && (!map || count == 0))
		error = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !error; i++) {
		error = device_find(map[i].location.id, &device);
		if (!error && device == pool->device && !is_host(&pool->props.location) &&
		    map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			error = CUDA_ERROR_INVALID_DEVICE;
		if (!error)
			pool->access[device->index] = (int)map[i].flags;
	}
	return error;
}

CUresult poolapi_access(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	struct device *device;
	struct pool *pool;
	CUresult error = poolapi_find(memPool, &pool);

	if (!error && (!flags || !location))
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = device_find(location->id, &device);
	if (!error)
		*flags = (CUmemAccess_flags)pool->access[device->index];
	return error;
}
