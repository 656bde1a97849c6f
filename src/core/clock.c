/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"
#include "core/raw_file.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum {
	TRIPLE_TRIES = 4,
	RATE_PARTS = 1000,    /* the rate may differ by one part in this many */
	SLACK_NS = 100000,    /* a thread can lose the CPU between two of the clocks */
	CPUINFO_BYTES = 8192, /* holds the first processor, flags and all */
};

#if defined(__x86_64__)
/* Whether `line` holds `word` between blanks. */
static bool has_word(const char *line, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = strstr(line, word); at; at = strstr(at + length, word))
		if (at[-1] == ' ' && (at[length] == ' ' || at[length] == '\0'))
			return true;
	return false;
}

/* The kernel clears these flags where it found the counter wanting. */
static bool kernel_trusts_counter(void)
{
	static const char name[] = "\nflags\t";
	char text[CPUINFO_BYTES];
	char *flags, *end;

	if (raw_file_read("/proc/cpuinfo", text, sizeof(text)) <= 0)
		return false;
	flags = strstr(text, name);
	if (!flags)
		return false;
	flags += sizeof(name) - 1;
	end = strchr(flags, '\n');
	if (end)
		*end = '\0';
	return has_word(flags, "constant_tsc") && has_word(flags, "nonstop_tsc");
}

static bool counter_is_invariant(void)
{
	unsigned int eax, ebx, ecx, edx;

	if (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) || !(edx & 1u << 8))
		return false;
	return kernel_trusts_counter();
}
#else
/* The generic timer of arm64 is invariant by its architecture. */
static bool counter_is_invariant(void)
{
#if defined(__aarch64__)
	return true;
#else
	return false;
#endif
}
#endif

uint64_t clock_monotonic_ticks(void)
{
	return clock_system_ns(CLOCK_MONOTONIC);
}

enum clock_mode clock_choose(void)
{
	static _Atomic int chosen;
	int mode = atomic_load_explicit(&chosen, memory_order_relaxed);
	int saved_errno = errno;

	if (!mode) {
		mode = counter_is_invariant() ? CLOCK_TICKS_TSC : CLOCK_TICKS_MONOTONIC;
		atomic_store_explicit(&chosen, mode, memory_order_relaxed);
	}
	errno = saved_errno;
	return (enum clock_mode)mode;
}

/* The monotonic time lies between two readings of the counter; returns how far apart they are. */
static uint64_t read_once(struct clock_triple *triple)
{
	uint64_t before = clock_counter();
	uint64_t monotonic_ns = clock_system_ns(CLOCK_MONOTONIC);
	uint64_t after = clock_counter();

	triple->ticks = before + (after - before) / 2;
	triple->monotonic_ns = monotonic_ns;
	triple->real_ns = clock_system_ns(CLOCK_REALTIME);
	return after - before;
}

void clock_read_triple(struct clock_triple *triple, enum clock_mode mode)
{
	uint64_t tightest = UINT64_MAX;

	for (int i = 0; i < TRIPLE_TRIES; i++) {
		struct clock_triple next;
		uint64_t width = read_once(&next);

		if (width < tightest) {
			tightest = width;
			*triple = next;
		}
	}
	if (mode == CLOCK_TICKS_MONOTONIC)
		triple->ticks = triple->monotonic_ns;
}

/* All differences fit 63 bits: centuries in nanoseconds, decades at 5 GHz. */
static bool is_on_line(const struct clock_triple *start, const struct clock_triple *before,
		       const struct clock_triple *now)
{
	unsigned __int128 ticks = now->ticks - start->ticks;
	uint64_t rate_ticks = before->ticks - start->ticks;
	uint64_t rate_ns = before->monotonic_ns - start->monotonic_ns;
	uint64_t passed = now->monotonic_ns - start->monotonic_ns;
	uint64_t expected, apart;

	/* What is wrong with a short base is multiplied; such a base tells nothing. */
	if (rate_ns < passed / 8 || rate_ns < SLACK_NS || !rate_ticks)
		return true;
	expected = (uint64_t)(ticks * rate_ns / rate_ticks);
	apart = expected > passed ? expected - passed : passed - expected;
	return apart <= passed / RATE_PARTS + SLACK_NS * (passed / rate_ns + 1);
}

int clock_is_consistent(const struct clock_triple *start, const struct clock_triple *before,
			const struct clock_triple *now)
{
	if (now->ticks < before->ticks || before->ticks < start->ticks)
		return 0;
	if (now->monotonic_ns < before->monotonic_ns ||
	    before->monotonic_ns < start->monotonic_ns)
		return 0;
	return is_on_line(start, before, now);
}
