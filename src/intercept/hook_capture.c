/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While a capture is live no call of ours reaches the driver.  The gate is shut
 * before the capture begins, and opened when it is over or has not begun.
 */
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/hook.h"

/* An allocation within the capture shall not lack what could be had before. */
void hook_capture_begin_before(struct call *call, uint64_t stream)
{
	(void)stream;
	deferral_shut_gate(call);
}

/* The stream captures by now, but this call was none that it captured. */
void hook_capture_begin_after(struct call *call, uint64_t stream)
{
	call_write(call, &(struct call_facts){
				 .kind = RECORD_OPERATION,
				 .stream = stream,
				 .context = current_number(),
			 });
	if (call->result == CUDA_SUCCESS)
		capture_add(stream, current_number());
	else
		gate_open();
}

/* One that was spoilt is over too, with an error; one that another thread must end is not. */
void hook_capture_end(struct call *call, uint64_t stream, uint64_t graph)
{
	if (call->result == CUDA_SUCCESS || !capture_goes_on(stream))
		capture_remove(stream, current_number());
	hook_operation(call, graph, 0, 0, stream);
}
