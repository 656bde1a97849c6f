/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The uncommon paths of segment.h, each with errno as it was: they run inside
 * driver calls of the program.
 */
#include "core/segment.h"
#include "core/process.h"
#include "core/thread.h"

#include <errno.h>
#include <string.h>

/* A new chunk may begin with the thread's name and a gap; the longest text still fits behind. */
enum { TEXT_SLOTS_MAX = CHUNK_RECORDS - 8 };

static uint64_t read_generation(void)
{
	const _Atomic uint64_t *generation =
		atomic_load_explicit(&process_generation, memory_order_acquire);

	return atomic_load_explicit(generation, memory_order_relaxed);
}

bool segment_enter(void)
{
	int saved_errno = errno;
	bool is_new;

	process_recheck();
	is_new = process_enter();
	thread_begin(read_generation(),
		     process_control());
	errno = saved_errno;
	return is_new;
}

struct record *segment_refill(uint32_t slots)
{
	struct trace_control *control = process_control();
	int saved_errno = errno;
	struct record *record;

	if (!control)
		return NULL;
	process_recheck();
	if (!segment_is_ready(&thread_segment))
		segment_enter();
	control = process_control();
	record = control ? thread_refill(control, slots) : NULL;
	errno = saved_errno;
	return record;
}

bool segment_write_text(const struct record *record, const char *text, size_t bytes)
{
	struct thread_segment *self = &thread_segment;
	struct record *slots;
	uint32_t count;

	if (bytes > TEXT_SLOTS_MAX * sizeof(*slots) - 1)
		bytes = TEXT_SLOTS_MAX * sizeof(*slots) - 1;
	count = (uint32_t)(bytes / sizeof(*slots)) + 1; /* a NUL always fits */
	slots = segment_reserve(self, 1 + count);
	if (!slots)
		return false;
	slots[0] = *record;
	slots[0].text_slots = count;
	memset(&slots[1], 0, count * sizeof(*slots));
	memcpy(&slots[1], text, bytes);
	segment_publish(self, 1 + count);
	return true;
}

/* A child of fork that recorded nothing must not speak for its parent. */
static struct trace_control *own_control(void)
{
	return read_generation() ? process_control() : NULL;
}

void segment_end(enum control_end how)
{
	struct trace_control *control;

	process_recheck();
	control = own_control();
	if (!control)
		return;
	atomic_store_explicit(&control->end, clock_ticks(control->clock), memory_order_relaxed);
	atomic_store_explicit(&control->end_state, how, memory_order_release);
}

void segment_note(uint32_t note)
{
	struct trace_control *control = own_control();

	if (control)
		atomic_fetch_or_explicit(&control->notes, note, memory_order_relaxed);
}

void segment_set_driver(int version)
{
	struct trace_control *control = own_control();

	if (control)
		atomic_store_explicit(&control->driver, (uint32_t)version, memory_order_relaxed);
}

void segment_set_policy(const char *policy)
{
	process_set_policy(policy);
}

void segment_set_counter_apis(const uint16_t *api_of_slot, uint32_t slots, uint32_t apis)
{
	thread_set_counter_apis(api_of_slot, slots);
	process_set_apis(apis);
}

const char *segment_directory(void)
{
	return own_control() ? process_directory() : "";
}
