/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: which call of which thread a capture forbids, and what it loses. */
#include <pthread.h>
#include <unistd.h>

#include "simtest.h"

static struct bench b;
static CUdeviceptr block, spare;
static CUevent event;
static CUstream other;
static void *pinned;
static CUmemoryPool pool;

static void setup(void)
{
	bench_open(&b);
	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuMemAlloc(&spare, 4096));
	ck_cu(cuMemAllocHost(&pinned, 4096));
	ck_cu(cuEventCreate(&event, 0));
	ck_cu(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ck_cu(cuDeviceGetDefaultMemPool(&pool, b.device));
}

/* The calls that are tried, by number. */
enum act {
	ACT_FREE, ACT_ALLOC, ACT_HOST_ALLOC, ACT_POOL_ATTRIBUTE, ACT_EVENT_QUERY, ACT_CTX_RECORD,
	ACT_CTX_SYNC, ACT_INFO, ACT_ATTRIBUTE, ACT_EVENT_CREATE, ACT_COPY, ACT_EVENT_SYNC,
	ACT_STREAM_QUERY, ACT_STREAM_SYNC, ACT_ALLOC_ASYNC, ACT_REGISTER, ACT_TRIM,
	ACT_OTHER_RECORD, ACT_MEMSET_OTHER, ACT_IS_CAPTURING, ACT_MODULE_LOAD,
	ACT_CREATE_MEMORY,
};

static CUresult act_memory(enum act act)
{
	static char own[4096];
	CUdeviceptr address;
	void *host;
	cuuint64_t value;

	switch (act) {
	case ACT_FREE:
		return cuMemFree(spare);
	case ACT_ALLOC:
		return cuMemAlloc(&address, 4096);
	case ACT_HOST_ALLOC:
		return cuMemHostAlloc(&host, 4096, 0);
	case ACT_REGISTER:
		return cuMemHostRegister(own, sizeof(own), 0);
	case ACT_POOL_ATTRIBUTE:
		return cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
	case ACT_ALLOC_ASYNC:
		return cuMemAllocAsync(&address, 4096, other);
	case ACT_TRIM:
		return cuMemPoolTrimTo(pool, 0);
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}

static CUresult act_harmless(enum act act)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle memory;
	CUstreamCaptureStatus status;
	size_t free_bytes, total_bytes;
	CUmodule module;
	CUevent fresh;
	unsigned type;

	switch (act) {
	case ACT_INFO:
		return cuMemGetInfo(&free_bytes, &total_bytes);
	case ACT_ATTRIBUTE:
		return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block);
	case ACT_EVENT_CREATE:
		return cuEventCreate(&fresh, 0);
	case ACT_COPY:
		return cuMemcpyHtoD(block, pinned, 16);
	case ACT_OTHER_RECORD:
		return cuEventRecord(event, other);
	case ACT_MEMSET_OTHER:
		return cuMemsetD8Async(block, 0, 16, other);
	case ACT_IS_CAPTURING:
		return cuStreamIsCapturing(b.stream, &status);
	case ACT_MODULE_LOAD:
		return cuModuleLoadData(&module, "image");
	case ACT_CREATE_MEMORY:
		return cuMemCreate(&memory, 2 * MIB, &prop, 0);
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}

static CUresult do_act(enum act act)
{
	switch (act) {
	case ACT_EVENT_QUERY:
		return cuEventQuery(event);
	case ACT_EVENT_SYNC:
		return cuEventSynchronize(event);
	case ACT_CTX_RECORD:
		return cuCtxRecordEvent(b.context, event);
	case ACT_CTX_SYNC:
		return cuCtxSynchronize();
	case ACT_STREAM_QUERY:
		return cuStreamQuery(other);
	case ACT_STREAM_SYNC:
		return cuStreamSynchronize(other);
	case ACT_FREE:
	case ACT_ALLOC:
	case ACT_HOST_ALLOC:
	case ACT_REGISTER:
	case ACT_POOL_ATTRIBUTE:
	case ACT_ALLOC_ASYNC:
	case ACT_TRIM:
		return act_memory(act);
	default:
		return act_harmless(act);
	}
}

