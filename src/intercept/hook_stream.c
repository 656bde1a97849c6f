/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/hook.h"

/* A stream that captures takes its capture with it. */
void hook_stream_destroy(struct call *call, uint64_t stream)
{
	if (call->result == CUDA_SUCCESS && capture_is_live())
		capture_remove(stream, current_number());
	hook_operation(call, stream, 0, 0, STREAM_NONE);
}
