/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/profile.h - which part of a program a profiler shall look at.  Any thread; it is
 * the current context's profiler, or that of custody_context_current(-1).
 */
#ifndef CUSTODY_PROFILE_H
#define CUSTODY_PROFILE_H

#include <custody/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Documented: cuda.profile_start(), cuda.profile_stop(). */
CUSTODY_API int custody_profile_start(void);
CUSTODY_API int custody_profile_stop(void);

/* Run `body` between the two, and stop also where it fails.  Documented: cuda.profiling(). */
CUSTODY_API int custody_profile_call(int (*body)(void *argument), void *argument);

/* Stop at the end of a block: int p CUSTODY_AUTO_PROFILE = custody_profile_start(); */
#define CUSTODY_AUTO_PROFILE __attribute__((cleanup(custody_profile_leave)))
CUSTODY_API void custody_profile_leave(int *result);

#ifdef __cplusplus
}
#endif
#endif
