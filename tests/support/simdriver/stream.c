/* SPDX-License-Identifier: Apache-2.0 */
/* Streams as handles: create, destroy, query, wait, and what they say of themselves. */
#include "sim.h"
#include "entries.h"
#include "own.h"
#include "share.h"

void stream_unlink(struct stream *stream)
{
	struct context *context = stream->context;

	pthread_mutex_lock(&context->lock);
	if (stream->prev)
		stream->prev->next = stream->next;
	else
		context->streams = stream->next;
	if (stream->next)
		stream->next->prev = stream->prev;
	pthread_mutex_unlock(&context->lock);
}

static void start_behind_waits(struct context *context, struct stream *stream)
{
	struct op op = { .kind = OP_NOTHING };

	for (unsigned i = 0; i < context->wait_count; i++)
		queue_op_wait(&op, context->waits[i].stream, context->waits[i].seq);
	if (op.wait_count)
		queue_append(stream, &op);
}

CUresult stream_new(struct context *context, unsigned flags, int priority, struct stream **out)
{
	struct stream *stream = handle_new(OBJECT_STREAM);
	pthread_condattr_t monotonic;

	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->context = context;
	stream->flags = flags;
	stream->priority = priority;
	stream->id = handle_next_id();
	atomic_store(&stream->wanted, UINT64_MAX);
	pthread_mutex_init(&stream->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&stream->work, &monotonic);
	pthread_cond_init(&stream->done, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_lock(&context->lock);
	stream->next = context->streams;
	if (stream->next)
		stream->next->prev = stream;
	context->streams = stream;
	start_behind_waits(context, stream);
	pthread_mutex_unlock(&context->lock);
	if (!(flags & CU_STREAM_NON_BLOCKING))
		atomic_fetch_add(&context->blocking, 1);
	*out = stream;
	return CUDA_SUCCESS;
}

void stream_close(struct stream *stream)
{
	bool worker;

	handle_kill(stream);
	if (stream->charged)
		own_give(stream->context, settings.stream_bytes);
	pthread_mutex_lock(&stream->lock);
	stream->closing = true;
	worker = stream->has_worker;
	pthread_cond_signal(&stream->work);
	pthread_mutex_unlock(&stream->lock);
	if (!(stream->flags & CU_STREAM_NON_BLOCKING) && !stream->legacy)
		atomic_fetch_sub(&stream->context->blocking, 1);
	if (!worker) {
		memory_observe(stream);
		stream_unlink(stream);
	}
	stream_give(stream);
}

void stream_finish(void *object)
{
	struct stream *stream = object;
	struct op *op, *next;

	for (op = stream->spare; op; op = next) {
		next = op->next;
		free(op);
	}
	stream->spare = NULL;
	free(stream->tails);
	stream->tails = NULL;
}

void stream_give(struct stream *stream)
{
	handle_give(OBJECT_STREAM, stream);
}

/* ------------------------------------------------------------------ finding one */

/* The calling thread's default stream in a context; made at first use. */
static CUresult own_stream(struct context *context, struct stream **out)
{
	struct thread_rest *rest = config_thread();
	struct thread_stream *place = &rest->own[0];
	CUresult error;

	for (size_t i = 0; i < sizeof(rest->own) / sizeof(rest->own[0]); i++) {
		struct thread_stream *own = &rest->own[i];

		if (own->context == context && own->context_id == context->id) {
			*out = own->stream;
			return CUDA_SUCCESS;
		}
		if (!own->context || own->context == context)
			place = own;
	}
	error = stream_new(context, CU_STREAM_DEFAULT, 0, out);
	if (error)
		return error;
	(*out)->per_thread = true;
	*place = (struct thread_stream){context, context->id, *out};
	return CUDA_SUCCESS;
}

void stream_close_own(struct thread_stream *own)
{
	struct context *context = own->context;

	if (!atomic_load(&context->alive) || context->id != own->context_id)
		return;
	capture_drop_stream(own->stream);
	stream_close(own->stream);
}

CUresult stream_find(CUstream handle, struct stream **stream)
{
	struct context *context = sim_thread.current;
	CUresult error;

	if (handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
		error = handle_check(OBJECT_STREAM, handle);
		*stream = (struct stream *)handle;
		return error ? error : context_usable((*stream)->context);
	}
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	error = context_usable(context);
	if (error)
		return error;
	*stream = context->legacy;
	return handle == CU_STREAM_LEGACY ? CUDA_SUCCESS : own_stream(context, stream);
}

/* ------------------------------------------------------------------ create and destroy */

CUresult stream_create_in(struct context *context, CUstream *phStream, unsigned flags, int priority)
{
	struct stream *stream;
	CUresult error;

	if (!phStream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	error = own_take(context, settings.stream_bytes);
	if (error)
		return error;
	error = stream_new(context, flags, priority, &stream);
	if (error) {
		own_give(context, settings.stream_bytes);
		return error;
	}
	stream->charged = true;
	*phStream = (CUstream)stream;
	return CUDA_SUCCESS;
}

CUresult stream_create_priority(CUstream *phStream, unsigned int flags, int priority)
{
	return stream_create_in(context_current(), phStream, flags, priority);
}

CUresult stream_create(CUstream *phStream, unsigned int Flags)
{
	return stream_create_priority(phStream, Flags, 0);
}

CUresult stream_destroy(CUstream hStream)
{
	struct stream *stream;
	CUresult error;

	if (hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	error = stream_find(hStream, &stream);
	if (error)
		return error;
	if (stream->legacy || stream->per_thread)
		return CUDA_ERROR_INVALID_HANDLE;
	capture_drop_stream(stream);
	stream_close(stream);
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ waiting */

/* The streams whose work the legacy stream stands for. */
static bool all_blocking_idle(struct context *context)
{
	bool idle = true;

	pthread_mutex_lock(&context->lock);
	for (struct stream *stream = context->streams; stream && idle; stream = stream->next)
		if (!stream->internal && !(stream->flags & CU_STREAM_NON_BLOCKING))
			idle = queue_idle(stream);
	pthread_mutex_unlock(&context->lock);
	return idle;
}

bool stream_has_nothing(struct stream *stream)
{
	struct context *context = stream->context;

	if (!queue_idle(stream))
		return false;
	if (stream->internal || (stream->flags & CU_STREAM_NON_BLOCKING))
		return true;
	return stream->legacy ? !atomic_load(&context->blocking) || all_blocking_idle(context) :
				queue_idle(context->legacy);
}

/* What captures, of this stream and of others, say to a query or a wait. */
static CUresult check_waiting(struct stream *stream)
{
	CUresult error = capture_check_stream(stream);

	if (!error)
		error = capture_check_legacy(stream);
	return error ? error : capture_check_unsafe();
}

CUresult stream_query(CUstream hStream)
{
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);
	bool idle;

	if (!error)
		error = check_waiting(stream);
	if (error)
		return error;
	idle = stream->legacy ? all_blocking_idle(stream->context) : queue_idle(stream);
	return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult stream_synchronize(CUstream hStream)
{
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);
	struct op op = { .kind = OP_NOTHING };

	if (!error)
		error = check_waiting(stream);
	if (error)
		return error;
	/* Work of the legacy stream ends behind that of all blocking streams. */
	if (stream->legacy && !all_blocking_idle(stream->context))
		error = queue_run(stream, &op);
	else
		queue_wait(stream, atomic_load(&stream->submitted));
	memory_observe(stream);
	pool_observe(stream->context->device);
	return error;
}

/* Its record may be another process's: only the page tells when that has passed. */
static CUresult wait_for_shared(struct stream *stream, struct shared_event *shared)
{
	struct op op = {
		.kind = OP_WAIT_VALUE,
		.word = (char *)&shared->passed,
		.word_value = atomic_load(&shared->recorded),
		.word_bytes = sizeof(shared->passed),
		.word_flags = CU_STREAM_WAIT_VALUE_GEQ,
	};

	return queue_submit(stream, &op, NULL);
}

CUresult stream_wait_event(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct event *event = (struct event *)hEvent;
	struct op op = { .kind = OP_NOTHING };
	struct ticket ticket;
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error)
		error = handle_check(OBJECT_EVENT, hEvent);
	if (error)
		return error;
	if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (capture_takes_wait(stream, event, &error))
		return error;
	if (event->shared)
		return wait_for_shared(stream, event->shared);
	event_ticket(event, &ticket);
	if (!ticket.stream)
		return CUDA_SUCCESS;
	error = queue_op_wait(&op, ticket.stream, ticket.seq);
	stream_give(ticket.stream);
	if (!error && op.wait_count)
		error = queue_submit(stream, &op, NULL);
	return error;
}

/* ------------------------------------------------------------------ questions */

CUresult stream_flags(CUstream hStream, unsigned int *flags)
{
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && !flags)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*flags = stream->flags;
	return error;
}

CUresult stream_priority(CUstream hStream, int *priority)
{
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && !priority)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*priority = stream->priority;
	return error;
}

