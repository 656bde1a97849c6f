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

enum { CALLER_PAGE_BITS = 12, CALLER_EPOCH_BITS = 16, CALLER_SETS = 128, CALLER_SHIFT = 57 };

/*
 * Pages of code that have been looked at, each with the epoch in which it was.
 * Two ways: calls of two libraries that alternate must not push each other out.
 */
struct caller_pages {
	uint64_t page[CALLER_SETS][2];
};

extern __thread struct caller_pages caller_pages __attribute__((tls_model("initial-exec")));

/* Rises when a library has been unloaded: what stood at an address may be another now. */
extern _Atomic uint64_t caller_epoch;

static inline uint64_t *caller_set(uint64_t page)
{
	return caller_pages.page[page * UINT64_C(0x9e3779b97f4a7c15) >> CALLER_SHIFT];
}

/* A page not looked at: record the modules loaded since the last look. */
void caller_scan(const void *caller);

static inline void caller_note(const void *caller)
{
	uint64_t page = (uintptr_t)caller >> CALLER_PAGE_BITS;
	uint64_t epoch = atomic_load_explicit(&caller_epoch, memory_order_relaxed);
	uint64_t entry = page << CALLER_EPOCH_BITS | (uint16_t)epoch;
	const uint64_t *set = caller_set(page);

	if (__builtin_expect(set[0] != entry && set[1] != entry, 0))
		caller_scan(caller);
}

/* Libraries may have come and gone; called where entry points are looked up. */
void caller_notice_unloads(void);

/* Child of fork: its trace has no modules yet. */
void caller_reset(void);

#endif
