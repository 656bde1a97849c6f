/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sixteen threads free, collect, flush and run out of memory in two contexts,
 * while captures begin and end and one of the contexts may be dying.  Nothing
 * is released twice, too early, during a capture or in a context that may be
 * dying, and in the end nothing is left.
 */
#include "deferq_suite.h"

#include "core/deferq_queue.h"
#include "core/gate.h"
#include "core/pending.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { THREADS = 16, ROUNDS = 2000, THINGS_MOST = THREADS * ROUNDS };

/* Frees before captures and deaths set in, which may refuse all that is left. */
enum { UNDISTURBED = THINGS_MOST / 10 };

enum policy { POLICY_NOWAIT, POLICY_WAIT, POLICY_OLD_DRIVER, POLICIES };

/* What was put off, by any thread. */
static _Atomic uint64_t queued[THINGS_MOST];
static _Atomic uint32_t queued_count, spoilt_count, remade_count;
static _Atomic bool is_over;

static uint32_t draw(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* As a program would: what is not put off goes to the driver, which is none of our business. */
static void free_by_driver(uint64_t handle)
{
	struct block block;

	if (model_kind(handle) >= DEFERQ_MODULE)
		return;
	if (!tracker_take(model_kind(handle) >= DEFERQ_ARRAY ? SPACE_ARRAY : SPACE_ADDRESS, handle,
			  &block))
		model_complain("a block that was not put off is not there any more");
}

/*
 * True: it was put off.  What was freed at once, since a capture has begun
 * meanwhile, is nobody's any more.
 */
static bool free_or_forward(uint64_t handle)
{
	enum deferq_answer answer = program_free(handle);

	if (answer == DEFERQ_REFUSED || answer == DEFERQ_FAILED)
		free_by_driver(handle);
	return answer == DEFERQ_QUEUED;
}

static void free_something(uint32_t context, uint32_t *seed)
{
	enum deferq_kind kind = draw(seed) % 3 ? DEFERQ_MEMORY :
						 (enum deferq_kind)(draw(seed) % DEFERQ_KINDS);
	uint64_t handle = program_make(context, kind, draw(seed) % 40);

	if (!free_or_forward(handle))
		return;
	queued[atomic_fetch_add(&queued_count, 1)] = handle;
}

/* The driver hands out an address again as soon as its bytes are back. */
static void make_again(uint32_t *draws)
{
	uint32_t count = atomic_load(&queued_count);
	uint64_t handle = count ? queued[draw(draws) % count] : 0;

	if (!handle || !program_remake(handle))
		return;
	atomic_fetch_add(&remade_count, 1);
	free_or_forward(handle);
}

static void free_something_spoilt(uint32_t context)
{
	uint64_t handle = program_make(context, DEFERQ_MEMORY, 1);

	model_spoil(handle, CUDA_ERROR_NOT_PERMITTED);
	if (!free_or_forward(handle))
		return;
	atomic_fetch_add(&spoilt_count, context == 1);
	queued[atomic_fetch_add(&queued_count, 1)] = handle;
}

static void look_around(uint32_t context)
{
	struct deferq_statistics statistics;
	struct block block;

	deferq_statistics(deferq_find(context), &statistics);
	if (statistics.bytes[QUEUE_MEMORY] < statistics.host_bytes)
		model_complain("more host bytes than bytes");
	if (deferq_page_bytes(-1))
		model_complain("small blocks have pages");
	pending_find(SPACE_ADDRESS, queued[0], &block);
	deferq_holds(deferq_find(context), DEFERQ_MODULE, queued[0]);
	deferq_has_pending(0);
}

static void do_something(uint32_t context, uint32_t *seed)
{
	switch (draw(seed) % 24) {
	case 0:
		program_collect(context);
		break;
	case 1:
		program_flush(context, false);
		break;
	case 2:
		program_flush(context, draw(seed) % 8 == 0);
		break;
	case 3:
		program_synchronize(context);
		break;
	case 4:
		program_out_of_memory(draw(seed) % 8 ? 1 : 0);
		break;
	case 5:
		deferq_suspend(deferq_find(context));
		free_something(context, seed);
		program_resume(context);
		break;
	case 6:
		look_around(context);
		break;
	case 7:
		if (draw(seed) % 8 == 0)
			free_something_spoilt(context);
		break;
	case 8:
		for (int i = 0; i < 8; i++)
			make_again(seed);
		break;
	case 9:
		model_finish(context);
		break;
	default:
		model_submit(context);
		free_something(context, seed);
	}
}

static void *run(void *argument)
{
	uint32_t seed = (uint32_t)(uintptr_t)argument * 2654435761u + 1;

	model_make_current(1 + seed % 3 % 2);
	for (int i = 0; i < ROUNDS; i++)
		do_something(1 + draw(&seed) % 2, &seed);
	program_look();
	return NULL;
}

/* Yielding lets all the others run once, who are refused then: mostly the time is short. */
static void stay_a_little(int round)
{
	if (round % 8 == 0)
		sched_yield();
}

static void nap(void)
{
	struct timespec moment = { .tv_nsec = 500000 };

	nanosleep(&moment, NULL);
}

static void *capture(void *argument)
{
	for (int round = 0; !atomic_load(&is_over); round++) {
		gate_shut();
		model_capture(true);
		stay_a_little(round);
		model_capture(false);
		gate_open();
		nap();
	}
	return argument;
}

static void *threaten(void *argument)
{
	struct deferq *queue = deferq_find(2);

	for (int round = 0; !atomic_load(&is_over); round++) {
		deferq_dying(queue, true);
		model_forbid(2, true);
		stay_a_little(round);
		model_forbid(2, false);
		deferq_revive(queue);
		nap();
	}
	return argument;
}

static void run_all(void)
{
	pthread_t threads[THREADS], capturer, killer;

	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run, (void *)i), 0);
	while (atomic_load(&queued_count) < UNDISTURBED)
		sched_yield();
	ck_assert_int_eq(pthread_create(&capturer, NULL, capture, NULL), 0);
	ck_assert_int_eq(pthread_create(&killer, NULL, threaten, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&is_over, true);
	pthread_join(capturer, NULL);
	pthread_join(killer, NULL);
}

