/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/room.h"
#include "intercept/fail_nth.h"
#include "intercept/limit.h"

_Atomic bool room_is_scarce;

void room_start(void)
{
	bool is_scarce = fail_nth_start();

	is_scarce = limit_start() || is_scarce;
	atomic_store_explicit(&room_is_scarce, is_scarce, memory_order_relaxed);
}

void room_reset(void)
{
	limit_reset();
	fail_nth_reset();
}
