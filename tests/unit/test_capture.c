/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: shut by every way a capture begins, opened by every way it ends, and
 * no call of ours in between, whatever other threads do.
 */
#include "core/gate.h"
#include "core/pending.h"
#include "fake_queue.h"
#include "intercept/call.h"
#include "intercept/capture.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static CUstream stream_at(uintptr_t number)
{
	return (CUstream)(number << 8);
}

static _Atomic CUresult end_result;
static _Atomic CUstreamCaptureStatus status;

/* The gate is shut when the driver is asked. */
static CUresult begin(void)
{
	ck_assert_uint_gt(atomic_load(&gate_captures), 0);
	if (fake_result == CUDA_SUCCESS)
		fake_set_capturing(true);
	return fake_result;
}

static CUresult CUDAAPI begin_v1(CUstream stream)
{
	(void)stream;
	return begin();
}

static CUresult CUDAAPI begin_v2(CUstream stream, CUstreamCaptureMode mode)
{
	(void)stream;
	(void)mode;
	return begin();
}

static CUresult CUDAAPI begin_to_graph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
				       const CUgraphEdgeData *edges, size_t count,
				       CUstreamCaptureMode mode)
{
	(void)stream;
	(void)graph;
	(void)nodes;
	(void)edges;
	(void)count;
	(void)mode;
	return begin();
}

static CUresult CUDAAPI end_capture(CUstream stream, CUgraph *graph)
{
	*graph = (CUgraph)0x66;
	if (stream == stream_at(9999))
		return CUDA_ERROR_ILLEGAL_STATE;
	ck_assert_uint_gt(atomic_load(&gate_captures), 0);
	if (atomic_load(&end_result) != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
		fake_set_capturing(false);
	return atomic_load(&end_result);
}

static CUresult CUDAAPI is_capturing(CUstream stream, CUstreamCaptureStatus *answer)
{
	(void)stream;
	*answer = atomic_load(&status);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI destroy_context(CUcontext context)
{
	(void)context;
	return fake_result;
}

static void start(void)
{
	fake_queue_prepare("nowait", false);
	fake_set(API_cuStreamBeginCapture, begin_v1);
	fake_set(API_cuStreamBeginCapture_ptsz, begin_v1);
	fake_set(API_cuStreamBeginCapture_v2, begin_v2);
	fake_set(API_cuStreamBeginCapture_v2_ptsz, begin_v2);
	fake_set(API_cuStreamBeginCaptureToGraph, begin_to_graph);
	fake_set(API_cuStreamBeginCaptureToGraph_ptsz, begin_to_graph);
	fake_set(API_cuStreamEndCapture, end_capture);
	fake_set(API_cuStreamEndCapture_ptsz, end_capture);
	fake_set(API_cuStreamIsCapturing, is_capturing);
	fake_set(API_cuCtxDestroy_v2, destroy_context);
	fake_start();
}

static CUresult begin_by(int door, CUstream stream)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

	switch (door) {
	case 0:
		return cuStreamBeginCapture(stream);
	case 1:
		return cuStreamBeginCapture_ptsz(stream);
	case 2:
		return cuStreamBeginCapture_v2(stream, mode);
	case 3:
		return cuStreamBeginCapture_v2_ptsz(stream, mode);
	case 4:
		return cuStreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, mode);
	default:
		return cuStreamBeginCaptureToGraph_ptsz(stream, NULL, NULL, NULL, 0, mode);
	}
}

START_TEST(every_begin_shuts_and_every_end_opens)
{
	CUgraph graph;

	ck_assert_int_eq(begin_by(_i, stream_at(1)), CUDA_SUCCESS);
	ck_assert(gate_is_shut());
	ck_assert_int_eq(cuStreamEndCapture(stream_at(1), &graph), CUDA_SUCCESS);
	ck_assert(!gate_is_shut());
	ck_assert_int_eq(begin_by(_i, NULL), CUDA_SUCCESS);
	ck_assert_int_eq(cuStreamEndCapture_ptsz(NULL, &graph), CUDA_SUCCESS);
	ck_assert_int_eq(gate_is_shut(), _i % 2 == 0);
}
END_TEST

START_TEST(a_capture_that_does_not_begin_opens_again)
{
	fake_result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	ck_assert_int_ne(begin_by(_i, stream_at(1)), CUDA_SUCCESS);
	ck_assert(!gate_is_shut());
}
END_TEST

