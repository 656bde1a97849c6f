/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lock.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

enum { SPINS = 40, PAUSES_MOST = 32, YIELDS = 50, SLEEP_NS = 50000 };

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* The longer the wait, the rarer the look: the holder needs the line to give the lock back. */
static void spin(unsigned int round)
{
	unsigned int pauses = round < 10 ? 1u << round / 2 : PAUSES_MOST;

	while (pauses-- > 0)
		relax();
}

/* Sleeping is for holders of a lower real-time priority: yielding never runs them. */
static void pause_round(unsigned int round)
{
	struct timespec nap = { .tv_nsec = SLEEP_NS };

	if (round < SPINS)
		spin(round);
	else if (round < SPINS + YIELDS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}

void lock_wait(struct lock *lock)
{
	int saved_errno = errno;

	for (unsigned int round = 0;; round++) {
		if (!atomic_load_explicit(&lock->word, memory_order_relaxed) && lock_try(lock))
			break;
		pause_round(round);
	}
	errno = saved_errno;
}
