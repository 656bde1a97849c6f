/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/stream.h - streams: queues of work of a context.
 *
 * Where a function takes a stream, NULL stands for the default stream of the context
 * at hand, and the function is then synchronous: it returns when its work is done.
 * The functions of this header want a stream: there NULL is CUSTODY_E_INVALID.
 * Which stream is the default is the process's choice: the legacy one, or with
 * CUSTODY_PER_THREAD_DEFAULT_STREAM=1 (or NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM=1,
 * CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1) each thread's own.
 *
 * No function here spoils a capture that libcustody knows of: where it would, it
 * does nothing and returns CUSTODY_E_CAPTURING.
 *
 * Any thread, but one stream is destroyed once and by one.
 */
#ifndef CUSTODY_STREAM_H
#define CUSTODY_STREAM_H

#include <custody/context.h>

#ifdef __cplusplus
extern "C" {
#endif

struct custody_stream;
struct custody_event;
struct custody_completion;

struct custody_stream_options {
	size_t size; /* sizeof(struct custody_stream_options), set by the caller */
	bool is_nonblocking; /* does not wait for the legacy default stream, nor it for this */
	bool has_priority;
	int priority; /* lower is more urgent; clamped to what the device has */
};

/*
 * A stream of the context; `options` NULL: one that blocks with the legacy default
 * stream, as documented.  Freed by custody_stream_destroy(), which queues it (see
 * custody/defer.h); NULL is fine.  Documented: cuda.stream().
 *
 * What is in the stream is done all the same, and a buffer that is still to be freed
 * in it may be.  One that is capturing is not destroyed.
 */
CUSTODY_API int custody_stream_create(struct custody_context *context,
				      const struct custody_stream_options *options,
				      struct custody_stream **stream);
CUSTODY_API int custody_stream_destroy(struct custody_stream *stream);

/*
 * Objects for the default streams; they are the library's own, valid for the life of
 * the process, and destroying them does nothing.  cuda.default_stream(),
 * legacy_default_stream(), per_thread_default_stream().
 */
CUSTODY_API int custody_stream_default(struct custody_context *context,
				       struct custody_stream **stream);
CUSTODY_API int custody_stream_legacy(struct custody_context *context,
				      struct custody_stream **stream);
CUSTODY_API int custody_stream_per_thread(struct custody_context *context,
					  struct custody_stream **stream);

/*
 * A stream that somebody else has made and keeps alive longer than this object, which
 * custody_stream_destroy() frees without the stream.  A handle of 0 is the default
 * stream; CUSTODY_E_MISMATCH: it is of another context.  cuda.external_stream().
 */
CUSTODY_API int custody_stream_wrap(struct custody_context *context, CUstream handle,
				    struct custody_stream **stream);

/*
 * The driver's handle (CU_STREAM_LEGACY or CU_STREAM_PER_THREAD for the default ones, one
 * of them for NULL).
 */
CUSTODY_API CUstream custody_stream_handle(const struct custody_stream *stream);
CUSTODY_API struct custody_context *custody_stream_context(const struct custody_stream *stream);

/* Never used again in this process, other than the handle. */
CUSTODY_API uint64_t custody_stream_id(const struct custody_stream *stream);

CUSTODY_API int custody_stream_synchronize(struct custody_stream *stream);
CUSTODY_API int custody_stream_query(struct custody_stream *stream, bool *is_done);
CUSTODY_API int custody_stream_priority(struct custody_stream *stream, int *priority);

/*
 * Later work of `stream` waits for the event, or for all that is in `other` by now; both
 * may be of another context or device.
 */
CUSTODY_API int custody_stream_wait_event(struct custody_stream *stream,
					  struct custody_event *event);
CUSTODY_API int custody_stream_wait_stream(struct custody_stream *stream,
					   struct custody_stream *other);

/*
 * Run `body`, then wait for the stream, also where `body` fails; returns the error of
 * `body`, else that of the wait.  Documented: Stream.auto_synchronize().
 */
CUSTODY_API int custody_stream_auto_synchronize(struct custody_stream *stream,
						int (*body)(struct custody_stream *stream,
							    void *argument),
						void *argument);

/*
 * Synchronise at the end of a block:
 *	struct custody_stream *s CUSTODY_AUTO_SYNCHRONIZE = stream;
 * An error of the work is lost on whoever does not ask again.
 */
#define CUSTODY_AUTO_SYNCHRONIZE __attribute__((cleanup(custody_stream_leave)))
CUSTODY_API void custody_stream_leave(struct custody_stream **stream);

/*
 * Have `function` called from a thread of the driver's when all that is in the stream
 * by now is done, with the status of that work.  It must not call CUDA, nor any
 * function of libcustody; the stream's later work waits for it.  Where this
 * function fails `function` is never called.  Documented: Stream.add_callback().
 */
CUSTODY_API int custody_stream_add_callback(struct custody_stream *stream,
					    void (*function)(struct custody_stream *stream,
							     CUresult status, void *argument),
					    void *argument);

/*
 * Begin and end a capture on the stream, with the gate of the deferred frees shut in
 * between.  The graph is the caller's, to be destroyed by cuGraphDestroy().  The end of
 * a capture that was spoilt returns the driver's error, without a graph, and it is the
 * end; CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD is not: the thread that began can end it.
 * While it begins, no other thread frees memory that this stream uses: it could be
 * drawn in.
 */
CUSTODY_API int custody_stream_begin_capture(struct custody_stream *stream,
					     CUstreamCaptureMode mode);
CUSTODY_API int custody_stream_end_capture(struct custody_stream *stream, CUgraph *graph);

/* Also true of one whose capture was spoilt and wants its end. */
CUSTODY_API int custody_stream_is_capturing(struct custody_stream *stream, bool *is_capturing);

#ifdef __cplusplus
}
#endif
#endif
