/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.c - page-locking what is there: the map of all ranges, and scopes over some.
 *
 * A range is entered into the map before the driver is asked, so that of two threads
 * that overlap one is refused here, and leaves it after the driver has let go.  While
 * the driver unregisters it holds up the other threads of the context until that is
 * idle; the wait ahead of it spares them that.
 */
#include "library/host.h"

#include <stdlib.h>
#include <string.h>

struct custody_pin {
	struct host_scope scope;
};

enum { ROOM_FIRST = 16 };

/* By address, none overlaps another.  The lock is not held across a call of the driver. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_range **map;
static size_t map_room;
static _Atomic size_t map_count;

/* ----------------------------------------------------------------- the map */

/* The first range that ends above an address. */
static size_t find_place(const char *pointer)
{
	size_t low = 0, high = atomic_load_explicit(&map_count, memory_order_relaxed);

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (map[middle]->pointer + map[middle]->bytes <= pointer)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool make_room(size_t count)
{
	struct host_range **larger;

	if (count < map_room)
		return true;
	larger = realloc(map, (map_room ? 2 * map_room : ROOM_FIRST) * sizeof(*map));
	if (!larger)
		return false;
	map_room = map_room ? 2 * map_room : ROOM_FIRST;
	map = larger;
	return true;
}

static int insert(struct host_range *range)
{
	const size_t count = atomic_load_explicit(&map_count, memory_order_relaxed);
	const size_t at = find_place(range->pointer);

	if (at < count && map[at]->pointer < range->pointer + range->bytes)
		return error_say(CUSTODY_E_OVERLAP,
				 "%zu bytes at %p overlap %zu at %p, which are registered already",
				 range->bytes, (void *)range->pointer, map[at]->bytes,
				 (void *)map[at]->pointer);
	if (!make_room(count))
		return CUSTODY_E_NO_MEMORY;
	memmove(map + at + 1, map + at, (count - at) * sizeof(*map));
	map[at] = range;
	atomic_store_explicit(&map_count, count + 1, memory_order_release);
	return 0;
}

static int enter_map(struct host_range *range)
{
	int error;

	pthread_mutex_lock(&lock);
	error = insert(range);
	pthread_mutex_unlock(&lock);
	return error;
}

static void leave_map(const struct host_range *range)
{
	size_t at, count;

	pthread_mutex_lock(&lock);
	at = find_place(range->pointer);
	count = atomic_load_explicit(&map_count, memory_order_relaxed);
	if (at < count && map[at] == range) {
		memmove(map + at, map + at + 1, (count - at - 1) * sizeof(*map));
		atomic_store_explicit(&map_count, count - 1, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
}

void host_use(const void *pointer, size_t bytes, const struct custody_context *context)
{
	const char *end = (const char *)pointer + bytes;

	if (!atomic_load_explicit(&map_count, memory_order_acquire))
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = find_place(pointer); i < map_count && map[i]->pointer < end; i++)
		if (map[i]->context != context)
			map[i]->is_used_elsewhere = true;
	pthread_mutex_unlock(&lock);
}

static bool is_used_elsewhere(const struct host_scope *scope)
{
	bool is_used = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < scope->count; i++)
		is_used |= scope->ranges[i].is_used_elsewhere;
	pthread_mutex_unlock(&lock);
	return is_used;
}

/* ----------------------------------------------------------- registrations */

static int register_range(struct host_range *range, unsigned int flags)
{
	struct stream_mode mode;
	int error = enter_map(range);

	if (error)
		return error;
	stream_relax(&mode);
	error = library_cuda.cuMemHostRegister(range->pointer, range->bytes, flags);
	stream_restore(&mode);
	if (error) {
		leave_map(range);
		return error_say(error, "%zu bytes at %p cannot be registered", range->bytes,
				 (void *)range->pointer);
	}
	range->is_registered = true;
	return 0;
}

static int unregister_range(struct host_range *range)
{
	struct stream_mode mode;
	int error;

	if (!range->is_registered)
		return 0;
	stream_relax(&mode);
	error = library_cuda.cuMemHostUnregister(range->pointer);
	stream_restore(&mode);
	range->is_registered = false;
	leave_map(range);
	return error;
}

/* Latest first, all of them; the first error. */
static int unregister_all(struct host_scope *scope)
{
	int first = 0;

	for (size_t i = scope->count; i-- > 0;) {
		int error = unregister_range(&scope->ranges[i]);

		first = first ? first : error;
	}
	return first;
}

static int register_all(struct host_scope *scope, unsigned int flags)
{
	for (size_t i = 0; i < scope->count; i++) {
		int error = scope->ranges[i].bytes ? register_range(&scope->ranges[i], flags) : 0;

		if (!error)
			continue;
		unregister_all(scope);
		return error;
	}
	return 0;
}

/* ------------------------------------------------------------------ begin */

static unsigned int translate_flags(unsigned int flags, bool is_mapped)
{
	return (flags & CUSTODY_HOST_PORTABLE ? CU_MEMHOSTREGISTER_PORTABLE : 0) |
	       (flags & CUSTODY_HOST_READ_ONLY ? CU_MEMHOSTREGISTER_READ_ONLY : 0) |
	       (flags & CUSTODY_HOST_IO_MEMORY ? CU_MEMHOSTREGISTER_IOMEMORY : 0) |
	       (is_mapped ? CU_MEMHOSTREGISTER_DEVICEMAP : 0);
}

static int check_arguments(const struct custody_context *context,
			   const struct custody_range *ranges, size_t count, unsigned int flags)
{
	const unsigned int known =
		CUSTODY_HOST_PORTABLE | CUSTODY_HOST_READ_ONLY | CUSTODY_HOST_IO_MEMORY;

	if (!context || (!ranges && count))
		return error_say(CUSTODY_E_INVALID, "the context, or the ranges, are NULL");
	if (flags & ~known)
		return error_say(CUSTODY_E_INVALID, "flags 0x%x are not for registrations",
				 flags & ~known);
	for (size_t i = 0; i < count; i++) {
		const uintptr_t from = (uintptr_t)ranges[i].pointer;

		if ((!from && ranges[i].bytes) || from + ranges[i].bytes < from)
			return error_say(CUSTODY_E_INVALID, "range %zu, %zu bytes at %p, is none",
					 i, ranges[i].bytes, ranges[i].pointer);
	}
	return 0;
}

static int keep_ranges(struct host_scope *scope, const struct custody_context *context,
		       const struct custody_range *ranges, size_t count)
{
	scope->ranges = calloc(count ? count : 1, sizeof(*scope->ranges));
	if (!scope->ranges)
		return CUSTODY_E_NO_MEMORY;
	scope->count = count;
	for (size_t i = 0; i < count; i++) {
		scope->ranges[i].pointer = ranges[i].pointer;
		scope->ranges[i].bytes = ranges[i].bytes;
		scope->ranges[i].context = context;
	}
	return 0;
}

/* The context is reset, and is current. */
static void end_scope(struct library_object *object)
{
	struct host_scope *scope = (struct host_scope *)object;

	library_cuda.cuCtxSynchronize();
	unregister_all(scope);
	scope->has_ended = true;
}

/* The registrations have died with it. */
static void lose_scope(struct library_object *object)
{
	struct host_scope *scope = (struct host_scope *)object;

	for (size_t i = 0; i < scope->count; i++) {
		if (scope->ranges[i].is_registered)
			leave_map(&scope->ranges[i]);
		scope->ranges[i].is_registered = false;
	}
	scope->has_ended = true;
}

int host_begin(struct host_scope *scope, struct custody_context *context,
	       const struct custody_range *ranges, size_t count, unsigned int flags,
	       bool is_mapped)
{
	struct library_call call;
	int error = check_arguments(context, ranges, count, flags);

	if (!error)
		error = keep_ranges(scope, context, ranges, count);
	if (!error)
		error = library_enter_context(&call, context);
	if (error)
		return error;
	error = register_all(scope, translate_flags(flags, is_mapped));
	scope->object.lose = lose_scope;
	if (!error)
		context_put(&scope->object, context, end_scope);
	return library_leave(&call, error);
}

/* -------------------------------------------------------------------- end */

static int wait_elsewhere(const struct custody_context *own)
{
	int first = 0;

	for (struct custody_context *other = context_first(); other; other = other->next) {
		struct library_call call;
		int error;

		if (other == own || !atomic_load_explicit(&other->handle, memory_order_acquire))
			continue;
		error = library_enter_context(&call, other);
		if (!error)
			error = library_leave(&call, library_cuda.cuCtxSynchronize());
		first = first ? first : error;
	}
	return first;
}

/* For all that may still use the ranges; the context is entered. */
static int wait_for_users(const struct host_scope *scope)
{
	int error = library_cuda.cuCtxSynchronize(), elsewhere = 0;

	if (is_used_elsewhere(scope))
		elsewhere = wait_elsewhere(scope->object.context);
	return error ? error : elsewhere;
}

/* Whether there is nothing to undo any more; entering may have found the context dead. */
static bool is_over(const struct host_scope *scope, int error)
{
	return error == CUSTODY_E_FORKED || error == CUSTODY_E_EXITING ||
	       !context_is_fresh(scope->object.context, scope->object.generation);
}

/* It is not this time's to end, and belongs to its context again. */
static int keep_scope(struct host_scope *scope, int error)
{
	context_put(&scope->object, scope->object.context, end_scope);
	return error;
}

static int enter_scope(struct library_call *call, const struct host_scope *scope)
{
	int error = context_enter(call, &scope->object);

	if (error || !library_engine->is_capturing())
		return error;
	return library_leave(call, error_say(CUSTODY_E_CAPTURING,
					     "a registration cannot end while a capture is live"));
}

/* Taking it out of its context comes first: a reset may be at it, and is waited for. */
int host_end(struct host_scope *scope, void (*release)(struct host_scope *scope), bool *is_kept)
{
	struct library_call call;
	int error, waited;

	context_remove(&scope->object);
	*is_kept = false;
	if (scope->has_ended)
		return 0;
	error = enter_scope(&call, scope);
	if (error && is_over(scope, error))
		return 0;
	*is_kept = error != 0;
	if (error)
		return keep_scope(scope, error);
	waited = wait_for_users(scope);
	if (release)
		release(scope);
	error = unregister_all(scope);
	return library_leave(&call, waited ? waited : error);
}

void host_abandon(struct host_scope *scope)
{
	struct library_call call;

	if (!scope->object.context)
		return;
	context_remove(&scope->object);
	if (scope->has_ended || context_enter(&call, &scope->object))
		return;
	unregister_all(scope);
	library_leave(&call, 0);
}

/* In a child of fork the lock may be held by a thread that is not there. */
void host_forget(struct host_scope *scope)
{
	for (size_t i = 0; i < scope->count; i++)
		if (scope->ranges[i].is_registered && library_is_usable())
			leave_map(&scope->ranges[i]);
	free(scope->ranges);
}

/* ------------------------------------------------------------------- pins */

int custody_pin_begin(struct custody_context *context, const struct custody_range *ranges,
		      size_t count, unsigned int flags, struct custody_pin **pin)
{
	struct custody_pin *made;
	int error;

	error_forget();
	if (!pin)
		return error_say(CUSTODY_E_INVALID, "where to put the pin is NULL");
	made = calloc(1, sizeof(*made));
	if (!made)
		return CUSTODY_E_NO_MEMORY;
	error = host_begin(&made->scope, context, ranges, count, flags, false);
	if (!error) {
		*pin = made;
		return 0;
	}
	host_forget(&made->scope);
	free(made);
	return error;
}

int custody_pin_end(struct custody_pin *pin)
{
	bool is_kept;
	int error;

	error_forget();
	if (!pin)
		return 0;
	error = host_end(&pin->scope, NULL, &is_kept);
	if (is_kept)
		return error;
	host_forget(&pin->scope);
	free(pin);
	return error;
}

void custody_pin_leave(struct custody_pin **pin)
{
	if (pin && *pin)
		custody_pin_end(*pin);
}