struct order {
	enum act act;
	bool relaxed;
	CUresult result;
};

static void *obey(void *argument)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct order *order = argument;

	cuCtxSetCurrent(b.context);
	if (order->relaxed)
		cuThreadExchangeStreamCaptureMode(&mode);
	order->result = do_act(order->act);
	return NULL;
}

static CUresult on_other_thread(enum act act, bool relaxed)
{
	struct order order = {act, relaxed, CUDA_ERROR_UNKNOWN};
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, obey, &order), 0);
	pthread_join(thread, NULL);
	return order.result;
}

static CUresult finish(void)
{
	CUgraph graph;
	CUresult result = cuStreamEndCapture(b.stream, &graph);

	if (!result)
		ck_cu(cuGraphDestroy(graph));
	return result;
}

/* Tries one act during a capture and says what became of both. */
static void check_row(enum act act, CUstreamCaptureMode mode, bool relaxed, bool forbidden)
{
	CUresult result;

	ck_cu(cuStreamBeginCapture(b.stream, mode));
	result = on_other_thread(act, relaxed);
	ck_assert_msg((int)result == (forbidden ? 900 : 0), "act %d in mode %d gave %d", act, mode,
		      result);
	result = finish();
	ck_assert_msg((int)result == (forbidden ? 901 : 0),
		      "after act %d in mode %d the end gave %d", act, mode, result);
}

static const struct {
	enum act act;
	bool global, in_thread_local;
} table[] = {
	{ACT_ALLOC, true, false},
	{ACT_HOST_ALLOC, true, false},
	{ACT_POOL_ATTRIBUTE, true, false},
	{ACT_EVENT_QUERY, true, false},
	{ACT_CTX_RECORD, true, true},
	{ACT_CTX_SYNC, true, true},
	{ACT_INFO, false, false},
	{ACT_ATTRIBUTE, false, false},
	{ACT_EVENT_CREATE, false, false},
	{ACT_COPY, false, false},
	{ACT_EVENT_SYNC, false, false},
	{ACT_FREE, true, false},
};

START_TEST(other_threads_meet_the_measured_table)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]) - 1; i++) {
		check_row(table[i].act, CU_STREAM_CAPTURE_MODE_GLOBAL, false, table[i].global);
		check_row(table[i].act, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false,
			  table[i].in_thread_local);
	}
	check_row(ACT_FREE, CU_STREAM_CAPTURE_MODE_GLOBAL, false, true);
	check_row(ACT_FREE, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false, false);
}
END_TEST

START_TEST(a_relaxed_thread_may_allocate_and_free)
{
	check_row(ACT_ALLOC, CU_STREAM_CAPTURE_MODE_GLOBAL, true, false);
	check_row(ACT_FREE, CU_STREAM_CAPTURE_MODE_GLOBAL, true, false);
	check_row(ACT_CTX_SYNC, CU_STREAM_CAPTURE_MODE_RELAXED, true, true);
}
END_TEST

START_TEST(what_a_context_is_asked_spoils_captures_of_every_mode)
{
	for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
	     mode++)
		for (int relaxed = 0; relaxed < 2; relaxed++) {
			check_row(ACT_CTX_RECORD, (CUstreamCaptureMode)mode, relaxed, true);
			check_row(ACT_CTX_SYNC, (CUstreamCaptureMode)mode, relaxed, true);
		}
}
END_TEST

START_TEST(an_event_of_another_context_is_refused_before_it_spoils_anything)
{
	CUcontext context;
	CUevent foreign;

	ck_cu(cuCtxCreate(&context, NULL, 0, b.device));
	ck_cu(cuEventCreate(&foreign, CU_EVENT_DISABLE_TIMING));
	ck_cu(cuCtxPopCurrent(NULL));
	ck_cu_is(cuCtxRecordEvent(b.context, foreign), CUDA_ERROR_INVALID_HANDLE);
	ck_cu_is(cuCtxRecordEvent(context, event), CUDA_ERROR_INVALID_HANDLE);
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cu_is(cuCtxRecordEvent(b.context, foreign), CUDA_ERROR_INVALID_HANDLE);
	ck_cu(finish());
	/* The event sees one context: a capture in another is not spoiled. */
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cu(cuCtxRecordEvent(context, foreign));
	ck_cu(finish());
}
END_TEST

