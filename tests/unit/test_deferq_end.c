/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a queue ends: with a sticky error, with its context, by exclusion, in a
 * child of fork.
 */
#include "deferq_suite.h"

#include "core/deferq_queue.h"
#include "core/gate.h"
#include "core/pending.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static void begin(void)
{
	program_begin();
	model_watch(program_queue(1));
	model_watch(program_queue(2));
}

/* Where threads are at it, what one sees of gate and locks is not its own. */
static void begin_threaded(void)
{
	program_begin();
	program_queue(1);
	program_queue(2);
}

/* ---------------------------------------------------------------- sticky errors */

static const CUresult sticky[] = {
	CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_ECC_UNCORRECTABLE,
	CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_CONTEXT_IS_DESTROYED,
	CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
	CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC,
	CUDA_ERROR_LAUNCH_FAILED,
};

enum { STICKY = sizeof(sticky) / sizeof(*sticky) };

/* Everything was cancelled with the error, and the queue takes nothing more. */
static void check_closed(int count, CUresult result)
{
	const struct program_told *told = program_look();
	struct deferq_statistics statistics;
	uint64_t calls;

	ck_assert_uint_eq(told->count, count);
	for (int i = 0; i < count; i++) {
		ck_assert_int_eq(told->items[i].cause, RELEASE_FAILED);
		ck_assert_uint_eq(told->items[i].result, result);
		ck_assert_uint_eq(program_closes(told->items[i].handle), 1);
	}
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert_uint_eq(program_issued(1), 0);
	deferq_statistics(program_queue(1), &statistics);
	ck_assert_uint_eq(statistics.host_bytes, 0);
	ck_assert_uint_eq(pending_total, 0);
	ck_assert_uint_eq(deferq_page_bytes(0), 0);
	ck_assert(!deferq_has_pending(0));
	calls = model_all_calls();
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_REFUSED);
	program_flush(1, true);
	ck_assert(!program_out_of_memory(0));
	ck_assert_uint_eq(model_all_calls(), calls);
}

START_TEST(a_sticky_error_of_a_release_cancels_all)
{
	uint64_t first = program_free_new(1, DEFERQ_MANAGED, 1, 4);

	program_free_new(1, DEFERQ_HOST, 1, 2);
	program_free_new(1, DEFERQ_MODULE, 1, 4);
	model_spoil(first, sticky[_i]);
	program_flush(1, false);
	check_closed(10, sticky[_i]);
}
END_TEST

START_TEST(a_sticky_error_of_the_context_cancels_all)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	ck_assert_uint_eq(program_issued(1), 11);
	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	program_free_new(1, DEFERQ_EVENT, 0, 3);
	model_poison(1, sticky[_i]);
	program_collect(1);
	check_closed(17, sticky[_i]);
}
END_TEST

/* What was freed during a capture has no event that could tell. */
START_TEST(a_sticky_error_is_found_where_no_item_has_an_event)
{
	gate_shut();
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	gate_open();
	model_poison(1, sticky[_i]);
	program_collect(1);
	check_closed(3, sticky[_i]);
}
END_TEST

START_TEST(a_sticky_error_that_an_event_tells_cancels_all)
{
	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 4);
	program_free_new(1, DEFERQ_HOST, 1, 1);
	model_fail(MODEL_EVENT_QUERY, 1, sticky[_i]);
	program_collect(1);
	check_closed(5, sticky[_i]);
}
END_TEST

START_TEST(a_sticky_error_of_a_wait_cancels_all)
{
	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 4);
	model_fail(MODEL_EVENT_SYNCHRONIZE, 1, sticky[_i]);
	program_flush(1, true);
	check_closed(4, sticky[_i]);
}
END_TEST

START_TEST(a_sticky_error_when_bytes_are_taken_back_cancels_all)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 2);
	model_fail(MODEL_STREAM_SYNCHRONIZE, 1, sticky[_i]);
	program_collect(1);
	check_closed(13, sticky[_i]);
}
END_TEST

