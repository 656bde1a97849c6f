/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a queue of ops and a worker thread that runs them, started with the first
 * op.  A position in a stream is a sequence number; `completed` says how far the
 * worker got, and that is all that waits, events and frees look at.
 */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "sim.h"

enum { SPIN_ROUNDS = 600, WORKER_STACK = 1 << 20 };

/* At most one worker spins for new work: two processors are enough. */
static atomic_int spinners;

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	sched_yield();
#endif
}

bool queue_passed(const struct stream *stream, uint64_t seq)
{
	return atomic_load(&stream->completed) >= seq;
}

bool queue_idle(struct stream *stream)
{
	return queue_passed(stream, atomic_load(&stream->submitted));
}

/* ------------------------------------------------------------------ waiting for it */

/* Wakes now and then to see whether the driver goes down. */
static void wait_done(struct stream *stream)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++;
	pthread_cond_timedwait(&stream->done, &stream->lock, &until);
}

/* Asks to be woken at the position; false when that is not needed any more. */
static bool want(struct stream *stream, uint64_t seq)
{
	if (atomic_load(&stream->wanted) > seq)
		atomic_store(&stream->wanted, seq);
	return !queue_passed(stream, seq) && !atomic_load(&config_stopping);
}

void queue_wait(struct stream *stream, uint64_t seq)
{
	for (int i = 0; i < SPIN_ROUNDS / 2; i++) {
		if (queue_passed(stream, seq))
			return;
		relax();
	}
	pthread_mutex_lock(&stream->lock);
	while (want(stream, seq))
		wait_done(stream);
	pthread_mutex_unlock(&stream->lock);
}

/* Everybody who sleeps asks again, so the wish is forgotten here. */
static void wake_waiters(struct stream *stream)
{
	atomic_store(&stream->wanted, UINT64_MAX);
	pthread_cond_broadcast(&stream->done);
}

static void announce(struct stream *stream, uint64_t seq)
{
	atomic_store(&stream->completed, seq);
	if (atomic_load(&stream->wanted) > seq)
		return;
	pthread_mutex_lock(&stream->lock);
	wake_waiters(stream);
	pthread_mutex_unlock(&stream->lock);
}

/* ------------------------------------------------------------------ the worker */

/* Looks for new work without the lock; true when there is some. */
static bool spin_for_work(struct stream *stream, uint64_t last)
{
	bool found = false;

	if (atomic_fetch_add(&spinners, 1) == 0)
		for (int i = 0; i < SPIN_ROUNDS && !found; i++) {
			found = atomic_load(&stream->submitted) > last;
			relax();
		}
	atomic_fetch_sub(&spinners, 1);
	return found;
}

static struct op *last_of(struct op *list)
{
	while (list->next)
		list = list->next;
	return list;
}

/*
 * All ops that are queued, so that the lock is taken once for many; those done go to
 * the spare list.  NULL: closed and drained.
 */
static struct op *next_ops(struct stream *stream, struct op *done, uint64_t last)
{
	struct op *list, *end = done ? last_of(done) : NULL;

	spin_for_work(stream, last);
	pthread_mutex_lock(&stream->lock);
	if (done) {
		end->next = stream->spare;
		stream->spare = done;
	}
	while (!stream->head && !stream->closing) {
		stream->sleeping = true;
		pthread_cond_wait(&stream->work, &stream->lock);
		stream->sleeping = false;
	}
	list = stream->head;
	stream->head = stream->tail = NULL;
	pthread_mutex_unlock(&stream->lock);
	return list;
}

static void run_op(struct stream *stream, struct op *op)
{
	for (unsigned i = 0; i < op->wait_count; i++)
		queue_wait(op->waits[i].stream, op->waits[i].seq);
	/* An op that a caller runs himself has no place in the queue but a number. */
	queue_wait(stream, op->seq - 1);
	if (!atomic_load(&config_stopping))
		op_run(op, stream);
	announce(stream, op->seq);
	op_release(op);
}

static void *work(void *argument)
{
	struct stream *stream = argument;
	struct op *list = NULL;
	uint64_t last = 0;

	prctl(PR_SET_NAME, "simdriver");
	prctl(PR_SET_TIMERSLACK, 1000);
	while ((list = next_ops(stream, list, last)) != NULL)
		for (struct op *op = list; op; op = op->next) {
			last = op->seq;
			run_op(stream, op);
		}
	memory_observe(stream);
	stream_unlink(stream);
	stream_give(stream);
	return NULL;
}

static void start_worker(struct stream *stream)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, WORKER_STACK);
	handle_retain(stream);
	if (pthread_create(&thread, &attributes, work, stream))
		config_die("no thread for a stream");
	stream->has_worker = true;
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ------------------------------------------------------------------ giving it work */

