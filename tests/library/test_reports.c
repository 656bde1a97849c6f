/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went wrong elsewhere, by docs/reports.md, as far as it is of no noun alone: each
 * test is named after it, and shows that it does not go wrong here.
 */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

/* The wrapper of the driver's function, whose frees are put off as the library's are. */
#define DRIVER(symbol) ((__typeof__(&symbol))custody_driver_function(#symbol))

static struct custody_resource *device_memory(struct custody_context *context)
{
	struct custody_resource *resource;

	ck_ok(custody_resource_device(context, &resource));
	return resource;
}

static struct custody_buffer *make(struct custody_resource *resource, size_t bytes)
{
	struct custody_buffer *buffer;

	ck_ok(custody_buffer_create(resource, bytes, NULL, &buffer));
	return buffer;
}

static struct custody_defer_statistics statistics_of(struct custody_context *context)
{
	struct custody_defer_statistics statistics = { .size = sizeof(statistics) };

	ck_ok(custody_defer_statistics(context, &statistics));
	return statistics;
}

static struct custody_stream *nonblocking(struct custody_context *context)
{
	struct custody_stream_options options = {
		.size = sizeof(options),
		.is_nonblocking = true,
	};
	struct custody_stream *stream;

	ck_ok(custody_stream_create(context, &options, &stream));
	return stream;
}

/* ------------------------------------------------------------------ what is queued */

static void retire_one_of_each(struct custody_context *context)
{
	struct custody_resource *memory[] = { device_memory(context), NULL, NULL };
	struct custody_stream *stream = nonblocking(context);
	struct custody_event *event;
	CUmodule module;

	ck_ok(custody_resource_managed(context, true, &memory[1]));
	ck_ok(custody_resource_pinned(context, 0, &memory[2]));
	ck_ok(custody_event_create(context, NULL, &event));
	ck_cu(DRIVER(cuModuleLoadData)(&module, "image"));
	for (int i = 0; i < 3; i++) {
		ck_ok(custody_buffer_release(make(memory[i], MIB)));
		ck_ok(custody_resource_release(memory[i]));
	}
	ck_ok(custody_event_destroy(event));
	ck_ok(custody_stream_destroy(stream));
	ck_cu(DRIVER(cuModuleUnload)(module));
}

START_TEST(finalizer_took_an_item_for_one_of_another_type)
{
	struct custody_context *context;
	unsigned int events;
	size_t before;

	fixture_watch();
	context = fixture_context(0);
	ck_ok(custody_context_push(context));
	ck_ok(custody_flush(context, true));
	before = fixture_free_bytes(context);
	retire_one_of_each(context);
	ck_assert_uint_eq(fixture_pending_count(context), 6);
	fixture_forget();
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_assert_uint_eq(statistics_of(context).failed, 0);
	/* Managed memory may be refused by the one and taken by the other. */
	ck_assert_uint_ge(fixture_calls("cuMemFree_v2") + fixture_calls("cuMemFreeAsync"), 2);
	ck_assert_uint_eq(fixture_calls("cuMemFreeHost"), 1);
	ck_assert_uint_eq(fixture_calls("cuStreamDestroy_v2"), 1);
	ck_assert_uint_eq(fixture_calls("cuModuleUnload"), 1);
	events = fixture_calls("cuEventDestroy_v2");
	ck_assert_uint_ge(events, 1);
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

static int end_with_a_module_pending(void)
{
	struct custody_context *context;
	CUmodule module;

	story_check(!custody_context_current(-1, &context));
	story_check(!DRIVER(cuModuleLoadData)(&module, "image"));
	story_check(!custody_defer_begin(context));
	story_check(!DRIVER(cuModuleUnload)(module));
	return 0;
}

START_TEST(module_was_unloaded_after_the_driver_had_begun_to_go)
{
	static const char *const settings[] = { "SIMCUDA_VERBOSE=1", NULL };
	static char text[1 << 16];

	ck_assert_int_eq(fixture_run("module", settings, text, sizeof(text)), 0);
	ck_assert_ptr_nonnull(strstr(text, "cuModuleLoadData"));
	ck_assert_ptr_null(strstr(text, "cuModuleUnload"));
}
END_TEST

enum { THREADS = 8, ROUNDS = 200 };

static void *free_and_flush(void *argument)
{
	struct custody_context *context = argument;
	struct custody_resource *resource = device_memory(context);

	for (int i = 0; i < ROUNDS; i++) {
		ck_ok(custody_buffer_release(make(resource, 4 * KIB)));
		if (i % 8 == 0)
			ck_ok(custody_flush(context, i % 16 == 0));
	}
	ck_ok(custody_resource_release(resource));
	return NULL;
}

START_TEST(threads_that_emptied_one_queue_aborted)
{
	struct custody_context *context = fixture_context(0);
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, free_and_flush, context), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_assert_uint_eq(statistics_of(context).failed, 0);
	ck_assert_uint_ge(statistics_of(context).released, THREADS * ROUNDS);
}
END_TEST

