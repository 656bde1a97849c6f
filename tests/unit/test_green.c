/* SPDX-License-Identifier: Apache-2.0 */
/* The real wrappers in front of a driver that does as it is told: green contexts. */
#include "core/context.h"
#include "core/tracker.h"
#include "fake_driver.h"
#include "intercept/call.h"

#include <check.h>
#include <stdlib.h>

#define PRIMARY ((CUcontext)0x1000)
#define GREEN ((CUgreenCtx)0x9000)
#define VIEW ((CUcontext)0x2000)
#define STREAM ((CUstream)0x5000)

static CUresult CUDAAPI retain(CUcontext *context, CUdevice device)
{
	(void)device;
	*context = PRIMARY;
	return fake_result;
}

static CUresult CUDAAPI reset(CUdevice device)
{
	(void)device;
	return fake_result;
}

static CUresult CUDAAPI create(CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device,
			       unsigned int flags)
{
	(void)resources;
	(void)device;
	(void)flags;
	*green = GREEN;
	return fake_result;
}

static CUresult CUDAAPI destroy(CUgreenCtx green)
{
	(void)green;
	return fake_result;
}

static CUresult CUDAAPI view_of(CUcontext *context, CUgreenCtx green)
{
	(void)green;
	*context = VIEW;
	return fake_result;
}

static CUresult CUDAAPI create_stream(CUstream *stream, CUgreenCtx green, unsigned int flags,
				      int priority)
{
	(void)green;
	(void)flags;
	(void)priority;
	*stream = STREAM;
	return fake_result;
}

static void start(void)
{
	CUcontext context;
	CUgreenCtx green;

	fake_start();
	fake_set(API_cuDevicePrimaryCtxRetain, retain);
	fake_set(API_cuDevicePrimaryCtxReset_v2, reset);
	fake_set(API_cuGreenCtxCreate, create);
	fake_set(API_cuGreenCtxDestroy, destroy);
	fake_set(API_cuCtxFromGreenCtx, view_of);
	fake_set(API_cuGreenCtxStreamCreate, create_stream);
	cuDevicePrimaryCtxRetain(&context, 0);
	cuGreenCtxCreate(&green, NULL, 0, 0);
	fake_look();
}

static uint32_t number_of(CUcontext context)
{
	struct context found;

	return context_find((uintptr_t)context, &found) ? found.number : 0;
}

static void ask_view(void)
{
	CUcontext context;

	cuCtxFromGreenCtx(&context, GREEN);
	ck_assert_uint_eq(fake_look()->count, 0);
	ck_assert_uint_ne(number_of(VIEW), 0);
	ck_assert_uint_ne(number_of(VIEW), number_of(PRIMARY));
}

/* The last record says that the view has ended, so. */
static void expect_end(uint32_t number, enum release_cause cause)
{
	const struct fake_look *look = fake_look();
	const struct record *last = &look->record[look->count - 1];

	ck_assert_uint_gt(look->count, 0);
	ck_assert_int_eq(last->kind, RECORD_CONTEXT_END);
	ck_assert_uint_eq(record_context(last), number);
	ck_assert_int_eq(last->aux, cause);
	ck_assert_uint_eq(number_of(VIEW), 0);
}

START_TEST(memory_is_the_primary_contexts)
{
	struct block block;
	uint32_t number;

	ask_view();
	number = number_of(VIEW);
	fake_context = VIEW;
	fake_allocate(0x7000, 4096);
	ck_assert(tracker_find(SPACE_ADDRESS, 0x7000, &block));
	ck_assert_uint_eq(block.context, number_of(PRIMARY));
	cuGreenCtxDestroy(GREEN);
	expect_end(number, RELEASE_CONTEXT);
	ck_assert(tracker_find(SPACE_ADDRESS, 0x7000, &block));
}
END_TEST

START_TEST(a_refused_end_is_none)
{
	ask_view();
	fake_result = CUDA_ERROR_INVALID_CONTEXT;
	cuGreenCtxDestroy(GREEN);
	fake_look_one(RECORD_OPERATION, API_cuGreenCtxDestroy);
	ck_assert_uint_ne(number_of(VIEW), 0);
}
END_TEST

START_TEST(a_stream_belongs_to_its_green_context)
{
	CUstream stream;

	cuGreenCtxStreamCreate(&stream, GREEN, 0, 0);
	ck_assert_uint_eq(
		record_context(fake_look_one(RECORD_OPERATION, API_cuGreenCtxStreamCreate)),
		number_of(PRIMARY));
	ask_view();
	cuGreenCtxStreamCreate(&stream, GREEN, 0, 0);
	ck_assert_uint_eq(
		record_context(fake_look_one(RECORD_OPERATION, API_cuGreenCtxStreamCreate)),
		number_of(VIEW));
}
END_TEST

static CUresult CUDAAPI create_ordinary(CUstream *stream, unsigned int flags)
{
	(void)flags;
	*stream = STREAM;
	return fake_result;
}

START_TEST(a_stream_made_under_a_view_belongs_to_it)
{
	CUstream stream;

	fake_set(API_cuStreamCreate, create_ordinary);
	ask_view();
	fake_context = VIEW;
	cuStreamCreate(&stream, 0);
	ck_assert_uint_eq(record_context(fake_look_one(RECORD_OPERATION, API_cuStreamCreate)),
			  number_of(VIEW));
	fake_context = PRIMARY;
	cuStreamCreate(&stream, 0);
	ck_assert_uint_eq(record_context(fake_look_one(RECORD_OPERATION, API_cuStreamCreate)),
			  number_of(PRIMARY));
}
END_TEST

START_TEST(a_reset_ends_the_green_contexts_too)
{
	uint32_t number;

	ask_view();
	number = number_of(VIEW);
	cuDevicePrimaryCtxReset_v2(1);
	fake_look_one(RECORD_OPERATION, API_cuDevicePrimaryCtxReset_v2);
	ck_assert_uint_ne(number_of(VIEW), 0);
	cuDevicePrimaryCtxReset_v2(0);
	expect_end(number, RELEASE_RESET);
	cuGreenCtxDestroy(GREEN);
	fake_look_one(RECORD_OPERATION, API_cuGreenCtxDestroy);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("green");
	TCase *green = tcase_create("green");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(green, start, fake_stop);
	tcase_add_test(green, memory_is_the_primary_contexts);
	tcase_add_test(green, a_refused_end_is_none);
	tcase_add_test(green, a_stream_belongs_to_its_green_context);
	tcase_add_test(green, a_stream_made_under_a_view_belongs_to_it);
	tcase_add_test(green, a_reset_ends_the_green_contexts_too);
	suite_add_tcase(suite, green);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
