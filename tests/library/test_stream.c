/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: how they are made, what waits for what, how they go. */
#include "fixture.h"

#include <pthread.h>

static struct custody_context *context;

static void begin(void)
{
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
}

static void begin_with_two_devices(void)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	begin();
}

static struct custody_stream *make(void)
{
	struct custody_stream *stream = NULL;

	ck_ok(custody_stream_create(context, NULL, &stream));
	ck_assert_ptr_nonnull(stream);
	return stream;
}

static void hold(struct custody_stream *stream)
{
	fixture_hold(custody_stream_handle(stream));
}

static bool is_done(struct custody_stream *stream)
{
	bool answer = false;

	ck_ok(custody_stream_query(stream, &answer));
	return answer;
}

static unsigned int flags_of(struct custody_stream *stream)
{
	unsigned int flags = 99;

	ck_cu(cuStreamGetFlags(custody_stream_handle(stream), &flags));
	return flags;
}

/* ------------------------------------------------------------------ making one */

START_TEST(stream_blocks_with_the_legacy_one_as_documented)
{
	ck_assert_uint_eq(flags_of(make()), CU_STREAM_DEFAULT);
}
END_TEST

START_TEST(nonblocking_stream_is_made_where_asked_for)
{
	struct custody_stream_options options = { .size = sizeof(options), .is_nonblocking = true };
	struct custody_stream *stream;

	ck_ok(custody_stream_create(context, &options, &stream));
	ck_assert_uint_eq(flags_of(stream), CU_STREAM_NON_BLOCKING);
}
END_TEST

static int priority_for(int wish)
{
	struct custody_stream_options options = {
		.size = sizeof(options),
		.has_priority = true,
		.priority = wish,
	};
	struct custody_stream *stream;
	int priority = 99;

	ck_ok(custody_stream_create(context, &options, &stream));
	ck_ok(custody_stream_priority(stream, &priority));
	ck_ok(custody_stream_destroy(stream));
	return priority;
}

START_TEST(priority_is_kept_to_what_the_device_has)
{
	int least, greatest;

	ck_cu(cuCtxGetStreamPriorityRange(&least, &greatest));
	ck_assert_int_lt(greatest, least);
	ck_assert_int_eq(priority_for(greatest - 100), greatest);
	ck_assert_int_eq(priority_for(greatest + 1), greatest + 1);
	ck_assert_int_eq(priority_for(least + 100), least);
}
END_TEST

START_TEST(priority_that_is_not_asked_for_is_the_least)
{
	struct custody_stream_options options = { .size = sizeof(options), .priority = -3 };
	struct custody_stream *stream;
	int priority = 99;

	ck_ok(custody_stream_create(context, &options, &stream));
	ck_ok(custody_stream_priority(stream, &priority));
	ck_assert_int_eq(priority, 0);
}
END_TEST

START_TEST(options_of_an_older_header_are_taken_and_unknown_ones_refused)
{
	struct {
		struct custody_stream_options known;
		int unknown;
	} newer = { .known = { .size = sizeof(newer) }, .unknown = 1 };
	struct custody_stream_options older = { .size = offsetof(struct custody_stream_options,
								 has_priority),
						.has_priority = true, .priority = -1 };
	struct custody_stream *stream = NULL;
	int priority;

	ck_is(custody_stream_create(context, &newer.known, &stream), CUSTODY_E_INVALID);
	ck_assert_ptr_null(stream);
	newer.unknown = 0;
	ck_ok(custody_stream_create(context, &newer.known, &stream));
	ck_ok(custody_stream_create(context, &older, &stream));
	ck_ok(custody_stream_priority(stream, &priority));
	ck_assert_int_eq(priority, 0);
}
END_TEST

