/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and who waits for whom. */
#include <pthread.h>
#include <unistd.h>

#include "simtest.h"

static struct bench b;

static void setup(void)
{
	bench_open(&b);
}

START_TEST(free_waits_for_every_stream_of_the_context)
{
	CUdeviceptr block;
	void *pinned;

	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuMemAllocHost(&pinned, 4096));
	bench_busy(&b, b.stream, 20);
	ck_cu(cuMemFree(block));
	ck_cu(cuStreamQuery(b.stream));
	bench_busy(&b, b.stream, 20);
	ck_cu(cuMemFreeHost(pinned));
	ck_cu(cuStreamQuery(b.stream));
}
END_TEST

START_TEST(alloc_does_not_wait)
{
	CUdeviceptr block;
	CUstream other;

	bench_hold(&b, b.stream);
	ck_cu(cuMemAlloc(&block, 4 * MIB));
	ck_cu(cuStreamCreate(&other, 0));
	ck_cu(cuStreamDestroy(other));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuStreamSynchronize(b.stream));
}
END_TEST

START_TEST(another_busy_context_does_not_hold_a_free_up)
{
	CUdeviceptr block;
	CUcontext other;

	bench_hold(&b, b.stream);
	ck_cu(cuCtxCreate(&other, NULL, 0, b.device));
	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuMemFree(block));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuCtxDestroy(other));
}
END_TEST

static void *free_in_thread(void *argument)
{
	cuMemFree(*(CUdeviceptr *)argument);
	return NULL;
}

static void *record_in_thread(void *argument)
{
	CUevent event;

	cuCtxSetCurrent(b.context);
	cuEventCreate(&event, 0);
	__atomic_store_n((int *)argument, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

START_TEST(a_free_that_waits_holds_up_creating_events_but_not_asking)
{
	CUdeviceptr block, other;
	pthread_t freeing, creating;
	unsigned type;
	int done = 0;

	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuMemAlloc(&other, 4096));
	bench_hold(&b, b.stream);
	pthread_create(&freeing, NULL, free_in_thread, &block);
	usleep(30000);
	pthread_create(&creating, NULL, record_in_thread, &done);
	usleep(30000);
	ck_assert_int_eq(__atomic_load_n(&done, __ATOMIC_SEQ_CST), 0);
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	ck_cu(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, other));
	bench_free_bytes();
	bench_release(&b);
	pthread_join(freeing, NULL);
	pthread_join(creating, NULL);
	ck_assert_int_eq(done, 1);
}
END_TEST

/* What a thread tries while another one waits in a free; counts what came through. */
struct attempt {
	int what;
	CUdeviceptr block;
	void *pinned;
	int done;
};

