/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferq.h - the deferred-free queue.
 *
 * What Numba documents: a released resource is not destroyed at once but put
 * into a queue of its context; a pass over the queue destroys what it holds
 * when there are more than `max_count` items, when their bytes exceed
 * `max_ratio` of the memory they lie in (both compared after adding, so that
 * with 10 it is the eleventh item that starts a pass and goes with it), or when
 * an allocation fails for lack of memory; scopes suspend that; a release that
 * fails ends its pass.  Memory and objects have a queue each.
 *
 * What this one adds: a pass does not wait for the device.  Each item carries an
 * event of its context, taken when the program freed it, and stays until that
 * has passed; the library's own streams and events need none.  Plain memory then
 * goes by cuMemFreeAsync on a private stream that never holds a wait, and is back
 * at the device once that stream has been synchronised, which is done where the
 * program itself synchronises; until then it still counts as pending.  Everything
 * else goes when the context is idle.  Only out-of-memory, twice the byte limit
 * and a flush that is asked to do wait: on events, outside the gate, and inside
 * a release of the driver's only where there is no event, or never an idle moment.
 *
 * Where frees wait (`does_wait`, the policy `deferred`), of all that the program
 * frees plain memory alone is put off, each block once its event has passed, and
 * no pass waits but for one that cuMemFreeAsync has refused; see deferq_add().
 * Items that say so (`is_nowait`, those of the library) are put off without a wait
 * all the same, and lie in the same queues.
 *
 * Any thread.  No lock is held across a driver call but the claim of a queue (see
 * core.h).  A call that closes items adds them to the caller's report; the caller
 * records them, then gives them back by deferq_told().  A pending block stays in
 * the tracker, marked (see pending.h), until it is closed.
 */
#ifndef CUSTODY_CORE_DEFERQ_H
#define CUSTODY_CORE_DEFERQ_H

#include "core/driver.h"
#include "core/record.h"
#include "core/tracker.h"

#include <stdbool.h>
#include <stdint.h>

enum deferq_kind {
	DEFERQ_MEMORY,	/* of cuMemAlloc or cuMemAllocPitch */
	DEFERQ_STUBBORN, /* the same, found to go by cuMemFree alone */
	DEFERQ_MANAGED, /* of cuMemAllocManaged */
	DEFERQ_HOST,	/* of cuMemAllocHost or cuMemHostAlloc */
	DEFERQ_ARRAY,
	DEFERQ_MIPMAPPED_ARRAY,
	DEFERQ_MODULE,
	DEFERQ_STREAM, /* the library's only: destroying one waits for nothing */
	DEFERQ_EVENT,
	DEFERQ_KINDS
};

struct deferq_settings {
	const struct driver *driver;
	int64_t max_count;   /* items of one queue; 0 or less: nothing waits */
	double max_ratio;    /* of the device's memory, and of host_bytes for host memory */
	uint64_t host_bytes; /* memory of this machine that the process may use */
	bool does_wait;	     /* a free waits as the driver's would; its release is put off */
	bool is_strict;	     /* out of memory inside a scope flushes nothing, as documented */
};

/* For the whole process, before the first queue is opened. */
void deferq_configure(const struct deferq_settings *settings);

/* Those of the settings that may change later; they hold from the next free on. */
struct deferq_limits {
	int64_t max_count;
	double max_ratio;
	bool is_strict;
};

void deferq_limit(const struct deferq_limits *limits);

