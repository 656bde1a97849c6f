/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deferred-free queues as the library shows them: what is documented of them, rule
 * by rule.  Device 0 has 1 GiB here, so that the byte limit is 214,748,364.
 */
#include "fixture.h"

#include <pthread.h>

enum { LIMIT = 214748364 };

static struct custody_context *context;

static void begin(void)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	setenv("SIMCUDA_MEMORY", "1G", 1);
	fixture_watch();
	context = fixture_context(0);
	fixture_forget();
}

static struct custody_pending pending_of(struct custody_context *of)
{
	struct custody_pending pending = { .size = sizeof(pending) };

	ck_ok(custody_pending(of, &pending));
	return pending;
}

static struct custody_defer_statistics statistics(void)
{
	struct custody_defer_statistics now = { .size = sizeof(now) };

	ck_ok(custody_defer_statistics(context, &now));
	return now;
}

static void set_limits(int64_t max_count, double max_ratio, bool is_strict)
{
	const struct custody_defer_limits limits = {
		.size = sizeof(limits),
		.max_count = max_count,
		.max_ratio = max_ratio,
		.is_strict = is_strict,
	};

	ck_ok(custody_defer_set_limits(&limits));
}

/* Memory waits in the queue, or its release is with the driver: either is pending. */
static uint64_t memory_count(void)
{
	struct custody_pending pending = pending_of(context);

	return pending.memory_count + pending.issued_count;
}

/*
 * A pass inside a free ends after a while, which a slow machine sees: what is certain is
 * that it has released something.
 */
static void check_passed(uint64_t waiting, uint64_t before)
{
	ck_assert_uint_lt(waiting, before);
}

static void free_events(unsigned int count)
{
	struct custody_event *event;

	for (unsigned int i = 0; i < count; i++) {
		ck_ok(custody_event_create(context, NULL, &event));
		ck_ok(custody_event_destroy(event));
	}
}

static unsigned int releases(void)
{
	return fixture_calls("cuMemFree_v2") + fixture_calls("cuMemFreeAsync");
}

