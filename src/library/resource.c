/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource.c - what all kinds of resources have in common: references, taking and
 * giving memory, and what is done when there is none left.
 */
#include "library/resource.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------ captures of others */

typedef CUresult (*exchange_function)(CUstreamCaptureMode *mode);

static pthread_once_t exchange_once = PTHREAD_ONCE_INIT;
static exchange_function exchange; /* NULL: this driver has none */

/*
 * The driver's own function: two calls around each of ours are nothing that a trace
 * should have, or that should cost what a record costs.
 */
static void find_exchange(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *found = driver ? dlsym(driver, "cuThreadExchangeStreamCaptureMode") : NULL;

	memcpy(&exchange, &found, sizeof(exchange));
	if (!exchange)
		exchange = library_cuda.cuThreadExchangeStreamCaptureMode;
}

/* The preload knows of all captures of the process; without it others may begin some. */
static bool may_be_capturing(void)
{
	return !library_engine->is_preload || library_engine->is_capturing();
}

void resource_relax(struct resource_mode *before)
{
	pthread_once(&exchange_once, find_exchange);
	before->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	before->has_exchanged = exchange && may_be_capturing() &&
				exchange(&before->mode) == CUDA_SUCCESS;
}

void resource_restore(struct resource_mode *before)
{
	if (before->has_exchanged)
		exchange(&before->mode);
}

/* ------------------------------------------------------------ coming and going */

const char *resource_name(const struct custody_resource *resource)
{
	static const char *const names[] = {
		[CUSTODY_RESOURCE_DEVICE] = "device memory",
		[CUSTODY_RESOURCE_POOL] = "device memory of a pool",
		[CUSTODY_RESOURCE_PINNED] = "page-locked host memory",
		[CUSTODY_RESOURCE_PINNED_POOL] = "page-locked host memory of a pool",
		[CUSTODY_RESOURCE_MANAGED] = "managed memory",
		[CUSTODY_RESOURCE_MANAGED_POOL] = "managed memory of a pool",
		[CUSTODY_RESOURCE_VIRTUAL] = "virtual memory",
		[CUSTODY_RESOURCE_GRAPH] = "memory of graphs",
		[CUSTODY_RESOURCE_CUSTOM] = "the program's own memory",
	};

	return names[resource->facts.kind];
}

struct custody_resource *resource_new(const struct resource_ops *ops,
				      const struct custody_resource_info *facts)
{
	struct custody_resource *resource = calloc(1, sizeof(*resource));

	if (!resource)
		return NULL;
	resource->ops = ops;
	resource->facts = *facts;
	resource->facts.size = sizeof(*facts);
	atomic_init(&resource->references, 1);
	resource_registry_start(&resource->registry);
	pthread_mutex_init(&resource->lock, NULL);
	return resource;
}

void resource_discard(struct custody_resource *resource)
{
	if (resource_pool_is(resource) && library_is_usable())
		resource_pool_forget(resource);
	resource_registry_end(&resource->registry);
	pthread_mutex_destroy(&resource->lock);
	free(resource->space.access);
	free(resource);
}

/* What was freed in the order of streams is there once they are done. */
static bool wait_for_frees(void)
{
	return !library_engine->is_capturing() &&
	       library_cuda.cuCtxSynchronize() == CUDA_SUCCESS;
}

static bool find_more(struct custody_resource *resource)
{
	if (resource->facts.kind == CUSTODY_RESOURCE_CUSTOM || !wait_for_frees())
		return false;
	resource_pool_trim_all(resource->object.context->device);
	return true;
}

/*
 * What is left of its memory goes with it; the program has no name for it any more.
 * Nobody has said which streams still use it.  Returns the first error.
 */
static int free_all(struct custody_resource *resource)
{
	const struct resource_uses uses = { 0 };
	struct resource_memory memory;
	bool has_waited = resource->ops->honour == RESOURCE_QUEUED;
	int first = 0, error;

	while (resource_registry_pop(&resource->registry, &memory)) {
		if (!has_waited)
			wait_for_frees();
		has_waited = true;
		error = resource_give(resource, &memory, &uses);
		resource_give_up(resource, &memory, error);
		first = first ? first : error;
	}
	return first;
}

static int end_waiting(struct custody_resource *resource)
{
	CUstream waiting = atomic_exchange(&resource->waiting, NULL);

	return waiting ? library_cuda.cuStreamDestroy(waiting) : CUDA_SUCCESS;
}

