/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uncovered.h - driver functions that the program was handed without a wrapper:
 * the holes in what a trace can show.
 */
#ifndef CUSTODY_INTERCEPT_UNCOVERED_H
#define CUSTODY_INTERCEPT_UNCOVERED_H

#include <stdbool.h>
#include <stdatomic.h>
#include <stdint.h>

/* Whether the driver's functions are called so; NULL is no name. */
static inline bool uncovered_is_driver_name(const char *name)
{
	return name && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

/*
 * Remember a symbol, once; it is written with the next recorded call, because a
 * look-up alone must leave no trace.  Any thread, no lock, no allocation.
 */
void uncovered_note(const void *address, const char *name, int version, uint64_t flags);

extern _Atomic uint32_t uncovered_noted;
extern _Atomic uint32_t uncovered_written;

static inline bool uncovered_is_pending(void)
{
	return atomic_load_explicit(&uncovered_noted, memory_order_relaxed) !=
	       atomic_load_explicit(&uncovered_written, memory_order_relaxed);
}

/* The next pending note, which is the caller's to write; false: there is none. */
struct uncovered {
	uint64_t address;
	int version;
	uint64_t flags;
	const char *name;
};
bool uncovered_next(struct uncovered *uncovered);

/* Child of fork: its own trace is to name them too. */
void uncovered_rewind(void);

#endif