/* What is put off: one release. */
struct deferq_item {
	struct deferq_item *next; /* of a report */
	uint64_t handle;	  /* or address */
	uint64_t bytes;
	uint64_t id;	 /* of the block, 0: it is none */
	uint64_t ready;	 /* tick at which its event was first seen passed, 0: never */
	uint64_t closed; /* tick at which it left */
	uint64_t serial;
	const void *caller; /* of the program's free */
	CUevent event;	    /* NULL: none could be taken yet, or none is needed */
	uint32_t context;   /* number of the queue's context */
	uint16_t result;    /* CUresult of the release */
	uint8_t kind;	    /* enum deferq_kind */
	uint8_t space;	    /* enum block_space, where it has an id */
	uint8_t cause;	    /* enum release_cause; FAILED where the driver refused */
	bool is_issued;	    /* cuMemFreeAsync was called */
	bool is_nowait;	    /* its free does not wait, whatever the settings say */
	bool has_waited;    /* its free has; nothing waits for its release any more */
};

/* One pass that released, failed or waited. */
struct deferq_flush {
	struct deferq_flush *next; /* of a report */
	uint64_t start;		   /* ticks */
	uint64_t duration;
	uint64_t waited;
	uint64_t bytes;
	uint32_t count;
	uint32_t failed;
	uint32_t context;
	uint8_t queue; /* enum queue_kind */
	uint8_t cause; /* enum release_cause */
};

/* What a call has done; empty is all zero.  In the order in which it happened. */
struct deferq_report {
	struct deferq_item *items;
	struct deferq_item **items_end;
	struct deferq_flush *flushes;
	struct deferq_flush **flushes_end;
};

/* Give the memory of a report back; it is empty then.  Cheap where it is empty already. */
void deferq_told(struct deferq_report *report);

struct deferq;

/*
 * The queue of a context, made if there is none; NULL: no memory.  `number` is
 * that of context.h, `device_bytes` the memory of the device in all.
 */
struct deferq *deferq_open(CUcontext handle, uint32_t number, int device, uint64_t device_bytes);

/* The queue of this number; NULL: none was opened. */
struct deferq *deferq_find(uint32_t number);

enum deferq_answer {
	DEFERQ_QUEUED,	/* the program's free has succeeded */
	DEFERQ_REFUSED, /* the driver must have the free now */
	DEFERQ_FREED,	/* it has, and the block is released */
	DEFERQ_FAILED,	/* the wait gave *result, which is the free's; the block lives on */
};

/*
 * The program frees `item` (handle, bytes, id, kind, space, caller and is_nowait are
 * read).  Under `does_wait`, unless the item is_nowait, only plain memory is put off,
 * and that only once it is proven that cuMemFreeAsync takes it: all else is refused at
 * once, before any wait, since the driver may wait for it itself, and a later
 * out-of-memory would have to wait for work that the program has started since.
 * Where it is a block, the caller has won pending_begin() and calls pending_cancel()
 * unless the answer is QUEUED, or pending_close() if it is FREED, which it is where a
 * capture has begun during the wait.  Takes the event; under `does_wait` waits for it,
 * `*waited` ticks; adds; starts a pass if a limit is exceeded and no scope is open;
 * waits if twice the byte limit is.
 */
enum deferq_answer deferq_add(struct deferq *queue, const struct deferq_item *item,
			      CUresult *result, uint64_t *waited, struct deferq_report *report);

/* Whether this handle is in the queue; for what has no block. */
bool deferq_holds(struct deferq *queue, enum deferq_kind kind, uint64_t handle);

/* From now on nothing more is queued; what is pending is still released. */
void deferq_exclude(struct deferq *queue);

/*
 * The program synchronises its context: deferq_mark() before the driver is
 * called; deferq_synchronized() with the mark after it succeeded, which releases
 * all that was freed before the mark (cause IDLE).
 */
uint64_t deferq_mark(struct deferq *queue);
void deferq_synchronized(struct deferq *queue, uint64_t mark, struct deferq_report *report);

/*
 * The program waits anyway (a stream, an event, a synchronous copy, a question
 * for free memory): release what has passed, take back what was issued, wait
 * for nothing.  Cause IDLE.  Cheap where nothing is pending.
 */
void deferq_collect(struct deferq *queue, struct deferq_report *report);

/* The same in all contexts, for a caller who is inside the gate: see gate_stay(). */
void deferq_collect_inside(struct deferq_report *report);

