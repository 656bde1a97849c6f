/* SPDX-License-Identifier: Apache-2.0 */
/* How contexts end: resets, shutdown, and what others do to them. */
#include "fixture.h"

#include <pthread.h>

static void begin(void)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	fixture_watch();
}

static CUcontext current_handle(void)
{
	CUcontext handle = NULL;

	ck_cu(cuCtxGetCurrent(&handle));
	return handle;
}

static bool is_active(int device)
{
	unsigned int flags;
	int active = -1;

	ck_cu(cuDevicePrimaryCtxGetState(device, &flags, &active));
	return active;
}

static struct custody_stream *new_stream(struct custody_context *context)
{
	struct custody_stream *stream;

	ck_ok(custody_stream_create(context, NULL, &stream));
	return stream;
}

static struct custody_event *new_event(struct custody_context *context)
{
	struct custody_event *event;

	ck_ok(custody_event_create(context, NULL, &event));
	return event;
}

/* ------------------------------------------------------------------ reset of a context */

START_TEST(reset_releases_what_is_pending)
{
	struct custody_context *context = fixture_context(0);
	CUdeviceptr block = fixture_allocate(context, MIB);

	fixture_free(context, block);
	ck_ok(custody_event_destroy(new_event(context)));
	ck_assert_uint_eq(fixture_pending_count(context), 2);
	ck_ok(custody_context_reset(context));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_assert_uint_eq(fixture_calls("cuDevicePrimaryCtxReset_v2"), 0);
	ck_assert(is_active(0));
}
END_TEST

START_TEST(reset_ends_what_is_alive)
{
	struct custody_context *context = fixture_context(0);
	size_t before;

	ck_ok(custody_context_reset(context));
	before = fixture_free_bytes(context);
	new_stream(context);
	new_event(context);
	fixture_forget();
	ck_ok(custody_context_reset(context));
	ck_assert_uint_ge(fixture_calls("cuStreamDestroy_v2"), 1);
	ck_assert_uint_ge(fixture_calls("cuEventDestroy_v2"), 1);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

static char order[8];

static void note_release(void *owner, struct custody_stream *stream)
{
	(void)stream;
	strcat(order, owner);
}

START_TEST(reset_goes_from_the_newest_to_the_oldest)
{
	struct custody_context *context = fixture_context(0);
	struct custody_buffer *buffers[3];
	char names[3][2] = { "a", "b", "c" };

	for (int i = 0; i < 3; i++)
		ck_ok(custody_buffer_wrap(context, &order, 1, note_release, names[i], &buffers[i]));
	ck_ok(custody_context_reset(context));
	ck_assert_str_eq(order, "cba");
	for (int i = 0; i < 3; i++)
		ck_ok(custody_buffer_release(buffers[i]));
	ck_assert_str_eq(order, "cba");
}
END_TEST

START_TEST(use_after_a_reset_is_stale)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = new_stream(context);
	struct custody_event *event = new_event(context);

	ck_ok(custody_context_reset(context));
	fixture_forget();
	ck_is(custody_stream_synchronize(stream), CUSTODY_E_STALE);
	ck_is(custody_event_record(event, NULL), CUSTODY_E_STALE);
	ck_assert_uint_gt(strlen(custody_error_detail()), 0);
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_event_destroy(event));
	ck_assert_uint_eq(fixture_calls(NULL), 0);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

START_TEST(open_scope_does_not_hold_up_a_reset)
{
	struct custody_context *context = fixture_context(0);

	ck_ok(custody_defer_begin(context));
	fixture_free_some(context, 20, KIB);
	new_stream(context);
	ck_ok(custody_context_reset(context));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	fixture_free_some(context, 20, KIB);
	ck_assert_uint_eq(fixture_pending_count(context), 20);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER));
}
END_TEST

START_TEST(context_is_good_for_more_after_a_reset)
{
	struct custody_context *context = fixture_context(0);

	ck_ok(custody_context_reset(context));
	ck_ok(custody_context_reset(context));
	ck_ok(custody_stream_synchronize(new_stream(context)));
	ck_assert_ptr_eq(fixture_context(0), context);
}
END_TEST

START_TEST(reset_of_one_device_leaves_the_other_alone)
{
	struct custody_context *second = fixture_context(1);
	struct custody_stream *stream = new_stream(second);

	ck_ok(custody_context_reset(fixture_context(0)));
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_ok(custody_stream_synchronize(stream));
}
END_TEST

