/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory is free: what waits in a queue is free for the program, which
 * has freed it.  Small blocks share their pages with others and are not counted.
 */
#include "core/option.h"
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/hook.h"
#include "intercept/limit.h"
#include "intercept/reading.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* CUSTODY_MEMINFO=driver: the answer is the driver's alone, as always for the library. */
static bool counts_pending(void)
{
	return deferral_is_on() && !deferral_is_library && deferq_has_pending(-1) &&
	       strcmp(option_text(OPTION_MEMINFO), "driver");
}

void hook_info_memory_before(struct call *call, void *free, const void *total, size_t width)
{
	(void)free;
	(void)total;
	(void)width;
	call->result = CUDA_SUCCESS;
	if (counts_pending())
		deferral_collect(call);
}

static uint64_t read_number(const void *number, size_t width)
{
	return width == sizeof(unsigned int) ? *(const unsigned int *)number :
					       *(const size_t *)number;
}

static void write_number(void *number, size_t width, uint64_t value)
{
	if (width == sizeof(unsigned int))
		*(unsigned int *)number = (unsigned int)value;
	else
		*(size_t *)number = value;
}

/* What was freed is free; never more than all. */
static uint64_t with_pending(uint64_t is_free, uint64_t total)
{
	if (counts_pending())
		is_free += deferq_page_bytes(current_ask()->device);
	return is_free < total ? is_free : total;
}

/* The form of 32 bits may not tell what a large device has: then the other one is asked. */
static void tell_smaller(void *free, void *total, size_t width)
{
	struct limit_memory memory;
	uint64_t is_free;

	if (!limit_ask_current(&memory))
		return;
	is_free = with_pending(memory.total - memory.used, memory.total);
	is_free = limit_free(is_free, memory.total);
	memory.total = limit_total(memory.total);
	if (width == sizeof(unsigned int) && memory.total > UINT_MAX)
		memory.total = UINT_MAX;
	write_number(total, width, memory.total);
	write_number(free, width, is_free < memory.total ? is_free : memory.total);
}

void hook_info_memory_after(struct call *call, void *free, void *total, size_t width)
{
	uint64_t is_free, most;

	if (call->result != CUDA_SUCCESS || !free || !total)
		return;
	if (width == sizeof(size_t)) /* the other form may not tell what a large device has */
		reading_asked(call, read_number(free, width), read_number(total, width));
	if (limit_is_on()) {
		tell_smaller(free, total, width);
	} else if (counts_pending()) {
		most = read_number(total, width);
		is_free = read_number(free, width);
		write_number(free, width, with_pending(is_free, most));
	}
}

void hook_info_total(struct call *call, void *total, size_t width)
{
	if (limit_is_on() && call->result == CUDA_SUCCESS && total)
		write_number(total, width, limit_total(read_number(total, width)));
}