START_TEST(a_spoilt_capture_ends_with_its_error)
{
	CUgraph graph;

	begin_by(2, stream_at(1));
	atomic_store(&end_result, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_assert_int_ne(cuStreamEndCapture(stream_at(1), &graph), CUDA_SUCCESS);
	ck_assert(!gate_is_shut());
}
END_TEST

START_TEST(a_capture_of_another_thread_goes_on)
{
	CUgraph graph;

	begin_by(2, stream_at(1));
	atomic_store(&end_result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	atomic_store(&status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ck_assert_int_ne(cuStreamEndCapture(stream_at(1), &graph), CUDA_SUCCESS);
	ck_assert(gate_is_shut());
	atomic_store(&end_result, CUDA_SUCCESS);
	cuStreamEndCapture(stream_at(1), &graph);
	ck_assert(!gate_is_shut());
	atomic_store(&status, CU_STREAM_CAPTURE_STATUS_NONE);
	cuStreamEndCapture(stream_at(9999), &graph);
	ck_assert_uint_eq(atomic_load(&gate_captures), 0);
}
END_TEST

static void *end_per_thread(void *answer)
{
	CUgraph graph;

	*(CUresult *)answer = cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph);
	return NULL;
}

/* One handle, and a stream of each thread: of this one's nothing has begun. */
START_TEST(a_capture_of_another_threads_own_stream_goes_on)
{
	CUresult answer = CUDA_SUCCESS;
	pthread_t thread;
	CUgraph graph;

	begin_by(2, CU_STREAM_PER_THREAD);
	atomic_store(&end_result, CUDA_ERROR_ILLEGAL_STATE);
	atomic_store(&status, CU_STREAM_CAPTURE_STATUS_NONE);
	ck_assert_int_eq(pthread_create(&thread, NULL, end_per_thread, &answer), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(answer, CUDA_ERROR_ILLEGAL_STATE);
	ck_assert(gate_is_shut());
	atomic_store(&end_result, CUDA_SUCCESS);
	cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph);
	ck_assert_uint_eq(atomic_load(&gate_captures), 0);
}
END_TEST

START_TEST(an_end_by_another_thread_takes_no_capture_of_this_one)
{
	CUresult answer = CUDA_ERROR_UNKNOWN;
	pthread_t thread;
	CUgraph graph;

	begin_by(2, CU_STREAM_PER_THREAD);
	begin_by(3, NULL);
	ck_assert_uint_eq(atomic_load(&gate_captures), 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, end_per_thread, &answer), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(answer, CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&gate_captures), 2);
	cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph);
	cuStreamEndCapture_ptsz(NULL, &graph);
	ck_assert_uint_eq(atomic_load(&gate_captures), 0);
}
END_TEST

START_TEST(a_capture_ends_with_its_stream)
{
	begin_by(2, stream_at(1));
	cuStreamDestroy_v2(stream_at(2));
	ck_assert(gate_is_shut());
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuStreamDestroy_v2(stream_at(1));
	ck_assert(gate_is_shut());
	fake_result = CUDA_SUCCESS;
	cuStreamDestroy_v2(stream_at(1));
	ck_assert(!gate_is_shut());
}
END_TEST

START_TEST(captures_end_with_their_context)
{
	for (uintptr_t i = 1; i <= 3; i++)
		begin_by(2, stream_at(i));
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuCtxDestroy_v2(fake_context);
	ck_assert_uint_eq(atomic_load(&gate_captures), 3);
	fake_result = CUDA_SUCCESS;
	ck_assert_int_eq(cuCtxDestroy_v2(fake_context), CUDA_SUCCESS);
	ck_assert_uint_eq(atomic_load(&gate_captures), 0);
}
END_TEST

START_TEST(any_number_of_captures_is_counted)
{
	CUgraph graph;

	for (uintptr_t i = 1; i <= 1500; i++)
		begin_by(2, stream_at(i));
	ck_assert_uint_eq(atomic_load(&gate_captures), 1500);
	for (uintptr_t i = 1; i <= 1500; i++) {
		ck_assert(gate_is_shut());
		cuStreamEndCapture(stream_at(i), &graph);
		cuStreamEndCapture(stream_at(9999), &graph);
	}
	ck_assert_uint_eq(atomic_load(&gate_captures), 0);
}
END_TEST

