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

/* Under the lock. */
static enum release_cause exceeded_limit(const struct deferq *queue, enum queue_kind kind)
{
	uint64_t count = queue->waiting[kind].count;

	if (count && (int64_t)count > atomic_load(&deferq_max_count))
		return RELEASE_COUNT;
	if (kind == QUEUE_MEMORY &&
	    (device_bytes(queue) > queue->device_limit || queue->host_bytes > queue->host_limit))
		return RELEASE_BYTES;
	return RELEASE_NONE;
}

static bool exceeds_twice(uint64_t bytes, uint64_t limit)
{
	return bytes > limit && bytes - limit > limit;
}

/* Under the lock. */
static bool is_over_bound(const struct deferq *queue)
{
	return exceeds_twice(device_bytes(queue) + queue->issued.bytes, queue->device_limit) ||
	       exceeds_twice(queue->host_bytes, queue->host_limit);
}

/* Under the lock. */
static bool is_crowded(const struct deferq *queue, enum queue_kind kind)
{
	int64_t beyond = (int64_t)queue->waiting[kind].count - DEFERQ_CROWD;

	return beyond > 0 && beyond > atomic_load(&deferq_max_count);
}

/* Under the lock. */
static void look(const struct deferq *queue, enum queue_kind kind, struct standing *standing)
{
	const struct deferq_item *first = queue->waiting[kind].first;
	uint64_t ready = atomic_load(&queue->ready);

	*standing = (struct standing){ 0 };
	if (queue->scopes)
		return;
	standing->cause = exceeded_limit(queue, kind);
	standing->is_over_bound = is_over_bound(queue);
	standing->is_crowded = is_crowded(queue, kind);
	standing->is_heaped = queue->issued.count > DEFERQ_HEAP;
	standing->is_ready = ready > atomic_load(&queue->ready_then) && first &&
			     first->serial <= ready;
}

void deferq_add_look(struct deferq *queue, enum queue_kind kind, struct standing *standing)
{
	lock_take(&queue->lock);
	look(queue, kind, standing);
	lock_give(&queue->lock);
}

static bool is_within_bound(const struct pass *pass)
{
	struct standing standing;

	deferq_add_look(pass->queue, QUEUE_MEMORY, &standing);
	return !standing.is_over_bound;
}

/* What is known of a free before it is queued. */
struct claim {
	uint64_t serial;
	uint64_t ready;
	CUevent event;
	CUevent passed; /* the free's own wait, over; to be given back */
	bool has_waited;
};

/* Take the event of a free, and see whether it has passed; inside the gate. */
static enum deferq_answer take_event(struct deferq *queue, const struct deferq_item *item,
				     struct claim *claim, CUresult *result)
{
	if (!deferq_driver()->ctx_record_event)
		return deferq_does_wait(item) ? DEFERQ_REFUSED : DEFERQ_QUEUED;
	claim->event = deferq_event_record(queue, &claim->serial, result);
	if (!claim->event)
		return DEFERQ_REFUSED;
	*result = CUDA_SUCCESS;
	if (deferq_does_wait(item))
		*result = deferq_driver()->event_query(claim->event);
	return DEFERQ_QUEUED;
}

/* The event that was taken is the free's own wait; it is not needed any more then. */
static enum deferq_answer wait_for_event(struct deferq *queue, struct claim *claim,
					 CUresult *result, uint64_t *waited)
{
	if (*result == CUDA_ERROR_NOT_READY) {
		claim->has_waited = true;
		deferq_count_wait(queue, &queue->waits_begun);
		deferq_begin_wait(queue);
		*result = deferq_event_wait(claim->event, waited);
		if (!deferq_end_wait(queue))
			return DEFERQ_REFUSED;
	}
	if (*result != CUDA_SUCCESS) {
		deferq_event_give(queue, claim->event);
		return DEFERQ_FAILED;
	}
	claim->passed = claim->event;
	claim->event = NULL;
	claim->ready = deferq_driver()->ticks();
	return DEFERQ_QUEUED;
}

