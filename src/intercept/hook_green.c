/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts.  The end of one takes its streams with it, and no memory.
 */
#include "core/context.h"
#include "intercept/current.h"
#include "intercept/exclude.h"
#include "intercept/green.h"
#include "intercept/hook.h"
#include "intercept/place.h"

/* To a green context the memory of the device is like its own: frees wait for no event of ours. */
void hook_green_create(struct call *call, uint64_t handle, uint64_t resources, CUdevice device)
{
	hook_operation(call, handle, resources, 0, STREAM_NONE);
	if (call->result != CUDA_SUCCESS)
		return;
	exclude_device(device);
	if (handle)
		green_add(handle, device);
}

/* Asked again, the view is the same. */
void hook_green_view(struct call *call, uint64_t view, uint64_t handle)
{
	struct green green;

	(void)call;
	if (view && green_find(handle, &green) && green.view != view)
		green_set_view(handle, view, current_meet_green(view, green.device));
}

/* It works in its green context, whatever is current. */
void hook_green_stream(struct call *call, uint64_t stream, uint64_t handle)
{
	struct green green = { .device = PLACE_NOT_KNOWN };
	struct context primary = { .number = 0 };

	if (green_find(handle, &green) && !green.number)
		context_find_primary(green.device, &primary);
	if (stream)
		place_note_stream(stream, green.device);
	call_write(call, &(struct call_facts){
				 .kind = RECORD_OPERATION,
				 .a = stream,
				 .b = handle,
				 .context = green.number ? green.number : primary.number,
			 });
}

static void end_view(struct call *call, const struct green *green, enum release_cause cause)
{
	struct context context;

	if (!green->number || !context_find(green->view, &context) ||
	    context.number != green->number)
		return;
	call_write(call, &(struct call_facts){
				 .kind = RECORD_CONTEXT_END,
				 .a = green->view,
				 .context = green->number,
				 .aux = (uint16_t)cause,
			 });
	current_bury_green(green->view);
}

/* Looked up ahead of the driver, which may hand the handle out again at once. */
void hook_green_destroy_before(struct call *call, uint64_t handle)
{
	struct green green;

	call->named = green_find(handle, &green) ? green.view : 0;
}

void hook_green_destroy_after(struct call *call, uint64_t handle)
{
	struct green green;

	hook_operation(call, handle, 0, 0, STREAM_NONE);
	if (call->result == CUDA_SUCCESS && green_find(handle, &green) &&
	    green.view == call->named && green_remove(handle, &green))
		end_view(call, &green, RELEASE_CONTEXT);
}

void hook_green_end_device(struct call *call, int device)
{
	struct green green;

	while (green_remove_one(device, &green))
		end_view(call, &green, RELEASE_RESET);
}
