/* SPDX-License-Identifier: Apache-2.0 */
#include "model_program.h"

#include "core/deferq_queue.h"
#include "core/gate.h"
#include "core/pending.h"
#include "core/tracker.h"

#include <string.h>

struct deferq_settings program_settings;
_Thread_local bool program_is_nowait;
_Thread_local CUresult program_result;
_Thread_local uint64_t program_waited;

static _Thread_local struct program_told told, looked_at;
static _Atomic uint32_t closes[MODEL_THINGS], queued[MODEL_THINGS];

static uint64_t number_of(uint64_t handle)
{
	return handle / program_nth(0, 1) % MODEL_THINGS;
}

void program_begin(void)
{
	deferq_reset();
	pending_reset();
	tracker_reset();
	gate_reset();
	model_reset();
	memset(closes, 0, sizeof(closes));
	memset(queued, 0, sizeof(queued));
	memset(&told, 0, sizeof(told));
	program_settings = (struct deferq_settings){
		.driver = &model_driver,
		.max_count = 10,
		.max_ratio = 0.2,
		.host_bytes = HOST_BYTES,
	};
	model_make_current(1);
}

/* What is closed by an error or with its context leaves its events to the driver. */
static void check_events(uint32_t context)
{
	struct deferq *queue = deferq_find(context);
	uint64_t events;

	if (!queue || queue->is_dead || queue->is_shut)
		return;
	events = queue->spares;
	for (int kind = 0; kind < QUEUE_KINDS; kind++)
		for (struct deferq_item *item = queue->waiting[kind].first; item; item = item->next)
			events += item->event != NULL;
	if (events != model_live_events(context))
		model_complain("%lu events are known and %lu alive", events,
			       model_live_events(context));
}

void program_end(void)
{
	for (uint32_t context = 1; context <= MODEL_CONTEXTS; context++)
		check_events(context);
	if (!model_is_mode_restored())
		model_complain("a wait left the thread relaxed");
	if (model_current() != 1)
		model_complain("context %u was left current", model_current());
	if (atomic_load(&gate_in_flight))
		model_complain("the gate was not left");
	if (!tracker_check())
		model_complain("the tracker is not consistent");
}

struct deferq *program_queue(uint32_t context)
{
	struct deferq *queue = deferq_find(context);

	if (queue)
		return queue;
	deferq_configure(&program_settings);
	return deferq_open(model_context(context), context, context > 2, DEVICE_BYTES);
}

/* False: the kind is none that the tracker knows. */
static bool find_space(enum deferq_kind kind, enum block_space *space)
{
	*space = kind == DEFERQ_ARRAY || kind == DEFERQ_MIPMAPPED_ARRAY ? SPACE_ARRAY :
									  SPACE_ADDRESS;
	return kind < DEFERQ_MODULE;
}

static void track(uint32_t context, enum deferq_kind kind, uint64_t handle, uint64_t bytes)
{
	struct block block = { .id = tracker_next_id(), .address = handle, .bytes = bytes,
			       .context = context, .references = 1, .kind = BLOCK_DEVICE };
	enum block_space space;

	if (!find_space(kind, &space))
		return;
	block.space = (uint8_t)space;
	if (tracker_add(&block))
		model_complain("the tracker has no memory");
}

uint64_t program_make(uint32_t context, enum deferq_kind kind, uint64_t bytes)
{
	uint64_t handle = model_make(context, kind, bytes);

	track(context, kind, handle, bytes);
	return handle;
}

bool program_remake(uint64_t handle)
{
	uint32_t displaced = atomic_load(&tracker_displaced);

	if (!model_remake(handle))
		return false;
	track(model_owner(handle), DEFERQ_MEMORY, handle, model_bytes(handle));
	if (atomic_load(&tracker_displaced) != displaced)
		program_reuse(handle, model_bytes(handle), model_now());
	return true;
}

uint64_t program_nth(uint64_t first, int n)
{
	return first + ((uint64_t)n << 26);
}

/* Whoever got the address again may have it by now. */
static void book_item(const struct deferq_item *item)
{
	uint64_t number = number_of(item->handle);
	uint32_t before = atomic_fetch_add_explicit(&closes[number], 1, memory_order_relaxed);

	if (before >= atomic_load_explicit(&queued[number], memory_order_relaxed))
		model_complain("a thing of kind %u was closed twice", item->kind);
	if ((item->cause == RELEASE_FAILED) != (item->result != CUDA_SUCCESS))
		model_complain("an item failed with %u and cause %u", item->result, item->cause);
	if (item->cause != RELEASE_FAILED && !model_is_back(item->handle) &&
	    model_generation(item->handle) == before + 1)
		model_complain("a thing of kind %u was closed and is not back", item->kind);
	if (item->ready > item->closed)
		model_complain("an item was closed before it was ready");
	if (told.count < PROGRAM_TOLD)
		told.items[told.count++] = *item;
}

static void book(struct deferq_report *report)
{
	for (struct deferq_item *item = report->items; item; item = item->next)
		book_item(item);
	for (struct deferq_flush *flush = report->flushes; flush; flush = flush->next)
		if (told.flush_count < PROGRAM_TOLD)
			told.flushes[told.flush_count++] = *flush;
	deferq_told(report);
}

