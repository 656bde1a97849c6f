/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/hook.h"
#include "intercept/place.h"

void hook_stream_create(struct call *call, uint64_t stream)
{
	const struct current *now = stream ? current_ask() : current_kept();

	if (stream)
		place_note_stream(stream, now->device);
	call_write(call, &(struct call_facts){
				 .kind = RECORD_OPERATION,
				 .a = stream,
				 .context = now->view,
			 });
}

/* A stream that captures takes its capture with it. */
void hook_stream_destroy(struct call *call, uint64_t stream)
{
	if (call->result == CUDA_SUCCESS && gate_is_shut())
		capture_remove(stream, current_number());
	hook_operation(call, stream, 0, 0, STREAM_NONE);
}
