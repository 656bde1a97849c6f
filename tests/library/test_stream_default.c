/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are not the library's to destroy: the default ones, and other people's. */
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

static void begin_watching(void)
{
	fixture_watch();
	begin();
}

static bool is_done(struct custody_stream *stream)
{
	bool answer = false;

	ck_ok(custody_stream_query(stream, &answer));
	return answer;
}

/* ------------------------------------------------------------------ the default ones */

START_TEST(default_streams_are_permanent_objects)
{
	struct custody_stream *legacy, *own, *again;

	ck_ok(custody_stream_legacy(context, &legacy));
	ck_ok(custody_stream_per_thread(context, &own));
	ck_assert_ptr_eq(custody_stream_handle(legacy), CU_STREAM_LEGACY);
	ck_assert_ptr_eq(custody_stream_handle(own), CU_STREAM_PER_THREAD);
	ck_assert_uint_ne(custody_stream_id(legacy), custody_stream_id(own));
	ck_assert_ptr_eq(custody_stream_context(legacy), context);
	fixture_forget();
	ck_ok(custody_stream_destroy(legacy));
	ck_ok(custody_stream_destroy(own));
	ck_ok(custody_stream_destroy(legacy));
	ck_assert_uint_eq(fixture_calls(NULL), 0);
	ck_ok(custody_stream_legacy(context, &again));
	ck_assert_ptr_eq(again, legacy);
	ck_ok(custody_context_reset(context));
	ck_ok(custody_stream_synchronize(legacy));
	ck_ok(custody_stream_synchronize(own));
}
END_TEST

START_TEST(each_context_has_default_streams_of_its_own)
{
	struct custody_stream *first, *second;
	CUcontext current;

	begin_with_two_devices();
	ck_ok(custody_stream_legacy(context, &first));
	ck_ok(custody_stream_legacy(fixture_context(1), &second));
	ck_assert_ptr_ne(first, second);
	fixture_hold(CU_STREAM_LEGACY);
	ck_assert(!is_done(first));
	ck_assert(is_done(second));
	ck_cu(cuCtxGetCurrent(&current));
	ck_assert_ptr_eq(current, custody_context_handle(context));
	fixture_release();
}
END_TEST

START_TEST(legacy_stream_is_the_default_one)
{
	struct custody_stream *first, *second;

	ck_ok(custody_stream_default(context, &first));
	ck_ok(custody_stream_legacy(context, &second));
	ck_assert_ptr_eq(first, second);
	ck_assert_ptr_eq(custody_stream_handle(NULL), CU_STREAM_LEGACY);
}
END_TEST

static const char *const variables[] = {
	"CUSTODY_PER_THREAD_DEFAULT_STREAM",
	"NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM",
	"CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM",
};

START_TEST(stream_of_each_thread_is_the_default_one_where_a_variable_says_so)
{
	struct custody_stream *first, *second;

	setenv(variables[_i], "1", 1);
	begin();
	ck_ok(custody_stream_default(context, &first));
	ck_ok(custody_stream_per_thread(context, &second));
	ck_assert_ptr_eq(first, second);
	ck_assert_ptr_eq(custody_stream_handle(NULL), CU_STREAM_PER_THREAD);
}
END_TEST

static void *hold_own_stream(void *argument)
{
	struct custody_stream *own = argument;

	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
	fixture_hold(CU_STREAM_PER_THREAD);
	ck_assert(!is_done(own));
	return NULL;
}

