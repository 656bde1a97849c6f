/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: which one is current, where things are made, memory, peers, captures. */
#include "fixture.h"

#include <pthread.h>

static void begin(void)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
}

static CUcontext current_handle(void)
{
	CUcontext handle = NULL;

	ck_cu(cuCtxGetCurrent(&handle));
	return handle;
}

static void on_a_thread(void *(*function)(void *argument), void *argument)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, function, argument), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* ------------------------------------------------------------------ which one is current */

START_TEST(without_a_current_one_it_is_device_0_which_becomes_current)
{
	struct custody_context *context, *again;

	ck_ok(custody_context_current(-1, &context));
	ck_assert_ptr_eq(custody_context_device(context), fixture_device(0));
	ck_assert_ptr_eq(current_handle(), custody_context_handle(context));
	ck_ok(custody_context_current(-1, &again));
	ck_assert_ptr_eq(again, context);
}
END_TEST

START_TEST(asked_for_by_its_number_a_device_becomes_current)
{
	struct custody_context *first, *second, *now;

	ck_ok(custody_context_current(0, &first));
	ck_ok(custody_context_current(1, &second));
	ck_assert_ptr_eq(current_handle(), custody_context_handle(second));
	ck_ok(custody_context_current(-1, &now));
	ck_assert_ptr_eq(now, second);
	ck_is(custody_context_current(2, &now), CUSTODY_E_NO_DEVICE);
	ck_is(custody_context_current(-2, &now), CUSTODY_E_NO_DEVICE);
}
END_TEST

START_TEST(context_of_a_device_leaves_current_what_was)
{
	struct custody_context *context;

	ck_ok(custody_context_of_device(fixture_device(1), &context));
	ck_assert_ptr_nonnull(custody_context_handle(context));
	ck_assert_ptr_null(current_handle());
}
END_TEST

/* The program's own primary context was ignored, and another one was used beside it. */
START_TEST(third_party_active_context_ignored)
{
	struct custody_context *context;
	CUcontext handle;

	ck_cu(cuInit(0));
	ck_cu(cuDevicePrimaryCtxRetain(&handle, 1));
	ck_cu(cuCtxSetCurrent(handle));
	ck_ok(custody_context_current(-1, &context));
	ck_assert_ptr_eq(custody_context_handle(context), handle);
	ck_assert_ptr_eq(custody_context_device(context), fixture_device(1));
	ck_assert_ptr_eq(current_handle(), handle);
}
END_TEST

START_TEST(current_context_that_is_nobodys_is_refused)
{
	struct custody_context *context = NULL, *wrapped;
	CUcontext handle;

	ck_cu(cuInit(0));
	ck_cu(cuCtxCreate(&handle, NULL, 0, 0));
	ck_is(custody_context_current(-1, &context), CUSTODY_E_UNKNOWN);
	ck_is(custody_synchronize(), CUSTODY_E_UNKNOWN);
	ck_assert_ptr_null(context);
	ck_assert_ptr_eq(current_handle(), handle);
	ck_ok(custody_context_wrap(handle, &wrapped));
	ck_ok(custody_context_current(-1, &context));
	ck_assert_ptr_eq(context, wrapped);
	ck_ok(custody_synchronize());
}
END_TEST

START_TEST(context_beside_a_primary_one_is_refused_as_well)
{
	struct custody_context *context = NULL;
	CUcontext handle;

	fixture_context(0);
	ck_cu(cuCtxCreate(&handle, NULL, 0, 0));
	ck_is(custody_context_current(-1, &context), CUSTODY_E_UNKNOWN);
	ck_assert_ptr_null(context);
}
END_TEST

START_TEST(current_device_is_that_of_the_current_context)
{
	struct custody_device *device = fixture_device(0);

	ck_ok(custody_device_current(&device));
	ck_assert_ptr_null(device);
	ck_ok(custody_device_select(1, &device));
	ck_assert_ptr_eq(device, fixture_device(1));
	ck_ok(custody_device_select(0, NULL));
	ck_ok(custody_device_current(&device));
	ck_assert_ptr_eq(device, fixture_device(0));
}
END_TEST

