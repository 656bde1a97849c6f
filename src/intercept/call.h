/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - the frame around every call of the program into the driver.
 *
 * A wrapper begins a call, makes the real one, lets a hook say what it meant
 * and ends the call.  Only the outermost call of a thread is the program's:
 * while one is open, call_begin() refuses and the wrapper goes straight to the
 * driver.  Everything here is inline because it is what the program pays.
 */
#ifndef CUSTODY_INTERCEPT_CALL_H
#define CUSTODY_INTERCEPT_CALL_H

#include "core/clock.h"
#include "core/segment.h"
#include "core/tracker.h"
#include "intercept/caller.h"
#include "intercept/driver_table.h"
#include "intercept/uncovered.h"

struct deferq;
struct graph_work;

struct call {
	struct thread_segment *self;
	uint64_t start; /* ticks */
	uint64_t ticks; /* the real call took */
	const void *caller;
	CUresult result;
	uint16_t api;
	uint8_t flags;	    /* of the next record; RECORD_MORE once there was one */
	uint8_t attempts;   /* of a call that has run out of memory before */
	uint8_t refusal;    /* enum failure_why: the driver was not asked */
	bool has_taken;	    /* an around hook holds `taken` */
	bool is_forwarded;  /* a free that the driver has, counted in deferral_forwarded */
	uint8_t weighed;    /* enum reading_weighed, where driver.tbl says `weigh` ... */
	uint64_t weighed_at; /* ... and what was free before, or the context that is new */
	uint64_t weighed_blocks; /* that there were before */
	uint8_t finding;    /* enum finding_kind: a guard found `taken` pending ... */
	uint64_t named;	    /* ... at this address, which the program named */
	struct block taken; /* out of the tracker while the driver frees it */
	struct deferq *queue; /* of the context that is synchronised, or NULL */
	uint64_t mark;	      /* of that queue, from before */
	struct graph_work *work; /* of an executable graph that is destroyed, or NULL */
};

#define CALLER __builtin_return_address(0)

/*
 * The first call of a thread, of a process, of a child of fork, or a nested
 * one.  True: the call is the program's, and open.
 */
bool call_enter(struct thread_segment *self);

static inline bool call_is_open(struct thread_segment *self)
{
	return __builtin_expect(segment_is_ready(self) && !self->in_call, 1) || call_enter(self);
}

/* Calls that libcustody makes for the program are told where the program called it. */
static inline const void *call_caller(const struct thread_segment *self, const void *caller)
{
	return __builtin_expect(self->caller != NULL, 0) ? self->caller : caller;
}

static inline bool call_begin(struct call *call, enum api api, const void *caller)
{
	struct thread_segment *self = &thread_segment;

	if (!call_is_open(self))
		return false;
	self->in_call = 1;
	call->self = self;
	call->caller = call_caller(self, caller);
	call->api = (uint16_t)api;
	call->flags = 0;
	call->attempts = 0;
	call->refusal = FAILURE_DRIVER;
	call->start = clock_ticks(self->clock);
	segment_mark_busy(self, call->start);
	return true;
}

/* The clock may step back a little between two CPUs. */
static inline void call_returned(struct call *call, CUresult result)
{
	uint64_t now = clock_ticks(call->self->clock);

	call->ticks = now > call->start ? now - call->start : 0;
	call->result = result;
}

/* NOT_READY answers a question; it is no failure. */
static inline bool call_has_failed(const struct call *call)
{
	return call->result != CUDA_SUCCESS && call->result != CUDA_ERROR_NOT_READY;
}

static inline void call_set_duration(struct record *record, uint64_t ticks)
{
	if (__builtin_expect(ticks > UINT32_MAX, 0)) {
		record->flags |= RECORD_LONG;
		ticks >>= 10;
	}
	record->duration = ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
}

/*
 * Between two calls of the program something has the driver asked and records
 * written as a call would, on the account of `api`.  False: a call is open.  Ends
 * with call_end().
 */
bool call_open(struct call *call, enum api api, const void *caller);

