/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver tells of the device of the current context only.  Elsewhere one of
 * the program's other contexts is made current for the question; it must not
 * die meanwhile, which context_visit() sees to.
 */
#include "core/context.h"
#include "core/tracker.h"
#include "intercept/current.h"
#include "intercept/green.h"
#include "intercept/limit.h"
#include "intercept/real.h"

#include <errno.h>

bool limit_ask_current(struct limit_memory *memory)
{
	size_t is_free = 0, total = 0;

	if (!real_has(API_cuMemGetInfo_v2) ||
	    REAL(driver, cuMemGetInfo_v2)(&is_free, &total) != CUDA_SUCCESS || is_free > total)
		return false;
	memory->total = total;
	memory->used = total - is_free;
	return true;
}

/* As its visitor. */
static bool ask_in(uint64_t handle, struct limit_memory *memory)
{
	CUcontext context = (CUcontext)(uintptr_t)handle;
	bool is_known;

	if (REAL(driver, cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return false;
	is_known = limit_ask_current(memory);
	REAL(driver, cuCtxPopCurrent_v2)(&context);
	current_forget();
	return is_known;
}

/* A view of a green context is left alone: it may end without the context beneath. */
static bool ask_outside(int device, struct limit_memory *memory)
{
	bool is_known = false;
	struct context context;

	for (uint32_t number = 1; !is_known && context_get(number, &context); number++) {
		if (context.is_dead || context.device != device ||
		    green_primary(context.handle) || !context_visit(number))
			continue;
		is_known = ask_in(context.handle, memory);
		context_leave(number);
	}
	return is_known;
}

struct own {
	int device;
	uint64_t bytes;
};

static bool is_own(const struct block *block, int device)
{
	if (block->device != device || block->parent)
		return false;
	switch ((enum block_kind)block->kind) {
	case BLOCK_DEVICE:
	case BLOCK_PITCH:
	case BLOCK_ARRAY:
	case BLOCK_VMM:
	case BLOCK_POOL:
		return true;
	default:
		return false;
	}
}

/* Pages that small blocks share are counted by their bytes. */
static void add_own(const struct block *block, void *argument)
{
	struct own *own = argument;

	if (is_own(block, own->device))
		own->bytes += block->bytes;
}

static bool is_any_own(const struct block *block, void *argument)
{
	return is_own(block, *(const int *)argument);
}

bool limit_ask_has_own(int device)
{
	return tracker_any(is_any_own, &device);
}

/* A device without a context can have been asked for virtual memory, and no more. */
static bool estimate(int device, struct limit_memory *memory)
{
	struct own own = { .device = device };
	size_t total = 0;

	if (REAL(driver, cuDeviceTotalMem_v2)(&total, device) != CUDA_SUCCESS)
		return false;
	tracker_walk(add_own, &own);
	memory->total = total;
	memory->used = own.bytes;
	return true;
}

bool limit_ask(int device, struct limit_memory *memory)
{
	const struct current *now = current_ask();
	int saved_errno = errno;
	bool is_known;

	if (now->handle && now->device == device && limit_ask_current(memory))
		return true;
	is_known = ask_outside(device, memory) || estimate(device, memory);
	errno = saved_errno;
	return is_known;
}
