/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject.h - the entry that the driver calls when it starts, in the library that
 * CUDA_INJECTION64_PATH names.
 *
 * That library is libcustody-inject.so, which can be loaded late: it has no TLS
 * and stands in front of nothing.  Where the preload is, it calls the entry in
 * there; where it is not, it tells of it.  The entry in the preload has a name of
 * ours: a preload that had the driver's would take it away from other tools.
 */
#ifndef CUSTODY_INTERCEPT_INJECT_H
#define CUSTODY_INTERCEPT_INJECT_H

/* Anything but 1 counts as a failure. */
__attribute__((visibility("default"))) int InitializeInjection(void);

/* In the preload, found there by its name. */
__attribute__((visibility("default"))) int custody_injected(void);

/* In libcustody: whether it works without a preload, and what it does is recorded. */
__attribute__((visibility("default"))) int custody_linked(void);

#endif
