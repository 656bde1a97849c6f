/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/completion.h - the end of a stream's work as something to wait for.
 *
 * The C form of Stream.async_done(): poll it, wait for it, or hand its descriptor
 * to poll(2), select(2) or epoll(7).  Any thread.
 */
#ifndef CUSTODY_COMPLETION_H
#define CUSTODY_COMPLETION_H

#include <custody/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Completed when all that is in the stream by now is done; later work waits until that
 * was told.  It does not end the stream's life nor depend on it.  Freed by
 * custody_completion_destroy(), before or after it is completed; NULL is fine.
 */
CUSTODY_API int custody_stream_completion(struct custody_stream *stream,
					  struct custody_completion **completion);
CUSTODY_API void custody_completion_destroy(struct custody_completion *completion);

/* Whether it is completed, with the status of the work in *status, which may be NULL. */
CUSTODY_API bool custody_completion_poll(struct custody_completion *completion, CUresult *status);

/*
 * Wait at most `timeout_ns`, -1: for ever.  0, or the status of the work where that has
 * failed, or CUSTODY_E_TIMEOUT.  In a child of fork nothing is completed any more.
 */
CUSTODY_API int custody_completion_wait(struct custody_completion *completion, int64_t timeout_ns);

/*
 * A descriptor that becomes readable, and stays so, also for one who reads from it; the
 * same each time, made by the first call, closed with the completion.  Negative is an
 * error.
 */
CUSTODY_API int custody_completion_descriptor(struct custody_completion *completion);

/* The stream it was made for, for the caller who still has that. */
CUSTODY_API struct custody_stream *custody_completion_stream(struct custody_completion *completion);

#ifdef __cplusplus
}
#endif
#endif
