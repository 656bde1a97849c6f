/* SPDX-License-Identifier: Apache-2.0 */
/* Events: what they mark, who waits for them, how long it took, other processes. */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>

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

static struct custody_stream *make_stream(struct custody_context *owner)
{
	struct custody_stream *stream = NULL;

	ck_ok(custody_stream_create(owner, NULL, &stream));
	return stream;
}

static struct custody_event *make(void)
{
	struct custody_event *event = NULL;

	ck_ok(custody_event_create(context, NULL, &event));
	ck_assert_ptr_nonnull(event);
	return event;
}

static struct custody_event *make_with(bool is_timed, bool blocks, bool is_shareable)
{
	struct custody_event_options options = {
		.size = sizeof(options),
		.is_timed = is_timed,
		.blocks = blocks,
		.is_shareable = is_shareable,
	};
	struct custody_event *event = NULL;

	ck_ok(custody_event_create(context, &options, &event));
	return event;
}

static bool is_done(struct custody_event *event)
{
	bool answer = false;

	ck_ok(custody_event_query(event, &answer));
	return answer;
}

static bool is_idle(struct custody_stream *stream)
{
	bool answer = false;

	ck_ok(custody_stream_query(stream, &answer));
	return answer;
}

static void hold(struct custody_stream *stream)
{
	fixture_hold(custody_stream_handle(stream));
}

/* ------------------------------------------------------------------ making and going */

START_TEST(event_that_was_never_recorded_is_done)
{
	struct custody_event *event = make();

	ck_assert(is_done(event));
	ck_ok(custody_event_synchronize(event));
	ck_ok(custody_event_wait(event, make_stream(context)));
	ck_assert_ptr_nonnull(custody_event_handle(event));
	ck_assert_ptr_eq(custody_event_context(event), context);
}
END_TEST

START_TEST(event_that_can_be_shared_cannot_be_timed)
{
	struct custody_event_options options = {
		.size = sizeof(options),
		.is_timed = true,
		.is_shareable = true,
	};
	struct custody_event *event = NULL;

	ck_is(custody_event_create(context, &options, &event), CUSTODY_E_INVALID);
	ck_assert_ptr_null(event);
	options.is_timed = false;
	ck_ok(custody_event_create(context, &options, &event));
}
END_TEST

START_TEST(every_other_choice_makes_an_event_that_works)
{
	struct custody_event *event = make_with(_i & 1, _i & 2, false);
	struct custody_stream *stream = make_stream(context);

	hold(stream);
	ck_ok(custody_event_record(event, stream));
	ck_assert(!is_done(event));
	fixture_release();
	ck_ok(custody_event_synchronize(event));
	ck_assert(is_done(event));
}
END_TEST

