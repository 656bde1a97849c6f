/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that asynchronous copies still read.  Each piece waits behind an event of
 * its own; pieces are looked at when the next copy of their context begins, never
 * while a capture is live, which the question would spoil.
 */
#include "library/array.h"

#include <stdlib.h>

enum { LOOKED_AT_ONCE = 16 };

struct stage {
	struct library_object object;
	struct stage *next;
	CUevent event;
	void *bytes;
};

/* All that wait, oldest first; not held across a call of the driver. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stage *oldest, **end = &oldest;
static _Atomic size_t waiting_count;

/* --------------------------------------------------------------- the list */

static void put(struct stage *stage)
{
	pthread_mutex_lock(&lock);
	stage->next = NULL;
	*end = stage;
	end = &stage->next;
	atomic_fetch_add_explicit(&waiting_count, 1, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
}

/* Take one out of its place in the list, whose lock is held. */
static struct stage *unlink_at(struct stage **place)
{
	struct stage *stage = *place;

	*place = stage->next;
	if (end == &stage->next)
		end = place;
	atomic_fetch_sub_explicit(&waiting_count, 1, memory_order_relaxed);
	return stage;
}

/* Who takes a stage out has it for himself; false: somebody else has. */
static bool take(const struct stage *stage)
{
	struct stage **place = &oldest;
	bool is_there;

	pthread_mutex_lock(&lock);
	while (*place && *place != stage)
		place = &(*place)->next;
	is_there = *place != NULL;
	if (is_there)
		unlink_at(place);
	pthread_mutex_unlock(&lock);
	return is_there;
}

/* The oldest few of one context, in a list of the caller's. */
static struct stage *take_some(const struct custody_context *context)
{
	struct stage **place = &oldest, *taken = NULL, **taken_end = &taken;
	int count = 0;

	pthread_mutex_lock(&lock);
	while (*place && count < LOOKED_AT_ONCE) {
		if ((*place)->object.context != context) {
			place = &(*place)->next;
			continue;
		}
		*taken_end = unlink_at(place);
		taken_end = &(*taken_end)->next;
		count++;
	}
	*taken_end = NULL;
	pthread_mutex_unlock(&lock);
	return taken;
}

static void discard(struct stage *stage)
{
	if (stage->event)
		library_cuda.cuEventDestroy(stage->event);
	free(stage->bytes);
	free(stage);
}

/* The context is reset, and is current.  Who looks at a stage right now sees to it himself. */
static void end_stage(struct library_object *object)
{
	struct stage *stage = (struct stage *)object;

	if (!take(stage))
		return;
	library_cuda.cuEventSynchronize(stage->event);
	discard(stage);
}

/* The event has died with its context. */
static void lose_stage(struct library_object *object)
{
	struct stage *stage = (struct stage *)object;

	if (!take(stage))
		return;
	stage->event = NULL;
	discard(stage);
}

void array_stage_collect(struct custody_context *context)
{
	struct stage *stage, *next;

	if (!atomic_load_explicit(&waiting_count, memory_order_relaxed) ||
	    library_engine->is_capturing())
		return;
	for (stage = take_some(context); stage; stage = next) {
		next = stage->next;
		if (!context_is_fresh(context, stage->object.generation))
			stage->event = NULL;
		else if (library_cuda.cuEventQuery(stage->event) == CUDA_ERROR_NOT_READY) {
			put(stage);
			continue;
		}
		context_remove(&stage->object);
		discard(stage);
	}
}

/* ------------------------------------------------------------ coming and going */

int array_stage_new(const struct array_work *work, size_t bytes, void **stage)
{
	bool is_capturing = false;
	int error = work->is_synchronous ? 0 : stream_ask_capturing(work->handle, &is_capturing);

	if (error)
		return error;
	if (is_capturing)
		return error_say(CUSTODY_E_CAPTURING,
				 "the copy needs host memory of its own, which no graph keeps");
	*stage = malloc(bytes);
	return *stage ? 0 : CUSTODY_E_NO_MEMORY;
}

/* An event behind the copy; false: there is none. */
static bool follow(struct stage *stage, CUstream handle)
{
	if (library_cuda.cuEventCreate(&stage->event, CU_EVENT_DISABLE_TIMING))
		return false;
	if (!library_cuda.cuEventRecord(stage->event, handle))
		return true;
	library_cuda.cuEventDestroy(stage->event);
	return false;
}

static int keep(const struct array_work *work, void *bytes)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	int error;

	if (stage && follow(stage, work->handle)) {
		stage->bytes = bytes;
		stage->object.lose = lose_stage;
		context_put(&stage->object, work->context, end_stage);
		put(stage);
		return 0;
	}
	free(stage);
	error = stream_finish(work->handle, true);
	/* Of a stream that cannot be waited for it is not known whether it still reads. */
	if (!error)
		free(bytes);
	return error;
}

int array_stage_send(struct array_work *work, const struct custody_array *array, ptrdiff_t moved,
		     void *stage, size_t bytes)
{
	int error = array_copy_in(work, array, moved, stage, bytes);

	if (error) {
		free(stage);
		return error;
	}
	if (!work->is_synchronous)
		return keep(work, stage);
	work->is_synchronous = false;
	error = stream_finish(work->handle, true);
	free(stage);
	return error;
}
