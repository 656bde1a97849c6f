/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_callback.c - functions of the program that the driver calls at the end of a
 * stream's work.
 *
 * By cuStreamAddCallback, although it may go one day: what came after it is not called
 * at all where the work has failed, and has no status to tell.  The driver's thread
 * holds no lock of ours while it is in the program's function.
 */
#include "library/library.h"

#include <stdlib.h>

struct callback {
	struct custody_stream *stream; /* held */
	void (*function)(struct custody_stream *stream, CUresult status, void *argument);
	void *argument;
};

static void forget(struct callback *callback)
{
	stream_drop(callback->stream);
	free(callback);
}

static void CUDA_CB run(CUstream handle, CUresult status, void *argument)
{
	struct callback *callback = argument;

	(void)handle;
	callback->function(callback->stream, status, callback->argument);
	forget(callback);
}

static int add(struct callback *callback)
{
	struct library_call call;
	int error = stream_enter_idle(&call, callback->stream);

	if (error)
		return error;
	return library_leave(&call, library_cuda.cuStreamAddCallback(callback->stream->handle, run,
								     callback, 0));
}

int custody_stream_add_callback(struct custody_stream *stream,
				void (*function)(struct custody_stream *stream, CUresult status,
						 void *argument),
				void *argument)
{
	struct callback *callback;
	int error;

	if (!stream || !function)
		return error_say(CUSTODY_E_INVALID, "the stream or the function is NULL");
	callback = malloc(sizeof(*callback));
	if (!callback)
		return CUSTODY_E_NO_MEMORY;
	*callback = (struct callback){ stream, function, argument };
	stream_hold(stream);
	error = add(callback);
	if (error)
		forget(callback);
	return error;
}
