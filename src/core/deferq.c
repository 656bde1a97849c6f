/* SPDX-License-Identifier: Apache-2.0 */
#include "core/deferq.h"
#include "core/context.h"
#include "core/deferq_queue.h"
#include "core/gate.h"
#include "core/pending.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

enum {
	SPINS = 200,
	NAP_NS = 50 * 1000,
	PATIENCE_US = 10 * 1000,
};

struct deferq_settings deferq_settings;
_Atomic int64_t deferq_max_count;
static _Atomic bool is_strict;

/* By number of the context.  A queue is never given back: who looks it up may keep it. */
static struct deferq *_Atomic queues[CONTEXT_MAX + 1];
static _Atomic uint32_t highest; /* number that has a queue */
static struct lock opening;
static struct slab_spares queue_slabs; /* under `opening` */

void deferq_configure(const struct deferq_settings *settings)
{
	deferq_settings = *settings;
	atomic_store(&deferq_max_count, settings->max_count);
	atomic_store(&is_strict, settings->is_strict);
}

/* Floored, as documented; no more than can be counted. */
static uint64_t share(uint64_t bytes, double ratio)
{
	double product = (double)bytes * ratio;

	return product < (double)UINT64_MAX ? (uint64_t)product : UINT64_MAX;
}

/* Under `opening`, and the queue's lock where others know the queue. */
static void share_out(struct deferq *queue)
{
	queue->device_limit = share(queue->device_bytes, deferq_settings.max_ratio);
	queue->host_limit = share(deferq_settings.host_bytes, deferq_settings.max_ratio);
}

static struct deferq *make_queue(CUcontext handle, uint32_t number, int device,
				 uint64_t device_bytes)
{
	struct deferq *queue = slab_take(&queue_slabs, slab_class(sizeof(*queue)));

	if (!queue)
		return NULL;
	*queue = (struct deferq){
		.handle = handle,
		.number = number,
		.device = device,
		.device_bytes = device_bytes,
	};
	share_out(queue);
	atomic_store_explicit(&queues[number], queue, memory_order_release);
	if (number > atomic_load(&highest))
		atomic_store(&highest, number);
	return queue;
}

struct deferq *deferq_find(uint32_t number)
{
	return number <= CONTEXT_MAX ? atomic_load_explicit(&queues[number], memory_order_acquire) :
				       NULL;
}

struct deferq *deferq_open(CUcontext handle, uint32_t number, int device, uint64_t device_bytes)
{
	struct deferq *queue = deferq_find(number);

	if (queue || !number || number > CONTEXT_MAX)
		return queue;
	lock_take(&opening);
	queue = deferq_find(number);
	if (!queue)
		queue = make_queue(handle, number, device, device_bytes);
	lock_give(&opening);
	return queue;
}

/* The ratio is read where queues are made, and here. */
void deferq_limit(const struct deferq_limits *limits)
{
	lock_take(&opening);
	atomic_store(&deferq_max_count, limits->max_count);
	atomic_store(&is_strict, limits->is_strict);
	deferq_settings.max_ratio = limits->max_ratio;
	for (uint32_t number = 1; number <= atomic_load(&highest); number++) {
		struct deferq *queue = deferq_find(number);

		if (!queue)
			continue;
		lock_take(&queue->lock);
		share_out(queue);
		lock_give(&queue->lock);
	}
	lock_give(&opening);
}

/* The queue with the next higher number that is on the device, or on any where it is -1. */
static struct deferq *next_queue(int device, uint32_t *number)
{
	uint32_t last = atomic_load(&highest);

	while (*number < last) {
		struct deferq *queue = deferq_find(++*number);

		if (queue && (device < 0 || queue->device == device) &&
		    !atomic_load(&queue->is_dead))
			return queue;
	}
	return NULL;
}

static bool is_empty(struct deferq *queue)
{
	return atomic_load(&queue->pending) == 0;
}

bool deferq_enter(struct deferq *queue)
{
	atomic_fetch_add(&queue->users, 1);
	if (!atomic_load(&queue->dying) && !atomic_load(&queue->is_dead))
		return true;
	atomic_fetch_sub(&queue->users, 1);
	return false;
}

void deferq_leave(struct deferq *queue)
{
	atomic_fetch_sub(&queue->users, 1);
}

void deferq_told(struct deferq_report *report)
{
	struct deferq_item *item = report->items;
	struct deferq_flush *flush = report->flushes;

	while (item)
		item = deferq_list_give_items(item);
	while (flush) {
		struct deferq_flush *next = flush->next;

		deferq_list_give_flush(flush);
		flush = next;
	}
	*report = (struct deferq_report){ 0 };
}

