/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How memory that is freed waits for streams.  From one stream to another that is an
 * event, recorded in the context of the one and waited for in that of the other, so
 * that it holds between contexts and devices too.
 */
#include "library/resource.h"

#include <inttypes.h>

/* ------------------------------------------------------------ whose stream it is */

uint64_t resource_thread(void)
{
	static _Atomic uint64_t last = RESOURCE_THREADS_SEVERAL;
	static __thread uint64_t number;

	if (!number)
		number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
	return number;
}

static CUstream handle_of(const struct custody_stream *stream)
{
	return stream ? stream->handle : stream_default_handle();
}

bool resource_is_elsewhere(const struct resource_use *use)
{
	return use->thread && handle_of(use->stream) == CU_STREAM_PER_THREAD &&
	       use->thread != resource_thread();
}

/* A foreign stream whose object was destroyed may be no stream any more. */
static bool is_gone(const struct custody_stream *stream)
{
	return stream && stream->is_foreign && atomic_load(&stream->is_given_up);
}

/* There is no handle for it here, and perhaps none at all. */
static bool is_unnamed(const struct resource_use *use)
{
	return is_gone(use->stream) || resource_is_elsewhere(use);
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

typedef int (*visit_function)(const struct resource_use *use, CUstream handle, void *argument);

/* In the context that is entered: a stream of it that was made before a reset is over. */
static int visit_here(const struct resource_use *use, struct custody_context *context,
		      visit_function act, void *argument)
{
	if (use->stream && !use->stream->is_default &&
	    !context_is_fresh(context, use->stream->object.generation))
		return 0;
	return act(use, handle_of(use->stream), argument);
}

/* Do something to a stream in its own context, unless it is over. */
static int visit(const struct resource_use *use, struct custody_context *context,
		 visit_function act, void *argument)
{
	struct library_call call;
	int error;

	if (is_over(use->stream))
		return 0;
	if (context_of(use->stream, context) == context)
		return visit_here(use, context, act, argument);
	error = stream_enter(&call, use->stream);
	if (error == CUSTODY_E_STALE)
		return 0;
	return error ? error : library_leave(&call, act(use, use->stream->handle, argument));
}

/* What is done for the stream it is freed on is done for this one. */
static bool is_covered(const struct resource_use *other, const struct resource_uses *uses)
{
	return other->stream == uses->at.stream &&
	       (!resource_is_elsewhere(other) || resource_is_elsewhere(&uses->at));
}

static int visit_others(const struct resource_uses *uses, struct custody_context *context,
			visit_function act, void *argument)
{
	int error = 0;

	for (size_t i = 0; i < uses->other_count && !error; i++)
		if (!is_covered(&uses->others[i], uses))
			error = visit(&uses->others[i], context, act, argument);
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

/* All of its context would have to be waited for, which a capture does not survive. */
static int check_unnamed(void)
{
	if (!library_engine->is_capturing())
		return 0;
	return error_say(CUSTODY_E_CAPTURING,
			 "a capture is live, so that memory cannot be freed that the default "
			 "stream of another thread uses, or a stream that is gone");
}

/* Refuse a stream that is not like `*argument`: capturing, or not. */
static int check_capturing(const struct resource_use *use, CUstream handle, void *argument)
{
	bool is_capturing = false;
	const bool *is_wanted = argument;
	int error;

	if (is_unnamed(use))
		return check_unnamed();
	error = stream_ask_capturing(handle, &is_capturing);
	if (!error && is_capturing != *is_wanted)
		error = say_capturing(use->stream);
	return error;
}

static int refuse_capturing(const struct resource_uses *uses, struct custody_context *context)
{
	bool is_wanted = false;
	int error = visit(&uses->at, context, check_capturing, &is_wanted);

	return error ? error : visit_others(uses, context, check_capturing, &is_wanted);
}

/* ------------------------------------------------------------ the host waits */

/* All of the current context, for streams that cannot be named any more. */
static CUresult wait_for_context(void)
{
	return library_engine->is_capturing() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED :
						library_cuda.cuCtxSynchronize();
}

static int synchronize(const struct resource_use *use, CUstream handle, void *argument)
{
	struct resource_mode mode;
	CUresult result;

	(void)argument;
	if (is_unnamed(use))
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
		error = visit(&uses->at, context, synchronize, NULL);
	return error ? error : visit_others(uses, context, synchronize, NULL);
}

/* ------------------------------------------------------------ a stream waits */

/* What is in the stream by now; of one without a name, what is in its context. */
static CUresult record(const struct resource_use *use, CUstream handle, CUevent event)
{
	CUcontext current = NULL;

	if (!is_unnamed(use))
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
static int join(const struct resource_use *use, CUstream handle, void *argument)
{
	const struct joining *joining = argument;
	CUevent event;
	int error = library_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

	if (error)
		return error;
	error = record(use, handle, event);
	if (!error)
		error = wait_for_event(joining, event);
	library_cuda.cuEventDestroy(event);
	return error;
}

/*
 * The stream that waits is one of this thread's: of another thread's that was meant it
 * knows nothing.
 */
static int visit_behind(const struct resource_uses *uses, struct custody_context *context,
			visit_function act, void *argument)
{
	int error = resource_is_elsewhere(&uses->at) ? visit(&uses->at, context, act, argument) : 0;

	return error ? error : visit_others(uses, context, act, argument);
}

/* A capture that is joined to work outside of it is lost, so both are in one or in none. */
static int join_behind(struct custody_context *context, CUstream handle,
		       const struct resource_uses *uses)
{
	struct joining joining = { context, handle };
	bool is_capturing = false;
	int error = stream_ask_capturing(handle, &is_capturing);

	if (!error)
		error = visit_behind(uses, context, check_capturing, &is_capturing);
	return error ? error : visit_behind(uses, context, join, &joining);
}

/* The stream may be of another context than the memory. */
int resource_wait_freeing(struct custody_context *context, const struct resource_uses *uses)
{
	struct custody_context *where = context_of(uses->at.stream, context);
	struct library_call call;
	CUstream handle;
	int error;

	if (!uses->other_count && !resource_is_elsewhere(&uses->at))
		return 0;
	error = stream_resolve(uses->at.stream, where, &handle, NULL);
	if (!error)
		error = library_enter_context(&call, where);
	return error ? error : library_leave(&call, join_behind(where, handle, uses));
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

static int join_strange(const struct resource_use *use, CUstream handle, void *argument)
{
	struct filter *filter = argument;
	bool is_capturing = false;

	if (context_of(use->stream, filter->context) == filter->context)
		return 0;
	return filter->does_check ? check_capturing(use, handle, &is_capturing) :
				    join(use, handle, &filter->joining);
}

static bool has_strange(const struct resource_uses *uses, struct custody_context *context)
{
	bool is_strange = context_of(uses->at.stream, context) != context;

	for (size_t i = 0; i < uses->other_count && !is_strange; i++)
		is_strange = context_of(uses->others[i].stream, context) != context;
	return is_strange;
}

static int join_all_strange(const struct resource_uses *uses, struct filter *filter)
{
	int error = visit(&uses->at, filter->context, join_strange, filter);

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
		if (!is_covered(&uses->others[i], uses))
			return false;
	return context_of(uses->at.stream, context) == context && !is_unnamed(&uses->at);
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
		error = visit(&uses->at, context, join, &joining);
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
	return is_alone(uses, context) ? stream_resolve(uses->at.stream, context, handle, NULL) :
					 wait_on_own(resource, uses, handle);
}
