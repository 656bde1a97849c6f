/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/green.h"
#include "core/context.h"
#include "core/lock.h"

#include <stdatomic.h>
#include <stddef.h>

enum { GREENS = 256 };

static struct green list[GREENS];
static _Atomic uint32_t count; /* so that programs without any do not look */
static struct lock lock;

enum key { BY_HANDLE, BY_VIEW, BY_DEVICE };

/* Under the lock. */
static struct green *find(enum key key, uint64_t value)
{
	for (int i = 0; i < GREENS; i++) {
		struct green *green = &list[i];

		if (green->handle && ((key == BY_HANDLE && green->handle == value) ||
				      (key == BY_VIEW && green->view == value) ||
				      (key == BY_DEVICE && green->device == (int)value)))
			return green;
	}
	return NULL;
}

void green_add(uint64_t handle, int device)
{
	struct green *green;

	lock_take(&lock);
	green = find(BY_HANDLE, handle); /* its end was missed */
	for (int i = 0; !green && i < GREENS; i++) {
		if (list[i].handle)
			continue;
		green = &list[i];
		atomic_fetch_add(&count, 1);
	}
	if (green)
		*green = (struct green){ .handle = handle, .device = device };
	lock_give(&lock);
}

static bool copy(enum key key, uint64_t value, bool is_removed, struct green *copied)
{
	struct green *green;

	if (!atomic_load_explicit(&count, memory_order_relaxed))
		return false;
	lock_take(&lock);
	green = find(key, value);
	if (green)
		*copied = *green;
	if (green && is_removed) {
		green->handle = 0;
		atomic_fetch_sub(&count, 1);
	}
	lock_give(&lock);
	return green != NULL;
}

bool green_find(uint64_t handle, struct green *green)
{
	return copy(BY_HANDLE, handle, false, green);
}

bool green_remove(uint64_t handle, struct green *green)
{
	return copy(BY_HANDLE, handle, true, green);
}

bool green_remove_one(int device, struct green *green)
{
	return copy(BY_DEVICE, (uint64_t)device, true, green);
}

void green_set_view(uint64_t handle, uint64_t view, uint32_t number)
{
	struct green *green;

	lock_take(&lock);
	green = find(BY_HANDLE, handle);
	if (green) {
		green->view = view;
		green->number = number;
	}
	lock_give(&lock);
}

uint32_t green_primary(uint64_t view)
{
	struct context primary;
	struct green green;

	if (!view || !copy(BY_VIEW, view, false, &green))
		return 0;
	return context_find_primary(green.device, &primary) ? primary.number : 0;
}

void green_reset(void)
{
	for (int i = 0; i < GREENS; i++)
		list[i].handle = 0;
	atomic_store_explicit(&count, 0, memory_order_relaxed);
	lock_give(&lock);
}
