/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doors.h - the three ways by which a program gets hold of the driver: linked
 * symbols (the exports of this library), dlsym and dlvsym, cuGetProcAddress.
 *
 * A look-up is always made for real first.  What it answers is then compared,
 * as an address, with the real functions behind our wrappers, so no rule of the
 * driver about versions, flags or missing names is repeated here.
 */
#ifndef CUSTODY_INTERCEPT_DOORS_H
#define CUSTODY_INTERCEPT_DOORS_H

#include "intercept/cuda_abi.h"

/* In two registers on both CPUs: whether we answer at all, and what. */
struct door_answer {
	uintptr_t is_answered; /* 0: jump to the real function, the caller's frame untouched */
	void *address;
};

/* Called by the stubs in dlsym_<cpu>.S for names that begin with "cu". */
struct door_answer doors_dlsym(void *handle, const char *name, const void *caller);
struct door_answer doors_dlvsym(void *handle, const char *name, const char *version,
				const void *caller);

/*
 * What `caller` would have bound to `name`, which we export, without us; NULL:
 * nothing.
 */
void *doors_behind(const char *name, const void *caller);

/* Behind the real cuGetProcAddress: swap `*function` if it is one of those we stand before. */
void doors_replace_entry(CUresult result, const char *name, void **function, int version,
			 uint64_t flags);

#endif
