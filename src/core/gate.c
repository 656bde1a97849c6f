/* SPDX-License-Identifier: Apache-2.0 */
#include "core/gate.h"

#include <sched.h>

_Atomic uint32_t gate_captures;
_Atomic uint32_t gate_in_flight;

enum { SPINS = 200 };

/* Pairs with gate_enter(): of the two stores at least one is seen by the other side. */
void gate_shut(void)
{
	atomic_fetch_add_explicit(&gate_captures, 1, memory_order_seq_cst);
	for (int i = 0; atomic_load_explicit(&gate_in_flight, memory_order_seq_cst); i++)
		if (i > SPINS)
			sched_yield();
}

void gate_open(void)
{
	atomic_fetch_sub_explicit(&gate_captures, 1, memory_order_release);
}

/* Whoever else begins a capture waits for this thread, which looks after it is counted. */
bool gate_stay(void)
{
	atomic_fetch_add_explicit(&gate_in_flight, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&gate_captures, memory_order_seq_cst) == 1)
		return true;
	gate_leave();
	return false;
}

void gate_reset(void)
{
	atomic_store_explicit(&gate_captures, 0, memory_order_relaxed);
	atomic_store_explicit(&gate_in_flight, 0, memory_order_relaxed);
}