/* A flush ends with each failure. */
static void flush_all(uint32_t context)
{
	for (int i = 0; i < THINGS_MOST && atomic_load(&deferq_find(context)->pending); i++)
		program_flush(context, true);
}

static void check_statistics(void)
{
	struct deferq_statistics statistics;

	deferq_statistics(deferq_find(1), &statistics);
	ck_assert_uint_eq(statistics.count[QUEUE_MEMORY] + statistics.count[QUEUE_OBJECTS], 0);
	ck_assert_uint_eq(statistics.bytes[QUEUE_MEMORY] + statistics.bytes[QUEUE_OBJECTS], 0);
	ck_assert_uint_eq(statistics.host_bytes, 0);
	ck_assert_uint_eq(statistics.issued + statistics.issued_bytes, 0);
	ck_assert_uint_gt(statistics.queued, 0);
	ck_assert_uint_eq(statistics.released + statistics.failed, statistics.queued);
	ck_assert_uint_eq(statistics.failed, spoilt_count);
}

/* Whatever was put off in context 1 was released and told, as often as it was. */
static void check_things(void)
{
	for (uint32_t i = 0; i < queued_count; i++) {
		uint64_t handle = queued[i];

		ck_assert_uint_le(program_closes(handle), program_queued(handle));
		ck_assert_uint_le(model_releases(handle), program_queued(handle));
		if (model_owner(handle) != 1)
			continue;
		ck_assert_uint_eq(program_closes(handle), program_queued(handle));
		ck_assert_uint_eq(model_releases(handle), program_queued(handle));
	}
}

START_TEST(threads_lose_nothing_and_release_nothing_twice)
{
	program_settings.does_wait = _i == POLICY_WAIT;
	if (_i == POLICY_OLD_DRIVER)
		model_driver.ctx_record_event = NULL;
	program_queue(1);
	program_queue(2);
	run_all();

	flush_all(1);
	deferq_dying(deferq_find(2), true);
	model_kill(2);
	deferq_drop(deferq_find(2));
	check_things();
	check_statistics();
	ck_assert(!deferq_has_pending(-1));
	ck_assert_uint_eq(pending_total, 0);
	ck_assert_uint_eq(deferq_page_bytes(-1), 0);
	ck_assert_uint_eq(tracker_count(), 0);
	ck_assert_uint_ge(queued_count, UNDISTURBED);
	ck_assert_uint_gt(remade_count, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("deferq_threads");
	TCase *tests = deferq_suite_case(suite, "threads", program_begin, deferq_suite_end);

	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, threads_lose_nothing_and_release_nothing_twice, 0, POLICIES);
	return deferq_suite_run(suite);
}
