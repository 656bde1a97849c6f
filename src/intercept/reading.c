/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/reading.h"
#include "core/context.h"
#include "core/gate.h"
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/green.h"
#include "intercept/pool_list.h"
#include "intercept/real.h"

#include <errno.h>
#include <stdlib.h>

/*
 * So many questions of the program are recorded each; of one that asks without
 * end, those that are due.
 */
enum { QUESTIONS = 10000, DEVICES = 255 };

struct reading {
	enum reading_moment moment;
	enum reading_weighed weighed;
	uint64_t start; /* with the time it took, the moment of the answer */
	bool is_alone;	/* no call in flight is marked meanwhile but this */
	uint64_t is_free;
	uint64_t total;
	uint64_t pools;
	uint64_t graphs;
};

_Atomic uint16_t reading_idle[API_COUNT];

static _Atomic uint32_t questions;
static _Atomic bool is_armed, has_ended;

static void put(const struct call *call, const struct reading *reading, const struct current *now)
{
	uint64_t end = clock_ticks(call->self->clock);
	struct record *record = segment_reserve(call->self, 1);

	if (!record)
		return;
	*record = (struct record){
		.start = reading->start,
		.api = call->api,
		.kind = RECORD_READING,
		.flags = RECORD_MORE |
			 (reading->moment == READING_ASKED ? 0 : RECORD_BY_CUSTODY),
		.a = reading->is_free,
		.b = reading->total,
		.c = reading->pools,
		.stream = reading->graphs,
		.caller_context = ((uint64_t)(uintptr_t)call->caller &
				   ((UINT64_C(1) << RECORD_CALLER_BITS) - 1)) |
				  (uint64_t)now->number << RECORD_CALLER_BITS,
		.aux = AUX_READING(now->device, reading->moment, reading->weighed),
	};
	call_set_duration(record, end > reading->start ? end - reading->start : 0);
	segment_publish(call->self, 1);
}

/* A driver that knows no memory, as one that does nothing, has nothing to say. */
static bool ask_memory(struct reading *reading)
{
	size_t is_free = 0, total = 0;

	if (!real_has(API_cuMemGetInfo_v2) ||
	    REAL(driver, cuMemGetInfo_v2)(&is_free, &total) != CUDA_SUCCESS || !total)
		return false;
	reading->is_free = is_free;
	reading->total = total;
	return true;
}

static uint64_t ask_graphs(CUdevice device)
{
	cuuint64_t bytes = 0;

	if (real_has(API_cuDeviceGetGraphMemAttribute) &&
	    REAL(driver, cuDeviceGetGraphMemAttribute)(
		    device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes) == CUDA_SUCCESS)
		return bytes;
	return READING_UNKNOWN;
}

/* Inside the gate. */
static void ask_reserved(struct reading *reading, CUdevice device)
{
	int before = capture_ignore();

	reading->pools = pool_list_reserved(device);
	reading->graphs = ask_graphs(device);
	capture_mind(before);
}

/*
 * Records of a thread stay in the order of their starts: whatever else is told
 * of this call comes behind the reading.  A counted call is not marked as in
 * flight by itself; the reading is, from ahead of its start until it is told, or
 * the collector would go past it.
 */
static void begin(struct call *call, struct reading *reading)
{
	struct thread_segment *self = call->self;
	bool has_start = reading->start;
	uint64_t now = has_start ? reading->start : clock_ticks(self->clock);

	reading->is_alone = !atomic_load_explicit(&self->chunk->header.busy_since,
						  memory_order_relaxed);
	if (reading->is_alone || !has_start)
		segment_mark_busy(self, now);
	if (!has_start)
		reading->start = reading->is_alone ? clock_ticks(self->clock) : now;
}

static void finish(const struct call *call, const struct reading *reading)
{
	if (reading->is_alone)
		segment_mark_busy(call->self, 0);
}

static bool ask_all(struct reading *reading, CUdevice device)
{
	bool is_asked;

	if (!gate_enter())
		return false;
	is_asked = ask_memory(reading);
	if (is_asked)
		ask_reserved(reading, device);
	gate_leave();
	return is_asked;
}

