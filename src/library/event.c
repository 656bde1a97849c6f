/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <custody/event.h>

#include <stdlib.h>

struct custody_event {
	struct library_object object;
	CUevent handle;
	_Atomic bool is_ended;	  /* the driver's event is gone, or someone is at it */
	_Atomic bool is_recorded; /* by the library, or in another process */
	_Atomic uint64_t capture; /* into which, the last time: no moment, and no question */
	bool is_timed;
	bool is_shareable;
};

/* ------------------------------------------------------------ coming and going */

static void end_event(struct library_object *object)
{
	struct custody_event *event = (struct custody_event *)object;

	if (!atomic_exchange(&event->is_ended, true))
		library_cuda.cuEventDestroy(event->handle);
}

static int enter(struct library_call *call, const struct custody_event *event)
{
	if (!event)
		return error_say(CUSTODY_E_INVALID, "the event is NULL");
	return context_enter(call, &event->object);
}

static int create(struct custody_context *context, const struct custody_event_options *options,
		  struct custody_event **event)
{
	unsigned int flags = CU_EVENT_DEFAULT;
	struct custody_event *made = calloc(1, sizeof(*made));
	int error;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	made->is_timed = options->is_timed;
	made->is_shareable = options->is_shareable;
	flags |= options->is_timed ? 0 : CU_EVENT_DISABLE_TIMING;
	flags |= options->blocks ? CU_EVENT_BLOCKING_SYNC : 0;
	flags |= options->is_shareable ? CU_EVENT_INTERPROCESS : 0;
	error = library_cuda.cuEventCreate(&made->handle, flags);
	if (error) {
		free(made);
		return error;
	}
	context_put(&made->object, context, end_event);
	*event = made;
	return 0;
}

int custody_event_create(struct custody_context *context,
			 const struct custody_event_options *options,
			 struct custody_event **event)
{
	struct custody_event_options mine;
	struct library_call call;
	int error;

	if (!context || !event)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the event, "
				 "is NULL");
	error = library_options(&mine, sizeof(mine), options);
	if (error)
		return error;
	if (!options)
		mine.is_timed = true;
	if (mine.is_timed && mine.is_shareable)
		return error_say(CUSTODY_E_INVALID, "an event that other processes may have "
				 "cannot be timed");
	error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, create(context, &mine, event));
}

/* Streams that wait for it go on waiting: the driver keeps what they need. */
static int retire(struct custody_event *event, const void *caller)
{
	uint32_t number = atomic_load(&event->object.context->number);

	if (atomic_exchange(&event->is_ended, true) ||
	    library_engine->retire(number, DEFERQ_EVENT, (uintptr_t)event->handle, caller))
		return 0;
	return library_cuda.cuEventDestroy(event->handle);
}

int custody_event_destroy(struct custody_event *event)
{
	const void *caller = __builtin_return_address(0);
	struct library_call call;
	bool has_entered;
	int error = 0;

	if (!event)
		return 0;
	has_entered = !context_enter(&call, &event->object);
	context_remove(&event->object);
	if (has_entered)
		error = retire(event, caller);
	free(event);
	return has_entered ? library_leave(&call, error) : 0;
}

CUevent custody_event_handle(const struct custody_event *event)
{
	return event ? event->handle : NULL;
}

struct custody_context *custody_event_context(const struct custody_event *event)
{
	return event ? event->object.context : NULL;
}

/* ------------------------------------------------------------ in a stream */

/* The legacy stream and each thread's own have no context but the one that is current. */
static int record(struct custody_event *event, struct custody_stream *stream)
{
	CUstream handle = stream_default_handle();
	uint64_t capture;
	int error = stream ? stream_resolve(stream, event->object.context, &handle, NULL) : 0;

	if (!error)
		error = stream_capture_ask(handle, &capture);
	if (!error)
		error = library_cuda.cuEventRecord(event->handle, handle);
	if (error)
		return error;
	atomic_store(&event->capture, capture);
	atomic_store(&event->is_recorded, true);
	return 0;
}

int custody_event_record(struct custody_event *event, struct custody_stream *stream)
{
	struct library_call call;
	int error = enter(&call, event);

	return error ? error : library_leave(&call, record(event, stream));
}

/*
 * In a stream of a context which is current, the event's own or another.  Where the
 * program has recorded the event itself, only the driver knows what it stands for.
 */
static int await(struct custody_event *event, CUstream handle)
{
	bool is_known = atomic_load(&event->is_recorded), is_capturing;
	int error = is_known ? stream_capture_check(handle, atomic_load(&event->capture)) :
			       stream_ask_capturing(handle, &is_capturing);

	return error ? error : (int)library_cuda.cuStreamWaitEvent(handle, event->handle, 0);
}

static int await_in(struct custody_event *event, struct custody_stream *stream)
{
	struct library_call call;
	int error;

	if (!stream)
		return await(event, stream_default_handle());
	error = stream_enter(&call, stream);
	return error ? error : library_leave(&call, await(event, stream->handle));
}

int custody_event_wait(struct custody_event *event, struct custody_stream *stream)
{
	struct library_call call;
	int error = enter(&call, event);

	return error ? error : library_leave(&call, await_in(event, stream));
}

