/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory is free: what waits in a queue is free for the program, which
 * has freed it.  Small blocks share their pages with others and are not counted.
 */
#include "core/option.h"
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/hook.h"
#include "intercept/reading.h"

#include <errno.h>
#include <string.h>

/* CUSTODY_MEMINFO=driver: the answer is the driver's alone. */
static bool counts_pending(void)
{
	return deferral_is_on() && deferq_has_pending(-1) &&
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

void hook_info_memory_after(struct call *call, void *free, const void *total, size_t width)
{
	uint64_t is_free, most;

	if (call->result != CUDA_SUCCESS || !free || !total)
		return;
	reading_asked(call, read_number(free, width), read_number(total, width));
	if (!counts_pending())
		return;
	most = read_number(total, width);
	is_free = read_number(free, width) + deferq_page_bytes(current_ask()->device);
	write_number(free, width, is_free < most ? is_free : most);
}
