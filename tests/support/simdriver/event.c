/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a position in a stream, and when the stream got there. */
#include <unistd.h>

#include "sim.h"
#include "entries.h"
#include "share.h"

static void link_event(struct context *context, struct event *event)
{
	context = context_owner(context);
	pthread_mutex_lock(&context->lock);
	event->context = context;
	event->next = context->events;
	if (event->next)
		event->next->prev = event;
	context->events = event;
	pthread_mutex_unlock(&context->lock);
}

static void unlink_event(struct event *event)
{
	struct context *context = event->context;

	pthread_mutex_lock(&context->lock);
	if (event->prev)
		event->prev->next = event->next;
	else
		context->events = event->next;
	if (event->next)
		event->next->prev = event->prev;
	pthread_mutex_unlock(&context->lock);
}

void event_finish(void *object)
{
	struct event *event = object;

	if (event->stream)
		stream_give(event->stream);
	event->stream = NULL;
	free(event->nodes);
	event->nodes = NULL;
	if (event->shared)
		close(event->fd);
	event->shared = NULL;
}

void event_give(struct event *event)
{
	handle_give(OBJECT_EVENT, event);
}

void event_end_all(struct context *context)
{
	while (context->events) {
		struct event *event = context->events;

		unlink_event(event);
		handle_kill(event);
		event_give(event);
	}
}

static CUresult make(unsigned flags, struct event **out)
{
	struct event *event = handle_new(OBJECT_EVENT);

	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->flags = flags;
	pthread_mutex_init(&event->lock, NULL);
	link_event(context_current(), event);
	*out = event;
	return CUDA_SUCCESS;
}

/* The descriptor is the event's from now on. */
CUresult event_open_shared(int fd, struct event **out)
{
	struct shared_event *shared = share_map_event(fd);
	CUresult error = shared ? make(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, out) :
				  CUDA_ERROR_OPERATING_SYSTEM;

	if (error) {
		close(fd);
		return error;
	}
	(*out)->shared = shared;
	(*out)->fd = fd;
	return CUDA_SUCCESS;
}

static CUresult make_shared(struct event **out)
{
	int fd = share_new_file("event", context_current()->device->index,
				sizeof(struct shared_event));

	return fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : event_open_shared(fd, out);
}