/* The driver must have the free, or it has failed. */
static void take_back(const struct block *block, uint64_t handle)
{
	atomic_fetch_sub_explicit(&queued[number_of(handle)], 1, memory_order_relaxed);
	if (block->id)
		pending_cancel(block);
}

enum deferq_answer program_free(uint64_t handle)
{
	enum deferq_kind kind = model_kind(handle);
	struct deferq_item item = { .handle = handle, .bytes = model_bytes(handle),
				    .kind = (uint8_t)kind, .caller = program_free,
				    .is_nowait = program_is_nowait };
	struct deferq_report report = { 0 };
	enum deferq_answer answer;
	enum block_space space;
	struct block block = { 0 };

	if (find_space(kind, &space)) {
		if (!tracker_find(space, handle, &block) || !pending_begin(&block)) {
			model_complain("a block was not there to be freed");
			return DEFERQ_REFUSED;
		}
		item.id = block.id;
		item.space = block.space;
	}
	if (kind == DEFERQ_STUBBORN)
		item.kind = DEFERQ_MEMORY; /* nobody knows yet */
	model_use_until_now(handle);
	atomic_fetch_add_explicit(&queued[number_of(handle)], 1, memory_order_relaxed);
	answer = deferq_add(deferq_find(model_owner(handle)), &item, &program_result,
			    &program_waited, &report);
	if (answer == DEFERQ_FREED) {
		pending_close((enum block_space)block.space, handle, block.bytes, block.id);
		atomic_fetch_add_explicit(&closes[number_of(handle)], 1, memory_order_relaxed);
	} else if (answer != DEFERQ_QUEUED) {
		take_back(&block, handle);
	}
	book(&report);
	return answer;
}

uint64_t program_free_new(uint32_t context, enum deferq_kind kind, uint64_t bytes, int count)
{
	uint64_t first = model_next_handle();

	for (int i = 0; i < count; i++)
		program_make(context, kind, bytes);
	for (int i = 0; i < count; i++)
		if (program_free(program_nth(first, i)) != DEFERQ_QUEUED)
			model_complain("a free was not queued");
	return first;
}

uint64_t program_free_behind_work(uint32_t context, enum deferq_kind kind, uint64_t bytes,
				  int count)
{
	uint64_t first = model_next_handle();

	for (int i = 0; i < count; i++)
		program_make(context, kind, bytes);
	for (int i = 0; i < count; i++) {
		model_submit(context);
		program_free(program_nth(first, i));
	}
	return first;
}

uint32_t program_released(uint64_t first, int count)
{
	uint32_t released = 0;

	for (int i = 0; i < count; i++)
		released += model_releases(program_nth(first, i));
	return released;
}

bool program_all_released(uint64_t first, int count)
{
	for (int i = 0; i < count; i++)
		if (model_releases(program_nth(first, i)) != 1)
			return false;
	return true;
}

void program_begin_capture(void)
{
	gate_shut();
	model_capture(true);
}

void program_end_capture(void)
{
	model_capture(false);
	gate_open();
}

void program_collect(uint32_t context)
{
	struct deferq_report report = { 0 };

	deferq_collect(deferq_find(context), &report);
	book(&report);
}

void program_flush(uint32_t context, bool does_wait)
{
	struct deferq_report report = { 0 };

	deferq_flush(deferq_find(context), does_wait, &report);
	book(&report);
}

void program_synchronize(uint32_t context)
{
	struct deferq_report report = { 0 };
	uint64_t mark = deferq_mark(deferq_find(context));

	model_synchronize(context);
	deferq_synchronized(deferq_find(context), mark, &report);
	book(&report);
}

bool program_out_of_memory(int device)
{
	struct deferq_report report = { 0 };
	bool is_worth_it = deferq_out_of_memory(device, &report);

	book(&report);
	return is_worth_it;
}

bool program_resume(uint32_t context)
{
	struct deferq_report report = { 0 };
	bool was_open = deferq_resume(deferq_find(context), &report);

	book(&report);
	return was_open;
}

void program_reuse(uint64_t address, uint64_t bytes, uint64_t tick)
{
	struct deferq_report report = { 0 };

	deferq_reuse(address, bytes, tick, &report);
	book(&report);
}

const struct program_told *program_look(void)
{
	looked_at = told;
	told.count = 0;
	told.flush_count = 0;
	return &looked_at;
}

uint32_t program_closes(uint64_t handle)
{
	return atomic_load_explicit(&closes[number_of(handle)], memory_order_relaxed);
}

uint32_t program_queued(uint64_t handle)
{
	return atomic_load_explicit(&queued[number_of(handle)], memory_order_relaxed);
}

uint64_t program_waiting_in(uint32_t context, enum queue_kind kind)
{
	struct deferq_statistics statistics;

	deferq_statistics(deferq_find(context), &statistics);
	return statistics.count[kind];
}

uint64_t program_waiting(uint32_t context)
{
	return program_waiting_in(context, QUEUE_MEMORY) +
	       program_waiting_in(context, QUEUE_OBJECTS);
}

uint64_t program_issued(uint32_t context)
{
	struct deferq_statistics statistics;

	deferq_statistics(deferq_find(context), &statistics);
	return statistics.issued;
}
