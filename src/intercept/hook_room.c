/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/hook_room.h"
#include "intercept/fail_nth.h"

_Atomic bool room_is_scarce;

void room_start(void)
{
	bool is_scarce = fail_nth_start();

	atomic_store_explicit(&room_is_scarce, is_scarce, memory_order_relaxed);
}

void room_reset(void)
{
	fail_nth_reset();
}

static bool refuse(struct call *call, enum failure_why why)
{
	call->refusal = (uint8_t)why;
	call_returned(call, CUDA_ERROR_OUT_OF_MEMORY);
	return false;
}

/* A call has one turn, however often it is tried. */
static bool has_turn(struct call *call)
{
	call->refusal = FAILURE_DRIVER;
	return call->attempts || !fail_nth_is_due() || refuse(call, FAILURE_NTH);
}

bool hook_room_elsewhere(struct call *call)
{
	return has_turn(call);
}

bool hook_room_node(struct call *call, const CUgraphNodeParams *node)
{
	return !node || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || has_turn(call);
}

void hook_room_leave(struct call *call)
{
	(void)call;
}
