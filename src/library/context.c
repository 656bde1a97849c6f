/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <stdlib.h>

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

static CUcontext last_handle(const struct custody_context *context)
{
	return atomic_load_explicit(&context->last, memory_order_relaxed);
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

/* ------------------------------------------------------------------ what is made in it */

static struct library_object **list_of(struct custody_context *context,
				       const struct library_object *object)
{
	return object->is_late ? &context->late_objects : &context->objects;
}

void context_put(struct library_object *object, struct custody_context *context,
		 void (*end)(struct library_object *object))
{
	struct library_object **list = list_of(context, object);

	object->context = context;
	object->end = end;
	object->previous = NULL;
	pthread_mutex_lock(&context->objects_lock);
	object->generation = atomic_load_explicit(&context->generation, memory_order_acquire);
	object->next = *list;
	if (object->next)
		object->next->previous = object;
	*list = object;
	pthread_mutex_unlock(&context->objects_lock);
}

/* Under the lock; one that is out already is neither first nor behind another. */
static void unlink_object(struct custody_context *context, struct library_object *object)
{
	struct library_object **list = list_of(context, object);

	if (!object->previous && *list != object)
		return;
	if (object->previous)
		object->previous->next = object->next;
	else
		*list = object->next;
	if (object->next)
		object->next->previous = object->previous;
	object->next = object->previous = NULL;
}

struct context_ender {
	const struct library_object *object;
	pthread_t thread;
	struct context_ender *next;
};

static bool is_ended_by_another(const struct custody_context *context,
				const struct library_object *object)
{
	const struct context_ender *ender = context->enders;

	while (ender && ender->object != object)
		ender = ender->next;
	return ender && !pthread_equal(ender->thread, pthread_self());
}

/*
 * A reset on another thread may be at it: the object is its owner's to free after that.
 * In a child of fork the lock may be held by a thread that is not there; nobody looks.
 */
void context_remove(struct library_object *object)
{
	struct custody_context *context = object->context;

	if (!library_is_usable())
		return;
	pthread_mutex_lock(&context->objects_lock);
	while (is_ended_by_another(context, object))
		pthread_cond_wait(&context->objects_ended, &context->objects_lock);
	unlink_object(context, object);
	pthread_mutex_unlock(&context->objects_lock);
}

static void leave_enders(struct custody_context *context, const struct context_ender *ender)
{
	struct context_ender **place = &context->enders;

	while (*place != ender)
		place = &(*place)->next;
	*place = ender->next;
	pthread_cond_broadcast(&context->objects_ended);
}

/* Under the lock, which is not held in what is called: the program's own may be behind it. */
static void end_object(struct custody_context *context, struct library_object *object)
{
	struct context_ender ender = { object, pthread_self(), context->enders };
	void (*ended)(struct library_object *object) = object->ended;
	void (*end)(struct library_object *object) =
		context_is_fresh(context, object->generation) ? object->end : object->lose;

	unlink_object(context, object);
	context->enders = &ender;
	pthread_mutex_unlock(&context->objects_lock);
	if (end)
		end(object);
	if (end && ended)
		ended(object);
	pthread_mutex_lock(&context->objects_lock);
	leave_enders(context, &ender);
}

void context_end_objects(struct custody_context *context)
{
	pthread_mutex_lock(&context->objects_lock);
	while (context->objects || context->late_objects)
		end_object(context, context->objects ? context->objects : context->late_objects);
	pthread_mutex_unlock(&context->objects_lock);
}

static struct library_object *find_lost(const struct custody_context *context,
					struct library_object *object)
{
	while (object && context_is_fresh(context, object->generation))
		object = object->next;
	return object;
}

void context_lose_objects(struct custody_context *context)
{
	struct library_object *object;

	pthread_mutex_lock(&context->objects_lock);
	while ((object = find_lost(context, context->objects)) != NULL ||
	       (object = find_lost(context, context->late_objects)) != NULL)
		end_object(context, object);
	pthread_mutex_unlock(&context->objects_lock);
}

/* ------------------------------------------------------------------ what is current */

/* Entries of this thread's stack that are there because libcustody was asked for them. */
static __thread unsigned int stacked;

static CUcontext ask_current(void)
{
	CUcontext handle = NULL;

	return library_cuda.cuCtxGetCurrent(&handle) == CUDA_SUCCESS ? handle : NULL;
}

int context_select(struct custody_context *context)
{
	CUcontext handle, before;
	CUresult result;
	int error = context_revive(context, &handle);

	if (error)
		return error;
	before = ask_current();
	if (before == handle)
		return 0;
	result = library_cuda.cuCtxSetCurrent(handle);
	if (result != CUDA_SUCCESS)
		return error_say((int)result, "the context of device %d cannot be made current",
				 context->device->ordinal);
	if (!before || !stacked)
		stacked++;
	return 0;
}

void context_pop_stacked(void)
{
	CUcontext popped;

	while (stacked && context_of_handle(ask_current())) {
		if (library_cuda.cuCtxPopCurrent(&popped) != CUDA_SUCCESS)
			break;
		stacked--;
	}
	stacked = 0;
}

/* The question costs a reference, given back at once: nobody else says which it is. */
bool context_is_primary(CUcontext handle, const struct custody_device *device)
{
	CUcontext primary = NULL;
	unsigned int flags;
	int is_active = 0;

	if (library_cuda.cuDevicePrimaryCtxGetState(device->handle, &flags, &is_active) ||
	    !is_active || library_cuda.cuDevicePrimaryCtxRetain(&primary, device->handle))
		return false;
	library_cuda.cuDevicePrimaryCtxRelease(device->handle);
	return primary == handle;
}

/* The primary context of its device, which the program has retained and made current. */
static int adopt(CUcontext handle, struct custody_context **context)
{
	struct custody_device *device;
	CUdevice device_handle;
	CUresult result = library_cuda.cuCtxGetDevice(&device_handle);

	if (result != CUDA_SUCCESS)
		return error_say((int)result, "the current context is of no use");
	device = device_of_handle(device_handle);
	if (!device || !context_is_primary(handle, device))
		return error_say(CUSTODY_E_UNKNOWN,
				 "the current context is not the primary one of its device, and "
				 "custody_context_wrap() was not called for it");
	*context = device->context;
	return context_revive(device->context, &handle);
}

/* One that was destroyed while it was current here comes back under its old handle. */
static struct custody_context *find_last(CUcontext handle)
{
	struct custody_context *context = handle ? context_first() : NULL;

	while (context && !(context->is_primary && last_handle(context) == handle))
		context = context->next;
	return context;
}

struct custody_device *context_last_device(void)
{
	struct custody_context *context = find_last(ask_current());

	return context ? context->device : NULL;
}

int context_ask(struct custody_context **context)
{
	CUcontext handle = ask_current();

	*context = context_of_handle(handle);
	if (*context)
		return context_revive(*context, &handle);
	*context = handle ? find_last(handle) : context_of_ordinal(0);
	return *context ? context_select(*context) : adopt(handle, context);
}

static int refuse_null(const char *what)
{
	return error_say(CUSTODY_E_INVALID, "%s is NULL", what);
}

int custody_context_current(int ordinal, struct custody_context **context)
{
	struct custody_context *found;
	struct library_call call;
	int error;

	if (!context)
		return refuse_null("context");
	error = library_enter(&call);
	if (error)
		return error;
	if (ordinal == -1) {
		error = context_ask(&found);
	} else {
		found = context_of_ordinal(ordinal);
		error = found ? context_select(found) :
				error_say(CUSTODY_E_NO_DEVICE,
					  "there is no device %d; there are %d, from 0", ordinal,
					  device_count());
	}
	if (!error)
		*context = found;
	return library_leave(&call, error);
}

int custody_context_of_device(struct custody_device *device, struct custody_context **context)
{
	struct library_call call;
	CUcontext handle;
	int error;

	if (!device || !context)
		return refuse_null(device ? "context" : "device");
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

/* ------------------------------------------------------------------ push, pop, call */

int custody_context_push(struct custody_context *context)
{
	struct library_call call;
	CUcontext handle;
	CUresult result;
	int error;

	if (!context)
		return refuse_null("context");
	error = library_enter(&call);
	if (error)
		return error;
	error = context_revive(context, &handle);
	if (error)
		return library_leave(&call, error);
	result = library_cuda.cuCtxPushCurrent(handle);
	if (result == CUDA_SUCCESS)
		stacked++;
	return library_leave(&call, (int)result);
}

static int say_order(struct custody_context *context)
{
	return error_say(CUSTODY_E_CONTEXT_ORDER,
			 "the context of device %d is not on top of this thread's stack",
			 context->device->ordinal);
}

int custody_context_pop(struct custody_context *context)
{
	struct library_call call;
	CUcontext handle;
	CUresult result;
	int error;

	if (!context)
		return refuse_null("context");
	error = library_enter(&call);
	if (error)
		return error;
	handle = ask_current();
	if (!handle || (handle != custody_context_handle(context) && handle != last_handle(context)))
		return library_leave(&call, say_order(context));
	result = library_cuda.cuCtxPopCurrent(&handle);
	if (result == CUDA_SUCCESS && stacked)
		stacked--;
	return library_leave(&call, (int)result);
}

/* What `body` has left on top is not ours to pop. */
static int end_call(CUcontext handle, bool has_pushed, int result)
{
	CUcontext popped;

	if (!library_is_usable())
		return result;
	if (ask_current() != handle)
		return error_say(CUSTODY_E_CONTEXT_ORDER,
				 "the function that was called has left another context current");
	if (has_pushed)
		library_cuda.cuCtxPopCurrent(&popped);
	return result;
}

/* In `body` the program's own calls are its own again, but for what is current. */
int custody_context_call(struct custody_context *context, int (*body)(void *argument),
			 void *argument)
{
	struct library_call call;
	CUcontext handle;
	bool has_pushed;
	int error;

	if (!body)
		return refuse_null("body");
	error = context ? 0 : custody_context_current(-1, &context);
	if (!error)
		error = library_enter_context(&call, context);
	if (error)
		return error;
	handle = call.handle;
	has_pushed = call.has_pushed;
	call.has_pushed = false;
	library_leave(&call, 0);
	return end_call(handle, has_pushed, body(argument));
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
		return refuse_null("context");
	error = library_enter_context(&call, context);
	if (error)
		return error;
	error = ask_memory(context, &mine);
	if (!error)
		error = library_fill(info, &mine, sizeof(mine));
	return library_leave(&call, error);
}

int custody_context_synchronize(struct custody_context *context)
{
	struct library_call call;
	int error;

	if (!context)
		return refuse_null("context");
	error = library_enter_context(&call, context);
	if (error)
		return error;
	return library_leave(&call, (int)library_cuda.cuCtxSynchronize());
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
		return refuse_null(context ? "peer" : "context");
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
