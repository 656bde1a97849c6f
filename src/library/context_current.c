/* SPDX-License-Identifier: Apache-2.0 */
/* Which context is current on a thread: choosing, pushing, popping. */
#include "library/library.h"

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

	while (context && !(context->is_primary && context_last_handle(context) == handle))
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

int custody_context_current(int ordinal, struct custody_context **context)
{
	struct custody_context *found;
	struct library_call call;
	int error;

	if (!context)
		return error_null("context");
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

/* ------------------------------------------------------------------ push, pop, call */

int custody_context_push(struct custody_context *context)
{
	struct library_call call;
	CUcontext handle;
	CUresult result;
	int error;

	if (!context)
		return error_null("context");
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
		return error_null("context");
	error = library_enter(&call);
	if (error)
		return error;
	handle = ask_current();
	if (!handle || (handle != custody_context_handle(context) &&
			handle != context_last_handle(context)))
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
		return error_null("body");
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
