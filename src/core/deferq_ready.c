/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which items are unused: their events tell, and each vouches for all before it.
 * Called by whoever has the claim, inside the gate.
 */
#include "core/deferq_queue.h"

bool deferq_ready_has_passed(struct pass *pass, CUevent event, uint64_t serial)
{
	CUresult result = deferq_driver()->event_query(event);

	if (result == CUDA_SUCCESS) {
		deferq_event_raise_ready(pass->queue, serial);
		return true;
	}
	if (result != CUDA_ERROR_NOT_READY)
		pass->error = result;
	return false;
}

bool deferq_ready_is(const struct deferq *queue, const struct deferq_item *item)
{
	return !deferq_needs_event((enum deferq_kind)item->kind) ||
	       item->serial <= atomic_load(&queue->ready);
}

/*
 * An item freed during a capture has no event yet.  One taken now covers all
 * such items, whose frees lie before it; the newest of them carries it, with its
 * own serial, so that the event of a later free vouches for it too.
 */
static void take_late_event(struct pass *pass)
{
	struct deferq *queue = pass->queue;
	struct deferq_item *newest = NULL;
	uint64_t serial;
	CUevent event;

	if (!deferq_driver()->ctx_record_event || !atomic_exchange(&queue->lacks_event, false))
		return;
	event = deferq_pass_record(pass, &serial);
	if (!event) {
		atomic_store(&queue->lacks_event, true);
		return;
	}
	lock_take(&queue->lock);
	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		for (struct deferq_item *item = queue->waiting[kind].first; item; item = item->next)
			if (!item->event && !deferq_ready_is(queue, item) &&
			    item->serial < serial && (!newest || item->serial > newest->serial))
				newest = item;
	if (newest) {
		newest->event = event;
		event = NULL;
	}
	lock_give(&queue->lock);
	deferq_event_give(queue, event);
}

/* May be in use, and has an event to ask. */
static bool is_open(const struct deferq *queue, const struct deferq_item *item)
{
	return item->event && !deferq_ready_is(queue, item);
}

/* The first such item of a list; NULL: there is none. */
struct deferq_item *deferq_ready_first_not(struct deferq *queue, enum queue_kind kind)
{
	struct deferq_item *item;

	lock_take(&queue->lock);
	item = queue->waiting[kind].first;
	while (item && !is_open(queue, item))
		item = item->next;
	lock_give(&queue->lock);
	return item;
}

/* The last such item that is the pass's, and how many stand before it; NULL: there is none. */
static struct deferq_item *last_open(const struct pass *pass, enum queue_kind kind,
				     uint64_t *before)
{
	struct deferq *queue = pass->queue;
	struct deferq_item *last = NULL, *item;
	uint64_t at = 0;

	lock_take(&queue->lock);
	item = queue->waiting[kind].last;
	if (item && item->serial <= pass->newest && is_open(queue, item)) {
		last = item;
		*before = queue->waiting[kind].count - 1;
	}
	for (item = last ? NULL : queue->waiting[kind].first; item; item = item->next, at++) {
		if (item->serial > pass->newest || !is_open(queue, item))
			continue;
		last = item;
		*before = at;
	}
	lock_give(&queue->lock);
	return last;
}

/* The item at this place of a list, or the next one that has an event and is not known yet. */
static struct deferq_item *item_at(struct deferq *queue, enum queue_kind kind, uint64_t *place)
{
	struct deferq_item *item;
	uint64_t at = 0;

	lock_take(&queue->lock);
	item = queue->waiting[kind].first;
	while (item && (at < *place || !is_open(queue, item))) {
		item = item->next;
		at++;
	}
	lock_give(&queue->lock);
	*place = at;
	return item;
}

/* The newest has not passed: halve what lies before it. */
static void search(struct pass *pass, enum queue_kind kind, uint64_t end)
{
	uint64_t first = 0;

	while (first < end && !pass->error) {
		uint64_t middle = first + (end - first) / 2, place = middle;
		struct deferq_item *item = item_at(pass->queue, kind, &place);

		if (item && place < end && deferq_ready_has_passed(pass, item->event, item->serial))
			first = place + 1;
		else
			end = middle;
	}
}

/*
 * Mostly all have passed or none has: the last is asked first, then the oldest.
 * Threads that free at once may stand in the list in another order than their
 * serials, so that the last does not always vouch for all.
 */
static void learn(struct pass *pass, enum queue_kind kind)
{
	struct deferq *queue = pass->queue;
	struct deferq_item *last, *oldest;
	uint64_t before;

	while ((last = last_open(pass, kind, &before)) &&
	       deferq_ready_has_passed(pass, last->event, last->serial))
		continue;
	if (!last || pass->error)
		return;
	oldest = deferq_ready_first_not(queue, kind);
	if (oldest && oldest != last &&
	    deferq_ready_has_passed(pass, oldest->event, oldest->serial))
		search(pass, kind, before);
}

void deferq_ready_learn(struct pass *pass)
{
	take_late_event(pass);
	for (int kind = 0; kind < QUEUE_KINDS && !pass->error; kind++)
		learn(pass, kind);
}
