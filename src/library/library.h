/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library.h - private to src/library: what its files share, and the rules of the room.
 *
 * The library is a layer of nouns over the engine (core/engine.h): it makes the
 * driver's calls through the engine's wrappers, which record and put off, and keeps
 * no queue of its own.
 *
 * Every public function begins with library_enter() or library_enter_context(), which
 * say no after a fork, at exit, without a driver and to what is stale, make the owning
 * context current and remember what was; and ends with library_leave().  A destroy
 * function that may not enter gives back host memory only, and returns 0.
 *
 * Locks, outermost first; none is held across a driver call but library_lock of
 * library.c, at initialisation, and those that say so where they are declared.
 */
#ifndef CUSTODY_LIBRARY_LIBRARY_H
#define CUSTODY_LIBRARY_LIBRARY_H

#include "core/engine.h"
#include "library/cuda.h"

#include <custody/context.h>
#include <custody/error.h>
#include <custody/stream.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The engine in use, once library_init() has succeeded; before: library_choose(). */
extern const struct engine *library_engine;

/* ------------------------------------------------------------ library.c */

/*
 * Load and initialise the driver if that was not done; 0, CUSTODY_E_NO_DRIVER, _FORKED,
 * _EXITING or the result of cuInit.
 */
int library_init(void);

/* What library_enter() has to put back. */
struct library_call {
	struct custody_context *context; /* NULL: none was asked for */
	CUcontext handle; /* of the context */
	const void *from; /* what the engine had before, if `has_noted` */
	bool has_pushed;
	bool has_noted;
};

/* Begin a public function that needs the driver, but no context. */
int library_enter(struct library_call *call);

/*
 * The same in a context, which is made alive if it is a primary one that has been
 * reset.  It is current from here to library_leave(); what was is put back there.
 */
int library_enter_context(struct library_call *call, struct custody_context *context);

/*
 * The same for an object made in `context` when that was in `generation`:
 * CUSTODY_E_STALE if it has been reset since.
 */
int library_enter_object(struct library_call *call, struct custody_context *context,
			 uint64_t generation);

/* Ends what began with success; returns `result`, so that it can be the last statement. */
int library_leave(struct library_call *call, int result);

/*
 * 0, CUSTODY_E_FORKED or _EXITING: what library_init() asks first.  For functions that
 * do not need the driver to be initialised.
 */
int library_check(void);

/* The engine, without a driver; it is chosen once. */
const struct engine *library_choose(void);

/* The engine with the driver loaded, but perhaps not initialised; NULL: there is none. */
const struct engine *library_open(void);

/*
 * Whether the functions of library_cuda can be called that need no initialised driver,
 * which is so after an initialisation that has failed late.
 */
bool library_has_functions(void);

/* True while driver calls may be made at all: not forked, not exiting, initialised. */
bool library_is_usable(void);

/*
 * Take over the options that a caller has given: what his older header does not have is
 * 0, NULL is all zeros, and CUSTODY_E_INVALID answers a newer one's field that is set.
 */
int library_options(void *mine, size_t mine_bytes, const void *given);

/*
 * Fill the struct that a caller has given, as far as it reaches and with its `size`
 * kept; what only a newer header has is 0 there.
 */
int library_fill(void *given, const void *mine, size_t mine_bytes);

/* --------------------------------------------------------------- link.c */

/* The engine to work through: the preload's where that is in the process, else ours. */
const struct engine *link_choose(void);

/* -------------------------------------------------------------- error.c */

