/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <custody/defer.h>


void defer_mark(void)
{
	library_engine->mark(true);
}

void defer_unmark(void)
{
	library_engine->mark(false);
}

/* Begin a function about the queues of a context; `*number` is the engine's for it. */
static int enter_queue(struct library_call *call, struct custody_context *context,
		       uint32_t *number)
{
	int error = context ? library_enter_context(call, context) : error_null("context");

	if (!error)
		*number = atomic_load_explicit(&context->number, memory_order_acquire);
	return error;
}

/* ------------------------------------------------------------------ scopes and passes */

int custody_defer_begin(struct custody_context *context)
{
	struct library_call call;
	uint32_t number;
	int error = enter_queue(&call, context, &number);

	if (error)
		return error;
	library_engine->suspend(number);
	return library_leave(&call, 0);
}

static bool find_leave(enum custody_leave leave, enum engine_leave *engine_leave)
{
	switch (leave) {
	case CUSTODY_LEAVE_IF_OVER:
		*engine_leave = ENGINE_LEAVE_IF_OVER;
		return true;
	case CUSTODY_LEAVE_ALONE:
		*engine_leave = ENGINE_LEAVE_ALONE;
		return true;
	case CUSTODY_LEAVE_FLUSH:
		*engine_leave = ENGINE_LEAVE_FLUSH;
		return true;
	}
	return false;
}

int custody_defer_end(struct custody_context *context, enum custody_leave leave)
{
	enum engine_leave engine_leave = ENGINE_LEAVE_IF_OVER;
	struct library_call call;
	uint32_t number;
	int error;

	if (!find_leave(leave, &engine_leave))
		return error_say(CUSTODY_E_INVALID, "%d is no way to leave a scope", (int)leave);
	error = enter_queue(&call, context, &number);
	if (error)
		return error;
	if (!library_engine->resume(number, engine_leave))
		error = error_say(CUSTODY_E_INVALID, "no defer scope is open in the context of "
						     "device %d",
				  context->device->ordinal);
	return library_leave(&call, error);
}

int custody_flush(struct custody_context *context, bool does_wait)
{
	CUresult result = CUDA_SUCCESS;
	struct library_call call;
	uint32_t number;
	int error = enter_queue(&call, context, &number);

	if (error)
		return error;
	if (!library_engine->flush(number, does_wait, &result))
		error = error_say(CUSTODY_E_CAPTURING,
				  "a stream is capturing, so nothing can be released");
	else if (result != CUDA_SUCCESS)
		error = error_say((int)result, "the driver refused a release, so the pass has "
					       "ended; see custody_defer_errors()");
	return library_leave(&call, error);
}

/* ------------------------------------------------------------------ what is told */

static void fill_pending(struct custody_pending *pending, const struct deferq_statistics *from)
{
	pending->memory_count = from->count[QUEUE_MEMORY];
	pending->memory_bytes = from->bytes[QUEUE_MEMORY] - from->host_bytes;
	pending->pinned_bytes = from->host_bytes;
	pending->object_count = from->count[QUEUE_OBJECTS];
	pending->issued_count = from->issued;
	pending->issued_bytes = from->issued_bytes;
}

int custody_pending(struct custody_context *context, struct custody_pending *pending)
{
	struct custody_pending mine = { .size = sizeof(mine) };
	struct deferq_statistics statistics = { .issued = 0 };
	struct library_call call;
	uint32_t number;
	int error = enter_queue(&call, context, &number);

	if (error)
		return error;
	if (library_engine->statistics(number, &statistics))
		fill_pending(&mine, &statistics);
	return library_leave(&call, library_fill(pending, &mine, sizeof(mine)));
}

/* How the engine names the causes that the header promises. */
static const enum release_cause causes[CUSTODY_CAUSES] = {
	[CUSTODY_CAUSE_COUNT] = RELEASE_COUNT,
	[CUSTODY_CAUSE_BYTES] = RELEASE_BYTES,
	[CUSTODY_CAUSE_OUT_OF_MEMORY] = RELEASE_OOM,
	[CUSTODY_CAUSE_IDLE] = RELEASE_IDLE,
	[CUSTODY_CAUSE_EXPLICIT] = RELEASE_EXPLICIT,
	[CUSTODY_CAUSE_SCOPE] = RELEASE_SCOPE,
	[CUSTODY_CAUSE_CONTEXT] = RELEASE_CONTEXT,
};

static void fill_statistics(struct custody_defer_statistics *mine,
			    const struct deferq_statistics *from)
{
	mine->queued = from->queued;
	mine->released = from->released;
	mine->released_bytes = from->released_bytes;
	mine->failed = from->failed;
	mine->deepest = from->deepest;
	for (unsigned int i = 0; i < CUSTODY_CAUSES; i++)
		mine->passes[i] = from->passes[causes[i]];
	mine->waited_ns = library_engine->ticks_to_ns(from->waited);
	mine->longest_ns = library_engine->ticks_to_ns(from->longest);
}

