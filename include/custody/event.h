/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/event.h - events: moments in a stream's work.  Any thread, but one event is
 * destroyed once and by one.
 */
#ifndef CUSTODY_EVENT_H
#define CUSTODY_EVENT_H

#include <custody/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

struct custody_event_options {
	size_t size; /* sizeof(struct custody_event_options), set by the caller */
	bool is_timed;
	bool blocks; /* whoever waits sleeps instead of spinning */
	bool is_shareable; /* may be exported to other processes; cannot be timed */
};

/*
 * An event of the context; `options` NULL: timed, as documented.  Freed by
 * custody_event_destroy(), which queues it (see custody/defer.h); NULL is fine.
 * Documented: cuda.event(timing).
 */
CUSTODY_API int custody_event_create(struct custody_context *context,
				     const struct custody_event_options *options,
				     struct custody_event **event);
CUSTODY_API int custody_event_destroy(struct custody_event *event);

CUSTODY_API CUevent custody_event_handle(const struct custody_event *event);
CUSTODY_API struct custody_context *custody_event_context(const struct custody_event *event);

/*
 * Whether all work before the last record is done; true where it was never recorded.
 * CUSTODY_E_CAPTURING for one that was recorded into a capture: nothing is known of it;
 * where the program has done that by a call of its own, the question spoils the capture.
 * Documented: Event.query().
 */
CUSTODY_API int custody_event_query(struct custody_event *event, bool *is_done);

/*
 * The moment is now, in the stream; NULL: the default stream of the event's context.
 * A stream of another context is CUSTODY_E_MISMATCH.  Neither this nor the next waits.
 * Documented: Event.record().
 */
CUSTODY_API int custody_event_record(struct custody_event *event, struct custody_stream *stream);

/*
 * Later work of the stream waits; another context's or device's may be.  One that is
 * capturing waits for events of its capture only: CUSTODY_E_CAPTURING.  Event.wait().
 */
CUSTODY_API int custody_event_wait(struct custody_event *event, struct custody_stream *stream);

/* The calling thread waits; as custody_event_query() during a capture.  Event.synchronize(). */
CUSTODY_API int custody_event_synchronize(struct custody_event *event);

/*
 * Milliseconds from one to the other; both are of one context, timed and done, or
 * CUDA_ERROR_NOT_READY tells that they are not yet.
 * Documented: cuda.event_elapsed_time(), Event.elapsed_time().
 */
CUSTODY_API int custody_event_elapsed(struct custody_event *from, struct custody_event *to,
				      float *milliseconds);

/*
 * To another process, and there; what comes from outside is checked by the driver.  An
 * event that was imported is not timed.
 */
CUSTODY_API int custody_event_export(struct custody_event *event, CUipcEventHandle *handle);
CUSTODY_API int custody_event_import(struct custody_context *context,
				     const CUipcEventHandle *handle, struct custody_event **event);

#ifdef __cplusplus
}
#endif
#endif
