/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

/*
 * All contexts, newest first; they are put in and never taken out, so that whoever
 * walks needs no lock.
 */
static struct custody_context *_Atomic contexts;

/* ------------------------------------------------------------------ the list */

void context_enlist(struct custody_context *context, struct custody_device *device)
{
	struct custody_context *first = atomic_load_explicit(&contexts, memory_order_relaxed);

	context->device = device;
	atomic_init(&context->generation, 1);
	pthread_mutex_init(&context->lock, NULL);
	pthread_mutex_init(&context->objects_lock, NULL);
	pthread_cond_init(&context->objects_ended, NULL);
	do
		context->next = first;
	while (!atomic_compare_exchange_weak_explicit(&contexts, &first, context,
						      memory_order_release, memory_order_relaxed));
}

struct custody_context *context_first(void)
{
	return atomic_load_explicit(&contexts, memory_order_acquire);
}

struct custody_context *context_of_handle(CUcontext handle)
{
	struct custody_context *context = handle ? context_first() : NULL;

	while (context &&
	       atomic_load_explicit(&context->handle, memory_order_acquire) != handle)
		context = context->next;
	return context;
}

struct custody_context *context_of_ordinal(int ordinal)
{
	struct custody_device *device = device_find(ordinal);

	return device ? device->context : NULL;
}

/* ------------------------------------------------------------------ coming to life */

/* Under the lock.  The handle goes last: who sees it finds the number. */
static void set_alive(struct custody_context *context, CUcontext handle)
{
	if (!library_cuda.cuCtxGetId || library_cuda.cuCtxGetId(handle, &context->id))
		context->id = 0;
	atomic_store_explicit(&context->last, handle, memory_order_relaxed);
	atomic_store_explicit(&context->number,
			      library_engine->meet(handle, context->device->ordinal,
						   context->is_primary),
			      memory_order_release);
	atomic_store_explicit(&context->handle, handle, memory_order_release);
}

static int retain(struct custody_context *context, CUcontext *handle)
{
	CUresult result = library_cuda.cuDevicePrimaryCtxRetain(handle, context->device->handle);

	if (result != CUDA_SUCCESS)
		return error_say((int)result, "the driver gives no primary context of device %d",
				 context->device->ordinal);
	set_alive(context, *handle);
	return 0;
}

static int say_unwrapped(void)
{
	return error_say(CUSTODY_E_STALE, "the context was destroyed, or custody_context_unwrap() "
					  "was called for it");
}

/* What the program has destroyed unasked may have left its handle to another context. */
static int check_wrapped(const struct custody_context *context, CUcontext handle)
{
	if (handle &&
	    library_engine->is_alive(atomic_load_explicit(&context->number, memory_order_acquire)))
		return 0;
	return say_unwrapped();
}

int context_revive(struct custody_context *context, CUcontext *handle)
{
	int error = 0;

	*handle = atomic_load_explicit(&context->handle, memory_order_acquire);
	if (!context->is_primary)
		return check_wrapped(context, *handle);
	if (*handle)
		return 0;
	pthread_mutex_lock(&context->lock);
	*handle = atomic_load_explicit(&context->handle, memory_order_relaxed);
	if (!*handle)
		error = retain(context, handle);
	pthread_mutex_unlock(&context->lock);
	return error;
}

/* Under the lock, which keeps the handle what it is. */
static void lose(struct custody_context *context)
{
	atomic_store_explicit(&context->handle, NULL, memory_order_release);
	library_engine->bury(
		atomic_exchange_explicit(&context->number, 0, memory_order_acq_rel));
	atomic_fetch_add_explicit(&context->generation, 1, memory_order_acq_rel);
	if (context->is_primary)
		library_cuda.cuDevicePrimaryCtxRelease(context->device->handle);
}

void context_lose(struct custody_context *context)
{
	pthread_mutex_lock(&context->lock);
	if (custody_context_handle(context))
		lose(context);
	pthread_mutex_unlock(&context->lock);
}

/* Somebody may have brought a primary one back under its handle, which then has a new id. */
static bool is_gone(const struct custody_context *context, CUcontext handle)
{
	unsigned long long id;
	unsigned int flags;
	CUdevice device;
	int is_active = 1;

	if (!context->is_primary)
		return library_cuda.cuCtxGetDevice(&device) == CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (library_cuda.cuDevicePrimaryCtxGetState(context->device->handle, &flags, &is_active))
		return false;
	return !is_active || (context->id && library_cuda.cuCtxGetId(handle, &id) == CUDA_SUCCESS &&
			      id != context->id);
}

