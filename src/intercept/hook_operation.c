/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/hook.h"

void hook_operation(struct call *call, uint64_t object, uint64_t second, uint64_t bytes,
		    uint64_t stream)
{
	call_write(call, &(struct call_facts){
				 .kind = RECORD_OPERATION,
				 .a = object,
				 .b = second,
				 .c = bytes,
				 .stream = stream,
				 .context = current_number(),
				 .flags = stream ? capture_flag(stream) : 0,
			 });
}

void hook_operation_batch(struct call *call, const CUdeviceptr *addresses, const size_t *bytes,
			  size_t count, uint64_t stream)
{
	uint64_t sum = 0;
	bool is_read = call->result == CUDA_SUCCESS && count && addresses && bytes;

	for (size_t i = 0; is_read && i < count; i++)
		sum += bytes[i];
	hook_operation(call, is_read ? addresses[0] : 0, 0, sum, stream);
}