static void *destroy_all(void *argument)
{
	struct custody_event **events = argument;

	for (int i = 0; i < 200; i++)
		ck_ok(custody_event_destroy(events[i]));
	return NULL;
}

/* Each object is ended by one of the two, and is there for the other as long as that. */
START_TEST(objects_may_be_destroyed_while_a_reset_is_at_them)
{
	struct custody_context *context = fixture_context(0);
	struct custody_event *events[200];
	pthread_t thread;

	for (int i = 0; i < 200; i++)
		events[i] = new_event(context);
	ck_assert_int_eq(pthread_create(&thread, NULL, destroy_all, events), 0);
	ck_ok(custody_context_reset(context));
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

/* ------------------------------------------------------------------ reset of a device */

START_TEST(device_reset_ends_the_context_and_the_next_use_makes_one)
{
	struct custody_context *context = fixture_context(0);

	ck_ok(custody_device_reset(fixture_device(0)));
	ck_assert(!is_active(0));
	ck_assert_ptr_null(custody_context_handle(context));
	ck_ok(custody_context_synchronize(context));
	ck_assert(is_active(0));
	ck_assert_ptr_nonnull(custody_context_handle(context));
}
END_TEST

/* The driver gives the next context the handle of the one before. */
START_TEST(segfault_after_a_reset_because_the_handle_is_reused)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = new_stream(context);
	CUcontext before = custody_context_handle(context);

	fixture_free_some(context, 5, KIB);
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_ok(custody_context_synchronize(context));
	ck_assert_ptr_eq(custody_context_handle(context), before);
	ck_is(custody_stream_synchronize(stream), CUSTODY_E_STALE);
	ck_ok(custody_stream_destroy(stream));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	fixture_free_some(context, 11, KIB);
	ck_ok(custody_context_synchronize(context));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

START_TEST(device_reset_with_the_context_current_leaves_the_thread_at_work)
{
	struct custody_context *context;

	ck_ok(custody_context_current(0, &context));
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_ok(custody_context_current(-1, &context));
	ck_ok(custody_stream_synchronize(new_stream(context)));
	ck_assert_ptr_eq(current_handle(), custody_context_handle(context));
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_ok(custody_synchronize());
}
END_TEST

/* Its free was made in a context that was no more. */
START_TEST(end_of_a_buffer_after_the_end_of_its_context_crashed)
{
	struct custody_resource *resource;
	struct custody_buffer *buffer;

	ck_ok(custody_resource_device(fixture_context(0), &resource));
	ck_ok(custody_buffer_create(resource, KIB, NULL, &buffer));
	ck_ok(custody_device_reset(fixture_device(0)));
	fixture_forget();
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_resource_release(resource));
	ck_assert_uint_eq(fixture_calls(NULL), 0);
}
END_TEST

START_TEST(device_reset_gives_back_its_reference)
{
	struct custody_context *context = fixture_context(0);

	for (int i = 0; i < 3; i++) {
		ck_ok(custody_device_reset(fixture_device(0)));
		ck_ok(custody_context_synchronize(context));
	}
	ck_ok(custody_shutdown());
	ck_assert(!is_active(0));
}
END_TEST

START_TEST(device_stays_the_current_one_when_it_is_reset)
{
	struct custody_device *device;

	ck_ok(custody_device_select(1, NULL));
	ck_ok(custody_device_reset(fixture_device(1)));
	ck_ok(custody_device_current(&device));
	ck_assert_ptr_eq(device, fixture_device(1));
}
END_TEST

