/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: begin, end, and that nothing of the library spoils one. */
#include "fixture.h"

#include <pthread.h>

static struct custody_context *context;
static struct custody_stream *stream; /* that captures */

static struct custody_stream *make_stream(bool is_nonblocking)
{
	struct custody_stream_options options = {
		.size = sizeof(options),
		.is_nonblocking = is_nonblocking,
	};
	struct custody_stream *made = NULL;

	ck_ok(custody_stream_create(context, &options, &made));
	return made;
}

static struct custody_event *make_event(void)
{
	struct custody_event *event = NULL;

	ck_ok(custody_event_create(context, NULL, &event));
	return event;
}

static void begin(void)
{
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
	stream = make_stream(true);
}

static void begin_capture(void)
{
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

/* Ends well, and with so many nodes. */
static void end_capture(size_t wanted)
{
	CUgraph graph = NULL;
	size_t nodes = 0;

	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_assert_ptr_nonnull(graph);
	ck_cu(cuGraphGetNodes(graph, NULL, &nodes));
	ck_assert_uint_eq(nodes, wanted);
	ck_cu(cuGraphDestroy(graph));
}

static bool is_capturing(struct custody_stream *asked)
{
	bool answer = false;

	ck_ok(custody_stream_is_capturing(asked, &answer));
	return answer;
}

static CUdeviceptr block;

static void set(struct custody_stream *where)
{
	ck_cu(cuMemsetD8Async(block, 1, 1, custody_stream_handle(where)));
}

static void begin_with_memory(void)
{
	begin();
	ck_cu(cuMemAlloc(&block, 4096));
}

/* ------------------------------------------------------------------ begin and end */

START_TEST(work_of_the_stream_becomes_a_graph)
{
	ck_assert(!is_capturing(stream));
	begin_capture();
	ck_assert(is_capturing(stream));
	set(stream);
	set(stream);
	end_capture(2);
	ck_assert(!is_capturing(stream));
	ck_ok(custody_stream_synchronize(stream));
}
END_TEST

START_TEST(capture_that_is_not_there_has_no_end)
{
	CUgraph graph = NULL;

	ck_is(custody_stream_end_capture(stream, &graph), CUSTODY_E_NOT_CAPTURING);
	ck_assert_ptr_null(graph);
	ck_is(custody_stream_end_capture(NULL, &graph), CUSTODY_E_INVALID);
	ck_is(custody_stream_end_capture(stream, NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_is_capturing(stream, NULL), CUSTODY_E_INVALID);
	ck_is(custody_stream_is_capturing(NULL, (bool[]){ false }), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(capture_begins_once)
{
	ck_is(custody_stream_begin_capture(stream, (CUstreamCaptureMode)7), CUSTODY_E_INVALID);
	ck_is(custody_stream_begin_capture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
	      CUSTODY_E_INVALID);
	begin_capture();
	ck_is(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
	      CUSTODY_E_CAPTURING);
	set(stream);
	end_capture(1);
}
END_TEST

START_TEST(legacy_stream_cannot_capture_and_each_threads_own_can)
{
	struct custody_stream *legacy;

	ck_ok(custody_stream_legacy(context, &legacy));
	ck_is(custody_stream_begin_capture(legacy, CU_STREAM_CAPTURE_MODE_GLOBAL),
	      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_ok(custody_flush(context, false));
	ck_ok(custody_stream_per_thread(context, &stream));
	begin_capture();
	set(stream);
	end_capture(1);
}
END_TEST

START_TEST(capture_that_was_spoilt_ends_with_an_error_and_without_a_graph)
{
	CUgraph graph = (CUgraph)&graph;
	CUdeviceptr other;

	begin_capture();
	set(stream);
	ck_cu_is(cuMemAlloc(&other, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_assert(is_capturing(stream));
	ck_is(custody_stream_end_capture(stream, &graph),
	      CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_assert_ptr_eq(graph, &graph);
	ck_assert(!is_capturing(stream));
	ck_ok(custody_flush(context, true));
	begin_capture();
	set(stream);
	end_capture(1);
}
END_TEST

static void *end_elsewhere(void *argument)
{
	CUgraph graph = NULL;

	ck_is(custody_stream_end_capture(stream, &graph),
	      CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	ck_assert_ptr_null(graph);
	return argument;
}

START_TEST(capture_that_another_thread_ends_goes_on)
{
	pthread_t thread;

	begin_capture();
	ck_assert_int_eq(pthread_create(&thread, NULL, end_elsewhere, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(is_capturing(stream));
	ck_is(custody_flush(context, false), CUSTODY_E_CAPTURING);
	set(stream);
	end_capture(1);
}
END_TEST

/* ------------------------------------------------------------------ nothing is spoilt */

static void ignore(struct custody_stream *called, CUresult status, void *argument)
{
	(void)called;
	(void)status;
	(void)argument;
}

START_TEST(calls_that_would_spoil_the_capture_of_their_stream_are_refused)
{
	struct custody_completion *completion = NULL;
	bool answer;

	begin_capture();
	ck_is(custody_stream_synchronize(stream), CUSTODY_E_CAPTURING);
	ck_is(custody_stream_query(stream, &answer), CUSTODY_E_CAPTURING);
	ck_is(custody_stream_add_callback(stream, ignore, NULL), CUSTODY_E_CAPTURING);
	ck_is(custody_stream_completion(stream, &completion), CUSTODY_E_CAPTURING);
	ck_assert_ptr_null(completion);
	ck_is(custody_stream_destroy(stream), CUSTODY_E_CAPTURING);
	custody_stream_leave(&stream);
	set(stream);
	end_capture(1);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

/* pytorch/pytorch#158352: an event of a capture was always said to be done. */
START_TEST(event_of_a_capture_was_said_to_be_done)
{
	struct custody_event *event = make_event(), *other = make_event();
	bool answer;
	float time;

	begin_capture();
	ck_ok(custody_event_record(event, stream));
	ck_is(custody_event_query(event, &answer), CUSTODY_E_CAPTURING);
	ck_is(custody_event_synchronize(event), CUSTODY_E_CAPTURING);
	ck_is(custody_event_elapsed(event, other, &time), CUSTODY_E_CAPTURING);
	ck_is(custody_event_elapsed(other, event, &time), CUSTODY_E_CAPTURING);
	set(stream);
	end_capture(1);
	ck_is(custody_event_query(event, &answer), CUSTODY_E_CAPTURING);
	ck_ok(custody_event_record(event, stream));
	ck_ok(custody_event_synchronize(event));
	ck_ok(custody_event_query(event, &answer));
	ck_assert(answer);
}
END_TEST

/* The library cannot know, and the question has spoilt the capture. */
START_TEST(event_that_the_program_recorded_into_a_capture_is_not_done_either)
{
	struct custody_event *event = make_event();
	CUgraph graph = NULL;
	bool answer = false;

	begin_capture();
	ck_cu(cuEventRecord(custody_event_handle(event), custody_stream_handle(stream)));
	ck_is(custody_event_query(event, &answer), CUSTODY_E_CAPTURING);
	ck_assert(!answer);
	ck_assert_int_gt(custody_stream_end_capture(stream, &graph), 0);
	ck_assert_ptr_null(graph);
}
END_TEST

/* aws-ofi-nccl#1342: calls on other streams made the capture fail. */
START_TEST(questions_about_other_streams_spoilt_the_capture)
{
	struct custody_stream *other = make_stream(true);
	struct custody_event *event = make_event();
	struct custody_completion *completion;
	bool answer = true;

	begin_capture();
	fixture_hold(custody_stream_handle(other));
	ck_ok(custody_event_record(event, other));
	ck_ok(custody_event_query(event, &answer));
	ck_assert(!answer);
	ck_ok(custody_stream_query(other, &answer));
	ck_assert(!answer);
	ck_ok(custody_stream_completion(other, &completion));
	fixture_release();
	ck_ok(custody_event_synchronize(event));
	ck_ok(custody_stream_synchronize(other));
	ck_ok(custody_completion_wait(completion, -1));
	custody_completion_destroy(completion);
	set(stream);
	end_capture(1);
}
END_TEST

static void begin_with_a_gate(void)
{
	begin_with_memory();
	fixture_hold(custody_stream_handle(stream));
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
}

static void *use_other_streams(void *argument)
{
	struct custody_stream *other = make_stream(true);
	struct custody_event *event = make_event();
	bool answer;

	for (int i = 0; i < 100; i++) {
		ck_ok(custody_event_record(event, other));
		ck_ok(custody_event_query(event, &answer));
		ck_ok(custody_event_synchronize(event));
		ck_ok(custody_stream_synchronize(other));
		ck_ok(custody_event_destroy(event));
		event = make_event();
	}
	ck_ok(custody_event_destroy(event));
	ck_ok(custody_stream_destroy(other));
	return argument;
}

/* NVIDIA/warp#1714: a free on another thread spoilt the capture, and nobody was told. */
START_TEST(frees_of_another_thread_spoilt_the_capture)
{
	pthread_t thread;

	begin_capture();
	ck_assert_int_eq(pthread_create(&thread, NULL, use_other_streams, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	set(stream);
	end_capture(1);
}
END_TEST

START_TEST(events_that_are_freed_during_a_capture_are_destroyed_after_it)
{
	fixture_watch();
	begin_with_memory();
	begin_capture();
	fixture_forget();
	for (int i = 0; i < 12; i++)
		ck_ok(custody_event_destroy(make_event()));
	ck_assert_uint_eq(fixture_calls("cuEventDestroy_v2"), 0);
	ck_is(custody_flush(context, false), CUSTODY_E_CAPTURING);
	set(stream);
	end_capture(1);
	ck_ok(custody_flush(context, false));
	ck_assert_uint_eq(fixture_calls("cuEventDestroy_v2"), 12);
}
END_TEST

START_TEST(stream_that_is_destroyed_during_a_capture_does_not_spoil_it)
{
	struct custody_stream *other = make_stream(false);

	begin_capture();
	ck_ok(custody_stream_destroy(other));
	ck_ok(custody_stream_destroy(make_stream(true)));
	set(stream);
	end_capture(1);
}
END_TEST

START_TEST(default_stream_is_refused_while_a_blocking_one_captures)
{
	struct custody_event *event = make_event();
	struct custody_stream *legacy;
	bool answer;

	stream = make_stream(false);
	ck_ok(custody_stream_legacy(context, &legacy));
	begin_capture();
	ck_is(custody_event_record(event, NULL), CUSTODY_E_CAPTURING);
	ck_is(custody_event_wait(event, NULL), CUSTODY_E_CAPTURING);
	ck_is(custody_stream_synchronize(legacy), CUSTODY_E_CAPTURING);
	ck_is(custody_stream_query(legacy, &answer), CUSTODY_E_CAPTURING);
	ck_is(custody_stream_wait_stream(legacy, legacy), CUSTODY_E_CAPTURING);
	set(stream);
	end_capture(1);
	ck_ok(custody_event_record(event, NULL));
}
END_TEST

/* ------------------------------------------------------------------ several streams */

START_TEST(stream_that_waits_for_the_capture_is_in_it)
{
	struct custody_stream *other = make_stream(true);

	begin_capture();
	set(stream);
	ck_ok(custody_stream_wait_stream(other, stream));
	ck_assert(is_capturing(other));
	set(other);
	ck_ok(custody_stream_wait_stream(stream, other));
	set(stream);
	end_capture(3);
	ck_assert(!is_capturing(other));
}
END_TEST

START_TEST(events_fork_and_join_a_capture)
{
	struct custody_stream *other = make_stream(true);
	struct custody_event *fork_event = make_event(), *join = make_event();

	begin_capture();
	set(stream);
	ck_ok(custody_event_record(fork_event, stream));
	ck_ok(custody_event_wait(fork_event, other));
	set(other);
	ck_ok(custody_event_record(join, other));
	ck_ok(custody_stream_wait_event(stream, join));
	end_capture(2);
}
END_TEST

START_TEST(wait_for_a_stream_outside_of_the_capture_is_refused)
{
	struct custody_stream *other = make_stream(true);

	begin_capture();
	ck_is(custody_stream_wait_stream(stream, other), CUSTODY_E_CAPTURING);
	set(stream);
	end_capture(1);
}
END_TEST

START_TEST(wait_for_an_event_outside_of_the_capture_is_refused)
{
	struct custody_stream *other = make_stream(true);
	struct custody_event *before = make_event(), *outside = make_event();

	ck_ok(custody_event_record(before, stream));
	begin_capture();
	ck_ok(custody_event_record(outside, other));
	ck_is(custody_stream_wait_event(stream, before), CUSTODY_E_CAPTURING);
	ck_is(custody_event_wait(outside, stream), CUSTODY_E_CAPTURING);
	set(stream);
	end_capture(1);
	ck_ok(custody_event_wait(before, stream));
}
END_TEST

START_TEST(wait_for_what_is_in_another_capture_is_refused)
{
	struct custody_stream *first = stream, *second = make_stream(true);
	struct custody_event *event = make_event();

	begin_capture();
	ck_ok(custody_event_record(event, first));
	stream = second;
	begin_capture();
	ck_is(custody_stream_wait_event(second, event), CUSTODY_E_CAPTURING);
	ck_is(custody_stream_wait_stream(second, first), CUSTODY_E_CAPTURING);
	set(second);
	end_capture(1);
	stream = first;
	set(first);
	end_capture(1);
	begin_capture();
	ck_is(custody_stream_wait_event(stream, event), CUSTODY_E_CAPTURING);
	set(stream);
	end_capture(1);
}
END_TEST

/* Which the library knows nothing of. */
START_TEST(events_that_the_program_records_fork_a_capture_too)
{
	struct custody_stream *other = make_stream(true);
	struct custody_event *event = make_event();

	begin_capture();
	ck_cu(cuEventRecord(custody_event_handle(event), custody_stream_handle(stream)));
	ck_ok(custody_event_wait(event, other));
	ck_assert(is_capturing(other));
	set(other);
	ck_ok(custody_stream_wait_stream(stream, other));
	end_capture(1);
}
END_TEST

/* ------------------------------------------------------------------ the suite */

Suite *library_suite(void)
{
	Suite *suite = suite_create("capture");
	TCase *tests = tcase_create("captures"), *waits = tcase_create("waits");
	TCase *settings = tcase_create("captures with settings");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, begin_with_memory, NULL);
	tcase_add_test(tests, work_of_the_stream_becomes_a_graph);
	tcase_add_test(tests, capture_that_is_not_there_has_no_end);
	tcase_add_test(tests, capture_begins_once);
	tcase_add_test(tests, legacy_stream_cannot_capture_and_each_threads_own_can);
	tcase_add_test(tests, capture_that_was_spoilt_ends_with_an_error_and_without_a_graph);
	tcase_add_test(tests, capture_that_another_thread_ends_goes_on);
	tcase_add_test(tests, calls_that_would_spoil_the_capture_of_their_stream_are_refused);
	tcase_add_test(tests, event_of_a_capture_was_said_to_be_done);
	tcase_add_test(tests, event_that_the_program_recorded_into_a_capture_is_not_done_either);
	tcase_add_test(tests, frees_of_another_thread_spoilt_the_capture);
	tcase_add_test(tests, stream_that_is_destroyed_during_a_capture_does_not_spoil_it);
	tcase_add_test(tests, default_stream_is_refused_while_a_blocking_one_captures);
	tcase_add_test(tests, stream_that_waits_for_the_capture_is_in_it);
	tcase_add_test(tests, events_fork_and_join_a_capture);
	tcase_add_test(tests, wait_for_a_stream_outside_of_the_capture_is_refused);
	tcase_add_test(tests, wait_for_an_event_outside_of_the_capture_is_refused);
	tcase_add_test(tests, wait_for_what_is_in_another_capture_is_refused);
	tcase_add_test(tests, events_that_the_program_records_fork_a_capture_too);
	suite_add_tcase(suite, tests);
	tcase_set_timeout(waits, 60);
	tcase_add_checked_fixture(waits, begin_with_a_gate, NULL);
	tcase_add_test(waits, questions_about_other_streams_spoilt_the_capture);
	suite_add_tcase(suite, waits);
	tcase_add_test(settings, events_that_are_freed_during_a_capture_are_destroyed_after_it);
	suite_add_tcase(suite, settings);
	return suite;
}
