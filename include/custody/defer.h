/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/defer.h - the deferred-free queues of a context.
 *
 * What is freed through libcustody is not destroyed at once but queued, per context:
 * memory in one queue (device, managed, pinned), objects in another (streams, events,
 * modules).  A pass over the queues releases what the device uses no more
 *
 *	when a queue holds more than max_count items (10; the eleventh starts a pass
 *	and goes with it),
 *	when its bytes exceed max_ratio of the memory they lie in (0.2; of the device,
 *	or of the machine for pinned memory, counted apart),
 *	when an allocation fails for lack of memory, which is then tried again,
 *	when the program asks for it.
 *
 * Beyond what is documented, a pass never waits for the device, but for
 * out-of-memory, twice the byte limit and a flush that is asked to; one that a free has
 * started leaves the rest to the next free once it has taken 50 microseconds; nothing is
 * released while its context may still use it, nor while a capture is live; and leaving
 * the outermost scope starts a pass if a limit is exceeded.
 * Registrations of host memory (custody/host.h) are never queued.  Any thread.
 */
#ifndef CUSTODY_DEFER_H
#define CUSTODY_DEFER_H

#include <custody/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What leaving the outermost scope does. */
enum custody_leave {
	CUSTODY_LEAVE_IF_OVER, /* a pass if a limit is exceeded */
	CUSTODY_LEAVE_ALONE,   /* nothing, to the letter of the document */
	CUSTODY_LEAVE_FLUSH    /* a pass in any case; it does not wait */
};

/*
 * Suspend passes in this context, on all threads, until the matching end.  Pairs
 * nest; an end without a begin is CUSTODY_E_INVALID, and so is one whose device was reset
 * since.  Documented: cuda.defer_cleanup().
 */
CUSTODY_API int custody_defer_begin(struct custody_context *context);
CUSTODY_API int custody_defer_end(struct custody_context *context, enum custody_leave leave);

/*
 * Release now what can be, in an open scope too.  `does_wait`: all of it, waiting for
 * the device where that is what it takes.  During a capture: CUSTODY_E_CAPTURING.
 * Returns the driver's error of the first release that failed, which ended the pass.
 */
CUSTODY_API int custody_flush(struct custody_context *context, bool does_wait);

struct custody_pending {
	size_t size; /* sizeof(struct custody_pending), set by the caller */
	uint64_t memory_count;
	uint64_t memory_bytes; /* pinned ones not among them */
	uint64_t pinned_bytes;
	uint64_t object_count;
	uint64_t issued_count; /* handed to the driver; back at the next synchronise */
	uint64_t issued_bytes;
};

CUSTODY_API int custody_pending(struct custody_context *context, struct custody_pending *pending);

/* Why a pass ran; the index of custody_defer_statistics.passes. */
enum custody_cause {
	CUSTODY_CAUSE_COUNT,
	CUSTODY_CAUSE_BYTES,
	CUSTODY_CAUSE_OUT_OF_MEMORY,
	CUSTODY_CAUSE_IDLE, /* the program has waited for the device anyway */
	CUSTODY_CAUSE_EXPLICIT,
	CUSTODY_CAUSE_SCOPE,
	CUSTODY_CAUSE_CONTEXT, /* the context was reset or destroyed */
	CUSTODY_CAUSES
};

struct custody_defer_statistics {
	size_t size; /* sizeof(struct custody_defer_statistics), set by the caller */
	uint64_t queued; /* items, ever */
	uint64_t released;
	uint64_t released_bytes;
	uint64_t failed;
	uint64_t deepest; /* most items that have waited at one time */
	uint64_t passes[CUSTODY_CAUSES];
	uint64_t waited_ns;  /* in passes, for the device */
	uint64_t longest_ns; /* the longest pass */
};

CUSTODY_API int custody_defer_statistics(struct custody_context *context,
					 struct custody_defer_statistics *statistics);

struct custody_defer_limits {
	size_t size; /* sizeof(struct custody_defer_limits), set by the caller */
	int64_t max_count; /* 0 or less: every free starts a pass */
	double max_ratio;  /* 0 or more; 0: memory starts a pass, sizeless items wait for the count */
	bool is_strict;	   /* out of memory inside a scope flushes nothing, as documented */
};

/*
 * The limits of all contexts; they hold from the next free on.  At the start they are
 * those of CUSTODY_MAX_PENDING and CUSTODY_MAX_PENDING_RATIO, else of Numba's two
 * variables, else 10 and 0.2.
 */
CUSTODY_API int custody_defer_limits(struct custody_defer_limits *limits);
CUSTODY_API int custody_defer_set_limits(const struct custody_defer_limits *limits);

/*
 * Called when an allocation of `bytes` through libcustody has run out of memory after
 * all queues were flushed; true: try again.  At most 16 times for one allocation.  It
 * may free, but not allocate.  NULL: none.
 */
CUSTODY_API int custody_set_out_of_memory(bool (*handler)(struct custody_context *context,
							  size_t bytes, void *argument),
					  void *argument);

/* A release that the driver refused: its item is dropped, the pass has ended there. */
struct custody_defer_error {
	/* "memory", "managed", "pinned", "array", "mipmapped array", "stream", "event", "module" */
	const char *kind;
	uint64_t handle;  /* or address */
	uint64_t bytes;
	CUresult result;
	int device; /* ordinal */
	const void *freed_at; /* the program's return address */
};

/*
 * Take the oldest errors of all contexts out of the list of them, at most `most`;
 * returns how many.  The list keeps 64; `*dropped`, which may be NULL, counts those
 * that found no room since the last call.
 */
CUSTODY_API size_t custody_defer_errors(struct custody_defer_error *errors, size_t most,
					uint64_t *dropped);

#ifdef __cplusplus
}
#endif
#endif
