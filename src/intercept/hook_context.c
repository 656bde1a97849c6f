/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context that dies takes its blocks with it, without a call for any of
 * them.  Its number is looked up ahead of the driver: once the driver has
 * destroyed it, another thread may be given the same handle for a new one.
 */
#include "core/context.h"
#include "core/process.h"
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/gpu_times.h"
#include "intercept/hook.h"
#include "intercept/reading.h"
#include "intercept/real.h"

#include <errno.h>

/* Number of the context that the call in flight on this thread may destroy, 0: none. */
static __thread uint32_t dying __attribute__((tls_model("initial-exec")));

/* cuCtxAttach keeps a context alive over a cuCtxDetach; counted over all of them. */
static _Atomic uint32_t attachments;

static void write_end(struct call *call, uint64_t handle, uint32_t number, enum release_cause cause)
{
	call_write(call, &(struct call_facts){
				 .kind = RECORD_CONTEXT_END,
				 .a = handle,
				 .context = number,
				 .aux = (uint16_t)cause,
			 });
}

/* The context numbered `dying` is dead, if the handle still means it. */
static void end_context(struct call *call, uint64_t handle, enum release_cause cause)
{
	struct context context, primary;
	bool is_primary;

	if (!dying || !context_find(handle, &context) || context.number != dying)
		return;
	write_end(call, handle, dying, cause);
	hook_hold_end_context(call, dying);
	capture_remove_context(dying);
	is_primary = context_find_primary(context.device, &primary) && primary.number == dying;
	current_bury(handle);
	if (is_primary)
		hook_green_end_device(call, context.device);
	dying = 0;
}

/* From here until one of the two below nothing of ours touches the context. */
static void expect(struct call *call, uint32_t number, bool is_certain)
{
	reading_before_end(call, number, is_certain);
	dying = number;
	gpu_times_flush();
	deferral_suspend(dying, is_certain);
	context_close(dying);
}

/* What has not ended goes on. */
static void spare(void)
{
	context_spare(dying);
	deferral_resume(dying);
	dying = 0;
}

static void expect_death(struct call *call, uint64_t handle, bool is_certain)
{
	struct context context;

	expect(call, context_find(handle, &context) ? context.number : 0, is_certain);
}

/*
 * From now on the driver answers, until the process ends.  A program that is linked
 * with libcustody may end contexts that we know without our seeing it.
 */
void hook_context_init(struct call *call)
{
	if (call->result == CUDA_SUCCESS && !process_is_library())
		reading_arm_exit();
	hook_operation(call, 0, 0, 0, STREAM_NONE);
	if (call->result == CUDA_SUCCESS)
		gpu_times_start(call);
}

/* A handle that is handed out anew cannot be that of a living context: we missed its end. */
void hook_context_create(struct call *call, uint64_t handle, CUdevice device)
{
	uint32_t missed = 0;

	if (handle) {
		missed = current_bury(handle);
		current_meet(handle, device, false);
		current_set(handle);
		reading_expect_context(call, handle);
	}
	hook_operation(call, handle, 0, 0, STREAM_NONE);
	if (missed)
		write_end(call, handle, missed, RELEASE_CONTEXT);
}

void hook_context_destroy_before(struct call *call, uint64_t handle)
{
	expect_death(call, handle, true);
}

void hook_context_destroy_after(struct call *call, uint64_t handle)
{
	hook_operation(call, handle, 0, 0, STREAM_NONE);
	if (call->result == CUDA_SUCCESS)
		end_context(call, handle, RELEASE_CONTEXT);
	spare();
}

void hook_context_bury(struct call *call, uint32_t number, bool is_alive)
{
	struct context context;

	if (!context_get(number, &context) || context.is_dead)
		return;
	dying = number;
	deferral_suspend(number, is_alive);
	context_close(number);
	if (is_alive)
		deferral_part(number);
	end_context(call, context.handle, RELEASE_CONTEXT);
	spare();
}

void hook_context_attach(struct call *call, uint64_t handle)
{
	if (call->result == CUDA_SUCCESS)
		atomic_fetch_add(&attachments, 1);
	hook_operation(call, handle, 0, 0, STREAM_NONE);
}