START_TEST(bytes_that_cannot_be_taken_back_now_are_asked_for_again)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 1, 11);

	model_fail(MODEL_STREAM_SYNCHRONIZE, 1, CUDA_ERROR_NOT_PERMITTED);
	program_collect(1);
	ck_assert_uint_eq(program_issued(1), 11);
	program_collect(1);
	ck_assert_uint_eq(program_issued(1), 0);
	ck_assert(model_is_back(first));
}
END_TEST

START_TEST(one_context_errs_and_the_other_goes_on)
{
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	program_free_new(2, DEFERQ_MEMORY, 1, 3);
	model_poison(1, CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert(program_out_of_memory(0));
	ck_assert(!deferq_has_pending(0));
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_REFUSED);
	ck_assert_int_eq(program_free(program_make(2, DEFERQ_MEMORY, 1)), DEFERQ_QUEUED);
}
END_TEST

/* ---------------------------------------------------------------- contexts die */

START_TEST(nothing_happens_in_a_context_that_may_be_dying)
{
	uint64_t first;

	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	first = program_free_new(1, DEFERQ_MEMORY, 1, 5);
	deferq_dying(program_queue(1), true);
	model_forbid(1, true);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_REFUSED);
	program_collect(1);
	program_flush(1, true);
	program_synchronize(1);
	program_out_of_memory(0);
	deferq_suspend(program_queue(1));
	ck_assert(program_resume(1));
	ck_assert_uint_eq(program_waiting(1), 5);
	model_forbid(1, false);
	deferq_revive(program_queue(1));
	program_flush(1, true);
	ck_assert_uint_eq(program_closes(first), 1);
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_QUEUED);
}
END_TEST

START_TEST(two_calls_may_end_a_context_and_neither_does)
{
	deferq_dying(program_queue(1), true);
	deferq_dying(program_queue(1), true);
	deferq_revive(program_queue(1));
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_REFUSED);
	deferq_revive(program_queue(1));
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_QUEUED);
}
END_TEST

START_TEST(a_dead_context_takes_its_items_along_without_a_call)
{
	struct deferq_statistics statistics;
	uint64_t first, calls;

	program_begin();
	program_settings.max_ratio = 1e9;
	model_watch(program_queue(1));
	model_watch(program_queue(2));
	first = program_free_new(1, DEFERQ_MEMORY, 4 << 20, 11);
	program_free_new(1, DEFERQ_HOST, 1, 3);
	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 3 << 20, 9);
	ck_assert_uint_eq(program_issued(1), 11);
	ck_assert_uint_eq(deferq_page_bytes(0), (11 + 9) * UINT64_C(4) << 20);
	program_free_new(1, DEFERQ_MODULE, 1, 3);
	program_free_new(2, DEFERQ_MEMORY, 1, 3);
	deferq_dying(program_queue(1), true);
	model_kill(1);
	calls = model_all_calls();
	deferq_drop(program_queue(1));
	deferq_statistics(program_queue(1), &statistics);
	ck_assert_uint_eq(statistics.count[QUEUE_MEMORY] + statistics.count[QUEUE_OBJECTS], 0);
	ck_assert_uint_eq(statistics.bytes[QUEUE_MEMORY] + statistics.bytes[QUEUE_OBJECTS], 0);
	ck_assert_uint_eq(statistics.host_bytes, 0);
	ck_assert_uint_eq(statistics.issued + statistics.issued_bytes, 0);
	ck_assert_uint_eq(deferq_page_bytes(0), 0);
	ck_assert_uint_eq(pending_total, 3);
	ck_assert_uint_eq(tracker_count(), 3);
	ck_assert(deferq_has_pending(0));
	ck_assert_uint_eq(model_all_calls(), calls);
	ck_assert_uint_eq(program_closes(first), 0);
	ck_assert_uint_eq(program_look()->count, 0);

	program_flush(2, true);
	ck_assert(!deferq_has_pending(0));
	ck_assert_uint_eq(pending_total, 0);
}
END_TEST

