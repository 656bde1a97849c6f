/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/doors.h"
#include "intercept/hook.h"

void hook_entry_lookup(struct call *call, const char *name, void **function, int version,
		       uint64_t flags)
{
	doors_replace_entry(call->result, name, function, version, flags);
	caller_notice_unloads();
	if (uncovered_is_pending())
		call_write_uncovered();
}
