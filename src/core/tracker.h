/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracker.h - what is allocated now: address or handle -> block.
 *
 * Sharded; every function may be called from any thread and holds at most one
 * lock at a time, never across a driver call.  Memory comes from the tracker's
 * own mapped slabs, never from malloc: the program's allocator may be the one
 * that is calling us.  Ids are unique in the process and never reused.
 */
#ifndef CUSTODY_CORE_TRACKER_H
#define CUSTODY_CORE_TRACKER_H

#include "core/record.h"

#include <stdbool.h>
#include <stdint.h>

/* Handles are pointers of the driver's own and may lie inside a registered host range. */
enum block_space {
	SPACE_ADDRESS, /* device and host addresses; ranges, interior look-up */
	SPACE_ARRAY,   /* CUarray, CUmipmappedArray: exact */
	SPACE_HANDLE,  /* CUmemGenericAllocationHandle: exact */
	SPACE_COUNT
};

struct block {
	uint64_t id;
	uint64_t address; /* or handle */
	uint64_t bytes;
	uint64_t parent;  /* handle of the block that owns the bytes, 0: itself */
	uint32_t context; /* number from context.h, 0: outlives contexts */
	uint16_t references; /* VMM: handles held + mappings; others 1 */
	int16_t device;	     /* ordinal, -1: none or unknown */
	uint8_t kind;	     /* enum block_kind */
	uint8_t space;	     /* enum block_space */
	uint8_t is_exported;
	uint8_t is_pending;  /* freed by the program, not yet released */
};

/* A fresh id, from 1. */
uint64_t tracker_next_id(void);

/*
 * Enter a block after the driver has handed it out.  Entries of the same space
 * that it overlaps are stale and leave.  Returns 0, or -1 where no memory could
 * be had for the entry (the program goes on; its free will be untracked).
 * Where tracker_displaced has changed a pending entry may have been among them.
 */
extern _Atomic uint32_t tracker_displaced;
int tracker_add(const struct block *block);

/*
 * Take out the block that begins at `address`; call before the driver frees it.
 * False: not ours, or pending.  tracker_add() puts it back if the driver refused.
 */
bool tracker_take(enum block_space space, uint64_t address, struct block *block);

/*
 * The program has freed the block that begins at `address` and has this id, its
 * release is put off: the entry stays and is marked.  False: it is not there, or
 * somebody has freed it already.  tracker_unmark_pending() takes that back.
 */
bool tracker_mark_pending(enum block_space space, uint64_t address, uint64_t id);
void tracker_unmark_pending(enum block_space space, uint64_t address, uint64_t id);

/* Take out the pending block with this id; false: it has left already. */
bool tracker_remove_pending(enum block_space space, uint64_t address, uint64_t id);

/* Copy the block that covers `address` (SPACE_ADDRESS) or is that handle. */
bool tracker_find(enum block_space space, uint64_t address, struct block *block);

/* Mark the block at this base as exported; false: not ours. */
bool tracker_mark_exported(uint64_t address);

/*
 * Change the reference count of a handle by `by`; the new count goes to
 * `*references`.  False: not ours.
 */
bool tracker_reference(enum block_space space, uint64_t address, int by, uint32_t *references);

/* Drop every block of a context that has died. */
void tracker_drop_context(uint32_t context);

/* Drop everything; child of fork. */
void tracker_reset(void);

uint64_t tracker_count(void);

/* How many linear blocks and arrays have ever been entered, and have left again. */
struct tracker_traffic {
	uint64_t come, gone;
};

void tracker_count_traffic(struct tracker_traffic *traffic);

/* Show every block once; `see` runs under a lock, and what changes meanwhile may be missed. */
void tracker_walk(void (*see)(const struct block *block, void *argument), void *argument);

/* Show blocks until `is_it` says so of one: whether there is such a block. */
bool tracker_any(bool (*is_it)(const struct block *block, void *argument), void *argument);

/* Walk everything and say whether it is consistent; for tests and debug builds. */
bool tracker_check(void);

#endif