START_TEST(a_dead_queue_takes_nothing_and_does_nothing)
{
	uint64_t calls;

	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	deferq_suspend(program_queue(1));
	deferq_dying(program_queue(1), true);
	model_kill(1);
	deferq_drop(program_queue(1));
	calls = model_all_calls();
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_REFUSED);
	ck_assert(program_resume(1));
	program_collect(1);
	program_flush(1, true);
	ck_assert(!program_out_of_memory(-1));
	ck_assert(!deferq_holds(program_queue(1), DEFERQ_MODULE, 1));
	ck_assert_uint_eq(model_all_calls(), calls);
}
END_TEST

/* The driver gives a new context the handle of a dead one: it is another by number. */
START_TEST(the_next_context_of_the_same_handle_has_a_queue_of_its_own)
{
	struct deferq *old = program_queue(1), *next;

	program_free_new(1, DEFERQ_MEMORY, 1, 5);
	deferq_dying(old, true);
	deferq_drop(old);
	next = deferq_open(model_context(1), 9, 0, DEVICE_BYTES);
	ck_assert_ptr_ne(next, old);
	ck_assert_ptr_eq(deferq_find(9), next);
	ck_assert_ptr_eq(deferq_open(model_context(1), 9, 0, DEVICE_BYTES), next);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

START_TEST(there_is_no_queue_for_a_context_without_a_number)
{
	ck_assert_ptr_null(deferq_open(model_context(1), 0, 0, DEVICE_BYTES));
	ck_assert_ptr_null(deferq_open(model_context(1), UINT32_MAX, 0, DEVICE_BYTES));
	ck_assert_ptr_null(deferq_find(0));
	ck_assert_ptr_null(deferq_find(3));
	ck_assert_ptr_null(deferq_find(UINT32_MAX));
}
END_TEST

static _Atomic bool is_waiting, may_go_on, is_dying, has_died;

static void stop_in_wait(void)
{
	atomic_store(&is_waiting, true);
	while (!atomic_load(&may_go_on))
		sched_yield();
}

static void *flush_and_wait(void *argument)
{
	(void)argument;
	model_make_current(1);
	program_flush(1, true);
	return NULL;
}

static void *die(void *argument)
{
	(void)argument;
	atomic_store(&is_dying, true);
	deferq_dying(program_queue(1), true);
	atomic_store(&has_died, true);
	return NULL;
}

static void start(pthread_t *thread, void *(*function)(void *))
{
	ck_assert_int_eq(pthread_create(thread, NULL, function, NULL), 0);
}

START_TEST(a_context_does_not_die_while_a_pass_is_in_it)
{
	pthread_t flusher, killer;

	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, stop_in_wait);
	start(&flusher, flush_and_wait);
	while (!atomic_load(&is_waiting))
		sched_yield();
	start(&killer, die);
	while (!atomic_load(&is_dying))
		sched_yield();
	usleep(20000);
	ck_assert(!atomic_load(&has_died));
	atomic_store(&may_go_on, true);
	pthread_join(killer, NULL);
	pthread_join(flusher, NULL);
	ck_assert(atomic_load(&has_died));
	model_forbid(1, true);
	deferq_drop(program_queue(1));
	ck_assert(!deferq_has_pending(0));
	ck_assert_uint_eq(pending_total, 0);
}
END_TEST

/* A pass is at it, so the second does nothing; it does not wait either. */
START_TEST(a_pass_that_waits_for_nothing_leaves_the_queue_to_the_one_that_waits)
{
	pthread_t flusher;

	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, stop_in_wait);
	start(&flusher, flush_and_wait);
	while (!atomic_load(&is_waiting))
		sched_yield();
	program_free_new(1, DEFERQ_MEMORY, 1, 15);
	program_collect(1);
	program_flush(1, false);
	ck_assert_uint_eq(program_waiting(1), 18);
	atomic_store(&may_go_on, true);
	pthread_join(flusher, NULL);
	program_flush(1, true);
	ck_assert(!deferq_has_pending(0));
}
END_TEST

