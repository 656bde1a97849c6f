/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/hook.h"

void hook_capture_begin(struct call *call, uint64_t stream)
{
	hook_operation(call, 0, 0, 0, stream);
	if (call->result == CUDA_SUCCESS)
		capture_add(stream, current_number());
}

/* Whatever the driver says, the capture is over: one that was spoilt ends with an error. */
void hook_capture_end(struct call *call, uint64_t stream, uint64_t graph)
{
	capture_remove(stream, current_number());
	hook_operation(call, graph, 0, 0, stream);
}
