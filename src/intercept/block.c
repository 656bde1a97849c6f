/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block is entered after the driver has handed it out and taken out before
 * the driver frees it, so at every moment the tracker holds no block that the
 * driver could give to somebody else.
 */
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/hook.h"

static uint16_t aux_of(enum block_kind kind, int device)
{
	return (uint16_t)((unsigned int)kind | (unsigned int)(device + 1) << 8);
}

/*
 * The context of the record.  Page-locked memory of a pool or a handle names
 * none: whatever is page-locked and names a context ends with it.
 */
static uint32_t context_of(const struct block_facts *facts)
{
	return facts->kind == BLOCK_PINNED ? facts->context : current_number();
}

/* Where a block lay that waits for its release, the driver has released it. */
static void enter(struct call *call, const struct block *block)
{
	uint32_t displaced = atomic_load_explicit(&tracker_displaced, memory_order_relaxed);

	tracker_add(block);
	if (__builtin_expect(atomic_load_explicit(&tracker_displaced, memory_order_relaxed) !=
				     displaced,
			     0))
		deferral_reuse(call, block->address, block->bytes);
}

/* A block that there is not has no id, but may have a reason of ours. */
uint64_t block_begin(struct call *call, const struct block_facts *facts)
{
	struct block block = {
		.address = facts->address,
		.bytes = facts->bytes,
		.parent = facts->parent,
		.context = facts->context,
		.references = 1,
		.device = (int16_t)facts->device,
		.kind = (uint8_t)facts->kind,
		.space = (uint8_t)facts->space,
	};

	if (call->result == CUDA_SUCCESS && facts->address) {
		block.id = tracker_next_id();
		enter(call, &block);
	}
	call_write(call, &(struct call_facts){
				 .kind = RECORD_ALLOC,
				 .a = facts->address,
				 .b = block.id ? block.id : call->refusal,
				 .c = facts->bytes,
				 .stream = facts->stream,
				 .context = context_of(facts),
				 .aux = aux_of(facts->kind, facts->device),
				 .flags = facts->flags,
			 });
	return block.id;
}

void block_take(struct call *call, enum block_space space, uint64_t address)
{
	call->has_taken = address && tracker_take(space, address, &call->taken);
}

void block_write_end(struct call *call, const struct block *block, uint64_t stream, uint8_t flags)
{
	call_write(call, &(struct call_facts){
				 .kind = RECORD_FREE,
				 .a = block->address,
				 .b = block->id,
				 .c = block->bytes,
				 .stream = stream,
				 .context = current_number(),
				 .aux = RELEASE_FREED,
				 .flags = flags,
			 });
}

/* A free of nothing is legal and ends no block: it counts as a call and no more. */
void block_end(struct call *call, uint64_t address, uint64_t stream)
{
	struct block unknown = { .address = address };
	uint8_t flags = stream ? capture_flag(stream) : 0;

	if (!address) {
		hook_operation(call, 0, 0, 0, stream);
	} else if (!call->has_taken) {
		block_write_end(call, &unknown, stream, flags | RECORD_UNTRACKED);
	} else {
		if (call->result != CUDA_SUCCESS)
			tracker_add(&call->taken);
		block_write_end(call, &call->taken, stream, flags);
	}
}