static void *run_out_of_memory(void *argument)
{
	model_make_current(1);
	*(bool *)argument = program_out_of_memory(0);
	return NULL;
}

/* The first one has taken all; the second's allocation is worth another attempt all the same. */
START_TEST(two_threads_out_of_memory_are_both_told_to_try_again)
{
	bool is_worth_it[2] = { false, false };
	pthread_t threads[2];

	model_submit(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 3);
	model_interrupt(MODEL_EVENT_SYNCHRONIZE, stop_in_wait);
	pthread_create(&threads[0], NULL, run_out_of_memory, &is_worth_it[0]);
	while (!atomic_load(&is_waiting))
		sched_yield();
	pthread_create(&threads[1], NULL, run_out_of_memory, &is_worth_it[1]);
	while (atomic_load(&program_queue(1)->users) < 2)
		sched_yield();
	atomic_store(&may_go_on, true);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	ck_assert(is_worth_it[0] && is_worth_it[1]);
}
END_TEST

enum { MOST_FREES = 10 + DEFERQ_CROWD };

static _Atomic int freed;

static void *free_many(void *argument)
{
	model_make_current(1);
	for (int i = 0; i < MOST_FREES + 10; i++) {
		program_free_new(1, DEFERQ_MEMORY, 0, 1);
		atomic_fetch_add(&freed, 1);
	}
	return argument;
}

/* One thread releases, the others free faster: those that wait anyway wait for it too. */
START_TEST(frees_that_wait_do_not_outrun_the_pass)
{
	pthread_t thread;

	program_begin();
	program_settings.does_wait = true;
	program_queue(1);
	program_free_new(1, DEFERQ_MEMORY, 0, 1); /* proves that it need not be the driver's */
	program_flush(1, true);
	lock_take(&program_queue(1)->claim);
	start(&thread, free_many);
	while (atomic_load(&freed) < MOST_FREES)
		sched_yield();
	usleep(20000);
	ck_assert_int_eq(atomic_load(&freed), MOST_FREES);
	lock_give(&program_queue(1)->claim);
	pthread_join(thread, NULL);
	ck_assert_int_eq(atomic_load(&freed), MOST_FREES + 10);
	ck_assert_uint_le(program_waiting(1), 10);
}
END_TEST

START_TEST(frees_that_do_not_wait_leave_the_queue_to_the_pass)
{
	pthread_t thread;

	lock_take(&program_queue(1)->claim);
	start(&thread, free_many);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(program_waiting(1), MOST_FREES + 10);
	lock_give(&program_queue(1)->claim);
	program_collect(1);
}
END_TEST

/* ---------------------------------------------------------------- exclusion, fork */

START_TEST(an_excluded_queue_takes_nothing_and_releases_what_it_has)
{
	uint64_t first = program_free_new(1, DEFERQ_MEMORY, 1, 3);

	deferq_exclude(program_queue(1));
	ck_assert_int_eq(program_free(program_make(1, DEFERQ_MEMORY, 1)), DEFERQ_REFUSED);
	ck_assert_uint_eq(program_waiting(1), 3);
	program_collect(1);
	ck_assert_uint_eq(program_waiting(1), 0);
	ck_assert(model_is_back(first));
}
END_TEST

START_TEST(after_a_reset_all_is_forgotten_and_a_new_queue_works)
{
	uint64_t calls;

	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	program_free_new(1, DEFERQ_MODULE, 1, 5);
	calls = model_all_calls();
	deferq_reset();
	pending_reset();
	tracker_reset();
	ck_assert_uint_eq(model_all_calls(), calls);
	ck_assert_ptr_null(deferq_find(1));
	ck_assert(!deferq_has_pending(-1));
	ck_assert_uint_eq(pending_total, 0);
	program_begin();
	program_queue(1);
	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	ck_assert_uint_eq(program_issued(1), 11);
	program_collect(1);
}
END_TEST

