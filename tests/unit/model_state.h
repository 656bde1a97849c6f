/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_state.h - the inside of the model driver; private to model_driver.c,
 * which is its calls, and model_device.c, which is what a test moves.
 */
#ifndef CUSTODY_TESTS_MODEL_STATE_H
#define CUSTODY_TESTS_MODEL_STATE_H

#include "model_driver.h"

#define FIRST_HANDLE UINT64_C(0x200000000000)
#define HANDLE_STEP (UINT64_C(1) << 26) /* room for a block, and no two in a page */
#define FIRST_CONTEXT UINT64_C(0x1000)
#define FIRST_EVENT UINT64_C(0x100000)
#define FIRST_STREAM UINT64_C(0x10000)

enum { EVENTS = 1 << 17, STREAMS = 64, DEPTH = 8 };

enum thing_state { STATE_NONE, STATE_LIVE, STATE_ISSUED, STATE_GONE };

struct thing {
	_Atomic uint64_t bytes;
	_Atomic uint64_t last_use; /* number of a piece of work */
	_Atomic uint64_t epoch;	   /* of the stream, when it was issued there */
	_Atomic uint32_t context;
	_Atomic uint32_t stream;
	_Atomic uint32_t releases;
	_Atomic uint32_t spoilt; /* CUresult of its release */
	_Atomic uint32_t state;
	_Atomic uint32_t kind;
	_Atomic uint32_t generation;
};

/* Numbers begin at 1. */
struct model_state {
	struct thing things[MODEL_THINGS];
	struct {
		_Atomic uint64_t work; /* number of the last piece it stands for */
		_Atomic uint32_t context;
		_Atomic bool is_alive;
	} events[EVENTS];
	struct {
		_Atomic uint64_t epoch; /* synchronises so far */
		_Atomic uint32_t context;
	} streams[STREAMS];
	struct {
		_Atomic uint64_t submitted, done;
		_Atomic uint32_t poison;
		_Atomic bool is_dead, is_forbidden;
	} contexts[MODEL_CONTEXTS + 1];
	struct {
		_Atomic uint64_t calls;
		_Atomic uint32_t countdown; /* the call with which this becomes 0 fails */
		_Atomic bool always;
		_Atomic uint32_t result;
		void (*_Atomic interruption)(void);
	} functions[MODEL_FUNCTIONS];
	_Atomic uint64_t ticks;
	_Atomic uint32_t thing_count, event_count, stream_count;
	_Atomic uint64_t stalls, waits;
	_Atomic bool is_capturing;
	struct deferq *watched[MODEL_CONTEXTS];
	uint32_t watched_count;
};
extern struct model_state model;

/* What the driver keeps for a thread. */
struct model_thread {
	uint32_t context[DEPTH];
	uint32_t depth;
	CUstreamCaptureMode mode;
	bool is_interrupted;
};
extern _Thread_local struct model_thread model_thread;

extern const struct driver model_functions;

#define LOAD(object) atomic_load_explicit(&(object), memory_order_relaxed)
#define STORE(object, value) atomic_store_explicit(&(object), value, memory_order_relaxed)
#define ADD(object, value) atomic_fetch_add_explicit(&(object), value, memory_order_relaxed)

void model_raise_to(_Atomic uint64_t *number, uint64_t value);

/* Complains where there is none; never NULL. */
struct thing *model_find_thing(uint64_t handle);

#endif
