/* SPDX-License-Identifier: Apache-2.0 */
#include "report/ingest_clock.h"

enum {
	NEAREST_NS = 2000000, /* closer moments say nothing about the rate */
};

/* No counter we know ticks faster than 10 GHz or slower than 1 MHz. */
static const double slowest_rate = 1000.0;
static const double fastest_rate = 0.1;

/* Keep every second of the older moments: only what comes late asks for them. */
static void thin_out(struct ingest_clock *clock)
{
	uint32_t half = INGEST_CLOCK_ANCHORS / 2;
	uint32_t kept = 1;

	for (uint32_t i = 2; i < half; i += 2)
		clock->anchor[kept++] = clock->anchor[i];
	for (uint32_t i = half; i < clock->count; i++)
		clock->anchor[kept++] = clock->anchor[i];
	clock->count = kept;
	clock->at = kept - 2;
}

static double rate_between(const struct ingest_clock_anchor *from, uint64_t ticks, int64_t ns)
{
	return (double)(ns - from->ns) / (double)(ticks - from->ticks);
}

/* One part in a hundred: an adjusted clock is slewed by far less. */
static bool fits(const struct ingest_clock *clock, double rate)
{
	if (rate < fastest_rate || rate > slowest_rate)
		return false;
	if (clock->count < 2)
		return true;
	return rate > clock->rate * 0.99 && rate < clock->rate * 1.01;
}

bool ingest_clock_add(struct ingest_clock *clock, uint64_t ticks, uint64_t ns)
{
	struct ingest_clock_anchor next = { ticks, (int64_t)ns };

	if (ns > INT64_MAX)
		return false;
	if (clock->count) {
		const struct ingest_clock_anchor *last = &clock->anchor[clock->count - 1];

		if (ticks <= last->ticks || next.ns < last->ns + NEAREST_NS ||
		    !fits(clock, rate_between(last, ticks, next.ns)))
			return false;
		if (clock->count == INGEST_CLOCK_ANCHORS)
			thin_out(clock);
		clock->rate = rate_between(&clock->anchor[0], ticks, next.ns);
	} else {
		clock->rate = 1.0;
	}
	clock->anchor[clock->count++] = next;
	return true;
}

static int64_t clip(double ns)
{
	return ns < 0 ? 0 : ns > 9.2e18 ? INT64_MAX : (int64_t)ns;
}

/* Along the line through the anchor with the given rate; exact near the anchor. */
static int64_t extend(const struct ingest_clock_anchor *anchor, uint64_t ticks, double rate)
{
	double delta = ticks >= anchor->ticks ? (double)(ticks - anchor->ticks) :
						-(double)(anchor->ticks - ticks);

	delta *= rate;
	if (delta > -9e15 && delta < 9e15 && (double)anchor->ns + delta >= 0)
		return anchor->ns + (int64_t)delta;
	return clip((double)anchor->ns + delta);
}

static uint32_t find_anchor(struct ingest_clock *clock, uint64_t ticks)
{
	uint32_t low = 0;
	uint32_t high = clock->count - 1;

	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (clock->anchor[middle].ticks <= ticks)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

int64_t ingest_clock_ns(struct ingest_clock *clock, uint64_t ticks, uint32_t mode)
{
	const struct ingest_clock_anchor *anchor;
	uint32_t at = clock->at;

	if (mode != CLOCK_TICKS_TSC || !clock->count)
		return ticks > INT64_MAX ? INT64_MAX : (int64_t)ticks;
	if (at + 1 >= clock->count || ticks < clock->anchor[at].ticks ||
	    ticks >= clock->anchor[at + 1].ticks)
		at = find_anchor(clock, ticks);
	clock->at = at;
	anchor = &clock->anchor[at];
	if (at + 1 == clock->count || ticks < anchor->ticks)
		return extend(anchor, ticks, clock->rate);
	return extend(anchor, ticks, rate_between(anchor, anchor[1].ticks, anchor[1].ns));
}

int64_t ingest_clock_span(const struct ingest_clock *clock, uint64_t ticks, uint32_t mode)
{
	if (mode != CLOCK_TICKS_TSC || !clock->count)
		return ticks > INT64_MAX ? INT64_MAX : (int64_t)ticks;
	return clip((double)ticks * clock->rate);
}