/* The thread that held the claim, the gate and a lock does not exist in the child. */
START_TEST(a_child_of_fork_has_queues_of_its_own)
{
	int status = -1;
	pid_t child;

	program_free_new(1, DEFERQ_MEMORY, 1, 11);
	program_free_new(1, DEFERQ_MEMORY, 1, 5);
	lock_take(&program_queue(1)->lock);
	lock_take(&program_queue(1)->claim);
	ck_assert(gate_enter());
	child = fork();
	if (!child) {
		begin_threaded();
		program_free_new(1, DEFERQ_MEMORY, 1, 11);
		program_collect(1);
		gate_shut();
		gate_open();
		_exit(deferq_has_pending(-1) || model_complaint() || program_look()->count != 11);
	}
	gate_leave();
	lock_give(&program_queue(1)->claim);
	lock_give(&program_queue(1)->lock);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(program_waiting(1), 5);
	program_flush(1, true);
	ck_assert(!deferq_has_pending(-1));
}
END_TEST

static void add_errors(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "sticky errors", begin, deferq_suite_end);

	tcase_add_loop_test(tests, a_sticky_error_of_a_release_cancels_all, 0, STICKY);
	tcase_add_loop_test(tests, a_sticky_error_of_the_context_cancels_all, 0, STICKY);
	tcase_add_loop_test(tests, a_sticky_error_is_found_where_no_item_has_an_event, 0, STICKY);
	tcase_add_loop_test(tests, a_sticky_error_that_an_event_tells_cancels_all, 0, STICKY);
	tcase_add_loop_test(tests, a_sticky_error_of_a_wait_cancels_all, 0, STICKY);
	tcase_add_loop_test(tests, a_sticky_error_when_bytes_are_taken_back_cancels_all, 0, STICKY);
	tcase_add_test(tests, bytes_that_cannot_be_taken_back_now_are_asked_for_again);
	tcase_add_test(tests, one_context_errs_and_the_other_goes_on);
}

static void add_deaths(Suite *suite)
{
	TCase *tests = deferq_suite_case(suite, "contexts die", begin, deferq_suite_end);

	tcase_add_test(tests, nothing_happens_in_a_context_that_may_be_dying);
	tcase_add_test(tests, two_calls_may_end_a_context_and_neither_does);
	tcase_add_test(tests, a_dead_context_takes_its_items_along_without_a_call);
	tcase_add_test(tests, a_dead_queue_takes_nothing_and_does_nothing);
	tcase_add_test(tests, the_next_context_of_the_same_handle_has_a_queue_of_its_own);
	tcase_add_test(tests, there_is_no_queue_for_a_context_without_a_number);
	tests = deferq_suite_case(suite, "other threads", begin_threaded, deferq_suite_end);
	tcase_add_test(tests, a_context_does_not_die_while_a_pass_is_in_it);
	tcase_add_test(tests, a_pass_that_waits_for_nothing_leaves_the_queue_to_the_one_that_waits);
	tcase_add_test(tests, frees_that_wait_do_not_outrun_the_pass);
	tcase_add_test(tests, frees_that_do_not_wait_leave_the_queue_to_the_pass);
	tcase_add_test(tests, two_threads_out_of_memory_are_both_told_to_try_again);
}

static void add_rest(Suite *suite)
{
	TCase *tests =
		deferq_suite_case(suite, "exclusion and fork", begin_threaded, deferq_suite_end);

	tcase_add_test(tests, an_excluded_queue_takes_nothing_and_releases_what_it_has);
	tcase_add_test(tests, after_a_reset_all_is_forgotten_and_a_new_queue_works);
	tcase_add_test(tests, a_child_of_fork_has_queues_of_its_own);
}

int main(void)
{
	Suite *suite = suite_create("deferq_end");

	add_errors(suite);
	add_deaths(suite);
	add_rest(suite);
	return deferq_suite_run(suite);
}
