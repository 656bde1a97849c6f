/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass takes items out of a queue.  One at a time has the claim, so what it
 * looks at outside the lock cannot go away under it; others only append.
 */
#include "core/deferq_queue.h"
#include "core/gate.h"

#include <sched.h>
#include <time.h>

enum { YIELDS = 50, NAP_NS = 50 * 1000 };

/* Errors after which nothing of a context works any more. */
static bool is_sticky(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_DEVICE_NOT_LICENSED:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
	case CUDA_ERROR_EXTERNAL_DEVICE:
		return true;
	default:
		return false;
	}
}

CUevent deferq_pass_record(struct pass *pass, uint64_t *serial)
{
	CUresult result;
	CUevent event = deferq_event_record(pass->queue, serial, &result);

	if (!event && is_sticky(result))
		pass->error = result;
	return event;
}

/*
 * Whether nothing runs in the context now: an event taken here has passed at
 * once.  Another thread may launch a moment later; then the driver waits for that.
 */
static bool is_idle(struct pass *pass)
{
	struct deferq *queue = pass->queue;
	uint64_t serial;
	CUevent event;
	bool is_passed;

	if (pass->is_forced)
		return true;
	if (pass->is_busy || pass->error)
		return false;
	if (!deferq_driver()->ctx_record_event)
		return pass->is_idle;
	event = deferq_pass_record(pass, &serial);
	is_passed = event && deferq_ready_has_passed(pass, event, serial);
	deferq_event_give(queue, event);
	pass->is_busy = !is_passed;
	return is_passed;
}

/* What keeps an attempt from telling is likely to last: one is made in a pass. */
static bool plain_works(struct pass *pass)
{
	struct deferq *queue = pass->queue;

	if (atomic_load(&queue->plain) == PLAIN_UNKNOWN && !pass->has_tried) {
		pass->has_tried = true;
		deferq_proof_try(queue);
	}
	return atomic_load(&queue->plain) == PLAIN_WORKS;
}

/*
 * A moment at which the driver has nothing to wait for; but one who has waited for
 * a free of his own is not to wait for what others have put off, should there be.
 */
static bool may_wait(struct pass *pass, const struct deferq_item *item)
{
	struct deferq *queue = pass->queue;

	if ((pass->has_waited && item->kind != DEFERQ_STUBBORN) || !is_idle(pass))
		return false;
	if (queue->leftover)
		deferq_driver()->mem_free(queue->leftover);
	queue->leftover = 0;
	return true;
}

static bool may_release(struct pass *pass, struct deferq_item *item)
{
	switch ((enum deferq_kind)item->kind) {
	case DEFERQ_STREAM:
	case DEFERQ_EVENT:
		return true;
	case DEFERQ_MEMORY:
		item->is_issued = plain_works(pass);
		return item->is_issued || may_wait(pass, item);
	default:
		return may_wait(pass, item);
	}
}

