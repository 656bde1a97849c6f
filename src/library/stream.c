/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - streams as objects, their waits and questions, and which handle other
 * files pass for one.
 *
 * The stream of the driver lives until its owner has destroyed it and no buffer will be
 * freed in it, or its context is reset, whichever comes first: `is_ended` says who was.
 * The object lives on until the last callback that is to be given it has run.
 */
#include "library/library.h"

#include "core/option.h"

#include <inttypes.h>
#include <stdlib.h>

/* Names of streams for the life of the process; the driver's handles come again. */
static _Atomic uint64_t last_id;

/* ------------------------------------------------------------ for other files */

CUstream stream_default_handle(void)
{
	return option_integer(OPTION_PER_THREAD_STREAM) ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

int stream_ask_capturing(CUstream handle, bool *is_capturing)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult result;

	*is_capturing = false;
	if (!library_cuda.cuStreamIsCapturing)
		return 0;
	result = library_cuda.cuStreamIsCapturing(handle, &status);
	if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
		return error_say(CUSTODY_E_CAPTURING, "the legacy default stream cannot be used "
				 "while a blocking stream of its context is capturing");
	*is_capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
	return result;
}

/* Its user waits for what he puts there, which a capture does not survive. */
static int resolve_default(CUstream *handle)
{
	CUstream found = stream_default_handle();
	bool is_capturing;
	int error = stream_ask_capturing(found, &is_capturing);

	if (error)
		return error;
	if (is_capturing)
		return error_say(CUSTODY_E_CAPTURING, "no stream was given, and the default stream "
				 "of this thread is capturing");
	*handle = found;
	return 0;
}

/* Its context was reset, or a reset of another thread has come to it by now. */
static bool is_over(const struct custody_stream *stream)
{
	return !stream->is_default &&
	       (atomic_load_explicit(&stream->is_ended, memory_order_acquire) ||
		!context_is_fresh(stream->object.context, stream->object.generation));
}

static int say_over(const struct custody_stream *stream)
{
	return error_say(CUSTODY_E_STALE, "the context of stream %" PRIu64 " was reset after the "
			 "stream was made", stream->id);
}

int stream_resolve(struct custody_stream *stream, const struct custody_context *context,
		   CUstream *handle, bool *is_synchronous)
{
	if (is_synchronous)
		*is_synchronous = !stream;
	if (!stream)
		return resolve_default(handle);
	if (stream->object.context != context)
		return error_say(CUSTODY_E_MISMATCH, "stream %" PRIu64 " is of another context",
				 stream->id);
	if (is_over(stream))
		return say_over(stream);
	*handle = stream->handle;
	return 0;
}

void stream_relax(struct stream_mode *mode)
{
	mode->before = library_engine->exchange_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
}

void stream_restore(const struct stream_mode *mode)
{
	library_engine->exchange_mode(mode->before);
}

int stream_finish(CUstream handle, bool is_synchronous)
{
	struct stream_mode mode;
	CUresult result;

	if (!is_synchronous)
		return 0;
	stream_relax(&mode);
	result = library_cuda.cuStreamSynchronize(handle);
	stream_restore(&mode);
	return result;
}

int stream_enter(struct library_call *call, const struct custody_stream *stream)
{
	int error;

	if (!stream)
		return error_say(CUSTODY_E_INVALID, "the stream is NULL");
	if (stream->is_default)
		return library_enter_context(call, stream->object.context);
	error = context_enter(call, &stream->object);
	return !error && is_over(stream) ? library_leave(call, say_over(stream)) : error;
}

int stream_enter_idle(struct library_call *call, const struct custody_stream *stream)
{
	bool is_capturing;
	int error = stream_enter(call, stream);

	if (error)
		return error;
	error = stream_ask_capturing(stream->handle, &is_capturing);
	if (!error && is_capturing)
		error = error_say(CUSTODY_E_CAPTURING, "stream %" PRIu64 " is capturing",
				  stream->id);
	return error ? library_leave(call, error) : 0;
}

