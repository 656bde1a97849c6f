/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/oom.h"
#include "core/gate.h"
#include "intercept/current.h"
#include "intercept/deferral.h"

#include <errno.h>

/*
 * What a flush gives back another thread may take, which was due to it all the
 * same, so one attempt more is not always enough.
 */
enum { ATTEMPTS = 8 };

/*
 * The device that has run out; -1: any.  Host memory is all devices', and where
 * a call names the device, or a handle of it, the current context says nothing.
 */
static int device_of(const struct call *call)
{
	switch ((enum api)call->api) {
	case API_cuMemAlloc:
	case API_cuMemAlloc_v2:
	case API_cuMemAllocPitch:
	case API_cuMemAllocPitch_v2:
	case API_cuArrayCreate:
	case API_cuArrayCreate_v2:
	case API_cuArray3DCreate:
	case API_cuArray3DCreate_v2:
	case API_cuMipmappedArrayCreate:
	case API_cuModuleLoad:
	case API_cuModuleLoadData:
	case API_cuModuleLoadDataEx:
	case API_cuModuleLoadFatBinary:
	case API_cuLaunchKernel:
	case API_cuLaunchKernel_ptsz:
	case API_cuLaunchKernelEx:
	case API_cuLaunchKernelEx_ptsz:
		return current_ask()->device;
	default:
		return -1;
	}
}

/*
 * Another thread's free may have had everything back since the driver said no:
 * bare, that memory would have been there all along.
 */
static bool may_succeed(const struct call *call)
{
	return deferq_may_release(device_of(call)) ||
	       (call->start && deferq_has_released_since(call->start));
}

/* With a capture live nothing is flushed: the program gets its error; so it does at its turn. */
void oom_consider(struct call *call)
{
	if (call->attempts < ATTEMPTS && call->refusal != FAILURE_NTH && deferral_is_on() &&
	    !gate_is_shut() && may_succeed(call))
		call->flags |= RECORD_BY_CUSTODY | RECORD_MORE;
}

void oom_release(struct call *call)
{
	struct deferq_report report = { 0 };
	int saved_errno = errno;

	deferq_out_of_memory(device_of(call), &report);
	errno = saved_errno;
	deferral_tell(call, &report);
	call->attempts++;
	call->flags = 0;
	call->start = clock_ticks(call->self->clock);
	segment_mark_busy(call->self, call->start);
}

/* What no hook records is recorded as a failure. */
static void write_attempt(struct call *call)
{
	if (!call->start)
		call->start = clock_ticks(call->self->clock);
	call_write(call, &(struct call_facts){ .kind = RECORD_QUERY, .context = current_number() });
}

void oom_release_timed(struct call *call)
{
	write_attempt(call);
	oom_release(call);
}

void oom_release_counted(struct call *call)
{
	write_attempt(call);
	oom_release(call);
	segment_mark_busy(call->self, 0);
	call->flags = RECORD_MORE;
	call->start = 0;
}