/* With the context entered, once: by a reset, or with the last reference. */
static int end_parts(struct custody_resource *resource)
{
	int error = 0, lost = 0, waiting;

	if (resource->facts.kind != CUSTODY_RESOURCE_CUSTOM)
		error = free_all(resource);
	if (resource->ops->end)
		lost = resource->ops->end(resource);
	waiting = end_waiting(resource);
	if (error || lost)
		return error ? error : lost;
	return waiting;
}

static void end_resource(struct library_object *object)
{
	end_parts((struct custody_resource *)object);
}

/* The context has died, and its streams with it; a pool is a device's. */
static void lose_resource(struct library_object *object)
{
	struct custody_resource *resource = (struct custody_resource *)object;
	struct resource_memory memory;

	while (resource->facts.kind != CUSTODY_RESOURCE_CUSTOM &&
	       resource_registry_pop(&resource->registry, &memory))
		resource_lose(resource, &memory);
	if (resource->ops->end)
		resource->ops->end(resource);
	atomic_store(&resource->waiting, NULL);
}

static void destroy(struct custody_resource *resource)
{
	if (resource->custom.destroy)
		resource->custom.destroy(resource->self);
	resource_discard(resource);
}

static void leave_resource(struct library_object *object)
{
	struct custody_resource *resource = (struct custody_resource *)object;

	if (atomic_load(&resource->is_left))
		destroy(resource);
}

void resource_add(struct custody_resource *resource, struct custody_context *context)
{
	resource->object.lose = lose_resource;
	resource->object.ended = leave_resource;
	context_put(&resource->object, context, end_resource);
}

int resource_enter(struct library_call *call, struct custody_resource *resource)
{
	if (!resource)
		return error_say(CUSTODY_E_INVALID, "the resource is NULL");
	return context_enter(call, &resource->object);
}

void custody_resource_retain(struct custody_resource *resource)
{
	if (resource)
		atomic_fetch_add_explicit(&resource->references, 1, memory_order_relaxed);
}

/*
 * The context cannot be entered.  Where it has died before, some of it is still there;
 * where the process is ending, or is a child, host memory is all that is given back.
 */
static int end_outside(struct custody_resource *resource, int error)
{
	if (error > 0) {
		atomic_store(&resource->is_left, true);
		return error;
	}
	context_remove(&resource->object);
	if (error == CUSTODY_E_STALE)
		lose_resource(&resource->object);
	destroy(resource);
	return 0;
}

static int end_last(struct custody_resource *resource)
{
	struct library_call call;
	int error = context_enter(&call, &resource->object);

	if (error)
		return end_outside(resource, error);
	context_remove(&resource->object);
	error = end_parts(resource);
	destroy(resource);
	return library_leave(&call, error);
}

int custody_resource_release(struct custody_resource *resource)
{
	if (!resource ||
	    atomic_fetch_sub_explicit(&resource->references, 1, memory_order_acq_rel) != 1)
		return 0;
	return end_last(resource);
}

/* ------------------------------------------------------------ out of memory */

/* The detail of the failure, with what is known of the device's memory. */
static int say_out_of_memory(struct custody_resource *resource, size_t bytes)
{
	uint32_t number = atomic_load(&resource->object.context->number);
	struct deferq_statistics statistics = { 0 };
	size_t free_bytes = 0, total_bytes = 0;

	library_engine->statistics(number, &statistics);
	library_cuda.cuMemGetInfo(&free_bytes, &total_bytes);
	return error_say(CUDA_ERROR_OUT_OF_MEMORY,
			 "%zu bytes of %s cannot be allocated: of %zu bytes of device %d %zu are "
			 "free, and %" PRIu64 " that were freed are not released yet",
			 bytes, resource_name(resource), total_bytes,
			 resource->object.context->device->ordinal, free_bytes,
			 statistics.bytes[QUEUE_MEMORY] + statistics.issued_bytes);
}

/*
 * The engine has flushed its queues and tried again each time by itself.  Frees in the
 * order of streams are waited for once, and pools give up what they keep; then it is
 * the program's turn.
 */
int resource_insist(struct custody_resource *resource, size_t bytes, int (*attempt)(void *argument),
		    void *argument)
{
	struct custody_context *context = resource->object.context;
	unsigned int attempts = 0;
	int result = attempt(argument);

	if (result == CUDA_ERROR_OUT_OF_MEMORY && find_more(resource))
		result = attempt(argument);
	while (result == CUDA_ERROR_OUT_OF_MEMORY && defer_ask_handler(context, bytes, &attempts))
		result = attempt(argument);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? say_out_of_memory(resource, bytes) : result;
}