void context_check(struct custody_context *context, CUcontext handle)
{
	pthread_mutex_lock(&context->lock);
	if (custody_context_handle(context) == handle && is_gone(context, handle))
		lose(context);
	pthread_mutex_unlock(&context->lock);
}

/* ------------------------------------------------------------------ what it is */

int custody_context_of_device(struct custody_device *device, struct custody_context **context)
{
	struct library_call call;
	CUcontext handle;
	int error;

	if (!device || !context)
		return error_null(device ? "context" : "device");
	error = library_enter(&call);
	if (error)
		return error;
	error = context_revive(device->context, &handle);
	if (!error)
		*context = device->context;
	return library_leave(&call, error);
}

CUcontext custody_context_handle(struct custody_context *context)
{
	return context ? atomic_load_explicit(&context->handle, memory_order_acquire) : NULL;
}

struct custody_device *custody_context_device(struct custody_context *context)
{
	return context ? context->device : NULL;
}

/* ------------------------------------------------------------------ memory and waiting */

/* Marked, the wrapper gives the driver's own answer, where pending memory is used. */
static int ask_memory(struct custody_context *context, struct custody_memory_info *mine)
{
	struct deferq_statistics statistics = { .issued = 0 };
	uint32_t number = atomic_load_explicit(&context->number, memory_order_acquire);
	CUresult result;

	defer_mark();
	result = library_cuda.cuMemGetInfo(&mine->free_bytes, &mine->total_bytes);
	defer_unmark();
	if (result != CUDA_SUCCESS)
		return (int)result;
	if (library_engine->statistics(number, &statistics))
		mine->pending_bytes = statistics.bytes[QUEUE_MEMORY] - statistics.host_bytes +
				      statistics.issued_bytes;
	return 0;
}

int custody_context_memory_info(struct custody_context *context, struct custody_memory_info *info)
{
	struct custody_memory_info mine = { .size = sizeof(mine) };
	struct library_call call;
	int error;

	if (!context)
		return error_null("context");
	error = library_enter_context(&call, context);
	if (error)
		return error;
	error = ask_memory(context, &mine);
	if (!error)
		error = library_fill(info, &mine, sizeof(mine));
	return library_leave(&call, error);
}

int context_refuse_capture(void)
{
	if (!library_engine->is_capturing())
		return 0;
	return error_say(CUSTODY_E_CAPTURING, "a stream is capturing, which this would spoil");
}

int custody_context_synchronize(struct custody_context *context)
{
	struct library_call call;
	int error;

	if (!context)
		return error_null("context");
	error = library_enter_context(&call, context);
	if (error)
		return error;
	error = context_refuse_capture();
	return library_leave(&call, error ? error : (int)library_cuda.cuCtxSynchronize());
}

int custody_synchronize(void)
{
	struct custody_context *context;
	int error = custody_context_current(-1, &context);

	return error ? error : custody_context_synchronize(context);
}

static int change_peer(struct custody_context *context, struct custody_context *peer, bool enables)
{
	struct library_call call;
	CUcontext handle;
	CUresult result;
	int error;

	if (!context || !peer)
		return error_null(context ? "peer" : "context");
	error = library_enter_context(&call, context);
	if (error)
		return error;
	error = context_revive(peer, &handle);
	if (error)
		return library_leave(&call, error);
	if (enables)
		result = library_cuda.cuCtxEnablePeerAccess(handle, 0);
	else
		result = library_cuda.cuCtxDisablePeerAccess(handle);
	if (result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ||
	    result == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
		result = CUDA_SUCCESS;
	return library_leave(&call, (int)result);
}

int custody_context_enable_peer(struct custody_context *context, struct custody_context *peer)
{
	return change_peer(context, peer, true);
}

int custody_context_disable_peer(struct custody_context *context, struct custody_context *peer)
{
	return change_peer(context, peer, false);
}

/* Those of the program that were begun and not ended; the engine's gate is shut for each. */
static _Atomic unsigned int captures;

int custody_capture_begin(void)
{
	struct library_call call;
	int error = library_enter(&call);

	if (error)
		return error;
	library_engine->capture_begin();
	atomic_fetch_add_explicit(&captures, 1, memory_order_relaxed);
	return library_leave(&call, 0);
}

int custody_capture_end(void)
{
	struct library_call call;
	unsigned int open = atomic_load_explicit(&captures, memory_order_relaxed);
	int error = library_enter(&call);

	if (error)
		return error;
	while (open && !atomic_compare_exchange_weak_explicit(&captures, &open, open - 1,
							      memory_order_relaxed,
							      memory_order_relaxed))
		continue;
	if (!open)
		return library_leave(&call, error_say(CUSTODY_E_INVALID, "no capture was begun"));
	library_engine->capture_end();
	return library_leave(&call, 0);
}
