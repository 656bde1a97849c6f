/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferq_queue.h - the inside of a queue; private to deferq*.c.
 */
#ifndef CUSTODY_CORE_DEFERQ_QUEUE_H
#define CUSTODY_CORE_DEFERQ_QUEUE_H

#include "core/deferq.h"
#include "core/lock.h"
#include "core/slab.h"

#include <stdatomic.h>

enum {
	DEFERQ_SPARE_EVENTS = 64,
	DEFERQ_BACKOFF_US = 50, /* a pass that found nothing unused is not repeated sooner */
	DEFERQ_BUDGET_US = 50,	/* a pass inside a free, once all that a limit allows is out */
	DEFERQ_HEAP = 4096,	/* items that pile up where no pass comes; see deferq_add.c */
	DEFERQ_CROWD = 64,	/* items beyond the limit that make free after free wait its turn */
};

/* An event that nobody needs now. */
struct spare_event {
	struct spare_event *next;
	CUevent event;
};

struct item_list {
	struct deferq_item *first, *last;
	uint64_t count;
	uint64_t bytes;
};

/* Whether cuMemFreeAsync takes plain blocks here. */
enum plain_release { PLAIN_UNKNOWN, PLAIN_WORKS, PLAIN_FAILS };

struct deferq {
	CUcontext handle;
	uint32_t number;
	int device;
	uint64_t device_bytes; /* of the device */

	/*
	 * An item's serial is drawn before its event is taken, so that an event
	 * which has passed vouches for every item up to its own serial.
	 */
	_Atomic uint64_t serial;     /* last one drawn */
	_Atomic uint64_t ready;	     /* items up to this serial are unused */
	_Atomic uint64_t ready_tick; /* when that was learnt */
	_Atomic uint32_t users;	     /* threads whose call may touch the context */
	_Atomic uint32_t dying;	     /* driver calls in flight that may end the context */
	_Atomic bool is_shut;	     /* no more items: excluded, or a sticky error */
	_Atomic bool is_dead;
	_Atomic bool lacks_event;    /* an item was queued without one */

	/*
	 * For what follows.  A free takes it twice, whatever it finds: threads that
	 * free at once meet here more than anywhere.
	 */
	struct lock lock;
	uint64_t device_limit; /* bytes; more start a pass, twice as many a wait */
	uint64_t host_limit;
	uint32_t waiters;	  /* those of the users that wait for an event */
	bool is_abandoned;	  /* the context may die although they wait */
	uint64_t waits_begun;	  /* frees that have begun to wait, ever */
	uint64_t waits_ended;	  /* those of them that are queued by now, or were refused */
	_Atomic uint64_t pending; /* items waiting or issued; read by anybody */
	struct item_list waiting[QUEUE_KINDS];
	struct item_list issued; /* cuMemFreeAsync called, bytes not back */
	uint64_t host_bytes;	 /* of what waits */
	uint64_t page_bytes;	 /* see deferq_page_bytes() */
	uint32_t scopes;
	struct spare_event *spare;
	uint32_t spares;
	struct slab_spares slabs;
	struct deferq_statistics statistics;

	/* The claim to take items out; held by one pass, over driver calls and waits. */
	struct lock claim;
	_Atomic bool is_waited_in; /* by a pass that waits for the device */
	CUstream stream; /* private, never holds a wait */
	_Atomic uint32_t plain; /* enum plain_release */
	uint32_t proofs; /* failed attempts to tell */
	CUdeviceptr leftover; /* block of an attempt, to go when the context is idle; 0: none */
	_Atomic uint64_t not_before; /* tick; see DEFERQ_BACKOFF_US */
	_Atomic uint64_t ready_then; /* `ready` at the end of a pass that released nothing */
};

extern struct deferq_settings deferq_settings;
extern _Atomic int64_t deferq_max_count; /* that of the settings, or what it is by now */

static inline const struct driver *deferq_driver(void)
{
	return deferq_settings.driver;
}

static inline enum queue_kind deferq_queue_of(enum deferq_kind kind)
{
	return kind >= DEFERQ_MODULE ? QUEUE_OBJECTS : QUEUE_MEMORY;
}

/* Whether the free of this item waits as the driver's would. */
static inline bool deferq_does_wait(const struct deferq_item *item)
{
	return deferq_settings.does_wait && !item->is_nowait;
}

/* Destroying a stream or an event waits for nothing, so nothing is waited for. */
static inline bool deferq_needs_event(enum deferq_kind kind)
{
	return kind != DEFERQ_STREAM && kind != DEFERQ_EVENT;
}

/* deferq_list.c: the lists; under the queue's lock. */
void deferq_list_append(struct item_list *list, struct deferq_item *item);
void deferq_list_remove(struct item_list *list, struct deferq_item *before,
			struct deferq_item *item);

/*
 * The item has left, or a chain of them; into the report they go.  Outside the
 * lock, `closed` and `cause` set.
 */
void deferq_list_close(struct deferq *queue, struct deferq_item *item,
		       struct deferq_report *report);
void deferq_list_close_all(struct deferq *queue, struct deferq_item *first,
			   struct deferq_report *report);

/* Whole 2 MiB pages of the device that come back with the item; small blocks share theirs. */
uint64_t deferq_list_pages(const struct deferq_item *item);

/*
 * Memory of a chain of items, up to the first of another queue, which is
 * returned; and of a flush.
 */
struct deferq_item *deferq_list_give_items(struct deferq_item *first);
void deferq_list_give_flush(struct deferq_flush *flush);

extern _Atomic uint64_t deferq_list_released; /* ever, in all queues */
extern _Atomic uint64_t deferq_list_last;     /* tick at which bytes last came back */

