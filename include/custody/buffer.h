/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/buffer.h - a buffer: memory of a resource, or of somebody else, that knows
 * how and where it is freed.
 *
 * A buffer is counted by reference; arrays and slices hold references.  Closing it
 * frees its memory at once for all of them, and may be done twice; the object itself
 * ends with the last reference, which closes it if nobody has.  Functions on a closed
 * buffer are CUSTODY_E_CLOSED, on one whose context was reset CUSTODY_E_STALE.
 * Any thread; one buffer is not closed while another thread works with it.
 *
 * A default stream of each thread's own (CU_STREAM_PER_THREAD, and NULL where that is the
 * process's choice) is the stream of the thread that names it here: that makes or wraps
 * the buffer, sets its free stream, records the stream or closes on it.  Where that is
 * not the thread on which the memory is freed, the free comes after all that the context
 * has been given by then, and is CUSTODY_E_CAPTURING while a capture is live.
 */
#ifndef CUSTODY_BUFFER_H
#define CUSTODY_BUFFER_H

#include <custody/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * `bytes` of a resource (NULL: that of the current device), to be freed on `stream`
 * unless another is set or given.  0 bytes is a buffer without memory.
 */
CUSTODY_API int custody_buffer_create(struct custody_resource *resource, size_t bytes,
				      struct custody_stream *stream,
				      struct custody_buffer **buffer);

/*
 * Memory of somebody else.  `release`, which may be NULL, is called with `owner` and
 * the free stream when the buffer is closed, in the context, and may be called on
 * another thread than this one.
 */
CUSTODY_API int custody_buffer_wrap(struct custody_context *context, void *pointer, size_t bytes,
				    void (*release)(void *owner, struct custody_stream *stream),
				    void *owner, struct custody_buffer **buffer);

CUSTODY_API void custody_buffer_retain(struct custody_buffer *buffer);

/*
 * One reference less; NULL is fine.  The last one closes, on the free stream; where that
 * is capturing this is CUSTODY_E_CAPTURING and the reference is kept, to be released
 * again.  What the driver refuses to free is freed with the context.
 */
CUSTODY_API int custody_buffer_release(struct custody_buffer *buffer);

/*
 * Free the memory now, on `stream`, or on the free stream where that is NULL.  A
 * closed buffer stays closed and this returns 0; where it fails nothing has changed, as
 * with CUSTODY_E_CAPTURING if memory of a pool or virtual memory is used by a stream
 * that is capturing.  Work that was given before to that stream, to streams of
 * custody_buffer_record_stream() and, for memory that is queued, to any stream of the
 * context may still use the memory.
 */
CUSTODY_API int custody_buffer_close(struct custody_buffer *buffer, struct custody_stream *stream);
CUSTODY_API bool custody_buffer_is_closed(const struct custody_buffer *buffer);

/* The stream on which it will be freed; NULL is CUSTODY_E_INVALID. */
CUSTODY_API int custody_buffer_set_free_stream(struct custody_buffer *buffer,
					       struct custody_stream *stream);

/*
 * Another stream uses the memory: it is not reused before what that stream has been
 * given by the time of the close is done.
 */
CUSTODY_API int custody_buffer_record_stream(struct custody_buffer *buffer,
					     struct custody_stream *stream);

struct custody_buffer_info {
	size_t size; /* sizeof(struct custody_buffer_info), set by the caller */
	void *pointer;	      /* the address that copies name; NULL: no bytes, or closed */
	void *host_pointer;   /* NULL: the host cannot reach it */
	void *device_pointer; /* NULL: the device cannot reach it */
	size_t bytes;
	int device; /* ordinal; -1: none */
	bool is_device_accessible;
	bool is_host_accessible;
	bool is_managed;
	bool is_mapped; /* of another process */
	bool is_closed;
};

CUSTODY_API int custody_buffer_info(const struct custody_buffer *buffer,
				    struct custody_buffer_info *info);
CUSTODY_API void *custody_buffer_pointer(const struct custody_buffer *buffer);
CUSTODY_API size_t custody_buffer_bytes(const struct custody_buffer *buffer);
/* No reference is given; NULL where the memory is somebody else's. */
CUSTODY_API struct custody_resource *custody_buffer_resource(const struct custody_buffer *buffer);
CUSTODY_API struct custody_context *custody_buffer_context(const struct custody_buffer *buffer);

/*
 * A part of a buffer as a buffer of its own, that holds a reference on it.  Beyond
 * the end is CUSTODY_E_BOUNDS.  Closing a part frees nothing.
 */
CUSTODY_API int custody_buffer_slice(struct custody_buffer *buffer, size_t offset, size_t bytes,
				     struct custody_buffer **slice);

/*
 * Copy all bytes to another buffer of the same size, else CUSTODY_E_MISMATCH.
 * Asynchronous on `stream`, NULL: synchronous.  Where *target is NULL a buffer is
 * made of the same resource (CUSTODY_E_INVALID if there is none) and is the caller's.
 * Between devices without peer access the driver goes by the host.
 */
CUSTODY_API int custody_buffer_copy_to(struct custody_buffer *source,
				       struct custody_buffer **target,
				       struct custody_stream *stream);
CUSTODY_API int custody_buffer_copy_from(struct custody_buffer *target,
					 struct custody_buffer *source,
					 struct custody_stream *stream);

/*
 * Copy between a buffer and host memory, from or to `offset` on.  With a stream the
 * host memory is used until the stream has passed; pageable memory may be used beyond
 * the return.
 */
CUSTODY_API int custody_buffer_write(struct custody_buffer *target, size_t offset,
				     const void *host, size_t bytes,
				     struct custody_stream *stream);
CUSTODY_API int custody_buffer_read(struct custody_buffer *source, size_t offset, void *host,
				    size_t bytes, struct custody_stream *stream);

/*
 * Fill with a value of `width` 1, 2 or 4 bytes, which divides the size, else
 * CUSTODY_E_INVALID.
 */
CUSTODY_API int custody_buffer_fill(struct custody_buffer *buffer, const void *value,
				    size_t width, struct custody_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
