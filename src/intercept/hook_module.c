/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of a module are memory that no call allocates.  One becomes a block
 * when the program first asks where it is, and ends with its module or context.
 */
#include "core/lock.h"
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/hook.h"
#include "intercept/module.h"

#include <errno.h>

/* Beyond this many, variables end with their context or the program. */
enum { GLOBALS = 4096 };

static struct global {
	uint64_t module;    /* CUmodule or CUlibrary; 0: free slot */
	struct block block; /* what was entered; while `is_out`, what was taken out */
	bool is_out;
} globals[GLOBALS];
static uint32_t slots_used;
static struct lock lock;

static void remember(uint64_t module, uint64_t address, uint64_t id)
{
	uint32_t i = 0;

	lock_take(&lock);
	while (i < slots_used && globals[i].module)
		i++;
	if (i < GLOBALS) {
		globals[i] = (struct global){ module, { .address = address, .id = id }, false };
		if (i == slots_used)
			slots_used++;
	}
	lock_give(&lock);
}

/* Next variable of this module, its slot given up; false: that was all. */
static bool forget_one(uint64_t module, struct global *global)
{
	bool is_found = false;

	lock_take(&lock);
	for (uint32_t i = 0; i < slots_used && !is_found; i++) {
		if (globals[i].module != module)
			continue;
		*global = globals[i];
		globals[i].module = 0;
		is_found = true;
	}
	lock_give(&lock);
	return is_found;
}

void hook_module_global(struct call *call, uint64_t module, uint64_t address, uint64_t bytes)
{
	const struct current *now;
	struct block block;
	uint64_t id;

	if (!address || (tracker_find(SPACE_ADDRESS, address, &block) && !block.is_pending))
		return;
	now = current_ask();
	call->start = clock_ticks(call->self->clock);
	id = block_begin(call, &(struct block_facts){
				       .kind = BLOCK_MODULE,
				       .address = address,
				       .bytes = bytes,
				       .context = now->number,
				       .device = now->device,
			       });
	remember(module, address, id);
}

/* Take a variable out of the tracker, unless its address means something else by now. */
static void take_out(struct global *global)
{
	struct block block;
	uint64_t id = global->block.id, address = global->block.address;

	if (tracker_find(SPACE_ADDRESS, address, &block) && block.id == id)
		global->is_out = tracker_take(SPACE_ADDRESS, address, &global->block);
}

void hook_module_unload_before(struct call *call, uint64_t module)
{
	(void)call;
	if (!module)
		return;
	lock_take(&lock);
	for (uint32_t i = 0; i < slots_used; i++)
		if (globals[i].module == module)
			take_out(&globals[i]);
	lock_give(&lock);
}

static void put_back(uint64_t module)
{
	lock_take(&lock);
	for (uint32_t i = 0; i < slots_used; i++) {
		if (globals[i].module != module || !globals[i].is_out)
			continue;
		tracker_add(&globals[i].block);
		globals[i].is_out = false;
	}
	lock_give(&lock);
}

void hook_module_unload_after(struct call *call, uint64_t module)
{
	struct global global;

	hook_operation(call, module, 0, 0, STREAM_NONE);
	if (!module)
		return;
	if (call->result != CUDA_SUCCESS) {
		put_back(module);
		return;
	}
	while (forget_one(module, &global))
		if (global.is_out)
			block_write_end(call, &global.block, STREAM_NONE, 0);
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

void hook_module_reset(void)
{
	slots_used = 0;
	lock_give(&lock);
}
