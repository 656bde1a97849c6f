/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of calls by CUPTI's numbers, and our beginnings of its records. */
#include "intercept/cupti_abi.h"
#include "intercept/gpu_join.h"

#include <check.h>
#include <stdlib.h>

#if __has_include(<cupti.h>)
#include <cupti.h>

#define SAME(ours, member, theirs, field)                                                          \
	_Static_assert(offsetof(ours, member) == offsetof(theirs, field) &&                        \
			       sizeof(((ours *)0)->member) == sizeof(((theirs *)0)->field),        \
		       #theirs "." #field)

SAME(struct cupti_copy, copy_kind, CUpti_ActivityMemcpy6, copyKind);
SAME(struct cupti_copy, source_kind, CUpti_ActivityMemcpy6, srcKind);
SAME(struct cupti_copy, target_kind, CUpti_ActivityMemcpy6, dstKind);
SAME(struct cupti_copy, bytes, CUpti_ActivityMemcpy6, bytes);
SAME(struct cupti_copy, start, CUpti_ActivityMemcpy6, start);
SAME(struct cupti_copy, end, CUpti_ActivityMemcpy6, end);
SAME(struct cupti_copy, correlation, CUpti_ActivityMemcpy6, correlationId);
SAME(struct cupti_copy, copy_kind, CUpti_ActivityMemcpyPtoP4, copyKind);
SAME(struct cupti_copy, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
SAME(struct cupti_copy, end, CUpti_ActivityMemcpyPtoP4, end);
SAME(struct cupti_copy, peer_correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
SAME(struct cupti_fill, bytes, CUpti_ActivityMemset4, bytes);
SAME(struct cupti_fill, start, CUpti_ActivityMemset4, start);
SAME(struct cupti_fill, end, CUpti_ActivityMemset4, end);
SAME(struct cupti_fill, correlation, CUpti_ActivityMemset4, correlationId);
SAME(struct cupti_kernel, start, CUpti_ActivityKernel10, start);
SAME(struct cupti_kernel, end, CUpti_ActivityKernel10, end);
SAME(struct cupti_kernel, correlation, CUpti_ActivityKernel10, correlationId);
SAME(struct cupti_kernel, name, CUpti_ActivityKernel10, name);
SAME(struct cupti_managed, counter, CUpti_ActivityUnifiedMemoryCounter3, counterKind);
SAME(struct cupti_managed, value, CUpti_ActivityUnifiedMemoryCounter3, value);
SAME(struct cupti_managed, start, CUpti_ActivityUnifiedMemoryCounter3, start);
SAME(struct cupti_managed, end, CUpti_ActivityUnifiedMemoryCounter3, end);
SAME(struct cupti_external, external_kind, CUpti_ActivityExternalCorrelation, externalKind);
SAME(struct cupti_external, id, CUpti_ActivityExternalCorrelation, externalId);
SAME(struct cupti_external, correlation, CUpti_ActivityExternalCorrelation, correlationId);
SAME(struct cupti_managed_setting, enable, CUpti_ActivityUnifiedMemoryCounterConfig, enable);
SAME(struct cupti_subscriber, holder, CUpti_SubscriberParams, oldSubscriberName);

_Static_assert(sizeof(struct cupti_managed_setting) ==
		       sizeof(CUpti_ActivityUnifiedMemoryCounterConfig), "setting");
_Static_assert(sizeof(struct cupti_subscriber) == CUpti_SubscriberParams_STRUCT_SIZE, "subscriber");
_Static_assert((int)CUPTI_MEMCPY2 == (int)CUPTI_ACTIVITY_KIND_MEMCPY2 &&
		       (int)CUPTI_KERNEL == (int)CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
		       (int)CUPTI_MANAGED == (int)CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER &&
		       (int)CUPTI_EXTERNAL == (int)CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION &&
		       (int)CUPTI_DRIVER == (int)CUPTI_ACTIVITY_KIND_DRIVER, "kinds");
_Static_assert((int)CUPTI_COPY_P2P == (int)CUPTI_ACTIVITY_MEMCPY_KIND_PTOP &&
		       (int)CUPTI_COPY_A2D == (int)CUPTI_ACTIVITY_MEMCPY_KIND_ATOD &&
		       (int)CUPTI_MEMORY_MANAGED_STATIC ==
			       (int)CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC, "copies");
_Static_assert((int)CUPTI_TAKEN == (int)CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED &&
		       (int)CUPTI_NOT_INITIALIZED == (int)CUPTI_ERROR_NOT_INITIALIZED &&
		       (int)CUPTI_EXTERNAL_CUSTOM2 ==
			       (int)CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 &&
		       (int)CUPTI_DOMAIN_DRIVER == (int)CUPTI_CB_DOMAIN_DRIVER_API &&
		       (int)CUPTI_MANAGED_D2D ==
			       (int)CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD,
	       "words");
#endif

static struct gpu_join *join;

static void make_join(void)
{
	join = calloc(1, sizeof(*join));
	ck_assert_ptr_nonnull(join);
}

static void drop_join(void)
{
	free(join);
}

START_TEST(call_is_found_by_its_number)
{
	gpu_join_note(join, 1, 111);
	gpu_join_note(join, 2, 222);
	ck_assert_uint_eq(gpu_join_find(join, 1), 111);
	ck_assert_uint_eq(gpu_join_find(join, 2), 222);
	ck_assert_uint_eq(gpu_join_find(join, 3), 0);
	ck_assert_uint_eq(gpu_join_find(join, 0), 0);
}
END_TEST

START_TEST(later_call_in_the_same_slot_is_not_taken_for_the_earlier)
{
	gpu_join_note(join, 5, 555);
	gpu_join_note(join, 5 + GPU_JOIN_SLOTS, 666);
	ck_assert_uint_eq(gpu_join_find(join, 5), 0);
	ck_assert_uint_eq(gpu_join_find(join, 5 + GPU_JOIN_SLOTS), 666);
}
END_TEST

START_TEST(work_waits_for_the_next_buffer_and_no_longer)
{
	struct record record = { .a = 1, .kind = RECORD_GPU };

	ck_assert(gpu_join_wait(join, 7, &record));
	record.a = 2;
	ck_assert(gpu_join_wait(join, 8, &record));
	gpu_join_note(join, 7, 777);
	ck_assert(gpu_join_take(join, &record));
	ck_assert_uint_eq(record.a, 2);
	ck_assert_uint_eq(record.stream, 0);
	ck_assert(gpu_join_take(join, &record));
	ck_assert_uint_eq(record.a, 1);
	ck_assert_uint_eq(record.stream, 777);
	ck_assert(!gpu_join_take(join, &record));
}
END_TEST

START_TEST(what_waits_is_bounded)
{
	const struct record record = { .kind = RECORD_GPU };

	for (uint32_t i = 0; i < GPU_JOIN_WAITING; i++)
		ck_assert(gpu_join_wait(join, i + 1, &record));
	ck_assert(!gpu_join_wait(join, 1, &record));
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("gpu_join");
	TCase *keys = tcase_create("keys");

	tcase_add_checked_fixture(keys, make_join, drop_join);
	tcase_add_test(keys, call_is_found_by_its_number);
	tcase_add_test(keys, later_call_in_the_same_slot_is_not_taken_for_the_earlier);
	tcase_add_test(keys, work_waits_for_the_next_buffer_and_no_longer);
	tcase_add_test(keys, what_waits_is_bounded);
	suite_add_tcase(suite, keys);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(make_suite());
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