START_TEST(what_can_be_had_is_had_before_a_capture)
{
	CUdeviceptr address = fake_block(4096);
	const struct fake_look *look;

	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	fake_look();
	atomic_store(&status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ck_assert_int_eq(begin_by(2, stream_at(1)), CUDA_SUCCESS);
	look = fake_look();
	ck_assert_uint_eq(look->count, 3);
	ck_assert_int_eq(look->record[0].kind, RECORD_RELEASE);
	ck_assert_int_eq(look->record[1].kind, RECORD_FLUSH);
	ck_assert_int_eq(look->record[2].kind, RECORD_OPERATION);
	ck_assert_int_eq(look->record[2].flags, 0);
	ck_assert_uint_ge(look->record[2].start, look->record[0].start);
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
}
END_TEST

START_TEST(during_a_capture_nothing_of_ours_is_called)
{
	CUdeviceptr first = fake_block(4096);
	CUgraph graph;

	for (int i = 1; i < 20; i++)
		fake_block(4096);
	begin_by(2, stream_at(1));
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(cuMemFree_v2(first + (unsigned int)i * 4096), CUDA_SUCCESS);
	cuStreamSynchronize(stream_at(2));
	ck_assert_uint_eq(atomic_load(&pending_total), 20);
	ck_assert_uint_eq(fake_calls(API_cuCtxRecordEvent), 0);
	cuStreamEndCapture(stream_at(1), &graph);
	cuStreamSynchronize(stream_at(2));
	ck_assert_uint_eq(atomic_load(&pending_total), 0);
	ck_assert_uint_eq(fake_spoilt(), 0);
}
END_TEST

static _Atomic bool is_over;

/*
 * Well below the items beyond which the driver has the program's frees, which spoil a
 * capture: they pile up where captures follow each other faster than passes come.
 */
enum { PENDING_MOST = 2000 };

static void wait_for_passes(void)
{
	while (atomic_load(&pending_total) > PENDING_MOST && !atomic_load(&is_over)) {
		if (gate_is_shut())
			sched_yield();
		else
			cuStreamSynchronize(NULL);
	}
}

/* So little that the limit of bytes, beyond which the driver has a free, is far too. */
static void *free_without_end(void *argument)
{
	(void)argument;
	while (!atomic_load(&is_over)) {
		CUdeviceptr address = fake_block(16);

		wait_for_passes();
		ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
		if (address % 7 == 0)
			cuStreamSynchronize(NULL);
	}
	return NULL;
}

START_TEST(a_capture_is_safe_from_other_threads)
{
	enum { THREADS = 4, ROUNDS = 2000 };
	pthread_t threads[THREADS];
	CUgraph graph;

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, free_without_end, NULL), 0);
	for (uintptr_t i = 1; i <= ROUNDS; i++) {
		begin_by((int)(i % 6), stream_at(i));
		cuStreamEndCapture(stream_at(i), &graph);
	}
	atomic_store(&is_over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(fake_spoilt(), 0);
	ck_assert_uint_gt(fake_calls(API_cuCtxRecordEvent), 0);
	ck_assert_uint_eq(atomic_load(&gate_captures), 0);
	ck_assert_uint_eq(atomic_load(&gate_in_flight), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("capture");
	TCase *tests = tcase_create("capture");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, start, fake_stop);
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, every_begin_shuts_and_every_end_opens, 0, 6);
	tcase_add_loop_test(tests, a_capture_that_does_not_begin_opens_again, 0, 6);
	tcase_add_test(tests, a_spoilt_capture_ends_with_its_error);
	tcase_add_test(tests, a_capture_of_another_thread_goes_on);
	tcase_add_test(tests, a_capture_of_another_threads_own_stream_goes_on);
	tcase_add_test(tests, an_end_by_another_thread_takes_no_capture_of_this_one);
	tcase_add_test(tests, a_capture_ends_with_its_stream);
	tcase_add_test(tests, captures_end_with_their_context);
	tcase_add_test(tests, any_number_of_captures_is_counted);
	tcase_add_test(tests, what_can_be_had_is_had_before_a_capture);
	tcase_add_test(tests, during_a_capture_nothing_of_ours_is_called);
	tcase_add_test(tests, a_capture_is_safe_from_other_threads);
	suite_add_tcase(suite, tests);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
