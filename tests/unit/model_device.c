/* SPDX-License-Identifier: Apache-2.0 */
#include "model_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct driver model_driver;
struct model_state model;
_Thread_local struct model_thread model_thread;
enum model_plain model_plain;

static _Atomic bool has_complaint;
static char complaint[256];

void model_complain(const char *format, ...)
{
	va_list arguments;

	if (atomic_exchange(&has_complaint, true))
		return;
	va_start(arguments, format);
	vsnprintf(complaint, sizeof(complaint), format, arguments);
	va_end(arguments);
	fprintf(stderr, "model: %s\n", complaint);
}

const char *model_complaint(void)
{
	return atomic_load(&has_complaint) ? complaint : NULL;
}

void model_raise_to(_Atomic uint64_t *number, uint64_t value)
{
	uint64_t found = LOAD(*number);

	while (found < value &&
	       !atomic_compare_exchange_weak_explicit(number, &found, value, memory_order_relaxed,
						      memory_order_relaxed))
		continue;
}

struct thing *model_find_thing(uint64_t handle)
{
	uint64_t number = (handle - FIRST_HANDLE) / HANDLE_STEP;

	if (handle < FIRST_HANDLE || number >= LOAD(model.thing_count) || handle % HANDLE_STEP) {
		model_complain("no such handle: %#llx", (unsigned long long)handle);
		return &model.things[MODEL_THINGS - 1];
	}
	return &model.things[number];
}

void model_reset(void)
{
	model_driver = model_functions;
	memset(model.things, 0, atomic_load(&model.thing_count) * sizeof(*model.things));
	memset(model.events, 0, atomic_load(&model.event_count) * sizeof(*model.events));
	memset(model.streams, 0, sizeof(model.streams));
	memset(model.contexts, 0, sizeof(model.contexts));
	memset(model.functions, 0, sizeof(model.functions));
	memset(&model_thread, 0, sizeof(model_thread));
	memset(model.watched, 0, sizeof(model.watched));
	model.watched_count = 0;
	model_plain = MODEL_PLAIN_WORKS;
	atomic_store(&model.thing_count, 1);
	atomic_store(&model.event_count, 1);
	atomic_store(&model.stream_count, 1);
	atomic_store(&model.stalls, 0);
	atomic_store(&model.waits, 0);
	atomic_store(&model.is_capturing, false);
	atomic_store(&has_complaint, false);
	atomic_store(&model.ticks, 1);
}

uint64_t model_live_events(uint32_t context)
{
	uint64_t alive = 0;

	for (uint32_t i = 1; i < LOAD(model.event_count); i++)
		alive += LOAD(model.events[i].is_alive) && LOAD(model.events[i].context) == context;
	return alive;
}

