/* SPDX-License-Identifier: Apache-2.0 */
/*
 * real.h - the functions behind the wrappers.
 *
 * Two tables, indexed by enum api: `driver` holds libcuda's own functions,
 * `next` what the loader would have called without us - a neighbour's wrapper
 * where another preloaded library has one, else libcuda's.  The program's calls
 * go to next, calls made from inside such a call go to driver, so that two
 * interposers never call each other in a ring.
 */
#ifndef CUSTODY_INTERCEPT_REAL_H
#define CUSTODY_INTERCEPT_REAL_H

#include "intercept/driver_table.h"

#include <stdbool.h>

/* A function of a table, typed: REAL(driver, cuCtxGetCurrent)(&context). */
#define REAL(table, name) \
	((__typeof__(((struct api_type *)0)->name))real_function(real_##table, API_##name))

extern void *real_driver[API_COUNT];
extern void *real_next[API_COUNT];

/* Where `table` has no function yet: find libcuda; a function that says NOT_FOUND if that fails. */
void *real_late(void *const *table, enum api api);

static inline void *real_function(void *const *table, enum api api)
{
	void *function = __atomic_load_n(&table[api], __ATOMIC_RELAXED);

	return __builtin_expect(function != NULL, 1) ? function : real_late(table, api);
}

/* Whether the driver in use has this function; an auxiliary query asks first. */
bool real_has(enum api api);

/* The row whose real function is at `address`, or -1. */
int real_find(const void *address);

/*
 * Bind to the libcuda that covers `address`, if one does and we are not bound
 * to it: the one the program uses is the one that counts.  True: bound anew.
 */
bool real_bind_at(const void *address);

/*
 * Bind to the libcuda that is loaded, loading it if there is none; it stays from now
 * on.  False: there is none, and dlerror() says why.
 */
bool real_open(void);

/* A function of the libcuda we are bound to that is in no row; NULL: it has none. */
void *real_symbol(const char *name);

/* Whether `address` lies in the libcuda we are bound to, or in this library. */
bool real_is_driver(const void *address);
bool real_is_ours(const void *address);

/*
 * libc's own, found without asking any dlsym.  The stubs in dlsym_<cpu>.S jump
 * through these; real_find_libc() fills them on first use.
 */
extern void *(*real_dlsym)(void *handle, const char *name);
extern void *(*real_dlvsym)(void *handle, const char *name, const char *version);
void real_find_libc(void);

/* For ourselves: no neighbour need see what only we look into.  After real_find_libc(). */
extern void *(*real_libc_dlopen)(const char *file, int flags);

/*
 * The next dlopen behind this library: a neighbour's, who wants to see what is
 * opened, else libc's.  The mask takes RTLD_DEEPBIND out of the flags, if that was
 * asked for (CUSTODY_DEEPBIND): a library opened with it, and linked with libcuda,
 * calls past us.  dlmopen is left alone: what is opened in another namespace has
 * a libcuda of its own, which nothing in this one stands in front of.
 */
extern void *(*real_dlopen)(const char *file, int flags);
extern uint32_t real_dlopen_mask;
void real_find_dlopen(void);

#endif
