/* SPDX-License-Identifier: Apache-2.0 */
#include "core/thread.h"
#include "core/chunk.h"
#include "core/counter.h"
#include "core/notice.h"
#include "core/process.h"
#include "core/segment.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Neither zero, which a child of fork reads, nor a generation of any process. */
#define NOT_READY (UINT64_MAX - 1)

__thread struct thread_segment thread_segment
	__attribute__((tls_model("initial-exec"))) = { .generation = NOT_READY };

/* The uncommon part; `generation` is that of the process which gave the number. */
static __thread struct {
	uint64_t generation;
	uint32_t tid;
	bool is_named; /* RECORD_THREAD has been written */
} identity __attribute__((tls_model("initial-exec")));

static pthread_key_t end_key;
static bool has_end_key; /* written under the lock of process.c, before any thread is ready */

/* Set before the first call of the process, read at the end of threads. */
static const uint16_t *counter_apis;
static uint32_t counter_slots;

void thread_set_counter_apis(const uint16_t *api_of_slot, uint32_t slots)
{
	counter_apis = api_of_slot;
	counter_slots = slots < COUNTER_SLOTS ? slots : COUNTER_SLOTS;
}

/* Copy a record without a text to the next free slot, which there must be. */
static void put_record(struct thread_segment *self, const struct record *record)
{
	self->chunk->record[self->written] = *record;
	segment_publish(self, 1);
}

static void put_name(struct thread_segment *self)
{
	struct record *slot = &self->chunk->record[self->written];
	char name[RECORD_BYTES] = "";

	prctl(PR_GET_NAME, name);
	slot[0] = (struct record){
		.start = clock_ticks(self->clock),
		.kind = RECORD_THREAD,
		.text_slots = 1,
	};
	memcpy(&slot[1], name, sizeof(name));
	segment_publish(self, 2);
	identity.is_named = true;
}

/* The gap ends where the last record was lost, so that this thread's starts stay in order. */
static void put_gap(struct thread_segment *self)
{
	struct counter_block *counters = self->counters;
	uint64_t last = atomic_load_explicit(&counters->lost_to, memory_order_relaxed);
	struct record gap = {
		.start = last,
		.kind = RECORD_GAP,
		.a = atomic_load_explicit(&counters->lost, memory_order_relaxed),
		.b = atomic_load_explicit(&counters->lost_from, memory_order_relaxed),
		.c = last,
	};

	put_record(self, &gap);
	atomic_store_explicit(&counters->lost, 0, memory_order_relaxed);
	atomic_store_explicit(&counters->lost_from, 0, memory_order_relaxed);
	atomic_store_explicit(&counters->lost_to, 0, memory_order_relaxed);
}

static bool has_gap(const struct thread_segment *self)
{
	return self->counters && atomic_load_explicit(&self->counters->lost, memory_order_relaxed);
}

/*
 * A chunk on another clock needs a new block: ticks of two clocks do not add up.
 * The old block stays in use and is read when the process has ended.
 */
static void take_counters(struct thread_segment *self)
{
	if (self->counters && self->counters->clock == self->clock)
		return;
	self->counters = counter_take(self->thread, identity.tid, self->clock,
				      &self->chunk->header.triple);
}

/* False: there is none; a full chunk is closed all the same, so that it can come back. */
static bool renew_chunk(struct thread_segment *self, const struct trace_control *control)
{
	struct trace_chunk *old = self->chunk, *chunk;
	uint64_t busy_since = 0;

	chunk = chunk_take_records(self->thread, identity.tid,
				   old ? &old->header.triple : &control->start);
	if (old && (chunk || self->written == CHUNK_RECORDS)) {
		busy_since = atomic_load_explicit(&old->header.busy_since, memory_order_relaxed);
		chunk_close(old);
		self->chunk = NULL;
	}
	if (!chunk)
		return false;
	self->chunk = chunk;
	self->written = 0;
	self->clock = chunk->header.clock;
	segment_mark_busy(self, busy_since);
	take_counters(self);
	if (!identity.is_named)
		put_name(self);
	if (has_gap(self))
		put_gap(self);
	return true;
}

static void say_loss(void)
{
	char why[768];

	if (notice_is_spent())
		return;
	chunk_explain(why, sizeof(why));
	notice_once("records are being lost: %s", why);
}

/* Threads without a block share the numbers in the control page. */
static void count_shared_loss(struct trace_control *control, uint64_t now)
{
	uint64_t none = 0;

	atomic_fetch_add_explicit(&control->lost, 1, memory_order_relaxed);
	atomic_compare_exchange_strong_explicit(&control->lost_from, &none, now,
						memory_order_relaxed, memory_order_relaxed);
	atomic_store_explicit(&control->lost_to, now, memory_order_relaxed);
}

