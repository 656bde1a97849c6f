/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory is charged when a handle is made, and given back when both
 * the last reference to the handle and the last mapping are gone.  So a handle
 * is a block that owns its bytes and counts references; a mapping is a view.
 * A handle that lies in host memory is page-locked memory like any other.
 */
#include "intercept/current.h"
#include "intercept/hold.h"
#include "intercept/hook.h"
#include "intercept/place.h"

/* A handle just made; `device` -1: it lies on no device. */
static void begin_handle(struct call *call, uint64_t handle, uint64_t bytes, int device,
			 enum block_kind kind, uint8_t flags)
{
	block_begin(call, &(struct block_facts){
				  .kind = kind,
				  .space = SPACE_HANDLE,
				  .address = handle,
				  .bytes = bytes,
				  .device = device,
				  .flags = flags,
			  });
}

void hook_vmm_create(struct call *call, uint64_t handle, uint64_t bytes,
		     const CUmemAllocationProp *properties)
{
	int place = PLACE_NOT_KNOWN;

	if (call->result == CUDA_SUCCESS && properties)
		place = place_of_location(&properties->location);
	begin_handle(call, handle, bytes, place < 0 ? -1 : place,
		     place == PLACE_ON_HOST ? BLOCK_PINNED : BLOCK_VMM, 0);
}

/*
 * The memory is another process's, or, of a multicast object, that of others:
 * no bytes of its own.  One handle may be imported twice.
 */
void hook_vmm_import(struct call *call, uint64_t handle)
{
	uint32_t references;

	if (handle && tracker_reference(SPACE_HANDLE, handle, 1, &references))
		hook_operation(call, handle, 0, 0, STREAM_NONE);
	else
		begin_handle(call, handle, 0, -1, BLOCK_IPC, RECORD_VIEW);
}

void hook_vmm_retain(struct call *call, uint64_t handle, uint64_t address)
{
	uint32_t references;

	if (handle)
		tracker_reference(SPACE_HANDLE, handle, 1, &references);
	hook_operation(call, handle, address, 0, STREAM_NONE);
}

/*
 * One reference less; the last one takes the block.  Done ahead of the driver,
 * which may give the handle's value to another thread's cuMemCreate at once.
 */
static void drop_reference(struct call *call, uint64_t handle)
{
	uint32_t references;

	call->has_taken = false;
	if (tracker_reference(SPACE_HANDLE, handle, -1, &references) && !references)
		block_take(call, SPACE_HANDLE, handle);
}

/* The end of a handle's block, and of all that a multicast object holds. */
static void end_taken(struct call *call)
{
	uint64_t handle = call->taken.address;

	block_write_end(call, &call->taken, STREAM_NONE, 0);
	hook_hold_end(call, handle, NULL);
}

void hook_vmm_drop(struct call *call, uint64_t handle)
{
	drop_reference(call, handle);
	if (call->has_taken)
		end_taken(call);
}

void hook_vmm_release_before(struct call *call, uint64_t handle)
{
	drop_reference(call, handle);
}

static void put_reference_back(struct call *call, uint64_t handle)
{
	uint32_t references;

	if (call->has_taken) {
		call->taken.references = 1;
		tracker_add(&call->taken);
	} else {
		tracker_reference(SPACE_HANDLE, handle, 1, &references);
	}
}

/* While mappings or other references live on, a release is an operation, not an end. */
void hook_vmm_release_after(struct call *call, uint64_t handle)
{
	bool has_ended = call->has_taken;

	if (call->result != CUDA_SUCCESS)
		put_reference_back(call, handle);
	if (!has_ended)
		hook_operation(call, handle, 0, 0, STREAM_NONE);
	else if (call->result != CUDA_SUCCESS)
		block_write_end(call, &call->taken, STREAM_NONE, 0);
	else
		end_taken(call);
}

void hook_vmm_map(struct call *call, uint64_t address, uint64_t bytes, uint64_t handle)
{
	struct block owner = { .device = -1 };
	uint32_t references;

	if (call->result == CUDA_SUCCESS && tracker_reference(SPACE_HANDLE, handle, 1, &references))
		tracker_find(SPACE_HANDLE, handle, &owner);
	block_begin(call, &(struct block_facts){
				  .kind = owner.kind == BLOCK_PINNED ? BLOCK_PINNED : BLOCK_VMM,
				  .address = address,
				  .bytes = bytes,
				  .stream = owner.id,
				  .parent = handle,
				  .device = owner.device,
				  .flags = RECORD_VIEW,
			  });
}

/* The end of a mapping, and with it maybe of the handle whose last reference it was. */
static void end_mapping(struct call *call, const struct block *view)
{
	block_write_end(call, view, STREAM_NONE, 0);
	hook_vmm_drop(call, view->parent);
}

/*
 * One call may unmap several whole mappings that lie side by side.  The range
 * stays reserved, so nobody else can have been given it meanwhile.
 */
void hook_vmm_unmap(struct call *call, uint64_t address, uint64_t bytes)
{
	uint64_t end = address + bytes;
	struct block view;

	if (call->result != CUDA_SUCCESS || !tracker_take(SPACE_ADDRESS, address, &view)) {
		hook_operation(call, address, 0, bytes, STREAM_NONE);
		return;
	}
	do {
		end_mapping(call, &view);
		address += view.bytes;
	} while (view.bytes && address < end && tracker_take(SPACE_ADDRESS, address, &view));
}

/* A file descriptor or fabric handle keeps the memory alive elsewhere. */
void hook_vmm_export(struct call *call, uint64_t handle)
{
	struct block block = { .id = 0 };

	tracker_find(SPACE_HANDLE, handle, &block);
	call_write(call, &(struct call_facts){
				 .kind = RECORD_OPERATION,
				 .a = handle,
				 .b = block.id,
				 .context = current_number(),
				 .flags = call->result == CUDA_SUCCESS ? RECORD_EXPORTED : 0,
			 });
}
