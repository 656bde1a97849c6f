/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context that is let go: its owner ends it some day, and we do not see it.
 */
#include "core/deferq_queue.h"
#include "core/gate.h"

/* Of items that were not flushed; nobody else touches them by now. */
static void take_events(struct deferq *queue)
{
	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		for (struct deferq_item *item = queue->waiting[kind].first; item;
		     item = item->next) {
			deferq_event_give(queue, item->event);
			item->event = NULL;
		}
}

/* A stream with work in it, and events that have not passed, are destroyed later by the driver. */
static void destroy_all(struct deferq *queue)
{
	struct spare_event *spare;

	take_events(queue);
	for (spare = queue->spare; spare; spare = spare->next)
		deferq_driver()->event_destroy(spare->event);
	if (queue->stream)
		deferq_driver()->stream_destroy(queue->stream);
	if (queue->leftover)
		deferq_driver()->mem_free(queue->leftover);
	queue->leftover = 0;
}

/* While a capture is live no call is made: what is left dies with the context. */
void deferq_part(struct deferq *queue)
{
	bool was_pushed;

	if (!gate_enter())
		return;
	if (deferq_event_push_context(queue, &was_pushed) == CUDA_SUCCESS) {
		destroy_all(queue);
		deferq_event_pop_context(was_pushed);
	}
	gate_leave();
}