/* NVIDIA/cuda-python#2485: the token was looked up once and kept for other threads. */
START_TEST(token_of_a_threads_own_stream_was_resolved_once)
{
	struct custody_stream *own;
	pthread_t thread;

	ck_ok(custody_stream_per_thread(context, &own));
	ck_assert_int_eq(pthread_create(&thread, NULL, hold_own_stream, own), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(is_done(own));
	fixture_release();
	ck_ok(custody_context_synchronize(context));
}
END_TEST

/* ------------------------------------------------------------------ other people's */

START_TEST(external_stream_is_used_and_not_destroyed)
{
	struct custody_stream *stream;
	CUstream handle;

	ck_cu(cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING));
	ck_ok(custody_stream_wrap(context, handle, &stream));
	ck_assert_ptr_eq(custody_stream_handle(stream), handle);
	fixture_hold(handle);
	ck_assert(!is_done(stream));
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
	ck_ok(custody_stream_destroy(stream));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_cu(cuStreamQuery(handle));
}
END_TEST

START_TEST(external_stream_wrapped_twice_is_two_objects)
{
	struct custody_stream *first, *second;
	CUstream handle;

	ck_cu(cuStreamCreate(&handle, 0));
	ck_ok(custody_stream_wrap(context, handle, &first));
	ck_ok(custody_stream_wrap(context, handle, &second));
	ck_assert_uint_ne(custody_stream_id(first), custody_stream_id(second));
	ck_ok(custody_stream_destroy(first));
	ck_ok(custody_stream_synchronize(second));
}
END_TEST

START_TEST(external_stream_of_another_context_is_refused)
{
	struct custody_stream *stream, *wrapped = NULL;

	begin_with_two_devices();
	ck_ok(custody_stream_create(fixture_context(1), NULL, &stream));
	ck_is(custody_stream_wrap(context, custody_stream_handle(stream), &wrapped),
	      CUSTODY_E_MISMATCH);
	ck_assert_ptr_null(wrapped);
}
END_TEST

START_TEST(external_tokens_and_zero_are_the_default_streams)
{
	struct custody_stream *stream;

	ck_ok(custody_stream_wrap(context, CU_STREAM_PER_THREAD, &stream));
	ck_assert_ptr_eq(custody_stream_handle(stream), CU_STREAM_PER_THREAD);
	ck_ok(custody_stream_wrap(context, NULL, &stream));
	ck_assert_ptr_eq(custody_stream_handle(stream), CU_STREAM_LEGACY);
	ck_ok(custody_stream_synchronize(stream));
}
END_TEST

/* pytorch/pytorch#66941: a stream of somebody else's was used after he had destroyed it. */
START_TEST(external_stream_was_used_after_its_end)
{
	struct custody_stream *stream;
	CUstream handle;

	ck_cu(cuStreamCreate(&handle, 0));
	ck_ok(custody_stream_wrap(context, handle, &stream));
	ck_cu(cuStreamDestroy(handle));
	fixture_forget();
	ck_ok(custody_stream_destroy(stream));
	ck_assert_uint_eq(fixture_calls(NULL), 0);
	ck_ok(custody_context_reset(context));
}
END_TEST

/* ------------------------------------------------------------------ the suite */

Suite *library_suite(void)
{
	Suite *suite = suite_create("stream default");
	TCase *tests = fixture_case(suite, "default", begin_watching);

	tcase_add_test(tests, default_streams_are_permanent_objects);
	tcase_add_test(tests, legacy_stream_is_the_default_one);
	tcase_add_test(tests, token_of_a_threads_own_stream_was_resolved_once);
	tests = fixture_case(suite, "default with settings", NULL);
	tcase_add_test(tests, each_context_has_default_streams_of_its_own);
	tcase_add_test(tests, external_stream_of_another_context_is_refused);
	tcase_add_loop_test(tests,
			    stream_of_each_thread_is_the_default_one_where_a_variable_says_so, 0,
			    3);
	tests = fixture_case(suite, "external", begin_watching);
	tcase_add_test(tests, external_stream_is_used_and_not_destroyed);
	tcase_add_test(tests, external_stream_wrapped_twice_is_two_objects);
	tcase_add_test(tests, external_tokens_and_zero_are_the_default_streams);
	tcase_add_test(tests, external_stream_was_used_after_its_end);
	return suite;
}
