/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_capture.c - captures on a stream.  The engine's wrappers shut the gate of the
 * deferred frees before one begins and open it when it is over.
 */
#include "library/library.h"

#include <inttypes.h>

/* The first form of the question, which drivers have all; later ones have more to tell. */
typedef __typeof__(CUresult(CUstream, CUstreamCaptureStatus *, cuuint64_t *)) ask_info;

static uint64_t find_id(CUstream handle)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	ask_info *ask = (ask_info *)library_engine->find("cuStreamGetCaptureInfo");
	cuuint64_t id = 0;

	if (!ask || ask(handle, &status, &id) != CUDA_SUCCESS ||
	    status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return STREAM_CAPTURE_UNKNOWN;
	return id;
}

int stream_capture_ask(CUstream handle, uint64_t *id)
{
	bool is_capturing;
	int error = stream_ask_capturing(handle, &is_capturing);

	*id = !error && is_capturing ? find_id(handle) : 0;
	return error;
}

int stream_capture_check(CUstream handle, uint64_t from)
{
	uint64_t id;
	int error = stream_capture_ask(handle, &id);

	if (!error && id && id != from)
		return error_say(CUSTODY_E_CAPTURING, "a stream that is capturing cannot wait for "
				 "what is outside of the capture");
	return error;
}

int custody_stream_is_capturing(struct custody_stream *stream, bool *is_capturing)
{
	struct library_call call;
	bool answer;
	int error = is_capturing ? stream_enter(&call, stream) :
				   error_say(CUSTODY_E_INVALID, "where to put the answer is NULL");

	if (error)
		return error;
	error = stream_ask_capturing(stream->handle, &answer);
	if (!error)
		*is_capturing = answer;
	return library_leave(&call, error);
}

int custody_stream_begin_capture(struct custody_stream *stream, CUstreamCaptureMode mode)
{
	struct library_call call;
	int error;

	if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return error_say(CUSTODY_E_INVALID, "%d is no capture mode", (int)mode);
	error = stream_enter_idle(&call, stream);
	if (error)
		return error;
	if (!library_cuda.cuStreamBeginCapture)
		return library_leave(&call, CUSTODY_E_UNSUPPORTED);
	return library_leave(&call, library_cuda.cuStreamBeginCapture(stream->handle, mode));
}

/* With the context current.  A capture that was spoilt ends too, without a graph. */
static int end_capture(struct custody_stream *stream, CUgraph *graph)
{
	CUgraph made = NULL;
	bool is_capturing;
	int error = stream_ask_capturing(stream->handle, &is_capturing);

	if (error)
		return error;
	if (!is_capturing)
		return error_say(CUSTODY_E_NOT_CAPTURING, "stream %" PRIu64 " is not capturing",
				 stream->id);
	error = library_cuda.cuStreamEndCapture(stream->handle, &made);
	if (!error)
		*graph = made;
	return error;
}

int custody_stream_end_capture(struct custody_stream *stream, CUgraph *graph)
{
	struct library_call call;
	int error = graph ? stream_enter(&call, stream) :
			    error_say(CUSTODY_E_INVALID, "where to put the graph is NULL");

	return error ? error : library_leave(&call, end_capture(stream, graph));
}