START_TEST(selecting_replaces_what_is_current)
{
	CUcontext popped;

	ck_ok(custody_device_select(0, NULL));
	ck_ok(custody_device_select(1, NULL));
	ck_ok(custody_device_select(0, NULL));
	ck_cu(cuCtxPopCurrent(&popped));
	ck_assert_ptr_null(current_handle());
}
END_TEST

/* ------------------------------------------------------------------ push and pop */

START_TEST(scopes_of_devices_nest)
{
	struct custody_device *first = fixture_device(0), *second = fixture_device(1), *now;

	ck_ok(custody_device_begin(first));
	ck_ok(custody_device_begin(second));
	ck_ok(custody_device_begin(first));
	ck_ok(custody_device_end(first));
	ck_ok(custody_device_current(&now));
	ck_assert_ptr_eq(now, second);
	ck_ok(custody_device_end(second));
	ck_ok(custody_device_end(first));
	ck_assert_ptr_null(current_handle());
}
END_TEST

START_TEST(pop_finds_itself_on_top_or_changes_nothing)
{
	struct custody_context *first = fixture_context(0), *second = fixture_context(1);

	ck_ok(custody_context_push(first));
	ck_ok(custody_context_push(second));
	ck_is(custody_context_pop(first), CUSTODY_E_CONTEXT_ORDER);
	ck_assert_ptr_eq(current_handle(), custody_context_handle(second));
	ck_is(custody_device_end(fixture_device(0)), CUSTODY_E_CONTEXT_ORDER);
	ck_ok(custody_context_pop(second));
	ck_ok(custody_context_pop(first));
	ck_is(custody_context_pop(first), CUSTODY_E_CONTEXT_ORDER);
}
END_TEST

static int note_current(void *argument)
{
	*(CUcontext *)argument = current_handle();
	return 42;
}

static int switch_device(void *argument)
{
	(void)argument;
	ck_ok(custody_context_push(fixture_context(0)));
	return 0;
}

START_TEST(call_runs_in_the_context_and_puts_back_what_was)
{
	struct custody_context *first = fixture_context(0), *second = fixture_context(1);
	CUcontext seen = NULL;

	ck_ok(custody_context_push(first));
	ck_assert_int_eq(custody_context_call(second, note_current, &seen), 42);
	ck_assert_ptr_eq(seen, custody_context_handle(second));
	ck_assert_ptr_eq(current_handle(), custody_context_handle(first));
	ck_assert_int_eq(custody_context_call(first, note_current, &seen), 42);
	ck_assert_ptr_eq(seen, custody_context_handle(first));
	ck_assert_ptr_eq(current_handle(), custody_context_handle(first));
}
END_TEST

START_TEST(call_without_a_context_makes_device_0_current)
{
	CUcontext seen = NULL;

	ck_assert_int_eq(custody_context_call(NULL, note_current, &seen), 42);
	ck_assert_ptr_eq(seen, custody_context_handle(fixture_context(0)));
}
END_TEST

START_TEST(call_that_leaves_another_context_current_is_told)
{
	ck_is(custody_context_call(fixture_context(1), switch_device, NULL),
	      CUSTODY_E_CONTEXT_ORDER);
}
END_TEST

/* ------------------------------------------------------------------ where things are made */

static void *use_device_1(void *argument)
{
	struct custody_context *context = argument;
	struct custody_event *event;

	ck_ok(custody_context_synchronize(context));
	ck_ok(custody_event_create(context, NULL, &event));
	ck_ok(custody_event_record(event, NULL));
	ck_ok(custody_event_synchronize(event));
	ck_ok(custody_event_destroy(event));
	ck_assert_ptr_null(current_handle());
	return NULL;
}

START_TEST(copy_in_a_new_thread_had_no_current_context)
{
	on_a_thread(use_device_1, fixture_context(1));
}
END_TEST

