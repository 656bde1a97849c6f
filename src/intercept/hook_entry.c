/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/doors.h"
#include "intercept/hook.h"

#include <stdio.h>

void hook_entry_lookup(struct call *call, const char *name, void **function, int version,
		       uint64_t flags)
{
	doors_replace_entry(call->result, name, function, version, flags);
	caller_notice_unloads();
	if (uncovered_is_pending())
		call_write_uncovered();
}

/* A private table's functions pass us by: all that can be told is which table it was. */
void hook_entry_table(struct call *call, const void *const *table, const CUuuid *id)
{
	const unsigned char *byte = (const unsigned char *)id->bytes;
	char name[64];

	if (call->result != CUDA_SUCCESS || !*table)
		return;
	snprintf(name, sizeof(name),
		 "table %02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 byte[0], byte[1], byte[2], byte[3], byte[4], byte[5], byte[6], byte[7], byte[8],
		 byte[9], byte[10], byte[11], byte[12], byte[13], byte[14], byte[15]);
	uncovered_note(*table, name, 0, 0);
	if (uncovered_is_pending())
		call_write_uncovered();
}