int custody_defer_statistics(struct custody_context *context,
			     struct custody_defer_statistics *statistics)
{
	struct custody_defer_statistics mine = { .size = sizeof(mine) };
	struct deferq_statistics from = { .issued = 0 };
	struct library_call call;
	uint32_t number;
	int error = enter_queue(&call, context, &number);

	if (error)
		return error;
	if (library_engine->statistics(number, &from))
		fill_statistics(&mine, &from);
	return library_leave(&call, library_fill(statistics, &mine, sizeof(mine)));
}

/* ------------------------------------------------------------------ limits */

int custody_defer_limits(struct custody_defer_limits *limits)
{
	struct custody_defer_limits mine = { .size = sizeof(mine) };
	struct engine_limits from;
	struct library_call call;
	int error = library_enter(&call);

	if (error)
		return error;
	library_engine->limits(&from);
	mine.max_count = from.max_count;
	mine.max_ratio = from.max_ratio;
	mine.is_strict = from.is_strict;
	return library_leave(&call, library_fill(limits, &mine, sizeof(mine)));
}

int custody_defer_set_limits(const struct custody_defer_limits *limits)
{
	struct custody_defer_limits mine;
	struct library_call call;
	int error;

	if (!limits)
		return error_null("limits");
	error = library_enter(&call);
	if (!error)
		error = library_options(&mine, sizeof(mine), limits);
	if (!error && !(mine.max_ratio >= 0))
		error = error_say(CUSTODY_E_INVALID, "a share of %g of the memory is no limit",
				  mine.max_ratio);
	if (error)
		return library_leave(&call, error);
	library_engine->set_limits(&(struct engine_limits){
		.max_count = mine.max_count,
		.max_ratio = mine.max_ratio,
		.is_strict = mine.is_strict,
	});
	return library_leave(&call, 0);
}

/* ------------------------------------------------------------------ errors */

static const char *const kinds[DEFERQ_KINDS] = {
	[DEFERQ_MEMORY] = "memory",
	[DEFERQ_STUBBORN] = "memory",
	[DEFERQ_MANAGED] = "managed",
	[DEFERQ_HOST] = "pinned",
	[DEFERQ_ARRAY] = "array",
	[DEFERQ_MIPMAPPED_ARRAY] = "mipmapped array",
	[DEFERQ_MODULE] = "module",
	[DEFERQ_STREAM] = "stream",
	[DEFERQ_EVENT] = "event",
};

static void fill_error(struct custody_defer_error *error, const struct engine_error *from)
{
	*error = (struct custody_defer_error){
		.kind = from->kind < DEFERQ_KINDS ? kinds[from->kind] : "memory",
		.handle = from->handle,
		.bytes = from->bytes,
		.result = (CUresult)from->result,
		.device = from->device,
		.freed_at = from->caller,
	};
}

size_t custody_defer_errors(struct custody_defer_error *errors, size_t most, uint64_t *dropped)
{
	enum { AT_ONCE = 16 };
	struct engine_error taken[AT_ONCE];
	uint64_t lost = 0, more;
	size_t count = 0, got = AT_ONCE;

	error_forget();
	if (!errors || !library_is_usable())
		most = 0;
	while (count < most && got == AT_ONCE) {
		size_t room = most - count < AT_ONCE ? most - count : AT_ONCE;

		got = library_engine->errors(taken, room, &more);
		for (size_t i = 0; i < got; i++)
			fill_error(&errors[count + i], &taken[i]);
		count += got;
		lost += more;
	}
	if (dropped)
		*dropped = lost;
	return count;
}

/* ------------------------------------------------------------------ out of memory */

enum { HANDLER_TRIES = 16 };

struct out_of_memory {
	bool (*handler)(struct custody_context *context, size_t bytes, void *argument);
	void *argument;
};

/* Copied out before it is called, so that it may change itself. */
static pthread_mutex_t handler_lock = PTHREAD_MUTEX_INITIALIZER;
static struct out_of_memory out_of_memory;

int custody_set_out_of_memory(bool (*handler)(struct custody_context *context, size_t bytes,
					      void *argument),
			      void *argument)
{
	pthread_mutex_lock(&handler_lock);
	out_of_memory = (struct out_of_memory){ handler, argument };
	pthread_mutex_unlock(&handler_lock);
	return 0;
}

bool defer_ask_handler(struct custody_context *context, size_t bytes, unsigned int *attempts)
{
	struct out_of_memory mine;

	pthread_mutex_lock(&handler_lock);
	mine = out_of_memory;
	pthread_mutex_unlock(&handler_lock);
	if (!mine.handler || *attempts >= HANDLER_TRIES)
		return false;
	++*attempts;
	return mine.handler(context, bytes, mine.argument);
}
