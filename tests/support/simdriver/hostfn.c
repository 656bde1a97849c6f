/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the client that a stream calls on its worker thread. */
#include "sim.h"
#include "entries.h"

CUresult hostfn_launch(CUstream hStream, CUhostFn fn, void *userData)
{
	struct op op = { .kind = OP_HOST, .host = fn, .data = userData };
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && !fn)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = capture_check_legacy(stream);
	if (error || capture_takes(stream, &op, &error))
		return error;
	context_pass_gate(stream->context);
	return queue_submit(stream, &op, NULL);
}

/* The older form: told the status, and not to be captured. */
CUresult hostfn_add_callback(CUstream hStream, CUstreamCallback callback, void *userData,
			     unsigned int flags)
{
	struct op op = { .kind = OP_CALLBACK, .callback = callback, .data = userData,
			 .handle = hStream };
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error && (!callback || flags))
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = capture_check_stream(stream);
	if (!error)
		error = capture_check_legacy(stream);
	if (error)
		return error;
	context_pass_gate(stream->context);
	return queue_submit(stream, &op, NULL);
}