START_TEST(stream_of_device_1_was_made_on_device_0)
{
	struct custody_context *first = fixture_context(0), *second = fixture_context(1);
	struct custody_stream *stream;
	CUcontext owner;

	ck_ok(custody_context_push(first));
	ck_ok(custody_stream_create(second, NULL, &stream));
	ck_cu(cuStreamGetCtx(custody_stream_handle(stream), &owner));
	ck_assert_ptr_eq(owner, custody_context_handle(second));
	ck_assert_ptr_eq(custody_stream_context(stream), second);
	ck_assert_ptr_eq(current_handle(), custody_context_handle(first));
	ck_ok(custody_stream_destroy(stream));
	ck_assert_ptr_eq(current_handle(), custody_context_handle(first));
}
END_TEST

static void *free_on_device_0(void *argument)
{
	ck_ok(custody_device_select(0, NULL));
	ck_ok(custody_event_destroy(argument));
	ck_assert_ptr_eq(current_handle(), custody_context_handle(fixture_context(0)));
	return NULL;
}

START_TEST(free_from_a_thread_with_another_device_current)
{
	struct custody_context *second = fixture_context(1);
	struct custody_event *event;

	ck_ok(custody_event_create(second, NULL, &event));
	on_a_thread(free_on_device_0, event);
	ck_assert_uint_eq(fixture_pending_count(second), 1);
	ck_assert_uint_eq(fixture_pending_count(fixture_context(0)), 0);
	ck_ok(custody_flush(second, true));
	ck_assert_uint_eq(fixture_pending_count(second), 0);
}
END_TEST

static void *release_on_device_0(void *argument)
{
	ck_ok(custody_device_select(0, NULL));
	ck_ok(custody_buffer_release(argument));
	ck_assert_ptr_eq(current_handle(), custody_context_handle(fixture_context(0)));
	return NULL;
}

/* It freed in whatever context it found. */
START_TEST(finalizer_thread_freed_with_another_gpu_current)
{
	struct custody_context *second = fixture_context(1);
	struct custody_resource *resource;
	struct custody_buffer *buffer;

	ck_ok(custody_device_select(0, NULL));
	ck_ok(custody_resource_device(second, &resource));
	ck_ok(custody_buffer_create(resource, MIB, NULL, &buffer));
	ck_assert_ptr_eq(custody_buffer_context(buffer), second);
	on_a_thread(release_on_device_0, buffer);
	ck_assert_uint_eq(fixture_pending_bytes(second), MIB);
	ck_assert_uint_eq(fixture_pending_bytes(fixture_context(0)), 0);
	ck_ok(custody_flush(second, true));
	ck_assert_uint_eq(fixture_pending_bytes(second), 0);
	ck_ok(custody_resource_release(resource));
}
END_TEST