/* ------------------------------------------------------------ coming and going */

void stream_hold(struct custody_stream *stream)
{
	atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
}

void stream_drop(struct custody_stream *stream)
{
	if (atomic_fetch_sub_explicit(&stream->references, 1, memory_order_acq_rel) == 1)
		free(stream);
}

/* The context is reset.  A capture ends with its stream. */
static void end_stream(struct library_object *object)
{
	struct custody_stream *stream = (struct custody_stream *)object;

	if (!stream->is_foreign && !atomic_exchange(&stream->is_ended, true))
		library_cuda.cuStreamDestroy(stream->handle);
}

static struct custody_stream *new_stream(CUstream handle)
{
	struct custody_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->handle = handle;
	stream->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
	stream->object.is_late = true;
	atomic_init(&stream->uses, 1);
	atomic_init(&stream->references, 1);
	return stream;
}

/* With the context current.  The driver keeps a priority to those that the device has. */
static int create(struct custody_context *context, const struct custody_stream_options *options,
		  struct custody_stream **stream)
{
	unsigned int flags = options->is_nonblocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
	int priority = options->has_priority ? options->priority : 0;
	struct custody_stream *made = new_stream(NULL);
	int error;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	error = library_cuda.cuStreamCreateWithPriority(&made->handle, flags, priority);
	if (error) {
		free(made);
		return error;
	}
	context_put(&made->object, context, end_stream);
	*stream = made;
	return 0;
}

int custody_stream_create(struct custody_context *context,
			  const struct custody_stream_options *options,
			  struct custody_stream **stream)
{
	struct custody_stream_options mine;
	struct library_call call;
	int error;

	if (!context || !stream)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the stream, "
				 "is NULL");
	error = library_options(&mine, sizeof(mine), options);
	if (!error)
		error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, create(context, &mine, stream));
}

/* Before a stream of a context is wrapped, with that current: 0 or an error. */
static int check_owner(const struct custody_context *context, CUstream handle)
{
	CUcontext owner = NULL;
	CUresult result = library_cuda.cuStreamGetCtx(handle, &owner);

	if (result == CUDA_SUCCESS && owner != atomic_load(&context->handle))
		return error_say(CUSTODY_E_MISMATCH, "stream %p is of context %p, not of %p",
				 (void *)handle, (void *)owner,
				 (void *)atomic_load(&context->handle));
	return result;
}

static int wrap(struct custody_context *context, CUstream handle, struct custody_stream **stream)
{
	bool is_token = handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
	int error = is_token ? 0 : check_owner(context, handle);
	struct custody_stream *made;

	if (error)
		return error;
	made = new_stream(handle);
	if (!made)
		return CUSTODY_E_NO_MEMORY;
	made->is_foreign = true;
	context_put(&made->object, context, end_stream);
	*stream = made;
	return 0;
}

int custody_stream_wrap(struct custody_context *context, CUstream handle,
			struct custody_stream **stream)
{
	struct library_call call;
	int error;

	if (!context || !stream)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the stream, "
				 "is NULL");
	error = library_enter_context(&call, context);
	if (error)
		return error;
	if (!handle)
		handle = stream_default_handle();
	return library_leave(&call, wrap(context, handle, stream));
}

/* The work in it goes on: the driver takes its own part back when that is done. */
static int retire(struct custody_stream *stream)
{
	uint32_t number = atomic_load(&stream->object.context->number);

	if (atomic_exchange(&stream->is_ended, true) ||
	    library_engine->retire(number, DEFERQ_STREAM, (uintptr_t)stream->handle,
				   stream->given_up_at))
		return 0;
	return library_cuda.cuStreamDestroy(stream->handle);
}

void stream_retain(struct custody_stream *stream)
{
	if (stream && !stream->is_default)
		atomic_fetch_add_explicit(&stream->uses, 1, memory_order_relaxed);
}