/*
 * When something was met that belongs to no call, but was met during one: the
 * records of a thread stay in the order of their starts.
 */
uint64_t call_moment(void);

/* What a hook knows beside the call itself; the fields are those of struct record. */
struct call_facts {
	uint64_t a, b, c;
	uint64_t stream;
	uint32_t context;
	uint16_t aux;
	uint8_t kind;
	uint8_t flags;
};

static inline void call_write(struct call *call, const struct call_facts *facts)
{
	struct thread_segment *self = call->self;
	struct record *record;

	caller_note(call->caller);
	record = segment_reserve(self, 1);
	if (__builtin_expect(!record, 0))
		return;
	record->start = call->start;
	record->api = call->api;
	record->kind = facts->kind;
	record->flags = facts->flags | call->flags;
	call_set_duration(record, call->ticks);
	record->a = facts->a;
	record->b = facts->b;
	record->c = facts->c;
	record->stream = facts->stream;
	record->caller_context =
		((uint64_t)(uintptr_t)call->caller & ((UINT64_C(1) << RECORD_CALLER_BITS) - 1)) |
		(uint64_t)facts->context << RECORD_CALLER_BITS;
	record->stack = 0;
	record->result = (uint16_t)call->result;
	record->aux = facts->aux;
	segment_publish(self, 1);
	call->flags |= RECORD_MORE;
}

/* Record the driver functions that were handed out unwrapped since the last time. */
void call_write_uncovered(void);

static inline CUresult call_end(struct call *call)
{
	if (__builtin_expect(uncovered_is_pending(), 0))
		call_write_uncovered();
	segment_mark_busy(call->self, 0);
	call->self->in_call = 0;
	return call->result;
}

/* A counted call that failed; its failure is recorded, the call itself is in the counters. */
void call_write_failure(struct call *call, unsigned int slot);

/* Calls that are only counted: no time stamp, no record. */
static inline bool call_begin_counted(struct call *call, enum api api, const void *caller)
{
	struct thread_segment *self = &thread_segment;

	if (!call_is_open(self))
		return false;
	self->in_call = 1;
	call->self = self;
	call->caller = call_caller(self, caller);
	call->api = (uint16_t)api;
	call->flags = RECORD_MORE;
	call->attempts = 0;
	call->refusal = FAILURE_DRIVER;
	call->start = 0;
	call->ticks = 0;
	return true;
}

static inline void call_returned_counted(struct call *call, CUresult result)
{
	call->result = result;
}

/* All that is told of a counted call; behind it readings may follow, then call_close(). */
static inline void call_count_counted(struct call *call, unsigned int slot)
{
	struct counter_block *counters = call->self->counters;

	if (__builtin_expect(counters != NULL, 1))
		segment_count(&counters->counter[slot].calls, 1);
	if (__builtin_expect(call_has_failed(call), 0))
		call_write_failure(call, slot);
}

static inline CUresult call_close(struct call *call)
{
	call->self->in_call = 0;
	return call->result;
}

static inline CUresult call_end_counted(struct call *call, unsigned int slot)
{
	call_count_counted(call, slot);
	return call_close(call);
}

/* Calls that are counted and timed. */
static inline bool call_begin_timed(struct call *call, enum api api, const void *caller)
{
	return call_begin(call, api, caller);
}

static inline void call_returned_timed(struct call *call, CUresult result)
{
	call_returned(call, result);
}

static inline void call_count_timed(struct call *call, unsigned int slot)
{
	struct counter_block *counters = call->self->counters;

	if (__builtin_expect(counters != NULL, 1)) {
		struct trace_counter *counter = &counters->counter[slot];

		segment_count(&counter->ticks, call->ticks);
		if (call->ticks > atomic_load_explicit(&counter->max_ticks, memory_order_relaxed))
			atomic_store_explicit(&counter->max_ticks, call->ticks,
					      memory_order_relaxed);
	}
	segment_mark_busy(call->self, 0);
	call_count_counted(call, slot);
}

static inline CUresult call_end_timed(struct call *call, unsigned int slot)
{
	call_count_timed(call, slot);
	return call_close(call);
}

#endif
