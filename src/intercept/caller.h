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

enum { CALLER_PAGE_BITS = 12, CALLER_EPOCH_BITS = 16, CALLER_PAGES = 64 };

/* Pages of code that have been looked at, each with the epoch in which it was. */
struct caller_pages {
	uint64_t page[CALLER_PAGES];
};

extern __thread struct caller_pages caller_pages __attribute__((tls_model("initial-exec")));

/* Rises when a library has been unloaded: what stood at an address may be another now. */
extern _Atomic uint64_t caller_epoch;

/* A page not looked at: record the modules loaded since the last look. */
void caller_scan(const void *caller);

static inline void caller_note(const void *caller)
{
	uint64_t page = (uintptr_t)caller >> CALLER_PAGE_BITS;
	uint64_t entry = page << CALLER_EPOCH_BITS |
			 (uint16_t)atomic_load_explicit(&caller_epoch, memory_order_relaxed);

	if (__builtin_expect(caller_pages.page[page % CALLER_PAGES] != entry, 0))
		caller_scan(caller);
}

/* Libraries may have come and gone; called where entry points are looked up. */
void caller_notice_unloads(void);

/* Child of fork: its trace has no modules yet. */
void caller_reset(void);

#endif
