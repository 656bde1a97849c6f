/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.h - numbers for contexts.  A CUcontext handle is reused by the driver
 * (measured: the next primary context after a reset has the same handle), so
 * records and blocks carry a number that is never reused in a process.
 */
#ifndef CUSTODY_CORE_CONTEXT_H
#define CUSTODY_CORE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

struct context {
	uint64_t handle; /* CUcontext */
	uint32_t number; /* from 1; 0 stands for no or unknown context */
	int16_t device;	 /* ordinal, -1 unknown */
	uint8_t is_primary;
	uint8_t is_dead;
};

enum { CONTEXT_MAX = 65535 };

/* The living context with this handle; false: not seen yet.  Lock-free, any thread. */
bool context_find(uint64_t handle, struct context *context);

/*
 * Enter a context seen for the first time; returns its number.  Two threads that
 * race get the same number; `*is_new` tells the one that must record it.  One
 * that is known already is the device's primary one from now on if so said.
 * 0 when more than CONTEXT_MAX were made in one process.
 */
uint32_t context_add(uint64_t handle, int device, bool is_primary, bool *is_new);

/* The context is dead; returns its number, 0: never seen or dead already. */
uint32_t context_kill(uint64_t handle);

/* The context with this number, living or dead; false: that many were not seen. */
bool context_get(uint32_t number, struct context *context);

/* The device of a context, living or dead; -1: unknown. */
int context_device(uint32_t number);

/* The living primary context of a device, if seen. */
bool context_find_primary(int device, struct context *context);

/*
 * Whoever makes a context current that is not the program's choice just now is its
 * visitor: true, and it does not end before context_leave().  False: it is dead, or
 * a call that may end it is in flight.  Waits for nothing.
 */
bool context_visit(uint32_t number);
void context_leave(uint32_t number);

/*
 * Ahead of a call that may end the context: waits until its visitors have left, and
 * lets none in before context_spare(), which is for one that has not ended after all.
 * Number 0 is nobody.
 */
void context_close(uint32_t number);
void context_spare(uint32_t number);

/* Changes whenever a context dies: caches of the current context compare it. */
uint32_t context_epoch(void);

/* Child of fork: forget all. */
void context_reset(void);

#endif
