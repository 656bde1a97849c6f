/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h - which context a module was loaded into, and whether its unload
 * waits in that context's queue.  A module is no block: no tracker knows it.
 */
#ifndef CUSTODY_INTERCEPT_MODULE_H
#define CUSTODY_INTERCEPT_MODULE_H

#include <stdbool.h>
#include <stdint.h>

/* The module at this handle was loaded into the context of this number. */
void module_note(uint64_t module, uint32_t context);

enum module_claim {
	MODULE_UNKNOWN, /* the driver must unload it */
	MODULE_CLAIMED, /* the caller puts it into the queue of *context ... */
	MODULE_PENDING, /* it is unloaded already, for the program */
};

/* The program unloads a module; pairs with module_settle() where it was claimed. */
enum module_claim module_unload(uint64_t module, uint32_t *context);

/* ... and says whether it went there; what the driver unloads is not known any more. */
void module_settle(uint64_t module, bool is_queued);

/* Whether its unload waits: to the program the handle is nobody's. */
bool module_is_pending(uint64_t module);

/* A context has died, and its modules with it. */
void module_drop_context(uint32_t context);

/* Child of fork. */
void module_reset(void);

#endif
