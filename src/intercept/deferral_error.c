/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/deferral_error.h"
#include "core/context.h"
#include "core/lock.h"

/* Under the lock; the oldest is at `first`. */
static struct engine_error kept[DEFERRAL_ERRORS];
static size_t first, count;
static uint64_t dropped;
static struct lock lock;

void deferral_error_note(const struct deferq_item *item)
{
	lock_take(&lock);
	if (count < DEFERRAL_ERRORS)
		kept[(first + count++) % DEFERRAL_ERRORS] = (struct engine_error){
			.handle = item->handle,
			.bytes = item->bytes,
			.caller = item->caller,
			.context = item->context,
			.device = (int16_t)context_device(item->context),
			.result = item->result,
			.kind = item->kind,
		};
	else
		dropped++;
	lock_give(&lock);
}

size_t deferral_error_take(struct engine_error *errors, size_t most, uint64_t *told)
{
	size_t taken = 0;

	lock_take(&lock);
	for (; taken < most && count; taken++, count--) {
		errors[taken] = kept[first];
		first = (first + 1) % DEFERRAL_ERRORS;
	}
	if (told) {
		*told = dropped;
		dropped = 0;
	}
	lock_give(&lock);
	return taken;
}

void deferral_error_reset(void)
{
	first = count = 0;
	dropped = 0;
	lock_give(&lock);
}
