/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are appended and never move; a bucket is a chain with the newest in
 * front, so of several contexts that had one handle the living one is met
 * first.  Readers take no lock: an entry is complete before the store that
 * links it, and only its death changes afterwards.
 */
#include "core/context.h"
#include "core/lock.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { BUCKETS = 1024, DEVICES = 256, YIELDS = 200, SLEEP_NS = 50000 };

/* Of an entry's guests: calls that may end it count above, visitors below. */
enum { CLOSED = 1 << 16, VISITORS = CLOSED - 1 };

struct entry {
	uint64_t handle;
	uint32_t next; /* number of the next entry in the bucket, 0: last */
	int16_t device;
	bool is_primary;
	_Atomic bool is_dead;
	_Atomic uint32_t guests; /* of a dead context whatever it was */
};

static struct entry entries[CONTEXT_MAX + 1]; /* by number; pages are touched as used */
static _Atomic uint32_t buckets[BUCKETS];     /* number of the newest entry */
static _Atomic uint32_t primaries[DEVICES];   /* number of the living primary context */
static _Atomic uint32_t count;
static _Atomic uint32_t epoch;
static struct lock adding;

static _Atomic uint32_t *bucket_of(uint64_t handle)
{
	return &buckets[handle * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/* Number of the living context with this handle, or 0. */
static uint32_t find_number(uint64_t handle)
{
	uint32_t number = atomic_load_explicit(bucket_of(handle), memory_order_acquire);

	while (number) {
		const struct entry *entry = &entries[number];

		if (entry->handle == handle &&
		    !atomic_load_explicit(&entry->is_dead, memory_order_relaxed))
			return number;
		number = entry->next;
	}
	return 0;
}

static bool copy_entry(uint32_t number, struct context *context)
{
	const struct entry *entry = &entries[number];

	if (!number)
		return false;
	*context = (struct context){
		.handle = entry->handle,
		.number = number,
		.device = entry->device,
		.is_primary = entry->is_primary,
		.is_dead = atomic_load_explicit(&entry->is_dead, memory_order_relaxed),
	};
	return true;
}

bool context_find(uint64_t handle, struct context *context)
{
	return copy_entry(find_number(handle), context);
}

bool context_get(uint32_t number, struct context *context)
{
	return number <= atomic_load_explicit(&count, memory_order_acquire) &&
	       copy_entry(number, context);
}

int context_device(uint32_t number)
{
	return number && number <= atomic_load_explicit(&count, memory_order_acquire) ?
		       entries[number].device :
		       -1;
}

bool context_find_primary(int device, struct context *context)
{
	if (device < 0 || device >= DEVICES)
		return false;
	return copy_entry(atomic_load_explicit(&primaries[device], memory_order_acquire), context);
}

/*
 * The dead in front of a chain leave it, for a program that makes and destroys
 * contexts without end; a reader who stands on one still finds its way.
 */
static uint32_t skip_dead(uint32_t number)
{
	while (number && atomic_load_explicit(&entries[number].is_dead, memory_order_relaxed))
		number = entries[number].next;
	return number;
}

/* Under the lock `adding`; one that was met as current may turn out to be the primary one. */
static void remember_primary(uint32_t number)
{
	int device = entries[number].device;

	if (device >= 0 && device < DEVICES)
		atomic_store_explicit(&primaries[device], number, memory_order_release);
}

/* Under the lock `adding`. */
static uint32_t append_entry(uint64_t handle, int device, bool is_primary)
{
	uint32_t number = atomic_load_explicit(&count, memory_order_relaxed) + 1;
	struct entry *entry = &entries[number];

	if (number > CONTEXT_MAX)
		return 0;
	entry->handle = handle;
	entry->device = (int16_t)device;
	entry->is_primary = is_primary;
	atomic_store_explicit(&entry->guests, 0, memory_order_relaxed);
	entry->next = skip_dead(atomic_load_explicit(bucket_of(handle), memory_order_relaxed));
	atomic_store_explicit(&entry->is_dead, false, memory_order_relaxed);
	atomic_store_explicit(&count, number, memory_order_release);
	atomic_store_explicit(bucket_of(handle), number, memory_order_release);
	if (is_primary)
		remember_primary(number);
	return number;
}

uint32_t context_add(uint64_t handle, int device, bool is_primary, bool *is_new)
{
	uint32_t number;

	lock_take(&adding);
	number = find_number(handle);
	*is_new = !number;
	if (!number)
		number = append_entry(handle, device, is_primary);
	else if (is_primary)
		remember_primary(number);
	if (!number)
		*is_new = false;
	lock_give(&adding);
	return number;
}

/* Under the lock `adding`: a newer primary context of the device stays. */
static void forget_primary(uint32_t number)
{
	int device = entries[number].device;

	if (device < 0 || device >= DEVICES)
		return;
	if (atomic_load_explicit(&primaries[device], memory_order_relaxed) == number)
		atomic_store_explicit(&primaries[device], 0, memory_order_relaxed);
}

uint32_t context_kill(uint64_t handle)
{
	uint32_t number;

	lock_take(&adding);
	number = find_number(handle);
	if (number) {
		atomic_store_explicit(&entries[number].is_dead, true, memory_order_relaxed);
		forget_primary(number);
		atomic_fetch_add_explicit(&epoch, 1, memory_order_release);
	}
	lock_give(&adding);
	return number;
}

/*
 * Dead is looked at last: a context can be found dead by another call than the one
 * that has ended it, which then believes that it must spare it.
 */
bool context_visit(uint32_t number)
{
	struct entry *entry = &entries[number];

	if (!(atomic_fetch_add_explicit(&entry->guests, 1, memory_order_acquire) / CLOSED) &&
	    !atomic_load_explicit(&entry->is_dead, memory_order_relaxed))
		return true;
	context_leave(number);
	return false;
}

void context_leave(uint32_t number)
{
	atomic_fetch_sub_explicit(&entries[number].guests, 1, memory_order_release);
}

void context_close(uint32_t number)
{
	const struct timespec nap = { .tv_nsec = SLEEP_NS };
	int saved_errno = errno;

	if (!number)
		return;
	atomic_fetch_add_explicit(&entries[number].guests, CLOSED, memory_order_acquire);
	for (int i = 0; atomic_load_explicit(&entries[number].guests, memory_order_acquire) &
			VISITORS; i++) {
		if (i < YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
	errno = saved_errno;
}

void context_spare(uint32_t number)
{
	if (number)
		atomic_fetch_sub_explicit(&entries[number].guests, CLOSED, memory_order_release);
}

uint32_t context_epoch(void)
{
	return atomic_load_explicit(&epoch, memory_order_acquire);
}

/* The child has one thread; the lock may have been held by another thread of its parent. */
void context_reset(void)
{
	lock_give(&adding);
	for (int i = 0; i < BUCKETS; i++)
		atomic_store_explicit(&buckets[i], 0, memory_order_relaxed);
	for (int i = 0; i < DEVICES; i++)
		atomic_store_explicit(&primaries[i], 0, memory_order_relaxed);
	atomic_store_explicit(&count, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&epoch, 1, memory_order_release);
}
