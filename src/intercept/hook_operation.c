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

/* Barriers and flushes have no address. */
static uint64_t address_of(const CUstreamBatchMemOpParams *operation)
{
	switch (operation->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return operation->waitValue.address;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return operation->writeValue.address;
	default:
		return 0;
	}
}

/* One record for each: which kind it is stands where a single one has nothing. */
void hook_operation_memory_ops(struct call *call, const CUstreamBatchMemOpParams *list,
			       unsigned int count, uint64_t stream)
{
	bool is_read = call->result == CUDA_SUCCESS && list && count;

	if (!is_read)
		hook_operation(call, 0, 0, 0, stream);
	for (unsigned int i = 0; is_read && i < count; i++)
		hook_operation(call, address_of(&list[i]), list[i].operation, 0, stream);
}
