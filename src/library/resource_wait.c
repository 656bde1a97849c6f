/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How memory that is freed waits for streams.  From one stream to another that is an
 * event, recorded in the context of the one and waited for in that of the other, so
 * that it holds between contexts and devices too.
 */
#include "library/resource.h"

#include <inttypes.h>

/* A foreign stream whose object was destroyed may be no stream any more. */
static bool is_gone(const struct custody_stream *stream)
{
	return stream && stream->is_foreign && atomic_load(&stream->is_given_up);
}

static struct custody_context *context_of(const struct custody_stream *stream,
					  struct custody_context *context)
{
	return stream ? stream->object.context : context;
}

/* It has died with its context, or is just about to: what was in it was waited for. */
static bool is_over(const struct custody_stream *stream)
{
	return stream && !stream->is_foreign && atomic_load(&stream->is_ended);
}

/* In the context that is entered: a stream of it that was made before a reset is over. */
static int visit_here(struct custody_stream *stream, struct custody_context *context,
		      int (*act)(struct custody_stream *stream, CUstream handle, void *argument),
		      void *argument)
{
	if (stream && !stream->is_default &&
	    !context_is_fresh(context, stream->object.generation))
		return 0;
	return act(stream, stream ? stream->handle : stream_default_handle(), argument);
}

/* Do something to a stream in its own context, unless it is over. */
static int visit(struct custody_stream *stream, struct custody_context *context,
		 int (*act)(struct custody_stream *stream, CUstream handle, void *argument),
		 void *argument)
{
	struct library_call call;
	int error;

	if (is_over(stream))
		return 0;
	if (context_of(stream, context) == context)
		return visit_here(stream, context, act, argument);
	error = stream_enter(&call, stream);
	if (error == CUSTODY_E_STALE)
		return 0;
	return error ? error : library_leave(&call, act(stream, stream->handle, argument));
}

static int visit_others(const struct resource_uses *uses, struct custody_context *context,
			int (*act)(struct custody_stream *stream, CUstream handle, void *argument),
			void *argument)
{
	int error = 0;

	for (size_t i = 0; i < uses->other_count && !error; i++)
		if (uses->others[i] != uses->stream)
			error = visit(uses->others[i], context, act, argument);
	return error;
}

/* ------------------------------------------------------------ captures */

static int say_capturing(const struct custody_stream *stream)
{
	if (!stream)
		return error_say(CUSTODY_E_CAPTURING,
				 "the default stream is capturing, so that memory it uses "
				 "cannot be freed");
	return error_say(CUSTODY_E_CAPTURING,
			 "stream %" PRIu64 " is capturing, so that memory it uses cannot be freed",
			 stream->id);
}

/* Refuse a stream that is not like `*argument`: capturing, or not. */
static int check_capturing(struct custody_stream *stream, CUstream handle, void *argument)
{
	bool is_capturing = false;
	const bool *is_wanted = argument;
	int error = is_gone(stream) ? 0 : stream_ask_capturing(handle, &is_capturing);

	if (!error && is_capturing != *is_wanted)
		error = say_capturing(stream);
	return error;
}

static int refuse_capturing(const struct resource_uses *uses, struct custody_context *context)
{
	bool is_wanted = false;
	int error = visit(uses->stream, context, check_capturing, &is_wanted);

	return error ? error : visit_others(uses, context, check_capturing, &is_wanted);
}

/* ------------------------------------------------------------ the host waits */

/* All of the current context, for streams that cannot be named any more. */
static CUresult wait_for_context(void)
{
	return library_engine->is_capturing() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED :
						library_cuda.cuCtxSynchronize();
}

static int synchronize(struct custody_stream *stream, CUstream handle, void *argument)
{
	struct resource_mode mode;
	CUresult result;

	(void)argument;
	if (is_gone(stream))
		return wait_for_context();
	resource_relax(&mode);
	result = library_cuda.cuStreamSynchronize(handle);
	resource_restore(&mode);
	return result;
}

int resource_wait_host(struct custody_context *context, const struct resource_uses *uses)
{
	int error = refuse_capturing(uses, context);

	if (!error)
		error = visit(uses->stream, context, synchronize, NULL);
	return error ? error : visit_others(uses, context, synchronize, NULL);
}

/* ------------------------------------------------------------ a stream waits */

