/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferral_error.h - the last releases that the driver has refused, for whoever asks.
 */
#ifndef CUSTODY_INTERCEPT_DEFERRAL_ERROR_H
#define CUSTODY_INTERCEPT_DEFERRAL_ERROR_H

#include "intercept/cuda_abi.h" /* ahead of core's own view of cuda.h */

#include "core/engine.h"

/* How many are kept. */
enum { DEFERRAL_ERRORS = 64 };

/* An item with a result; dropped where there is no room. */
void deferral_error_note(const struct deferq_item *item);

/* Take out the oldest; `*dropped`, which may be NULL, as struct engine says. */
size_t deferral_error_take(struct engine_error *errors, size_t most, uint64_t *dropped);

/* Child of fork. */
void deferral_error_reset(void);

#endif