START_TEST(a_capture_may_begin_while_others_wait)
{
	const enum act acts[] = {ACT_CTX_SYNC, ACT_EVENT_SYNC, ACT_EVENT_SYNC};
	struct order order = {.result = CUDA_ERROR_UNKNOWN};
	pthread_t thread;

	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
		order.act = acts[i];
		order.relaxed = i == 2;
		bench_hold(&b, other);
		ck_cu(cuEventRecord(event, other));
		ck_assert_int_eq(pthread_create(&thread, NULL, obey, &order), 0);
		usleep(30000);
		ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
		ck_cu(cuMemsetD8Async(block, 1, 16, b.stream));
		ck_cu(finish());
		bench_release(&b);
		pthread_join(thread, NULL);
		ck_cu(order.result);
	}
}
END_TEST

static const enum act lost_on_own_thread[] = {
	ACT_ALLOC, ACT_FREE, ACT_HOST_ALLOC, ACT_REGISTER, ACT_ALLOC_ASYNC, ACT_TRIM,
	ACT_EVENT_QUERY, ACT_EVENT_SYNC, ACT_STREAM_QUERY, ACT_STREAM_SYNC, ACT_CTX_SYNC,
};
static const enum act fine_on_own_thread[] = {
	ACT_INFO, ACT_ATTRIBUTE, ACT_EVENT_CREATE, ACT_OTHER_RECORD, ACT_COPY, ACT_MEMSET_OTHER,
	ACT_IS_CAPTURING, ACT_MODULE_LOAD, ACT_CREATE_MEMORY,
};