CUresult queue_op_wait(struct op *op, struct stream *stream, uint64_t seq)
{
	if (queue_passed(stream, seq))
		return CUDA_SUCCESS;
	if (op->wait_count == op->wait_room) {
		unsigned room = op->wait_room ? op->wait_room * 2 : 4;
		struct ticket *waits = realloc(op->waits, room * sizeof(*waits));

		if (!waits)
			return CUDA_ERROR_OUT_OF_MEMORY;
		op->waits = waits;
		op->wait_room = room;
	}
	handle_retain(stream);
	op->waits[op->wait_count++] = (struct ticket){stream, seq};
	return CUDA_SUCCESS;
}

static bool orders_with_legacy(const struct stream *stream)
{
	return !stream->internal && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/*
 * The legacy stream waits for all blocking streams of its context and they for it.
 * Positions are read before the op gets its own, so two ops never wait for each other.
 */
static CUresult add_order(struct stream *stream, struct op *op)
{
	struct context *context = stream->context;
	struct stream *legacy = context->legacy;
	CUresult error = CUDA_SUCCESS;

	if (!orders_with_legacy(stream))
		return CUDA_SUCCESS;
	if (stream != legacy)
		return queue_op_wait(op, legacy, atomic_load(&legacy->submitted));
	if (!atomic_load(&context->blocking))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&context->lock);
	for (struct stream *other = context->streams; other && !error; other = other->next)
		if (other != legacy && orders_with_legacy(other))
			error = queue_op_wait(op, other, atomic_load(&other->submitted));
	pthread_mutex_unlock(&context->lock);
	return error;
}

static void enqueue(struct stream *stream, struct op *op)
{
	struct op *place = stream->spare;

	if (place)
		stream->spare = place->next;
	else
		place = malloc(sizeof(*place));
	if (!place)
		config_die("no memory for an op");
	*place = *op;
	place->next = NULL;
	if (stream->tail)
		stream->tail->next = place;
	else
		stream->head = place;
	stream->tail = place;
}

/* A queue that is full holds the caller up until a quarter of it is done. */
static void wait_for_room(struct stream *stream)
{
	uint64_t submitted = atomic_load(&stream->submitted);

	while (submitted - atomic_load(&stream->completed) >= QUEUE_MAX &&
	       !atomic_load(&config_stopping)) {
		pthread_mutex_unlock(&stream->lock);
		queue_wait(stream, submitted - QUEUE_MAX * 3 / 4);
		pthread_mutex_lock(&stream->lock);
		submitted = atomic_load(&stream->submitted);
	}
}

uint64_t queue_append(struct stream *stream, struct op *op)
{
	uint64_t seq;

	pthread_mutex_lock(&stream->lock);
	wait_for_room(stream);
	seq = atomic_load(&stream->submitted) + 1;
	op->seq = seq;
	if (op->kind == OP_EVENT)
		event_place(op->event, stream, seq);
	enqueue(stream, op);
	atomic_store(&stream->submitted, seq);
	if (!stream->has_worker) {
		start_worker(stream);
	} else if (stream->sleeping) {
		stream->sleeping = false;	/* one wake-up is enough */
		pthread_cond_signal(&stream->work);
	}
	pthread_mutex_unlock(&stream->lock);
	return seq;
}

/* Runs the op on the calling thread if the stream is idle; false when it is not. */
static bool run_here(struct stream *stream, struct op *op)
{
	uint64_t seq;
	bool here;

	if (op->wait_count || !op_is_quick(op) || !queue_idle(stream))
		return false;
	pthread_mutex_lock(&stream->lock);
	here = !stream->head && queue_idle(stream);
	if (here) {
		seq = atomic_load(&stream->submitted) + 1;
		op->seq = seq;
		atomic_store(&stream->submitted, seq);
		op_run(op, stream);
		atomic_store(&stream->completed, seq);
		if (atomic_load(&stream->wanted) <= seq)
			wake_waiters(stream);
	}
	pthread_mutex_unlock(&stream->lock);
	if (here)
		op_release(op);
	return here;
}

CUresult queue_submit(struct stream *stream, struct op *op, uint64_t *seq)
{
	CUresult error = add_order(stream, op);
	uint64_t at;

	watch_given(op);
	if (error) {
		op_release(op);
		return error;
	}
	if (settings.inline_ops && run_here(stream, op))
		at = op->seq;
	else
		at = queue_append(stream, op);
	if (seq)
		*seq = at;
	return CUDA_SUCCESS;
}

CUresult queue_run(struct stream *stream, struct op *op)
{
	CUresult error = add_order(stream, op);

	watch_given(op);
	if (error) {
		op_release(op);
		return error;
	}
	if (!run_here(stream, op))
		queue_wait(stream, queue_append(stream, op));
	return CUDA_SUCCESS;
}
