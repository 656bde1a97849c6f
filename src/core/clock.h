/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - time stamps: the CPU's invariant counter where there is one, else
 * CLOCK_MONOTONIC.  Ticks become nanoseconds in the collector, never here.
 */
#ifndef CUSTODY_CORE_CLOCK_H
#define CUSTODY_CORE_CLOCK_H

#include "core/record.h"

#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* The counter itself.  Not serialising: 20-23 ns in a virtual machine are enough to pay. */
static inline uint64_t clock_counter(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t value;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#else
	return 0;
#endif
}

/* CLOCK_MONOTONIC or CLOCK_REALTIME in nanoseconds. */
static inline uint64_t clock_system_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CLOCK_MONOTONIC as ticks; out of line, so that the common path keeps few registers. */
__attribute__((cold)) uint64_t clock_monotonic_ticks(void);

static inline uint64_t clock_ticks(uint32_t mode)
{
	return __builtin_expect(mode == CLOCK_TICKS_TSC, 1) ? clock_counter() :
							       clock_monotonic_ticks();
}

/*
 * The mode this machine allows: TSC where the CPU and the kernel's flags
 * (constant_tsc, nonstop_tsc) call it invariant.  Reads /proc/cpuinfo at most
 * once, with raw system calls and no allocation; any thread.
 */
enum clock_mode clock_choose(void);

/* Read all three clocks as close together as can be; several tries, the tightest wins. */
void clock_read_triple(struct clock_triple *triple, enum clock_mode mode);

/*
 * Whether `now` fits a straight line through `start` and `before`: the same
 * rate within one part in a thousand, no step back.  False makes the writer
 * leave the TSC for good.
 */
int clock_is_consistent(const struct clock_triple *start, const struct clock_triple *before,
			const struct clock_triple *now);

#endif
