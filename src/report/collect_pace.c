/* SPDX-License-Identifier: Apache-2.0 */
#include "report/collect_pace.h"

#include "core/record.h"

enum {
	LEAST_MS = 5,
	BUSY_MOST_MS = 25,
	IDLE_MOST_MS = 100,
	NO_BUFFER_MS = 50,
	WORTH_A_LOOK = 4096,	 /* records */
	RECORDS_PER_MS = 10000,	 /* no program has been seen to write more */
	PART_OF_BUFFER = 4,	 /* that may fill up while we sleep */
};

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* A program that sleeps too may write at full speed from the next moment on. */
static uint64_t longest(uint64_t buffer_bytes)
{
	if (!buffer_bytes)
		return NO_BUFFER_MS;
	return within(buffer_bytes / RECORD_BYTES / RECORDS_PER_MS / PART_OF_BUFFER, LEAST_MS,
		      IDLE_MOST_MS);
}

/* Until so many records will have come as make a look worth while, if they come as before. */
static uint64_t until_worth_it(int64_t passed_ns, uint64_t records)
{
	uint64_t passed_us = passed_ns > 0 ? (uint64_t)passed_ns / 1000 : 0;

	return within(passed_us * WORTH_A_LOOK / records / 1000, LEAST_MS, BUSY_MOST_MS);
}

int collect_pace_wait(struct collect_pace *pace, int64_t now_ns, uint64_t records,
		      uint64_t buffer_bytes)
{
	uint64_t most = longest(buffer_bytes);
	uint64_t wait = records ? until_worth_it(now_ns - pace->looked_ns, records) :
				  within((uint64_t)pace->wait_ms * 2, LEAST_MS, most);

	pace->looked_ns = now_ns;
	pace->wait_ms = (int)within(wait, 1, most);
	return pace->wait_ms;
}
