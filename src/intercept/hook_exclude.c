/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call after which contexts work on each other's memory.  What a program
 * takes back of that it may ask for again at any time: nothing is let in again.
 */
#include "core/context.h"
#include "intercept/current.h"
#include "intercept/exclude.h"
#include "intercept/hook.h"
#include "intercept/real.h"

#include <errno.h>

/* The device of a context that need not be current. */
static int ask_device(CUcontext context)
{
	CUdevice device = -1;
	CUcontext popped;

	if (REAL(driver, cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return -1;
	if (REAL(driver, cuCtxGetDevice)(&device) != CUDA_SUCCESS)
		device = -1;
	REAL(driver, cuCtxPopCurrent_v2)(&popped);
	return device;
}

/* A context that nobody has told us of is met here, so that it has a number. */
static uint32_t number_of(uint64_t handle)
{
	int saved_errno = errno;
	struct context context;
	uint32_t number = 0;
	int device;

	if (context_find(handle, &context))
		return context.number;
	device = ask_device((CUcontext)(uintptr_t)handle);
	if (device >= 0)
		number = current_meet(handle, device, false);
	errno = saved_errno;
	return number;
}

void hook_exclude_peer(struct call *call, uint64_t peer)
{
	hook_operation(call, peer, 0, 0, STREAM_NONE);
	if (call->result != CUDA_SUCCESS && call->result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		return;
	exclude_context(current_ask()->number);
	exclude_context(number_of(peer));
}
