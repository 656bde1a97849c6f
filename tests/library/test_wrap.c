/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts that are the program's own, shown to libcustody by custody_context_wrap(). */
#include "fixture.h"

static CUcontext current_handle(void)
{
	CUcontext handle = NULL;

	ck_cu(cuCtxGetCurrent(&handle));
	return handle;
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

static CUcontext make(int device)
{
	CUcontext handle, popped;

	ck_cu(cuInit(0));
	ck_cu(cuCtxCreate(&handle, NULL, 0, device));
	ck_cu(cuCtxPopCurrent(&popped));
	return handle;
}

static struct custody_context *wrap(CUcontext handle)
{
	struct custody_context *context = NULL;

	ck_ok(custody_context_wrap(handle, &context));
	return context;
}

START_TEST(wrapped_context_is_worked_in)
{
	CUcontext handle = make(1), owner;
	struct custody_context *context = wrap(handle);
	struct custody_stream *stream = new_stream(context);

	ck_assert_ptr_eq(custody_context_handle(context), handle);
	ck_assert_ptr_eq(custody_context_device(context), fixture_device(1));
	ck_cu(cuStreamGetCtx(custody_stream_handle(stream), &owner));
	ck_assert_ptr_eq(owner, handle);
	ck_assert_ptr_null(current_handle());
	fixture_free_some(context, 11, KIB);
	ck_assert_uint_le(fixture_pending_count(context), 10);
}
END_TEST

START_TEST(context_wrapped_twice_is_one)
{
	CUcontext handle = make(0);
	struct custody_context *context = wrap(handle);

	ck_assert_ptr_eq(wrap(handle), context);
	ck_assert_ptr_ne(context, fixture_context(0));
}
END_TEST

START_TEST(primary_context_wrapped_is_that_of_the_device)
{
	CUcontext handle;

	ck_cu(cuInit(0));
	ck_cu(cuDevicePrimaryCtxRetain(&handle, 1));
	ck_assert_ptr_eq(wrap(handle), fixture_context(1));
	ck_is(custody_context_unwrap(fixture_context(1)), CUSTODY_E_INVALID);
	ck_ok(custody_context_unwrap(NULL));
}
END_TEST

START_TEST(unwrapping_releases_and_makes_stale)
{
	CUcontext handle = make(0);
	struct custody_context *context = wrap(handle);
	struct custody_stream *stream = new_stream(context);

	fixture_free_some(context, 5, KIB);
	ck_ok(custody_context_unwrap(context));
	ck_is(custody_stream_synchronize(stream), CUSTODY_E_STALE);
	ck_is(custody_context_synchronize(context), CUSTODY_E_STALE);
	ck_is(custody_context_unwrap(context), CUSTODY_E_CLOSED);
	ck_ok(custody_stream_destroy(stream));
	ck_cu(cuCtxDestroy(handle));
}
END_TEST

/* The next context may have the handle of one that is gone. */
START_TEST(new_context_under_an_old_handle_is_another)
{
	CUcontext first, second;
	struct custody_context *before, *after;

	setenv("SIMCUDA_QUARANTINE", "0", 1);
	first = make(0);
	before = wrap(first);
	fixture_free_some(before, 11, KIB);
	ck_ok(custody_context_unwrap(before));
	ck_cu(cuCtxDestroy(first));
	second = make(0);
	after = wrap(second);
	ck_assert_ptr_ne(after, before);
	fixture_free_some(after, 11, KIB);
	ck_ok(custody_event_destroy(new_event(after)));
	ck_ok(custody_flush(after, true));
	ck_assert_uint_eq(fixture_pending_count(after), 0);
	ck_is(custody_context_synchronize(before), CUSTODY_E_STALE);
}
END_TEST

START_TEST(context_destroyed_without_unwrapping_is_stale)
{
	CUcontext handle = make(0);
	struct custody_context *context = wrap(handle);
	struct custody_stream *stream = new_stream(context);
	CUresult (*destroy)(CUcontext handle);

	*(void **)&destroy = custody_driver_function("cuCtxDestroy_v2");
	ck_cu(destroy(handle));
	ck_is(custody_context_synchronize(context), CUSTODY_E_STALE);
	ck_is(custody_stream_synchronize(stream), CUSTODY_E_STALE);
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_context_unwrap(context));
}
END_TEST

START_TEST(context_under_the_handle_of_one_that_was_not_unwrapped_is_another)
{
	CUcontext first, second;
	struct custody_context *before;
	CUresult (*destroy)(CUcontext handle);

	setenv("SIMCUDA_QUARANTINE", "0", 1);
	first = make(0);
	before = wrap(first);
	*(void **)&destroy = custody_driver_function("cuCtxDestroy_v2");
	ck_cu(destroy(first));
	second = make(0);
	ck_assert_ptr_ne(wrap(second), before);
	ck_ok(custody_context_synchronize(wrap(second)));
	ck_is(custody_context_synchronize(before), CUSTODY_E_STALE);
}
END_TEST

START_TEST(handle_that_is_no_context_is_refused)
{
	struct custody_context *context = NULL;
	CUcontext handle;

	setenv("SIMCUDA_STRICT", "0", 1);
	handle = make(0);
	ck_cu(cuCtxDestroy(handle));
	ck_assert_int_gt(custody_context_wrap(handle, &context), 0);
	ck_assert_ptr_null(context);
	ck_assert_ptr_null(current_handle());
}
END_TEST

START_TEST(shutdown_resets_wrapped_contexts_and_leaves_them_to_the_program)
{
	CUcontext handle = make(0);
	struct custody_context *context = wrap(handle);
	struct custody_stream *stream = new_stream(context);

	ck_ok(custody_shutdown());
	ck_is(custody_stream_synchronize(stream), CUSTODY_E_STALE);
	ck_ok(custody_context_synchronize(context));
	ck_ok(custody_context_unwrap(context));
	ck_cu(cuCtxDestroy(handle));
}
END_TEST

static void begin(void)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("wrap");
	TCase *rules = tcase_create("wrap");

	tcase_add_checked_fixture(rules, begin, NULL);
	tcase_add_test(rules, wrapped_context_is_worked_in);
	tcase_add_test(rules, context_wrapped_twice_is_one);
	tcase_add_test(rules, primary_context_wrapped_is_that_of_the_device);
	tcase_add_test(rules, unwrapping_releases_and_makes_stale);
	tcase_add_test(rules, new_context_under_an_old_handle_is_another);
	tcase_add_test(rules, context_destroyed_without_unwrapping_is_stale);
	tcase_add_test(rules, context_under_the_handle_of_one_that_was_not_unwrapped_is_another);
	tcase_add_test(rules, handle_that_is_no_context_is_refused);
	tcase_add_test(rules, shutdown_resets_wrapped_contexts_and_leaves_them_to_the_program);
	suite_add_tcase(suite, rules);
	return suite;
}
