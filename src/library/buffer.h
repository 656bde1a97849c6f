/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.h - private: what a buffer is.
 *
 * Memory of a resource, of somebody else (`release`), of another process (`import`) or a
 * part of another buffer (`whole`).  It is closed once, by whoever sets is_closed first;
 * after that its memory is not looked at any more.  Its streams are kept by it.
 */
#ifndef CUSTODY_LIBRARY_BUFFER_H
#define CUSTODY_LIBRARY_BUFFER_H

#include "library/resource.h"

#include <custody/buffer.h>

struct ipc_import;

struct custody_buffer {
	struct library_object object;
	_Atomic uint32_t references;
	_Atomic bool is_closed;
	_Atomic bool is_left; /* nobody has it, but it could not be closed: a reset will */
	bool is_held;	      /* by the reset that is at it */

	struct custody_buffer *whole;	   /* of a part; it holds a reference */
	struct custody_resource *resource; /* NULL: not of one; it holds a reference */
	struct resource_memory memory;
	int device; /* ordinal; -1: none */
	bool is_managed;

	/* Of somebody else. */
	void (*release)(void *owner, struct custody_stream *stream);
	void *owner;

	struct ipc_import *import; /* of another process, as long as it is open; NULL: not */
	bool is_mapped;		   /* it was */

	pthread_mutex_t lock; /* of the streams */
	struct resource_use free_use; /* the stream it is freed on */
	struct resource_use *others;  /* that were recorded, each stream once */
	size_t other_count;
};

/*
 * A buffer without memory in a context, with one reference, freed on `stream`; its
 * memory is filled in before buffer_add() enters it into the context, or
 * buffer_discard() takes it back, without closing.  NULL: no memory.
 */
struct custody_buffer *buffer_new(struct custody_context *context, struct custody_stream *stream);
void buffer_add(struct custody_buffer *buffer);
void buffer_discard(struct custody_buffer *buffer);

/* 0, CUSTODY_E_INVALID for NULL, _STALE or _CLOSED (of a part: or its whole). */
int buffer_check(const struct custody_buffer *buffer);

/* The same, and enter its context. */
int buffer_enter(struct library_call *call, const struct custody_buffer *buffer);

/*
 * A public function on a buffer that may be given a stream of another context: enter the
 * stream's context, or the buffer's where there is none, and resolve it there.
 */
int buffer_enter_stream(struct library_call *call, const struct custody_buffer *buffer,
			struct custody_stream *stream, CUstream *handle, bool *is_synchronous);

/* The streams that were recorded are done with it. */
void buffer_forget_others(struct custody_buffer *buffer);

/* ---------------------------------------------------------------- buffer_end.c */

/* What its context does to it at its end. */
void buffer_end_prepare(struct custody_buffer *buffer);

/* --------------------------------------------------------------- buffer_copy.c */

/*
 * Copy between two buffers, which are checked and reach that far, in the context that
 * is entered, whichever devices they lie on.  A CUresult.
 */
int buffer_copy_bytes(struct custody_buffer *target, size_t target_offset,
		      struct custody_buffer *source, size_t source_offset, size_t bytes,
		      CUstream stream);

/* -------------------------------------------------------------- buffer_stage.c */

struct buffer_place {
	struct custody_context *context;
	CUdeviceptr address;
};

/* Copy by the host, behind what `stream` was given; done on return. */
int buffer_stage(const struct buffer_place *target, const struct buffer_place *source,
		 size_t bytes, CUstream stream);

/* ------------------------------------------------------------------------ ipc.c */

/* Close what was imported; the last one unmaps, when the streams are done with it. */
int ipc_close(struct custody_buffer *buffer, const struct resource_uses *uses);

/* The buffer ends without having been closed: its context was lost, or the process ends. */
void ipc_forget(struct custody_buffer *buffer);

#endif
