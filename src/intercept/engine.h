/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - what core/engine.h promises, in this copy of the frame.
 */
#ifndef CUSTODY_INTERCEPT_ENGINE_H
#define CUSTODY_INTERCEPT_ENGINE_H

#include "intercept/cuda_abi.h" /* ahead of core's own view of cuda.h */

#include "core/engine.h"

/* Child of fork: no capture is its own. */
void engine_reset(void);

#endif
