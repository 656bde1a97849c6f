/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/gpu_times.h"
#include "core/notice.h"
#include "core/option.h"
#include "intercept/cupti.h"
#include "intercept/gpu_record.h"
#include "intercept/real.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CALLBACK_IDS = 2048, FLUSH_MILLISECONDS = 500, WHY_BYTES = 512, WAIT_MILLISECONDS = 2000 };

_Atomic bool gpu_times_on;

static struct cupti cupti;
static void *handle; /* of our subscription */
static _Atomic pid_t owner; /* who subscribed: a child of fork has no thread of CUPTI's */

/*
 * Each begins once, in this order; some are left out.  No lock is held meanwhile:
 * CUPTI and whatever loads it take the loader's lock, and who holds that may be in
 * gpu_times_give_way().
 */
enum state { UNTRIED, LOADING, BEGINNING, RECORDING, ENDING, OVER };

static _Atomic int state;

static const char program_uses_it[] = "the program uses CUPTI itself";

static bool move(enum state from, enum state to)
{
	int expected = from;

	return atomic_compare_exchange_strong(&state, &expected, to);
}

/* Numbers that CUPTI has for the functions of api_with_times. */
static uint32_t callback_id[API_WITH_TIMES];
static uint32_t callback_ids;

static const int kinds[] = { CUPTI_MEMCPY, CUPTI_MEMCPY2,  CUPTI_MEMSET,
			     CUPTI_KERNEL, CUPTI_EXTERNAL, CUPTI_MANAGED };

enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/* Also before a child has made the call by which it is told from its parent. */
static bool are_ours(void)
{
	return gpu_times_are_on() && owner == getpid();
}

bool gpu_times_are_wanted(void)
{
	return !strcmp(option_text(OPTION_GPU_TIMES), "1");
}

/* ------------------------------------------------------------------- beginning */

/* A subscriber has a callback; ours is asked to be called for nothing. */
static void hear_nothing(void *data, int domain, uint32_t id, const void *call)
{
	(void)data;
	(void)domain;
	(void)id;
	(void)call;
}

static uint64_t monotonic_now(void)
{
	return clock_system_ns(CLOCK_MONOTONIC);
}

/* What CUPTI itself goes by on Linux. */
static uint64_t real_now(void)
{
	return clock_system_ns(CLOCK_REALTIME);
}

static void explain(int result, char *why, size_t why_bytes)
{
	const char *text = NULL;

	if (cupti.get_result_string)
		cupti.get_result_string(result, &text);
	snprintf(why, why_bytes, "CUPTI refuses (%d%s%.100s)", result, text ? ", " : "",
		 text ? text : "");
}

static bool subscribe(char *why, size_t why_bytes)
{
	char holder[CUPTI_HOLDER_BYTES] = "";
	struct cupti_subscriber subscriber = {
		.bytes = sizeof(subscriber),
		.name = "custody",
		.holder = holder,
		.holder_bytes = sizeof(holder),
	};
	int result = cupti.subscribe_v2 ?
			     cupti.subscribe_v2(&handle, hear_nothing, NULL, &subscriber) :
			     cupti.subscribe(&handle, hear_nothing, NULL);

	holder[sizeof(holder) - 1] = '\0';
	if (result == CUPTI_TAKEN)
		snprintf(why, why_bytes, "CUPTI is taken by %s",
			 *holder ? holder : "another tool");
	else
		explain(result, why, why_bytes);
	return result == CUPTI_GOOD;
}

static bool has_times(const char *name)
{
	for (int i = 0; i < API_WITH_TIMES; i++)
		if (!strcmp(name, api_symbol[api_with_times[i]]))
			return true;
	return false;
}

static void find_callback_ids(void)
{
	callback_ids = 0;
	for (uint32_t id = 1; id < CALLBACK_IDS && callback_ids < API_WITH_TIMES; id++) {
		const char *name = NULL;

		if (cupti.get_callback_name(CUPTI_DOMAIN_DRIVER, id, &name) == CUPTI_GOOD &&
		    name && has_times(name))
			callback_id[callback_ids++] = id;
	}
}

/* Keys come with the records of calls, so those are wanted: of few functions, else of all. */
static void enable_calls(void)
{
	callback_ids = 0;
	if (cupti.activity_enable_driver_api && cupti.get_callback_name)
		find_callback_ids();
	for (uint32_t i = 0; i < callback_ids; i++)
		cupti.activity_enable_driver_api(callback_id[i], 1);
	if (!callback_ids)
		cupti.activity_enable(CUPTI_DRIVER);
}

/* Not every machine counts migrations: what is refused is missing, no more. */
static void configure_managed(void)
{
	static const uint32_t counter[] = { CUPTI_MANAGED_H2D, CUPTI_MANAGED_D2H,
					    CUPTI_MANAGED_D2D };
	struct cupti_managed_setting setting[sizeof(counter) / sizeof(*counter)];

	for (size_t i = 0; i < sizeof(counter) / sizeof(*counter); i++)
		setting[i] = (struct cupti_managed_setting){ .scope = 2,
							     .counter = counter[i],
							     .enable = 1 };
	if (!cupti.activity_configure_managed)
		return;
	for (size_t i = 0; i < sizeof(counter) / sizeof(*counter); i++)
		cupti.activity_configure_managed(&setting[i], 1);
}

