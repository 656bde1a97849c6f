/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource_pool.c - resources of the driver's pools, in the order of streams.
 *
 * A pool is touched when its resource is made, never first under a capture: the
 * driver sets something up then that a capture does not survive.
 */
#include "library/resource.h"

#include <inttypes.h>

bool resource_pool_is(const struct custody_resource *resource)
{
	return resource->pool.handle != NULL;
}

int resource_pool_check(struct custody_context *context)
{
	int is_supported = 0;
	int error = custody_device_attribute(
		context->device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &is_supported);

	if (error)
		return error;
	if (!is_supported || !library_cuda.cuMemPoolCreate || !library_cuda.cuMemFreeAsync ||
	    !library_cuda.cuMemAllocFromPoolAsync)
		return error_say(CUSTODY_E_UNSUPPORTED, "device %d or its driver has no pools",
				 context->device->ordinal);
	return 0;
}

/* ------------------------------------------------------------ memory */

static int refuse(const struct custody_resource *resource, CUstream handle)
{
	bool is_capturing;
	int error;

	if (resource->facts.is_imported)
		return error_say(CUSTODY_E_UNSUPPORTED, "a pool of another process gives memory "
				 "only to that");
	error = stream_ask_capturing(handle, &is_capturing);
	if (!error && is_capturing)
		error = error_say(CUSTODY_E_CAPTURING, "the stream is capturing; memory of its "
				  "graph comes from custody_resource_graph()");
	return error;
}

static int allocate_pooled(struct custody_resource *resource, CUstream handle,
			   struct custody_stream *stream, struct resource_memory *memory)
{
	int result = refuse(resource, handle);
	CUdeviceptr address;

	(void)stream;
	if (result)
		return result;
	result = library_cuda.cuMemAllocFromPoolAsync(&address, memory->bytes,
						      resource->pool.handle, handle);
	if (result)
		return result;
	memory->pointer = (void *)(uintptr_t)address;
	if (resource->facts.is_host_accessible)
		memory->host_pointer = memory->pointer;
	if (resource->facts.is_device_accessible)
		memory->device_pointer = memory->pointer;
	return 0;
}

static int free_pooled(struct custody_resource *resource, CUstream handle,
		       struct custody_stream *stream, struct resource_memory *memory)
{
	(void)resource;
	(void)stream;
	return library_cuda.cuMemFreeAsync((CUdeviceptr)(uintptr_t)memory->pointer, handle);
}

static void *free_in_no_context(void *pointer)
{
	library_cuda.cuMemFree((CUdeviceptr)(uintptr_t)pointer);
	return NULL;
}

/*
 * Memory of a pool is no context's.  Under one that has died nothing is freed, and it
 * would not be made current again: another thread has none.
 */
static void lose_pooled(struct resource_memory *memory)
{
	pthread_t thread;

	if (library_cuda.cuMemFree((CUdeviceptr)(uintptr_t)memory->pointer) == CUDA_SUCCESS)
		return;
	if (!pthread_create(&thread, NULL, free_in_no_context, memory->pointer))
		pthread_join(thread, NULL);
}

/* ------------------------------------------------------------ access of other devices */

static CUmemAccessDesc access_of(int ordinal, bool can_access)
{
	return (CUmemAccessDesc){
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal },
		.flags = can_access ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
				      CU_MEM_ACCESS_FLAGS_PROT_NONE,
	};
}

int resource_pool_grant(struct custody_resource *resource, int ordinal, bool can_access)
{
	const CUmemAccessDesc access = access_of(ordinal, can_access);
	const uint64_t bit = UINT64_C(1) << ordinal % RESOURCE_DEVICES;
	CUresult result = library_cuda.cuMemPoolSetAccess(resource->pool.handle, &access, 1);

	if (result == CUDA_SUCCESS && can_access)
		atomic_fetch_or(&resource->pool.peers, bit);
	else if (result == CUDA_SUCCESS)
		atomic_fetch_and(&resource->pool.peers, ~bit);
	return result;
}

/* The driver hands the handle of a pool out again, and the next one inherits access. */
static void take_access(struct custody_resource *resource)
{
	uint64_t peers = atomic_load(&resource->pool.peers);

	for (int ordinal = 0; ordinal < RESOURCE_DEVICES; ordinal++)
		if (peers & UINT64_C(1) << ordinal)
			resource_pool_grant(resource, ordinal, false);
}

/* ------------------------------------------------------------ all pools */

/* Of the list.  Held while pools are trimmed, so that none ends meanwhile. */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct custody_resource *pools;

static void enlist(struct custody_resource *resource)
{
	pthread_mutex_lock(&pools_lock);
	resource->pool.next = pools;
	pools = resource;
	pthread_mutex_unlock(&pools_lock);
}

void resource_pool_forget(struct custody_resource *resource)
{
	struct custody_resource **place = &pools;

	pthread_mutex_lock(&pools_lock);
	while (*place && *place != resource)
		place = &(*place)->pool.next;
	if (*place)
		*place = resource->pool.next;
	pthread_mutex_unlock(&pools_lock);
}

void resource_pool_trim_all(const struct custody_device *device)
{
	struct resource_mode before;

	resource_relax(&before);
	pthread_mutex_lock(&pools_lock);
	for (struct custody_resource *pool = pools; pool; pool = pool->pool.next)
		if (pool->object.context->device == device && !pool->facts.is_imported)
			library_cuda.cuMemPoolTrimTo(pool->pool.handle, 0);
	pthread_mutex_unlock(&pools_lock);
	resource_restore(&before);
}