/* Under the lock: so many have come, or gone where that is less than zero. */
static inline void deferq_list_count(struct deferq *queue, int64_t change)
{
	uint64_t pending = atomic_load_explicit(&queue->pending, memory_order_relaxed);

	atomic_store_explicit(&queue->pending, pending + (uint64_t)change, memory_order_release);
}

void deferq_list_flush(struct deferq *queue, const struct deferq_flush *flush,
			 struct deferq_report *report);

/* deferq.c.  True: the context lives until deferq_leave(). */
bool deferq_enter(struct deferq *queue);
void deferq_leave(struct deferq *queue);

/*
 * Around a wait for an event outside the gate; the thread is a user meanwhile.
 * False: the context has died in it, and the event with it.
 */
void deferq_begin_wait(struct deferq *queue);
bool deferq_end_wait(struct deferq *queue);

/* A free begins to wait, or has waited and is done: one of the two counts of that. */
void deferq_count_wait(struct deferq *queue, uint64_t *count);

/* How a queue stands to its limits.  Nothing is exceeded while a scope is open. */
struct standing {
	enum release_cause cause; /* the limit that is exceeded, RELEASE_NONE: none is */
	bool is_over_bound;	  /* twice the byte limit is */
	bool is_ready;		  /* the oldest is unused, and was not when a pass last gave up */
	bool is_crowded;	  /* items come faster than one thread releases them */
	bool is_heaped;		  /* much was issued, and the program never synchronises */
	bool does_wait;		  /* the free that looks has waited */
};

/* deferq_add.c */
void deferq_add_look(struct deferq *queue, enum queue_kind kind, struct standing *standing);

/* A limit may be exceeded: release what can be; wait only beyond twice the bytes. */
void deferq_add_keep_limits(struct deferq *queue, enum queue_kind kind,
			    const struct standing *standing, struct deferq_report *report);

/* deferq_event.c: events of the context; inside the gate but for giving and waiting. */
void deferq_event_give(struct deferq *queue, CUevent event);
void deferq_event_keep(struct deferq *queue, CUevent event); /* the same under the lock */

/* Destroy some of those beyond DEFERQ_SPARE_EVENTS. */
void deferq_event_trim(struct deferq *queue);

/* Draw a serial and record an event of the context; NULL: *result tells why. */
CUevent deferq_event_record(struct deferq *queue, uint64_t *serial, CUresult *result);

/* Wait until it has passed, outside the gate; adds the ticks to *waited. */
CUresult deferq_event_wait(CUevent event, uint64_t *waited);

/* Every item up to this serial is unused from now on. */
void deferq_event_raise_ready(struct deferq *queue, uint64_t serial);

/* Make the context current where another one is; deferq_event_pop_context() undoes it. */
CUresult deferq_event_push_context(struct deferq *queue, bool *was_pushed);
void deferq_event_pop_context(bool was_pushed);

/* deferq_pass.c */
struct pass {
	struct deferq *queue;
	struct deferq_report *report;
	enum release_cause cause;
	bool is_wanted[QUEUE_KINDS];
	bool takes_back; /* synchronises the private stream at the end */
	bool is_idle;	 /* the program has just seen the context idle */
	bool is_busy;	 /* it is known not to be idle */
	bool is_forced;	 /* release even if the driver waits */
	bool is_inside;	 /* the caller is inside the gate */
	bool is_patient; /* waits for another pass to end, unless that waits for the device */
	bool has_waited; /* it is a free's that has: it waits for no other's */
	bool has_tried;	 /* to tell whether plain blocks go by cuMemFreeAsync */
	uint64_t start;
	uint64_t waited;
	uint64_t deadline; /* tick; 0: none */
	uint64_t until;	   /* serial: what is freed later is not waited for ... */
	uint64_t newest;   /* ... and what is freed after this begin is not released */
	uint64_t count[QUEUE_KINDS];
	uint64_t bytes[QUEUE_KINDS];
	uint64_t failed[QUEUE_KINDS];
	CUresult error; /* which ended the pass */
};

/*
 * Release what is unused, waiting for nothing of the device.  Does nothing where
 * another pass is at it, unless it is patient.
 */
void deferq_pass_quick(struct pass *pass);

/* The parts of a pass; whoever calls them has the claim, run inside the gate. */
void deferq_pass_begin(struct pass *pass);
void deferq_pass_run(struct pass *pass);
void deferq_pass_end(struct pass *pass); /* tells of it */

/* An event of now, as deferq_event_record(); a sticky error becomes the pass's. */
CUevent deferq_pass_record(struct pass *pass, uint64_t *serial);

/* After a sticky error: shut the queue, cancel what it holds. */
void deferq_pass_fail(struct pass *pass);

/* deferq_ready.c: learn which items are unused. */
void deferq_ready_learn(struct pass *pass);

/* Whether the event of an item of this serial has passed, which vouches for all before it. */
bool deferq_ready_has_passed(struct pass *pass, CUevent event, uint64_t serial);

/* Whether the item is known to be unused. */
bool deferq_ready_is(const struct deferq *queue, const struct deferq_item *item);

/* The first item that may be in use and has an event to ask; NULL: none. */
struct deferq_item *deferq_ready_first_not(struct deferq *queue, enum queue_kind kind);

/* deferq_proof.c: find out whether cuMemFreeAsync takes plain blocks, by whoever has the claim. */
void deferq_proof_try(struct deferq *queue);

/* Find out, if nobody has; waits for nothing.  False: it does not, or it is not known. */
bool deferq_proof_holds(struct deferq *queue);

/* deferq_wait.c: release until `is_enough`; waits as long as that takes. */
void deferq_wait(struct pass *pass, bool (*is_enough)(const struct pass *pass));

#endif