/* The clock comes first: it holds for what is enabled behind it. */
static bool enable(char *why, size_t why_bytes)
{
	int result = CUPTI_GOOD;

	if (cupti.activity_register_clock)
		cupti.activity_register_clock(monotonic_now);
	result = cupti.activity_register_callbacks(gpu_record_request, gpu_record_complete);
	configure_managed();
	for (int i = 0; i < KINDS; i++) {
		int answer = cupti.activity_enable(kinds[i]);

		if (answer != CUPTI_GOOD && kinds[i] != CUPTI_MANAGED)
			result = answer;
	}
	enable_calls();
	if (cupti.activity_flush_period)
		cupti.activity_flush_period(FLUSH_MILLISECONDS);
	explain(result, why, why_bytes);
	return result == CUPTI_GOOD;
}

static void disable(void)
{
	for (int i = 0; i < KINDS; i++)
		cupti.activity_disable(kinds[i]);
	for (uint32_t i = 0; i < callback_ids; i++)
		cupti.activity_enable_driver_api(callback_id[i], 0);
	if (!callback_ids)
		cupti.activity_disable(CUPTI_DRIVER);
	if (cupti.activity_flush_period)
		cupti.activity_flush_period(0);
}

/* All that CUPTI has of ours comes back, so that who comes next is not given it. */
static void leave(void)
{
	disable();
	cupti.activity_flush_all(CUPTI_FLUSH_FORCED);
	gpu_record_finish();
	if (cupti.activity_register_clock)
		cupti.activity_register_clock(real_now);
	cupti.unsubscribe(handle);
}

/* Nothing of CUPTI's is called yet: the program may still be first. */
static bool load(char *why, size_t why_bytes)
{
	int version = 0;

	if (REAL(driver, cuDriverGetVersion)(&version) != CUDA_SUCCESS ||
	    !cupti_load(&cupti, version, why, why_bytes))
		return false;
	if (move(LOADING, BEGINNING))
		return true;
	snprintf(why, why_bytes, "%s", program_uses_it);
	return false;
}

static bool take_cupti(char *why, size_t why_bytes)
{
	if (!gpu_record_start(&cupti)) {
		snprintf(why, why_bytes, "there is no memory for them");
		return false;
	}
	if (!subscribe(why, why_bytes))
		return false;
	if (enable(why, why_bytes))
		return true;
	leave();
	return false;
}

/* Registered behind cuInit, so it runs ahead of the driver's own end. */
static void finish(void)
{
	if (!are_ours())
		return;
	cupti.activity_flush_all(CUPTI_FLUSH_FORCED);
	gpu_record_finish();
}

/* A process that is not recorded needs no times. */
void gpu_times_start(struct call *call)
{
	char why[WHY_BYTES] = "the driver does not tell its version";
	int saved_errno = errno;

	if (!gpu_times_are_wanted() || !call->self->chunk || !move(UNTRIED, LOADING))
		return;
	owner = getpid();
	if (load(why, sizeof(why)) && take_cupti(why, sizeof(why))) {
		gpu_record_say("");
		atexit(finish);
		atomic_store(&gpu_times_on, true);
		atomic_store(&state, RECORDING);
	} else {
		atomic_store(&state, OVER);
		gpu_record_say(why);
		notice_once("GPU times are not recorded: %s", why);
	}
	errno = saved_errno;
}

/* ------------------------------------------------------------------- meanwhile */

void gpu_times_push(const struct call *call)
{
	cupti.activity_push_external(CUPTI_EXTERNAL_CUSTOM2,
				     call_key(call->self->thread, call->start));
}

void gpu_times_pop(void)
{
	uint64_t last;

	cupti.activity_pop_external(CUPTI_EXTERNAL_CUSTOM2, &last);
}

void gpu_times_flush(void)
{
	int saved_errno = errno;

	if (are_ours())
		cupti.activity_flush_all(0);
	errno = saved_errno;
}

/* ------------------------------------------------------------------- the end */

/* While another thread takes CUPTI or leaves it; not for ever, as that one may need this one. */
static void wait_for_change(void)
{
	const struct timespec millisecond = { .tv_nsec = 1000000 };

	for (int i = 0; i < WAIT_MILLISECONDS; i++) {
		int now = atomic_load(&state);

		if (now != BEGINNING && now != ENDING)
			return;
		nanosleep(&millisecond, NULL);
	}
}

void gpu_times_give_way(void)
{
	int saved_errno = errno;

	if (owner != getpid() || move(LOADING, OVER))
		return;
	wait_for_change();
	if (move(RECORDING, ENDING)) {
		atomic_store(&gpu_times_on, false);
		leave();
		gpu_record_say(program_uses_it);
		notice_once("GPU times end here: %s", program_uses_it);
		atomic_store(&state, OVER);
	}
	errno = saved_errno;
}

void gpu_times_reset(void)
{
	atomic_store(&gpu_times_on, false);
	if (atomic_load(&state) != UNTRIED)
		atomic_store(&state, OVER);
	gpu_record_reset();
}