/* The driver knows the address no more. */
static bool is_released(CUdeviceptr address)
{
	CUdeviceptr base;
	size_t bytes;
	CUresult result;

	ck_ok(custody_context_push(context));
	result = cuMemGetAddressRange(&base, &bytes, address);
	ck_ok(custody_context_pop(context));
	return result != CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ the count */

START_TEST(ten_frees_wait)
{
	CUdeviceptr blocks[10];

	for (int i = 0; i < 10; i++)
		blocks[i] = fixture_allocate(context, KIB);
	for (int i = 0; i < 10; i++)
		fixture_free(context, blocks[i]);
	ck_assert_uint_eq(pending_of(context).memory_count, 10);
	ck_assert_uint_eq(pending_of(context).memory_bytes, 10 * KIB);
	ck_assert_uint_eq(statistics().released, 0);
	for (int i = 0; i < 10; i++)
		ck_assert(!is_released(blocks[i]));
}
END_TEST

START_TEST(eleventh_free_starts_a_pass_and_goes_with_it)
{
	fixture_free_some(context, 11, KIB);
	check_passed(pending_of(context).memory_count, 11);
	ck_assert_uint_eq(statistics().passes[CUSTODY_CAUSE_COUNT], 1);
	ck_assert_uint_eq(statistics().deepest, 11);
	ck_ok(custody_context_synchronize(context));
	ck_assert_uint_eq(memory_count(), 0);
	ck_assert_uint_eq(statistics().released, 11);
	ck_assert_uint_eq(statistics().released_bytes, 11 * KIB);
	ck_assert_uint_ge(releases(), 11);
}
END_TEST

START_TEST(each_queue_has_ten_of_its_own)
{
	fixture_free_some(context, 10, KIB);
	free_events(10);
	ck_assert_uint_eq(pending_of(context).memory_count, 10);
	ck_assert_uint_eq(pending_of(context).object_count, 10);
	ck_assert_uint_eq(fixture_calls("cuEventDestroy_v2"), 0);
	free_events(1);
	ck_assert_uint_eq(pending_of(context).memory_count, 10);
	check_passed(pending_of(context).object_count, 11);
}
END_TEST

START_TEST(count_of_zero_puts_nothing_off)
{
	set_limits(0, 0.2, false);
	fixture_free_some(context, 1, KIB);
	free_events(1);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_assert_uint_eq(statistics().passes[CUSTODY_CAUSE_COUNT], 2);
}
END_TEST

START_TEST(negative_count_is_as_zero)
{
	set_limits(-5, 0.2, false);
	fixture_free_some(context, 1, KIB);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

START_TEST(limit_set_at_run_time_holds_from_the_next_free_on)
{
	fixture_free_some(context, 10, KIB);
	set_limits(20, 0.2, false);
	fixture_free_some(context, 10, KIB);
	ck_assert_uint_eq(pending_of(context).memory_count, 20);
	set_limits(3, 0.2, false);
	ck_assert_uint_eq(pending_of(context).memory_count, 20);
	fixture_free_some(context, 1, KIB);
	check_passed(pending_of(context).memory_count, 21);
}
END_TEST

/* ------------------------------------------------------------------ the bytes */

START_TEST(bytes_of_just_the_limit_wait)
{
	fixture_free(context, fixture_allocate(context, LIMIT));
	ck_assert_uint_eq(pending_of(context).memory_bytes, LIMIT);
	ck_assert_uint_eq(statistics().passes[CUSTODY_CAUSE_BYTES], 0);
}
END_TEST

START_TEST(one_byte_beyond_the_limit_starts_a_pass)
{
	fixture_free(context, fixture_allocate(context, LIMIT + 1));
	ck_assert_uint_eq(pending_of(context).memory_bytes, 0);
	ck_assert_uint_eq(statistics().passes[CUSTODY_CAUSE_BYTES], 1);
}
END_TEST

START_TEST(bytes_of_several_frees_add_up)
{
	CUdeviceptr first = fixture_allocate(context, LIMIT - 100);
	CUdeviceptr second = fixture_allocate(context, 100), third = fixture_allocate(context, 1);

	fixture_free(context, first);
	fixture_free(context, second);
	ck_assert_uint_eq(pending_of(context).memory_bytes, LIMIT);
	fixture_free(context, third);
	check_passed(pending_of(context).memory_bytes, LIMIT + 1);
	ck_assert_uint_eq(statistics().passes[CUSTODY_CAUSE_BYTES], 1);
}
END_TEST

START_TEST(ratio_of_zero_frees_memory_at_once_and_objects_wait)
{
	set_limits(10, 0, false);
	fixture_free_some(context, 1, 1);
	free_events(1);
	ck_assert_uint_eq(pending_of(context).memory_count, 0);
	ck_assert_uint_eq(pending_of(context).object_count, 1);
}
END_TEST

START_TEST(ratio_above_one_is_no_limit)
{
	set_limits(10, 5, false);
	fixture_free(context, fixture_allocate(context, 3 * (size_t)LIMIT));
	ck_assert_uint_eq(pending_of(context).memory_bytes, 3 * (uint64_t)LIMIT);
}
END_TEST

START_TEST(negative_ratio_and_no_number_are_refused)
{
	struct custody_defer_limits limits = { .size = sizeof(limits), .max_ratio = -0.1 };

	ck_is(custody_defer_set_limits(&limits), CUSTODY_E_INVALID);
	limits.max_ratio = strtod("nan", NULL);
	ck_is(custody_defer_set_limits(&limits), CUSTODY_E_INVALID);
	ck_is(custody_defer_set_limits(NULL), CUSTODY_E_INVALID);
	ck_ok(custody_defer_limits(&limits));
	ck_assert_int_eq(limits.max_count, 10);
	ck_assert_double_eq(limits.max_ratio, 0.2);
	ck_assert(!limits.is_strict);
}
END_TEST

/* Host memory has a limit of its own, so ten huge blocks of it do not hide in the queue. */
START_TEST(pinned_bytes_are_counted_apart_from_those_of_the_device)
{
	void *pinned = fixture_allocate_pinned(context, MIB);

	fixture_free(context, fixture_allocate(context, LIMIT));
	fixture_free_pinned(context, pinned);
	ck_assert_uint_eq(pending_of(context).memory_count, 2);
	ck_assert_uint_eq(pending_of(context).memory_bytes, LIMIT);
	ck_assert_uint_eq(pending_of(context).pinned_bytes, MIB);
	ck_assert_uint_eq(statistics().passes[CUSTODY_CAUSE_BYTES], 0);
}
END_TEST

START_TEST(pinned_bytes_beyond_their_share_start_a_pass)
{
	set_limits(10, 1e-9, false);
	fixture_free_pinned(context, fixture_allocate_pinned(context, MIB));
	ck_assert_uint_eq(pending_of(context).pinned_bytes, 0);
	ck_assert_uint_eq(statistics().passes[CUSTODY_CAUSE_BYTES], 1);
}
END_TEST

/* ------------------------------------------------------------------ in flight */

START_TEST(pass_does_not_wait_and_releases_nothing_that_is_in_use)
{
	ck_ok(custody_context_push(context));
	fixture_hold(CU_STREAM_LEGACY);
	fixture_free_some(context, 11, KIB);
	ck_assert_uint_eq(pending_of(context).memory_count, 11);
	ck_assert_uint_eq(releases(), 0);
	fixture_release();
	ck_cu(cuCtxSynchronize());
	ck_ok(custody_flush(context, false));
	ck_assert_uint_eq(pending_of(context).memory_count, 0);
}
END_TEST

START_TEST(flush_that_waits_releases_what_was_in_use)
{
	CUdeviceptr block = fixture_allocate(context, KIB);
	unsigned int microseconds = 20000;
	void *parameters[] = { &microseconds };
	CUmodule module;
	CUfunction delay;

	ck_ok(custody_context_push(context));
	ck_cu(cuModuleLoadData(&module, "any"));
	ck_cu(cuModuleGetFunction(&delay, module, "sim_delay"));
	ck_cu(cuLaunchKernel(delay, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	fixture_free(context, block);
	ck_ok(custody_flush(context, false));
	ck_assert_uint_eq(memory_count(), 1);
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(memory_count(), 0);
	ck_assert(is_released(block));
	ck_assert_uint_gt(statistics().waited_ns, 1000000);
	ck_assert_uint_ge(statistics().longest_ns, statistics().waited_ns);
}
END_TEST

START_TEST(synchronise_gives_back_what_waits)
{
	fixture_free_some(context, 5, KIB);
	ck_ok(custody_context_synchronize(context));
	ck_assert_uint_eq(memory_count(), 0);
	ck_assert_uint_ge(statistics().passes[CUSTODY_CAUSE_IDLE], 1);
}
END_TEST

/* ------------------------------------------------------------------ scopes */

START_TEST(scope_suspends_passes)
{
	ck_ok(custody_defer_begin(context));
	fixture_free_some(context, 30, KIB);
	free_events(30);
	ck_assert_uint_eq(pending_of(context).memory_count, 30);
	ck_assert_uint_eq(pending_of(context).object_count, 30);
	ck_assert_uint_eq(releases(), 0);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_assert_uint_ge(statistics().passes[CUSTODY_CAUSE_SCOPE], 1);
}
END_TEST

START_TEST(scopes_nest_and_the_outermost_ends_the_pause)
{
	ck_ok(custody_defer_begin(context));
	ck_ok(custody_defer_begin(context));
	fixture_free_some(context, 12, KIB);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_FLUSH));
	ck_assert_uint_eq(pending_of(context).memory_count, 12);
	fixture_free_some(context, 1, KIB);
	ck_assert_uint_eq(pending_of(context).memory_count, 13);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER));
	ck_assert_uint_eq(pending_of(context).memory_count, 0);
}
END_TEST

