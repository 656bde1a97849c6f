/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/fail_nth.h"
#include "core/option.h"

#include <stdatomic.h>
#include <stdint.h>

static _Atomic uint64_t chosen; /* 0: none */
static _Atomic uint64_t counted;

bool fail_nth_start(void)
{
	uint64_t number = option_number(OPTION_FAIL_NTH);

	atomic_store_explicit(&chosen, number, memory_order_relaxed);
	return number;
}

bool fail_nth_is_due(void)
{
	uint64_t number = atomic_load_explicit(&chosen, memory_order_relaxed);

	return number &&
	       atomic_fetch_add_explicit(&counted, 1, memory_order_relaxed) + 1 == number;
}

void fail_nth_reset(void)
{
	atomic_store_explicit(&counted, 0, memory_order_relaxed);
}
