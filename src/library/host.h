/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - private to src/library: which host memory libcustody has registered, and the
 * scopes that hold the registrations.
 */
#ifndef CUSTODY_LIBRARY_HOST_H
#define CUSTODY_LIBRARY_HOST_H

#include "library/library.h"

#include <custody/host.h>

struct host_range {
	char *pointer;
	size_t bytes;
	const struct custody_context *context;
	bool is_registered;
	bool is_used_elsewhere; /* by copies of other contexts; under host.c's lock */
};

/* What a pin and a map begin with. */
struct host_scope {
	struct library_object object;
	size_t count;
	struct host_range *ranges;
	bool has_ended; /* with its context */
};

/*
 * A copy of `context` is about to be given host memory: whoever ends its registration
 * waits for that context too.  Cheap where nothing is registered; any thread.
 */
void host_use(const void *pointer, size_t bytes, const struct custody_context *context);

/*
 * Register the ranges, all or none, in a context that is entered here and left again.
 * host_forget() follows in any case, at some time.
 */
int host_begin(struct host_scope *scope, struct custody_context *context,
	       const struct custody_range *ranges, size_t count, unsigned int flags,
	       bool is_mapped);

/*
 * Wait for whoever uses the ranges, call `release` (may be NULL), then undo the
 * registrations, latest first.  `*is_kept`: it cannot be done now, and nothing was.
 */
int host_end(struct host_scope *scope, void (*release)(struct host_scope *scope), bool *is_kept);

/* Undo what host_begin() has done and nobody has seen; also during a capture. */
void host_abandon(struct host_scope *scope);

/* Give back the scope's host memory, though not the scope; the driver is not asked. */
void host_forget(struct host_scope *scope);

#endif
