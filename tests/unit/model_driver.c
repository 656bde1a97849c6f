/* SPDX-License-Identifier: Apache-2.0 */
#include "model_state.h"

#include "core/deferq_queue.h"
#include "core/gate.h"

/* What may be called whether or not a capture is live, from a thread that is relaxed. */
static bool is_allowed_outside(enum model_function function)
{
	return function == MODEL_EVENT_SYNCHRONIZE ||
	       (function == MODEL_MEM_FREE && model_thread.mode == CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* One thread: where it stands with the gate and the locks. */
static void check_place(enum model_function function)
{
	uint32_t inside = atomic_load(&gate_in_flight);

	if (!model.watched_count)
		return;
	for (uint32_t i = 0; i < model.watched_count; i++)
		if (atomic_load(&model.watched[i]->lock.word))
			model_complain("function %d was called under a lock", function);
	if (function == MODEL_EVENT_SYNCHRONIZE && inside)
		model_complain("a wait inside the gate");
	if (!is_allowed_outside(function) && !inside)
		model_complain("function %d was called outside the gate", function);
}

static bool is_harmless(enum model_function function)
{
	return function == MODEL_EXCHANGE_MODE || function == MODEL_CTX_GET_CURRENT ||
	       function == MODEL_CTX_PUSH_CURRENT || function == MODEL_CTX_POP_CURRENT;
}

static void interrupt(enum model_function function)
{
	void (*interruption)(void) = LOAD(model.functions[function].interruption);

	if (!interruption || model_thread.is_interrupted)
		return;
	model_thread.is_interrupted = true;
	interruption();
	model_thread.is_interrupted = false;
}

static bool is_to_fail(enum model_function function)
{
	return LOAD(model.functions[function].always) ||
	       (LOAD(model.functions[function].countdown) &&
		ADD(model.functions[function].countdown, -1u) == 1);
}

/* A call begins; the result it is to have whatever it does. */
static CUresult begin_call(enum model_function function)
{
	ADD(model.functions[function].calls, 1);
	interrupt(function);
	if (!is_harmless(function)) {
		check_place(function);
		if (LOAD(model.is_capturing) && !is_allowed_outside(function))
			model_complain("function %d was called during a capture", function);
	}
	return is_to_fail(function) ? (CUresult)LOAD(model.functions[function].result) :
				      CUDA_SUCCESS;
}

/* The call has to do with this context. */
static CUresult touch(uint32_t context)
{
	if (!context || context > MODEL_CONTEXTS) {
		model_complain("no such context: %u", context);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	if (LOAD(model.contexts[context].is_dead))
		model_complain("context %u is dead", context);
	if (LOAD(model.contexts[context].is_forbidden))
		model_complain("context %u was used while it may be dying", context);
	return (CUresult)LOAD(model.contexts[context].poison);
}

static uint32_t context_number(CUcontext handle)
{
	return (uint32_t)((uint64_t)(uintptr_t)handle / FIRST_CONTEXT);
}

static uint64_t ticks(void)
{
	return ADD(model.ticks, 1) + 1;
}

static CUresult ctx_get_current(CUcontext *context)
{
	CUresult result = begin_call(MODEL_CTX_GET_CURRENT);

	*context = model_context(model_current());
	return result;
}

static CUresult ctx_push_current(CUcontext context)
{
	CUresult result = begin_call(MODEL_CTX_PUSH_CURRENT);

	if (result)
		return result;
	touch(context_number(context));
	if (model_thread.depth + 1 >= DEPTH) {
		model_complain("model.contexts are pushed and not popped");
		return CUDA_ERROR_INVALID_VALUE;
	}
	model_thread.context[++model_thread.depth] = context_number(context);
	return CUDA_SUCCESS;
}

static CUresult ctx_pop_current(CUcontext *context)
{
	begin_call(MODEL_CTX_POP_CURRENT);
	*context = model_context(model_current());
	if (!model_thread.depth) {
		model_complain("a context of the program's was popped");
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	model_thread.depth--;
	return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
	CUresult result = begin_call(MODEL_EXCHANGE_MODE);
	CUstreamCaptureMode old = model_thread.mode;

	if (result)
		return result;
	model_thread.mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

/* Number of an event of ours; those that a program has are model.things. */
static uint32_t event_number(CUevent event)
{
	uint64_t number = (uint64_t)(uintptr_t)event - FIRST_EVENT;

	if ((uint64_t)(uintptr_t)event < FIRST_EVENT || number >= LOAD(model.event_count) ||
	    !LOAD(model.events[number].is_alive)) {
		model_complain("no such event: %p", (void *)event);
		return 0;
	}
	return (uint32_t)number;
}

static CUresult event_create(CUevent *event, unsigned int flags)
{
	CUresult result = begin_call(MODEL_EVENT_CREATE);
	uint32_t number;

	if (!(flags & CU_EVENT_DISABLE_TIMING))
		model_complain("an event that measures time");
	result = result ? result : touch(model_current());
	if (result)
		return result;
	number = ADD(model.event_count, 1);
	if (number >= EVENTS) {
		model_complain("too many model.events");
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	STORE(model.events[number].context, model_current());
	STORE(model.events[number].work, 0);
	STORE(model.events[number].is_alive, true);
	*event = (CUevent)(uintptr_t)(FIRST_EVENT + number);
	return CUDA_SUCCESS;
}

static CUresult ctx_record_event(CUcontext context, CUevent event)
{
	CUresult result = begin_call(MODEL_CTX_RECORD_EVENT);
	uint32_t number = event_number(event), of = context_number(context);

	if (LOAD(model.events[number].context) != of)
		model_complain("an event of context %u was recorded in %u",
			       LOAD(model.events[number].context), of);
	result = result ? result : touch(of);
	if (result)
		return result;
	STORE(model.events[number].work, LOAD(model.contexts[of].submitted));
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	CUresult result = begin_call(MODEL_EVENT_QUERY);
	uint32_t number = event_number(event), of = LOAD(model.events[number].context);

	result = result ? result : touch(of);
	if (result)
		return result;
	return LOAD(model.events[number].work) <= LOAD(model.contexts[of].done) ? CUDA_SUCCESS :
								       CUDA_ERROR_NOT_READY;
}

/* The wait is over when the pieces are done, and no later. */
static CUresult event_synchronize(CUevent event)
{
	CUresult result = begin_call(MODEL_EVENT_SYNCHRONIZE);
	uint32_t number = event_number(event), of = LOAD(model.events[number].context);

	if (model_thread.mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		model_complain("a wait that is not relaxed");
	result = result ? result : touch(of);
	if (result)
		return result;
	if (LOAD(model.events[number].work) > LOAD(model.contexts[of].done)) {
		ADD(model.waits, 1);
		model_pass_us(1000);
	}
	model_raise_to(&model.contexts[of].done, LOAD(model.events[number].work));
	return CUDA_SUCCESS;
}

/* A stream and an event may be destroyed at any time. */
static bool does_wait_for(uint32_t kind)
{
	return kind != DEFERQ_STREAM && kind != DEFERQ_EVENT;
}

/* The thing is released in this very call, or given to a stream for that. */
static CUresult release(struct thing *thing, CUresult failed, enum thing_state state,
			bool does_wait)
{
	uint32_t context = LOAD(thing->context), expected = STATE_LIVE;
	CUresult poisoned = touch(context);

	ADD(thing->releases, 1);
	failed = failed ? failed : poisoned;
	failed = failed ? failed : (CUresult)LOAD(thing->spoilt);
	if (failed)
		return failed;
	if (does_wait && model_done(context) < model_submitted(context)) {
		ADD(model.stalls, 1);
		model_finish(context);
	}
	if (does_wait_for(LOAD(thing->kind)) && LOAD(thing->last_use) > model_done(context))
		model_complain("a thing of kind %u was released while it may be in use",
			       LOAD(thing->kind));
	if (!atomic_compare_exchange_strong_explicit(&thing->state, &expected, state,
						     memory_order_relaxed, memory_order_relaxed))
		model_complain("a thing of kind %u was released twice", LOAD(thing->kind));
	return CUDA_SUCCESS;
}

static void check_kind(const struct thing *thing, enum deferq_kind kind, enum deferq_kind other)
{
	if (LOAD(thing->kind) != kind && LOAD(thing->kind) != other)
		model_complain("a thing of kind %u was released as one of kind %d",
			       LOAD(thing->kind), kind);
}

static CUresult event_destroy(CUevent event)
{
	CUresult result = begin_call(MODEL_EVENT_DESTROY);
	uint32_t number;

	if ((uint64_t)(uintptr_t)event >= FIRST_HANDLE) {
		struct thing *thing = model_find_thing((uint64_t)(uintptr_t)event);

		check_kind(thing, DEFERQ_EVENT, DEFERQ_EVENT);
		return release(thing, result, STATE_GONE, false);
	}
	number = event_number(event);
	result = result ? result : touch(LOAD(model.events[number].context));
	if (!result)
		STORE(model.events[number].is_alive, false);
	return result;
}

static CUresult stream_create(CUstream *stream, unsigned int flags)
{
	CUresult result = begin_call(MODEL_STREAM_CREATE);
	uint32_t number;

	if (flags != CU_STREAM_NON_BLOCKING)
		model_complain("a stream that blocks");
	result = result ? result : touch(model_current());
	if (result)
		return result;
	number = ADD(model.stream_count, 1);
	STORE(model.streams[number].context, model_current());
	*stream = (CUstream)(uintptr_t)(FIRST_STREAM + number);
	return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream)
{
	CUresult result = begin_call(MODEL_STREAM_DESTROY);
	struct thing *thing = model_find_thing((uint64_t)(uintptr_t)stream);

	check_kind(thing, DEFERQ_STREAM, DEFERQ_STREAM);
	return release(thing, result, STATE_GONE, false);
}

static uint32_t stream_number(CUstream stream)
{
	uint64_t number = (uint64_t)(uintptr_t)stream - FIRST_STREAM;

	if (number >= LOAD(model.stream_count)) {
		model_complain("no such stream: %p", (void *)stream);
		return 0;
	}
	return (uint32_t)number;
}

static CUresult stream_synchronize(CUstream stream)
{
	CUresult result = begin_call(MODEL_STREAM_SYNCHRONIZE);
	uint32_t number = stream_number(stream);

	result = result ? result : touch(LOAD(model.streams[number].context));
	if (!result)
		ADD(model.streams[number].epoch, 1);
	return result;
}

static CUresult mem_alloc(CUdeviceptr *address, size_t bytes)
{
	CUresult result = begin_call(MODEL_MEM_ALLOC);

	result = result ? result : touch(model_current());
	if (!result)
		*address = model_make(model_current(), DEFERQ_MEMORY, bytes);
	return result;
}

static CUresult mem_free(CUdeviceptr address)
{
	CUresult result = begin_call(MODEL_MEM_FREE);
	struct thing *thing = model_find_thing(address);

	if (LOAD(thing->kind) != DEFERQ_STUBBORN)
		check_kind(thing, DEFERQ_MEMORY, DEFERQ_MANAGED);
	return release(thing, result, STATE_GONE, true);
}

static CUresult mem_free_async(CUdeviceptr address, CUstream stream)
{
	CUresult result = begin_call(MODEL_MEM_FREE_ASYNC);
	struct thing *thing = model_find_thing(address);
	uint32_t number = stream_number(stream);

	check_kind(thing, DEFERQ_MEMORY, DEFERQ_STUBBORN);
	if (LOAD(model.streams[number].context) != LOAD(thing->context))
		model_complain("a block of context %u on a stream of %u", LOAD(thing->context),
			       LOAD(model.streams[number].context));
	if (!result &&
	    (model_plain == MODEL_PLAIN_REFUSED || LOAD(thing->kind) == DEFERQ_STUBBORN))
		return CUDA_ERROR_INVALID_VALUE;
	STORE(thing->stream, number);
	STORE(thing->epoch, LOAD(model.streams[number].epoch));
	return release(thing, result, STATE_ISSUED, false);
}

/* The driver asks for the context that a thing belongs to. */
static CUresult release_in_context(enum model_function function, uint64_t handle,
				   enum deferq_kind kind, bool does_wait)
{
	CUresult result = begin_call(function);
	struct thing *thing = model_find_thing(handle);

	check_kind(thing, kind, kind);
	if (model_current() != LOAD(thing->context)) {
		model_complain("a thing of kind %d of context %u was released in %u", kind,
			       LOAD(thing->context), model_current());
		result = CUDA_ERROR_INVALID_CONTEXT;
	}
	return release(thing, result, STATE_GONE, does_wait);
}

static CUresult mem_free_host(void *address)
{
	return release_in_context(MODEL_MEM_FREE_HOST, (uint64_t)(uintptr_t)address, DEFERQ_HOST,
				  true);
}

static CUresult array_destroy(CUarray array)
{
	return release_in_context(MODEL_ARRAY_DESTROY, (uint64_t)(uintptr_t)array, DEFERQ_ARRAY,
				  true);
}

static CUresult mipmapped_array_destroy(CUmipmappedArray array)
{
	return release_in_context(MODEL_MIPMAPPED_ARRAY_DESTROY, (uint64_t)(uintptr_t)array,
				  DEFERQ_MIPMAPPED_ARRAY, true);
}

static CUresult module_unload(CUmodule module)
{
	return release_in_context(MODEL_MODULE_UNLOAD, (uint64_t)(uintptr_t)module, DEFERQ_MODULE,
				  true);
}

static CUresult pointer_get_attribute(void *value, CUpointer_attribute attribute,
				      CUdeviceptr address)
{
	CUresult result = begin_call(MODEL_POINTER_GET_ATTRIBUTE);

	if (attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
		model_complain("attribute %d is not known here", attribute);
	if (result)
		return result;
	*(unsigned int *)value = CU_MEMORYTYPE_DEVICE;
	return model_is_back(address) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

const struct driver model_functions = {
	.ticks = ticks,
	.ticks_per_us = MODEL_TICKS_PER_US,
	.ctx_get_current = ctx_get_current,
	.ctx_push_current = ctx_push_current,
	.ctx_pop_current = ctx_pop_current,
	.ctx_record_event = ctx_record_event,
	.thread_exchange_capture_mode = exchange_mode,
	.event_create = event_create,
	.event_destroy = event_destroy,
	.event_query = event_query,
	.event_synchronize = event_synchronize,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.stream_synchronize = stream_synchronize,
	.mem_alloc = mem_alloc,
	.mem_free = mem_free,
	.mem_free_async = mem_free_async,
	.mem_free_host = mem_free_host,
	.pointer_get_attribute = pointer_get_attribute,
	.array_destroy = array_destroy,
	.mipmapped_array_destroy = mipmapped_array_destroy,
	.module_unload = module_unload,
};
