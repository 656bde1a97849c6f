/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exclude.h - contexts whose frees are never put off.
 *
 * An event sees the work of one context, and of others the copies that name its
 * memory (measured on two H200: also from the other device, whatever the kind of
 * copy).  Kernels and fills of others reach its memory with peer access; to a
 * green context it is memory like its own.  There a free must wait for more than
 * the event tells, and only the driver's own does.  A memory checker wants to
 * see each free where the program made it.
 */
#ifndef CUSTODY_INTERCEPT_EXCLUDE_H
#define CUSTODY_INTERCEPT_EXCLUDE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether frees in the context of this number (core/context.h) go to the driver at once. */
bool exclude_has(uint32_t context);

/* From now on, for good.  What is pending there is released as ever. */
void exclude_context(uint32_t context);
void exclude_device(int device);

/* Child of fork: its contexts are others. */
void exclude_reset(void);

#endif