void deferq_exclude(struct deferq *queue)
{
	atomic_store(&queue->is_shut, true);
}

/*
 * Only threads that wait for an event are left; they are told, and go round us.
 * Where another call has told them so they go on when the last call is over,
 * this one among them: it may not wait for them.
 */
static bool abandon_waiters(struct deferq *queue, bool is_impatient)
{
	bool is_done;

	lock_take(&queue->lock);
	is_done = (is_impatient || queue->is_abandoned) &&
		  atomic_load(&queue->users) == queue->waiters;
	queue->is_abandoned = queue->is_abandoned || is_done;
	lock_give(&queue->lock);
	return is_done;
}

void deferq_dying(struct deferq *queue, bool is_certain)
{
	uint64_t patience = PATIENCE_US * deferq_driver()->ticks_per_us;
	uint64_t start = deferq_driver()->ticks();

	atomic_fetch_add(&queue->dying, 1);
	for (int i = 0; atomic_load(&queue->users); i++) {
		bool is_impatient = !is_certain && deferq_driver()->ticks() - start > patience;

		if (i < SPINS)
			continue;
		if (abandon_waiters(queue, is_impatient))
			return;
		sched_yield();
		i = SPINS;
	}
}

void deferq_revive(struct deferq *queue)
{
	lock_take(&queue->lock);
	if (atomic_fetch_sub(&queue->dying, 1) == 1)
		queue->is_abandoned = false;
	lock_give(&queue->lock);
}

void deferq_begin_wait(struct deferq *queue)
{
	lock_take(&queue->lock);
	queue->waiters++;
	lock_give(&queue->lock);
}

void deferq_count_wait(struct deferq *queue, uint64_t *count)
{
	lock_take(&queue->lock);
	++*count;
	lock_give(&queue->lock);
}

/* One that was abandoned counts as waiting until no call may end the context. */
static bool must_stand_by(struct deferq *queue)
{
	bool is_abandoned;

	lock_take(&queue->lock);
	is_abandoned = queue->is_abandoned && !atomic_load(&queue->is_dead);
	queue->waiters -= !is_abandoned;
	lock_give(&queue->lock);
	return is_abandoned;
}

bool deferq_end_wait(struct deferq *queue)
{
	while (must_stand_by(queue))
		sched_yield();
	return !atomic_load(&queue->is_dead);
}

static void drop_list(struct deferq *queue, struct item_list *list)
{
	struct deferq_item *first;

	lock_take(&queue->lock);
	first = list->first;
	deferq_list_count(queue, -(int64_t)list->count);
	*list = (struct item_list){ 0 };
	lock_give(&queue->lock);
	for (struct deferq_item *item = first; item; item = item->next)
		if (item->id)
			pending_close((enum block_space)item->space, item->handle, item->bytes,
				      item->id);
	if (first)
		deferq_list_give_items(first);
}

/* Events and the stream have died with the context: their handles are not touched again. */
void deferq_drop(struct deferq *queue)
{
	atomic_store(&queue->is_dead, true);
	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		drop_list(queue, &queue->waiting[kind]);
	drop_list(queue, &queue->issued);
	lock_take(&queue->lock);
	queue->host_bytes = 0;
	queue->page_bytes = 0;
	queue->spare = NULL;
	queue->spares = 0;
	queue->stream = NULL;
	lock_give(&queue->lock);
}

/* The child has one thread; queues lie in memory that the tracker's reset unmaps. */
void deferq_reset(void)
{
	uint32_t last = atomic_load(&highest);

	for (uint32_t number = 0; number <= last; number++)
		atomic_store(&queues[number], NULL);
	atomic_store(&highest, 0);
	atomic_store(&deferq_list_released, 0);
	atomic_store(&deferq_list_last, 0);
	queue_slabs = (struct slab_spares){ 0 };
	lock_give(&opening);
}

bool deferq_holds(struct deferq *queue, enum deferq_kind kind, uint64_t handle)
{
	struct deferq_item *item;

	if (is_empty(queue))
		return false;
	lock_take(&queue->lock);
	item = queue->waiting[deferq_queue_of(kind)].first;
	while (item && !(item->kind == kind && item->handle == handle))
		item = item->next;
	lock_give(&queue->lock);
	return item != NULL;
}

static bool is_in_scope(struct deferq *queue)
{
	bool is_in;

	lock_take(&queue->lock);
	is_in = queue->scopes != 0;
	lock_give(&queue->lock);
	return is_in;
}