/*
 * With a capture live no event can be taken, and nothing is released, not even
 * for an allocation that runs out of memory.  A free that need not wait gets its
 * event later, as long as the byte limit holds and the queue is no heap; the
 * driver has all others.
 */
static bool may_wait_without_event(struct deferq *queue, const struct deferq_item *item)
{
	bool is_host = item->kind == DEFERQ_HOST;
	bool may_wait;

	lock_take(&queue->lock);
	may_wait = !deferq_does_wait(item) &&
		   queue->waiting[deferq_queue_of((enum deferq_kind)item->kind)].count <
			   DEFERQ_HEAP &&
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
	answer = take_event(queue, item, claim, result);
	gate_leave();
	if (answer == DEFERQ_QUEUED && claim->event && deferq_does_wait(item))
		answer = wait_for_event(queue, claim, result, waited);
	return answer;
}

/* Under the lock. */
static bool append(struct deferq *queue, const struct deferq_item *item, const struct claim *claim)
{
	struct item_list *list = &queue->waiting[deferq_queue_of((enum deferq_kind)item->kind)];
	struct deferq_item *copy = slab_take(&queue->slabs, slab_class(sizeof(*copy)));

	if (!copy)
		return false;
	*copy = *item;
	copy->serial = claim->serial;
	copy->event = claim->event;
	copy->ready = claim->ready;
	copy->context = queue->number;
	copy->result = CUDA_SUCCESS;
	copy->is_issued = false;
	copy->has_waited = claim->passed != NULL;
	deferq_list_append(list, copy);
	deferq_list_count(queue, 1);
	queue->host_bytes += item->kind == DEFERQ_HOST ? item->bytes : 0;
	queue->page_bytes += deferq_list_pages(item);
	queue->statistics.queued++;
	if (list->count > queue->statistics.deepest)
		queue->statistics.deepest = list->count;
	return true;
}

/* All that a free does to its queue, in one go.  False: no memory. */
static bool enter(struct deferq *queue, const struct deferq_item *item, const struct claim *claim,
		  struct standing *standing)
{
	bool is_in;

	lock_take(&queue->lock);
	if (claim->passed)
		deferq_event_raise_ready(queue, claim->serial);
	is_in = append(queue, item, claim);
	deferq_event_keep(queue, claim->passed);
	if (!is_in)
		deferq_event_keep(queue, claim->event);
	look(queue, deferq_queue_of((enum deferq_kind)item->kind), standing);
	standing->does_wait = deferq_does_wait(item);
	lock_give(&queue->lock);
	return is_in;
}

/*
 * Whether a pass is worth its queries: something is known to be unused that was
 * not when a pass released nothing, or time has gone by.
 */
static bool is_due(const struct deferq *queue, const struct standing *standing)
{
	return standing->is_ready || deferq_driver()->ticks() >= atomic_load(&queue->not_before);
}

/*
 * Only the bound is looked at again: others may have met it meanwhile.  A free
 * that waits as the driver's would waits for other threads' frees too, where
 * they come faster than they can be released: the queue does not grow on.  Nor
 * does what was issued for a program that never synchronises; to take that back
 * waits for nothing, but costs what unmapping costs.  What others have freed without
 * a wait, one that has waited does not wait for.
 */
