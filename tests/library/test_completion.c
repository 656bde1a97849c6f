/* SPDX-License-Identifier: Apache-2.0 */
/* Completions: poll, wait, descriptor, and every order in which things may end. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>

static struct custody_context *context;
static struct custody_stream *stream;

static struct custody_stream *make_stream(void)
{
	struct custody_stream_options options = { .size = sizeof(options), .is_nonblocking = true };
	struct custody_stream *made = NULL;

	ck_ok(custody_stream_create(context, &options, &made));
	return made;
}

static void begin(void)
{
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
	stream = make_stream();
}

static struct custody_completion *make(void)
{
	struct custody_completion *completion = NULL;

	ck_ok(custody_stream_completion(stream, &completion));
	ck_assert_ptr_nonnull(completion);
	return completion;
}

static struct custody_completion *make_held(void)
{
	fixture_hold(custody_stream_handle(stream));
	return make();
}

static bool is_readable(int descriptor, int timeout_ms)
{
	struct pollfd asked = { .fd = descriptor, .events = POLLIN };
	int answer = poll(&asked, 1, timeout_ms);

	ck_assert_int_ge(answer, 0);
	return answer == 1 && (asked.revents & POLLIN);
}

/* ------------------------------------------------------------------ asking and waiting */

START_TEST(completion_is_completed_when_what_is_before_it_is_done)
{
	struct custody_completion *completion = make_held();
	CUresult status = CUDA_ERROR_UNKNOWN;

	ck_assert(!custody_completion_poll(completion, &status));
	ck_assert_int_eq(status, CUDA_ERROR_UNKNOWN);
	fixture_release();
	ck_ok(custody_completion_wait(completion, -1));
	ck_assert(custody_completion_poll(completion, &status));
	ck_assert(custody_completion_poll(completion, NULL));
	ck_assert_int_eq(status, CUDA_SUCCESS);
	ck_ok(custody_completion_wait(completion, 0));
	ck_assert_ptr_eq(custody_completion_stream(completion), stream);
	custody_completion_destroy(completion);
}
END_TEST

START_TEST(later_work_does_not_hold_it_up)
{
	struct custody_completion *completion = make();

	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_completion_wait(completion, -1));
	fixture_release();
	custody_completion_destroy(completion);
}
END_TEST

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

START_TEST(wait_ends_when_its_time_is_over)
{
	struct custody_completion *completion = make_held();
	int64_t start = now_ns();

	ck_is(custody_completion_wait(completion, 0), CUSTODY_E_TIMEOUT);
	ck_is(custody_completion_wait(completion, 20000000), CUSTODY_E_TIMEOUT);
	ck_assert_int_ge(now_ns() - start, 20000000);
	fixture_release();
	ck_ok(custody_completion_wait(completion, INT64_MAX));
	custody_completion_destroy(completion);
}
END_TEST

/* NVIDIA/cuda-python#2568: a call with nothing in it crashed. */
START_TEST(null_arguments_crashed)
{
	struct custody_completion *completion = make();

	ck_is(custody_stream_completion(NULL, &completion), CUSTODY_E_INVALID);
	ck_is(custody_stream_completion(stream, NULL), CUSTODY_E_INVALID);
	ck_is(custody_completion_wait(completion, -2), CUSTODY_E_INVALID);
	ck_is(custody_completion_wait(NULL, 0), CUSTODY_E_INVALID);
	ck_is(custody_completion_descriptor(NULL), CUSTODY_E_INVALID);
	ck_assert(!custody_completion_poll(NULL, NULL));
	ck_assert_ptr_null(custody_completion_stream(NULL));
	custody_completion_destroy(NULL);
	custody_completion_destroy(completion);
}
END_TEST

