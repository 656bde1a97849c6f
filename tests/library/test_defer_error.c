/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deferred-free queues where something goes wrong: releases that the driver refuses,
 * and memory that is not there.
 */
#include "fixture.h"

#include <dlfcn.h>

static struct custody_context *context;

static struct custody_pending pending(void)
{
	struct custody_pending now = { .size = sizeof(now) };

	ck_ok(custody_pending(context, &now));
	return now;
}

static struct custody_defer_statistics statistics(void)
{
	struct custody_defer_statistics now = { .size = sizeof(now) };

	ck_ok(custody_defer_statistics(context, &now));
	return now;
}

static void free_events(unsigned int count)
{
	struct custody_event *events[64];

	for (unsigned int i = 0; i < count; i++)
		ck_ok(custody_event_create(context, NULL, &events[i]));
	for (unsigned int i = 0; i < count; i++)
		ck_ok(custody_event_destroy(events[i]));
}

/* ------------------------------------------------------------------ refused releases */

/* Plain memory goes by cuMemFree here, one call an item. */
static void begin_refusing(const char *rule)
{
	setenv("SIMCUDA_FREE_PLAIN", "0", 1);
	setenv("SIMCUDA_FAIL", rule, 1);
	context = fixture_context(0);
}

START_TEST(refused_release_ends_the_pass_and_the_rest_stays)
{
	begin_refusing("cuEventDestroy_v2:3:1");
	free_events(10);
	ck_is(custody_flush(context, false), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(pending().object_count, 7);
	ck_assert_uint_eq(statistics().failed, 1);
	ck_assert_uint_eq(statistics().released, 2);
	ck_ok(custody_flush(context, false));
	ck_assert_uint_eq(pending().object_count, 0);
	ck_assert_uint_eq(statistics().released, 9);
}
END_TEST

START_TEST(refused_release_is_reported_once)
{
	struct custody_defer_error errors[4];
	uint64_t dropped = 7;
	Dl_info place;

	begin_refusing("cuEventDestroy_v2:3:1");
	free_events(10);
	ck_is(custody_flush(context, false), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(custody_defer_errors(errors, 4, &dropped), 1);
	ck_assert_uint_eq(dropped, 0);
	ck_assert_str_eq(errors[0].kind, "event");
	ck_assert_int_eq((int)errors[0].result, 1);
	ck_assert_int_eq(errors[0].device, 0);
	ck_assert_uint_ne(errors[0].handle, 0);
	ck_assert_int_ne(dladdr(errors[0].freed_at, &place), 0);
	ck_assert_ptr_nonnull(strstr(place.dli_fname, "test_defer_error"));
	ck_assert_uint_eq(custody_defer_errors(errors, 4, &dropped), 0);
}
END_TEST

START_TEST(bytes_of_a_refused_release_are_pending_no_more)
{
	CUdeviceptr blocks[4];
	struct custody_defer_error error;

	setenv("SIMCUDA_FAIL_PROFILED", "1", 1);
	begin_refusing("cuMemFree_v2:1:1");
	fixture_free(context, fixture_allocate(context, 1));
	ck_ok(custody_flush(context, true)); /* how plain memory goes is found out once */
	ck_ok(custody_profile_start());
	for (int i = 0; i < 4; i++)
		blocks[i] = fixture_allocate(context, 100);
	for (int i = 0; i < 4; i++)
		fixture_free(context, blocks[i]);
	ck_assert_uint_eq(pending().memory_bytes, 400);
	ck_is(custody_flush(context, true), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(pending().memory_count, 3);
	ck_assert_uint_eq(pending().memory_bytes, 300);
	ck_assert_uint_eq(custody_defer_errors(&error, 1, NULL), 1);
	ck_assert_str_eq(error.kind, "memory");
	ck_assert_uint_eq(error.bytes, 100);
	ck_assert_uint_eq(error.handle, blocks[0]);
	ck_assert_ptr_nonnull(error.freed_at);
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(pending().memory_count, 0);
}
END_TEST

START_TEST(refused_release_names_the_call_of_the_program)
{
	struct custody_resource *resource;
	struct custody_buffer *buffer;
	struct custody_defer_error error;
	Dl_info place;

	setenv("SIMCUDA_FAIL_PROFILED", "1", 1);
	begin_refusing("cuMemFree_v2:1:1");
	ck_ok(custody_resource_device(context, &resource));
	ck_ok(custody_buffer_create(resource, KIB, NULL, &buffer));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_flush(context, true));
	ck_ok(custody_buffer_create(resource, KIB, NULL, &buffer));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_profile_start());
	ck_is(custody_flush(context, true), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(custody_defer_errors(&error, 1, NULL), 1);
	ck_assert_int_ne(dladdr(error.freed_at, &place), 0);
	ck_assert_ptr_nonnull(strstr(place.dli_fname, "test_defer_error"));
	ck_ok(custody_resource_release(resource));
}
END_TEST

START_TEST(list_of_errors_keeps_64_and_counts_the_others)
{
	struct custody_defer_error errors[100];
	uint64_t dropped = 0;

	begin_refusing("cuEventDestroy_v2:*:1");
	for (int i = 0; i < 70; i++) {
		free_events(1);
		ck_is(custody_flush(context, false), CUDA_ERROR_INVALID_VALUE);
	}
	ck_assert_uint_eq(custody_defer_errors(errors, 40, &dropped), 40);
	ck_assert_uint_eq(dropped, 6);
	ck_assert_uint_eq(custody_defer_errors(errors, 100, &dropped), 24);
	ck_assert_uint_eq(dropped, 0);
	ck_assert_uint_eq(statistics().failed, 70);
}
END_TEST

START_TEST(errors_may_be_asked_for_without_room)
{
	uint64_t dropped = 3;

	context = fixture_context(0);
	ck_assert_uint_eq(custody_defer_errors(NULL, 5, &dropped), 0);
	ck_assert_uint_eq(dropped, 0);
	ck_assert_uint_eq(custody_defer_errors(NULL, 0, NULL), 0);
}
END_TEST

/* A free that the program makes never ends it, whatever the driver says. */
START_TEST(free_after_a_sticky_error_aborted_the_process)
{
	CUdeviceptr block;
	CUresult (*release)(CUdeviceptr address);

	begin_refusing("cuMemcpyDtoD_v2:1:700");
	block = fixture_allocate(context, KIB);
	free_events(5);
	ck_ok(custody_context_push(context));
	ck_cu_is(cuMemcpyDtoD(block, block, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
	*(void **)&release = custody_driver_function("cuMemFree_v2");
	release(block);
	custody_flush(context, true);
	ck_is(custody_context_synchronize(context), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_ok(custody_context_synchronize(context));
}
END_TEST

/* ------------------------------------------------------------------ out of memory */

enum { BIG = 40 * MIB };

static void begin_scarce(bool is_strict)
{
	struct custody_defer_limits limits = {
		.size = sizeof(limits),
		.max_count = 1000,
		.max_ratio = 100,
		.is_strict = is_strict,
	};

	setenv("SIMCUDA_MEMORY", "64M", 1);
	setenv("SIMCUDA_CONTEXT", "1M", 1);
	context = fixture_context(0);
	ck_ok(custody_defer_set_limits(&limits));
}

static CUresult allocate(CUdeviceptr *address, size_t bytes)
{
	CUresult (*function)(CUdeviceptr *address, size_t bytes);
	CUresult result;

	*(void **)&function = custody_driver_function("cuMemAlloc_v2");
	ck_ok(custody_context_push(context));
	result = function(address, bytes);
	ck_ok(custody_context_pop(context));
	return result;
}

START_TEST(allocation_that_finds_no_memory_gets_what_is_pending)
{
	CUdeviceptr again;

	begin_scarce(false);
	fixture_free(context, fixture_allocate(context, BIG));
	ck_assert_uint_eq(pending().memory_bytes, BIG);
	ck_cu(allocate(&again, BIG));
	ck_assert_uint_eq(pending().memory_count, 0);
	ck_assert_uint_eq(statistics().passes[CUSTODY_CAUSE_OUT_OF_MEMORY], 1);
}
END_TEST

/* Dead modules, streams and events hold device memory too. */
START_TEST(out_of_memory_flushes_both_queues)
{
	CUdeviceptr again;

	begin_scarce(false);
	free_events(3);
	fixture_free(context, fixture_allocate(context, BIG));
	ck_cu(allocate(&again, BIG));
	ck_assert_uint_eq(pending().object_count, 0);
}
END_TEST

/* Pinned blocks waited as long as ten of them did, however large, and nobody asked. */
START_TEST(pinned_arrays_looked_leaked_when_host_memory_ran_out)
{
	setenv("SIMCUDA_FAIL", "cuMemHostAlloc:2:2", 1);
	context = fixture_context(0);
	fixture_free_pinned(context, fixture_allocate_pinned(context, MIB));
	ck_assert_uint_eq(pending().pinned_bytes, MIB);
	ck_assert_ptr_nonnull(fixture_allocate_pinned(context, MIB));
	ck_assert_uint_eq(pending().pinned_bytes, 0);
	ck_assert_uint_eq(statistics().passes[CUSTODY_CAUSE_OUT_OF_MEMORY], 1);
}
END_TEST

START_TEST(out_of_memory_in_a_scope_flushes_unless_strict)
{
	CUdeviceptr again;

	begin_scarce(false);
	ck_ok(custody_defer_begin(context));
	fixture_free(context, fixture_allocate(context, BIG));
	ck_cu(allocate(&again, BIG));
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_ALONE));
}
END_TEST

START_TEST(strict_out_of_memory_in_a_scope_flushes_nothing)
{
	CUdeviceptr again;

	begin_scarce(true);
	ck_ok(custody_defer_begin(context));
	fixture_free(context, fixture_allocate(context, BIG));
	ck_cu_is(allocate(&again, BIG), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(pending().memory_bytes, BIG);
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_ALONE));
	ck_cu(allocate(&again, BIG));
}
END_TEST

START_TEST(out_of_memory_with_nothing_pending_stays_so)
{
	CUdeviceptr block, again;

	begin_scarce(false);
	ck_cu(allocate(&block, BIG));
	ck_cu_is(allocate(&again, BIG), CUDA_ERROR_OUT_OF_MEMORY);
	fixture_free(context, block);
	ck_cu(allocate(&again, BIG));
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("defer_error");
	TCase *refused = tcase_create("refused"), *scarce = tcase_create("scarce");

	tcase_add_test(refused, refused_release_ends_the_pass_and_the_rest_stays);
	tcase_add_test(refused, refused_release_is_reported_once);
	tcase_add_test(refused, bytes_of_a_refused_release_are_pending_no_more);
	tcase_add_test(refused, refused_release_names_the_call_of_the_program);
	tcase_add_test(refused, list_of_errors_keeps_64_and_counts_the_others);
	tcase_add_test(refused, errors_may_be_asked_for_without_room);
	tcase_add_test(refused, free_after_a_sticky_error_aborted_the_process);
	tcase_add_test(scarce, allocation_that_finds_no_memory_gets_what_is_pending);
	tcase_add_test(scarce, out_of_memory_flushes_both_queues);
	tcase_add_test(scarce, pinned_arrays_looked_leaked_when_host_memory_ran_out);
	tcase_add_test(scarce, out_of_memory_in_a_scope_flushes_unless_strict);
	tcase_add_test(scarce, strict_out_of_memory_in_a_scope_flushes_nothing);
	tcase_add_test(scarce, out_of_memory_with_nothing_pending_stays_so);
	suite_add_tcase(suite, refused);
	suite_add_tcase(suite, scarce);
	return suite;
}
