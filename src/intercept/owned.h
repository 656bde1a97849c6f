/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned.h - blocks that no call of their own ends: variables of a module, what a
 * graphics resource is mapped to.  They end with the handle they belong to.
 */
#ifndef CUSTODY_INTERCEPT_OWNED_H
#define CUSTODY_INTERCEPT_OWNED_H

#include "core/tracker.h"

/* The block `id` at `address` belongs to this handle; beyond some thousands it is forgotten. */
void owned_add(uint64_t owner, uint64_t address, uint64_t id);

/* Ahead of the driver, which may hand the addresses out again at once: out of the tracker. */
void owned_take(uint64_t owner);

/* The driver has refused: back into it. */
void owned_put_back(uint64_t owner);

/* The driver has ended the owner: the next block that was taken out; false: that was all. */
bool owned_next(uint64_t owner, struct block *block);

/* Child of fork. */
void owned_reset(void);

#endif