CUresult event_create(CUevent *phEvent, unsigned int Flags)
{
	struct event *event;
	CUresult error;
	const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
			       CU_EVENT_INTERPROCESS;

	if (!phEvent || (Flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	if ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	/* Stands behind a cuMemFree that waits, as measured. */
	context_pass_gate(context_current());
	error = Flags & CU_EVENT_INTERPROCESS ? make_shared(&event) : make(Flags, &event);
	if (!error)
		*phEvent = (CUevent)event;
	return error;
}

CUresult event_destroy(CUevent hEvent)
{
	struct event *event = (struct event *)hEvent;
	CUresult error = handle_check(OBJECT_EVENT, hEvent);

	if (error)
		return error;
	handle_kill(event);
	unlink_event(event);
	event_give(event);
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ recording */

/* The worker got there; a later record of the event has moved it on. */
void event_passed(struct event *event, struct stream *stream, uint64_t seq)
{
	pthread_mutex_lock(&event->lock);
	if (event->stream == stream && event->seq == seq) {
		event->time_ns = config_now_ns();
		if (event->shared)
			atomic_store(&event->shared->passed, event->turn);
	}
	pthread_mutex_unlock(&event->lock);
}

/* Where the event stands now; called by the queue when the record gets its number. */
void event_place(struct event *event, struct stream *stream, uint64_t seq)
{
	struct stream *before;

	if (stream)
		handle_retain(stream);
	pthread_mutex_lock(&event->lock);
	before = event->stream;
	event->stream = stream;
	event->seq = seq;
	event->recorded = true;
	if (event->shared)
		event->turn = atomic_fetch_add(&event->shared->recorded, 1) + 1;
	if (!stream)
		event->time_ns = config_now_ns();
	if (!stream && event->shared)
		atomic_store(&event->shared->passed, event->turn);
	pthread_mutex_unlock(&event->lock);
	if (before)
		stream_give(before);
}

/*
 * Puts the event at the stream's end, behind the waits of `op`.  A stream with nothing
 * left to do, nor anything to stand behind, has passed it at once.
 */
CUresult event_mark(struct event *event, struct stream *stream, struct op *op)
{
	atomic_store(&event->captured, false);
	if (!op->wait_count && stream_has_nothing(stream)) {
		event_place(event, NULL, 0);
		return CUDA_SUCCESS;
	}
	handle_retain(event);
	op->event = event;
	return queue_submit(stream, op, NULL);
}

CUresult event_record(CUevent hEvent, CUstream hStream)
{
	struct event *event = (struct event *)hEvent;
	struct op op = { .kind = OP_EVENT };
	struct stream *stream;
	CUresult error = handle_check(OBJECT_EVENT, hEvent);

	if (!error)
		error = stream_find(hStream, &stream);
	if (error)
		return error;
	if (event->context != context_owner(stream->context))
		return CUDA_ERROR_INVALID_HANDLE;
	if (capture_takes_record(stream, event, &error))
		return error;
	context_pass_gate(stream->context);
	return event_mark(event, stream, &op);
}

CUresult event_record_flags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	return event_record(hEvent, hStream);
}

/* ------------------------------------------------------------------ asking and waiting */

void event_ticket(struct event *event, struct ticket *ticket)
{
	pthread_mutex_lock(&event->lock);
	*ticket = (struct ticket){event->stream, event->seq};
	if (ticket->stream && queue_passed(ticket->stream, ticket->seq))
		ticket->stream = NULL;
	if (ticket->stream)
		handle_retain(ticket->stream);
	pthread_mutex_unlock(&event->lock);
}

static bool has_passed(struct event *event)
{
	bool passed;

	if (event->shared)
		return atomic_load(&event->shared->passed) >= atomic_load(&event->shared->recorded);
	pthread_mutex_lock(&event->lock);
	passed = !event->stream || queue_passed(event->stream, event->seq);
	pthread_mutex_unlock(&event->lock);
	return passed;
}

CUresult event_query(CUevent hEvent)
{
	struct event *event = (struct event *)hEvent;
	CUresult error = handle_check(OBJECT_EVENT, hEvent);

	if (!error)
		error = context_usable(event->context);
	if (!error)
		error = capture_check_unsafe();
	if (!error)
		error = capture_check_event(event);
	if (error)
		return error;
	return has_passed(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/*
 * An event that has passed may be waited for while another thread captures; one that
 * has not is an unsafe call there, and any wait is one on a capturing thread.
 */
CUresult event_synchronize(CUevent hEvent)
{
	struct event *event = (struct event *)hEvent;
	struct ticket ticket;
	CUresult error = handle_check(OBJECT_EVENT, hEvent);

	if (!error)
		error = context_usable(event->context);
	if (!error)
		error = capture_check_event(event);
	if (!error && (capture_is_own() || !has_passed(event)))
		error = capture_check_unsafe();
	if (error)
		return error;
	while (event->shared && !has_passed(event) && !atomic_load(&config_stopping))
		config_sleep_until(config_now_ns() + 20000);
	event_ticket(event, &ticket);
	if (ticket.stream) {
		queue_wait(ticket.stream, ticket.seq);
		stream_give(ticket.stream);
	}
	pool_observe(event->context->device);
	return CUDA_SUCCESS;
}

CUresult event_elapsed(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct event *start = (struct event *)hStart, *end = (struct event *)hEnd;
	CUresult error = handle_check(OBJECT_EVENT, hStart);

	if (!error)
		error = handle_check(OBJECT_EVENT, hEnd);
	if (error)
		return error;
	if (!pMilliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if (!start->recorded || !end->recorded ||
	    ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!has_passed(start) || !has_passed(end))
		return CUDA_ERROR_NOT_READY;
	*pMilliseconds = (float)((double)(int64_t)(end->time_ns - start->time_ns) / 1e6);
	return CUDA_SUCCESS;
}
