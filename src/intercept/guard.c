/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/guard.h"

uint64_t guard_swap_pending(uint64_t address)
{
	struct block block;

	return pending_find(SPACE_ADDRESS, address, &block) ? GUARD_NOBODY : address;
}

CUresult guard_end(struct call *call)
{
	deferral_write_finding(call, (enum finding_kind)call->finding, call->named, call->taken.id,
			       call->taken.bytes);
	return call_end(call);
}