START_TEST(status_of_work_that_failed_is_told)
{
	struct custody_completion *completion;
	CUresult status = CUDA_SUCCESS;
	bool answer;

	setenv("SIMCUDA_FAIL", "cuStreamQuery:1:700", 1);
	begin();
	completion = make_held();
	ck_is(custody_stream_query(stream, &answer), CUDA_ERROR_ILLEGAL_ADDRESS);
	fixture_release();
	ck_is(custody_completion_wait(completion, -1), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert(custody_completion_poll(completion, &status));
	ck_assert_int_eq(status, CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert(is_readable(custody_completion_descriptor(completion), 0));
	custody_completion_destroy(completion);
	completion = NULL;
	ck_is(custody_stream_completion(stream, &completion), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_ptr_null(completion);
}
END_TEST

START_TEST(completion_that_the_driver_refuses_is_not_made)
{
	struct custody_completion *completion = NULL;

	setenv("SIMCUDA_FAIL", "cuStreamAddCallback:1:1", 1);
	begin();
	ck_is(custody_stream_completion(stream, &completion), CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_null(completion);
	completion = make();
	ck_ok(custody_completion_wait(completion, -1));
	custody_completion_destroy(completion);
}
END_TEST

/* ------------------------------------------------------------------ the descriptor */

START_TEST(descriptor_becomes_readable_and_stays_so)
{
	struct custody_completion *completion = make_held();
	int descriptor = custody_completion_descriptor(completion);
	uint64_t value;

	ck_assert_int_ge(descriptor, 0);
	ck_assert_int_eq(custody_completion_descriptor(completion), descriptor);
	ck_assert(!is_readable(descriptor, 20));
	fixture_release();
	ck_assert(is_readable(descriptor, -1));
	ck_ok(custody_completion_wait(completion, -1));
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(read(descriptor, &value, sizeof(value)), sizeof(value));
		ck_assert(is_readable(descriptor, 0));
	}
	custody_completion_destroy(completion);
	ck_assert_int_eq(fcntl(descriptor, F_GETFD), -1);
}
END_TEST

START_TEST(descriptor_that_is_asked_for_late_is_readable)
{
	struct custody_completion *completion = make();
	int descriptor;

	ck_ok(custody_completion_wait(completion, -1));
	descriptor = custody_completion_descriptor(completion);
	ck_assert(is_readable(descriptor, 0));
	ck_assert_int_eq(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	ck_assert_int_eq(fcntl(descriptor, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	custody_completion_destroy(completion);
}
END_TEST

START_TEST(epoll_waits_for_the_first_of_several)
{
	struct custody_completion *held = make_held(), *free_one;
	struct custody_stream *held_stream = stream;
	struct epoll_event event = { .events = EPOLLIN };
	int poller = epoll_create1(EPOLL_CLOEXEC);

	stream = make_stream();
	free_one = make();
	event.data.ptr = held;
	ck_assert_int_eq(epoll_ctl(poller, EPOLL_CTL_ADD, custody_completion_descriptor(held),
				   &event), 0);
	event.data.ptr = free_one;
	ck_assert_int_eq(epoll_ctl(poller, EPOLL_CTL_ADD, custody_completion_descriptor(free_one),
				   &event), 0);
	ck_assert_int_eq(epoll_wait(poller, &event, 1, -1), 1);
	ck_assert_ptr_eq(event.data.ptr, free_one);
	fixture_release();
	ck_ok(custody_stream_synchronize(held_stream));
	custody_completion_destroy(held);
	custody_completion_destroy(free_one);
	close(poller);
}
END_TEST

/* Descriptors are all taken; what they are for works without one. */
START_TEST(descriptor_that_cannot_be_made_is_an_error)
{
	struct custody_completion *completion = make();
	int all[4096], count = 0;

	while (count < 4096 && (all[count] = dup(0)) >= 0)
		count++;
	if (count == 4096)
		return;
	ck_is(custody_completion_descriptor(completion), CUSTODY_E_SYSTEM);
	ck_ok(custody_completion_wait(completion, -1));
	close(all[0]);
	ck_assert(is_readable(custody_completion_descriptor(completion), 0));
	custody_completion_destroy(completion);
}
END_TEST

/* ------------------------------------------------------------------ its end */

START_TEST(completion_can_be_destroyed_first)
{
	struct custody_completion *completion = make_held();
	int descriptor = custody_completion_descriptor(completion);

	custody_completion_destroy(completion);
	ck_assert_int_eq(fcntl(descriptor, F_GETFD), -1);
	custody_completion_destroy(make());
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
}
END_TEST

/* The number of a descriptor that was closed may be another file's by the end. */
START_TEST(descriptor_of_a_completion_that_is_gone_is_not_written)
{
	struct custody_completion *completion = make_held();
	int descriptor = custody_completion_descriptor(completion), ends[2];
	char byte;

	ck_assert_int_eq(pipe(ends), 0);
	custody_completion_destroy(completion);
	ck_assert_int_eq(dup2(ends[1], descriptor), descriptor);
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(read(ends[0], &byte, 1), -1);
	ck_assert_int_eq(errno, EAGAIN);
}
END_TEST

START_TEST(completion_does_not_need_its_stream)
{
	struct custody_completion *completion = make_held();

	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_flush(context, false));
	fixture_release();
	ck_ok(custody_completion_wait(completion, -1));
	custody_completion_destroy(completion);
}
END_TEST

START_TEST(reset_completes_what_is_outstanding)
{
	struct custody_completion *completion = make_held();

	fixture_release();
	ck_ok(custody_context_reset(context));
	ck_assert(custody_completion_poll(completion, NULL));
	ck_ok(custody_completion_wait(completion, 0));
	custody_completion_destroy(completion);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

static struct custody_completion *late;

/* Nothing will ever write that word. */
static int make_one_for_ever(void)
{
	void *word;

	story_check(!custody_context_current(0, &context));
	story_check(!custody_stream_create(context, NULL, &stream));
	story_check(!cuMemHostAlloc(&word, 4, CU_MEMHOSTALLOC_DEVICEMAP));
	memset(word, 0, 4);
	story_check(!cuStreamWaitValue32(custody_stream_handle(stream),
					 (CUdeviceptr)(uintptr_t)word, 1,
					 CU_STREAM_WAIT_VALUE_EQ));
	story_check(!custody_stream_completion(stream, &late));
	return 0;
}

static void ask_late(void)
{
	fprintf(stderr, "at exit\n");
	if (custody_completion_wait(late, -1) != CUSTODY_E_EXITING)
		_exit(3);
	custody_completion_destroy(late);
	if (custody_stream_synchronize(stream) != CUSTODY_E_EXITING ||
	    custody_stream_destroy(stream))
		_exit(4);
}

/* The library's own handler was registered later than this one, and runs before it. */
static int ask_while_exiting(void)
{
	atexit(ask_late);
	return make_one_for_ever();
}

START_TEST(process_can_end_with_completions_outstanding)
{
	char text[4096];

	if (fixture_run("exit", NULL, text, sizeof(text)))
		ck_abort_msg("%s", text);
}
END_TEST

/* rapidsai/rmm#2366: what was called at the end of the process crashed in the driver. */
START_TEST(destroying_at_exit_called_a_driver_that_had_ended)
{
	static const char *const settings[] = { "SIMCUDA_VERBOSE=1", NULL };
	char text[65536], *end;

	if (fixture_run("ask at exit", settings, text, sizeof(text)))
		ck_abort_msg("%.2000s", text);
	end = strstr(text, "at exit");
	ck_assert_ptr_nonnull(end);
	ck_assert_uint_eq(fixture_count(end, NULL), 0);
}
END_TEST

/* numba/numba#2673: use after a fork failed without a word. */
START_TEST(child_of_fork_used_what_its_parent_had_made)
{
	struct custody_completion *completion = make_held(), *other;
	int status;
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (!child) {
		if (custody_completion_wait(completion, -1) != CUSTODY_E_FORKED)
			_exit(1);
		if (custody_completion_descriptor(completion) != CUSTODY_E_FORKED)
			_exit(2);
		if (custody_stream_completion(stream, &other) != CUSTODY_E_FORKED)
			_exit(3);
		custody_completion_destroy(completion);
		_exit(custody_stream_destroy(stream) ? 4 : 0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	fixture_release();
	ck_ok(custody_completion_wait(completion, -1));
	custody_completion_destroy(completion);
}
END_TEST

/* ------------------------------------------------------------------ many */

enum { MANY = 1000, THREADS = 8 };

START_TEST(many_complete_in_the_order_of_the_stream)
{
	static struct custody_completion *all[MANY];

	fixture_hold(custody_stream_handle(stream));
	for (int i = 0; i < MANY; i++)
		all[i] = make();
	for (int i = 0; i < MANY; i += 3)
		custody_completion_destroy(all[i]);
	fixture_release();
	for (int i = MANY - 1; i >= 0; i--) {
		if (i % 3 == 0)
			continue;
		ck_ok(custody_completion_wait(all[i], -1));
		custody_completion_destroy(all[i]);
	}
}
END_TEST

static void *wait_in_a_thread(void *argument)
{
	struct custody_completion *completion = argument;

	ck_ok(custody_completion_wait(completion, -1));
	ck_assert(is_readable(custody_completion_descriptor(completion), 0));
	return NULL;
}

START_TEST(many_threads_wait_for_one)
{
	struct custody_completion *completion = make_held();
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, wait_in_a_thread, completion),
				 0);
	usleep(10000);
	fixture_release();
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	custody_completion_destroy(completion);
}
END_TEST

static void *make_and_destroy(void *argument)
{
	struct custody_completion *completion;
	struct custody_stream *mine = make_stream();

	for (int i = 0; i < 200; i++) {
		ck_ok(custody_stream_completion(i % 2 ? mine : stream, &completion));
		if (i % 3 == 0)
			ck_assert_int_ge(custody_completion_descriptor(completion), 0);
		if (i % 4 == 0)
			ck_ok(custody_completion_wait(completion, -1));
		custody_completion_destroy(completion);
	}
	ck_ok(custody_stream_destroy(mine));
	return argument;
}

START_TEST(many_threads_make_and_destroy_them_while_they_complete)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, make_and_destroy, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_ok(custody_context_synchronize(context));
}
END_TEST

const struct fixture_story fixture_stories[] = {
	{ "exit", make_one_for_ever },
	{ "ask at exit", ask_while_exiting },
	{ NULL, NULL },
};

/* ------------------------------------------------------------------ the suite */

Suite *library_suite(void)
{
	Suite *suite = suite_create("completion");
	TCase *tests = fixture_case(suite, "waiting", begin);

	tcase_add_test(tests, completion_is_completed_when_what_is_before_it_is_done);
	tcase_add_test(tests, later_work_does_not_hold_it_up);
	tcase_add_test(tests, wait_ends_when_its_time_is_over);
	tcase_add_test(tests, null_arguments_crashed);
	tcase_add_test(tests, descriptor_becomes_readable_and_stays_so);
	tcase_add_test(tests, descriptor_that_is_asked_for_late_is_readable);
	tcase_add_test(tests, epoll_waits_for_the_first_of_several);
	tcase_add_test(tests, descriptor_that_cannot_be_made_is_an_error);
	tests = fixture_case(suite, "settings", NULL);
	tcase_add_test(tests, status_of_work_that_failed_is_told);
	tcase_add_test(tests, completion_that_the_driver_refuses_is_not_made);
	tests = fixture_case(suite, "its end", begin);
	tcase_add_test(tests, completion_can_be_destroyed_first);
	tcase_add_test(tests, descriptor_of_a_completion_that_is_gone_is_not_written);
	tcase_add_test(tests, completion_does_not_need_its_stream);
	tcase_add_test(tests, reset_completes_what_is_outstanding);
	tcase_add_test(tests, process_can_end_with_completions_outstanding);
	tcase_add_test(tests, destroying_at_exit_called_a_driver_that_had_ended);
	tcase_add_test(tests, child_of_fork_used_what_its_parent_had_made);
	tests = fixture_case(suite, "many", begin);
	tcase_add_test(tests, many_complete_in_the_order_of_the_stream);
	tcase_add_test(tests, many_threads_wait_for_one);
	tcase_add_test(tests, many_threads_make_and_destroy_them_while_they_complete);
	return suite;
}
