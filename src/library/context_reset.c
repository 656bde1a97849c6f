/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How contexts end, and how those that are not ours come and go.  What is in a context
 * ends without any lock held: a resource of the program may be behind it.
 */
#include "library/library.h"

#include <stdlib.h>

/* ------------------------------------------------------------------ reset */

/*
 * With the context current.  Callbacks are called before their streams go, and after a
 * fault nothing is left to wait for.  What frees in there puts it off; the flush
 * releases it.  Where the context is at fault and dies, nothing can be freed ahead of
 * its death: it is lost with it then, and what is no context's is given back.
 */
static int end_all(struct custody_context *context, bool does_die)
{
	uint32_t number = atomic_load_explicit(&context->number, memory_order_acquire);
	CUresult result = CUDA_SUCCESS;
	bool has_flushed;

	result = library_cuda.cuCtxSynchronize();
	if (result != CUDA_SUCCESS && does_die)
		return (int)result;
	result = CUDA_SUCCESS;
	context_end_objects(context);
	has_flushed = library_engine->flush(number, true, &result);
	atomic_fetch_add_explicit(&context->generation, 1, memory_order_acq_rel);
	if (!has_flushed)
		return context_refuse_capture();
	if (result != CUDA_SUCCESS)
		error_say((int)result, "the driver refused a release; see custody_defer_errors()");
	return (int)result;
}

/* Of a context that is not alive there is nothing to reset but what it has lost. */
static int reset(struct custody_context *context, bool does_die)
{
	struct library_call call;
	int error;

	context_lose_objects(context);
	if (!custody_context_handle(context))
		return 0;
	error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, end_all(context, does_die));
}

int custody_context_reset(struct custody_context *context)
{
	struct library_call call;
	int error;

	if (!context)
		return error_null("context");
	error = library_enter(&call);
	if (error)
		return error;
	error = context_refuse_capture();
	return library_leave(&call, error ? error : reset(context, false));
}

/*
 * The driver's reset does away with whatever could not be released by itself, all of it
 * after a fault, so its word is the answer.  A reference that the program holds is of
 * no more use to it.
 */
static int reset_driver(struct custody_context *context)
{
	CUdevice device = context->device->handle;
	CUresult result;

	pthread_mutex_lock(&context->lock);
	if (custody_context_handle(context))
		library_cuda.cuDevicePrimaryCtxRelease(device);
	result = library_cuda.cuDevicePrimaryCtxReset(device);
	atomic_store_explicit(&context->handle, NULL, memory_order_release);
	atomic_store_explicit(&context->number, 0, memory_order_release);
	atomic_fetch_add_explicit(&context->generation, 1, memory_order_acq_rel);
	pthread_mutex_unlock(&context->lock);
	if (result != CUDA_SUCCESS)
		error_say((int)result, "the driver does not reset device %d",
			  context->device->ordinal);
	return (int)result;
}

int custody_device_reset(struct custody_device *device)
{
	struct library_call call;
	int error;

	if (!device)
		return error_null("device");
	error = library_enter(&call);
	if (error)
		return error;
	error = context_refuse_capture();
	if (error)
		return library_leave(&call, error);
	reset(device->context, true);
	error_forget();
	error = reset_driver(device->context);
	context_lose_objects(device->context);
	return library_leave(&call, error);
}

/* ------------------------------------------------------------------ shutdown */

static int reset_all(void)
{
	int error = 0, first = 0;

	for (struct custody_context *context = context_first(); context; context = context->next) {
		error = reset(context, false);
		if (error && error != CUSTODY_E_STALE && !first)
			first = error;
	}
	return first;
}

/* What could not be ended, after a fault, is lost with the context. */
static int release(struct custody_context *context)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&context->lock);
	if (custody_context_handle(context)) {
		result = library_cuda.cuDevicePrimaryCtxRelease(context->device->handle);
		atomic_store_explicit(&context->handle, NULL, memory_order_release);
		atomic_store_explicit(&context->number, 0, memory_order_release);
		atomic_fetch_add_explicit(&context->generation, 1, memory_order_acq_rel);
	}
	pthread_mutex_unlock(&context->lock);
	context_lose_objects(context);
	return (int)result;
}

static int shut_down(void)
{
	int error = context_refuse_capture(), first;

	if (error)
		return error;
	first = reset_all();
	context_pop_stacked();
	for (int i = 0; i < device_count(); i++) {
		error = release(device_find(i)->context);
		if (error && !first)
			first = error;
	}
	return first;
}

