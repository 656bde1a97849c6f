/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - the interposer's frame as a table of functions: how the library
 * (src/library) reaches the driver and the deferred-free queues.
 *
 * libcustody.so holds the wrappers, hooks and queues of the interposer for itself,
 * under the policy `nowait`.  Where the preload is in the process too there must be
 * one of each only, so the preload exports custody_engine(), and the library works
 * through what that returns: recorded once, deferred once.  Frees of the library are
 * put off then, whatever the preload's own policy is for the rest of the program.
 *
 * Every function may be called from any thread, preserves errno, and does nothing in
 * a child of fork that has not made a call itself.
 */
#ifndef CUSTODY_CORE_ENGINE_H
#define CUSTODY_CORE_ENGINE_H

#include "core/deferq.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ENGINE_VERSION = 1 };

/* A release that failed, for custody_defer_errors(). */
struct engine_error {
	uint64_t handle;
	uint64_t bytes;
	const void *caller;
	uint32_t context;
	int16_t device; /* of the context, also of one that has ended */
	uint16_t result;
	uint8_t kind; /* enum deferq_kind */
};

struct engine_limits {
	int64_t max_count;
	double max_ratio;
	bool is_strict;
};

enum engine_leave { ENGINE_LEAVE_IF_OVER, ENGINE_LEAVE_ALONE, ENGINE_LEAVE_FLUSH };

struct engine {
	uint32_t version; /* ENGINE_VERSION */
	bool is_preload;

	/*
	 * Find libcuda.so.1, loading it if it is not there yet.  False, with one sentence
	 * in `why`: there is none.  May be called again.
	 */
	bool (*open)(char *why, size_t bytes);

	/*
	 * The wrapper of a driver's function by its exact symbol; of one that is not in
	 * driver.tbl, the driver's own.  NULL: this driver does not have it.  After open().
	 */
	void *(*find)(const char *symbol);

	/*
	 * Record this process into `path` (NULL: as the options say).  0; EBUSY: a call has
	 * been made and it is not recorded; EPERM: the program has gained rights, or a
	 * preload of another version is there; ENAMETOOLONG.  Of the preload: 0.
	 */
	int (*record)(const char *path);
	bool (*is_recording)(void);

	/* Changes in a child of fork; 0 there until it makes a call itself. */
	uint64_t (*generation)(void);

	/*
	 * From now on, or no longer, what this thread frees is the library's: put off
	 * under any policy, without a wait; and cuMemGetInfo's answer is the driver's,
	 * without what is pending.  Pairs do not nest.
	 */
	void (*mark)(bool is_library);

	/*
	 * From now on calls of this thread are told as if they came from there; NULL: from
	 * where they come.  Returns what it was.
	 */
	const void *(*from)(const void *caller);

	/*
	 * The number of a living context, its queue opened; 0: it is not alive.
	 * It is never used again, other than the handle.
	 */
	uint32_t (*meet)(CUcontext handle, int device, bool is_primary);

	/* Whether this one is not known to have died.  No driver call. */
	bool (*is_alive)(uint32_t context);

	/*
	 * The number ends.  The context has died past the wrappers: no driver call; or it
	 * lives and is let go, flushed before: what the queue has made in it is destroyed.
	 * It may be met again then, by another number.  The preload sees what the program
	 * does to its contexts, and goes on with one that is let go.
	 */
	void (*bury)(uint32_t context);
	void (*part)(uint32_t context);

	/*
	 * Put a stream or an event into the queue of objects.  False: the caller destroys
	 * it himself.
	 */
	bool (*retire)(uint32_t context, enum deferq_kind kind, uint64_t handle,
		       const void *caller);

	void (*suspend)(uint32_t context);
	bool (*resume)(uint32_t context, enum engine_leave leave); /* false: no scope is open */

	/*
	 * Release what can be; `*result` is that of the first release that failed.  False:
	 * a capture is live and nothing was done.
	 */
	bool (*flush)(uint32_t context, bool does_wait, CUresult *result);

	bool (*statistics)(uint32_t context, struct deferq_statistics *statistics);
	uint64_t (*ticks_to_ns)(uint64_t ticks);

	void (*limits)(struct engine_limits *limits);
	void (*set_limits)(const struct engine_limits *limits);

	/* Take the oldest out; `*dropped` is how many found no room since the last time. */
	size_t (*errors)(struct engine_error *errors, size_t most, uint64_t *dropped);

	/* Whether a capture is known to be live; and the gate around one that is not ours. */
	bool (*is_capturing)(void);
	void (*capture_begin)(void);
	void (*capture_end)(void);

	/*
	 * How the calls of this thread bear on captures, from now on; what it was before.
	 * Not a call of the program's, so not recorded.  What was given, if the driver
	 * knows no modes.
	 */
	CUstreamCaptureMode (*exchange_mode)(CUstreamCaptureMode mode);
};

/* What the preload exports; NULL for a version that it does not have. */
__attribute__((visibility("default"))) const struct engine *custody_engine(uint32_t version);

#endif