/* ------------------------------------------------------------ taking and giving */

struct taking {
	struct custody_resource *resource;
	CUstream handle;
	struct custody_stream *stream;
	size_t bytes;
	struct resource_memory *memory;
};

static int attempt(void *argument)
{
	const struct taking *taking = argument;
	struct custody_resource *resource = taking->resource;
	struct resource_mode before;
	int result;

	*taking->memory = (struct resource_memory){ .bytes = taking->bytes };
	resource_relax(&before);
	result = resource->ops->allocate(resource, taking->handle, taking->stream, taking->memory);
	resource_restore(&before);
	return result;
}

/* Without a stream the memory is there for all of them. */
static int finish(struct custody_resource *resource, CUstream handle, bool is_synchronous,
		  struct resource_memory *memory)
{
	const struct resource_uses uses = { 0 };
	int error = stream_finish(handle, is_synchronous);

	if (error)
		resource_give(resource, memory, &uses);
	return error;
}

int resource_take(struct custody_resource *resource, size_t bytes, struct custody_stream *stream,
		  struct resource_memory *memory)
{
	struct taking taking = { resource, NULL, stream, bytes, memory };
	bool is_synchronous = false;
	int result = 0;

	*memory = (struct resource_memory){ 0 };
	if (!bytes)
		return 0;
	if (resource->ops->is_ordered)
		result = stream_resolve(stream, resource->object.context, &taking.handle,
					&is_synchronous);
	if (!result)
		result = resource_insist(resource, bytes, attempt, &taking);
	return result ? result : finish(resource, taking.handle, is_synchronous, memory);
}

/* What is exported the driver frees at once, and need not wait for what is in flight. */
static int wait_for_exported(void)
{
	if (library_engine->is_capturing())
		return error_say(CUSTODY_E_CAPTURING, "a capture is live, so that memory that was "
				 "exported cannot be freed: it would have to be waited for");
	return library_cuda.cuCtxSynchronize();
}

static int honour(struct custody_resource *resource, const struct resource_memory *memory,
		  const struct resource_uses *uses, CUstream *handle)
{
	int error;

	switch (resource->ops->honour) {
	case RESOURCE_QUEUED:
		error = resource_wait_context(resource, uses);
		return !error && memory->is_exported ? wait_for_exported() : error;
	case RESOURCE_ORDERED:
		return resource_wait_order(resource, uses, handle);
	case RESOURCE_JOINED:
		return resource_wait_freeing(resource->object.context, uses);
	default:
		return resource_wait_host(resource->object.context, uses);
	}
}

int resource_give(struct custody_resource *resource, struct resource_memory *memory,
		  const struct resource_uses *uses)
{
	struct resource_mode before;
	CUstream handle = NULL;
	int result;

	if (!memory->pointer)
		return 0;
	result = honour(resource, memory, uses, &handle);
	if (result)
		return result;
	defer_mark();
	resource_relax(&before);
	result = resource->ops->deallocate(resource, handle, uses->at.stream, memory);
	resource_restore(&before);
	defer_unmark();
	return result;
}

/* No stream of the context is there to wait for any more. */
void resource_lose(struct custody_resource *resource, struct resource_memory *memory)
{
	struct resource_mode before;

	if (!memory->pointer || !resource->ops->lose)
		return;
	resource_relax(&before);
	resource->ops->lose(memory);
	resource_restore(&before);
}

void resource_give_up(struct custody_resource *resource, struct resource_memory *memory, int error)
{
	if (error > 0 && resource->facts.kind == CUSTODY_RESOURCE_VIRTUAL)
		resource_lose(resource, memory);
}

/* ------------------------------------------------------------ what it is */

int custody_resource_info(struct custody_resource *resource, struct custody_resource_info *info)
{
	int error;

	if (!resource || !info)
		return error_say(CUSTODY_E_INVALID, "the resource, or where to put what it is, "
				 "is NULL");
	error = library_check();
	return error ? error : library_fill(info, &resource->facts, sizeof(resource->facts));
}

struct custody_context *custody_resource_context(struct custody_resource *resource)
{
	return resource ? resource->object.context : NULL;
}
