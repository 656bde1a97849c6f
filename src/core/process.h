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

/*
 * This copy of the frame is libcustody's, not a preload: nothing is recorded unless
 * that is asked for, by CUSTODY_OUTPUT, by the session of a `custody record` in the
 * environment or by process_record(); never if it may not.  Nothing at all is for
 * the environment to say in a program that has gained rights.  Before the first call.
 */
void process_be_library(bool may_record);
bool process_is_library(void);

/*
 * Record this process, into `path` (NULL: as the options say) where it has no
 * session yet.  0, EBUSY (a call was made, and is not recorded), EPERM (it may not
 * be), ENAMETOOLONG.
 */
int process_record(const char *path);

/* Whether it is recorded, or will be from its first call on. */
bool process_is_recorded(void);

/* NULL: nothing is recorded, by choice or for want of a place. */
struct trace_control *process_control(void);

/* See segment_directory() and segment_set_policy(). */
const char *process_directory(void);
void process_set_policy(const char *policy);
void process_set_apis(uint32_t apis);

#endif
