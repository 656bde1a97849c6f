/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/hook.h"
#include "intercept/place.h"
#include "intercept/reading.h"
#include "intercept/real.h"

#include <errno.h>

/* Host memory belongs to a context but lies on no device. */
static bool is_on_device(enum block_kind kind)
{
	return kind != BLOCK_PINNED && kind != BLOCK_REGISTERED;
}

void hook_memory_alloc(struct call *call, enum block_kind kind, uint64_t address, uint64_t bytes)
{
	const struct current *now = current_ask();

	block_begin(call, &(struct block_facts){
				  .kind = kind,
				  .address = address,
				  .bytes = bytes,
				  .context = now->number,
				  .device = is_on_device(kind) ? now->device : -1,
			  });
}

void hook_memory_alloc_pitch(struct call *call, uint64_t address, uint64_t pitch, uint64_t width,
			     uint64_t height)
{
	hook_memory_alloc(call, BLOCK_PITCH, address, (pitch ? pitch : width) * height);
}

/*
 * Pool memory belongs to no context.  On a capturing stream nothing is
 * allocated: an address is set aside for the graph, whose launches allocate.
 */
static void begin_pooled(struct call *call, enum block_kind kind, uint64_t address,
			 uint64_t bytes, uint64_t stream, int place)
{
	if (call->result == CUDA_SUCCESS && capture_flag(stream)) {
		hook_operation(call, address, 0, bytes, stream);
		return;
	}
	block_begin(call,
		    &(struct block_facts){
			    .kind = kind,
			    .address = address,
			    .bytes = bytes,
			    .stream = stream,
			    .device = place == PLACE_NOT_KNOWN ? current_kept()->device : place,
		    });
}

void hook_memory_alloc_async(struct call *call, uint64_t address, uint64_t bytes, uint64_t stream)
{
	begin_pooled(call, BLOCK_POOL, address, bytes, stream, place_of_stream(stream));
}

void hook_memory_alloc_from_pool(struct call *call, uint64_t address, uint64_t bytes, uint64_t pool,
				 uint64_t stream)
{
	int place = place_of_pool(pool);
	enum block_kind kind = place_is_managed(pool)  ? BLOCK_MANAGED :
			       place == PLACE_ON_HOST ? BLOCK_PINNED :
							BLOCK_POOL;

	begin_pooled(call, kind, address, bytes, stream, place);
}

uint64_t hook_memory_range(uint64_t address)
{
	int saved_errno = errno;
	CUdeviceptr base = 0;
	size_t bytes = 0;

	if (address && !gate_is_shut() &&
	    REAL(driver, cuMemGetAddressRange_v2)(&base, &bytes, address) != CUDA_SUCCESS)
		bytes = 0;
	errno = saved_errno;
	return bytes;
}

/* The bytes are another process's: a view that no sum counts. */
static void begin_import(struct call *call, uint64_t address, uint32_t context)
{
	block_begin(call, &(struct block_facts){
				  .kind = BLOCK_IPC,
				  .address = address,
				  .bytes = hook_memory_range(address),
				  .context = context,
				  .device = current_ask()->device,
				  .flags = RECORD_VIEW,
			  });
}

void hook_memory_import(struct call *call, uint64_t address)
{
	begin_import(call, address, 0);
}

/* A second open gives the same address and wants a second close. */
void hook_memory_ipc_open(struct call *call, uint64_t address)
{
	struct block block;
	uint32_t references;

	if (address && tracker_find(SPACE_ADDRESS, address, &block) && block.address == address &&
	    block.kind == BLOCK_IPC && tracker_reference(SPACE_ADDRESS, address, 1, &references))
		hook_operation(call, address, 0, block.bytes, STREAM_NONE);
	else
		begin_import(call, address, current_ask()->number);
}

void hook_memory_ipc_close_before(struct call *call, uint64_t address)
{
	struct block block;

	call->has_taken = false;
	if (tracker_find(SPACE_ADDRESS, address, &block) && block.references <= 1)
		block_take(call, SPACE_ADDRESS, address);
}

void hook_memory_ipc_close_after(struct call *call, uint64_t address)
{
	uint32_t references;

	if (call->has_taken) {
		block_end(call, address, STREAM_NONE);
		return;
	}
	if (call->result == CUDA_SUCCESS)
		tracker_reference(SPACE_ADDRESS, address, -1, &references);
	hook_operation(call, address, 0, 0, STREAM_NONE);
}

/* Nothing is mapped yet; what will be is another interface's. */
void hook_memory_import_external(struct call *call, uint64_t handle,
				 const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memory)
{
	bool is_read = call->result == CUDA_SUCCESS && memory;

	hook_operation(call, handle, is_read ? memory->type : 0, is_read ? memory->size : 0,
		       STREAM_NONE);
}

void hook_memory_external(struct call *call, uint64_t address,
			  const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer)
{
	hook_memory_alloc(call, BLOCK_EXTERNAL, address,
			  call->result == CUDA_SUCCESS && buffer ? buffer->size : 0);
}

/* Others may use the block from now on, for as long as they like. */
void hook_memory_export(struct call *call, uint64_t address)
{
	struct block block;
	bool is_exported = call->result == CUDA_SUCCESS;

	if (is_exported && tracker_find(SPACE_ADDRESS, address, &block))
		tracker_mark_exported(block.address);
	call_write(call, &(struct call_facts){
				 .kind = RECORD_OPERATION,
				 .a = address,
				 .context = current_number(),
				 .flags = is_exported ? RECORD_EXPORTED : 0,
			 });
}

/*
 * What a free of this block goes by in the queue.  The other function would
 * answer with an error; what else a free can end waits for nothing, as managed
 * memory of a pool, which belongs to no context.
 */
static enum deferq_kind kind_of_free(const struct block *block, bool is_host)
{
	switch ((enum block_kind)block->kind) {
	case BLOCK_DEVICE:
	case BLOCK_PITCH:
		return is_host ? DEFERQ_KINDS : DEFERQ_MEMORY;
	case BLOCK_MANAGED:
		return is_host || !block->context ? DEFERQ_KINDS : DEFERQ_MANAGED;
	case BLOCK_PINNED:
		return is_host ? DEFERQ_HOST : DEFERQ_KINDS;
	default:
		return DEFERQ_KINDS;
	}
}

bool hook_memory_free_defer(struct call *call, uint64_t address, uint64_t stream)
{
	struct block block;
	enum deferq_kind kind;

	(void)stream;
	if (!address || !tracker_find(SPACE_ADDRESS, address, &block) || block.address != address)
		return false;
	if (block.is_pending)
		return deferral_refuse(call, &block);
	kind = kind_of_free(&block, call->api == API_cuMemFreeHost);
	return kind != DEFERQ_KINDS && deferral_free(call, &block, kind);
}

/*
 * On a capturing stream nothing is freed before the launch of the graph.  Of managed
 * memory the driver keeps some for itself: what came back is weighed.
 */
void hook_memory_free_before(struct call *call, uint64_t address, uint64_t stream)
{
	call->has_taken = false;
	call->weighed = WEIGHED_NOTHING;
	if (!capture_flag(stream))
		block_take(call, SPACE_ADDRESS, address);
	if (call->has_taken && call->taken.kind == BLOCK_MANAGED)
		reading_weigh(call, WEIGHED_SETTING, READING_IDLE_FIRST);
}

void hook_memory_free_after(struct call *call, uint64_t address, uint64_t stream)
{
	if (call->result == CUDA_SUCCESS && !call->has_taken && capture_flag(stream))
		hook_operation(call, address, 0, 0, stream);
	else
		block_end(call, address, stream);
	reading_after(call);
}
