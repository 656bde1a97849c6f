/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: their life, the stack of each thread, and waiting for all of their work. */
#include <unistd.h>

#include "sim.h"
#include "entries.h"
#include "own.h"

static const struct { CUlimit limit; size_t value; } default_limits[] = {
	{CU_LIMIT_STACK_SIZE, 1024},
	{CU_LIMIT_PRINTF_FIFO_SIZE, 7340032},
	{CU_LIMIT_MALLOC_HEAP_SIZE, 8388608},
	{CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2},
	{CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
	{CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
	{CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0},
};

static CUresult open_streams(struct context *context)
{
	CUresult error = stream_new(context, CU_STREAM_DEFAULT, 0, &context->legacy);

	if (!error)
		error = stream_new(context, CU_STREAM_NON_BLOCKING, 0, &context->barrier);
	if (error)
		return error;
	context->legacy->legacy = true;
	context->barrier->internal = true;
	atomic_fetch_sub(&context->blocking, 1);
	return CUDA_SUCCESS;
}

/* Brings a context to life, in place: a primary context keeps its handle. */
static CUresult start(struct context *context, struct device *device, unsigned flags)
{
	const size_t bytes = context->parent ? 0 : settings.context_bytes;
	CUresult error;

	context->device = device;
	context->flags = flags;
	context->attached = 1;
	context->id = handle_next_id();
	atomic_store(&context->error, 0);
	atomic_store(&context->peers, 0);
	atomic_store(&context->own, 0);
	for (size_t i = 0; i < sizeof(default_limits) / sizeof(default_limits[0]); i++)
		context->limits[default_limits[i].limit] = default_limits[i].value;
	if (!device_charge(device, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = open_streams(context);
	if (error)
		device_discharge(device, bytes);
	else
		atomic_store(&context->alive, true);
	return error;
}

static struct context *new_place(void)
{
	struct context *context = handle_new(OBJECT_CONTEXT);

	if (!context)
		return NULL;
	pthread_mutex_init(&context->api, NULL);
	pthread_mutex_init(&context->lock, NULL);
	return context;
}

CUresult context_new(struct device *device, unsigned flags, bool primary, struct context **out)
{
	struct context *context = *out;
	CUresult error;

	if (!context) {
		context = new_place();
		if (!context)
			return CUDA_ERROR_OUT_OF_MEMORY;
		context->primary = primary;
	}
	error = start(context, device, flags);
	if (!error)
		*out = context;
	return error;
}

/* ------------------------------------------------------------------ waiting */

struct busy {
	struct ticket *tickets;
	unsigned count, room;
};

static void add_busy(struct busy *busy, struct stream *stream, uint64_t seq)
{
	if (busy->count == busy->room) {
		busy->room = busy->room ? busy->room * 2 : 16;
		busy->tickets = realloc(busy->tickets, busy->room * sizeof(*busy->tickets));
		if (!busy->tickets)
			config_die("no memory to wait for a context");
	}
	handle_retain(stream);
	busy->tickets[busy->count++] = (struct ticket){stream, seq};
}

static void add_streams(struct busy *busy, struct context *context)
{
	pthread_mutex_lock(&context->lock);
	for (struct stream *stream = context->streams; stream; stream = stream->next) {
		uint64_t seq = atomic_load(&stream->submitted);

		if (!queue_passed(stream, seq))
			add_busy(busy, stream, seq);
	}
	for (struct context *view = context->views; view; view = view->next_view)
		add_streams(busy, view);
	pthread_mutex_unlock(&context->lock);
}

/* Every stream with unfinished work, and how far it must get; views belong to it. */
static struct ticket *list_busy(struct context *context, unsigned *count)
{
	struct busy busy = {0};

	add_streams(&busy, context);
	*count = busy.count;
	return busy.tickets;
}

void context_wait_idle(struct context *context)
{
	unsigned count;
	struct ticket *tickets = list_busy(context, &count);

	for (unsigned i = 0; i < count; i++) {
		queue_wait(tickets[i].stream, tickets[i].seq);
		stream_give(tickets[i].stream);
	}
	free(tickets);
}

void context_stand_behind(struct context *context, struct op *op)
{
	unsigned count;
	struct ticket *tickets = list_busy(context, &count);

	for (unsigned i = 0; i < count; i++) {
		if (queue_op_wait(op, tickets[i].stream, tickets[i].seq))
			config_die("no memory to stand behind a context");
		stream_give(tickets[i].stream);
	}
	free(tickets);
}

void context_pass_gate(struct context *context)
{
	pthread_mutex_t *gate = &context_owner(context)->api;

	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
}

/* The first stream with blocks to give back, referenced. */
static struct stream *find_releasing(struct context *context)
{
	struct stream *stream;

	pthread_mutex_lock(&context->lock);
	stream = context->streams;
	while (stream && !(atomic_load(&stream->released) && queue_idle(stream)))
		stream = stream->next;
	if (stream)
		handle_retain(stream);
	pthread_mutex_unlock(&context->lock);
	return stream;
}

void context_observe(struct context *context)
{
	struct stream *stream;

	while ((stream = find_releasing(context)) != NULL) {
		memory_observe(stream);
		stream_give(stream);
	}
	pool_observe(context->device);
}

/* ------------------------------------------------------------------ the end of one */

static void close_streams(struct context *context)
{
	struct stream *stream;

	for (;;) {
		pthread_mutex_lock(&context->lock);
		stream = context->streams;
		while (stream && stream->closing)
			stream = stream->next;
		pthread_mutex_unlock(&context->lock);
		if (!stream)
			return;
		capture_drop_stream(stream);
		stream_close(stream);
	}
}

/* Workers take their streams off the list when they leave. */
static void wait_for_workers(struct context *context)
{
	bool gone = false;

	while (!gone && !atomic_load(&config_stopping)) {
		pthread_mutex_lock(&context->lock);
		gone = !context->streams;
		pthread_mutex_unlock(&context->lock);
		if (!gone)
			usleep(20);
	}
}

void context_end(struct context *context)
{
	while (context->views)
		context_end_view(context->views);
	atomic_store(&context->alive, false);
	atomic_store(&context->error, 0);
	if (!context->primary)
		handle_kill(context);
	context_wait_idle(context);
	context_observe(context);
	close_streams(context);
	wait_for_workers(context);
	event_end_all(context);
	module_end_all(context);
	array_end_all(context);
	memory_end_all(context);
	for (unsigned i = 0; i < context->wait_count; i++)
		stream_give(context->waits[i].stream);
	free(context->waits);
	context->waits = NULL;
	context->wait_count = 0;
	context->legacy = context->barrier = NULL;
	atomic_store(&context->blocking, 0);
	own_end(context);
	device_discharge(context->device, settings.context_bytes);
}

/* ------------------------------------------------------------------ views of green ones */

CUresult context_new_view(struct context *parent, struct context **out)
{
	struct context *view = new_place();
	CUresult error;

	if (!view)
		return CUDA_ERROR_OUT_OF_MEMORY;
	view->parent = parent;
	error = start(view, parent->device, parent->flags);
	if (error) {
		handle_give(OBJECT_CONTEXT, view);
		return error;
	}
	pthread_mutex_lock(&parent->lock);
	view->next_view = parent->views;
	parent->views = view;
	pthread_mutex_unlock(&parent->lock);
	*out = view;
	return CUDA_SUCCESS;
}

static void unlink_view(struct context *view)
{
	struct context *parent = view->parent, **place;

	pthread_mutex_lock(&parent->lock);
	place = &parent->views;
	while (*place && *place != view)
		place = &(*place)->next_view;
	if (*place)
		*place = view->next_view;
	pthread_mutex_unlock(&parent->lock);
}

/* Not given back: streams that the client left may still name it. */
void context_end_view(struct context *view)
{
	atomic_store(&view->alive, false);
	context_wait_idle(view);
	unlink_view(view);
	own_end(view);
}

void context_add_block(struct context *context, struct block *block)
{
	context = context_owner(context);
	pthread_mutex_lock(&context->lock);
	block->context = context;
	block->prev = NULL;
	block->next = context->blocks;
	if (block->next)
		block->next->prev = block;
	context->blocks = block;
	pthread_mutex_unlock(&context->lock);
}

void context_drop_block(struct block *block)
{
	struct context *context = block->context;

	pthread_mutex_lock(&context->lock);
	if (block->prev)
		block->prev->next = block->next;
	else
		context->blocks = block->next;
	if (block->next)
		block->next->prev = block->prev;
	pthread_mutex_unlock(&context->lock);
}

/* ------------------------------------------------------------------ handles and the stack */

CUresult context_usable(struct context *context)
{
	if (atomic_load(&context->alive))
		return CUDA_SUCCESS;
	if (atomic_load(&context->error))
		return (CUresult)atomic_load(&context->error);
	return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult context_check(CUcontext handle)
{
	CUresult error;

	if (!handle)
		return CUDA_ERROR_INVALID_CONTEXT;
	error = handle_check(OBJECT_CONTEXT, handle);
	return error ? CUDA_ERROR_INVALID_CONTEXT : context_usable((struct context *)handle);
}

static CUresult push(struct context *context)
{
	struct thread_rest *rest = config_thread();

	if (!rest || rest->depth == STACK_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	rest->stack[rest->depth++] = context;
	sim_thread.current = context;
	return CUDA_SUCCESS;
}

static void pop(void)
{
	struct thread_rest *rest = config_thread();

	rest->depth--;
	sim_thread.current = rest->depth ? rest->stack[rest->depth - 1] : NULL;
}

CUresult context_push(CUcontext ctx)
{
	CUresult error = context_check(ctx);

	return error ? error : push((struct context *)ctx);
}

CUresult context_pop(CUcontext *pctx)
{
	if (!sim_thread.current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pctx)
		*pctx = (CUcontext)sim_thread.current;
	pop();
	return CUDA_SUCCESS;
}

CUresult context_set(CUcontext ctx)
{
	struct thread_rest *rest;
	CUresult error;

	if (!ctx) {
		if (sim_thread.current)
			pop();
		return CUDA_SUCCESS;
	}
	error = context_check(ctx);
	if (error)
		return error;
	if (!sim_thread.current)
		return push((struct context *)ctx);
	rest = config_thread();
	rest->stack[rest->depth - 1] = sim_thread.current = (struct context *)ctx;
	return CUDA_SUCCESS;
}

CUresult context_get(CUcontext *pctx)
{
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)sim_thread.current;
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ create and destroy */

CUresult context_create(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	struct context *context = NULL;
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!pctx || (flags & ~(unsigned)CU_CTX_FLAGS_MASK))
		return CUDA_ERROR_INVALID_VALUE;
	if (!config_may_allocate())
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = context_new(device, flags, false, &context);
	if (error)
		return error;
	*pctx = (CUcontext)context;
	return push(context);
}

CUresult context_create_affinity(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
				 unsigned int flags, CUdevice dev)
{
	if (paramsArray || numParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return context_create(pctx, flags, dev);
}

CUresult context_create_params(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
			       unsigned int flags, CUdevice dev)
{
	if (ctxCreateParams && (ctxCreateParams->numExecAffinityParams ||
				ctxCreateParams->cigParams))
		return CUDA_ERROR_NOT_SUPPORTED;
	return context_create(pctx, flags, dev);
}

CUresult context_destroy(CUcontext ctx)
{
	struct context *context = (struct context *)ctx;
	CUresult error;

	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	error = handle_check(OBJECT_CONTEXT, ctx);
	if (error || context->primary || context->parent)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (sim_thread.current == context)
		pop();
	context_end(context);
	handle_give(OBJECT_CONTEXT, context);
	return CUDA_SUCCESS;
}

CUresult context_attach(CUcontext *pctx, unsigned int flags)
{
	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	context_current()->attached++;
	*pctx = (CUcontext)context_current();
	return CUDA_SUCCESS;
}

CUresult context_detach(CUcontext ctx)
{
	struct context *context = (struct context *)ctx;
	CUresult error = context_check(ctx);

	if (error)
		return error;
	return --context->attached ? CUDA_SUCCESS : context_destroy(ctx);
}

/* ------------------------------------------------------------------ the whole of its work */

CUresult context_synchronize_of(CUcontext ctx)
{
	struct context *context = ctx ? (struct context *)ctx : sim_thread.current;
	CUresult error = context_check((CUcontext)context);

	if (!error)
		error = capture_check_context(context);
	if (error)
		return error;
	context_wait_idle(context);
	context_observe(context);
	return CUDA_SUCCESS;
}

CUresult context_synchronize(void)
{
	return context_synchronize_of((CUcontext)context_current());
}

static CUresult check_event(struct context *context, CUevent handle)
{
	CUresult error = context_check((CUcontext)context);

	if (!error)
		error = handle_check(OBJECT_EVENT, handle);
	if (!error && ((struct event *)handle)->context != context_owner(context))
		error = CUDA_ERROR_INVALID_HANDLE;
	return error ? error : capture_check_context(context);
}

CUresult context_record_event(CUcontext hCtx, CUevent hEvent)
{
	struct context *context = hCtx ? (struct context *)hCtx : sim_thread.current;
	CUresult error = check_event(context, hEvent);
	struct op op = { .kind = OP_EVENT };

	if (error)
		return error;
	context_pass_gate(context);
	context_stand_behind(context, &op);
	return event_mark((struct event *)hEvent, context->barrier, &op);
}

/* New streams of the context start behind the event too. */
static void remember_wait(struct context *context, const struct ticket *ticket)
{
	struct ticket *waits = realloc(context->waits, (context->wait_count + 1) * sizeof(*waits));

	if (!waits)
		config_die("no memory for cuCtxWaitEvent");
	handle_retain(ticket->stream);
	waits[context->wait_count++] = *ticket;
	context->waits = waits;
}

CUresult context_wait_event(CUcontext hCtx, CUevent hEvent)
{
	struct context *context = hCtx ? (struct context *)hCtx : sim_thread.current;
	CUresult error = check_event(context, hEvent);
	struct ticket ticket;

	if (error)
		return error;
	event_ticket((struct event *)hEvent, &ticket);
	if (!ticket.stream)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&context->lock);
	remember_wait(context, &ticket);
	for (struct stream *stream = context->streams; stream && !error; stream = stream->next) {
		struct op op = { .kind = OP_NOTHING };

		error = queue_op_wait(&op, ticket.stream, ticket.seq);
		if (stream->closing)
			op_release(&op);
		else if (!error)
			queue_append(stream, &op);
	}
	pthread_mutex_unlock(&context->lock);
	stream_give(ticket.stream);
	return error;
}
