/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - this process image in a session: set up at its first recorded
 * call, and again at the first one in a child of fork.
 */
#ifndef CUSTODY_CORE_PROCESS_H
#define CUSTODY_CORE_PROCESS_H

#include "core/record.h"

#include <stdbool.h>

/*
 * Set the process up if it is not; true if this call did.  Takes a lock that a
 * child of fork never inherits held.
 */
bool process_enter(void);

/* In a child of fork whose generation page could not be wiped: notice it by its pid. */
void process_recheck(void);

/* NULL: nothing is recorded, by choice or for want of a place. */
struct trace_control *process_control(void);

/* See segment_directory() and segment_set_policy(). */
const char *process_directory(void);
void process_set_policy(const char *policy);
void process_set_apis(uint32_t apis);

#endif
