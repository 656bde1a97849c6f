/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/uncovered.h"

#include <string.h>

enum { NOTES = 256, NAME_BYTES = 80 };

static struct note {
	_Atomic uintptr_t address; /* claims the slot */
	_Atomic bool is_complete;
	int version;
	uint64_t flags;
	char name[NAME_BYTES];
} notes[NOTES];

_Atomic uint32_t uncovered_noted;
_Atomic uint32_t uncovered_written;

/* The slot of this address; NULL: noted before, or no room for more. */
static struct note *claim(const void *address)
{
	for (int i = 0; i < NOTES; i++) {
		uintptr_t there = 0;

		if (atomic_compare_exchange_strong(&notes[i].address, &there, (uintptr_t)address))
			return &notes[i];
		if (there == (uintptr_t)address)
			return NULL;
	}
	return NULL;
}

void uncovered_note(const void *address, const char *name, int version, uint64_t flags)
{
	struct note *note = claim(address);

	if (!note)
		return;
	note->version = version;
	note->flags = flags;
	strncpy(note->name, name, NAME_BYTES - 1);
	atomic_store_explicit(&note->is_complete, true, memory_order_release);
	atomic_fetch_add_explicit(&uncovered_noted, 1, memory_order_release);
}

/*
 * Slots are claimed in order but completed in any: one that is not complete yet
 * ends the pass and is met again by the next.
 */
bool uncovered_next(struct uncovered *uncovered)
{
	uint32_t next = atomic_load_explicit(&uncovered_written, memory_order_acquire);
	const struct note *note;

	do {
		if (next >= NOTES ||
		    !atomic_load_explicit(&notes[next].is_complete, memory_order_acquire))
			return false;
	} while (!atomic_compare_exchange_strong(&uncovered_written, &next, next + 1));
	note = &notes[next];
	*uncovered = (struct uncovered){ note->address, note->version, note->flags, note->name };
	return true;
}

void uncovered_rewind(void)
{
	atomic_store_explicit(&uncovered_written, 0, memory_order_relaxed);
}
