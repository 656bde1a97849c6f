/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_list.h - the pools whose memory lies on a device and is this process's.
 *
 * What a pool has reserved the device has given away, whoever uses it.  A pool
 * that was imported is another process's; one of host or of managed memory takes
 * nothing from a device for good.
 */
#ifndef CUSTODY_INTERCEPT_POOL_LIST_H
#define CUSTODY_INTERCEPT_POOL_LIST_H

#include "intercept/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* A pool that the program has made, or that was handed to it. */
void pool_list_add(uint64_t pool, int device);

/*
 * The program destroys a pool: from the return on nobody of ours asks it.  True:
 * it was listed, on `*device`; if the driver refuses it is added again.
 */
bool pool_list_remove(uint64_t pool, int *device);

/*
 * A pool that has blocks can be destroyed and holds memory until they are freed.  Ask
 * before, inside the gate; from the second on readings of the device allow for that.
 */
bool pool_list_has_blocks(uint64_t pool);
void pool_list_outlived(int device);

/*
 * Bytes reserved by the pools on a device, its default one among them; where blocks
 * outlived a pool READING_CACHED and what is in no block.
 * READING_UNKNOWN where that cannot be told.  Inside the gate: one question to a
 * pool spoils a capture.
 */
uint64_t pool_list_reserved(CUdevice device);

/*
 * What a listed pool has reserved and not handed out; false: that cannot be told.
 * Give back what the pools on a device have so.  Inside the gate, both.
 */
bool pool_list_cached(uint64_t pool, uint64_t *bytes);
void pool_list_trim(CUdevice device);

/* Child of fork. */
void pool_list_reset(void);

#endif