/* ------------------------------------------------------------ coming and going */

/* Memory of it that is alive stays so; the driver keeps the pool until it is freed. */
static int end_pool(struct custody_resource *resource)
{
	struct resource_mode before;
	CUresult result;

	resource_pool_forget(resource);
	if (!resource->pool.handle || !resource->facts.is_owned)
		return 0;
	resource_relax(&before);
	take_access(resource);
	result = library_cuda.cuMemPoolDestroy(resource->pool.handle);
	resource_restore(&before);
	resource->pool.handle = NULL;
	return result;
}

static const struct resource_ops pool_ops = {
	.honour = RESOURCE_ORDERED,
	.is_ordered = true,
	.allocate = allocate_pooled,
	.deallocate = free_pooled,
	.lose = lose_pooled,
	.end = end_pool,
};

int resource_pool_adopt(struct custody_context *context, CUmemoryPool pool,
			const struct custody_resource_info *facts,
			struct custody_resource **resource)
{
	struct custody_resource *made = resource_new(&pool_ops, facts);

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	made->pool.handle = pool;
	resource_add(made, context);
	enlist(made);
	*resource = made;
	return 0;
}

static int set_threshold(CUmemoryPool pool, uint64_t threshold)
{
	cuuint64_t value = threshold;

	return library_cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
}

static int create(struct custody_context *context, const CUmemPoolProps *properties,
		  uint64_t threshold, const struct custody_resource_info *facts,
		  struct custody_resource **resource)
{
	CUmemoryPool pool;
	int error = library_cuda.cuMemPoolCreate(&pool, properties);

	if (error)
		return error;
	error = set_threshold(pool, threshold);
	if (!error)
		error = resource_pool_adopt(context, pool, facts, resource);
	if (error)
		library_cuda.cuMemPoolDestroy(pool);
	return error;
}

int resource_pool_create(struct custody_context *context, const CUmemPoolProps *properties,
			 uint64_t threshold, const struct custody_resource_info *facts,
			 struct custody_resource **resource)
{
	struct resource_mode before;
	int error;

	resource_relax(&before);
	error = create(context, properties, threshold, facts, resource);
	resource_restore(&before);
	return error;
}

/* ------------------------------------------------------------ pools on the device */

static int check_shareable(struct custody_context *context)
{
	int types = 0;
	int error = custody_device_attribute(
		context->device, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, &types);

	if (!error && !(types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		error = error_say(CUSTODY_E_UNSUPPORTED, "pools of device %d cannot be exported "
				  "as file descriptors", context->device->ordinal);
	return error;
}

static int create_device_pool(struct custody_context *context,
			      const struct custody_pool_options *options,
			      struct custody_resource **resource)
{
	const struct custody_resource_info facts = {
		.kind = CUSTODY_RESOURCE_POOL,
		.device = context->device->ordinal,
		.is_device_accessible = true,
		.is_shareable = options->is_shareable,
		.is_owned = true,
	};
	const CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = options->is_shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR :
						       CU_MEM_HANDLE_TYPE_NONE,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = facts.device },
		.maxSize = options->max_bytes,
	};
	int error = resource_pool_check(context);

	if (!error && options->is_shareable)
		error = check_shareable(context);
	if (error)
		return error;
	return resource_pool_create(context, &properties,
				    options->has_release_threshold ? options->release_threshold :
								     UINT64_MAX,
				    &facts, resource);
}

static int say_null(void)
{
	return error_say(CUSTODY_E_INVALID, "the context, or where to put the resource, is NULL");
}

int custody_resource_pool(struct custody_context *context,
			  const struct custody_pool_options *options,
			  struct custody_resource **resource)
{
	struct custody_pool_options mine;
	struct library_call call;
	int error;

	if (!context || !resource)
		return say_null();
	error = library_options(&mine, sizeof(mine), options);
	if (!error)
		error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, create_device_pool(context, &mine, resource));
}

/* What somebody has set on purpose stays as it is. */
static int raise_threshold(CUmemoryPool pool)
{
	cuuint64_t threshold = 0;
	int error = library_cuda.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
						       &threshold);

	return error || threshold ? error : set_threshold(pool, UINT64_MAX);
}

static int find_current(struct custody_context *context, struct custody_resource **resource)
{
	const struct custody_resource_info facts = {
		.kind = CUSTODY_RESOURCE_POOL,
		.device = context->device->ordinal,
		.is_device_accessible = true,
	};
	CUmemoryPool pool;
	int error = resource_pool_check(context);

	if (!error)
		error = library_cuda.cuDeviceGetMemPool(&pool, context->device->handle);
	if (!error)
		error = raise_threshold(pool);
	return error ? error : resource_pool_adopt(context, pool, &facts, resource);
}

int custody_resource_current_pool(struct custody_context *context,
				  struct custody_resource **resource)
{
	struct resource_mode before;
	struct library_call call;
	int error = context && resource ? library_enter_context(&call, context) : say_null();

	if (error)
		return error;
	resource_relax(&before);
	error = find_current(context, resource);
	resource_restore(&before);
	return library_leave(&call, error);
}