/* Note a sentence for custody_error_detail() on this thread, and return `error`. */
int error_say(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* CUSTODY_E_INVALID, and that the argument of this name is NULL. */
int error_null(const char *what);

/* Forget it: done at the entry of each function that may say something. */
void error_forget(void);

/* Around the undoing of what failed, so that the sentence is that of the failure. */
struct error_kept {
	char text[512];
};

void error_keep(struct error_kept *kept);
int error_say_kept(int error, const struct error_kept *kept);

/* ------------------------------------------------------------ context.c */

struct custody_context {
	struct custody_device *device;
	_Atomic(CUcontext) handle; /* NULL: a primary one that is not retained now */
	_Atomic uint64_t generation; /* rises with each reset, from 1 */
	_Atomic uint32_t number;   /* of the engine; 0: none */
	unsigned long long id;	   /* of the driver's, under `lock`; 0: unknown */
	_Atomic(CUcontext) last; /* see context_last_handle() */
	bool is_primary;
	_Atomic bool is_wrapped;
	pthread_mutex_t lock; /* of retaining and resetting; held across those driver calls */
	struct custody_context *next; /* all contexts, newest first */

	struct custody_stream *legacy; /* the objects of the default streams */
	struct custody_stream *per_thread;

	/* Everything that was made in it and is alive, under `objects_lock`. */
	pthread_mutex_t objects_lock;
	pthread_cond_t objects_ended; /* somebody has left `enders` */
	struct context_ender *enders; /* who is at the end of an object */
	struct library_object *objects;
	struct library_object *late_objects; /* those that end behind all others */
};

/*
 * What has a context: first member of streams, events, buffers, pins and so on.
 * On a reset `end` is called for each, newest first, with the context current and
 * before the generation rises: it frees the driver's part (or leaves that to the
 * death of the context, for what a reset of the device destroys anyway) and marks
 * the object dead; the host memory stays its owner's.
 *
 * Where the context has died before, `lose` is called instead, if there is one: it does
 * the same without a call about what the driver had, which has gone with the context.
 * None of the three is called with a lock held, and the object is not touched afterwards,
 * so that its owner may free it in there.  What is not given to context_put() is set
 * ahead of it.
 */
struct library_object {
	struct custody_context *context;
	uint64_t generation; /* of the context when it was made */
	struct library_object *next, *previous;
	void (*end)(struct library_object *object);
	void (*lose)(struct library_object *object);  /* NULL: nothing is to be done */
	void (*ended)(struct library_object *object); /* after either; NULL */
	bool is_late; /* others need it for their own end */
};

/* Enter a new object into its context's list, and take it out again; any thread. */
void context_put(struct library_object *object, struct custody_context *context,
		 void (*end)(struct library_object *object));
void context_remove(struct library_object *object);

/* Whether the context has not been reset since. */
static inline bool context_is_fresh(const struct custody_context *context, uint64_t generation)
{
	return atomic_load_explicit(&context->generation, memory_order_acquire) == generation;
}

/* library_enter_object() for an object. */
static inline int context_enter(struct library_call *call, const struct library_object *object)
{
	return library_enter_object(call, object->context, object->generation);
}

/* The context of a CUcontext that is known; NULL: none. */
struct custody_context *context_of_handle(CUcontext handle);

/* The primary context of an ordinal, which need not be retained; NULL: no such device. */
struct custody_context *context_of_ordinal(int ordinal);

/* Put a new one into the list of all, where it stays. */
void context_enlist(struct custody_context *context, struct custody_device *device);

/* Its handle, alive: a primary context is retained if it is not. */
int context_revive(struct custody_context *context, CUcontext *handle);

/*
 * A call in a context, which has this handle and is current, was told of one that is
 * destroyed.  If it is this one, by somebody else, all that was made in it is stale.
 */
void context_check(struct custody_context *context, CUcontext handle);

/* It is destroyed: the engine is told, and a reference of ours given back. */
void context_lose(struct custody_context *context);

/* Make it current on this thread instead of what is, and remember that it was us. */
int context_select(struct custody_context *context);

/* Pop off this thread's stack what is on top of it because of us. */
void context_pop_stacked(void);

/* What custody_context_current(-1) gives, between library_enter() and library_leave(). */
int context_ask(struct custody_context **context);

/* The device of a primary context that has ended and is current here all the same. */
struct custody_device *context_last_device(void);

/* The handle that it had last; a primary one gets the same again. */
static inline CUcontext context_last_handle(const struct custody_context *context)
{
	return atomic_load_explicit(&context->last, memory_order_relaxed);
}

/* Whether it is the primary context of the device, which somebody has retained. */
bool context_is_primary(CUcontext handle, const struct custody_device *device);

/* CUSTODY_E_CAPTURING where a capture is known of: for what would spoil it. */
int context_refuse_capture(void);

/* The newest of all, from which `next` leads on. */
struct custody_context *context_first(void);

/*
 * End all that was made in it, newest first, with the context current; or only what it
 * has lost, whatever is current.
 */
void context_end_objects(struct custody_context *context);
void context_lose_objects(struct custody_context *context);

/* --------------------------------------------------------------- device.c */

struct custody_device {
	CUdevice handle;
	int ordinal;
	struct custody_context *context; /* the primary one */
	struct custody_resource *_Atomic resource; /* NULL: the device resource */
	_Atomic int64_t attributes[CU_DEVICE_ATTRIBUTE_MAX]; /* value + 1 << 32, 0: not asked */
};

/* Part of library_init(): make the table of devices and their primary contexts, once. */
int device_open_all(void);

/* How many there are, after library_init(); and one of them, NULL: no such ordinal. */
int device_count(void);
struct custody_device *device_find(int ordinal);

/* That of a driver's handle; NULL: none. */
struct custody_device *device_of_handle(CUdevice handle);

/* --------------------------------------------------------------- stream.c */

struct custody_stream {
	struct library_object object;
	CUstream handle;
	uint64_t id;
	_Atomic uint32_t uses; /* of the driver's stream: its owner's, and those of buffers */
	_Atomic uint32_t references; /* of the object: one for all uses, one for each callback */
	_Atomic bool is_ended; /* the driver's stream is gone, or someone is at it */
	_Atomic bool is_given_up; /* its owner has destroyed it; a foreign one may be gone */
	const void *given_up_at; /* the program's return address there */
	bool is_foreign; /* not ours to destroy */
	bool is_default; /* of the context's own: never freed, never stale */
};

/*
 * The driver's handle to pass for a stream, in a context which is current: NULL is the
 * default stream of the process's choice, as CU_STREAM_LEGACY or CU_STREAM_PER_THREAD.
 * CUSTODY_E_MISMATCH, _STALE: the stream is of another context, or was reset;
 * CUSTODY_E_CAPTURING: none was given, and work of the default one would spoil a capture.
 * `*is_synchronous` (may be NULL) is set where the caller has to wait, because no
 * stream was given.
 */
int stream_resolve(struct custody_stream *stream, const struct custody_context *context,
		   CUstream *handle, bool *is_synchronous);

/* After the work of a function: wait if it is to be synchronous. */
int stream_finish(CUstream handle, bool is_synchronous);

/*
 * Whether a stream is capturing; no harm done to the capture.  CUSTODY_E_CAPTURING: it is
 * the legacy stream, and any call on it would spoil the capture of a blocking one.
 */
int stream_ask_capturing(CUstream handle, bool *is_capturing);

/*
 * The capture that a stream is in, 0: none; of one that was spoilt, and with a driver
 * that tells no numbers, STREAM_CAPTURE_UNKNOWN.  A number never comes again.
 */
#define STREAM_CAPTURE_UNKNOWN UINT64_MAX
int stream_capture_ask(CUstream handle, uint64_t *id);

/*
 * Whether the stream may wait for something from this capture, 0: from outside:
 * CUSTODY_E_CAPTURING if it is in another capture, which would be lost.
 */
int stream_capture_check(CUstream handle, uint64_t from);

/* The default stream's handle that the process has chosen. */
CUstream stream_default_handle(void);

/*
 * library_enter_object() for a stream; the second refuses one that is capturing, which
 * the call to come would spoil.
 */
int stream_enter(struct library_call *call, const struct custody_stream *stream);
int stream_enter_idle(struct library_call *call, const struct custody_stream *stream);

/*
 * Whoever will still use the driver's stream keeps it, its owner having destroyed it or
 * not; the last to let go destroys it.  Nothing for the default ones, nor for NULL.
 */
void stream_retain(struct custody_stream *stream);
int stream_release(struct custody_stream *stream);

/* The object alone, for as long as a callback is to be given it: no driver call. */
void stream_hold(struct custody_stream *stream);
void stream_drop(struct custody_stream *stream);

/*
 * Around waits and questions: a capture in the mode GLOBAL, or of this thread, forbids
 * them, and would be lost, though they have nothing to do with it.  Always, since one may
 * begin on another thread between a look and the call.
 */
struct stream_mode {
	CUstreamCaptureMode before;
};

void stream_relax(struct stream_mode *mode);
void stream_restore(const struct stream_mode *mode);

/* --------------------------------------------------------------- defer.c */

/*
 * Around driver calls that free: what this thread frees in between is put off.  Cheap.
 */
void defer_mark(void);
void defer_unmark(void);

/*
 * An allocation through the library has failed for lack of memory, the engine having
 * flushed: asks the handler of custody_set_out_of_memory().  True: try again.
 * `*attempts` is 0 at the first call.
 */
bool defer_ask_handler(struct custody_context *context, size_t bytes, unsigned int *attempts);

#endif