int custody_stream_wait_event(struct custody_stream *stream, struct custody_event *event)
{
	if (!stream)
		return error_say(CUSTODY_E_INVALID, "the stream is NULL");
	return custody_event_wait(event, stream);
}

/* ------------------------------------------------------------ asked by the caller */

/*
 * An event of a capture stands for a place in a graph: the driver either spoils the
 * capture that is asked about so, or says that it has passed.
 */
static int enter_passing(struct library_call *call, const struct custody_event *event)
{
	int error = enter(call, event);

	if (error || !atomic_load(&event->capture))
		return error;
	return library_leave(call, error_say(CUSTODY_E_CAPTURING,
					     "the event was recorded into a capture last"));
}

static CUresult query(const struct custody_event *event)
{
	struct stream_mode mode;
	CUresult result;

	stream_relax(&mode);
	result = library_cuda.cuEventQuery(event->handle);
	stream_restore(&mode);
	return result;
}

int custody_event_query(struct custody_event *event, bool *is_done)
{
	struct library_call call;
	CUresult result;
	int error = is_done ? enter_passing(&call, event) :
			      error_say(CUSTODY_E_INVALID, "where to put the answer is NULL");

	if (error)
		return error;
	result = query(event);
	if (result == CUDA_ERROR_CAPTURED_EVENT)
		error = error_say(CUSTODY_E_CAPTURING, "the event was recorded into a capture by "
				  "a call of the program");
	else if (result != CUDA_ERROR_NOT_READY)
		error = result;
	if (!error)
		*is_done = result == CUDA_SUCCESS;
	return library_leave(&call, error);
}

int custody_event_synchronize(struct custody_event *event)
{
	struct library_call call;
	struct stream_mode mode;
	CUresult result;
	int error = enter_passing(&call, event);

	if (error)
		return error;
	stream_relax(&mode);
	result = library_cuda.cuEventSynchronize(event->handle);
	stream_restore(&mode);
	return library_leave(&call, result);
}

/* Under the new name since CUDA 12.8; the old one, which drivers have all, does the same. */
static CUresult measure(float *milliseconds, CUevent from, CUevent to)
{
	__typeof__(library_cuda.cuEventElapsedTime) elapsed = library_cuda.cuEventElapsedTime;
	void *old;

	if (!elapsed) {
		old = library_engine->find("cuEventElapsedTime");
		if (!old)
			return CUDA_ERROR_NOT_FOUND;
		elapsed = (__typeof__(elapsed))old;
	}
	return elapsed(milliseconds, from, to);
}

static int check_pair(const struct custody_event *from, const struct custody_event *to)
{
	if (!from || !to)
		return error_say(CUSTODY_E_INVALID, "an event is NULL");
	if (!from->is_timed || !to->is_timed)
		return error_say(CUSTODY_E_INVALID, "an event that is not timed has no time");
	if (from->object.context != to->object.context)
		return error_say(CUSTODY_E_MISMATCH, "the events are of two contexts");
	if (atomic_load(&to->capture))
		return error_say(CUSTODY_E_CAPTURING, "the event was recorded into a capture last");
	return 0;
}

int custody_event_elapsed(struct custody_event *from, struct custody_event *to,
			  float *milliseconds)
{
	struct library_call call;
	struct stream_mode mode;
	float between;
	CUresult result;
	int error = milliseconds ? check_pair(from, to) :
				   error_say(CUSTODY_E_INVALID, "where to put the time is NULL");

	if (!error)
		error = enter_passing(&call, from);
	if (error)
		return error;
	if (!context_is_fresh(to->object.context, to->object.generation))
		return library_leave(&call, CUSTODY_E_STALE);
	stream_relax(&mode);
	result = measure(&between, from->handle, to->handle);
	stream_restore(&mode);
	if (result == CUDA_SUCCESS)
		*milliseconds = between;
	return library_leave(&call, result);
}

/* ------------------------------------------------------------ between processes */

int custody_event_export(struct custody_event *event, CUipcEventHandle *handle)
{
	struct library_call call;
	int error = handle ? enter(&call, event) :
			     error_say(CUSTODY_E_INVALID, "where to put the handle is NULL");

	if (error)
		return error;
	if (!event->is_shareable)
		return library_leave(&call, error_say(CUSTODY_E_INVALID, "the event was not made "
						      "to be shared"));
	return library_leave(&call, library_cuda.cuIpcGetEventHandle(handle, event->handle));
}

static int open_event(struct custody_context *context, const CUipcEventHandle *handle,
		      struct custody_event **event)
{
	struct custody_event *made = calloc(1, sizeof(*made));
	int error;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	error = library_cuda.cuIpcOpenEventHandle(&made->handle, *handle);
	if (error) {
		free(made);
		return error;
	}
	atomic_init(&made->is_recorded, true);
	context_put(&made->object, context, end_event);
	*event = made;
	return 0;
}

int custody_event_import(struct custody_context *context, const CUipcEventHandle *handle,
			 struct custody_event **event)
{
	struct library_call call;
	int error;

	if (!context || !handle || !event)
		return error_say(CUSTODY_E_INVALID, "the context, the handle, or where to put the "
				 "event, is NULL");
	error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, open_event(context, handle, event));
}
