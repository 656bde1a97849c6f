/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - the control file: what a process says of itself before it records.
 */
#ifndef CUSTODY_CORE_CONTROL_H
#define CUSTODY_CORE_CONTROL_H

#include "core/record.h"

/* What the process knows and /proc does not. */
struct control_facts {
	uint32_t exec_serial;
	uint32_t apis;
	uint32_t notes; /* enum control_note */
	const char *policy;
	char parent[CONTROL_TEXT_BYTES];
};

/*
 * Make "control" in `directory`, complete from the moment it has that name, and
 * map it.  The mapping is the caller's; NULL with errno.
 */
struct trace_control *control_create(const char *directory, const struct control_facts *facts);

#endif