static void try_gated(struct attempt *attempt, CUstream stream)
{
	unsigned nothing = 0;
	void *params[] = {&nothing};
	CUdeviceptr fresh;

	switch (attempt->what) {
	case 0:
		ck_cu(cuLaunchKernel(b.delay, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
		break;
	case 1:
		ck_cu(cuMemcpyHtoDAsync(attempt->block, attempt->pinned, 64, stream));
		break;
	case 2:
		ck_cu(cuMemsetD8Async(attempt->block, 0, 64, stream));
		break;
	default:
		ck_cu(cuMemAlloc(&fresh, 64));
	}
}

static void *try_in_thread(void *argument)
{
	struct attempt *attempt = argument;
	CUdeviceptr fresh;
	CUstream own;

	ck_cu(cuCtxSetCurrent(b.context));
	ck_cu(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
	if (attempt->what < 4) {
		try_gated(attempt, own);
	} else {
		ck_cu(cuMemAllocAsync(&fresh, 64, own));
		ck_cu(cuStreamQuery(own));
		bench_free_bytes();
	}
	__atomic_store_n(&attempt->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void *free_host_in_thread(void *argument)
{
	ck_cu(cuCtxSetCurrent(b.context));
	ck_cu(cuMemFreeHost(argument));
	return NULL;
}

/* Loop 0: cuMemFree waits, loop 1: cuMemFreeHost. */
START_TEST(a_free_that_waits_holds_up_work_of_other_threads)
{
	struct attempt attempts[5] = {0};
	pthread_t freeing, threads[5];
	CUdeviceptr block;
	void *pinned;

	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuMemAllocHost(&pinned, 4096));
	for (int i = 0; i < 5; i++) {
		attempts[i].what = i;
		ck_cu(cuMemAlloc(&attempts[i].block, 4096));
		ck_cu(cuMemAllocHost(&attempts[i].pinned, 4096));
	}
	bench_hold(&b, b.stream);
	if (_i == 0)
		pthread_create(&freeing, NULL, free_in_thread, &block);
	else
		pthread_create(&freeing, NULL, free_host_in_thread, pinned);
	usleep(30000);
	for (int i = 0; i < 5; i++)
		pthread_create(&threads[i], NULL, try_in_thread, &attempts[i]);
	pthread_join(threads[4], NULL);
	usleep(30000);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(__atomic_load_n(&attempts[i].done, __ATOMIC_SEQ_CST), 0);
	bench_release(&b);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	pthread_join(freeing, NULL);
}
END_TEST

static void *wait_in_thread(void *argument)
{
	ck_cu(cuCtxSetCurrent(b.context));
	ck_cu(cuEventSynchronize(argument));
	return NULL;
}

START_TEST(a_wait_for_an_event_of_the_context_holds_up_nobody)
{
	CUdeviceptr block;
	CUstream other;
	pthread_t thread;
	CUevent event;

	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ck_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	bench_hold(&b, b.stream);
	ck_cu(cuCtxRecordEvent(b.context, event));
	pthread_create(&thread, NULL, wait_in_thread, event);
	usleep(20000);
	bench_busy(&b, other, 1);
	ck_cu(cuMemsetD8Async(block, 0, 16, other));
	ck_cu(cuStreamSynchronize(other));
	ck_cu_is(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	pthread_join(thread, NULL);
	ck_cu(cuEventQuery(event));
}
END_TEST

START_TEST(sync_copies_wait_for_blocking_streams_only)
{
	CUdeviceptr block, other;
	CUstream blocking;
	char byte = 0;

	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuMemAlloc(&other, 4096));
	ck_cu(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	bench_busy(&b, blocking, 20);
	ck_cu(cuMemcpyHtoD(block, &byte, 1));
	ck_cu(cuStreamQuery(blocking));
	bench_hold(&b, b.stream);
	ck_cu(cuMemcpyHtoD(block, &byte, 1));
	ck_cu(cuMemcpyDtoH(&byte, block, 1));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuStreamSynchronize(b.stream));
}
END_TEST

START_TEST(device_copies_and_memsets_return_at_once)
{
	CUdeviceptr block, other;
	CUstream blocking;
	unsigned yes = 1;

	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuMemAlloc(&other, 4096));
	ck_cu(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	bench_hold(&b, blocking);
	ck_cu(cuMemcpyDtoD(block, other, 4096));
	ck_cu(cuMemsetD8(block, 1, 4096));
	ck_cu_is(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuCtxSynchronize());
	ck_cu(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
	bench_busy(&b, blocking, 20);
	ck_cu(cuMemcpyDtoD(block, other, 4096));
	ck_cu(cuStreamQuery(blocking));
}
END_TEST

START_TEST(pageable_async_copies_wait_as_measured)
{
	static char large[32 * MIB];
	CUdeviceptr block;
	char small[64];

	ck_cu(cuMemAlloc(&block, sizeof(large)));
	bench_hold(&b, b.stream);
	memset(small, 5, sizeof(small));
	ck_cu(cuMemcpyHtoDAsync(block, small, sizeof(small), b.stream));
	memset(small, 9, sizeof(small));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuMemcpyDtoHAsync(small, block, sizeof(small), b.stream));
	ck_assert_int_eq(small[63], 5);
	ck_cu(cuStreamQuery(b.stream));
	bench_busy(&b, b.stream, 20);
	ck_cu(cuMemcpyHtoDAsync(block, large, sizeof(large), b.stream));
	ck_cu(cuStreamQuery(b.stream));
}
END_TEST

START_TEST(pinned_async_copies_never_wait)
{
	CUdeviceptr block;
	void *pinned;

	ck_cu(cuMemAlloc(&block, 4 * MIB));
	ck_cu(cuMemAllocHost(&pinned, 4 * MIB));
	bench_hold(&b, b.stream);
	ck_cu(cuMemcpyHtoDAsync(block, pinned, 4 * MIB, b.stream));
	ck_cu(cuMemcpyDtoHAsync(pinned, block, 4 * MIB, b.stream));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuStreamSynchronize(b.stream));
}
END_TEST

START_TEST(events_pass_when_their_stream_gets_there)
{
	CUevent before, after;
	float milliseconds = 0;

	ck_cu(cuEventCreate(&before, 0));
	ck_cu(cuEventCreate(&after, 0));
	ck_cu(cuEventQuery(before));
	ck_cu(cuEventRecord(before, b.stream));
	bench_busy(&b, b.stream, 20);
	ck_cu(cuEventRecord(after, b.stream));
	ck_cu_is(cuEventQuery(after), CUDA_ERROR_NOT_READY);
	ck_cu_is(cuEventElapsedTime(&milliseconds, before, after), CUDA_ERROR_NOT_READY);
	ck_cu(cuEventSynchronize(after));
	ck_cu(cuEventElapsedTime(&milliseconds, before, after));
	ck_assert_float_ge(milliseconds, 19);
}
END_TEST

START_TEST(a_stream_waits_for_the_event_of_another)
{
	CUstream other;
	CUevent event;

	ck_cu(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ck_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	bench_hold(&b, b.stream);
	ck_cu(cuEventRecord(event, b.stream));
	ck_cu(cuStreamWaitEvent(other, event, 0));
	ck_cu_is(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuStreamSynchronize(other));
	ck_cu(cuStreamQuery(b.stream));
}
END_TEST

START_TEST(an_event_of_the_context_stands_behind_all_streams)
{
	CUstream other;
	CUevent event;

	ck_cu(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ck_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ck_cu(cuCtxRecordEvent(b.context, event));
	ck_cu(cuEventQuery(event));
	bench_busy(&b, other, 20);
	bench_hold(&b, b.stream);
	ck_cu(cuCtxRecordEvent(b.context, event));
	ck_cu(cuStreamSynchronize(other));
	ck_cu_is(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuEventSynchronize(event));
}
END_TEST

static void note(void *data)
{
	++*(int *)data;
}

static void CUDA_CB note_status(CUstream stream, CUresult status, void *data)
{
	(void)stream;
	*(int *)data += status ? 100 : 10;
}

START_TEST(host_functions_run_in_stream_order)
{
	int count = 0;

	ck_cu(cuLaunchHostFunc(b.stream, note, &count));
	ck_cu(cuStreamAddCallback(b.stream, note_status, &count, 0));
	ck_cu(cuLaunchHostFunc(b.stream, note, &count));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_int_eq(count, 12);
}
END_TEST

START_TEST(a_destroyed_stream_finishes_its_work)
{
	int count = 0;

	bench_hold(&b, b.stream);
	ck_cu(cuLaunchHostFunc(b.stream, note, &count));
	ck_cu(cuStreamDestroy(b.stream));
	bench_release(&b);
	ck_cu(cuCtxSynchronize());
	ck_assert_int_eq(count, 1);
}
END_TEST

START_TEST(kernels_write_memory_in_order)
{
	unsigned value = 0x1234, words = 256, out[256];
	unsigned long long address;
	void *params[] = {&address, &value, &words};
	CUdeviceptr block;

	ck_cu(cuMemAlloc(&block, sizeof(out)));
	address = block;
	ck_cu(cuMemsetD32Async(block, 1, words, b.stream));
	ck_cu(cuLaunchKernel(b.fill, 1, 1, 1, 1, 1, 1, 0, b.stream, params, NULL));
	ck_cu(cuMemcpyDtoHAsync(out, block, sizeof(out), b.stream));
	for (unsigned i = 0; i < words; i++)
		ck_assert_uint_eq(out[i], value);
}
END_TEST

START_TEST(per_thread_streams_differ_from_the_legacy_one)
{
	unsigned long long legacy, own;
	CUdeviceptr block;

	ck_cu(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
	ck_cu(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
	ck_assert_uint_ne(legacy, own);
	ck_cu(cuMemAlloc(&block, 64));
	bench_hold(&b, CU_STREAM_PER_THREAD);
	ck_cu_is(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	ck_cu(cuStreamQuery(CU_STREAM_LEGACY));
}
END_TEST

static void *use_own_stream(void *argument)
{
	CUdeviceptr block;

	ck_cu(cuCtxSetCurrent(b.context));
	ck_cu(cuMemAlloc(&block, 4096));
	bench_busy(&b, CU_STREAM_PER_THREAD, 5);
	ck_cu(cuLaunchHostFunc(CU_STREAM_PER_THREAD, note, argument));
	return NULL;
}

START_TEST(the_own_stream_of_a_thread_that_ends_finishes_its_work)
{
	pthread_t threads[16];
	int counts[16] = {0}, sum = 0;

	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, use_own_stream, &counts[i]), 0);
	for (int i = 0; i < 16; i++)
		pthread_join(threads[i], NULL);
	ck_cu(cuCtxSynchronize());
	for (int i = 0; i < 16; i++)
		sum += counts[i];
	ck_assert_int_eq(sum, 16);
}
END_TEST

START_TEST(the_context_waits_for_an_event_with_all_streams_old_and_new)
{
	CUstream old, fresh, holder;
	CUevent event;

	ck_cu(cuStreamCreate(&old, CU_STREAM_NON_BLOCKING));
	ck_cu(cuStreamCreate(&holder, CU_STREAM_NON_BLOCKING));
	ck_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	bench_hold(&b, holder);
	ck_cu(cuEventRecord(event, holder));
	ck_cu(cuCtxWaitEvent(b.context, event));
	ck_cu(cuStreamCreate(&fresh, CU_STREAM_NON_BLOCKING));
	ck_cu_is(cuStreamQuery(old), CUDA_ERROR_NOT_READY);
	ck_cu_is(cuStreamQuery(fresh), CUDA_ERROR_NOT_READY);
	bench_release(&b);
	ck_cu(cuCtxSynchronize());
	ck_cu(cuStreamQuery(fresh));
}
END_TEST

START_TEST(without_strictness_a_stale_handle_is_an_error)
{
	struct bench lax;
	CUevent event;

	setenv("SIMCUDA_STRICT", "0", 1);
	bench_open(&lax);
	ck_cu(cuEventCreate(&event, 0));
	ck_cu(cuEventDestroy(event));
	ck_cu_is(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
	ck_cu_is(cuStreamQuery((CUstream)event), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(a_stale_stream_handle_ends_the_process)
{
	CUstream stream;

	ck_cu(cuStreamCreate(&stream, 0));
	ck_cu(cuStreamDestroy(stream));
	cuStreamQuery(stream);
}
END_TEST

START_TEST(a_stale_event_handle_ends_the_process)
{
	CUevent event;

	ck_cu(cuEventCreate(&event, 0));
	ck_cu(cuEventDestroy(event));
	cuEventRecord(event, b.stream);
}
END_TEST

START_TEST(a_stream_of_a_destroyed_context_ends_the_process)
{
	CUcontext other;
	CUstream stream;

	ck_cu(cuCtxCreate(&other, NULL, 0, b.device));
	ck_cu(cuStreamCreate(&stream, 0));
	ck_cu(cuCtxDestroy(other));
	cuStreamDestroy(stream);
}
END_TEST

static void add_tests(TCase *tcase)
{
	tcase_add_test(tcase, free_waits_for_every_stream_of_the_context);
	tcase_add_test(tcase, alloc_does_not_wait);
	tcase_add_test(tcase, another_busy_context_does_not_hold_a_free_up);
	tcase_add_test(tcase, a_free_that_waits_holds_up_creating_events_but_not_asking);
	tcase_add_loop_test(tcase, a_free_that_waits_holds_up_work_of_other_threads, 0, 2);
	tcase_add_test(tcase, a_wait_for_an_event_of_the_context_holds_up_nobody);
	tcase_add_test(tcase, sync_copies_wait_for_blocking_streams_only);
	tcase_add_test(tcase, device_copies_and_memsets_return_at_once);
	tcase_add_test(tcase, pageable_async_copies_wait_as_measured);
	tcase_add_test(tcase, pinned_async_copies_never_wait);
	tcase_add_test(tcase, events_pass_when_their_stream_gets_there);
	tcase_add_test(tcase, a_stream_waits_for_the_event_of_another);
	tcase_add_test(tcase, an_event_of_the_context_stands_behind_all_streams);
	tcase_add_test(tcase, host_functions_run_in_stream_order);
	tcase_add_test(tcase, a_destroyed_stream_finishes_its_work);
	tcase_add_test(tcase, kernels_write_memory_in_order);
	tcase_add_test(tcase, per_thread_streams_differ_from_the_legacy_one);
}

Suite *suite_stream(void)
{
	Suite *suite = suite_create("simdriver streams");
	TCase *tcase = tcase_create("streams");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, NULL);
	add_tests(tcase);
	tcase_add_test(tcase, the_own_stream_of_a_thread_that_ends_finishes_its_work);
	tcase_add_test(tcase, the_context_waits_for_an_event_with_all_streams_old_and_new);
	tcase_add_test_raise_signal(tcase, a_stale_stream_handle_ends_the_process, SIGABRT);
	tcase_add_test_raise_signal(tcase, a_stale_event_handle_ends_the_process, SIGABRT);
	tcase_add_test_raise_signal(tcase, a_stream_of_a_destroyed_context_ends_the_process,
				    SIGABRT);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("lax");
	tcase_add_test(tcase, without_strictness_a_stale_handle_is_an_error);
	suite_add_tcase(suite, tcase);
	return suite;
}
