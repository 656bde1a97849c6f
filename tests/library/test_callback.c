/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that a stream calls: when, with what, and what may go on meanwhile. */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>

static struct custody_context *context;

static void begin(void)
{
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
}

static struct custody_stream *make(void)
{
	struct custody_stream *stream = NULL;

	ck_ok(custody_stream_create(context, NULL, &stream));
	return stream;
}

/* What a function was called with. */
struct note {
	struct custody_stream *stream;
	CUresult status;
	pthread_t thread;
	int calls; /* by atomic operations */
};

static void take_note(struct custody_stream *stream, CUresult status, void *argument)
{
	struct note *note = argument;

	note->stream = stream;
	note->status = status;
	note->thread = pthread_self();
	__atomic_add_fetch(&note->calls, 1, __ATOMIC_RELEASE);
}

static void count_call(struct custody_stream *stream, CUresult status, void *argument)
{
	struct note *note = argument;

	(void)stream;
	(void)status;
	__atomic_add_fetch(&note->calls, 1, __ATOMIC_RELEASE);
}

static int calls(const struct note *note)
{
	return __atomic_load_n(&note->calls, __ATOMIC_ACQUIRE);
}

static void await_calls(const struct note *note, int wanted)
{
	while (calls(note) < wanted)
		sched_yield();
}

START_TEST(function_is_called_when_what_is_before_it_is_done)
{
	struct custody_stream *stream = make();
	struct note note = { 0 };

	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_stream_add_callback(stream, take_note, &note));
	usleep(20000);
	ck_assert_int_eq(calls(&note), 0);
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_int_eq(calls(&note), 1);
	ck_assert_ptr_eq(note.stream, stream);
	ck_assert_int_eq(note.status, CUDA_SUCCESS);
	ck_assert(!pthread_equal(note.thread, pthread_self()));
}
END_TEST

static void count_in_order(struct custody_stream *stream, CUresult status, void *argument)
{
	int **place = argument;

	(void)stream;
	(void)status;
	*(*place)++ = 1;
}

START_TEST(functions_of_one_stream_are_called_one_after_the_other)
{
	enum { CALLS = 100 };
	struct custody_stream *stream = make();
	int marks[CALLS] = { 0 }, *place = marks;

	for (int i = 0; i < CALLS; i++)
		ck_ok(custody_stream_add_callback(stream, count_in_order, &place));
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_ptr_eq(place, marks + CALLS);
}
END_TEST

static void sleep_a_little(struct custody_stream *stream, CUresult status, void *argument)
{
	(void)stream;
	(void)status;
	usleep(20000);
	__atomic_store_n((int *)argument, 1, __ATOMIC_RELEASE);
}

START_TEST(later_work_waits_for_the_function)
{
	struct custody_stream *stream = make();
	struct note note = { 0 };
	int has_slept = 0;

	ck_ok(custody_stream_add_callback(stream, sleep_a_little, &has_slept));
	ck_ok(custody_stream_add_callback(stream, take_note, &note));
	await_calls(&note, 1);
	ck_assert_int_eq(__atomic_load_n(&has_slept, __ATOMIC_ACQUIRE), 1);
	ck_ok(custody_stream_synchronize(stream));
}
END_TEST

START_TEST(default_streams_call_functions_too)
{
	struct custody_stream *stream;
	struct note note = { 0 };

	ck_ok(custody_stream_legacy(context, &stream));
	ck_ok(custody_stream_add_callback(stream, take_note, &note));
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_ptr_eq(note.stream, stream);
	ck_ok(custody_stream_per_thread(context, &stream));
	ck_ok(custody_stream_add_callback(stream, take_note, &note));
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_ptr_eq(note.stream, stream);
	ck_assert_int_eq(calls(&note), 2);
}
END_TEST

START_TEST(function_is_called_with_the_error_of_the_work)
{
	struct custody_stream *stream;
	struct note note = { 0 };
	bool answer;

	setenv("SIMCUDA_FAIL", "cuStreamQuery:1:700", 1);
	begin();
	stream = make();
	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_stream_add_callback(stream, take_note, &note));
	ck_is(custody_stream_query(stream, &answer), CUDA_ERROR_ILLEGAL_ADDRESS);
	fixture_release();
	await_calls(&note, 1);
	ck_assert_int_eq(note.status, CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

/* Numba takes its reference before the call of the driver, and keeps it if that fails. */
START_TEST(what_a_callback_kept_was_lost_where_the_driver_refused_it)
{
	struct custody_stream *stream;
	struct note note = { 0 };

	setenv("SIMCUDA_FAIL", "cuStreamAddCallback:1:1", 1);
	begin();
	stream = make();
	ck_is(custody_stream_add_callback(stream, take_note, &note), CUDA_ERROR_INVALID_VALUE);
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_int_eq(calls(&note), 0);
	ck_ok(custody_stream_add_callback(stream, take_note, &note));
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_int_eq(calls(&note), 1);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

static void read_stream(struct custody_stream *stream, CUresult status, void *argument)
{
	(void)status;
	__atomic_store_n((uint64_t *)argument, *(const unsigned char *)stream + UINT64_C(1),
			 __ATOMIC_RELEASE);
}

START_TEST(stream_that_was_destroyed_lives_until_its_function_was_called)
{
	struct custody_stream *stream = make();
	struct note note = { 0 };
	uint64_t read = 0;

	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_stream_add_callback(stream, read_stream, &read));
	ck_ok(custody_stream_add_callback(stream, take_note, &note));
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_flush(context, false));
	fixture_release();
	await_calls(&note, 1);
	ck_assert_ptr_eq(note.stream, stream);
	ck_assert_uint_ne(__atomic_load_n(&read, __ATOMIC_ACQUIRE), 0);
	ck_ok(custody_context_synchronize(context));
}
END_TEST