CUresult stream_id(CUstream hStream, unsigned long long *streamId)
{
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && !streamId)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*streamId = stream->id;
	return error;
}

CUresult stream_context(CUstream hStream, CUcontext *pctx)
{
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && !pctx)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*pctx = (CUcontext)context_owner(stream->context);
	return error;
}

CUresult stream_context_green(CUstream hStream, CUcontext *pctx, CUgreenCtx *pGreenCtx)
{
	CUresult error = stream_context(hStream, pctx);

	return error || !pGreenCtx ? error : green_of_stream(hStream, pGreenCtx);
}

CUresult stream_device(CUstream hStream, CUdevice *device)
{
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && !device)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*device = stream->context->device->index;
	return error;
}

CUresult stream_copy_attributes(CUstream dstStream, CUstream srcStream)
{
	struct stream *to, *from;
	CUresult error = stream_find(dstStream, &to);

	if (!error)
		error = stream_find(srcStream, &from);
	return error;
}

CUresult stream_attribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value)
{
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && !value)
		error = CUDA_ERROR_INVALID_VALUE;
	if (error)
		return error;
	memset(value, 0, sizeof(*value));
	if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		value->priority = stream->priority;
	return CUDA_SUCCESS;
}

CUresult stream_set_attribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && !value)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error && attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		stream->priority = value->priority;
	return error;
}