bool model_is_mode_restored(void)
{
	return model_thread.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

uint64_t model_calls(enum model_function function)
{
	return LOAD(model.functions[function].calls);
}

uint64_t model_all_calls(void)
{
	uint64_t calls = 0;

	for (int i = 0; i < MODEL_FUNCTIONS; i++)
		calls += LOAD(model.functions[i].calls);
	return calls;
}

CUcontext model_context(uint32_t number)
{
	return (CUcontext)(uintptr_t)(FIRST_CONTEXT * number);
}

void model_make_current(uint32_t number)
{
	model_thread.context[model_thread.depth] = number;
}

uint32_t model_current(void)
{
	return model_thread.context[model_thread.depth];
}

void model_kill(uint32_t number)
{
	STORE(model.contexts[number].is_dead, true);
}

void model_poison(uint32_t number, CUresult result)
{
	STORE(model.contexts[number].poison, (uint32_t)result);
}

void model_forbid(uint32_t number, bool is_forbidden)
{
	STORE(model.contexts[number].is_forbidden, is_forbidden);
}

void model_submit(uint32_t number)
{
	ADD(model.contexts[number].submitted, 1);
}

void model_finish(uint32_t number)
{
	model_raise_to(&model.contexts[number].done, LOAD(model.contexts[number].submitted));
}

void model_synchronize(uint32_t number)
{
	model_finish(number);
	for (uint32_t i = 1; i < LOAD(model.stream_count); i++)
		if (LOAD(model.streams[i].context) == number)
			ADD(model.streams[i].epoch, 1);
}

void model_finish_some(uint32_t number, uint64_t pieces)
{
	model_raise_to(&model.contexts[number].done, pieces);
}

uint64_t model_submitted(uint32_t number)
{
	return LOAD(model.contexts[number].submitted);
}

uint64_t model_done(uint32_t number)
{
	return LOAD(model.contexts[number].done);
}

uint64_t model_now(void)
{
	return LOAD(model.ticks);
}

void model_pass_us(uint64_t microseconds)
{
	ADD(model.ticks, microseconds * MODEL_TICKS_PER_US);
}

uint64_t model_next_handle(void)
{
	return FIRST_HANDLE + LOAD(model.thing_count) * HANDLE_STEP;
}

uint64_t model_make(uint32_t context, enum deferq_kind kind, uint64_t bytes)
{
	uint32_t number = ADD(model.thing_count, 1);
	struct thing *thing = &model.things[number];

	if (number >= MODEL_THINGS - 1) {
		model_complain("too many model.things");
		return 0;
	}
	STORE(thing->bytes, bytes);
	STORE(thing->context, context);
	STORE(thing->kind, (uint32_t)kind);
	STORE(thing->generation, 1);
	STORE(thing->state, STATE_LIVE);
	return FIRST_HANDLE + number * HANDLE_STEP;
}

static bool is_back(const struct thing *thing)
{
	uint32_t state = LOAD(thing->state);

	return state == STATE_GONE ||
	       (state == STATE_ISSUED && model_plain != MODEL_PLAIN_KEEPS &&
		LOAD(model.streams[LOAD(thing->stream)].epoch) > LOAD(thing->epoch));
}

bool model_remake(uint64_t handle)
{
	struct thing *thing = model_find_thing(handle);
	uint32_t state = LOAD(thing->state);

	if (LOAD(thing->kind) != DEFERQ_MEMORY || !is_back(thing) ||
	    !atomic_compare_exchange_strong_explicit(&thing->state, &state, STATE_LIVE,
						     memory_order_relaxed, memory_order_relaxed))
		return false;
	STORE(thing->last_use, 0);
	ADD(thing->generation, 1);
	return true;
}

uint32_t model_generation(uint64_t handle)
{
	return LOAD(model_find_thing(handle)->generation);
}

void model_use_until_now(uint64_t handle)
{
	struct thing *thing = model_find_thing(handle);

	STORE(thing->last_use, model_submitted(LOAD(thing->context)));
}

void model_spoil(uint64_t handle, CUresult result)
{
	STORE(model_find_thing(handle)->spoilt, (uint32_t)result);
}

uint32_t model_releases(uint64_t handle)
{
	return LOAD(model_find_thing(handle)->releases);
}

bool model_is_back(uint64_t handle)
{
	return is_back(model_find_thing(handle));
}

enum deferq_kind model_kind(uint64_t handle)
{
	return (enum deferq_kind)LOAD(model_find_thing(handle)->kind);
}

uint64_t model_bytes(uint64_t handle)
{
	return LOAD(model_find_thing(handle)->bytes);
}

uint32_t model_owner(uint64_t handle)
{
	return LOAD(model_find_thing(handle)->context);
}

uint64_t model_used(uint32_t context)
{
	uint64_t bytes = 0;

	for (uint32_t i = 1; i < LOAD(model.thing_count); i++)
		if (LOAD(model.things[i].context) == context && !is_back(&model.things[i]))
			bytes += LOAD(model.things[i].bytes);
	return bytes;
}

void model_fail(enum model_function function, uint32_t n, CUresult result)
{
	STORE(model.functions[function].result, (uint32_t)result);
	STORE(model.functions[function].always, n == 0);
	STORE(model.functions[function].countdown, n);
}

void model_heal(enum model_function function)
{
	STORE(model.functions[function].always, false);
	STORE(model.functions[function].countdown, 0);
}

void model_interrupt(enum model_function function, void (*interruption)(void))
{
	STORE(model.functions[function].interruption, interruption);
}

void model_allow_nesting(void)
{
	model_thread.is_interrupted = false;
}

void model_capture(bool is_live)
{
	STORE(model.is_capturing, is_live);
}

uint64_t model_stalls(void)
{
	return LOAD(model.stalls);
}

uint64_t model_waits(void)
{
	return LOAD(model.waits);
}

void model_watch(struct deferq *queue)
{
	if (model.watched_count < MODEL_CONTEXTS)
		model.watched[model.watched_count++] = queue;
}