START_TEST(device_reset_ends_scopes_too)
{
	struct custody_context *context = fixture_context(0);

	ck_ok(custody_defer_begin(context));
	ck_ok(custody_device_reset(fixture_device(0)));
	fixture_free_some(context, 11, KIB);
	ck_assert_uint_le(fixture_pending_count(context), 10);
	ck_is(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(device_that_was_never_used_can_be_reset)
{
	ck_ok(custody_device_reset(fixture_device(1)));
	ck_assert(!is_active(1));
}
END_TEST

START_TEST(device_reset_helps_after_a_fault)
{
	struct custody_context *context;
	struct custody_stream *stream;

	setenv("SIMCUDA_FAIL", "cuStreamQuery:1:700", 1);
	context = fixture_context(0);
	stream = new_stream(context);
	ck_ok(custody_context_push(context));
	ck_cu_is(cuStreamQuery(custody_stream_handle(stream)), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_is(custody_context_synchronize(context), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_ok(custody_context_synchronize(context));
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

static void count_release(void *owner, struct custody_stream *stream)
{
	(void)stream;
	++*(unsigned int *)owner;
}

/* Nothing can be entered then, but owners of foreign memory are told all the same. */
START_TEST(memory_of_others_is_given_back_after_a_fault)
{
	struct custody_context *context;
	struct custody_buffer *buffer;
	unsigned int count = 0;

	setenv("SIMCUDA_FAIL", "cuStreamQuery:1:700", 1);
	context = fixture_context(0);
	ck_ok(custody_buffer_wrap(context, &count, 1, count_release, &count, &buffer));
	ck_ok(custody_context_push(context));
	ck_cu_is(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_ok(custody_context_pop(context));
	ck_is(custody_context_synchronize(context), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_assert_uint_eq(count, 1);
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(count, 1);
}
END_TEST

static struct custody_resource *new_virtual(struct custody_context *context)
{
	struct custody_resource *resource;

	ck_ok(custody_resource_virtual(context, NULL, &resource));
	return resource;
}

/* A fault in the context, which stays current, so that it can be entered. */
static void begin_fault(struct custody_context *context)
{
	ck_ok(custody_context_push(context));
	ck_cu_is(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Mappings are no context's: they stay when that dies, unless they are undone. */
START_TEST(virtual_memory_is_unmapped_after_a_fault)
{
	struct custody_resource *resource;
	struct custody_context *context;
	struct custody_buffer *kept, *left;
	void *block;

	setenv("SIMCUDA_FAIL", "cuStreamQuery:1:700", 1);
	context = fixture_context(0);
	resource = new_virtual(context);
	ck_ok(custody_buffer_create(resource, MIB, NULL, &kept));
	ck_ok(custody_buffer_create(resource, MIB, new_stream(context), &left));
	ck_ok(custody_resource_allocate(resource, MIB, NULL, &block));
	begin_fault(context);
	ck_is(custody_buffer_release(left), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_uint_eq(fixture_calls("cuMemUnmap"), 0);
	if (_i)
		ck_ok(custody_device_reset(fixture_device(0)));
	else
		custody_context_reset(context);
	ck_assert_uint_eq(fixture_calls("cuMemUnmap"), 3);
	ck_assert_uint_eq(fixture_calls("cuMemRelease"), 3);
	ck_assert_uint_eq(fixture_calls("cuMemAddressFree"), 3);
	ck_ok(custody_buffer_release(kept));
	ck_ok(custody_resource_release(resource));
	ck_assert_uint_eq(fixture_calls("cuMemUnmap"), 3);
}
END_TEST

/* Nobody has a name for its blocks any more, nor a reset. */
START_TEST(virtual_memory_is_unmapped_with_its_resource_after_a_fault)
{
	struct custody_resource *resource;
	struct custody_context *context;
	void *block;

	setenv("SIMCUDA_FAIL", "cuStreamQuery:1:700", 1);
	context = fixture_context(0);
	resource = new_virtual(context);
	ck_ok(custody_resource_allocate(resource, MIB, NULL, &block));
	begin_fault(context);
	ck_is(custody_resource_release(resource), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_uint_eq(fixture_calls("cuMemUnmap"), 1);
	ck_assert_uint_eq(fixture_calls("cuMemAddressFree"), 1);
}
END_TEST

/* The same of pools, which are the device's; the context is of no use for a free. */
START_TEST(memory_of_a_pool_is_freed_after_a_fault)
{
	struct custody_resource *resource;
	struct custody_context *context;
	struct custody_buffer *buffer;
	size_t before;

	setenv("SIMCUDA_FAIL", "cuStreamQuery:1:700", 1);
	context = fixture_context(0);
	before = fixture_free_bytes(context);
	ck_ok(custody_resource_pool(context, NULL, &resource));
	ck_ok(custody_buffer_create(resource, 64 * MIB, NULL, &buffer));
	ck_assert_uint_lt(fixture_free_bytes(context), before);
	begin_fault(context);
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_resource_release(resource));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

/* ------------------------------------------------------------------ behind our back */

START_TEST(reset_by_the_program_itself_makes_all_stale_once_it_is_met)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = new_stream(context);

	fixture_free_some(context, 5, KIB);
	ck_cu(cuDevicePrimaryCtxReset(0));
	ck_is(custody_context_synchronize(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_ok(custody_context_synchronize(context));
	ck_is(custody_stream_synchronize(stream), CUSTODY_E_STALE);
	ck_ok(custody_stream_destroy(stream));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_ok(custody_shutdown());
	ck_assert(!is_active(0));
}
END_TEST

/* They were ended in the context that came after theirs. */
START_TEST(objects_of_a_lost_context_are_not_ended_in_the_next_one)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = new_stream(context);
	struct custody_event *event = new_event(context);

	ck_cu(cuDevicePrimaryCtxReset(0));
	ck_is(custody_context_synchronize(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_ok(custody_context_synchronize(context));
	ck_ok(custody_context_reset(context));
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_event_destroy(event));
}
END_TEST

/* The error was about an event of another device. */
START_TEST(error_about_another_context_does_not_end_this_one)
{
	struct custody_context *first = fixture_context(0), *second = fixture_context(1);
	struct custody_event *event = new_event(first);
	struct custody_stream *stream = new_stream(second);

	setenv("SIMCUDA_STRICT", "0", 1);
	ck_cu(cuDevicePrimaryCtxReset(0));
	ck_is(custody_context_enable_peer(second, first), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_assert_int_ne(custody_event_wait(event, stream), 0);
	ck_ok(custody_stream_synchronize(stream));
	ck_ok(custody_context_synchronize(second));
}
END_TEST

static void *use_until_it_works(void *argument)
{
	int error;

	do
		error = custody_context_synchronize(argument);
	while (error == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_ok(error);
	return NULL;
}

/* The second thread that heard of it took the new context for the old one. */
START_TEST(threads_that_find_a_context_lost_bring_one_back)
{
	struct custody_context *context = fixture_context(0);
	pthread_t threads[8];

	for (int turn = 0; turn < 20; turn++) {
		ck_cu(cuDevicePrimaryCtxReset(0));
		for (int i = 0; i < 8; i++)
			pthread_create(&threads[i], NULL, use_until_it_works, context);
		for (int i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
		ck_ok(custody_stream_synchronize(new_stream(context)));
	}
	ck_ok(custody_shutdown());
	ck_assert(!is_active(0));
}
END_TEST

START_TEST(context_that_the_program_retains_survives_a_shutdown)
{
	struct custody_context *context = fixture_context(0);
	CUcontext handle;

	ck_cu(cuDevicePrimaryCtxRetain(&handle, 0));
	ck_assert_ptr_eq(handle, custody_context_handle(context));
	ck_ok(custody_shutdown());
	ck_assert(is_active(0));
	ck_cu(cuDevicePrimaryCtxRelease(0));
	ck_assert(!is_active(0));
}
END_TEST

/* ------------------------------------------------------------------ shutdown */

START_TEST(shutdown_gives_back_every_context_and_pops_its_own)
{
	fixture_context(0);
	ck_ok(custody_device_select(0, NULL));
	ck_ok(custody_device_begin(fixture_device(1)));
	ck_ok(custody_shutdown());
	ck_assert(!is_active(0));
	ck_assert(!is_active(1));
	ck_assert_ptr_null(current_handle());
}
END_TEST

START_TEST(shutdown_leaves_current_what_the_program_has_pushed)
{
	CUcontext mine;

	ck_cu(cuInit(0));
	ck_cu(cuCtxCreate(&mine, NULL, 0, 0));
	fixture_context(0);
	ck_ok(custody_shutdown());
	ck_assert_ptr_eq(current_handle(), mine);
	ck_cu(cuCtxSynchronize());
}
END_TEST

/* What was popped already is the program's, though it is the same context. */
START_TEST(shutdown_pops_no_more_than_was_pushed)
{
	struct custody_context *context = fixture_context(0);
	CUcontext handle;

	ck_ok(custody_context_push(context));
	ck_ok(custody_context_pop(context));
	ck_cu(cuDevicePrimaryCtxRetain(&handle, 0));
	ck_cu(cuCtxPushCurrent(handle));
	ck_ok(custody_shutdown());
	ck_assert_ptr_eq(current_handle(), handle);
}
END_TEST

START_TEST(use_after_a_shutdown_begins_anew)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = new_stream(context);

	ck_ok(custody_shutdown());
	ck_ok(custody_shutdown());
	ck_is(custody_stream_synchronize(stream), CUSTODY_E_STALE);
	ck_assert(!is_active(0));
	ck_ok(custody_stream_synchronize(new_stream(context)));
	ck_assert(is_active(0));
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_shutdown());
	ck_assert(!is_active(0));
}
END_TEST

static void *shut_down(void *argument)
{
	(void)argument;
	ck_ok(custody_shutdown());
	return NULL;
}

/* In the documented one, any but the thread that began does not destroy anything. */
START_TEST(shutdown_works_from_any_thread)
{
	pthread_t thread;

	fixture_context(0);
	ck_assert_int_eq(pthread_create(&thread, NULL, shut_down, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(!is_active(0));
}
END_TEST

START_TEST(shutdown_before_any_use_calls_no_driver)
{
	ck_ok(custody_shutdown());
	ck_assert_uint_eq(fixture_calls(NULL), 0);
}
END_TEST

static TCase *reset_case(void)
{
	TCase *rules = tcase_create("reset");

	tcase_add_checked_fixture(rules, begin, NULL);
	tcase_add_test(rules, reset_releases_what_is_pending);
	tcase_add_test(rules, reset_ends_what_is_alive);
	tcase_add_test(rules, reset_goes_from_the_newest_to_the_oldest);
	tcase_add_test(rules, use_after_a_reset_is_stale);
	tcase_add_test(rules, open_scope_does_not_hold_up_a_reset);
	tcase_add_test(rules, context_is_good_for_more_after_a_reset);
	tcase_add_test(rules, objects_may_be_destroyed_while_a_reset_is_at_them);
	tcase_add_test(rules, reset_of_one_device_leaves_the_other_alone);
	tcase_add_test(rules, device_reset_ends_the_context_and_the_next_use_makes_one);
	tcase_add_test(rules, segfault_after_a_reset_because_the_handle_is_reused);
	tcase_add_test(rules, device_reset_with_the_context_current_leaves_the_thread_at_work);
	tcase_add_test(rules, end_of_a_buffer_after_the_end_of_its_context_crashed);
	tcase_add_test(rules, device_reset_gives_back_its_reference);
	tcase_add_test(rules, device_stays_the_current_one_when_it_is_reset);
	tcase_add_test(rules, device_reset_ends_scopes_too);
	tcase_add_test(rules, device_that_was_never_used_can_be_reset);
	tcase_add_test(rules, device_reset_helps_after_a_fault);
	tcase_add_test(rules, memory_of_others_is_given_back_after_a_fault);
	tcase_add_loop_test(rules, virtual_memory_is_unmapped_after_a_fault, 0, 2);
	tcase_add_test(rules, virtual_memory_is_unmapped_with_its_resource_after_a_fault);
	tcase_add_test(rules, memory_of_a_pool_is_freed_after_a_fault);
	tcase_add_test(rules, reset_by_the_program_itself_makes_all_stale_once_it_is_met);
	tcase_add_test(rules, objects_of_a_lost_context_are_not_ended_in_the_next_one);
	tcase_add_test(rules, error_about_another_context_does_not_end_this_one);
	tcase_add_test(rules, threads_that_find_a_context_lost_bring_one_back);
	return rules;
}

static TCase *shutdown_case(void)
{
	TCase *rules = tcase_create("shutdown");

	tcase_add_checked_fixture(rules, begin, NULL);
	tcase_add_test(rules, context_that_the_program_retains_survives_a_shutdown);
	tcase_add_test(rules, shutdown_gives_back_every_context_and_pops_its_own);
	tcase_add_test(rules, shutdown_leaves_current_what_the_program_has_pushed);
	tcase_add_test(rules, shutdown_pops_no_more_than_was_pushed);
	tcase_add_test(rules, use_after_a_shutdown_begins_anew);
	tcase_add_test(rules, shutdown_works_from_any_thread);
	tcase_add_test(rules, shutdown_before_any_use_calls_no_driver);
	return rules;
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("reset");

	suite_add_tcase(suite, reset_case());
	suite_add_tcase(suite, shutdown_case());
	return suite;
}
