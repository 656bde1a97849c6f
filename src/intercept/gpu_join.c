/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/gpu_join.h"

void gpu_join_note(struct gpu_join *join, uint32_t correlation, uint64_t key)
{
	uint32_t at = correlation % GPU_JOIN_SLOTS;

	join->slot[at].correlation = correlation;
	join->slot[at].key = key;
}

/* One that was overwritten by a later call is another's: then it is not known. */
uint64_t gpu_join_find(const struct gpu_join *join, uint32_t correlation)
{
	uint32_t at = correlation % GPU_JOIN_SLOTS;

	return correlation && join->slot[at].correlation == correlation ? join->slot[at].key : 0;
}

bool gpu_join_wait(struct gpu_join *join, uint32_t correlation, const struct record *record)
{
	if (join->waits == GPU_JOIN_WAITING)
		return false;
	join->waiting[join->waits].correlation = correlation;
	join->waiting[join->waits].record = *record;
	join->waits++;
	return true;
}

bool gpu_join_take(struct gpu_join *join, struct record *record)
{
	if (!join->waits)
		return false;
	join->waits--;
	*record = join->waiting[join->waits].record;
	record->stream = gpu_join_find(join, join->waiting[join->waits].correlation);
	return true;
}
