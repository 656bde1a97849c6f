/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes that wait: out of memory, twice the byte limit, a flush that was
 * asked for.  They wait on events and outside the gate, which blocks nobody.
 */
#include "core/deferq_queue.h"
#include "core/gate.h"

enum { IDLE_WAITS = 4 /* for an idle moment, before the driver is left to wait */ };

/* What a pass waits for. */
struct wait {
	CUevent event; /* NULL: there is none to be had */
	uint64_t serial;
	bool is_ours; /* taken for this wait, no item's */
	uint32_t idle; /* waits for an idle moment so far */
};

/* The oldest item's event, else one of now. */
static void choose_event(struct pass *pass, struct wait *wait)
{
	struct deferq *queue = pass->queue;
	struct deferq_item *item = NULL;

	for (int kind = 0; kind < QUEUE_KINDS && !item; kind++)
		if (pass->is_wanted[kind])
			item = deferq_ready_first_not(queue, kind);
	wait->is_ours = !item;
	wait->event = NULL;
	if (item) {
		wait->serial = item->serial;
		wait->event = item->event;
	} else if (deferq_driver()->ctx_record_event) {
		wait->event = deferq_pass_record(pass, &wait->serial);
	}
}

/* Outside the gate: a capture may begin meanwhile. */
static void wait_for(struct pass *pass, const struct wait *wait)
{
	CUresult result;

	deferq_begin_wait(pass->queue);
	result = deferq_event_wait(wait->event, &pass->waited);
	if (!deferq_end_wait(pass->queue)) {
		pass->error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
		return;
	}
	if (result == CUDA_SUCCESS)
		deferq_event_raise_ready(pass->queue, wait->serial);
	else
		pass->error = result;
	if (wait->is_ours)
		deferq_event_give(pass->queue, wait->event);
}

/* The driver waits for us where there is no event, or never an idle moment. */
static void force(struct pass *pass)
{
	uint64_t start = deferq_driver()->ticks();

	if (!deferq_driver()->ctx_record_event)
		deferq_event_raise_ready(pass->queue, atomic_load(&pass->queue->serial));
	pass->is_forced = true;
	deferq_pass_run(pass);
	pass->waited += deferq_driver()->ticks() - start;
}

/*
 * What was queued after a wait of its own is not waited for again: what is left
 * of it came meanwhile, and work that has begun since may never end.  But for a
 * block that the driver would not take as it took the others: without a wait it
 * may stay for good.  Nor does a free that has waited wait for what others have
 * put off without.
 */
static bool is_worth_one(const struct pass *pass, const struct deferq_item *item)
{
	if (item->kind == DEFERQ_STUBBORN)
		return true;
	return !pass->has_waited && !item->has_waited && item->serial <= pass->until &&
	       deferq_needs_event((enum deferq_kind)item->kind);
}

static bool is_worth_waiting(const struct pass *pass)
{
	struct deferq *queue = pass->queue;
	bool is_any = false;

	if (!deferq_settings.does_wait)
		return true;
	lock_take(&queue->lock);
	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		for (struct deferq_item *item = queue->waiting[kind].first; item && !is_any;
		     item = item->next)
			is_any = pass->is_wanted[kind] && is_worth_one(pass, item);
	lock_give(&queue->lock);
	return is_any;
}

/* One round inside the gate; true: there is something to wait for before the next. */
static bool go_round(struct pass *pass, bool (*is_enough)(const struct pass *), struct wait *wait)
{
	pass->is_busy = false;
	pass->has_tried = false;
	deferq_pass_run(pass);
	if (!pass->until)
		pass->until = atomic_load(&pass->queue->serial);
	if (pass->error || is_enough(pass) || !is_worth_waiting(pass))
		return false;
	choose_event(pass, wait);
	if (wait->event && !(wait->is_ours && ++wait->idle > IDLE_WAITS))
		return true;
	deferq_event_give(pass->queue, wait->event);
	force(pass);
	return false;
}

void deferq_wait(struct pass *pass, bool (*is_enough)(const struct pass *pass))
{
	struct deferq *queue = pass->queue;
	struct wait wait = { 0 };
	bool goes_on = true;

	lock_take(&queue->claim);
	atomic_store(&queue->is_waited_in, true);
	deferq_pass_begin(pass);
	while (goes_on && gate_enter()) {
		goes_on = go_round(pass, is_enough, &wait);
		gate_leave();
		if (goes_on)
			wait_for(pass, &wait);
		goes_on = goes_on && !pass->error;
	}
	deferq_pass_fail(pass);
	deferq_pass_end(pass);
	atomic_store(&queue->is_waited_in, false);
	lock_give(&queue->claim);
}