START_TEST(function_that_fails_leaves_current_what_was)
{
	struct custody_context *first = fixture_context(0), *second = fixture_context(1);

	ck_ok(custody_context_push(first));
	ck_is(custody_defer_end(second, CUSTODY_LEAVE_IF_OVER), CUSTODY_E_INVALID);
	ck_is(custody_context_enable_peer(second, second), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_ptr_eq(current_handle(), custody_context_handle(first));
}
END_TEST

START_TEST(null_is_refused_and_not_followed)
{
	struct custody_context *context = fixture_context(0);
	struct custody_device *device = fixture_device(0);
	bool can;
	int value;

	ck_is(custody_context_current(-1, NULL), CUSTODY_E_INVALID);
	ck_is(custody_context_of_device(NULL, &context), CUSTODY_E_INVALID);
	ck_is(custody_context_of_device(device, NULL), CUSTODY_E_INVALID);
	ck_is(custody_context_push(NULL), CUSTODY_E_INVALID);
	ck_is(custody_context_pop(NULL), CUSTODY_E_INVALID);
	ck_is(custody_context_call(context, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_context_memory_info(context, NULL), CUSTODY_E_INVALID);
	ck_is(custody_context_synchronize(NULL), CUSTODY_E_INVALID);
	ck_is(custody_context_reset(NULL), CUSTODY_E_INVALID);
	ck_is(custody_context_enable_peer(NULL, context), CUSTODY_E_INVALID);
	ck_is(custody_context_disable_peer(context, NULL), CUSTODY_E_INVALID);
	ck_is(custody_context_wrap(NULL, &context), CUSTODY_E_INVALID);
	ck_is(custody_device_begin(NULL), CUSTODY_E_INVALID);
	ck_is(custody_device_end(NULL), CUSTODY_E_INVALID);
	ck_is(custody_device_reset(NULL), CUSTODY_E_INVALID);
	ck_is(custody_device_info(NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_device_attribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, &value),
	      CUSTODY_E_INVALID);
	ck_is(custody_device_can_access_peer(device, NULL, &can), CUSTODY_E_INVALID);
	ck_is(custody_defer_begin(NULL), CUSTODY_E_INVALID);
	ck_is(custody_flush(NULL, true), CUSTODY_E_INVALID);
	ck_is(custody_pending(context, NULL), CUSTODY_E_INVALID);
	ck_assert_ptr_null(custody_context_handle(NULL));
	ck_assert_ptr_null(custody_context_device(NULL));
	ck_assert_int_eq(custody_device_ordinal(NULL), -1);
}
END_TEST

/* ------------------------------------------------------------------ memory */

START_TEST(memory_was_not_free_after_its_end_and_nothing_said_why)
{
	struct custody_context *context = fixture_context(0);
	struct custody_memory_info before = { .size = sizeof(before) }, after = before;

	fixture_free(context, fixture_allocate(context, 1));
	ck_ok(custody_flush(context, true)); /* what the queue itself needs is there from now on */
	ck_ok(custody_context_memory_info(context, &before));
	ck_assert_uint_eq(before.pending_bytes, 0);
	fixture_free(context, fixture_allocate(context, 10 * MIB));
	ck_ok(custody_context_memory_info(context, &after));
	ck_assert_uint_eq(after.pending_bytes, 10 * MIB);
	ck_assert_uint_eq(after.free_bytes, before.free_bytes - 10 * MIB);
	ck_assert_uint_eq(after.total_bytes, before.total_bytes);
	ck_ok(custody_flush(context, true));
	ck_ok(custody_context_memory_info(context, &after));
	ck_assert_uint_eq(after.pending_bytes, 0);
	ck_assert_uint_eq(after.free_bytes, before.free_bytes);
}
END_TEST

/* A release that is with the driver is back only once its stream was synchronised. */
START_TEST(memory_whose_release_is_under_way_is_pending)
{
	struct custody_context *context = fixture_context(0);
	struct custody_memory_info info = { .size = sizeof(info) };
	struct custody_pending pending = { .size = sizeof(pending) };

	CUdeviceptr blocks[11];

	for (int i = 0; i < 11; i++)
		blocks[i] = fixture_allocate(context, KIB);
	for (int i = 0; i < 11; i++)
		fixture_free(context, blocks[i]);
	ck_ok(custody_pending(context, &pending));
	ck_assert_uint_gt(pending.issued_bytes, 0);
	ck_ok(custody_context_memory_info(context, &info));
	ck_assert_uint_eq(info.pending_bytes, pending.issued_bytes + pending.memory_bytes);
}
END_TEST

START_TEST(memory_is_told_of_each_device_apart)
{
	struct custody_context *first = fixture_context(0), *second = fixture_context(1);
	size_t before = fixture_free_bytes(second);

	fixture_allocate(first, 100 * MIB);
	ck_assert_uint_eq(fixture_free_bytes(second), before);
}
END_TEST

/* ------------------------------------------------------------------ peers */

START_TEST(peer_may_be_enabled_and_disabled_twice)
{
	struct custody_context *first = fixture_context(0), *second = fixture_context(1);
	bool can = false;

	ck_ok(custody_device_can_access_peer(fixture_device(0), fixture_device(1), &can));
	ck_assert(can);
	ck_ok(custody_context_enable_peer(first, second));
	ck_ok(custody_context_enable_peer(first, second));
	ck_ok(custody_context_disable_peer(first, second));
	ck_ok(custody_context_disable_peer(first, second));
	ck_assert_ptr_null(current_handle());
}
END_TEST

START_TEST(devices_that_cannot_reach_each_other_say_so)
{
	bool can = true;

	setenv("SIMCUDA_PEER", "0", 1);
	ck_ok(custody_device_can_access_peer(fixture_device(0), fixture_device(1), &can));
	ck_assert(!can);
	ck_is(custody_context_enable_peer(fixture_context(0), fixture_context(1)),
	      CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}
END_TEST

/* ------------------------------------------------------------------ captures */

START_TEST(nothing_is_released_during_a_capture_that_was_told_of)
{
	struct custody_context *context = fixture_context(0);

	ck_ok(custody_capture_begin());
	ck_ok(custody_capture_begin());
	fixture_free_some(context, 20, KIB);
	ck_assert_uint_eq(fixture_pending_count(context), 20);
	ck_is(custody_flush(context, false), CUSTODY_E_CAPTURING);
	ck_ok(custody_capture_end());
	ck_is(custody_flush(context, true), CUSTODY_E_CAPTURING);
	ck_ok(custody_capture_end());
	ck_is(custody_capture_end(), CUSTODY_E_INVALID);
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

START_TEST(no_context_ends_nor_is_waited_for_during_a_capture)
{
	struct custody_context *context = fixture_context(0);

	ck_ok(custody_capture_begin());
	ck_is(custody_context_reset(context), CUSTODY_E_CAPTURING);
	ck_is(custody_device_reset(fixture_device(0)), CUSTODY_E_CAPTURING);
	ck_is(custody_shutdown(), CUSTODY_E_CAPTURING);
	ck_is(custody_context_synchronize(context), CUSTODY_E_CAPTURING);
	ck_is(custody_synchronize(), CUSTODY_E_CAPTURING);
	ck_ok(custody_capture_end());
	ck_ok(custody_context_reset(context));
}
END_TEST

static TCase *current_case(void)
{
	TCase *rules = tcase_create("current");

	tcase_add_checked_fixture(rules, begin, NULL);
	tcase_add_test(rules, without_a_current_one_it_is_device_0_which_becomes_current);
	tcase_add_test(rules, asked_for_by_its_number_a_device_becomes_current);
	tcase_add_test(rules, context_of_a_device_leaves_current_what_was);
	tcase_add_test(rules, third_party_active_context_ignored);
	tcase_add_test(rules, current_context_that_is_nobodys_is_refused);
	tcase_add_test(rules, context_beside_a_primary_one_is_refused_as_well);
	tcase_add_test(rules, current_device_is_that_of_the_current_context);
	tcase_add_test(rules, selecting_replaces_what_is_current);
	tcase_add_test(rules, scopes_of_devices_nest);
	tcase_add_test(rules, pop_finds_itself_on_top_or_changes_nothing);
	tcase_add_test(rules, call_runs_in_the_context_and_puts_back_what_was);
	tcase_add_test(rules, call_without_a_context_makes_device_0_current);
	tcase_add_test(rules, call_that_leaves_another_context_current_is_told);
	return rules;
}

static TCase *place_case(void)
{
	TCase *rules = tcase_create("place");

	tcase_add_checked_fixture(rules, begin, NULL);
	tcase_add_test(rules, copy_in_a_new_thread_had_no_current_context);
	tcase_add_test(rules, stream_of_device_1_was_made_on_device_0);
	tcase_add_test(rules, free_from_a_thread_with_another_device_current);
	tcase_add_test(rules, finalizer_thread_freed_with_another_gpu_current);
	tcase_add_test(rules, function_that_fails_leaves_current_what_was);
	tcase_add_test(rules, null_is_refused_and_not_followed);
	tcase_add_test(rules, memory_was_not_free_after_its_end_and_nothing_said_why);
	tcase_add_test(rules, memory_whose_release_is_under_way_is_pending);
	tcase_add_test(rules, memory_is_told_of_each_device_apart);
	tcase_add_test(rules, peer_may_be_enabled_and_disabled_twice);
	tcase_add_test(rules, devices_that_cannot_reach_each_other_say_so);
	tcase_add_test(rules, nothing_is_released_during_a_capture_that_was_told_of);
	tcase_add_test(rules, no_context_ends_nor_is_waited_for_during_a_capture);
	return rules;
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("context");

	suite_add_tcase(suite, current_case());
	suite_add_tcase(suite, place_case());
	return suite;
}
