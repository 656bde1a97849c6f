/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/managed.h - where managed memory is, and shall be.  Of buffers of managed
 * memory, else CUSTODY_E_INVALID.  Advice and prefetches where the device has no
 * concurrent managed access do nothing, and return 0.  A stream that is capturing is
 * refused with CUSTODY_E_CAPTURING.  Any thread.
 */
#ifndef CUSTODY_MANAGED_H
#define CUSTODY_MANAGED_H

#include <custody/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

enum custody_attach { CUSTODY_ATTACH_GLOBAL, CUSTODY_ATTACH_HOST, CUSTODY_ATTACH_SINGLE };

/* Attach to all streams, to the host, or to this stream alone; in the stream's order. */
CUSTODY_API int custody_managed_attach(struct custody_buffer *buffer,
				       enum custody_attach attach, struct custody_stream *stream);

CUSTODY_API int custody_managed_prefetch(struct custody_buffer *buffer,
					 struct custody_location location,
					 struct custody_stream *stream);

enum custody_advice {
	CUSTODY_ADVICE_READ_MOSTLY,
	CUSTODY_ADVICE_PREFERRED_LOCATION,
	CUSTODY_ADVICE_ACCESSED_BY
};

/* Give advice, or take it back. */
CUSTODY_API int custody_managed_advise(struct custody_buffer *buffer, enum custody_advice advice,
				       struct custody_location location, bool is_given);

/* The contents are not needed any more; with a location, the pages are wanted there. */
CUSTODY_API int custody_managed_discard(struct custody_buffer *buffer,
					struct custody_location location,
					struct custody_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
