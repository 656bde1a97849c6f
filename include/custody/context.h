/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/context.h - contexts: where memory, streams and events live.
 *
 * libcustody works in the primary context of each device, which it retains, and in
 * others that it is shown by custody_context_wrap().  A context is known by a pointer
 * that stays valid for the life of the process, also after a reset: a context that
 * has been reset comes to life again by its next use, and everything that was made in
 * it before is stale.
 *
 * Every function of libcustody that works on something runs in the context of that
 * thing, whatever is current, and leaves current what was.  Any thread.
 *
 * Where the program itself resets a primary context, by the driver's own function, the
 * next call in it returns CUDA_ERROR_CONTEXT_IS_DESTROYED; from then on everything that
 * was made in it is stale, and the context is made anew.
 */
#ifndef CUSTODY_CONTEXT_H
#define CUSTODY_CONTEXT_H

#include <custody/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct custody_context;

/*
 * A context to work in.  `ordinal` -1: what is current on this thread, else the
 * primary context of device 0, which becomes current.  From 0: the primary context
 * of that device, which becomes current in place of what is on top of the thread's
 * stack.  A current context that is not a primary one, and was not wrapped, is refused
 * with CUSTODY_E_UNKNOWN.  Documented: cuda.current_context(devnum).
 */
CUSTODY_API int custody_context_current(int ordinal, struct custody_context **context);

/* The primary context of a device, made if need be; what is current stays as it was. */
CUSTODY_API int custody_context_of_device(struct custody_device *device,
					  struct custody_context **context);

/*
 * Work in a context that the program has made itself and keeps alive: libcustody
 * neither retains nor destroys it.  Before the program destroys it, it calls
 * custody_context_unwrap(), which releases what is pending, ends what is alive and
 * makes all of it stale, and the context too: CUSTODY_E_STALE from then on.  No other
 * thread works in it meanwhile.
 *
 * Wrapping one again gives the same pointer, and one unwrap ends it for all.  Wrapping a
 * primary context gives that of its device, which cannot be unwrapped
 * (CUSTODY_E_INVALID).  A second unwrap is CUSTODY_E_CLOSED; NULL is fine.
 */
CUSTODY_API int custody_context_wrap(CUcontext handle, struct custody_context **context);
CUSTODY_API int custody_context_unwrap(struct custody_context *context);

/*
 * The driver's handle; NULL while a primary context is not retained (after
 * custody_device_reset() or custody_shutdown(), until it is used again) and for one that
 * was unwrapped.
 */
CUSTODY_API CUcontext custody_context_handle(struct custody_context *context);
CUSTODY_API struct custody_device *custody_context_device(struct custody_context *context);

/*
 * Push on this thread's stack, and pop; pop fails with CUSTODY_E_CONTEXT_ORDER, and
 * changes nothing, unless the context is on top.  Documented: Context.push(), pop().
 */
CUSTODY_API int custody_context_push(struct custody_context *context);
CUSTODY_API int custody_context_pop(struct custody_context *context);

/*
 * Run `body` with the context current, and put back what was.  Returns what `body`
 * returns; CUSTODY_E_CONTEXT_ORDER if it left another context current.
 * `context` NULL: as custody_context_current(-1).  Documented: cuda.require_context.
 */
CUSTODY_API int custody_context_call(struct custody_context *context,
				     int (*body)(void *argument), void *argument);

struct custody_memory_info {
	size_t size; /* sizeof(struct custody_memory_info), set by the caller */
	size_t free_bytes;    /* as the driver says, pending memory not among them ... */
	size_t total_bytes;   /* ... of the device */
	size_t pending_bytes; /* device memory that was freed and is not back yet */
};

/* Documented: Context.get_memory_info(), where pending memory counts as used. */
CUSTODY_API int custody_context_memory_info(struct custody_context *context,
					    struct custody_memory_info *info);

/*
 * Wait for all work of the context.  During a capture, which that would spoil:
 * CUSTODY_E_CAPTURING.  Documented: Context.synchronize().
 */
CUSTODY_API int custody_context_synchronize(struct custody_context *context);

/* The same for the context that custody_context_current(-1) gives.  cuda.synchronize(). */
CUSTODY_API int custody_synchronize(void);

/*
 * Wait for the context's work, free everything that libcustody holds in it, live memory
 * too, from the newest to the oldest, and release what is pending; all handles into it
 * are stale then.  Of a primary context the retained reference stays: other users of
 * the context are not disturbed.  An open defer scope does not hold it up, and stays
 * open.  During a capture: CUSTODY_E_CAPTURING.  The caller sees to it that no other
 * thread works in the context meanwhile; what is in it may be destroyed by any thread at
 * any time.  Documented: Context.reset().
 */
CUSTODY_API int custody_context_reset(struct custody_context *context);

/*
 * End the use of CUDA by this process: reset all contexts, give back all primary
 * ones, pop what libcustody has made current on this thread.  From any thread, when no
 * other is inside libcustody; may be called again; the next use begins anew.  Where CUDA
 * was not used nothing is loaded for it.  During a capture: CUSTODY_E_CAPTURING.
 * Documented: cuda.close().
 */
CUSTODY_API int custody_shutdown(void);

/* Let `context` use memory of `peer`; twice is no error.  Documented: enable_peer_access(). */
CUSTODY_API int custody_context_enable_peer(struct custody_context *context,
					    struct custody_context *peer);
CUSTODY_API int custody_context_disable_peer(struct custody_context *context,
					     struct custody_context *peer);

/*
 * Tell of a stream capture that the program begins by a call of its own: no
 * call that could spoil it is made from the return of the first until the second.
 * What custody_stream_begin_capture() begins needs neither.  Pairs nest; an end without a
 * begin is CUSTODY_E_INVALID.
 */
CUSTODY_API int custody_capture_begin(void);
CUSTODY_API int custody_capture_end(void);

#ifdef __cplusplus
}
#endif
#endif
