/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion.c - the end of a stream's work as something to wait for.
 *
 * A completion is held by its owner and, until it has called, by the driver; the last of
 * them frees it.  The driver's thread takes its lock for as long as it takes to wake
 * whoever waits, and its owner never holds that across a call of the driver.
 *
 * A child of fork has neither the driver's thread, so that nothing is ever completed
 * there, nor the lock in a state that is known, so that it is not touched.
 */
#include "library/library.h"

#include <custody/completion.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { NONE = -1 }; /* of a descriptor */

#define SECOND_NS INT64_C(1000000000)

/* What is written once, so that a reader or two too many do not make it unreadable. */
#define READABLE (UINT64_MAX - 1)

struct custody_completion {
	struct custody_stream *stream; /* for the owner to have back; it may be gone */
	_Atomic uint32_t references;
	_Atomic bool is_completed;
	CUresult status; /* written before that */
	pid_t process;
	int descriptor; /* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t completed;
};

static int initialise(struct custody_completion *completion)
{
	pthread_condattr_t monotonic;
	int error = pthread_condattr_init(&monotonic);

	if (error)
		return error;
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	error = pthread_cond_init(&completion->completed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (!error)
		error = pthread_mutex_init(&completion->lock, NULL);
	completion->descriptor = NONE;
	completion->process = getpid();
	return error;
}

static void drop(struct custody_completion *completion)
{
	if (atomic_fetch_sub_explicit(&completion->references, 1, memory_order_acq_rel) != 1)
		return;
	pthread_cond_destroy(&completion->completed);
	pthread_mutex_destroy(&completion->lock);
	free(completion);
}

static void make_readable(int descriptor)
{
	uint64_t value = READABLE;

	while (write(descriptor, &value, sizeof(value)) < 0 && errno == EINTR)
		;
}

/* On the driver's thread. */
static void CUDA_CB complete(CUstream handle, CUresult status, void *argument)
{
	struct custody_completion *completion = argument;

	(void)handle;
	pthread_mutex_lock(&completion->lock);
	completion->status = status;
	atomic_store_explicit(&completion->is_completed, true, memory_order_release);
	if (completion->descriptor != NONE)
		make_readable(completion->descriptor);
	pthread_cond_broadcast(&completion->completed);
	pthread_mutex_unlock(&completion->lock);
	drop(completion);
}

static int ask(struct custody_completion *completion)
{
	struct library_call call;
	int error = stream_enter_idle(&call, completion->stream);

	if (error)
		return error;
	atomic_store(&completion->references, 2);
	error = library_cuda.cuStreamAddCallback(completion->stream->handle, complete, completion,
						 0);
	if (error)
		atomic_store(&completion->references, 1);
	return library_leave(&call, error);
}

int custody_stream_completion(struct custody_stream *stream,
			      struct custody_completion **completion)
{
	struct custody_completion *made;
	int error;

	if (!stream || !completion)
		return error_say(CUSTODY_E_INVALID, "the stream, or where to put the completion, "
				 "is NULL");
	made = calloc(1, sizeof(*made));
	if (!made)
		return CUSTODY_E_NO_MEMORY;
	made->stream = stream;
	atomic_init(&made->references, 1);
	error = initialise(made) ? CUSTODY_E_SYSTEM : 0;
	if (!error)
		error = ask(made);
	if (error)
		drop(made);
	else
		*completion = made;
	return error;
}

static bool is_own(const struct custody_completion *completion)
{
	return completion->process == getpid();
}

void custody_completion_destroy(struct custody_completion *completion)
{
	if (!completion)
		return;
	if (!is_own(completion)) {
		if (completion->descriptor != NONE)
			close(completion->descriptor);
		free(completion);
		return;
	}
	pthread_mutex_lock(&completion->lock);
	if (completion->descriptor != NONE)
		close(completion->descriptor);
	completion->descriptor = NONE;
	pthread_mutex_unlock(&completion->lock);
	drop(completion);
}

bool custody_completion_poll(struct custody_completion *completion, CUresult *status)
{
	if (!completion ||
	    !atomic_load_explicit(&completion->is_completed, memory_order_acquire))
		return false;
	if (status)
		*status = completion->status;
	return true;
}

/* Seconds that do not fit are for ever. */
static bool find_end(int64_t timeout_ns, struct timespec *end)
{
	if (timeout_ns < 0)
		return false;
	clock_gettime(CLOCK_MONOTONIC, end);
	if (__builtin_add_overflow(end->tv_sec, timeout_ns / SECOND_NS, &end->tv_sec))
		return false;
	end->tv_nsec += timeout_ns % SECOND_NS;
	end->tv_sec += end->tv_nsec / SECOND_NS;
	end->tv_nsec %= SECOND_NS;
	return true;
}

static int await(struct custody_completion *completion, int64_t timeout_ns)
{
	struct timespec end;
	bool has_end = find_end(timeout_ns, &end);
	int error = 0;

	pthread_mutex_lock(&completion->lock);
	while (!atomic_load(&completion->is_completed) && error != ETIMEDOUT)
		error = has_end ? pthread_cond_timedwait(&completion->completed, &completion->lock,
							 &end) :
				  pthread_cond_wait(&completion->completed, &completion->lock);
	error = atomic_load(&completion->is_completed) ? (int)completion->status :
							  CUSTODY_E_TIMEOUT;
	pthread_mutex_unlock(&completion->lock);
	return error;
}

int custody_completion_wait(struct custody_completion *completion, int64_t timeout_ns)
{
	CUresult status;

	if (!completion)
		return error_say(CUSTODY_E_INVALID, "the completion is NULL");
	if (timeout_ns < -1)
		return error_say(CUSTODY_E_INVALID, "a time of %lld ns is neither a time nor -1",
				 (long long)timeout_ns);
	if (custody_completion_poll(completion, &status))
		return (int)status;
	if (!is_own(completion))
		return CUSTODY_E_FORKED;
	if (!library_is_usable())
		return CUSTODY_E_EXITING;
	return await(completion, timeout_ns);
}

int custody_completion_descriptor(struct custody_completion *completion)
{
	int descriptor;

	if (!completion)
		return error_say(CUSTODY_E_INVALID, "the completion is NULL");
	if (!is_own(completion))
		return CUSTODY_E_FORKED;
	pthread_mutex_lock(&completion->lock);
	if (completion->descriptor == NONE) {
		completion->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
		if (completion->descriptor != NONE && atomic_load(&completion->is_completed))
			make_readable(completion->descriptor);
	}
	descriptor = completion->descriptor;
	pthread_mutex_unlock(&completion->lock);
	if (descriptor == NONE)
		return error_say(CUSTODY_E_SYSTEM, "no descriptor could be made: errno %d", errno);
	return descriptor;
}

struct custody_stream *custody_completion_stream(struct custody_completion *completion)
{
	return completion ? completion->stream : NULL;
}
