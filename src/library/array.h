/* SPDX-License-Identifier: Apache-2.0 */
/*
 * array.h - private to src/library: what an array is.
 *
 * An array is never changed after it is made, so that any thread may read one; what
 * changes is its buffer, which says whether it is closed or stale.  It is no object of
 * its context: a reset finds its buffer.
 */
#ifndef CUSTODY_LIBRARY_ARRAY_H
#define CUSTODY_LIBRARY_ARRAY_H

#include "library/buffer.h"
#include "library/layout.h"

#include <custody/array.h>

struct custody_array {
	struct custody_buffer *buffer; /* it holds a reference */
	struct custody_stream *stream; /* it is bound to; NULL: none; it keeps it */
	struct layout layout;
	size_t offset; /* of the first element in the buffer */
	bool is_read_only;
};

/* --------------------------------------------------------------- array.c */

/* What a caller describes, checked; NULL is CUSTODY_E_INVALID. */
int array_read_layout(struct layout *layout, const struct custody_layout *given);

/*
 * An array over a buffer, on which it takes a reference of its own, bound to a stream
 * that may be NULL.  `offset` is that of the first element; beyond the buffer is
 * CUSTODY_E_BOUNDS.
 */
int array_make(struct custody_buffer *buffer, size_t offset, const struct layout *layout,
	       struct custody_stream *stream, struct custody_array **array);

/*
 * A stream, which may be NULL, is about to be given work on a buffer: memory that is
 * ordered by streams is not handed out anew before that is done, too.
 */
int array_note_stream(struct custody_buffer *buffer, struct custody_stream *stream);

/* Begin a function that needs no context: 0, or why the array is of no use. */
int array_check(const struct custody_array *array);

/* Where the first element is, for copies; 0: no elements.  Of one that is not closed. */
CUdeviceptr array_address(const struct custody_array *array);

/* An array of `layout` over somebody's memory, whose lowest byte is at `pointer`. */
int array_wrap(struct custody_context *context, void *pointer, const struct layout *layout,
	       struct custody_stream *stream,
	       void (*release)(void *owner, struct custody_stream *stream), void *owner,
	       struct custody_array **array);

/* ---------------------------------------------------------- array_copy.c */

/* A function that gives work to a stream: the one that is given, else that of the array. */
struct array_work {
	struct library_call call;
	struct custody_context *context; /* that is entered: the stream's */
	CUstream handle;
	bool is_synchronous;
};

int array_copy_begin(struct array_work *work, const struct custody_array *array,
		     struct custody_stream *stream);

/* Waits where no stream was there, and leaves; returns `result`, or the error of the wait. */
int array_copy_end(struct array_work *work, int result);

/* To or from the host, `bytes` from `moved` behind the first element on. */
int array_copy_out(const struct array_work *work, void *host, const struct custody_array *array,
		   ptrdiff_t moved, size_t bytes);
int array_copy_in(const struct array_work *work, const struct custody_array *array,
		  ptrdiff_t moved, const void *host, size_t bytes);

/* CUSTODY_E_INVALID for an array whose memory may only be read. */
int array_copy_check_target(const struct custody_array *array);

/* --------------------------------------------------------- array_stage.c */

/*
 * Host memory for a copy that the caller cannot copy from directly; not while the stream
 * is capturing, since the graph would read it whenever it is launched.
 */
int array_stage_new(const struct array_work *work, size_t bytes, void **stage);

/*
 * Copy it to the array, `moved` behind the first element, and see that it is freed when
 * the stream has passed: here where the caller waits anyway, or where the stream cannot
 * be followed, else at a later copy, a reset or the shutdown.  Frees it where it fails.
 */
int array_stage_send(struct array_work *work, const struct custody_array *array, ptrdiff_t moved,
		     void *stage, size_t bytes);

/* Free what the streams of a context, which is entered, have passed. */
void array_stage_collect(struct custody_context *context);

#endif
