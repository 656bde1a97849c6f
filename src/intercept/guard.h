/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h - blocks that the program has freed and the driver still has.
 *
 * To the program they are gone.  A question about one is asked about an address
 * that nobody has, so that the driver itself answers as after a free; a copy or
 * a fill that names one is refused as the driver would.  As long as no block is
 * pending, either costs one load.
 */
#ifndef CUSTODY_INTERCEPT_GUARD_H
#define CUSTODY_INTERCEPT_GUARD_H

#include "intercept/deferral.h"
#include "intercept/module.h"

/*
 * In the first page, which no program can have.  Measured on an H200: thirty
 * questions about it were answered as about a freed block, whatever its kind.
 */
#define GUARD_NOBODY UINT64_C(0x100)

static inline bool guard_is_needed(void)
{
	return __builtin_expect(atomic_load_explicit(&pending_total, memory_order_relaxed) != 0, 0);
}

/* What the driver is to be asked about: a call's argument, whatever its type. */
#define guard_swap(name) ((__typeof__(name))(uintptr_t)GUARD_BY(name)((uint64_t)(uintptr_t)(name)))

/* A handle of a module, or else an address. */
#define GUARD_BY(name) _Generic((name), CUmodule : guard_swap_module, default : guard_swap_address)

uint64_t guard_swap_pending(uint64_t address);

static inline uint64_t guard_swap_address(uint64_t address)
{
	return __builtin_expect(pending_is_possible(address), 0) ? guard_swap_pending(address) :
								   address;
}

/* No module at all is answered as one that is unloaded: INVALID_HANDLE. */
static inline uint64_t guard_swap_module(uint64_t module)
{
	return deferral_is_on() && module_is_pending(module) ? 0 : module;
}

/*
 * The end of a call that a guard has refused, behind its own record: a finding
 * tells which block was meant.
 */
CUresult guard_end(struct call *call);

#endif