/* What is in the stream by now; of one that is gone, what is in its context. */
static CUresult record(const struct custody_stream *stream, CUstream handle, CUevent event)
{
	CUcontext current = NULL;

	if (!is_gone(stream))
		return library_cuda.cuEventRecord(event, handle);
	if (!library_cuda.cuCtxRecordEvent || library_engine->is_capturing())
		return wait_for_context();
	if (library_cuda.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		return wait_for_context();
	return library_cuda.cuCtxRecordEvent(current, event);
}

struct joining {
	struct custody_context *context; /* that of `handle` */
	CUstream handle;
};

/* The token of a default stream means one of the current context. */
static int wait_for_event(const struct joining *joining, CUevent event)
{
	struct library_call call;
	int error = library_enter_context(&call, joining->context);

	if (error)
		return error;
	return library_leave(&call, library_cuda.cuStreamWaitEvent(joining->handle, event, 0));
}

/* The driver keeps an event that is waited for until that is over. */
static int join(struct custody_stream *stream, CUstream handle, void *argument)
{
	const struct joining *joining = argument;
	CUevent event;
	int error = library_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

	if (error)
		return error;
	error = record(stream, handle, event);
	if (!error)
		error = wait_for_event(joining, event);
	library_cuda.cuEventDestroy(event);
	return error;
}

/* A capture that is joined to work outside of it is lost, so both are in one or in none. */
static int join_others(struct custody_context *context, CUstream handle,
		       const struct resource_uses *uses)
{
	struct joining joining = { context, handle };
	bool is_capturing = false;
	int error = stream_ask_capturing(handle, &is_capturing);

	if (!error)
		error = visit_others(uses, context, check_capturing, &is_capturing);
	return error ? error : visit_others(uses, context, join, &joining);
}

int resource_wait_stream(struct custody_context *context, CUstream handle,
			 const struct resource_uses *uses)
{
	struct library_call call;
	int error;

	if (!uses->other_count)
		return 0;
	error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, join_others(context, handle, uses));
}

/* ------------------------------------------------------------ a stream of the resource's own */

static int find_waiting(struct custody_resource *resource, CUstream *handle)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&resource->lock);
	*handle = atomic_load(&resource->waiting);
	if (!*handle)
		result = library_cuda.cuStreamCreateWithPriority(handle, CU_STREAM_NON_BLOCKING, 0);
	if (result == CUDA_SUCCESS)
		atomic_store(&resource->waiting, *handle);
	pthread_mutex_unlock(&resource->lock);
	return result;
}

struct filter {
	struct custody_context *context;
	struct joining joining;
	bool does_check;
};

static int join_strange(struct custody_stream *stream, CUstream handle, void *argument)
{
	struct filter *filter = argument;
	bool is_capturing = false;

	if (context_of(stream, filter->context) == filter->context)
		return 0;
	return filter->does_check ? check_capturing(stream, handle, &is_capturing) :
				    join(stream, handle, &filter->joining);
}

static bool has_strange(const struct resource_uses *uses, struct custody_context *context)
{
	bool is_strange = context_of(uses->stream, context) != context;

	for (size_t i = 0; i < uses->other_count && !is_strange; i++)
		is_strange = context_of(uses->others[i], context) != context;
	return is_strange;
}

static int join_all_strange(const struct resource_uses *uses, struct filter *filter)
{
	int error = visit(uses->stream, filter->context, join_strange, filter);

	return error ? error : visit_others(uses, filter->context, join_strange, filter);
}

/* The stream that waits stays, so that an event of the context taken later covers it. */
int resource_wait_context(struct custody_resource *resource, const struct resource_uses *uses)
{
	struct custody_context *context = resource->object.context;
	struct filter filter = { context, { context, NULL }, true };
	int error;

	if (!has_strange(uses, context))
		return 0;
	error = join_all_strange(uses, &filter);
	if (!error)
		error = find_waiting(resource, &filter.joining.handle);
	filter.does_check = false;
	return error ? error : join_all_strange(uses, &filter);
}

static bool is_alone(const struct resource_uses *uses, struct custody_context *context)
{
	for (size_t i = 0; i < uses->other_count; i++)
		if (uses->others[i] != uses->stream)
			return false;
	return context_of(uses->stream, context) == context && !is_gone(uses->stream);
}

/* Behind the streams, none of which is capturing. */
static int wait_on_own(struct custody_resource *resource, const struct resource_uses *uses,
		       CUstream *handle)
{
	struct custody_context *context = resource->object.context;
	struct joining joining = { context, NULL };
	int error = find_waiting(resource, handle);

	joining.handle = *handle;
	if (!error)
		error = visit(uses->stream, context, join, &joining);
	return error ? error : visit_others(uses, context, join, &joining);
}

int resource_wait_own(struct custody_resource *resource, const struct resource_uses *uses,
		      CUstream *handle)
{
	int error = refuse_capturing(uses, resource->object.context);

	return error ? error : wait_on_own(resource, uses, handle);
}

int resource_wait_order(struct custody_resource *resource, const struct resource_uses *uses,
			CUstream *handle)
{
	struct custody_context *context = resource->object.context;
	int error = refuse_capturing(uses, context);

	if (error)
		return error;
	return is_alone(uses, context) ? stream_resolve(uses->stream, context, handle, NULL) :
					 wait_on_own(resource, uses, handle);
}
