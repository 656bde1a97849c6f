/* SPDX-License-Identifier: Apache-2.0 */
#include "core/deferq_queue.h"

CUresult deferq_event_push_context(struct deferq *queue, bool *was_pushed)
{
	CUcontext current = NULL;
	CUresult result;

	*was_pushed = false;
	if (deferq_driver()->ctx_get_current(&current) == CUDA_SUCCESS && current == queue->handle)
		return CUDA_SUCCESS;
	result = deferq_driver()->ctx_push_current(queue->handle);
	*was_pushed = result == CUDA_SUCCESS;
	return result;
}

void deferq_event_pop_context(bool was_pushed)
{
	CUcontext context;

	if (was_pushed)
		deferq_driver()->ctx_pop_current(&context);
}

/* An event belongs to the context that is current when it is made. */
static CUresult make_event(struct deferq *queue, CUevent *event)
{
	bool was_pushed;
	CUresult result = deferq_event_push_context(queue, &was_pushed);

	if (result != CUDA_SUCCESS)
		return result;
	result = deferq_driver()->event_create(event, CU_EVENT_DISABLE_TIMING);
	deferq_event_pop_context(was_pushed);
	return result;
}

/* Under the lock.  NULL: there are no more than `most`. */
static CUevent take_spare(struct deferq *queue, uint32_t most)
{
	struct spare_event *spare = queue->spare;
	CUevent event = NULL;

	if (queue->spares > most) {
		event = spare->event;
		queue->spare = spare->next;
		queue->spares--;
		slab_give(&queue->slabs, spare, slab_class(sizeof(*spare)));
	}
	return event;
}

/* The serial is drawn here because this is where the lock is held. */
static CUresult take_event(struct deferq *queue, uint64_t *serial, CUevent *event)
{
	lock_take(&queue->lock);
	*serial = atomic_fetch_add(&queue->serial, 1) + 1;
	*event = take_spare(queue, 0);
	lock_give(&queue->lock);
	return *event ? CUDA_SUCCESS : make_event(queue, event);
}

/*
 * Makes no call, since threads come here from their waits, outside the gate.
 * Without memory for its place the event is lost until the context dies.
 */
void deferq_event_keep(struct deferq *queue, CUevent event)
{
	struct spare_event *spare = NULL;

	if (event)
		spare = slab_take(&queue->slabs, slab_class(sizeof(*spare)));
	if (!spare)
		return;
	*spare = (struct spare_event){ .next = queue->spare, .event = event };
	queue->spare = spare;
	queue->spares++;
}

void deferq_event_give(struct deferq *queue, CUevent event)
{
	if (!event)
		return;
	lock_take(&queue->lock);
	deferq_event_keep(queue, event);
	lock_give(&queue->lock);
}

/* No more at once than a pass inside a free can be asked to pay for. */
void deferq_event_trim(struct deferq *queue)
{
	CUevent event;

	for (int i = 0; i < DEFERQ_SPARE_EVENTS; i++) {
		lock_take(&queue->lock);
		event = take_spare(queue, DEFERQ_SPARE_EVENTS);
		lock_give(&queue->lock);
		if (!event)
			return;
		deferq_driver()->event_destroy(event);
	}
}

/* An event that could not be recorded may be in any state: it is not used again. */
CUevent deferq_event_record(struct deferq *queue, uint64_t *serial, CUresult *result)
{
	CUevent event;

	*result = take_event(queue, serial, &event);
	if (*result != CUDA_SUCCESS)
		return NULL;
	*result = deferq_driver()->ctx_record_event(queue->handle, event);
	if (*result == CUDA_SUCCESS)
		return event;
	deferq_driver()->event_destroy(event);
	return NULL;
}

/* From a thread in the default mode a wait entered during a capture would spoil it. */
CUresult deferq_event_wait(CUevent event, uint64_t *waited)
{
	const struct driver *driver = deferq_driver();
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	uint64_t start = driver->ticks();
	CUresult exchanged = driver->thread_exchange_capture_mode(&mode);
	CUresult result = driver->event_synchronize(event);

	if (exchanged == CUDA_SUCCESS)
		driver->thread_exchange_capture_mode(&mode);
	*waited += driver->ticks() - start;
	return result;
}

void deferq_event_raise_ready(struct deferq *queue, uint64_t serial)
{
	uint64_t ready = atomic_load(&queue->ready);

	while (ready < serial && !atomic_compare_exchange_weak(&queue->ready, &ready, serial))
		continue;
	if (ready < serial)
		atomic_store(&queue->ready_tick, deferq_driver()->ticks());
}