START_TEST(the_capturing_thread_meets_the_measured_list)
{
	const size_t lost = sizeof(lost_on_own_thread) / sizeof(lost_on_own_thread[0]);
	const size_t fine = sizeof(fine_on_own_thread) / sizeof(fine_on_own_thread[0]);
	CUstreamCaptureMode mode = (CUstreamCaptureMode)_i;

	for (size_t i = 0; i < lost; i++) {
		ck_cu(cuStreamBeginCapture(b.stream, mode));
		ck_assert_msg((int)do_act(lost_on_own_thread[i]) == 900, "act %d",
			      lost_on_own_thread[i]);
		ck_cu_is(finish(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	}
	for (size_t i = 0; i < fine; i++) {
		ck_cu(cuStreamBeginCapture(b.stream, mode));
		ck_assert_msg(!do_act(fine_on_own_thread[i]), "act %d", fine_on_own_thread[i]);
		ck_cu(finish());
	}
}
END_TEST

START_TEST(relaxed_mode_forbids_only_waiting_for_the_capture_itself)
{
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_cu(do_act(ACT_ALLOC));
	ck_cu(do_act(ACT_FREE));
	ck_cu(do_act(ACT_STREAM_SYNC));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_cu_is(finish(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_cu_is(do_act(ACT_CTX_SYNC), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_cu_is(finish(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(exchanging_to_relaxed_and_back_saves_the_capture)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cu(cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	ck_cu(do_act(ACT_FREE));
	ck_cu(cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	ck_cu(finish());
}
END_TEST

START_TEST(waiting_for_an_event_that_has_not_passed_needs_a_relaxed_thread)
{
	bench_hold(&b, other);
	ck_cu(cuEventRecord(event, other));
	check_row(ACT_EVENT_SYNC, CU_STREAM_CAPTURE_MODE_GLOBAL, false, true);
	bench_release(&b);
	bench_busy(&b, other, 50);
	ck_cu(cuEventRecord(event, other));
	check_row(ACT_EVENT_SYNC, CU_STREAM_CAPTURE_MODE_GLOBAL, true, false);
}
END_TEST

START_TEST(the_legacy_stream_spoils_a_capture_on_a_blocking_stream)
{
	CUstreamCaptureStatus status;
	CUstream blocking;
	CUgraph graph;

	ck_cu(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	ck_cu(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cu_is(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ck_cu(cuStreamIsCapturing(blocking, &status));
	ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ck_cu_is(do_act(ACT_COPY), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ck_cu_is(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_assert_ptr_null(graph);
}
END_TEST

START_TEST(streams_join_and_must_come_back)
{
	CUevent forked, joined;
	CUgraph graph;
	size_t count = 0;

	ck_cu(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
	ck_cu(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cu(cuMemsetD8Async(block, 1, 16, b.stream));
	ck_cu(cuEventRecord(forked, b.stream));
	ck_cu(cuStreamWaitEvent(other, forked, 0));
	ck_cu(cuMemsetD8Async(block + 64, 1, 16, other));
	ck_cu_is(cuStreamEndCapture(b.stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cu(cuMemsetD8Async(block, 1, 16, b.stream));
	ck_cu(cuEventRecord(forked, b.stream));
	ck_cu(cuStreamWaitEvent(other, forked, 0));
	ck_cu(cuMemsetD8Async(block + 64, 1, 16, other));
	ck_cu(cuEventRecord(joined, other));
	ck_cu(cuStreamWaitEvent(b.stream, joined, 0));
	ck_cu(cuStreamEndCapture(b.stream, &graph));
	ck_cu(cuGraphGetNodes(graph, NULL, &count));
	ck_assert_uint_eq(count, 2);
}
END_TEST

START_TEST(an_event_from_outside_does_not_get_in)
{
	ck_cu(cuEventRecord(event, other));
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cu_is(cuStreamWaitEvent(b.stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	ck_cu_is(finish(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

/* Measured: one of them survives, the others do not. */
START_TEST(some_copies_become_no_node)
{
	CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUdeviceptr from, managed, to;
	size_t size = 64, first = 0;
	CUgraph graph;

	ck_cu(cuMemAlloc(&from, 4096));
	ck_cu(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	to = from + 1024;
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cu_is(cuMemcpyBatchAsync(&to, &from, &size, 1, &how, &first, 1, b.stream),
		 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_cu(cuStreamEndCapture(b.stream, &graph));
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cu_is(cuMemcpyPeerAsync(to, b.context, from, b.context, 64, b.stream),
		 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_cu_is(cuStreamEndCapture(b.stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_cu_is(cuMemPrefetchAsync(managed, 4096, here, 0, b.stream),
		 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_cu_is(cuStreamEndCapture(b.stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(a_graph_is_instantiated_beside_a_relaxed_capture_only)
{
	CUgraph graph, empty;
	CUgraphExec exec;

	ck_cu(cuGraphCreate(&empty, 0));
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	ck_cu_is(cuGraphInstantiate(&exec, empty, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_cu_is(cuStreamEndCapture(b.stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_cu(cuGraphInstantiate(&exec, empty, 0));
	ck_cu(cuStreamEndCapture(b.stream, &graph));
}
END_TEST

Suite *suite_capture(void)
{
	Suite *suite = suite_create("simdriver capture");
	TCase *tcase = tcase_create("capture");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, other_threads_meet_the_measured_table);
	tcase_add_test(tcase, a_relaxed_thread_may_allocate_and_free);
	tcase_add_test(tcase, what_a_context_is_asked_spoils_captures_of_every_mode);
	tcase_add_test(tcase, an_event_of_another_context_is_refused_before_it_spoils_anything);
	tcase_add_test(tcase, a_capture_may_begin_while_others_wait);
	tcase_add_loop_test(tcase, the_capturing_thread_meets_the_measured_list,
			    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED);
	tcase_add_test(tcase, relaxed_mode_forbids_only_waiting_for_the_capture_itself);
	tcase_add_test(tcase, exchanging_to_relaxed_and_back_saves_the_capture);
	tcase_add_test(tcase, waiting_for_an_event_that_has_not_passed_needs_a_relaxed_thread);
	tcase_add_test(tcase, the_legacy_stream_spoils_a_capture_on_a_blocking_stream);
	tcase_add_test(tcase, streams_join_and_must_come_back);
	tcase_add_test(tcase, an_event_from_outside_does_not_get_in);
	tcase_add_test(tcase, some_copies_become_no_node);
	tcase_add_test(tcase, a_graph_is_instantiated_beside_a_relaxed_capture_only);
	suite_add_tcase(suite, tcase);
	return suite;
}
