/* SPDX-License-Identifier: Apache-2.0 */
/* One record becomes rows.  Whatever it says may be wrong: the file is not ours. */
#include "report/ingest.h"

#include "core/api_names.h"
#include "report/ingest_counter.h"
#include "report/ingest_end.h"
#include "report/ingest_gpu.h"
#include "report/ingest_transfer.h"
#include "report/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	NOT_READY = 600, /* CUDA_ERROR_NOT_READY: an answer, no failure */
	SIZE_BITS = 50,	 /* no device has a petabyte */
	TICK_BITS = 56,	 /* nor does a thread wait for months inside the driver */
	TIME_BITS = 62,	 /* nor has a machine run for a century */
};

/* Functions that make or end what has a handle, told by their base name. */
enum object_act { ACT_NONE, ACT_STREAM_CREATE, ACT_STREAM_DESTROY, ACT_EVENT_CREATE,
		  ACT_EVENT_DESTROY, ACT_UNLOAD };

static const struct {
	const char *base;
	enum object_act act;
} acts[] = {
	{ "cuStreamCreate", ACT_STREAM_CREATE },
	{ "cuStreamCreateWithPriority", ACT_STREAM_CREATE },
	{ "cuGreenCtxStreamCreate", ACT_STREAM_CREATE },
	{ "cuStreamDestroy", ACT_STREAM_DESTROY },
	{ "cuEventCreate", ACT_EVENT_CREATE },
	{ "cuIpcOpenEventHandle", ACT_EVENT_CREATE },
	{ "cuEventDestroy", ACT_EVENT_DESTROY },
	{ "cuModuleUnload", ACT_UNLOAD },
};

static enum object_act find_act(uint16_t api)
{
	static unsigned char known[API_NAMES]; /* act + 1, 0: not looked up yet */

	if (api >= API_NAMES)
		return ACT_NONE;
	if (known[api])
		return known[api] - 1;
	known[api] = ACT_NONE + 1;
	for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++)
		if (!strcmp(api_names[api].base, acts[i].base))
			known[api] = (unsigned char)(acts[i].act + 1);
	return known[api] - 1;
}

/* A writer built with another table counts its rows differently: its names are not ours. */
bool ingest_record_has_our_names(const struct ingest_process *process)
{
	return process->map.control->apis == API_NAMES;
}

uint16_t ingest_record_api(struct ingest_process *process, uint16_t api)
{
	unsigned char *known =
		&process->ingest->api_known[(api + 1) / 8 % sizeof(process->ingest->api_known)];
	unsigned char bit = (unsigned char)(1u << (api + 1) % 8);
	char name[32];

	if (api == UINT16_MAX)
		return 0;
	if (*known & bit)
		return (uint16_t)(api + 1);
	*known |= bit;
	snprintf(name, sizeof(name), "unknown_%u", api);
	store_row_api(&process->ingest->rows, (uint16_t)(api + 1),
		      api < API_NAMES && ingest_record_has_our_names(process) ?
			      api_names[api].symbol :
			      name);
	return (uint16_t)(api + 1);
}

void ingest_record_batch(struct ingest_process *process, struct ingest_block *block)
{
	if (block->is_batched)
		return;
	if (process->batch_count == process->batch_capacity) {
		process->batch_capacity = process->batch_capacity * 2 + 256;
		process->batch = ingest_table_memory(process->batch, process->batch_capacity,
						     sizeof(*process->batch));
	}
	block->is_batched = true;
	process->batch[process->batch_count++] = block;
}

/* Others were written on the way, whatever function was called. */
static bool is_of_function(const struct record *record)
{
	switch (record->kind) {
	case RECORD_ALLOC:
	case RECORD_FREE:
	case RECORD_RELEASE:
	case RECORD_TRANSFER:
	case RECORD_OPERATION:
	case RECORD_QUERY:
	case RECORD_COUNTER:
	case RECORD_FINDING:
		return true;
	default:
		return false;
	}
}

static void fill_call(struct ingest_process *process, struct ingest_thread *thread, uint32_t clock,
		      const struct record *record, struct store_row_call *call)
{
	const struct ingest_context *context =
		ingest_identity_context(process, record_context(record));
	int64_t end_ns = ingest_clock_ns(&process->clock, record->start + record_ticks(record),
					 clock);

	*call = (struct store_row_call){
		.process_id = process->id,
		.thread_id = thread->id,
		.context_id = context ? context->id : 0,
		.api = is_of_function(record) ? ingest_record_api(process, record->api) : 0,
		.result = record->result,
		.start_ns = ingest_clock_ns(&process->clock, record->start, clock),
		.caller = record_caller(record),
		.is_ours = record->flags & RECORD_BY_CUSTODY,
	};
	if (end_ns > call->start_ns)
		call->duration_ns = end_ns - call->start_ns;
	if (end_ns > process->last_ns)
		process->last_ns = end_ns;
}

