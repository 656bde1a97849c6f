/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/call.h"
#include "core/option.h"
#include "intercept/capture.h"
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/engine.h"
#include "intercept/exclude.h"
#include "intercept/graph_work.h"
#include "intercept/gpu_times.h"
#include "intercept/green.h"
#include "intercept/hold.h"
#include "intercept/hook.h"
#include "intercept/linked.h"
#include "intercept/module.h"
#include "intercept/nvtx.h"
#include "intercept/owned.h"
#include "intercept/place.h"
#include "intercept/reading.h"
#include "intercept/room.h"

#include <errno.h>
#include <string.h>

/* This image has made a call; its child of fork inherits that, with all we know. */
static _Atomic bool has_called;

/* A signal handler may make a driver call while this thread is being set up. */
static __thread volatile bool is_entering __attribute__((tls_model("initial-exec")));

/* What core keeps it has dropped itself, before this thread came back from it. */
static void forget_parent(void)
{
	capture_reset();
	caller_reset();
	current_reset();
	deferral_reset();
	engine_reset();
	exclude_reset();
	graph_work_reset();
	gpu_times_reset();
	green_reset();
	hold_reset();
	module_reset();
	nvtx_reset();
	owned_reset();
	place_reset();
	reading_reset();
	room_reset();
	uncovered_rewind();
}

static void describe_writer(void)
{
	static _Atomic bool is_done;

	if (atomic_exchange(&is_done, true))
		return;
	deferral_start();
	segment_set_policy(option_text(OPTION_FREES));
	room_start();
	segment_set_counter_apis(api_of_slot, SLOT_COUNT, API_COUNT);
}

/*
 * Where nothing is recorded a thread gets ready all the same, without a chunk:
 * its calls must reach a neighbour, and only an open call cuts the ring that we
 * could make with one.
 */
static void enter_thread(struct thread_segment *self)
{
	bool is_new_process;

	describe_writer();
	is_new_process = segment_enter();
	if (is_new_process && atomic_exchange(&has_called, true))
		forget_parent();
	self->in_call = 0;
	current_forget();
}

bool call_enter(struct thread_segment *self)
{
	int saved_errno = errno;

	if (is_entering || (segment_is_ready(self) && self->in_call))
		return false;
	is_entering = true;
	enter_thread(self);
	is_entering = false;
	errno = saved_errno;
	return true;
}

bool call_open(struct call *call, enum api api, const void *caller)
{
	struct thread_segment *self = &thread_segment;

	if (!call_is_open(self))
		return false;
	self->in_call = 1;
	*call = (struct call){
		.self = self,
		.start = clock_ticks(self->clock),
		.caller = call_caller(self, caller),
		.api = (uint16_t)api,
		.flags = RECORD_MORE,
	};
	segment_mark_busy(self, call->start);
	return true;
}

uint64_t call_moment(void)
{
	const struct trace_chunk *chunk = thread_segment.chunk;
	uint64_t start = 0;

	if (chunk)
		start = atomic_load_explicit(&chunk->header.busy_since, memory_order_relaxed);
	return start ? start : clock_ticks(thread_segment.clock);
}

void call_write_uncovered(void)
{
	struct uncovered uncovered;

	while (uncovered_next(&uncovered)) {
		const struct record record = {
			.start = call_moment(),
			.kind = RECORD_UNCOVERED,
			.a = uncovered.address,
			.b = (uint64_t)uncovered.version,
			.c = uncovered.flags,
		};

		segment_write_text(&record, uncovered.name, strlen(uncovered.name) + 1);
	}
}

void call_write_failure(struct call *call, unsigned int slot)
{
	struct counter_block *counters = call->self->counters;

	if (counters)
		segment_count(&counters->counter[slot].errors, 1);
	if (!call->start)
		call->start = clock_ticks(call->self->clock);
	call->flags = 0;
	call_write(call, &(struct call_facts){ .kind = RECORD_QUERY, .context = current_number() });
	reading_out_of_memory(call);
}

/* What is linked with libcuda and came after the first look. */
static void note_linked(void)
{
	struct thread_segment *self = &thread_segment;

	linked_note();
	if (uncovered_is_pending() && call_is_open(self))
		call_write_uncovered();
}

/*
 * The last word of the image.  A destructor comes after the program's own exit
 * handlers, whose calls are recorded still.  A child of fork that has not
 * recorded reads generation 0 and has nothing to end.
 */
static __attribute__((destructor)) void end_image(void)
{
	if (!atomic_load(&has_called) ||
	    !atomic_load_explicit(process_generation, memory_order_relaxed))
		return;
	note_linked();
	segment_end(CONTROL_EXITED);
}