/* The current context, where a reading can be recorded; NULL: none is taken. */
static const struct current *find_place(const struct call *call)
{
	const struct current *now;

	if (!call->self->chunk)
		return NULL;
	if (call->caller)
		caller_note(call->caller);
	now = current_ask();
	return now->number && now->device >= 0 && now->device < DEVICES && call->self->chunk ? now :
											       NULL;
}

static bool take(struct call *call, struct reading *reading)
{
	int saved_errno = errno;
	const struct current *now = gate_is_shut() ? NULL : find_place(call);
	bool is_taken = false;

	if (now) {
		begin(call, reading);
		is_taken = ask_all(reading, now->device);
		if (is_taken)
			put(call, reading, now);
		finish(call, reading);
	}
	errno = saved_errno;
	return is_taken;
}

/* As a visitor of the context, which may be the current one already. */
static bool take_there(struct call *call, uint64_t handle, struct reading *reading)
{
	CUcontext context = (CUcontext)(uintptr_t)handle;
	int saved_errno = errno;
	bool is_taken = false;

	if (current_ask()->handle == handle)
		return take(call, reading);
	if (REAL(driver, cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS) {
		is_taken = take(call, reading);
		REAL(driver, cuCtxPopCurrent_v2)(&context);
		current_forget();
	}
	errno = saved_errno;
	return is_taken;
}

/*
 * The device of another context than the current one can be asked in that context
 * only.  One that another thread is about to end is left alone, even if it is the
 * current one.
 */
static bool take_in(struct call *call, const struct context *context, struct reading *reading)
{
	bool is_taken;

	if (gate_is_shut() || !context_visit(context->number))
		return false;
	is_taken = take_there(call, context->handle, reading);
	context_leave(context->number);
	return is_taken;
}

static bool is_kept(const struct call *call, int device)
{
	if (atomic_load_explicit(&questions, memory_order_relaxed) >= QUESTIONS)
		return pace_claim(device, call->self->clock);
	atomic_fetch_add_explicit(&questions, 1, memory_order_relaxed);
	return true;
}

void reading_asked(struct call *call, uint64_t is_free, uint64_t total)
{
	struct reading reading = {
		.moment = READING_ASKED,
		.is_free = is_free,
		.total = total,
		.pools = READING_UNKNOWN,
		.graphs = READING_UNKNOWN,
	};
	int saved_errno = errno;
	const struct current *now = find_place(call);

	if (now) {
		begin(call, &reading);
		if (is_kept(call, now->device)) {
			if (gate_enter()) {
				ask_reserved(&reading, now->device);
				gate_leave();
			}
			put(call, &reading, now);
		}
		finish(call, &reading);
	}
	errno = saved_errno;
}

void reading_take_quiet(struct call *call)
{
	struct reading reading = { .moment = READING_QUIET };

	if (call->self->chunk && !gate_is_shut() &&
	    pace_claim(current_ask()->device, call->self->clock))
		take(call, &reading);
}

void reading_take_out_of_memory(struct call *call)
{
	struct reading reading = { .moment = READING_OOM };

	take(call, &reading);
}

/* The reading's time is not the call's. */
static void begin_again(struct call *call)
{
	if (!call->start)
		return;
	call->start = clock_ticks(call->self->clock);
	segment_mark_busy(call->self, call->start);
}

void reading_weigh(struct call *call, enum reading_weighed weighed, unsigned int idle)
{
	struct reading reading = { .moment = READING_BEFORE, .weighed = weighed };

	if (!reading_is_worth(call->api, idle) || !take(call, &reading))
		return;
	call->weighed = (uint8_t)weighed;
	call->weighed_at = reading.is_free;
	call->weighed_blocks = tracker_count();
	begin_again(call);
}

/* Two threads that count at once may lose one: it is no more than a rate. */
static void note_growth(const struct call *call, uint64_t is_free)
{
	_Atomic uint16_t *idle = &reading_idle[call->api];
	unsigned int next = atomic_load_explicit(idle, memory_order_relaxed);

	if (is_free == call->weighed_at)
		next += READING_UNCLEAR;
	else if (tracker_count() != call->weighed_blocks)
		next++;
	else
		next = 0;
	atomic_store_explicit(idle, (uint16_t)next, memory_order_relaxed);
}

/* What there was before the context somebody else may know, as of the start of the call. */
static void weigh_context(struct call *call, struct reading *reading)
{
	struct context context;

	reading->start = call->start;
	if (context_find(call->weighed_at, &context))
		take_in(call, &context, reading);
}

void reading_weigh_again(struct call *call)
{
	struct reading reading = {
		.moment = READING_AFTER,
		.weighed = (enum reading_weighed)call->weighed,
	};

	if (call->weighed == WEIGHED_CONTEXT)
		weigh_context(call, &reading);
	else if (take(call, &reading))
		note_growth(call, reading.is_free);
}

/* Nothing of the call in flight may be told yet, so its start is that of the reading. */
static bool take_own(struct call *own, struct reading *reading)
{
	bool is_taken;

	reading->start = call_moment();
	is_taken = take(own, reading);
	current_forget();
	return is_taken;
}

void reading_own_before(struct call *own, enum api api, enum reading_weighed weighed)
{
	struct reading reading = { .moment = READING_BEFORE, .weighed = weighed };

	*own = (struct call){ .self = &thread_segment, .api = (uint16_t)api };
	if (!reading_is_worth(own->api, READING_IDLE) || !take_own(own, &reading))
		return;
	own->weighed = (uint8_t)weighed;
	own->weighed_at = reading.is_free;
	own->weighed_blocks = tracker_count();
}

void reading_own_after(struct call *own)
{
	struct reading reading = {
		.moment = READING_AFTER,
		.weighed = (enum reading_weighed)own->weighed,
	};

	if (own->weighed != WEIGHED_NOTHING && take_own(own, &reading))
		note_growth(own, reading.is_free);
	own->weighed = WEIGHED_NOTHING;
}

void reading_before_end(struct call *call, uint32_t number, bool is_certain)
{
	struct reading reading = { .moment = READING_QUIET };
	struct context context;

	if (!context_get(number, &context) || !call->self->chunk)
		return;
	if (!is_certain &&
	    !(pace_is_over(call->start) && pace_claim(context.device, call->self->clock)))
		return;
	if (take_in(call, &context, &reading))
		begin_again(call);
}

/*
 * Once per device, in whichever of its living contexts still answers.  A view of a
 * green context shows the primary one's memory, and may end without it.
 */
static void read_devices(struct call *call)
{
	bool is_read[DEVICES] = { false };
	struct context context;

	for (uint32_t number = 1; context_get(number, &context); number++) {
		struct reading reading = { .moment = READING_EXIT };
		int device = context.device;

		if (!context.is_dead && device >= 0 && device < DEVICES && !is_read[device] &&
		    !green_primary(context.handle))
			is_read[device] = take_in(call, &context, &reading);
	}
}

/*
 * A child of fork that has not recorded reads generation 0: what its parent has
 * registered is none of its business.
 */
static void read_at_exit(void)
{
	struct call call;

	if (!atomic_load_explicit(process_generation, memory_order_relaxed) ||
	    atomic_exchange(&has_ended, true) || !call_begin(&call, API_cuInit, NULL))
		return;
	call.result = CUDA_SUCCESS;
	read_devices(&call);
	call_end(&call);
}

/* Handlers run last first: this one ahead of the driver's own, which ends it. */
void reading_arm_exit(void)
{
	int saved_errno = errno;

	if (!atomic_exchange(&is_armed, true))
		atexit(read_at_exit);
	errno = saved_errno;
}

void reading_reset(void)
{
	for (int i = 0; i < API_COUNT; i++)
		atomic_store_explicit(&reading_idle[i], 0, memory_order_relaxed);
	atomic_store(&questions, 0);
	atomic_store(&is_armed, false);
	atomic_store(&has_ended, false);
	first_use_reset();
	pace_reset();
	pool_list_reset();
}
