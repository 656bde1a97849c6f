/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A free that is put off: its event, its place in the queue, and the limits.
 */
#include "core/deferq_queue.h"
#include "core/gate.h"

/* Under the lock: bytes of the device that wait. */
static uint64_t device_bytes(const struct deferq *queue)
{
	return queue->waiting[QUEUE_MEMORY].bytes - queue->host_bytes;
}

enum release_cause deferq_add_over_limit(struct deferq *queue, enum queue_kind kind)
{
	enum release_cause cause = RELEASE_NONE;
	int64_t most = deferq_settings.max_count;

	lock_take(&queue->lock);
	if (queue->scopes)
		cause = RELEASE_NONE;
	else if ((int64_t)queue->waiting[kind].count > most && queue->waiting[kind].count)
		cause = RELEASE_COUNT;
	else if (kind == QUEUE_MEMORY && (device_bytes(queue) > queue->device_limit ||
					  queue->host_bytes > queue->host_limit))
		cause = RELEASE_BYTES;
	lock_give(&queue->lock);
	return cause;
}

static bool exceeds_twice(uint64_t bytes, uint64_t limit)
{
	return bytes > limit && bytes - limit > limit;
}

bool deferq_add_over_bound(struct deferq *queue)
{
	bool is_over;

	lock_take(&queue->lock);
	is_over = !queue->scopes &&
		  (exceeds_twice(device_bytes(queue) + queue->issued.bytes, queue->device_limit) ||
		   exceeds_twice(queue->host_bytes, queue->host_limit));
	lock_give(&queue->lock);
	return is_over;
}

static bool is_within_bound(const struct pass *pass)
{
	return !deferq_add_over_bound(pass->queue);
}

/* What is known of a free before it is queued. */
struct claim {
	uint64_t serial;
	uint64_t ready;
	CUevent event;
};

/* Take the event of a free, and see whether it has passed; inside the gate. */
static enum deferq_answer take_event(struct deferq *queue, struct claim *claim, CUresult *result)
{
	if (!deferq_driver()->ctx_record_event)
		return deferq_settings.does_wait ? DEFERQ_REFUSED : DEFERQ_QUEUED;
	claim->event = deferq_event_record(queue, &claim->serial, result);
	if (!claim->event)
		return DEFERQ_REFUSED;
	*result = CUDA_SUCCESS;
	if (deferq_settings.does_wait)
		*result = deferq_driver()->event_query(claim->event);
	return DEFERQ_QUEUED;
}

/* The event that was taken is the free's own wait; it is not needed any more then. */
static enum deferq_answer wait_for_event(struct deferq *queue, struct claim *claim,
					 CUresult *result, uint64_t *waited)
{
	if (*result == CUDA_ERROR_NOT_READY)
		*result = deferq_event_wait(claim->event, waited);
	deferq_event_give(queue, claim->event);
	claim->event = NULL;
	if (*result != CUDA_SUCCESS)
		return DEFERQ_FAILED;
	deferq_event_raise_ready(queue, claim->serial);
	claim->ready = deferq_driver()->ticks();
	return DEFERQ_QUEUED;
}

/*
 * With a capture live no event can be taken, and nothing is released, not even
 * for an allocation that runs out of memory.  A free that need not wait gets its
 * event later, as long as the byte limit holds; the driver has all others.
 */
static bool may_wait_without_event(struct deferq *queue, const struct deferq_item *item)
{
	bool is_host = item->kind == DEFERQ_HOST;
	bool may_wait;

	lock_take(&queue->lock);
	may_wait = !deferq_settings.does_wait &&
		   (is_host ? queue->host_bytes : device_bytes(queue)) + item->bytes <=
			   (is_host ? queue->host_limit : queue->device_limit);
	lock_give(&queue->lock);
	return may_wait;
}

/* Streams and events wait for nothing, so their release needs no event. */
static enum deferq_answer claim_item(struct deferq *queue, const struct deferq_item *item,
				     struct claim *claim, CUresult *result, uint64_t *waited)
{
	enum deferq_answer answer;

	if (!deferq_needs_event((enum deferq_kind)item->kind))
		return DEFERQ_QUEUED;
	if (!gate_enter())
		return may_wait_without_event(queue, item) ? DEFERQ_QUEUED : DEFERQ_REFUSED;
	answer = take_event(queue, claim, result);
	gate_leave();
	if (answer == DEFERQ_QUEUED && claim->event && deferq_settings.does_wait)
		answer = wait_for_event(queue, claim, result, waited);
	return answer;
}

