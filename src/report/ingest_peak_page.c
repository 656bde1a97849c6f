/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks take of a device, by the pages that its driver hands out. */
#include "report/ingest_peak.h"

#include <stdlib.h>

enum {
	PAGE_BITS = 21,
	PAGE_BYTES = 1 << PAGE_BITS,
	SMALL_MOST = PAGE_BYTES / 2,	/* arrays up to this size share pages */
	PAGE_KEY_BITS = 57 - PAGE_BITS, /* of an address as wide as any CPU has */
	PAGE_NO_BLOCKS = 1 << 30,	/* as the entry of a page counts them */
};

static int64_t round_up(int64_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & -(int64_t)PAGE_BYTES;
}

/*
 * A block has come to a page or gone from it.  A page counts while it has blocks, in
 * the series whose block was first; what it has may be less than none for a moment,
 * when an end is told before its begin.
 */
static void change_page(struct ingest_peak *peak, uint32_t series, uint64_t page, int by)
{
	uint64_t key = (uint64_t)peak->series[series].process_id << PAGE_KEY_BITS | page;
	uint64_t entry = (uintptr_t)ingest_table_find(&peak->pages, key);
	int64_t blocks = entry ? (int64_t)(entry & UINT32_MAX) - PAGE_NO_BLOCKS : 0;
	int64_t after = blocks + by;

	if (blocks > 0)
		series = (uint32_t)(entry >> 32);
	if ((after > 0) != (blocks > 0))
		peak->series[series].held += by * PAGE_BYTES;
	if (!after) {
		ingest_table_take(&peak->pages, key);
		return;
	}
	entry = (uint64_t)series << 32 | (uint64_t)(after + PAGE_NO_BLOCKS);
	ingest_table_put(&peak->pages, key, (void *)(uintptr_t)entry);
}

/* Those between the first and the last page of a block are its own. */
static void change_pages(struct ingest_peak *peak, const struct ingest_peak_change *change)
{
	uint64_t pages = (uint64_t)llabs(change->rest);
	uint64_t first = pages & ((UINT64_C(1) << PAGE_KEY_BITS) - 1);
	uint64_t count = pages >> PAGE_KEY_BITS;
	int by = change->rest < 0 ? -1 : 1;

	change_page(peak, change->series, first, by);
	if (count)
		change_page(peak, change->series, first + count, by);
	if (count > 1)
		peak->series[change->series].held += by * (int64_t)(count - 1) * PAGE_BYTES;
}

void ingest_peak_page_hold(struct ingest_peak *peak, const struct ingest_peak_change *change)
{
	struct ingest_peak_series *series = &peak->series[change->series];

	if (!change->rest)
		return;
	if (change->what == INGEST_PEAK_PAGES) {
		change_pages(peak, change);
		return;
	}
	if (change->what == INGEST_PEAK_SMALL) {
		series->held -= round_up(series->small);
		series->small += change->rest;
		series->held += round_up(series->small);
		return;
	}
	series->held += change->rest;
}

/* The number of the first page, and above it how many follow. */
static int64_t pages_of(uint64_t address, uint64_t bytes)
{
	const uint64_t most = (UINT64_C(1) << (63 - PAGE_KEY_BITS)) - 1;
	uint64_t first = address >> PAGE_BITS & ((UINT64_C(1) << PAGE_KEY_BITS) - 1);
	uint64_t last = (address + (bytes ? bytes - 1 : 0)) >> PAGE_BITS;
	uint64_t more = last > first ? last - first : 0;

	return (int64_t)(first | (more < most ? more : most) << PAGE_KEY_BITS);
}

struct ingest_peak_footprint ingest_peak_page_footprint(enum block_kind kind, uint64_t address,
							uint64_t bytes)
{
	switch (kind) {
	case BLOCK_DEVICE:
	case BLOCK_PITCH:
		return (struct ingest_peak_footprint){ INGEST_PEAK_PAGES,
						       pages_of(address, bytes) };
	case BLOCK_ARRAY:
		if (bytes <= SMALL_MOST)
			return (struct ingest_peak_footprint){ INGEST_PEAK_SMALL, (int64_t)bytes };
		break;
	case BLOCK_MANAGED:
		break;
	case BLOCK_VMM:
		return (struct ingest_peak_footprint){ INGEST_PEAK_CHANGE, (int64_t)bytes };
	default: /* theirs is reserved by a pool or a graph, or another's, or part of some code */
		return (struct ingest_peak_footprint){ INGEST_PEAK_CHANGE, 0 };
	}
	return (struct ingest_peak_footprint){ INGEST_PEAK_CHANGE, round_up((int64_t)bytes) };
}

int64_t ingest_peak_page_bytes(const struct ingest_peak_change *change)
{
	if (change->what == INGEST_PEAK_PAGES)
		return (int64_t)(((uint64_t)change->rest >> PAGE_KEY_BITS) + 1) * PAGE_BYTES;
	return change->what == INGEST_PEAK_CHANGE ? change->rest : 0;
}