static void count_loss(struct thread_segment *self, struct trace_control *control)
{
	uint64_t now = clock_ticks(self->clock);

	say_loss();
	if (!self->counters) {
		count_shared_loss(control, now);
		return;
	}
	if (!atomic_load_explicit(&self->counters->lost, memory_order_relaxed))
		atomic_store_explicit(&self->counters->lost_from, now, memory_order_relaxed);
	atomic_store_explicit(&self->counters->lost_to, now, memory_order_relaxed);
	segment_count(&self->counters->lost, 1);
}

struct record *thread_refill(struct trace_control *control, uint32_t slots)
{
	struct thread_segment *self = &thread_segment;

	if (!renew_chunk(self, control) || self->written + slots > CHUNK_RECORDS) {
		count_loss(self, control);
		return NULL;
	}
	return &self->chunk->record[self->written];
}

/* Written first and cleared then: a kill in between counts twice rather than not at all. */
static void put_counter(struct thread_segment *self, struct trace_counter *counter, uint16_t api)
{
	const struct record record = {
		.start = clock_ticks(self->clock),
		.api = api,
		.kind = RECORD_COUNTER,
		.a = atomic_load_explicit(&counter->calls, memory_order_relaxed),
		.b = atomic_load_explicit(&counter->errors, memory_order_relaxed),
		.c = atomic_load_explicit(&counter->ticks, memory_order_relaxed),
		.stream = atomic_load_explicit(&counter->max_ticks, memory_order_relaxed),
	};

	put_record(self, &record);
	atomic_store_explicit(&counter->calls, 0, memory_order_relaxed);
	atomic_store_explicit(&counter->errors, 0, memory_order_relaxed);
	atomic_store_explicit(&counter->ticks, 0, memory_order_relaxed);
	atomic_store_explicit(&counter->max_ticks, 0, memory_order_relaxed);
}

/* One record per function that this thread called; false: no room for all of them. */
static bool put_counters(struct thread_segment *self, struct trace_control *control)
{
	for (uint32_t i = 0; i < counter_slots; i++) {
		struct trace_counter *counter = &self->counters->counter[i];

		if (!atomic_load_explicit(&counter->calls, memory_order_relaxed))
			continue;
		if (self->written == CHUNK_RECORDS && !renew_chunk(self, control))
			return false;
		put_counter(self, counter, counter_apis[i]);
	}
	return true;
}

static bool tell_counters(struct thread_segment *self, struct trace_control *control)
{
	if (!self->chunk && !renew_chunk(self, control))
		return false;
	if (has_gap(self) && self->written < CHUNK_RECORDS)
		put_gap(self);
	return put_counters(self, control) && !has_gap(self);
}

/*
 * The end of a thread.  In a child of fork the generation differs: chunk and
 * block are those of the parent, which still writes them.  A call that comes
 * later, from the destructor of another key, finds the thread not ready and
 * begins again.  Where there is no chunk to tell the counters in, the block
 * stays in use and is read when the process has ended.
 */
static void end_thread(void *unused)
{
	struct thread_segment *self = &thread_segment;
	struct trace_control *control = process_control();
	int saved_errno = errno;

	(void)unused;
	if (segment_is_ready(self) && control) {
		if (self->counters && tell_counters(self, control))
			counter_give(self->counters);
		if (self->chunk)
			chunk_close(self->chunk);
	}
	self->chunk = NULL;
	self->counters = NULL;
	self->written = 0;
	self->generation = NOT_READY;
	errno = saved_errno;
}

void thread_prepare(void)
{
	if (!has_end_key)
		has_end_key = !pthread_key_create(&end_key, end_thread);
}

static void identify(struct thread_segment *self, uint64_t generation,
		     struct trace_control *control)
{
	if (identity.generation == generation)
		return;
	identity.generation = generation;
	identity.tid = (uint32_t)syscall(SYS_gettid);
	identity.is_named = false;
	self->thread = 1 + atomic_fetch_add_explicit(&control->threads, 1, memory_order_relaxed);
}

/* Ready comes first: what follows must not begin again if it gets here a second time. */
void thread_begin(uint64_t generation, struct trace_control *control)
{
	struct thread_segment *self = &thread_segment;

	self->generation = generation;
	self->chunk = NULL;
	self->counters = NULL;
	self->written = 0;
	self->clock = CLOCK_TICKS_TSC;
	if (!control)
		return;
	self->clock = chunk_clock();
	identify(self, generation, control);
	/* Allocates only where the program has made 32 keys before its first driver call. */
	if (has_end_key)
		pthread_setspecific(end_key, self);
	renew_chunk(self, control);
}
