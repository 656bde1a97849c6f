/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cover.h - what the cover_*.c share: CUDA started, and the exact symbols.
 *
 * They are compiled with __CUDA_API_VERSION_INTERNAL, so cuda.h renames nothing
 * and declares the old forms and the per-thread twins: a name is the symbol.
 */
#ifndef CUSTODY_TESTS_E2E_COVER_H
#define CUSTODY_TESTS_E2E_COVER_H

#include "journal.h"

/* cuInit, the primary context of `device` retained and current; noted. */
CUcontext cover_start(CUdevice device);

/* cuCtxSetCurrent, noted. */
void cover_set_current(CUcontext context);

/* A plain block, noted; `ordinal` may be NULL. */
CUdeviceptr cover_alloc(size_t bytes, unsigned *ordinal);

void cover_free(CUdeviceptr address, unsigned ordinal);

/* "legacy", or "per-thread" where the symbol is a twin. */
const char *cover_default_stream(const char *api);

/* Ends the client in good order: blocks that live on, totals. */
void cover_end(void);

#endif