START_TEST(failing_call_of_the_driver_leaves_no_stream)
{
	struct custody_stream *stream = NULL;

	setenv("SIMCUDA_FAIL", "cuStreamCreateWithPriority:1:2", 1);
	begin();
	ck_is(custody_stream_create(context, NULL, &stream), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_ptr_null(stream);
	ck_ok(custody_stream_create(context, NULL, &stream));
}
END_TEST

/* NVIDIA/cuda-python#2568: a call with nothing in it crashed. */
START_TEST(null_arguments_crashed)
{
	struct custody_stream *stream = make();
	bool answer;
	int priority;

	ck_is(custody_stream_create(NULL, NULL, &stream), CUSTODY_E_INVALID);
	ck_is(custody_stream_create(context, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_wrap(NULL, NULL, &stream), CUSTODY_E_INVALID);
	ck_is(custody_stream_default(context, NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_synchronize(NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_query(NULL, &answer), CUSTODY_E_INVALID);
	ck_is(custody_stream_query(stream, NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_priority(stream, NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_priority(NULL, &priority), CUSTODY_E_INVALID);
	ck_is(custody_stream_wait_event(stream, NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_wait_event(NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_wait_stream(stream, NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_wait_stream(NULL, stream), CUSTODY_E_INVALID);
	ck_is(custody_stream_add_callback(stream, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_auto_synchronize(stream, NULL, NULL), CUSTODY_E_INVALID);
	ck_assert_ptr_null(custody_stream_context(NULL));
	ck_assert_uint_eq(custody_stream_id(NULL), 0);
	custody_stream_leave(NULL);
	ck_ok(custody_stream_destroy(NULL));
}
END_TEST

/* NVIDIA/cuda-python#2311, #2750: the stream of device 1 was made on device 0. */
START_TEST(stream_of_another_device_was_made_on_the_current_one)
{
	struct custody_context *second;
	struct custody_stream *stream;
	CUcontext owner, current;

	begin_with_two_devices();
	second = fixture_context(1);
	ck_ok(custody_stream_create(second, NULL, &stream));
	ck_cu(cuStreamGetCtx(custody_stream_handle(stream), &owner));
	ck_assert_ptr_eq(owner, custody_context_handle(second));
	ck_assert_ptr_eq(custody_stream_context(stream), second);
	ck_cu(cuCtxGetCurrent(&current));
	ck_assert_ptr_eq(current, custody_context_handle(context));
	ck_ok(custody_stream_synchronize(stream));
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

static void *use_without_a_context(void *argument)
{
	struct custody_stream *stream = argument, *other = make();
	CUcontext current;

	ck_ok(custody_stream_synchronize(stream));
	ck_ok(custody_stream_wait_stream(stream, other));
	ck_ok(custody_stream_destroy(other));
	ck_cu(cuCtxGetCurrent(&current));
	ck_assert_ptr_null(current);
	return NULL;
}

/* numba/numba#2522: work in a new thread failed, as no context was current there. */
START_TEST(new_thread_had_no_context)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, use_without_a_context, make()), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* ------------------------------------------------------------------ going */

START_TEST(destroyed_stream_waits_in_the_queue_of_objects)
{
	struct custody_pending pending = { .size = sizeof(pending) };

	fixture_forget();
	ck_ok(custody_stream_destroy(make()));
	ck_assert_uint_eq(fixture_calls("cuStreamDestroy_v2"), 0);
	ck_ok(custody_pending(context, &pending));
	ck_assert_uint_eq(pending.object_count, 1);
	ck_assert_uint_eq(pending.memory_count, 0);
	ck_ok(custody_flush(context, false));
	ck_assert_uint_eq(fixture_calls("cuStreamDestroy_v2"), 1);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

static void begin_watching(void)
{
	fixture_watch();
	begin();
}

START_TEST(eleventh_stream_starts_a_pass_and_goes_with_it)
{
	for (int i = 0; i < 10; i++)
		ck_ok(custody_stream_destroy(make()));
	ck_assert_uint_eq(fixture_pending_count(context), 10);
	ck_ok(custody_stream_destroy(make()));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_assert_uint_eq(fixture_calls("cuStreamDestroy_v2"), 11);
}
END_TEST

START_TEST(busy_stream_is_destroyed_without_a_wait_and_its_work_is_done)
{
	struct custody_stream *stream = make();
	CUdeviceptr block;
	unsigned int word = 0;

	ck_cu(cuMemAlloc(&block, sizeof(word)));
	hold(stream);
	ck_cu(cuMemsetD32Async(block, 0x5a5a5a5a, 1, custody_stream_handle(stream)));
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_flush(context, false));
	fixture_release();
	ck_ok(custody_context_synchronize(context));
	ck_cu(cuMemcpyDtoH(&word, block, sizeof(word)));
	ck_assert_uint_eq(word, 0x5a5a5a5a);
}
END_TEST

START_TEST(stream_of_a_context_that_was_reset_is_stale_and_can_be_destroyed)
{
	struct custody_stream *stream = make(), *other;
	bool answer;

	ck_ok(custody_context_reset(context));
	other = make();
	ck_is(custody_stream_synchronize(stream), CUSTODY_E_STALE);
	ck_is(custody_stream_query(stream, &answer), CUSTODY_E_STALE);
	ck_is(custody_stream_wait_stream(other, stream), CUSTODY_E_STALE);
	ck_is(custody_stream_wait_stream(stream, other), CUSTODY_E_STALE);
	fixture_forget();
	ck_ok(custody_stream_destroy(stream));
	ck_assert_uint_eq(fixture_calls(NULL), 0);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

START_TEST(reset_destroys_the_streams_that_are_left)
{
	struct custody_stream *left = make();

	ck_ok(custody_stream_destroy(make()));
	fixture_forget();
	ck_ok(custody_context_reset(context));
	ck_assert_uint_eq(fixture_calls("cuStreamDestroy_v2"), 2);
	ck_ok(custody_stream_destroy(left));
	ck_assert_uint_eq(fixture_calls("cuStreamDestroy_v2"), 2);
}
END_TEST

enum { THREADS = 4, EACH = 200 };

static void *destroy_all(void *argument)
{
	struct custody_stream **streams = argument;

	for (int i = 0; i < EACH; i++)
		ck_ok(custody_stream_destroy(streams[i]));
	return NULL;
}

/* The simulated driver ends a process that destroys a handle twice. */
START_TEST(reset_and_destroying_threads_end_each_stream_once)
{
	static struct custody_stream *streams[THREADS][EACH];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS * EACH; i++)
		streams[i / EACH][i % EACH] = make();
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, destroy_all, streams[i]), 0);
	ck_ok(custody_context_reset(context));
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_calls("cuStreamDestroy_v2"), THREADS * EACH);
}
END_TEST

static struct custody_buffer *make_buffer(struct custody_stream *stream)
{
	struct custody_resource *resource = NULL;
	struct custody_buffer *buffer = NULL;

	ck_ok(custody_resource_current_pool(context, &resource));
	ck_ok(custody_buffer_create(resource, 4096, stream, &buffer));
	ck_ok(custody_resource_release(resource));
	return buffer;
}

START_TEST(reset_ended_a_stream_before_the_buffer_that_was_to_be_freed_in_it)
{
	struct custody_buffer *buffer = make_buffer(NULL), *other = make_buffer(NULL);
	struct custody_stream *first = make(), *second = make();

	ck_ok(custody_buffer_record_stream(buffer, first));
	ck_ok(custody_buffer_set_free_stream(other, second));
	ck_ok(custody_stream_destroy(second));
	fixture_forget();
	ck_ok(custody_context_reset(context));
	ck_assert_uint_eq(fixture_calls("cuMemFreeAsync"), 2);
	ck_assert_uint_ge(fixture_calls("cuStreamDestroy_v2"), 2);
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_buffer_release(other));
	ck_ok(custody_stream_destroy(first));
}
END_TEST

/* rapidsai/rmm#649, #2252: a new stream inherited what was kept for its handle. */
START_TEST(handle_of_a_stream_that_is_gone_came_again)
{
	struct custody_stream *first, *later;
	bool has_come_again = false;
	CUstream handle;
	uint64_t id;

	setenv("SIMCUDA_QUARANTINE", "0", 1);
	begin();
	first = make();
	handle = custody_stream_handle(first);
	id = custody_stream_id(first);
	ck_ok(custody_stream_destroy(first));
	ck_ok(custody_flush(context, true));
	for (int i = 0; i < 50 && !has_come_again; i++) {
		later = make();
		has_come_again = custody_stream_handle(later) == handle;
		ck_assert_uint_gt(custody_stream_id(later), id);
		id = custody_stream_id(later);
	}
	ck_assert(has_come_again);
}
END_TEST

/* cumo#171, llvm-project#213184: a free after a fault ended the process. */
START_TEST(destroying_after_a_fault_ended_the_process)
{
	struct custody_stream *stream, *other;
	bool answer = true;

	setenv("SIMCUDA_FAIL", "cuStreamQuery:1:700", 1);
	begin();
	stream = make();
	other = make();
	ck_is(custody_stream_query(stream, &answer), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert(answer);
	ck_is(custody_stream_synchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_ge(custody_stream_destroy(stream), 0);
	ck_assert_int_ge(custody_stream_destroy(other), 0);
	ck_assert_int_ne(custody_flush(context, true), CUSTODY_E_INVALID);
}
END_TEST

/* ------------------------------------------------------------------ waiting */

START_TEST(query_tells_whether_all_is_done_and_synchronize_waits)
{
	struct custody_stream *stream = make();

	ck_assert(is_done(stream));
	hold(stream);
	ck_assert(!is_done(stream));
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
	ck_assert(is_done(stream));
}
END_TEST

START_TEST(stream_waits_for_what_is_in_another_by_now)
{
	struct custody_stream *stream = make(), *other = make();

	hold(other);
	fixture_forget();
	ck_ok(custody_stream_wait_stream(stream, other));
	ck_assert_uint_eq(fixture_calls("cuEventCreate"), 1);
	ck_assert_uint_eq(fixture_calls("cuEventDestroy_v2"), 1);
	ck_assert(!is_done(stream));
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
	ck_assert(is_done(other));
}
END_TEST

START_TEST(stream_waits_for_one_of_another_device)
{
	struct custody_stream *stream, *other;

	begin_with_two_devices();
	stream = make();
	ck_ok(custody_stream_create(fixture_context(1), NULL, &other));
	hold(stream);
	ck_ok(custody_stream_wait_stream(other, stream));
	ck_assert(!is_done(other));
	fixture_release();
	ck_ok(custody_stream_synchronize(other));
}
END_TEST

START_TEST(wait_that_fails_leaves_no_event)
{
	struct custody_stream *stream, *other;

	setenv("SIMCUDA_FAIL", "cuEventRecord:1:1,cuStreamWaitEvent:1:1", 1);
	begin_watching();
	stream = make();
	other = make();
	ck_is(custody_stream_wait_stream(stream, other), CUDA_ERROR_INVALID_VALUE);
	ck_is(custody_stream_wait_stream(stream, other), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(fixture_calls("cuEventCreate"), fixture_calls("cuEventDestroy_v2"));
	ck_ok(custody_stream_wait_stream(stream, other));
}
END_TEST

static int fail_after_work(struct custody_stream *stream, void *argument)
{
	hold(stream);
	fixture_release();
	return *(int *)argument;
}

START_TEST(error_of_the_body_skipped_the_wait)
{
	struct custody_stream *stream = make();
	int error = CUSTODY_E_BOUNDS;

	ck_is(custody_stream_auto_synchronize(stream, fail_after_work, &error), CUSTODY_E_BOUNDS);
	ck_assert(is_done(stream));
	ck_assert_uint_eq(fixture_calls("cuStreamSynchronize"), 1);
	error = 0;
	ck_ok(custody_stream_auto_synchronize(stream, fail_after_work, &error));
	ck_assert_uint_eq(fixture_calls("cuStreamSynchronize"), 2);
}
END_TEST

START_TEST(error_of_the_wait_is_returned_where_the_body_has_none)
{
	struct custody_stream *stream;
	int error = 0;

	setenv("SIMCUDA_FAIL", "cuStreamSynchronize:1+:600", 1);
	begin();
	stream = make();
	ck_is(custody_stream_auto_synchronize(stream, fail_after_work, &error),
	      CUDA_ERROR_NOT_READY);
	error = CUSTODY_E_BOUNDS;
	ck_is(custody_stream_auto_synchronize(stream, fail_after_work, &error), CUSTODY_E_BOUNDS);
}
END_TEST

START_TEST(end_of_a_block_synchronizes)
{
	struct custody_stream *stream = make();

	{
		struct custody_stream *scope CUSTODY_AUTO_SYNCHRONIZE = stream;

		hold(scope);
		fixture_release();
	}
	ck_assert(is_done(stream));
	ck_assert_uint_eq(fixture_calls("cuStreamSynchronize"), 1);
}
END_TEST

/* ------------------------------------------------------------------ the suite */

static void add_making(Suite *suite)
{
	TCase *tests = fixture_case(suite, "making", begin);

	tcase_add_test(tests, stream_blocks_with_the_legacy_one_as_documented);
	tcase_add_test(tests, nonblocking_stream_is_made_where_asked_for);
	tcase_add_test(tests, priority_is_kept_to_what_the_device_has);
	tcase_add_test(tests, priority_that_is_not_asked_for_is_the_least);
	tcase_add_test(tests, options_of_an_older_header_are_taken_and_unknown_ones_refused);
	tcase_add_test(tests, null_arguments_crashed);
	tcase_add_test(tests, new_thread_had_no_context);
	tests = fixture_case(suite, "making with settings", NULL);
	tcase_add_test(tests, stream_of_another_device_was_made_on_the_current_one);
	tcase_add_test(tests, failing_call_of_the_driver_leaves_no_stream);
}

static void add_going(Suite *suite)
{
	TCase *tests = fixture_case(suite, "going", begin_watching);

	tcase_add_test(tests, destroyed_stream_waits_in_the_queue_of_objects);
	tcase_add_test(tests, eleventh_stream_starts_a_pass_and_goes_with_it);
	tcase_add_test(tests, busy_stream_is_destroyed_without_a_wait_and_its_work_is_done);
	tcase_add_test(tests, stream_of_a_context_that_was_reset_is_stale_and_can_be_destroyed);
	tcase_add_test(tests, reset_destroys_the_streams_that_are_left);
	tcase_add_test(tests, reset_ended_a_stream_before_the_buffer_that_was_to_be_freed_in_it);
	tcase_add_test(tests, reset_and_destroying_threads_end_each_stream_once);
	tests = fixture_case(suite, "going with settings", NULL);
	tcase_add_test(tests, handle_of_a_stream_that_is_gone_came_again);
	tcase_add_test(tests, destroying_after_a_fault_ended_the_process);
}

static void add_waiting(Suite *suite)
{
	TCase *tests = fixture_case(suite, "waiting", begin_watching);

	tcase_add_test(tests, query_tells_whether_all_is_done_and_synchronize_waits);
	tcase_add_test(tests, stream_waits_for_what_is_in_another_by_now);
	tcase_add_test(tests, error_of_the_body_skipped_the_wait);
	tcase_add_test(tests, end_of_a_block_synchronizes);
	tests = fixture_case(suite, "waiting with settings", NULL);
	tcase_add_test(tests, stream_waits_for_one_of_another_device);
	tcase_add_test(tests, wait_that_fails_leaves_no_event);
	tcase_add_test(tests, error_of_the_wait_is_returned_where_the_body_has_none);
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("stream");

	add_making(suite);
	add_going(suite);
	add_waiting(suite);
	return suite;
}
