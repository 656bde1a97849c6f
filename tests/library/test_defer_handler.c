/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own word on a lack of memory, once all queues were flushed for nothing.
 */
#include "fixture.h"

static struct custody_context *context;

enum { BIG = 40 * MIB };

static void begin(void)
{
	struct custody_defer_limits limits = {
		.size = sizeof(limits),
		.max_count = 1000,
		.max_ratio = 100,
	};

	setenv("SIMCUDA_MEMORY", "64M", 1);
	setenv("SIMCUDA_CONTEXT", "1M", 1);
	context = fixture_context(0);
	ck_ok(custody_defer_set_limits(&limits));
}

struct tale {
	struct custody_context *context;
	CUdeviceptr block; /* to be freed by the handler */
	size_t bytes;
	unsigned int calls;
	unsigned int give_up_after;
};

static bool handle(struct custody_context *of, size_t bytes, void *argument)
{
	struct tale *tale = argument;

	tale->context = of;
	tale->bytes = bytes;
	tale->calls++;
	if (tale->block)
		fixture_free(of, tale->block);
	tale->block = 0;
	return tale->calls < tale->give_up_after;
}

static int allocate_by_resource(void **pointer, size_t bytes)
{
	struct custody_resource *resource;
	int error;

	ck_ok(custody_resource_device(context, &resource));
	error = custody_resource_allocate(resource, bytes, NULL, pointer);
	ck_ok(custody_resource_release(resource));
	return error;
}

START_TEST(handler_frees_and_the_allocation_succeeds)
{
	struct tale tale = { .give_up_after = 100 };
	void *pointer;

	tale.block = fixture_allocate(context, BIG);
	ck_ok(custody_set_out_of_memory(handle, &tale));
	ck_ok(allocate_by_resource(&pointer, BIG));
	ck_assert_uint_eq(tale.calls, 1);
	ck_assert_uint_eq(tale.bytes, BIG);
	ck_assert_ptr_eq(tale.context, context);
}
END_TEST

START_TEST(handler_is_asked_16_times_for_one_allocation)
{
	struct tale tale = { .give_up_after = 100 };
	void *pointer = NULL;

	fixture_allocate(context, BIG);
	ck_ok(custody_set_out_of_memory(handle, &tale));
	ck_is(allocate_by_resource(&pointer, BIG), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(tale.calls, 16);
	ck_assert_ptr_null(pointer);
	ck_is(allocate_by_resource(&pointer, BIG), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(tale.calls, 32);
}
END_TEST

START_TEST(handler_that_gives_up_is_not_asked_again)
{
	struct tale tale = { .give_up_after = 3 };
	void *pointer;

	fixture_allocate(context, BIG);
	ck_ok(custody_set_out_of_memory(handle, &tale));
	ck_is(allocate_by_resource(&pointer, BIG), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(tale.calls, 3);
	ck_ok(custody_set_out_of_memory(NULL, NULL));
	ck_is(allocate_by_resource(&pointer, BIG), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(tale.calls, 3);
}
END_TEST

START_TEST(handler_is_not_asked_where_a_flush_has_helped)
{
	struct tale tale = { .give_up_after = 100 };
	void *pointer;

	fixture_free(context, fixture_allocate(context, BIG));
	ck_ok(custody_set_out_of_memory(handle, &tale));
	ck_ok(allocate_by_resource(&pointer, BIG));
	ck_assert_uint_eq(tale.calls, 0);
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("defer_handler");
	TCase *handler = tcase_create("handler");

	tcase_add_checked_fixture(handler, begin, NULL);
	tcase_add_test(handler, handler_frees_and_the_allocation_succeeds);
	tcase_add_test(handler, handler_is_asked_16_times_for_one_allocation);
	tcase_add_test(handler, handler_that_gives_up_is_not_asked_again);
	tcase_add_test(handler, handler_is_not_asked_where_a_flush_has_helped);
	suite_add_tcase(suite, handler);
	return suite;
}