START_TEST(leaving_below_the_limits_leaves_all_waiting)
{
	ck_ok(custody_defer_begin(context));
	fixture_free_some(context, 10, KIB);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER));
	ck_assert_uint_eq(pending_of(context).memory_count, 10);
}
END_TEST

START_TEST(leaving_alone_leaves_what_is_over_to_the_next_free)
{
	ck_ok(custody_defer_begin(context));
	fixture_free_some(context, 30, KIB);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_ALONE));
	ck_assert_uint_eq(pending_of(context).memory_count, 30);
	ck_assert_uint_eq(releases(), 0);
	fixture_free_some(context, 1, KIB);
	check_passed(pending_of(context).memory_count, 31);
}
END_TEST

START_TEST(leaving_with_a_flush_releases_what_is_below_the_limits)
{
	ck_ok(custody_defer_begin(context));
	fixture_free_some(context, 3, KIB);
	free_events(3);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_FLUSH));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

START_TEST(end_without_a_begin_is_refused)
{
	ck_is(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER), CUSTODY_E_INVALID);
	ck_ok(custody_defer_begin(context));
	ck_is(custody_defer_end(context, (enum custody_leave)7), CUSTODY_E_INVALID);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER));
	ck_is(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER), CUSTODY_E_INVALID);
}
END_TEST