/* Totals count the program's calls, each once. */
static void count_call(struct ingest_process *process, const struct record *record,
		       const struct store_row_call *call)
{
	struct store_row_calls *calls;

	if (record->flags & (RECORD_BY_CUSTODY | RECORD_MORE))
		return;
	calls = ingest_total_calls(&process->ingest->total, process->id, call->thread_id,
				   call->api);
	calls->is_timed = true;
	calls->calls++;
	calls->errors += record->result && record->result != NOT_READY;
	calls->total_ns += call->duration_ns;
	if (call->duration_ns > calls->max_ns)
		calls->max_ns = call->duration_ns;
}

static bool has_failed(const struct record *record)
{
	return record->result && record->result != NOT_READY;
}

static void note_failure(struct ingest_process *process, const struct record *record,
			 struct store_row_call *call)
{
	call->object = record->a;
	/* Nobody asked for bytes who frees: how many it would have been is no matter. */
	call->bytes = record->kind == RECORD_FREE ? 0 : record->c;
	if (record->kind == RECORD_ALLOC && record->b < FAILURE_WHYS)
		call->failure_why = (uint8_t)record->b;
	store_row_failure(&process->ingest->rows, call);
}

void ingest_record_use(struct ingest_process *process, const struct ingest_block *block,
		     int64_t at_ns, int live, int pending)
{
	struct ingest_peak_footprint footprint;

	/* What is another's is counted there. */
	if (block->is_view || block->kind == BLOCK_IPC)
		return;
	footprint = ingest_peak_page_footprint(block->kind, block->address, block->bytes);
	/* Live or pending, the device has it not. */
	ingest_peak_block(&process->ingest->peak, block->series, at_ns, (int64_t)block->bytes,
			  (struct ingest_peak_step){ live, pending, live + pending,
						     block->live_ns - block->alloc_ns },
			  &footprint);
}

/* Kinds whose addresses belong to one block at a time. */
static bool is_exclusive(enum block_kind kind)
{
	return kind == BLOCK_DEVICE || kind == BLOCK_PITCH || kind == BLOCK_MANAGED ||
	       kind == BLOCK_POOL || kind == BLOCK_PINNED;
}

/*
 * The driver may give an address to another thread before the call that frees it
 * has returned: the block that had it has ended by then, whatever its call says.
 */
static void replace(struct ingest_process *process, const struct ingest_block *block)
{
	struct ingest_block *old =
		ingest_block_at(&process->blocks, block->address, block->live_ns);

	if (!old || !is_exclusive(old->kind) || !is_exclusive(block->kind))
		return;
	old->replaced_ns = block->live_ns;
	if (!old->released_ns)
		return; /* its free is recorded later */
	ingest_end_early(process, old, block->live_ns);
}

/* Physical memory: what stands for its address is a handle, wherever the memory lies. */
static bool is_handle(const struct ingest_process *process, const struct ingest_block *block)
{
	if (block->is_view || block->kind == BLOCK_VMM)
		return !block->is_view;
	return block->kind == BLOCK_PINNED && block->api && block->api <= API_NAMES &&
	       ingest_record_has_our_names(process) &&
	       !strcmp(api_names[block->api - 1].symbol, "cuMemCreate");
}

static void handle_alloc(struct ingest_process *process, struct ingest_thread *thread,
			 const struct record *record, const struct store_row_call *call)
{
	struct ingest_block *block = ingest_block_add(&process->blocks, record->b);
	bool is_view = record->flags & RECORD_VIEW;
	const struct ingest_block *parent =
		is_view ? ingest_block_find(&process->blocks, record->stream) : NULL;

	block->id = process->ingest->next_allocation++;
	block->address = record->a;
	block->bytes = record->c;
	block->parent_id = parent ? parent->id : 0;
	block->caller = call->caller;
	block->alloc_ns = call->start_ns;
	block->live_ns = call->start_ns + call->duration_ns;
	block->kind = record->aux & 0xff;
	block->device_id = ingest_identity_device(process, (record->aux >> 8) - 1);
	block->context_id = call->context_id;
	if (!is_view)
		block->stream_id = ingest_identity_stream(process, thread, record_context(record),
							  record->stream);
	block->thread_id = thread->id;
	block->api = call->api;
	block->is_view = is_view;
	block->series = ingest_peak_series(&process->ingest->peak, process->id, block->device_id,
					   block->kind);
	if (!is_handle(process, block)) {
		replace(process, block);
		ingest_block_place(&process->blocks, block);
	}
	ingest_record_use(process, block, block->live_ns, 1, 0);
	ingest_record_batch(process, block);
}