static CUresult release(const struct deferq *queue, const struct deferq_item *item)
{
	const struct driver *driver = deferq_driver();
	void *handle = (void *)(uintptr_t)item->handle;

	switch ((enum deferq_kind)item->kind) {
	case DEFERQ_MEMORY:
		return item->is_issued ? driver->mem_free_async(item->handle, queue->stream) :
					 driver->mem_free(item->handle);
	case DEFERQ_STUBBORN:
	case DEFERQ_MANAGED:
		return driver->mem_free(item->handle);
	case DEFERQ_HOST:
		return driver->mem_free_host(handle);
	case DEFERQ_ARRAY:
		return driver->array_destroy(handle);
	case DEFERQ_MIPMAPPED_ARRAY:
		return driver->mipmapped_array_destroy(handle);
	case DEFERQ_MODULE:
		return driver->module_unload(handle);
	case DEFERQ_STREAM:
		return driver->stream_destroy(handle);
	case DEFERQ_EVENT:
		return driver->event_destroy(handle);
	case DEFERQ_KINDS:
		break;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* Under the lock. */
static void take_out(struct deferq *queue, enum queue_kind kind, struct deferq_item *before,
		     struct deferq_item *item)
{
	deferq_list_remove(&queue->waiting[kind], before, item);
	if (item->kind == DEFERQ_HOST)
		queue->host_bytes -= item->bytes;
}

/* Where in a list a pass is. */
struct walk {
	struct deferq_item *before; /* the last one that was passed over; NULL: none */
	struct deferq_item *issued; /* by cuMemFreeAsync, and in no list yet; NULL: none */
	bool is_out;		    /* the current item is out of its list */
};

/*
 * The next unused item; it is out of its list already where it needs no look at
 * the device.  The lock is taken once for what ends and for what begins.
 */
static struct deferq_item *next_ready(const struct pass *pass, enum queue_kind kind,
				      struct walk *walk)
{
	struct deferq *queue = pass->queue;
	struct deferq_item *item;

	lock_take(&queue->lock);
	if (walk->issued)
		deferq_list_append(&queue->issued, walk->issued);
	walk->issued = NULL;
	item = walk->before ? walk->before->next : queue->waiting[kind].first;
	while (item && (item->serial > pass->newest || !deferq_ready_is(queue, item))) {
		walk->before = item;
		item = item->next;
	}
	walk->is_out = item && item->kind == DEFERQ_MEMORY &&
		       atomic_load(&queue->plain) == PLAIN_WORKS;
	if (walk->is_out)
		take_out(queue, kind, walk->before, item);
	lock_give(&queue->lock);
	return item;
}

/* Whether the item is out of its list, or may be and is now. */
static bool claim_next(struct pass *pass, enum queue_kind kind, struct walk *walk,
		       struct deferq_item *item)
{
	struct deferq *queue = pass->queue;

	item->ready = item->ready ? item->ready : atomic_load(&queue->ready_tick);
	item->is_issued = walk->is_out;
	if (walk->is_out)
		return true;
	if (!may_release(pass, item)) {
		walk->before = item;
		return false;
	}
	lock_take(&queue->lock);
	take_out(queue, kind, walk->before, item);
	lock_give(&queue->lock);
	return true;
}

/*
 * The item is out of its list; what happens to it decides whether the pass goes
 * on.  True: its bytes come back later.
 */
static bool finish_item(struct pass *pass, enum queue_kind kind, struct deferq_item *item)
{
	struct deferq *queue = pass->queue;

	deferq_event_give(queue, item->event);
	item->event = NULL;
	if (item->result) {
		pass->error = (CUresult)item->result;
		pass->failed[kind]++;
		item->cause = RELEASE_FAILED;
		deferq_list_close(queue, item, pass->report);
		return false;
	}
	pass->count[kind]++;
	pass->bytes[kind] += item->bytes;
	if (!item->is_issued) {
		atomic_store(&deferq_list_last, deferq_driver()->ticks());
		deferq_list_close(queue, item, pass->report);
	}
	return item->is_issued;
}

/* The proof was one block; what is refused now is no error until cuMemFree says so. */
static bool is_stubborn(const struct deferq_item *item)
{
	return item->is_issued && (item->result == CUDA_ERROR_INVALID_VALUE ||
				   item->result == CUDA_ERROR_NOT_SUPPORTED);
}

static void put_back(struct deferq *queue, struct deferq_item *item)
{
	item->kind = DEFERQ_STUBBORN;
	item->is_issued = false;
	item->result = CUDA_SUCCESS;
	lock_take(&queue->lock);
	deferq_list_append(&queue->waiting[QUEUE_MEMORY], item);
	lock_give(&queue->lock);
}

static bool is_late(const struct pass *pass)
{
	int64_t most = atomic_load(&deferq_max_count);

	return pass->deadline && deferq_driver()->ticks() > pass->deadline &&
	       pass->count[QUEUE_MEMORY] + pass->count[QUEUE_OBJECTS] >
		       (uint64_t)(most > 0 ? most : 0);
}

/* Oldest first; what has to wait for an idle moment is passed over. */
static void release_ready(struct pass *pass, enum queue_kind kind)
{
	struct deferq *queue = pass->queue;
	struct walk walk = { 0 };
	struct deferq_item *item;

	while (!pass->error && !is_late(pass) && (item = next_ready(pass, kind, &walk))) {
		if (!claim_next(pass, kind, &walk, item))
			continue;
		item->closed = deferq_driver()->ticks();
		item->cause = pass->cause;
		item->result = (uint16_t)release(queue, item);
		if (is_stubborn(item))
			put_back(queue, item);
		else if (finish_item(pass, kind, item))
			walk.issued = item;
	}
	if (!walk.issued)
		return;
	lock_take(&queue->lock);
	deferq_list_append(&queue->issued, walk.issued);
	lock_give(&queue->lock);
}

/* Close what was released by cuMemFreeAsync: with the stream's synchronise it is back. */
static void take_back(struct pass *pass)
{
	struct deferq *queue = pass->queue;
	struct deferq_item *item;
	uint64_t moment;
	CUresult result;

	lock_take(&queue->lock);
	item = queue->issued.first;
	lock_give(&queue->lock);
	if (!item)
		return;
	moment = deferq_driver()->ticks();
	result = deferq_driver()->stream_synchronize(queue->stream);
	if (result != CUDA_SUCCESS) {
		pass->error = pass->error ? pass->error : result;
		return;
	}
	atomic_store(&deferq_list_last, deferq_driver()->ticks());
	lock_take(&queue->lock);
	item = queue->issued.first;
	queue->issued = (struct item_list){ 0 };
	lock_give(&queue->lock);
	for (struct deferq_item *at = item; at; at = at->next)
		at->closed = moment;
	if (item)
		deferq_list_close_all(queue, item, pass->report);
}

static void cancel_list(struct pass *pass, struct deferq_item *first)
{
	for (struct deferq_item *item = first; item; item = item->next) {
		item->closed = deferq_driver()->ticks();
		item->cause = RELEASE_FAILED;
		item->result = (uint16_t)pass->error;
		pass->failed[deferq_queue_of(item->kind)]++;
	}
	if (first)
		deferq_list_close_all(pass->queue, first, pass->report);
}

/* After a sticky error no release works any more, and no event either. */
static void shut(struct pass *pass)
{
	struct deferq *queue = pass->queue;
	struct deferq_item *first[QUEUE_KINDS + 1];

	atomic_store(&queue->is_shut, true);
	lock_take(&queue->lock);
	for (int kind = 0; kind < QUEUE_KINDS; kind++) {
		first[kind] = queue->waiting[kind].first;
		queue->waiting[kind] = (struct item_list){ 0 };
	}
	first[QUEUE_KINDS] = queue->issued.first;
	queue->issued = (struct item_list){ 0 };
	queue->host_bytes = 0;
	lock_give(&queue->lock);
	for (int i = 0; i <= QUEUE_KINDS; i++)
		cancel_list(pass, first[i]);
}

void deferq_pass_fail(struct pass *pass)
{
	if (is_sticky(pass->error))
		shut(pass);
}

/* A pass ends, however fast other threads free. */
static void run(struct pass *pass)
{
	pass->newest = atomic_load(&pass->queue->serial);
	deferq_ready_learn(pass);
	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		if (pass->is_wanted[kind])
			release_ready(pass, kind);
	if (pass->takes_back)
		take_back(pass);
	deferq_event_trim(pass->queue);
}

/*
 * Arrays, modules and pinned memory are asked back in their own context, and a
 * thread that has run out of memory flushes the queues of others than its own.
 */
void deferq_pass_run(struct pass *pass)
{
	bool was_pushed;
	CUresult result = deferq_event_push_context(pass->queue, &was_pushed);

	if (result == CUDA_SUCCESS)
		run(pass);
	else
		pass->error = result;
	deferq_event_pop_context(was_pushed);
	deferq_pass_fail(pass);
}

void deferq_pass_begin(struct pass *pass)
{
	pass->start = deferq_driver()->ticks();
}

static void note(struct pass *pass, enum queue_kind kind, uint64_t duration, uint64_t waited)
{
	struct deferq_flush flush = {
		.start = pass->start,
		.duration = duration,
		.waited = waited,
		.bytes = pass->bytes[kind],
		.count = (uint32_t)pass->count[kind],
		.failed = (uint32_t)pass->failed[kind],
		.context = pass->queue->number,
		.queue = (uint8_t)kind,
		.cause = (uint8_t)pass->cause,
	};

	if (flush.count || flush.failed || waited)
		deferq_list_flush(pass->queue, &flush, pass->report);
}

/* A wait is told with the memory, which is what it is for. */
void deferq_pass_end(struct pass *pass)
{
	uint64_t duration = deferq_driver()->ticks() - pass->start;

	note(pass, QUEUE_MEMORY, duration, pass->waited);
	note(pass, QUEUE_OBJECTS, duration, 0);
}

static bool is_anything_waiting(struct deferq *queue)
{
	bool is_any;

	lock_take(&queue->lock);
	is_any = queue->waiting[QUEUE_MEMORY].count || queue->waiting[QUEUE_OBJECTS].count;
	lock_give(&queue->lock);
	return is_any;
}

/* A pass that asked in vain: the next free that exceeds a limit need not ask at once. */
static void back_off(const struct pass *pass)
{
	struct deferq *queue = pass->queue;

	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		if (pass->count[kind] || pass->failed[kind])
			return;
	if (!is_anything_waiting(queue))
		return;
	atomic_store(&queue->not_before,
		     pass->start + DEFERQ_BACKOFF_US * deferq_driver()->ticks_per_us);
	atomic_store(&queue->ready_then, atomic_load(&queue->ready));
}

/*
 * A pass that waits for the device may do so for work that waits for this thread.
 * Sleeping is for the same reason as in lock.c.
 */
static bool take_claim(const struct pass *pass)
{
	static const struct timespec nap = { .tv_nsec = NAP_NS };
	struct deferq *queue = pass->queue;
	bool is_taken = lock_try(&queue->claim);

	for (int i = 0; !is_taken && pass->is_patient && !atomic_load(&queue->is_waited_in); i++) {
		if (i < YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
		is_taken = lock_try(&queue->claim);
	}
	return is_taken;
}

void deferq_pass_quick(struct pass *pass)
{
	struct deferq *queue = pass->queue;

	if (!take_claim(pass))
		return;
	deferq_pass_begin(pass);
	if (pass->is_inside) {
		deferq_pass_run(pass);
	} else if (gate_enter()) {
		deferq_pass_run(pass);
		gate_leave();
	}
	back_off(pass);
	deferq_pass_end(pass);
	lock_give(&queue->claim);
}