static bool append(struct deferq *queue, const struct deferq_item *item, const struct claim *claim)
{
	enum queue_kind kind = deferq_queue_of((enum deferq_kind)item->kind);
	struct item_list *list = &queue->waiting[kind];
	struct deferq_item *copy;

	lock_take(&queue->lock);
	copy = slab_take(&queue->slabs, slab_class(sizeof(*copy)));
	if (copy) {
		*copy = *item;
		copy->serial = claim->serial;
		copy->event = claim->event;
		copy->ready = claim->ready;
		copy->context = queue->number;
		copy->result = CUDA_SUCCESS;
		copy->is_issued = false;
		deferq_list_append(list, copy);
		queue->host_bytes += item->kind == DEFERQ_HOST ? item->bytes : 0;
		queue->page_bytes += deferq_list_pages(item);
		queue->statistics.queued++;
		if (list->count > queue->statistics.deepest)
			queue->statistics.deepest = list->count;
	}
	lock_give(&queue->lock);
	return copy != NULL;
}

/*
 * Whether a pass is worth its queries: something is known to be unused that was
 * not when a pass released nothing, or time has gone by.
 */
static bool is_due(struct deferq *queue, enum queue_kind kind)
{
	uint64_t ready = atomic_load(&queue->ready);
	bool is_ready;

	lock_take(&queue->lock);
	is_ready = ready > atomic_load(&queue->ready_then) && queue->waiting[kind].first &&
		   queue->waiting[kind].first->serial <= ready;
	lock_give(&queue->lock);
	return is_ready || deferq_driver()->ticks() >= atomic_load(&queue->not_before);
}

/* A limit is exceeded: release what can be, and wait only beyond twice the bytes. */
void deferq_add_keep_limits(struct deferq *queue, enum queue_kind kind, enum release_cause cause,
			struct deferq_report *report)
{
	const struct driver *driver = deferq_driver();
	struct pass pass = { .queue = queue, .report = report, .cause = cause };

	pass.is_wanted[kind] = true;
	pass.takes_back = deferq_settings.does_wait;
	if (!deferq_settings.does_wait)
		pass.deadline = driver->ticks() + DEFERQ_BUDGET_US * driver->ticks_per_us;
	if (is_due(queue, kind))
		deferq_pass_quick(&pass);
	if (!deferq_add_over_bound(queue))
		return;
	pass = (struct pass){ .queue = queue, .report = report, .cause = RELEASE_BYTES,
			      .takes_back = true };
	pass.is_wanted[QUEUE_MEMORY] = true;
	deferq_wait(&pass, is_within_bound);
}

/*
 * After a free that has waited nothing may ever wait for its release: the
 * program may have started work since that ends only when the program goes on.
 * What the driver can only release while the context is idle it releases now.
 */
static bool can_go_unnoticed(struct deferq *queue, const struct deferq_item *item)
{
	return !deferq_needs_event((enum deferq_kind)item->kind) ||
	       (item->kind == DEFERQ_MEMORY && atomic_load(&queue->plain) != PLAIN_FAILS);
}

static enum deferq_answer add(struct deferq *queue, const struct deferq_item *item,
			      CUresult *result, uint64_t *waited, struct deferq_report *report)
{
	enum queue_kind kind = deferq_queue_of((enum deferq_kind)item->kind);
	struct claim claim = { 0 };
	enum deferq_answer answer = claim_item(queue, item, &claim, result, waited);
	enum release_cause cause;

	if (answer != DEFERQ_QUEUED)
		return answer;
	if (deferq_settings.does_wait && !can_go_unnoticed(queue, item))
		return DEFERQ_REFUSED;
	if (!claim.serial)
		claim.serial = atomic_fetch_add(&queue->serial, 1) + 1;
	deferq_count_in(queue);
	if (!append(queue, item, &claim)) {
		deferq_count_out(queue);
		deferq_event_give(queue, claim.event);
		return DEFERQ_REFUSED;
	}
	if (!claim.event && !claim.ready && deferq_needs_event((enum deferq_kind)item->kind))
		atomic_store(&queue->lacks_event, true);
	cause = deferq_add_over_limit(queue, kind);
	if (cause || deferq_add_over_bound(queue))
		deferq_add_keep_limits(queue, kind, cause ? cause : RELEASE_BYTES, report);
	return DEFERQ_QUEUED;
}

enum deferq_answer deferq_add(struct deferq *queue, const struct deferq_item *item,
			      CUresult *result, uint64_t *waited, struct deferq_report *report)
{
	enum deferq_answer answer = DEFERQ_REFUSED;

	*result = CUDA_SUCCESS;
	*waited = 0;
	if (atomic_load(&queue->is_shut) || !deferq_enter(queue))
		return DEFERQ_REFUSED;
	answer = add(queue, item, result, waited, report);
	deferq_leave(queue);
	return answer;
}