START_TEST(reset_waits_until_functions_were_called)
{
	struct custody_stream *stream = make();
	struct note note = { 0 };

	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_stream_add_callback(stream, take_note, &note));
	fixture_release();
	ck_ok(custody_context_reset(context));
	ck_assert_int_eq(calls(&note), 1);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

/* ------------------------------------------------------------------ at the same time */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take_the_lock(struct custody_stream *stream, CUresult status, void *argument)
{
	(void)stream;
	(void)status;
	__atomic_store_n((int *)argument, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	__atomic_store_n((int *)argument, 2, __ATOMIC_RELEASE);
}

static void use_everything(struct custody_stream *busy)
{
	struct custody_stream *stream = make(), *wrapped;
	struct custody_event *event;
	struct custody_completion *completion;
	bool answer;

	ck_ok(custody_event_create(context, NULL, &event));
	ck_ok(custody_event_record(event, busy));
	ck_ok(custody_event_query(event, &answer));
	ck_assert(!answer);
	ck_ok(custody_stream_wait_event(stream, event));
	ck_ok(custody_stream_query(busy, &answer));
	ck_assert(!answer);
	ck_ok(custody_stream_completion(stream, &completion));
	ck_is(custody_completion_wait(completion, 1000), CUSTODY_E_TIMEOUT);
	custody_completion_destroy(completion);
	ck_ok(custody_stream_wrap(context, custody_stream_handle(busy), &wrapped));
	ck_ok(custody_stream_destroy(wrapped));
	ck_ok(custody_event_destroy(event));
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_flush(context, false));
}

/*
 * NVIDIA/numba-cuda#317, ml-explore/mlx#2099: a function of a stream wanted a lock that
 * a thread held who stood in the driver, or freed meanwhile.
 */
START_TEST(lock_that_a_function_wants_was_held_in_the_driver)
{
	struct custody_stream *stream = make();
	int state = 0;

	pthread_mutex_lock(&lock);
	ck_ok(custody_stream_add_callback(stream, take_the_lock, &state));
	while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 1)
		sched_yield();
	for (int i = 0; i < 20; i++)
		use_everything(stream);
	ck_assert_int_eq(__atomic_load_n(&state, __ATOMIC_ACQUIRE), 1);
	pthread_mutex_unlock(&lock);
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_int_eq(__atomic_load_n(&state, __ATOMIC_ACQUIRE), 2);
	ck_ok(custody_context_synchronize(context));
}
END_TEST

enum { THREADS = 8, ROUNDS = 100 };

static void *come_and_go(void *argument)
{
	struct note *note = argument;

	for (int i = 0; i < ROUNDS; i++) {
		struct custody_stream *stream = make();

		ck_ok(custody_stream_add_callback(stream, count_call, note));
		if (i % 2)
			ck_ok(custody_stream_synchronize(stream));
		ck_ok(custody_stream_destroy(stream));
	}
	return NULL;
}

START_TEST(streams_of_many_threads_come_and_go_with_their_functions)
{
	pthread_t threads[THREADS];
	struct note notes[THREADS] = { 0 };

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, &notes[i]), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < THREADS; i++)
		await_calls(&notes[i], ROUNDS);
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("callback");
	TCase *tests = tcase_create("calls");
	TCase *settings = tcase_create("calls with settings");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, begin, NULL);
	tcase_add_test(tests, function_is_called_when_what_is_before_it_is_done);
	tcase_add_test(tests, functions_of_one_stream_are_called_one_after_the_other);
	tcase_add_test(tests, later_work_waits_for_the_function);
	tcase_add_test(tests, default_streams_call_functions_too);
	tcase_add_test(tests, stream_that_was_destroyed_lives_until_its_function_was_called);
	tcase_add_test(tests, reset_waits_until_functions_were_called);
	tcase_add_test(tests, lock_that_a_function_wants_was_held_in_the_driver);
	tcase_add_test(tests, streams_of_many_threads_come_and_go_with_their_functions);
	suite_add_tcase(suite, tests);
	tcase_add_test(settings, function_is_called_with_the_error_of_the_work);
	tcase_add_test(settings, what_a_callback_kept_was_lost_where_the_driver_refused_it);
	suite_add_tcase(suite, settings);
	return suite;
}