/* Where CUDA was never used there is nothing to end, and no driver is loaded for it. */
int custody_shutdown(void)
{
	struct library_call call;
	int error;

	error_forget();
	error = library_check();
	if (error || !library_is_usable())
		return error;
	error = library_enter(&call);
	return error ? error : library_leave(&call, shut_down());
}

/* ------------------------------------------------------------------ contexts of the program */

/* Against two threads that wrap the same one; no driver call is made under it. */
static pthread_mutex_t wrap_lock = PTHREAD_MUTEX_INITIALIZER;

static int make_wrapped(CUcontext handle, struct custody_device *device,
			struct custody_context **context)
{
	uint32_t number = library_engine->meet(handle, device->ordinal, false);
	struct custody_context *made;

	if (!number)
		return error_say(CUSTODY_E_STALE, "the context is not alive");
	made = calloc(1, sizeof(*made));
	if (!made)
		return error_say(CUSTODY_E_NO_MEMORY, "no memory for a context");
	atomic_init(&made->last, handle);
	atomic_init(&made->number, number);
	atomic_init(&made->is_wrapped, true);
	atomic_init(&made->handle, handle);
	context_enlist(made, device);
	*context = made;
	return 0;
}

/* With the context current: a primary one is known by its device. */
static int wrap_current(CUcontext handle, struct custody_context **context)
{
	struct custody_device *device;
	CUdevice device_handle;
	CUresult result = library_cuda.cuCtxGetDevice(&device_handle);
	int error = 0;

	if (result != CUDA_SUCCESS)
		return error_say((int)result, "the driver does not know the context");
	device = device_of_handle(device_handle);
	if (!device)
		return error_say(CUSTODY_E_NO_DEVICE, "the context is of no known device");
	if (context_is_primary(handle, device)) {
		*context = device->context;
		return context_revive(device->context, &handle);
	}
	pthread_mutex_lock(&wrap_lock);
	*context = context_of_handle(handle);
	if (!*context)
		error = make_wrapped(handle, device, context);
	pthread_mutex_unlock(&wrap_lock);
	return error;
}

int custody_context_wrap(CUcontext handle, struct custody_context **context)
{
	struct custody_context *known;
	struct library_call call;
	CUcontext popped;
	CUresult result;
	int error;

	if (!handle || !context)
		return error_null(handle ? "context" : "handle");
	error = library_enter(&call);
	if (error)
		return error;
	known = context_of_handle(handle);
	if (known && context_revive(known, &popped) == 0) {
		*context = known;
		return library_leave(&call, 0);
	}
	if (known) {
		context_lose(known);
		context_lose_objects(known);
	}
	error_forget();
	result = library_cuda.cuCtxPushCurrent(handle);
	if (result != CUDA_SUCCESS)
		return library_leave(&call, error_say((int)result, "the driver does not know the "
								   "context"));
	error = wrap_current(handle, &known);
	library_cuda.cuCtxPopCurrent(&popped);
	if (!error)
		*context = known;
	return library_leave(&call, error);
}

/*
 * The program may destroy it now by itself, and the engine must not take the next one
 * with this handle for it.
 */
static void let_go(struct custody_context *context)
{
	uint32_t number;

	pthread_mutex_lock(&context->lock);
	number = atomic_exchange_explicit(&context->number, 0, memory_order_acq_rel);
	atomic_store_explicit(&context->handle, NULL, memory_order_release);
	atomic_fetch_add_explicit(&context->generation, 1, memory_order_acq_rel);
	pthread_mutex_unlock(&context->lock);
	if (number)
		library_engine->part(number);
}

static int refuse_unwrap(const struct custody_context *context)
{
	if (context->is_primary)
		return error_say(CUSTODY_E_INVALID, "it is the primary context of device %d, which "
						    "nobody has wrapped",
				 context->device->ordinal);
	return context_refuse_capture();
}

/* Where the program has destroyed it already, there is nobody to flush it for. */
static int unwrap(struct custody_context *context)
{
	int error = refuse_unwrap(context);

	if (error)
		return error;
	if (!atomic_exchange_explicit(&context->is_wrapped, false, memory_order_acq_rel))
		return error_say(CUSTODY_E_CLOSED, "the context was unwrapped before");
	error = reset(context, false);
	if (error == CUSTODY_E_STALE)
		context_lose(context);
	else
		let_go(context);
	context_lose_objects(context);
	return error == CUSTODY_E_STALE ? 0 : error;
}

int custody_context_unwrap(struct custody_context *context)
{
	struct library_call call;
	int error;

	if (!context)
		return 0;
	error = library_enter(&call);
	return error ? error : library_leave(&call, unwrap(context));
}