static void *free_thirty(void *argument)
{
	fixture_free_some(argument, 30, KIB);
	return NULL;
}

static void on_a_thread(void *(*function)(void *argument), void *argument)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, function, argument), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

START_TEST(scope_holds_for_all_threads)
{
	ck_ok(custody_defer_begin(context));
	on_a_thread(free_thirty, context);
	ck_assert_uint_eq(pending_of(context).memory_count, 30);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER));
}
END_TEST

START_TEST(scope_does_not_touch_other_devices)
{
	struct custody_context *other = fixture_context(1);

	ck_ok(custody_defer_begin(context));
	fixture_free_some(other, 11, KIB);
	check_passed(pending_of(other).memory_count, 11);
	fixture_free_some(context, 11, KIB);
	ck_assert_uint_eq(pending_of(context).memory_count, 11);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER));
}
END_TEST

START_TEST(flush_is_done_in_an_open_scope_too)
{
	ck_ok(custody_defer_begin(context));
	fixture_free_some(context, 4, KIB);
	free_events(4);
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_assert_uint_ge(statistics().passes[CUSTODY_CAUSE_EXPLICIT], 1);
	fixture_free_some(context, 11, KIB);
	ck_assert_uint_eq(pending_of(context).memory_count, 11);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER));
}
END_TEST

/* ------------------------------------------------------------------ many threads */

enum { THREADS = 8, EACH = 200 };

static void *free_much(void *argument)
{
	struct custody_event *event;

	for (int i = 0; i < EACH; i++) {
		fixture_free_some(argument, 1, KIB);
		ck_ok(custody_event_create(argument, NULL, &event));
		ck_ok(custody_event_destroy(event));
		if (i % 50 == 0)
			ck_ok(custody_flush(argument, i % 100 == 0));
	}
	return NULL;
}

/* A queue without a lock was flushed by two threads at once. */
START_TEST(abort_inside_a_flush_of_a_server_with_many_threads)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, free_much, context);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_ok(custody_flush(context, true));
	ck_ok(custody_context_synchronize(context));
	ck_assert_uint_eq(statistics().queued, 2 * THREADS * EACH);
	ck_assert_uint_eq(statistics().released, 2 * THREADS * EACH);
	ck_assert_uint_eq(statistics().failed, 0);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

static void *destroy_one(void *argument)
{
	ck_ok(custody_event_destroy(argument));
	return NULL;
}

/* It failed, and that was taken for success. */
START_TEST(free_without_a_current_context_was_a_leak)
{
	struct custody_event *event;

	ck_ok(custody_event_create(context, NULL, &event));
	on_a_thread(destroy_one, event);
	ck_assert_uint_eq(pending_of(context).object_count, 1);
	ck_ok(custody_flush(context, false));
	ck_assert_uint_ge(fixture_calls("cuEventDestroy_v2"), 1);
	ck_assert_uint_eq(statistics().released, 1);
}
END_TEST

/* Items of every kind end by their own function, also where the context goes. */
START_TEST(item_was_released_by_the_function_of_another_kind)
{
	struct custody_stream *stream;
	struct custody_event *event;

	ck_ok(custody_stream_create(context, NULL, &stream));
	ck_ok(custody_event_create(context, NULL, &event));
	fixture_free_pinned(context, fixture_allocate_pinned(context, KIB));
	fixture_free_some(context, 1, KIB);
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_event_destroy(event));
	ck_assert_uint_eq(fixture_pending_count(context), 4);
	fixture_forget();
	ck_ok(custody_context_reset(context));
	ck_assert_uint_eq(fixture_calls("cuMemFreeHost"), 1);
	ck_assert_uint_ge(fixture_calls("cuStreamDestroy_v2"), 1);
	ck_assert_uint_ge(fixture_calls("cuEventDestroy_v2"), 1);
	ck_assert_uint_eq(statistics().released, 4);
	ck_assert_uint_eq(statistics().failed, 0);
}
END_TEST

/* ------------------------------------------------------------------ the environment */

START_TEST(names_of_numba_are_honoured)
{
	struct custody_defer_limits limits = { .size = sizeof(limits) };

	setenv("NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT", "3", 1);
	setenv("NUMBA_CUDA_MAX_PENDING_DEALLOCS_RATIO", "0.5", 1);
	ck_ok(custody_defer_limits(&limits));
	ck_assert_int_eq(limits.max_count, 3);
	ck_assert_double_eq(limits.max_ratio, 0.5);
	context = fixture_context(0);
	fixture_free_some(context, 3, KIB);
	ck_assert_uint_eq(pending_of(context).memory_count, 3);
	fixture_free_some(context, 1, KIB);
	check_passed(pending_of(context).memory_count, 4);
}
END_TEST