/* Out of the list first: from then on no reset looks at it. */
static int finish(struct custody_stream *stream)
{
	struct library_call call;
	int error = 0;
	bool has_entered = !stream->is_foreign && !context_enter(&call, &stream->object);

	context_remove(&stream->object);
	if (has_entered)
		error = library_leave(&call, retire(stream));
	stream_drop(stream);
	return error;
}

int stream_release(struct custody_stream *stream)
{
	if (!stream || stream->is_default ||
	    atomic_fetch_sub_explicit(&stream->uses, 1, memory_order_acq_rel) != 1)
		return 0;
	return finish(stream);
}

/*
 * Its end would be that of the capture, if the driver did it at all.  Without a live
 * capture nothing is asked: a reset on another thread, which is refused during one, may
 * come to the stream first.
 */
static int check_idle(struct custody_stream *stream)
{
	struct library_call call;
	int error;

	if (stream->is_foreign || !library_engine->is_capturing())
		return 0;
	error = stream_enter_idle(&call, stream);
	if (!error)
		return library_leave(&call, 0);
	return error == CUSTODY_E_CAPTURING ? error : 0;
}

int custody_stream_destroy(struct custody_stream *stream)
{
	int error;

	if (!stream || stream->is_default)
		return 0;
	error = check_idle(stream);
	if (error)
		return error;
	if (atomic_exchange(&stream->is_given_up, true))
		return error_say(CUSTODY_E_CLOSED, "stream %" PRIu64 " was destroyed before",
				 stream->id);
	stream->given_up_at = __builtin_return_address(0);
	return stream_release(stream);
}

/* ------------------------------------------------------------ the default ones */

/*
 * Made when first asked for, and as permanent as their context's pointer.  The tokens
 * mean nothing by themselves: it is the context, current in each call, that makes them a
 * stream.
 */
static int find_default(struct custody_context *context, CUstream handle,
			struct custody_stream **stream)
{
	struct custody_stream **place = handle == CU_STREAM_LEGACY ? &context->legacy :
								     &context->per_thread;
	struct custody_stream *found;

	pthread_mutex_lock(&context->objects_lock);
	if (!*place && (*place = new_stream(handle))) {
		(*place)->is_default = true;
		(*place)->is_foreign = true;
		(*place)->object.context = context;
	}
	found = *place;
	pthread_mutex_unlock(&context->objects_lock);
	if (!found)
		return CUSTODY_E_NO_MEMORY;
	*stream = found;
	return 0;
}

static int give_default(struct custody_context *context, CUstream handle,
			struct custody_stream **stream)
{
	struct library_call call;
	int error;

	if (!context || !stream)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the stream, "
				 "is NULL");
	error = library_enter(&call);
	return error ? error : library_leave(&call, find_default(context, handle, stream));
}

int custody_stream_legacy(struct custody_context *context, struct custody_stream **stream)
{
	return give_default(context, CU_STREAM_LEGACY, stream);
}

int custody_stream_per_thread(struct custody_context *context, struct custody_stream **stream)
{
	return give_default(context, CU_STREAM_PER_THREAD, stream);
}

int custody_stream_default(struct custody_context *context, struct custody_stream **stream)
{
	return give_default(context, stream_default_handle(), stream);
}

/* ------------------------------------------------------------ what it says of itself */

CUstream custody_stream_handle(const struct custody_stream *stream)
{
	return stream ? stream->handle : stream_default_handle();
}

struct custody_context *custody_stream_context(const struct custody_stream *stream)
{
	return stream ? stream->object.context : NULL;
}

uint64_t custody_stream_id(const struct custody_stream *stream)
{
	return stream ? stream->id : 0;
}

int custody_stream_priority(struct custody_stream *stream, int *priority)
{
	struct library_call call;
	int error = priority ? stream_enter(&call, stream) :
			       error_say(CUSTODY_E_INVALID, "where to put the priority is NULL");

	if (error)
		return error;
	return library_leave(&call, library_cuda.cuStreamGetPriority(stream->handle, priority));
}