/* A pass over both queues that waits for nothing. */
static void pass_both(struct pass *pass)
{
	pass->is_wanted[QUEUE_MEMORY] = true;
	pass->is_wanted[QUEUE_OBJECTS] = true;
	pass->takes_back = true;
	if (is_empty(pass->queue) || !deferq_enter(pass->queue))
		return;
	deferq_pass_quick(pass);
	deferq_leave(pass->queue);
}

/* While the program waits, or before it wants to be left alone. */
static void pass_idle(struct pass *pass)
{
	pass->cause = RELEASE_IDLE;
	if (!is_empty(pass->queue) && !is_in_scope(pass->queue))
		pass_both(pass);
}

uint64_t deferq_mark(struct deferq *queue)
{
	return atomic_load(&queue->serial);
}

void deferq_synchronized(struct deferq *queue, uint64_t mark, struct deferq_report *report)
{
	if (is_empty(queue))
		return;
	deferq_event_raise_ready(queue, mark);
	pass_idle(&(struct pass){ .queue = queue, .report = report, .is_idle = true });
}

void deferq_collect(struct deferq *queue, struct deferq_report *report)
{
	pass_idle(&(struct pass){ .queue = queue, .report = report });
}

void deferq_collect_inside(struct deferq_report *report)
{
	struct deferq *queue;
	uint32_t number = 0;

	while ((queue = next_queue(-1, &number)))
		pass_idle(&(struct pass){ .queue = queue, .report = report, .is_inside = true });
}

/* Others may go on freeing: what they add is not this flush's. */
static bool is_drained(const struct pass *pass)
{
	struct deferq *queue = pass->queue;
	bool is_left = false;

	lock_take(&queue->lock);
	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		for (struct deferq_item *item = queue->waiting[kind].first; item; item = item->next)
			is_left = is_left || item->serial <= pass->until;
	lock_give(&queue->lock);
	return !is_left;
}

static uint64_t count_of(struct deferq *queue, const uint64_t *count)
{
	uint64_t value;

	lock_take(&queue->lock);
	value = *count;
	lock_give(&queue->lock);
	return value;
}