void deferq_add_keep_limits(struct deferq *queue, enum queue_kind kind,
			    const struct standing *standing, struct deferq_report *report)
{
	const struct driver *driver = deferq_driver();
	struct pass pass = { .queue = queue, .report = report, .cause = standing->cause };

	pass.is_wanted[kind] = true;
	pass.has_waited = standing->does_wait;
	pass.takes_back = standing->does_wait || standing->is_heaped;
	pass.is_patient = standing->does_wait && standing->is_crowded;
	if (!standing->does_wait && standing->cause != RELEASE_SCOPE)
		pass.deadline = driver->ticks() + DEFERQ_BUDGET_US * driver->ticks_per_us;
	if (is_due(queue, standing))
		deferq_pass_quick(&pass);
	if (!standing->is_over_bound || is_within_bound(&pass))
		return;
	pass = (struct pass){
		.queue = queue, .report = report, .cause = RELEASE_BYTES, .takes_back = true,
		.has_waited = standing->does_wait,
	};
	pass.is_wanted[QUEUE_MEMORY] = true;
	deferq_wait(&pass, is_within_bound);
}

/*
 * After a free that has waited nothing may ever wait for its release: the
 * program may have started work since that ends only when the program goes on.
 * So what the driver may have to wait for is the driver's at once, as it is
 * without us: a wait of ours ahead of its own would let others in between.
 */
static bool may_put_off(struct deferq *queue, const struct deferq_item *item)
{
	return !deferq_does_wait(item) || !deferq_needs_event((enum deferq_kind)item->kind) ||
	       (item->kind == DEFERQ_MEMORY && deferq_proof_holds(queue));
}

/*
 * A capture has begun during the wait, so nothing may become pending: the driver
 * frees now, in the mode in which no capture minds.
 */
static enum deferq_answer free_now(struct deferq *queue, const struct deferq_item *item,
				   const struct claim *claim, CUresult *result)
{
	const struct driver *driver = deferq_driver();
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult exchanged = driver->thread_exchange_capture_mode(&mode);

	*result = driver->mem_free(item->handle);
	if (exchanged == CUDA_SUCCESS)
		driver->thread_exchange_capture_mode(&mode);
	deferq_event_give(queue, claim->passed);
	return *result == CUDA_SUCCESS ? DEFERQ_FREED : DEFERQ_FAILED;
}

/* Whoever begins a capture collects what is pending: nothing is to come behind that. */
static enum deferq_answer enter_inside(struct deferq *queue, const struct deferq_item *item,
				       const struct claim *claim, CUresult *result,
				       struct standing *standing)
{
	bool is_in;

	if (!claim->passed)
		return enter(queue, item, claim, standing) ? DEFERQ_QUEUED : DEFERQ_REFUSED;
	if (!gate_enter())
		return free_now(queue, item, claim, result);
	is_in = enter(queue, item, claim, standing);
	gate_leave();
	return is_in ? DEFERQ_QUEUED : DEFERQ_REFUSED;
}

static void keep_limits(struct deferq *queue, enum queue_kind kind, struct standing *standing,
			struct deferq_report *report)
{
	if (!standing->cause && standing->is_over_bound)
		standing->cause = RELEASE_BYTES;
	if (standing->cause)
		deferq_add_keep_limits(queue, kind, standing, report);
}

static enum deferq_answer add(struct deferq *queue, const struct deferq_item *item,
			      CUresult *result, uint64_t *waited, struct deferq_report *report)
{
	enum deferq_kind kind = (enum deferq_kind)item->kind;
	struct claim claim = { 0 };
	enum deferq_answer answer = DEFERQ_REFUSED;
	struct standing standing;

	if (may_put_off(queue, item))
		answer = claim_item(queue, item, &claim, result, waited);
	if (answer == DEFERQ_QUEUED && !claim.serial)
		claim.serial = atomic_fetch_add(&queue->serial, 1) + 1;
	if (answer == DEFERQ_QUEUED)
		answer = enter_inside(queue, item, &claim, result, &standing);
	if (claim.has_waited)
		deferq_count_wait(queue, &queue->waits_ended);
	if (answer != DEFERQ_QUEUED)
		return answer;
	if (!claim.event && !claim.ready && deferq_needs_event(kind))
		atomic_store(&queue->lacks_event, true);
	keep_limits(queue, deferq_queue_of(kind), &standing, report);
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