static void handle_context_end(struct ingest_process *process, const struct record *record,
			       const struct store_row_call *call)
{
	struct ingest_context *context = ingest_identity_context(process, record_context(record));
	int64_t at_ns = call->start_ns + call->duration_ns;

	if (!context || context->is_dead)
		return;
	if (!context->is_green)
		ingest_end_all(process, context->id, at_ns,
			       record->aux ? record->aux : RELEASE_CONTEXT);
	ingest_identity_end_context(process, context, at_ns, record->aux);
}

static void follow_object(struct ingest_process *process, const struct record *record,
			  const struct store_row_call *call, enum object_act act)
{
	int64_t end_ns = call->start_ns + call->duration_ns;

	switch (act) {
	case ACT_STREAM_CREATE:
	case ACT_EVENT_CREATE:
		ingest_identity_create(process, act == ACT_EVENT_CREATE, call->context_id,
				       record->a, end_ns);
		break;
	case ACT_STREAM_DESTROY:
	case ACT_EVENT_DESTROY:
		ingest_identity_destroy(process, act == ACT_EVENT_DESTROY, record->a, end_ns);
		break;
	case ACT_UNLOAD:
	case ACT_NONE:
		break;
	}
}

static void handle_operation(struct ingest_process *process, struct ingest_thread *thread,
			     const struct record *record, struct store_row_call *call)
{
	enum object_act act = ingest_record_has_our_names(process) ? find_act(record->api) :
								     ACT_NONE;
	struct ingest_block *block;

	/* An attempt the program does not see is a failure of ours, no operation of its. */
	if (record->flags & RECORD_BY_CUSTODY)
		return;
	call->object = record->a;
	call->detail = record->b;
	call->bytes = record->c;
	call->stream_id = ingest_identity_stream(process, thread, record_context(record),
						 record->stream);
	call->is_unload = act == ACT_UNLOAD;
	store_row_operation(&process->ingest->rows, call);
	if (has_failed(record))
		return;
	follow_object(process, record, call, act);
	if (!(record->flags & RECORD_EXPORTED))
		return;
	/* A handle is no address: its record names the block. */
	block = record->b ? ingest_block_find(&process->blocks, record->b) :
			    ingest_block_at(&process->blocks, record->a, call->start_ns);
	if (block && !block->released_ns) {
		block->is_exported = true;
		ingest_record_batch(process, block);
	}
}

static void handle_text(struct ingest_process *process, struct ingest_thread *thread,
			const struct record *record, struct store_row_call *call, const char *text,
			size_t bytes)
{
	char copy[CONTROL_PATH_BYTES];
	char build_id[128] = "";
	size_t length = strnlen(text, bytes);

	if (bytes > sizeof(copy) - 1)
		bytes = sizeof(copy) - 1;
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	if (length + 1 < bytes)
		snprintf(build_id, sizeof(build_id), "%.*s", (int)(bytes - length - 1),
			 copy + length + 1);
	call->object = record->a;
	call->bytes = record->b;
	if (record->kind == RECORD_DEVICE)
		ingest_identity_describe_device(process, record->aux - 1, record, copy);
	else if (record->kind == RECORD_MODULE)
		store_row_module(&process->ingest->rows, call, copy, *build_id ? build_id : NULL);
	else if (record->kind == RECORD_THREAD)
		ingest_identity_name_thread(process, thread, copy);
	else if (record->kind == RECORD_GPU_NAME)
		ingest_gpu_name(process, record, copy, call->start_ns);
	else
		store_row_uncovered(&process->ingest->rows, call, record, copy);
}