/* NVIDIA/cuda-python#2568: a call with nothing in it crashed. */
START_TEST(null_arguments_crashed)
{
	struct custody_event *event = make();
	CUipcEventHandle handle = { { 0 } };
	bool answer;
	float time;

	ck_is(custody_event_create(NULL, NULL, &event), CUSTODY_E_INVALID);
	ck_is(custody_event_create(context, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_event_query(NULL, &answer), CUSTODY_E_INVALID);
	ck_is(custody_event_query(event, NULL), CUSTODY_E_INVALID);
	ck_is(custody_event_record(NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_event_wait(NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_event_synchronize(NULL), CUSTODY_E_INVALID);
	ck_is(custody_event_elapsed(event, NULL, &time), CUSTODY_E_INVALID);
	ck_is(custody_event_elapsed(NULL, event, &time), CUSTODY_E_INVALID);
	ck_is(custody_event_elapsed(event, event, NULL), CUSTODY_E_INVALID);
	ck_is(custody_event_export(event, NULL), CUSTODY_E_INVALID);
	ck_is(custody_event_export(NULL, &handle), CUSTODY_E_INVALID);
	ck_is(custody_event_import(context, NULL, &event), CUSTODY_E_INVALID);
	ck_is(custody_event_import(NULL, &handle, &event), CUSTODY_E_INVALID);
	ck_assert_ptr_null(custody_event_handle(NULL));
	ck_assert_ptr_null(custody_event_context(NULL));
	ck_ok(custody_event_destroy(NULL));
}
END_TEST

START_TEST(failing_call_of_the_driver_leaves_no_event)
{
	struct custody_event *event = NULL;

	setenv("SIMCUDA_FAIL", "cuEventCreate:1:2", 1);
	begin();
	ck_is(custody_event_create(context, NULL, &event), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_ptr_null(event);
	ck_ok(custody_event_create(context, NULL, &event));
}
END_TEST

START_TEST(destroyed_event_waits_in_the_queue_of_objects)
{
	struct custody_pending pending = { .size = sizeof(pending) };

	fixture_forget();
	ck_ok(custody_event_destroy(make()));
	ck_assert_uint_eq(fixture_calls("cuEventDestroy_v2"), 0);
	ck_ok(custody_pending(context, &pending));
	ck_assert_uint_eq(pending.object_count, 1);
	ck_ok(custody_flush(context, false));
	ck_assert_uint_eq(fixture_calls("cuEventDestroy_v2"), 1);
}
END_TEST

START_TEST(streams_and_events_share_the_queue_of_ten)
{
	for (int i = 0; i < 5; i++) {
		ck_ok(custody_event_destroy(make()));
		ck_ok(custody_stream_destroy(make_stream(context)));
	}
	ck_assert_uint_eq(fixture_pending_count(context), 10);
	ck_ok(custody_event_destroy(make()));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
}
END_TEST

START_TEST(event_that_is_waited_for_can_be_destroyed)
{
	struct custody_stream *first = make_stream(context), *second = make_stream(context);
	struct custody_event *event = make();

	hold(first);
	ck_ok(custody_event_record(event, first));
	ck_ok(custody_event_wait(event, second));
	ck_ok(custody_event_destroy(event));
	ck_ok(custody_flush(context, false));
	ck_assert(!is_idle(second));
	fixture_release();
	ck_ok(custody_stream_synchronize(second));
	ck_assert(is_idle(first));
}
END_TEST

START_TEST(event_of_a_context_that_was_reset_is_stale_and_can_be_destroyed)
{
	struct custody_event *event = make(), *other;
	bool answer;
	float time;

	ck_ok(custody_context_reset(context));
	other = make();
	ck_is(custody_event_query(event, &answer), CUSTODY_E_STALE);
	ck_is(custody_event_record(event, NULL), CUSTODY_E_STALE);
	ck_is(custody_event_wait(event, NULL), CUSTODY_E_STALE);
	ck_is(custody_event_synchronize(event), CUSTODY_E_STALE);
	ck_is(custody_event_elapsed(event, other, &time), CUSTODY_E_STALE);
	ck_is(custody_event_elapsed(other, event, &time), CUSTODY_E_STALE);
	fixture_forget();
	ck_ok(custody_event_destroy(event));
	ck_assert_uint_eq(fixture_calls(NULL), 0);
}
END_TEST

/* ------------------------------------------------------------------ in streams */

START_TEST(event_passes_when_its_stream_gets_there)
{
	struct custody_stream *stream = make_stream(context);
	struct custody_event *event = make();

	hold(stream);
	ck_ok(custody_event_record(event, stream));
	ck_assert(!is_done(event));
	fixture_release();
	ck_ok(custody_event_synchronize(event));
	ck_assert(is_done(event));
}
END_TEST

START_TEST(last_record_counts)
{
	struct custody_stream *held = make_stream(context), *idle = make_stream(context);
	struct custody_event *event = make();

	hold(held);
	ck_ok(custody_event_record(event, held));
	ck_ok(custody_event_record(event, idle));
	ck_ok(custody_event_synchronize(event));
	ck_assert(!is_idle(held));
	fixture_release();
}
END_TEST

START_TEST(default_stream_of_the_events_context_is_meant_where_none_is_given)
{
	struct custody_event *event;

	begin_with_two_devices();
	ck_ok(custody_event_create(fixture_context(1), NULL, &event));
	fixture_hold(CU_STREAM_LEGACY);
	ck_ok(custody_event_record(event, NULL));
	ck_assert(is_done(event));
	ck_ok(custody_event_record(event = make(), NULL));
	ck_assert(!is_done(event));
	fixture_release();
	ck_ok(custody_event_synchronize(event));
}
END_TEST

START_TEST(stream_of_another_context_is_refused_by_record)
{
	struct custody_stream *stream;

	begin_with_two_devices();
	stream = make_stream(fixture_context(1));
	ck_is(custody_event_record(make(), stream), CUSTODY_E_MISMATCH);
}
END_TEST

START_TEST(stream_of_another_device_waits)
{
	struct custody_stream *stream, *other;
	struct custody_event *event;

	begin_with_two_devices();
	stream = make_stream(context);
	other = make_stream(fixture_context(1));
	event = make();
	hold(stream);
	ck_ok(custody_event_record(event, stream));
	ck_ok(custody_stream_wait_event(other, event));
	ck_assert(!is_idle(other));
	fixture_release();
	ck_ok(custody_stream_synchronize(other));
	ck_assert(is_done(event));
}
END_TEST

START_TEST(default_stream_of_another_device_waits)
{
	struct custody_stream *stream, *first, *second;
	struct custody_event *event;

	begin_with_two_devices();
	ck_ok(custody_stream_per_thread(context, &first));
	ck_ok(custody_stream_per_thread(fixture_context(1), &second));
	stream = make_stream(context);
	event = make();
	hold(stream);
	ck_ok(custody_event_record(event, stream));
	ck_ok(custody_event_wait(event, second));
	ck_assert(is_idle(first));
	ck_assert(!is_idle(second));
	fixture_release();
	ck_ok(custody_stream_synchronize(second));
}
END_TEST

START_TEST(default_stream_waits_where_none_is_given)
{
	struct custody_stream_options options = { .size = sizeof(options), .is_nonblocking = true };
	struct custody_stream *stream, *legacy;
	struct custody_event *event = make();

	ck_ok(custody_stream_create(context, &options, &stream));
	ck_ok(custody_stream_legacy(context, &legacy));
	hold(stream);
	ck_ok(custody_event_record(event, stream));
	ck_assert(is_idle(legacy));
	ck_ok(custody_event_wait(event, NULL));
	ck_assert(!is_idle(legacy));
	fixture_release();
	ck_ok(custody_stream_synchronize(legacy));
}
END_TEST

/* ------------------------------------------------------------------ time */

START_TEST(elapsed_time_is_that_of_the_work_between)
{
	struct custody_stream *stream = make_stream(context);
	struct custody_event *from = make(), *to = make();
	float time = -1;

	ck_ok(custody_event_record(from, stream));
	hold(stream);
	ck_ok(custody_event_record(to, stream));
	ck_is(custody_event_elapsed(from, to, &time), CUDA_ERROR_NOT_READY);
	ck_assert(time == -1);
	usleep(30000);
	fixture_release();
	ck_ok(custody_event_synchronize(to));
	ck_ok(custody_event_elapsed(from, to, &time));
	ck_assert(time >= 30 && time < 30000);
}
END_TEST

START_TEST(event_without_time_has_no_elapsed_time)
{
	struct custody_event *timed = make(), *untimed = make_with(false, false, false);
	float time;

	ck_ok(custody_event_record(timed, NULL));
	ck_ok(custody_event_record(untimed, NULL));
	ck_is(custody_event_elapsed(timed, untimed, &time), CUSTODY_E_INVALID);
	ck_is(custody_event_elapsed(untimed, timed, &time), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(events_of_two_contexts_have_no_elapsed_time)
{
	struct custody_event *first, *second;
	float time;

	begin_with_two_devices();
	first = make();
	ck_ok(custody_event_create(fixture_context(1), NULL, &second));
	ck_ok(custody_event_record(first, NULL));
	ck_ok(custody_event_record(second, NULL));
	ck_is(custody_event_elapsed(first, second, &time), CUSTODY_E_MISMATCH);
}
END_TEST

/* ------------------------------------------------------------------ other processes */

static int measure_on_an_old_driver(void)
{
	struct custody_context *first;
	struct custody_event *from, *to;
	float time = -1;

	story_check(!custody_context_current(0, &first));
	story_check(!custody_event_create(first, NULL, &from));
	story_check(!custody_event_create(first, NULL, &to));
	story_check(!custody_event_record(from, NULL));
	story_check(!custody_event_record(to, NULL));
	story_check(!custody_event_synchronize(to));
	story_check(!custody_event_elapsed(from, to, &time));
	story_check(time >= 0);
	return 0;
}

START_TEST(driver_without_the_new_name_measures_by_the_old_one)
{
	const char *places = getenv("LD_LIBRARY_PATH");
	char setting[4096], text[4096];
	const char *settings[] = { setting, "SIMCUDA_VERBOSE=1", NULL };

	snprintf(setting, sizeof(setting), "LD_LIBRARY_PATH=" OLD_DRIVER ":%s",
		 places ? places : "");
	if (fixture_run("old driver", settings, text, sizeof(text)))
		ck_abort_msg("%s", text);
	ck_assert_uint_eq(fixture_count(text, "cuEventElapsedTime"), 1);
}
END_TEST

static int parse_handle(CUipcEventHandle *handle)
{
	const char *text = getenv("HANDLE");

	for (size_t i = 0; i < sizeof(*handle); i++) {
		unsigned int byte;

		if (!text || sscanf(text + 2 * i, "%2x", &byte) != 1)
			return 1;
		handle->reserved[i] = (char)byte;
	}
	return 0;
}

/* The event has been recorded behind work that is held there. */
static int look_from_another_process(void)
{
	struct custody_context *first;
	struct custody_stream *stream;
	struct custody_event *event;
	CUipcEventHandle handle;
	CUgraph graph;
	bool answer = true;
	float time;

	story_check(!parse_handle(&handle));
	story_check(!custody_context_current(0, &first));
	story_check(!custody_event_import(first, &handle, &event));
	story_check(!custody_event_query(event, &answer));
	story_check(!answer);
	story_check(custody_event_elapsed(event, event, &time) == CUSTODY_E_INVALID);
	story_check(custody_event_export(event, &handle) == CUSTODY_E_INVALID);
	story_check(!custody_stream_per_thread(first, &stream));
	story_check(!custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	story_check(custody_event_wait(event, stream) == CUSTODY_E_CAPTURING);
	story_check(!custody_stream_end_capture(stream, &graph));
	story_check(!custody_event_destroy(event));
	story_check(!custody_flush(first, true));
	return 0;
}

START_TEST(event_is_seen_by_another_process)
{
	char setting[16 + 2 * sizeof(CUipcEventHandle)], text[4096];
	const char *settings[] = { setting, NULL };
	struct custody_stream *stream = make_stream(context);
	struct custody_event *event = make_with(false, false, true);
	CUipcEventHandle handle;
	int used;

	ck_ok(custody_event_export(event, &handle));
	used = snprintf(setting, sizeof(setting), "HANDLE=");
	for (size_t i = 0; i < sizeof(handle); i++)
		used += snprintf(setting + used, 3, "%02x", (unsigned char)handle.reserved[i]);
	hold(stream);
	ck_ok(custody_event_record(event, stream));
	if (fixture_run("other process", settings, text, sizeof(text)))
		ck_abort_msg("%s", text);
	fixture_release();
	ck_ok(custody_event_synchronize(event));
}
END_TEST

/* NVIDIA/cuda-python#2568: the call on what is not for other processes crashed. */
START_TEST(export_of_an_event_that_is_not_shareable_crashed)
{
	CUipcEventHandle handle;

	ck_is(custody_event_export(make(), &handle), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(handle_that_is_none_is_refused)
{
	struct custody_event *event = NULL;
	CUipcEventHandle handle;

	memset(&handle, 0x5a, sizeof(handle));
	ck_assert_int_gt(custody_event_import(context, &handle, &event), 0);
	ck_assert_ptr_null(event);
}
END_TEST

const struct fixture_story fixture_stories[] = {
	{ "old driver", measure_on_an_old_driver },
	{ "other process", look_from_another_process },
	{ NULL, NULL },
};

/* ------------------------------------------------------------------ the suite */

Suite *library_suite(void)
{
	Suite *suite = suite_create("event");
	TCase *tests = fixture_case(suite, "making", begin_watching);

	tcase_add_test(tests, event_that_was_never_recorded_is_done);
	tcase_add_test(tests, event_that_can_be_shared_cannot_be_timed);
	tcase_add_loop_test(tests, every_other_choice_makes_an_event_that_works, 0, 4);
	tcase_add_test(tests, null_arguments_crashed);
	tcase_add_test(tests, destroyed_event_waits_in_the_queue_of_objects);
	tcase_add_test(tests, streams_and_events_share_the_queue_of_ten);
	tcase_add_test(tests, event_that_is_waited_for_can_be_destroyed);
	tcase_add_test(tests, event_of_a_context_that_was_reset_is_stale_and_can_be_destroyed);
	tests = fixture_case(suite, "settings", NULL);
	tcase_add_test(tests, default_stream_of_the_events_context_is_meant_where_none_is_given);
	tcase_add_test(tests, stream_of_another_context_is_refused_by_record);
	tcase_add_test(tests, stream_of_another_device_waits);
	tcase_add_test(tests, default_stream_of_another_device_waits);
	tcase_add_test(tests, events_of_two_contexts_have_no_elapsed_time);
	tcase_add_test(tests, failing_call_of_the_driver_leaves_no_event);
	tests = fixture_case(suite, "in streams", begin);
	tcase_add_test(tests, event_passes_when_its_stream_gets_there);
	tcase_add_test(tests, last_record_counts);
	tcase_add_test(tests, default_stream_waits_where_none_is_given);
	tests = fixture_case(suite, "time", begin);
	tcase_add_test(tests, elapsed_time_is_that_of_the_work_between);
	tcase_add_test(tests, event_without_time_has_no_elapsed_time);
	tcase_add_test(tests, driver_without_the_new_name_measures_by_the_old_one);
	tests = fixture_case(suite, "processes", begin);
	tcase_add_test(tests, event_is_seen_by_another_process);
	tcase_add_test(tests, export_of_an_event_that_is_not_shareable_crashed);
	tcase_add_test(tests, handle_that_is_none_is_refused);
	return suite;
}