static void *free_with_nothing_current(void *argument)
{
	CUcontext current = NULL;

	ck_cu(cuCtxSetCurrent(NULL));
	ck_ok(custody_buffer_release(argument));
	ck_cu(cuCtxGetCurrent(&current));
	ck_assert_ptr_null(current);
	return NULL;
}

START_TEST(free_without_a_context_was_taken_for_success)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = device_memory(context);
	struct custody_buffer *buffer;
	pthread_t thread;
	size_t before;

	ck_ok(custody_flush(context, true));
	before = fixture_free_bytes(context);
	buffer = make(resource, 4 * MIB);
	ck_assert_uint_lt(fixture_free_bytes(context), before);
	ck_assert_int_eq(pthread_create(&thread, NULL, free_with_nothing_current, buffer), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(statistics_of(context).failed, 0);
	ck_assert_uint_eq(fixture_free_bytes(context), before);
	ck_ok(custody_resource_release(resource));
}
END_TEST

/* ------------------------------------------------------------------ what is still used */

START_TEST(page_locked_memory_was_freed_while_it_was_set)
{
	struct custody_resource *resource;
	struct custody_context *context;
	struct custody_buffer *buffer;
	struct custody_stream *stream;

	fixture_watch();
	context = fixture_context(0);
	ck_ok(custody_context_push(context));
	stream = nonblocking(context);
	ck_ok(custody_resource_pinned(context, CUSTODY_HOST_MAPPED, &resource));
	buffer = make(resource, MIB);
	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_buffer_fill(buffer, "x", 1, stream));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_flush(context, false));
	ck_assert_uint_eq(fixture_calls("cuMemFreeHost"), 0);
	fixture_release();
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_calls("cuMemFreeHost"), 1);
	ck_ok(custody_resource_release(resource));
}
END_TEST

struct door {
	int is_inside, is_open;
};

static void wait_for_the_door(struct custody_stream *stream, CUresult status, void *argument)
{
	struct door *door = argument;

	(void)stream, (void)status;
	__atomic_store_n(&door->is_inside, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&door->is_open, __ATOMIC_ACQUIRE))
		sched_yield();
}

/* Whoever waits for the callback in here waits for ever: the test would run out of time. */
START_TEST(free_and_a_host_callback_waited_for_each_other)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = device_memory(context);
	struct custody_stream *stream = nonblocking(context);
	struct door door = { 0, 0 };

	ck_ok(custody_stream_add_callback(stream, wait_for_the_door, &door));
	while (!__atomic_load_n(&door.is_inside, __ATOMIC_ACQUIRE))
		sched_yield();
	for (int i = 0; i < 30; i++)
		ck_ok(custody_buffer_release(make(resource, MIB)));
	ck_ok(custody_flush(context, false));
	ck_ok(custody_stream_destroy(stream));
	__atomic_store_n(&door.is_open, 1, __ATOMIC_RELEASE);
	ck_ok(custody_context_synchronize(context));
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_ok(custody_resource_release(resource));
}
END_TEST

/* ------------------------------------------------------------------ out of memory */

enum { LARGE = 80 * MIB };

/* A device with room for one large block. */
static struct custody_context *small_device(void)
{
	setenv("SIMCUDA_MEMORY", "128M", 1);
	setenv("SIMCUDA_CONTEXT", "1M", 1);
	return fixture_context(0);
}