static void handle(struct ingest_process *process, struct ingest_thread *thread, uint32_t clock,
		   const struct record *record, struct store_row_call *call)
{
	switch (record->kind) {
	case RECORD_ALLOC:
		count_call(process, record, call);
		if (!record->result)
			handle_alloc(process, thread, record, call);
		break;
	case RECORD_FREE:
		count_call(process, record, call);
		if (!record->result)
			ingest_end_free(process, clock, record, call);
		break;
	case RECORD_TRANSFER:
		count_call(process, record, call);
		ingest_transfer(process, thread, record, call);
		break;
	case RECORD_OPERATION:
		count_call(process, record, call);
		handle_operation(process, thread, record, call);
		break;
	case RECORD_RELEASE:
		ingest_end_release(process, clock, record, call);
		break;
	case RECORD_FLUSH:
		ingest_end_flush(process, clock, record, call);
		break;
	case RECORD_FINDING:
		ingest_end_finding(process, record, call);
		break;
	case RECORD_GPU:
		ingest_gpu(process, record, call->start_ns);
		break;
	case RECORD_CONTEXT:
		ingest_identity_describe_context(process, record_context(record), record,
						 call->start_ns);
		break;
	case RECORD_CONTEXT_END:
		handle_context_end(process, record, call);
		break;
	case RECORD_COUNTER:
		ingest_counter_add(process, clock, record, call);
		break;
	case RECORD_GAP:
		ingest_counter_lost(process, thread->id, clock, record->a, record->b, record->c);
		break;
	case RECORD_READING:
		if (!record->result)
			ingest_reading(process, thread, record, call);
		break;
	default:
		break;
	}
}

/*
 * Each call that failed has one row: a further record of it has none.  What custody
 * did on the way - a release, a first attempt that it repeated - has one of its own.
 */
static bool carries_failure(const struct record *record)
{
	return is_of_function(record) && record->kind != RECORD_COUNTER && has_failed(record) &&
	       (!(record->flags & RECORD_MORE) || record->flags & RECORD_BY_CUSTODY);
}

/* Numbers that no program can have had: they come from a damaged file, and no sum may have them. */
static bool is_nonsense(const struct record *record)
{
	switch (record->kind) {
	case RECORD_FREE:
		return (!record->result && record->c >> SIZE_BITS) ||
		       (record->flags & RECORD_PENDING && record->stream >> TICK_BITS);
	case RECORD_ALLOC:
	case RECORD_TRANSFER:
		return !record->result && record->c >> SIZE_BITS;
	case RECORD_RELEASE:
	case RECORD_FINDING:
		return record->c >> SIZE_BITS;
	case RECORD_GPU:
		return record->a >> TIME_BITS || record->b >> TICK_BITS ||
		       record->c >> SIZE_BITS;
	case RECORD_FLUSH:
		return (record->a | record->b | record->stream) >> SIZE_BITS ||
		       record->c >> TICK_BITS;
	case RECORD_COUNTER:
		return (record->a | record->b) >> SIZE_BITS ||
		       (record->c | record->stream) >> TICK_BITS;
	case RECORD_GAP:
		return record->a >> SIZE_BITS;
	case RECORD_READING:
		return (record->a | record->b) >> SIZE_BITS || record->a > record->b;
	default:
		return false;
	}
}

bool ingest_record_refuse(struct ingest_process *process, const struct ingest_thread *thread,
			  uint32_t clock, const struct record *record)
{
	if (!is_nonsense(record))
		return false;
	if (!process->has_nonsense)
		message_warn("the recording of process %d is damaged: what makes no sense in it "
			     "counts as lost",
			     process->pid);
	process->has_nonsense = true;
	ingest_counter_lost(process, thread->id, clock, 1, record->start, record->start);
	return true;
}

void ingest_record(struct ingest_process *process, struct ingest_thread *thread, uint32_t clock,
		   const struct record *record, const char *text, size_t text_bytes)
{
	struct record copy = *record; /* what was checked must not change */
	struct store_row_call call;

	store_begin(process->ingest->store);
	process->ingest->records++;
	process->ingest->uncommitted++;
	if (!text_bytes && ingest_record_refuse(process, thread, clock, &copy))
		return;
	/* A call may have failed just because it asked for so much. */
	if (is_of_function(&copy) && copy.result && copy.c >> SIZE_BITS)
		copy.c = UINT64_C(1) << SIZE_BITS;
	fill_call(process, thread, clock, &copy, &call);
	if (text_bytes)
		handle_text(process, thread, &copy, &call, text, text_bytes);
	else
		handle(process, thread, clock, &copy, &call);
	if (carries_failure(&copy))
		note_failure(process, &copy, &call);
}
