/* SPDX-License-Identifier: Apache-2.0 */
/* stream_wait.c - waiting for streams: the caller, and one stream for another. */
#include "library/library.h"

int custody_stream_synchronize(struct custody_stream *stream)
{
	struct library_call call;
	int error = stream_enter_idle(&call, stream);

	return error ? error : library_leave(&call, stream_finish(stream->handle, true));
}

int custody_stream_query(struct custody_stream *stream, bool *is_done)
{
	struct library_call call;
	struct stream_mode mode;
	CUresult result;
	int error = is_done ? stream_enter_idle(&call, stream) :
			      error_say(CUSTODY_E_INVALID, "where to put the answer is NULL");

	if (error)
		return error;
	stream_relax(&mode);
	result = library_cuda.cuStreamQuery(stream->handle);
	stream_restore(&mode);
	if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
		*is_done = result == CUDA_SUCCESS;
	return library_leave(&call, result == CUDA_ERROR_NOT_READY ? 0 : (int)result);
}

/* With the context of the other one current, and `event` its present end. */
static int await(struct custody_stream *stream, CUevent event, uint64_t capture)
{
	struct library_call call;
	int error = stream_enter(&call, stream);

	if (error)
		return error;
	error = stream_capture_check(stream->handle, capture);
	if (!error)
		error = library_cuda.cuStreamWaitEvent(stream->handle, event, 0);
	return library_leave(&call, error);
}

/* The driver keeps what it needs of an event that is destroyed before it has passed. */
static int await_end(struct custody_stream *stream, struct custody_stream *other)
{
	CUevent event;
	uint64_t capture;
	int destroyed, error = stream_capture_ask(other->handle, &capture);

	if (!error)
		error = library_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (error)
		return error;
	error = library_cuda.cuEventRecord(event, other->handle);
	if (!error)
		error = await(stream, event, capture);
	destroyed = library_cuda.cuEventDestroy(event);
	return error ? error : destroyed;
}

int custody_stream_wait_stream(struct custody_stream *stream, struct custody_stream *other)
{
	struct library_call call;
	int error = stream ? stream_enter(&call, other) :
			     error_say(CUSTODY_E_INVALID, "the stream that is to wait is NULL");

	return error ? error : library_leave(&call, await_end(stream, other));
}

int custody_stream_auto_synchronize(struct custody_stream *stream,
				    int (*body)(struct custody_stream *stream, void *argument),
				    void *argument)
{
	int error, waited;

	if (!stream || !body)
		return error_say(CUSTODY_E_INVALID, "the stream or the body is NULL");
	error = body(stream, argument);
	waited = custody_stream_synchronize(stream);
	return error ? error : waited;
}

void custody_stream_leave(struct custody_stream **stream)
{
	if (stream && *stream)
		custody_stream_synchronize(*stream);
}