/* Those that wait now; or as many others, where there are always some. */
static void wait_for_frees(struct deferq *queue)
{
	uint64_t begun = count_of(queue, &queue->waits_begun);
	struct timespec nap = { .tv_nsec = NAP_NS };

	for (int i = 0; count_of(queue, &queue->waits_ended) < begun; i++)
		if (i < SPINS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
}

static void flush_waiting(struct deferq *queue, enum release_cause cause,
			  struct deferq_report *report)
{
	struct pass pass = {
		.queue = queue,
		.report = report,
		.cause = cause,
		.is_wanted = { true, true },
		.takes_back = true,
	};

	wait_for_frees(queue);
	if (is_empty(queue) || !deferq_enter(queue))
		return;
	deferq_wait(&pass, is_drained);
	deferq_leave(queue);
}

void deferq_flush(struct deferq *queue, bool does_wait, struct deferq_report *report)
{
	if (does_wait)
		flush_waiting(queue, RELEASE_EXPLICIT, report);
	else
		pass_both(&(struct pass){
			.queue = queue, .report = report, .cause = RELEASE_EXPLICIT });
}

/* A free that waits will be pending, and the driver lets no allocation past one. */
static bool is_any_waiting(struct deferq *queue)
{
	bool is_any;

	lock_take(&queue->lock);
	is_any = queue->waits_begun != queue->waits_ended;
	lock_give(&queue->lock);
	return is_any;
}

static bool has_pending(struct deferq *queue)
{
	return !is_empty(queue) || is_any_waiting(queue);
}

bool deferq_has_pending(int device)
{
	struct deferq *queue;
	uint32_t number = 0;

	while ((queue = next_queue(device, &number)))
		if (has_pending(queue))
			return true;
	return false;
}

/* To the letter of the document a scope is not flushed for want of memory. */
static bool is_spared(struct deferq *queue)
{
	return atomic_load(&is_strict) && is_in_scope(queue);
}

bool deferq_may_release(int device)
{
	struct deferq *queue;
	uint32_t number = 0;

	while ((queue = next_queue(device, &number)))
		if (has_pending(queue) && !is_spared(queue))
			return true;
	return false;
}

bool deferq_has_released_since(uint64_t tick)
{
	return atomic_load(&deferq_list_last) >= tick;
}

bool deferq_out_of_memory(int device, struct deferq_report *report)
{
	uint64_t released = atomic_load(&deferq_list_released);
	struct deferq *queue;
	uint32_t number = 0;

	if (gate_is_shut())
		return false;
	while ((queue = next_queue(device, &number)))
		if (!is_spared(queue))
			flush_waiting(queue, RELEASE_OOM, report);
	return atomic_load(&deferq_list_released) != released;
}

static bool overlaps(const struct deferq_item *item, uint64_t address, uint64_t bytes)
{
	return item->space == SPACE_ADDRESS && item->id && item->handle < address + bytes &&
	       address < item->handle + item->bytes;
}

/* Under the lock: the first issued item that lies there, out of the list; NULL: none. */
static struct deferq_item *take_overlapping(struct deferq *queue, uint64_t address, uint64_t bytes)
{
	struct deferq_item *before = NULL, *item = queue->issued.first;

	while (item && !overlaps(item, address, bytes)) {
		before = item;
		item = item->next;
	}
	if (item)
		deferq_list_remove(&queue->issued, before, item);
	return item;
}

static void reuse_in(struct deferq *queue, uint64_t address, uint64_t bytes, uint64_t tick,
		     struct deferq_report *report)
{
	struct deferq_item *item;

	do {
		lock_take(&queue->lock);
		item = take_overlapping(queue, address, bytes);
		lock_give(&queue->lock);
		if (item) {
			item->closed = tick;
			deferq_list_close(queue, item, report);
		}
	} while (item);
}

void deferq_reuse(uint64_t address, uint64_t bytes, uint64_t tick, struct deferq_report *report)
{
	struct deferq *queue;
	uint32_t number = 0;

	while ((queue = next_queue(-1, &number)))
		reuse_in(queue, address, bytes, tick, report);
}

uint64_t deferq_page_bytes(int device)
{
	struct deferq *queue;
	uint32_t number = 0;
	uint64_t bytes = 0;

	while ((queue = next_queue(device, &number))) {
		lock_take(&queue->lock);
		bytes += queue->page_bytes;
		lock_give(&queue->lock);
	}
	return bytes;
}

void deferq_suspend(struct deferq *queue)
{
	lock_take(&queue->lock);
	queue->scopes++;
	lock_give(&queue->lock);
}

/* The last scope is closed. */
static void keep_limits(struct deferq *queue, enum queue_kind kind, struct deferq_report *report)
{
	struct standing standing;

	deferq_add_look(queue, kind, &standing);
	if (!standing.cause)
		return;
	standing.cause = RELEASE_SCOPE;
	standing.does_wait = deferq_settings.does_wait;
	deferq_add_keep_limits(queue, kind, &standing, report);
}

static void pass_behind_scope(struct deferq *queue, enum deferq_leave leave,
			      struct deferq_report *report)
{
	atomic_store(&queue->not_before, 0);
	if (leave == DEFERQ_LEAVE_FLUSH)
		pass_both(&(struct pass){
			.queue = queue, .report = report, .cause = RELEASE_SCOPE });
	else
		for (int kind = 0; kind < QUEUE_KINDS; kind++)
			keep_limits(queue, (enum queue_kind)kind, report);
}

bool deferq_leave_scope(struct deferq *queue, enum deferq_leave leave,
			struct deferq_report *report)
{
	bool was_open, is_outermost;

	lock_take(&queue->lock);
	was_open = queue->scopes > 0;
	is_outermost = queue->scopes == 1;
	queue->scopes -= was_open;
	lock_give(&queue->lock);
	if (!is_outermost || leave == DEFERQ_LEAVE_ALONE || !deferq_enter(queue))
		return was_open;
	pass_behind_scope(queue, leave, report);
	deferq_leave(queue);
	return was_open;
}

bool deferq_resume(struct deferq *queue, struct deferq_report *report)
{
	return deferq_leave_scope(queue, DEFERQ_LEAVE_IF_OVER, report);
}

void deferq_statistics(struct deferq *queue, struct deferq_statistics *statistics)
{
	lock_take(&queue->lock);
	*statistics = queue->statistics;
	for (int kind = 0; kind < QUEUE_KINDS; kind++) {
		statistics->count[kind] = queue->waiting[kind].count;
		statistics->bytes[kind] = queue->waiting[kind].bytes;
	}
	statistics->host_bytes = queue->host_bytes;
	statistics->issued = queue->issued.count;
	statistics->issued_bytes = queue->issued.bytes;
	lock_give(&queue->lock);
}