/* Release everything; with `does_wait` that means everything.  Cause EXPLICIT. */
void deferq_flush(struct deferq *queue, bool does_wait, struct deferq_report *report);

/* Whether anything is pending, or soon will be, in contexts of the device; -1: of any. */
bool deferq_has_pending(int device);

/*
 * The same, of what an allocation that runs out of memory would have released: under
 * `is_strict` nothing inside a scope.
 */
bool deferq_may_release(int device);

/*
 * Whether bytes came back since the tick: an allocation that began then and has
 * failed may have missed them, also where nothing is pending by now.
 */
bool deferq_has_released_since(uint64_t tick);

/*
 * An allocation has failed for lack of memory: flush both queues of every
 * context of the device (-1: of all), waiting where that is what it takes.
 * True: bytes came back, the allocation is worth another attempt.  Nothing is
 * flushed while a capture is live, nor under `is_strict` inside a scope.
 */
bool deferq_out_of_memory(int device, struct deferq_report *report);

/*
 * The driver has handed out [address, address + bytes) at `tick`: a pending
 * item that lies there was released behind our back and is closed as of then.
 * Call when the new block has entered the tracker and displaced a pending one.
 */
void deferq_reuse(uint64_t address, uint64_t bytes, uint64_t tick, struct deferq_report *report);

/* The whole 2 MiB pages of pending device blocks above 1 MiB, for cuMemGetInfo. */
uint64_t deferq_page_bytes(int device);

/*
 * The context may die in the driver call to come: no new item or release from
 * now on, and the calls in flight are over when this returns.  Where its death
 * is not certain, whoever still waits after 10 ms is left waiting: the
 * driver would not make this thread wait for them.  It then was, and
 * the items are dropped without a driver call (deferq_drop(), whoever records
 * the context's end closes them), or was not (deferq_revive()).
 */
void deferq_dying(struct deferq *queue, bool is_certain);
void deferq_revive(struct deferq *queue);
void deferq_drop(struct deferq *queue);

/*
 * Between deferq_dying() and deferq_drop() of a context that lives on without us: the
 * events and the stream that were made in it are destroyed.
 */
void deferq_part(struct deferq *queue);

/*
 * Nested scopes suspend passes, those where the program waits too, but neither
 * out-of-memory nor a flush that is asked for.  Leaving the outermost one starts
 * a pass if a limit is exceeded.
 */
void deferq_suspend(struct deferq *queue);
bool deferq_resume(struct deferq *queue, struct deferq_report *report); /* false: none was open */

enum deferq_leave {
	DEFERQ_LEAVE_IF_OVER, /* as above */
	DEFERQ_LEAVE_ALONE,   /* starts nothing */
	DEFERQ_LEAVE_FLUSH,   /* starts a pass in any case, which waits for nothing */
};

bool deferq_leave_scope(struct deferq *queue, enum deferq_leave leave,
			struct deferq_report *report);

struct deferq_statistics {
	uint64_t count[QUEUE_KINDS]; /* items waiting, issued ones not among them */
	uint64_t bytes[QUEUE_KINDS];
	uint64_t host_bytes;	     /* of those bytes, pinned host memory */
	uint64_t issued;	     /* items whose cuMemFreeAsync was called */
	uint64_t issued_bytes;
	uint64_t queued;	     /* ever */
	uint64_t released;	     /* ever, failed ones not among them */
	uint64_t released_bytes;
	uint64_t failed;
	uint64_t deepest;	     /* most items that have waited at once */
	uint64_t passes[RELEASE_CAUSES];
	uint64_t waited;	     /* ticks, in passes */
	uint64_t longest;	     /* ticks of the longest pass */
};

void deferq_statistics(struct deferq *queue, struct deferq_statistics *statistics);

/* Child of fork: forget all, without a driver call. */
void deferq_reset(void);

#endif
