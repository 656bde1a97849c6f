/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table by which libcustody works through this copy of the frame: its own one,
 * or that of a preload, of which there is one in the process then.
 */
#include "intercept/engine.h"
#include "core/context.h"
#include "core/gate.h"
#include "core/process.h"
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/deferral_error.h"
#include "intercept/green.h"
#include "intercept/hook.h"
#include "intercept/real.h"
#include "intercept/uncovered.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RATE_LEAST_NS UINT64_C(100000) /* a rate of ticks over less is none */

/* Captures for which capture_begin() has shut the gate. */
static _Atomic uint32_t captures;

/* From when on the rate of ticks is reckoned. */
static struct clock_triple base;

static uint64_t ask_generation(void)
{
	const _Atomic uint64_t *generation;

	process_recheck();
	generation = atomic_load_explicit(&process_generation, memory_order_acquire);
	return atomic_load_explicit(generation, memory_order_relaxed);
}

/* In a child of fork that has made no call nothing is done, not even that. */
static bool enter(struct call *call, enum api api, const void *caller)
{
	return ask_generation() && call_open(call, api, caller);
}

static bool open_driver(char *why, size_t bytes)
{
	int saved_errno = errno;
	bool is_open = real_open();
	const char *reason = is_open ? NULL : dlerror();

	if (!is_open)
		snprintf(why, bytes, "there is no CUDA driver: %s",
			 reason ? reason : "libcuda.so.1 is another library");
	errno = saved_errno;
	return is_open;
}

static int row_of(const char *symbol)
{
	for (int row = 0; row < API_COUNT; row++)
		if (!strcmp(api_symbol[row], symbol))
			return row;
	return -1;
}

/* What we do not stand in front of is told of, as where a program looks it up. */
static void *find(const char *symbol)
{
	int row = row_of(symbol);
	int saved_errno = errno;
	void *function;

	if (row >= 0)
		return real_has((enum api)row) ? api_wrapper[row] : NULL;
	function = real_symbol(symbol);
	if (function)
		uncovered_note(function, symbol, 0, 0);
	errno = saved_errno;
	return function;
}

static int record(const char *path)
{
	int saved_errno = errno;
	int error = process_is_library() ? process_record(path) : 0;

	errno = saved_errno;
	return error;
}

static bool is_recording(void)
{
	int saved_errno = errno;
	bool is_recorded = process_is_recorded();

	errno = saved_errno;
	return is_recorded;
}

static void mark(bool is_library)
{
	deferral_is_library = is_library;
}

static const void *from(const void *caller)
{
	const void *before = thread_segment.caller;

	thread_segment.caller = caller;
	return before;
}

/* The memory of a green context is that of the device's primary one. */
static uint32_t meet(CUcontext handle, int device, bool is_primary)
{
	uint64_t number_of_handle = (uintptr_t)handle;
	uint32_t number, primary;
	struct call call;

	if (!handle || !enter(&call, API_cuCtxGetCurrent, CALLER))
		return 0;
	number = current_meet(number_of_handle, device, is_primary);
	primary = green_primary(number_of_handle);
	if (primary)
		number = primary;
	deferral_meet(number_of_handle, number, device);
	call_end(&call);
	return number;
}

static bool is_alive(uint32_t number)
{
	struct context context;

	return context_get(number, &context) && !context.is_dead;
}

static void end_number(uint32_t number, bool lives_on)
{
	int saved_errno = errno;
	struct call call;

	if (!enter(&call, API_cuCtxGetCurrent, CALLER))
		return;
	hook_context_bury(&call, number, lives_on);
	call_end(&call);
	errno = saved_errno;
}

static void bury(uint32_t number)
{
	end_number(number, false);
}

static void part(uint32_t number)
{
	if (process_is_library())
		end_number(number, true);
}

/* A capture of the stream would live on, and with one live nothing is released. */
static bool may_retire(enum deferq_kind kind)
{
	return kind == DEFERQ_EVENT || (kind == DEFERQ_STREAM && !gate_is_shut());
}

/* The call that the program does not make is told as if it had been made. */
static bool retire(uint32_t context, enum deferq_kind kind, uint64_t handle, const void *caller)
{
	const struct deferq_item item = {
		.handle = handle,
		.kind = (uint8_t)kind,
		.caller = caller,
		.is_nowait = true,
	};
	enum api api = kind == DEFERQ_STREAM ? API_cuStreamDestroy_v2 : API_cuEventDestroy_v2;
	struct deferq *queue = deferq_find(context);
	struct deferq_report report = { 0 };
	int saved_errno = errno;
	struct call call;
	uint64_t waited;
	CUresult result;
	bool is_queued;

	if (!queue || !may_retire(kind) || !enter(&call, api, caller))
		return false;
	call.flags = 0;
	call.caller = caller;
	is_queued = deferq_add(queue, &item, &result, &waited, &report) == DEFERQ_QUEUED;
	if (is_queued) {
		call_returned(&call, CUDA_SUCCESS);
		hook_operation(&call, handle, 0, 0, STREAM_NONE);
	}
	deferral_tell(&call, &report);
	call_end(&call);
	errno = saved_errno;
	return is_queued;
}