START_TEST(names_of_our_own_come_first)
{
	struct custody_defer_limits limits = { .size = sizeof(limits) };

	setenv("NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT", "3", 1);
	setenv("CUSTODY_MAX_PENDING", "5", 1);
	setenv("CUSTODY_MAX_PENDING_RATIO", "0.25", 1);
	ck_ok(custody_defer_limits(&limits));
	ck_assert_int_eq(limits.max_count, 5);
	ck_assert_double_eq(limits.max_ratio, 0.25);
}
END_TEST

START_TEST(value_that_is_no_number_leaves_the_default)
{
	struct custody_defer_limits limits = { .size = sizeof(limits) };

	setenv("NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT", "many", 1);
	ck_ok(custody_defer_limits(&limits));
	ck_assert_int_eq(limits.max_count, 10);
}
END_TEST

static TCase *count_and_bytes(void)
{
	TCase *rules = tcase_create("count and bytes");

	tcase_add_checked_fixture(rules, begin, NULL);
	tcase_add_test(rules, ten_frees_wait);
	tcase_add_test(rules, eleventh_free_starts_a_pass_and_goes_with_it);
	tcase_add_test(rules, each_queue_has_ten_of_its_own);
	tcase_add_test(rules, count_of_zero_puts_nothing_off);
	tcase_add_test(rules, negative_count_is_as_zero);
	tcase_add_test(rules, limit_set_at_run_time_holds_from_the_next_free_on);
	tcase_add_test(rules, bytes_of_just_the_limit_wait);
	tcase_add_test(rules, one_byte_beyond_the_limit_starts_a_pass);
	tcase_add_test(rules, bytes_of_several_frees_add_up);
	tcase_add_test(rules, ratio_of_zero_frees_memory_at_once_and_objects_wait);
	tcase_add_test(rules, ratio_above_one_is_no_limit);
	tcase_add_test(rules, negative_ratio_and_no_number_are_refused);
	tcase_add_test(rules, pinned_bytes_are_counted_apart_from_those_of_the_device);
	tcase_add_test(rules, pinned_bytes_beyond_their_share_start_a_pass);
	return rules;
}

static TCase *passes_and_scopes(void)
{
	TCase *rules = tcase_create("passes and scopes");

	tcase_add_checked_fixture(rules, begin, NULL);
	tcase_add_test(rules, pass_does_not_wait_and_releases_nothing_that_is_in_use);
	tcase_add_test(rules, flush_that_waits_releases_what_was_in_use);
	tcase_add_test(rules, synchronise_gives_back_what_waits);
	tcase_add_test(rules, scope_suspends_passes);
	tcase_add_test(rules, scopes_nest_and_the_outermost_ends_the_pause);
	tcase_add_test(rules, leaving_below_the_limits_leaves_all_waiting);
	tcase_add_test(rules, leaving_alone_leaves_what_is_over_to_the_next_free);
	tcase_add_test(rules, leaving_with_a_flush_releases_what_is_below_the_limits);
	tcase_add_test(rules, end_without_a_begin_is_refused);
	tcase_add_test(rules, scope_holds_for_all_threads);
	tcase_add_test(rules, scope_does_not_touch_other_devices);
	tcase_add_test(rules, flush_is_done_in_an_open_scope_too);
	return rules;
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("defer");
	TCase *environment = tcase_create("environment"), *threads = tcase_create("threads");

	tcase_add_checked_fixture(threads, begin, NULL);
	tcase_add_test(threads, abort_inside_a_flush_of_a_server_with_many_threads);
	tcase_add_test(threads, free_without_a_current_context_was_a_leak);
	tcase_add_test(threads, item_was_released_by_the_function_of_another_kind);
	tcase_add_test(environment, names_of_numba_are_honoured);
	tcase_add_test(environment, names_of_our_own_come_first);
	tcase_add_test(environment, value_that_is_no_number_leaves_the_default);
	suite_add_tcase(suite, count_and_bytes());
	suite_add_tcase(suite, passes_and_scopes());
	suite_add_tcase(suite, threads);
	suite_add_tcase(suite, environment);
	return suite;
}
