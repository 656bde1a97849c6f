/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/trace.h - recording what a linked program does, as `custody record` does for
 * programs that are not linked with libcustody.
 *
 * Every driver call of libcustody is recorded: allocations, frees, copies, fills,
 * streams, events.  Calls that the program makes to the driver itself are not,
 * unless it takes the functions from custody_driver_function() or runs under `custody
 * record`; where it does, libcustody uses that recording, and nothing stands in it twice.
 */
#ifndef CUSTODY_TRACE_H
#define CUSTODY_TRACE_H

#include <custody/error.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Record this process from now on into a file of SQLite at `path` (which knows %p, %h,
 * %e and %q{VAR}; NULL: CUSTODY_OUTPUT, else custody.%e.%p.db).  To be called ahead of
 * any function that needs the driver, else CUSTODY_E_BUSY; setting CUSTODY_OUTPUT does
 * the same without a call.  CUSTODY_E_SYSTEM: a program with the rights of another user,
 * or beside a preload of another version, is not recorded.  A file that is there is never
 * overwritten: the next free name (.2, .3) is taken.  Where the process is recorded already, by `custody record`
 * or a preload, that recording goes on and this returns 0.
 */
CUSTODY_API int custody_trace_start(const char *path);

/* Whether this process is being recorded. */
CUSTODY_API bool custody_trace_is_on(void);

/*
 * A function of the driver by its exact symbol ("cuMemAlloc_v2") whose calls are
 * recorded, and whose frees are put off, as libcustody's own are (under `custody record`:
 * as its --frees says); NULL: the driver does not have it, or there is none.  Loads the
 * driver, but leaves cuInit() to others.  Cast it to the type that cuda.h declares.
 */
CUSTODY_API void *custody_driver_function(const char *symbol);

#ifdef __cplusplus
}
#endif
#endif