void hook_context_detach_before(struct call *call, uint64_t handle)
{
	expect_death(call, handle, false);
}

void hook_context_detach_after(struct call *call, uint64_t handle)
{
	uint32_t held = atomic_load(&attachments);

	if (held && call->result == CUDA_SUCCESS) {
		atomic_fetch_sub(&attachments, 1);
		hook_operation(call, handle, 0, 0, STREAM_NONE);
		spare();
	} else {
		hook_context_destroy_after(call, handle);
	}
}

void hook_context_set_current(struct call *call, uint64_t handle)
{
	if (call->result == CUDA_SUCCESS)
		current_set(handle);
	hook_operation(call, handle, 0, 0, STREAM_NONE);
}

/* What lies under the popped one is asked for when it matters. */
void hook_context_pop_current(struct call *call, uint64_t handle)
{
	hook_operation(call, handle, 0, 0, STREAM_NONE);
	if (call->result == CUDA_SUCCESS)
		current_forget();
}

/* Nothing to record; but if what we believe is wrong, here we learn it for nothing. */
void hook_context_get_current(struct call *call, uint64_t handle)
{
	if (call->result == CUDA_SUCCESS && handle != current.handle)
		current_forget();
}

void hook_context_retain_primary(struct call *call, uint64_t handle, CUdevice device)
{
	struct context context;

	if (handle && !context_find(handle, &context))
		reading_expect_context(call, handle);
	if (handle)
		current_meet(handle, device, true);
	hook_operation(call, handle, (unsigned int)device, 0, STREAM_NONE);
}

static void expect_primary_death(struct call *call, CUdevice device, bool is_certain)
{
	struct context context;

	expect(call, context_find_primary(device, &context) ? context.number : 0, is_certain);
}

static bool primary_is_active(CUdevice device)
{
	unsigned int flags = 0;
	int is_active = 1;
	int saved_errno = errno;
	CUresult result = REAL(driver, cuDevicePrimaryCtxGetState)(device, &flags, &is_active);

	errno = saved_errno;
	return result != CUDA_SUCCESS || is_active;
}

void hook_context_release_primary_before(struct call *call, CUdevice device)
{
	expect_primary_death(call, device, false);
}

/* The count of holders is the driver's: cudart and libraries have a share in it. */
void hook_context_release_primary_after(struct call *call, CUdevice device)
{
	struct context context;

	hook_operation(call, 0, (unsigned int)device, 0, STREAM_NONE);
	if (call->result == CUDA_SUCCESS && dying && !primary_is_active(device) &&
	    context_find_primary(device, &context))
		end_context(call, context.handle, RELEASE_CONTEXT);
	spare();
}

void hook_context_reset_primary_before(struct call *call, CUdevice device)
{
	expect_primary_death(call, device, true);
}

void hook_context_reset_primary_after(struct call *call, CUdevice device)
{
	struct context context;

	hook_operation(call, 0, (unsigned int)device, 0, STREAM_NONE);
	if (call->result == CUDA_SUCCESS && dying && context_find_primary(device, &context))
		end_context(call, context.handle, RELEASE_RESET);
	spare();
}

/* The queue of the context that is synchronised; handle 0: the current one's. */
static struct deferq *queue_of(uint64_t handle)
{
	struct context context;

	if (!handle)
		return deferq_find(current_ask()->number);
	return context_find(handle, &context) ? deferq_find(context.number) : NULL;
}

/* What was freed before this moment the driver is going to wait for. */
void hook_context_synchronize_before(struct call *call, uint64_t handle)
{
	call->queue = deferral_is_on() ? queue_of(handle) : NULL;
	call->mark = call->queue ? deferq_mark(call->queue) : 0;
}

void hook_context_synchronize_after(struct call *call, uint64_t handle)
{
	struct deferq_report report = { 0 };
	int saved_errno = errno;

	hook_operation(call, handle, 0, 0, STREAM_NONE);
	if (!call->queue || call->result != CUDA_SUCCESS)
		return;
	deferq_synchronized(call->queue, call->mark, &report);
	errno = saved_errno;
	deferral_tell(call, &report);
}

void hook_context_driver_version(struct call *call, uint64_t version)
{
	if (call->result == CUDA_SUCCESS && version)
		segment_set_driver((int)version);
}