static void suspend(uint32_t context)
{
	struct deferq *queue = ask_generation() ? deferq_find(context) : NULL;

	if (queue)
		deferq_suspend(queue);
}

static enum deferq_leave leave_of(enum engine_leave leave)
{
	switch (leave) {
	case ENGINE_LEAVE_ALONE:
		return DEFERQ_LEAVE_ALONE;
	case ENGINE_LEAVE_FLUSH:
		return DEFERQ_LEAVE_FLUSH;
	case ENGINE_LEAVE_IF_OVER:
		break;
	}
	return DEFERQ_LEAVE_IF_OVER;
}

static bool resume(uint32_t context, enum engine_leave leave)
{
	struct deferq *queue = deferq_find(context);
	struct deferq_report report = { 0 };
	int saved_errno = errno;
	struct call call;
	bool was_open;

	if (!queue || !enter(&call, API_cuCtxGetCurrent, CALLER))
		return false;
	was_open = deferq_leave_scope(queue, leave_of(leave), &report);
	deferral_tell(&call, &report);
	call_end(&call);
	errno = saved_errno;
	return was_open;
}

static CUresult first_failure(const struct deferq_report *report)
{
	const struct deferq_item *item = report->items;

	while (item && !item->result)
		item = item->next;
	return item ? (CUresult)item->result : CUDA_SUCCESS;
}

/* A capture that begins during a wait ends the flush. */
static bool flush(uint32_t context, bool does_wait, CUresult *result)
{
	struct deferq *queue = deferq_find(context);
	struct deferq_report report = { 0 };
	int saved_errno = errno;
	struct call call;

	*result = CUDA_SUCCESS;
	if (gate_is_shut())
		return false;
	if (!queue || !enter(&call, API_cuCtxGetCurrent, CALLER))
		return true;
	deferq_flush(queue, does_wait, &report);
	*result = first_failure(&report);
	deferral_tell(&call, &report);
	call_end(&call);
	errno = saved_errno;
	return true;
}

static bool statistics(uint32_t context, struct deferq_statistics *copied)
{
	struct deferq *queue = ask_generation() ? deferq_find(context) : NULL;

	if (queue)
		deferq_statistics(queue, copied);
	return queue != NULL;
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	struct clock_triple now;

	if (clock_choose() == CLOCK_TICKS_MONOTONIC)
		return ticks;
	do
		clock_read_triple(&now, clock_choose());
	while (now.monotonic_ns - base.monotonic_ns < RATE_LEAST_NS);
	return (uint64_t)((double)ticks * (double)(now.monotonic_ns - base.monotonic_ns) /
			  (double)(now.ticks - base.ticks));
}

static void limits(struct engine_limits *copied)
{
	struct deferq_limits now;

	deferral_limits(&now);
	*copied = (struct engine_limits){ now.max_count, now.max_ratio, now.is_strict };
}

static void set_limits(const struct engine_limits *given)
{
	deferral_set_limits(&(struct deferq_limits){ given->max_count, given->max_ratio,
						     given->is_strict });
}

static bool is_capturing(void)
{
	return gate_is_shut();
}

/* Whoever has a call open is inside one of the driver's, and collects nothing. */
static void capture_begin(void)
{
	int saved_errno = errno;
	struct call call;

	if (!ask_generation())
		return;
	atomic_fetch_add(&captures, 1);
	if (call_open(&call, API_cuStreamBeginCapture_v2, CALLER)) {
		deferral_shut_gate(&call);
		call_end(&call);
	} else {
		gate_shut();
	}
	errno = saved_errno;
}

/* One that began in the parent of this process has not shut its gate. */
static void capture_end(void)
{
	uint32_t open = atomic_load(&captures);

	if (!ask_generation())
		return;
	while (open && !atomic_compare_exchange_weak(&captures, &open, open - 1))
		continue;
	if (open)
		gate_open();
}

static CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode)
{
	int saved_errno = errno;

	if (ask_generation() && real_has(API_cuThreadExchangeStreamCaptureMode))
		REAL(driver, cuThreadExchangeStreamCaptureMode)(&mode);
	errno = saved_errno;
	return mode;
}

void engine_reset(void)
{
	atomic_store(&captures, 0);
}

/* All but the second is the same in every copy. */
static struct engine engine = {
	.version = ENGINE_VERSION,
	.open = open_driver,
	.find = find,
	.record = record,
	.is_recording = is_recording,
	.generation = ask_generation,
	.mark = mark,
	.from = from,
	.meet = meet,
	.is_alive = is_alive,
	.bury = bury,
	.part = part,
	.retire = retire,
	.suspend = suspend,
	.resume = resume,
	.flush = flush,
	.statistics = statistics,
	.ticks_to_ns = ticks_to_ns,
	.limits = limits,
	.set_limits = set_limits,
	.errors = deferral_error_take,
	.is_capturing = is_capturing,
	.capture_begin = capture_begin,
	.capture_end = capture_end,
	.exchange_mode = exchange_mode,
};

/* Its caller asks once, ahead of all that it does, and keeps the answer. */
const struct engine *custody_engine(uint32_t version)
{
	if (version != ENGINE_VERSION)
		return NULL;
	if (!base.ticks)
		clock_read_triple(&base, clock_choose());
	engine.is_preload = !process_is_library();
	deferral_serve_library();
	return &engine;
}
