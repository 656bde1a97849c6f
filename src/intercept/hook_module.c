/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of a module are memory that no call allocates.  One becomes a block
 * when the program first asks where it is, and ends with its module or context.
 */
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/hook.h"
#include "intercept/module.h"
#include "intercept/owned.h"

#include <errno.h>

void hook_module_global(struct call *call, uint64_t module, uint64_t address, uint64_t bytes)
{
	const struct current *now;
	struct block block;
	uint64_t id;

	if (!address || (tracker_find(SPACE_ADDRESS, address, &block) && !block.is_pending))
		return;
	if (!bytes) /* libgomp, for one, does not ask how many there are */
		bytes = hook_memory_range(address);
	now = current_ask();
	call->start = clock_ticks(call->self->clock);
	id = block_begin(call, &(struct block_facts){
				       .kind = BLOCK_MODULE,
				       .address = address,
				       .bytes = bytes,
				       .context = now->number,
				       .device = now->device,
			       });
	owned_add(module, address, id);
}

void hook_module_unload_before(struct call *call, uint64_t module)
{
	(void)call;
	owned_take(module);
}

void hook_module_unload_after(struct call *call, uint64_t module)
{
	struct block block;

	hook_operation(call, module, 0, 0, STREAM_NONE);
	if (call->result != CUDA_SUCCESS)
		owned_put_back(module);
	else
		while (owned_next(module, &block))
			block_write_end(call, &block, STREAM_NONE, 0);
}

void hook_module_load(struct call *call, uint64_t module)
{
	if (module && deferral_is_on())
		module_note(module, current_ask()->number);
	hook_operation(call, module, 0, 0, STREAM_NONE);
}

/* A handle that is nobody's. */
static bool refuse_unload(struct call *call, uint64_t module)
{
	call_returned(call, CUDA_ERROR_INVALID_HANDLE);
	hook_operation(call, module, 0, 0, STREAM_NONE);
	deferral_write_finding(call, FINDING_DOUBLE_FREE, module, 0, 0);
	return true;
}

/* True: the call is answered.  The module's variables end now, whenever the driver unloads it. */
static bool queue_unload(struct call *call, uint64_t module, struct deferq *queue)
{
	const struct deferq_item item = {
		.handle = module,
		.kind = DEFERQ_MODULE,
		.caller = call->caller,
		.is_nowait = deferral_is_library,
	};
	struct deferq_report report = { 0 };
	int saved_errno = errno;
	uint64_t waited = 0;
	CUresult result;
	enum deferq_answer answer;

	hook_module_unload_before(call, module);
	answer = deferq_add(queue, &item, &result, &waited, &report);
	errno = saved_errno;
	module_settle(module, answer == DEFERQ_QUEUED);
	if (answer != DEFERQ_REFUSED) {
		call_returned(call, result);
		hook_module_unload_after(call, module);
	}
	deferral_tell(call, &report);
	return answer != DEFERQ_REFUSED;
}

bool hook_module_unload_defer(struct call *call, uint64_t module)
{
	uint32_t context;
	struct deferq *queue;

	switch (module_unload(module, &context)) {
	case MODULE_PENDING:
		return refuse_unload(call, module);
	case MODULE_CLAIMED:
		queue = deferral_queue(context);
		if (queue)
			return queue_unload(call, module, queue);
		module_settle(module, false);
		break;
	case MODULE_UNKNOWN:
		break;
	}
	return false;
}
