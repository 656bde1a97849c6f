/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/pace.h"
#include "core/clock.h"
#include "core/lock.h"

#include <string.h>

#define INTERVAL_LEAST_NS UINT64_C(10000000)
#define RATE_KNOWN_NS UINT64_C(100000) /* a rate of ticks over less is none */

enum { INTERVALS = 500, DEVICES = 256, LOOKS = 8 };

_Atomic uint64_t pace_last, pace_gap;

/* Under the lock; who finds it held leaves the reading to the one who holds it. */
static struct {
	uint64_t begin_ns;	  /* of the first reading; 0: there was none */
	struct clock_triple base; /* from which the rate of ticks is reckoned */
	uint64_t next_ns[DEVICES];
	unsigned int devices;
} run;
static struct lock running;

/* Zero as long as the rate is unknown: then everybody looks. */
static uint64_t ticks_in(uint64_t wait_ns, const struct clock_triple *now)
{
	uint64_t passed_ns = now->monotonic_ns - run.base.monotonic_ns;
	double rate;

	if (passed_ns < RATE_KNOWN_NS)
		return 0;
	rate = (double)(now->ticks - run.base.ticks) / (double)passed_ns;
	return (uint64_t)((double)wait_ns * rate);
}

/*
 * The devices share the time of the next look: where there are several, it comes
 * early enough for another one to have its turn in the same interval.
 */
static bool claim(int device, const struct clock_triple *now)
{
	uint64_t ns = now->monotonic_ns, interval, wait;
	bool is_due;

	if (!run.begin_ns)
		run.begin_ns = ns;
	if (now->ticks < run.base.ticks || !run.base.ticks)
		run.base = *now;
	interval = (ns - run.begin_ns) / INTERVALS;
	if (interval < INTERVAL_LEAST_NS)
		interval = INTERVAL_LEAST_NS;
	is_due = ns >= run.next_ns[device];
	if (is_due && !run.next_ns[device])
		run.devices++;
	if (is_due)
		run.next_ns[device] = ns + interval;
	wait = run.devices > 1 ? interval / LOOKS : run.next_ns[device] - ns;
	atomic_store_explicit(&pace_gap, ticks_in(wait, now), memory_order_relaxed);
	atomic_store_explicit(&pace_last, now->ticks, memory_order_relaxed);
	return is_due;
}

bool pace_claim(int device, uint32_t clock)
{
	struct clock_triple now;
	bool is_due;

	if (device < 0 || device >= DEVICES || !lock_try(&running))
		return false;
	clock_read_triple(&now, clock);
	is_due = claim(device, &now);
	lock_give(&running);
	return is_due;
}

void pace_reset(void)
{
	lock_give(&running);
	memset(&run, 0, sizeof(run));
	atomic_store_explicit(&pace_gap, 0, memory_order_relaxed);
}
