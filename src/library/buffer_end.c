/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_end.c - how buffers end: closed by the program, with their last reference, by a
 * reset, or with a context that has died.
 */
#include "library/buffer.h"

/*
 * The program's function runs behind what others do with its memory.  An owner is told
 * at the end in any case: where the device is at fault there is nothing to wait for.
 */
static int release_foreign(struct custody_buffer *buffer, const struct resource_uses *uses,
			   bool is_last)
{
	int error = resource_wait_freeing(buffer->object.context, uses);

	if (error && (!is_last || error == CUSTODY_E_CAPTURING))
		return error;
	if (buffer->release)
		buffer->release(buffer->owner, uses->at.stream);
	return 0;
}

static int free_memory(struct custody_buffer *buffer, const struct resource_uses *uses,
		       bool is_last)
{
	if (buffer->whole)
		return 0;
	if (buffer->import)
		return ipc_close(buffer, uses);
	if (buffer->resource)
		return resource_give(buffer->resource, &buffer->memory, uses);
	return release_foreign(buffer, uses, is_last);
}

/* A reset has ended the stream already, and the default one does. */
static struct resource_use living(const struct resource_use *at)
{
	const struct resource_use none = { 0 };

	return at->stream && !at->stream->is_foreign && atomic_load(&at->stream->is_ended) ? none :
											     *at;
}

/*
 * With the context entered and a reference held: the program's function may let go of
 * its own.  Where that fails, and nothing is lost, the buffer is as it was, to be
 * closed again.
 */
static int close_on(struct custody_buffer *buffer, const struct resource_use *at, bool is_last)
{
	const struct resource_uses uses = { living(at), buffer->others, buffer->other_count };
	int error;

	if (atomic_exchange(&buffer->is_closed, true))
		return 0;
	error = free_memory(buffer, &uses, is_last);
	if (error && (buffer->memory.pointer || buffer->release))
		atomic_store(&buffer->is_closed, false);
	else
		buffer_forget_others(buffer);
	return error;
}

/* One reference more, unless somebody is letting go of the last just now. */
static bool hold(struct custody_buffer *buffer)
{
	uint32_t count = atomic_load(&buffer->references);

	while (count && !atomic_compare_exchange_weak(&buffer->references, &count, count + 1))
		;
	return count != 0;
}

/* What no way leads to is lost, or dies with the context. */
static void close_anyhow(struct custody_buffer *buffer)
{
	const struct resource_uses none = { 0 };
	int error = free_memory(buffer, &none, true);

	if (error && buffer->resource && !buffer->import)
		resource_give_up(buffer->resource, &buffer->memory, error);
}

/*
 * A reset.  Streams that cannot be waited for by way of the driver any more were waited
 * for.
 */
static void end_buffer(struct library_object *object)
{
	struct custody_buffer *buffer = (struct custody_buffer *)object;

	buffer->is_held = hold(buffer);
	close_on(buffer, &buffer->free_use, true);
	if (!atomic_exchange(&buffer->is_closed, true))
		close_anyhow(buffer);
}

/*
 * The context has died before.  An owner is told, and the program's own resource gets its
 * memory back, as there is nobody else to tell them.
 */
static void lose_memory(struct custody_buffer *buffer)
{
	const struct resource_uses none = { 0 };

	if (buffer->whole)
		return;
	ipc_forget(buffer);
	if (!buffer->resource)
		release_foreign(buffer, &none, true);
	else if (buffer->resource->facts.kind == CUSTODY_RESOURCE_CUSTOM)
		resource_give(buffer->resource, &buffer->memory, &none);
	else if (!buffer->is_mapped)
		resource_lose(buffer->resource, &buffer->memory);
}

static void lose_buffer(struct library_object *object)
{
	struct custody_buffer *buffer = (struct custody_buffer *)object;

	buffer->is_held = hold(buffer);
	if (!atomic_exchange(&buffer->is_closed, true))
		lose_memory(buffer);
}

static int discard_last(struct custody_buffer *buffer)
{
	int error;

	context_remove(&buffer->object);
	error = custody_resource_release(buffer->resource);
	buffer->resource = NULL;
	buffer_discard(buffer);
	return error;
}

static void leave_buffer(struct library_object *object)
{
	struct custody_buffer *buffer = (struct custody_buffer *)object;

	if (atomic_load(&buffer->is_left))
		discard_last(buffer);
	else if (buffer->is_held)
		custody_buffer_release(buffer);
}

void buffer_end_prepare(struct custody_buffer *buffer)
{
	buffer->object.end = end_buffer;
	buffer->object.lose = lose_buffer;
	buffer->object.ended = leave_buffer;
}

static int close_now(struct custody_buffer *buffer, struct custody_stream *stream)
{
	const struct resource_use given = { .stream = stream };
	struct library_call call;
	int error = context_enter(&call, &buffer->object);

	if (error)
		return error;
	return library_leave(&call, close_on(buffer, stream ? &given : &buffer->free_use, false));
}

int custody_buffer_close(struct custody_buffer *buffer, struct custody_stream *stream)
{
	int error, lost;

	if (!buffer)
		return error_say(CUSTODY_E_INVALID, "the buffer is NULL");
	if (atomic_load(&buffer->is_closed))
		return 0;
	custody_buffer_retain(buffer);
	error = close_now(buffer, stream);
	lost = custody_buffer_release(buffer);
	return error ? error : lost;
}

void custody_buffer_retain(struct custody_buffer *buffer)
{
	if (buffer)
		atomic_fetch_add_explicit(&buffer->references, 1, memory_order_relaxed);
}

/* Memory that a graph has not freed is the graph's, and goes with it. */
static bool is_left_to_graph(const struct custody_buffer *buffer, int error)
{
	return error == CUSTODY_E_NOT_CAPTURING && buffer->resource &&
	       buffer->resource->facts.kind == CUSTODY_RESOURCE_GRAPH;
}

/* The last reference, with the context entered.  A capture will end, and then it can. */
static int close_last(struct custody_buffer *buffer)
{
	int error = close_on(buffer, &buffer->free_use, true);

	if (error == CUSTODY_E_CAPTURING)
		custody_buffer_retain(buffer);
	if (!is_left_to_graph(buffer, error))
		return error;
	atomic_store(&buffer->is_closed, true);
	return 0;
}

/* It stays in its context for a reset. */
static int leave_open(struct custody_buffer *buffer, int error)
{
	if (error != CUSTODY_E_CAPTURING)
		atomic_store(&buffer->is_left, true);
	return error;
}

/* The context cannot be entered: it has died, or is at fault, or the process ends. */
static int end_outside(struct custody_buffer *buffer, int error)
{
	if (error > 0)
		return leave_open(buffer, error);
	if (error == CUSTODY_E_STALE && !atomic_exchange(&buffer->is_closed, true))
		lose_memory(buffer);
	return discard_last(buffer);
}

/* The last reference. */
static int end_last(struct custody_buffer *buffer)
{
	struct library_call call;
	int error, lost;

	if (atomic_load(&buffer->is_closed))
		return discard_last(buffer);
	error = context_enter(&call, &buffer->object);
	if (error)
		return end_outside(buffer, error);
	error = close_last(buffer);
	if (!atomic_load(&buffer->is_closed))
		return library_leave(&call, leave_open(buffer, error));
	lost = discard_last(buffer);
	return library_leave(&call, error ? error : lost);
}

int custody_buffer_release(struct custody_buffer *buffer)
{
	if (buffer && atomic_fetch_sub_explicit(&buffer->references, 1, memory_order_acq_rel) == 1)
		return end_last(buffer);
	return 0;
}