START_TEST(error_that_was_handled_was_found_by_the_next_call)
{
	struct custody_context *context = small_device();
	struct custody_resource *resource = device_memory(context);
	struct custody_defer_error error;
	struct custody_buffer *buffer = NULL;

	ck_is(custody_buffer_create(resource, 2 * LARGE, NULL, &buffer), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_ptr_null(buffer);
	buffer = make(resource, MIB);
	ck_ok(custody_buffer_fill(buffer, "x", 1, NULL));
	ck_ok(custody_context_synchronize(context));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(custody_defer_errors(&error, 1, NULL), 0);
	ck_ok(custody_resource_release(resource));
}
END_TEST

static void *release_soon(void *argument)
{
	(void)argument;
	usleep(50000);
	fixture_release();
	return NULL;
}

/* The only block there is room for has been freed, behind work that is not done yet. */
START_TEST(memory_ran_out_although_the_wait_made_room)
{
	struct custody_context *context = small_device();
	struct custody_stream *busy, *other;
	struct custody_resource *pool;
	struct custody_buffer *buffer;
	pthread_t thread;

	ck_ok(custody_context_push(context));
	busy = nonblocking(context);
	other = nonblocking(context);
	ck_ok(custody_resource_pool(context, NULL, &pool));
	ck_ok(custody_buffer_create(pool, LARGE, busy, &buffer));
	fixture_hold(custody_stream_handle(busy));
	ck_ok(custody_buffer_release(buffer));
	ck_assert_int_eq(pthread_create(&thread, NULL, release_soon, NULL), 0);
	ck_ok(custody_buffer_create(pool, LARGE, other, &buffer));
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_resource_release(pool));
}
END_TEST

START_TEST(memory_ran_out_although_a_pool_held_it_unused)
{
	struct custody_context *context = small_device();
	struct custody_resource *resource = device_memory(context), *pool, *twin;

	ck_ok(custody_resource_pool(context, NULL, &pool));
	ck_ok(custody_resource_pool(context, NULL, &twin));
	ck_ok(custody_buffer_release(make(pool, LARGE)));
	ck_ok(custody_context_synchronize(context));
	ck_ok(custody_buffer_release(make(resource, LARGE)));
	ck_ok(custody_buffer_release(make(twin, LARGE)));
	ck_ok(custody_buffer_release(make(pool, LARGE)));
	ck_ok(custody_resource_release(pool));
	ck_ok(custody_resource_release(twin));
	ck_ok(custody_resource_release(resource));
}
END_TEST

START_TEST(out_of_memory_said_nothing_of_what_was_free)
{
	struct custody_context *context = small_device();
	struct custody_resource *resource = device_memory(context);
	struct custody_buffer *buffer = make(resource, MIB);
	char wanted[32], free_bytes[32], total[32];
	struct custody_memory_info info = { .size = sizeof(info) };

	ck_is(custody_resource_allocate(resource, 2 * LARGE, NULL, &(void *){ NULL }),
	      CUDA_ERROR_OUT_OF_MEMORY);
	ck_ok(custody_context_memory_info(context, &info));
	snprintf(wanted, sizeof(wanted), "%d", 2 * LARGE);
	snprintf(free_bytes, sizeof(free_bytes), "%zu", info.free_bytes);
	snprintf(total, sizeof(total), "%zu", info.total_bytes);
	ck_is(custody_resource_allocate(resource, 2 * LARGE, NULL, &(void *){ NULL }),
	      CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), wanted));
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), free_bytes));
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), total));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_resource_release(resource));
}
END_TEST

const struct fixture_story fixture_stories[] = {
	{ "module", end_with_a_module_pending },
	{ NULL, NULL },
};

Suite *library_suite(void)
{
	Suite *suite = suite_create("reports");
	TCase *queued = tcase_create("queued"), *used = tcase_create("used"),
	      *full = tcase_create("full");

	tcase_add_test(queued, finalizer_took_an_item_for_one_of_another_type);
	tcase_add_test(queued, module_was_unloaded_after_the_driver_had_begun_to_go);
	tcase_add_test(queued, threads_that_emptied_one_queue_aborted);
	tcase_add_test(queued, free_without_a_context_was_taken_for_success);
	suite_add_tcase(suite, queued);
	tcase_add_test(used, page_locked_memory_was_freed_while_it_was_set);
	tcase_add_test(used, free_and_a_host_callback_waited_for_each_other);
	suite_add_tcase(suite, used);
	tcase_add_test(full, error_that_was_handled_was_found_by_the_next_call);
	tcase_add_test(full, memory_ran_out_although_the_wait_made_room);
	tcase_add_test(full, memory_ran_out_although_a_pool_held_it_unused);
	tcase_add_test(full, out_of_memory_said_nothing_of_what_was_free);
	suite_add_tcase(suite, full);
	return suite;
}
