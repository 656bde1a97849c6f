/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caller.h - which files the program's calls come from.  Records carry the
 * return address; a RECORD_MODULE for every file mapped into the program lets
 * the report name it.
 */
#ifndef CUSTODY_INTERCEPT_CALLER_H
#define CUSTODY_INTERCEPT_CALLER_H

#include <stdatomic.h>
#include <stdint.h>

enum { CALLER_PAGE_BITS = 12, CALLER_EPOCH_BITS = 16, CALLER_SETS = 1024, CALLER_SHIFT = 54 };

/*
 * Pages of code that have been looked at, by whatever thread, each with the epoch in
 * which it was.  Two ways: calls of two libraries that alternate must not push each
 * other out.  Written only when something new is called from.
 */
extern _Atomic uint64_t caller_pages[CALLER_SETS][2];

/* Rises when a library has been unloaded: what stood at an address may be another now. */
extern _Atomic uint64_t caller_epoch;

static inline _Atomic uint64_t *caller_set(uint64_t page)
{
	return caller_pages[page * UINT64_C(0x9e3779b97f4a7c15) >> CALLER_SHIFT];
}

/* A page not looked at: record the modules loaded since the last look. */
void caller_scan(const void *caller);

static inline void caller_note(const void *caller)
{
	uint64_t page = (uintptr_t)caller >> CALLER_PAGE_BITS;
	uint64_t epoch = atomic_load_explicit(&caller_epoch, memory_order_relaxed);
	uint64_t entry = page << CALLER_EPOCH_BITS | (uint16_t)epoch;
	_Atomic uint64_t *set = caller_set(page);

	if (__builtin_expect(atomic_load_explicit(&set[0], memory_order_relaxed) != entry &&
				     atomic_load_explicit(&set[1], memory_order_relaxed) != entry,
			     0))
		caller_scan(caller);
}

/* Libraries may have come and gone; called where entry points are looked up. */
void caller_notice_unloads(void);

/* Child of fork: its trace has no modules yet. */
void caller_reset(void);

#endif
