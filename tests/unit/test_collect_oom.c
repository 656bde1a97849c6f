/* SPDX-License-Identifier: Apache-2.0 */
/* The black box: what there was when a process first ran out of device memory. */
#include "collect_fixture.h"

#include "core/api_names.h"
#include "report/total_oom.h"

#include <check.h>
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)
#define TOTAL (UINT64_C(8192) * MIB)

enum { OUT_OF_MEMORY = 2 };

static struct record from(uint64_t caller, struct record record)
{
	record.caller_context = caller | UINT64_C(1) << RECORD_CALLER_BITS;
	return record;
}

static void put(struct record record)
{
	fixture_put(1, record);
}

static void put_alloc(uint64_t start, uint64_t id, uint64_t bytes, enum block_kind kind,
		      uint64_t caller)
{
	put(from(caller, session_writer_alloc(start, 10, id, id << 32, bytes, kind)));
}

static struct record refused(uint64_t start, uint64_t bytes, enum failure_why why)
{
	struct record record = from(0x4444, session_writer_alloc(start, 100, why, 0, bytes,
								 BLOCK_DEVICE));

	record.api = fixture_api_of("cuMemAlloc_v2");
	record.result = OUT_OF_MEMORY;
	return record;
}

static struct record reading(uint64_t at, enum reading_moment moment, uint64_t is_free)
{
	return session_writer_reading(at, moment, WEIGHED_NOTHING, is_free * MIB, TOTAL, 64 * MIB,
				      0);
}

static void put_context(void)
{
	put(session_writer_context(2000, 1, 0x77));
	put(session_writer_reading(2500, READING_AFTER, WEIGHED_CONTEXT, TOTAL - 500 * MIB, TOTAL,
				   0, 0));
}

START_TEST(first_failure_has_its_black_box)
{
	put_context();
	put_alloc(3000, 1, 100 * MIB, BLOCK_DEVICE, 0x1000);
	put_alloc(3100, 2, 50 * MIB, BLOCK_DEVICE, 0x1000);
	put_alloc(3200, 3, 30 * MIB, BLOCK_POOL, 0x2000);
	put_alloc(3300, 4, 7 * MIB, BLOCK_DEVICE, 0x3000);
	put_alloc(3400, 5, 500 * MIB, BLOCK_PINNED, 0x3000);
	put(session_writer_defer(3500, 10, 0, 4));
	put(session_writer_free(3600, 10, 2));
	put(reading(4050, READING_OOM, 20));
	put(refused(4000, 9000 * MIB, FAILURE_DRIVER));
	/* What comes later is not in it. */
	put_alloc(5000, 6, 10 * MIB, BLOCK_DEVICE, 0x1000);
	put(reading(6050, READING_OOM, 10));
	put(refused(6000, 8000 * MIB, FAILURE_DRIVER));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM oom"), 1);
	ck_assert_int_eq(fixture_ask("SELECT at_ns FROM oom"), 4050);
	ck_assert_int_eq(fixture_ask("SELECT requested_bytes FROM oom"), 9000 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT free_bytes FROM oom"), 20 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT total_bytes FROM oom"), TOTAL);
	ck_assert_int_eq(fixture_ask("SELECT live_bytes FROM oom"), 130 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT pending_bytes FROM oom"), 7 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT pools_reserved FROM oom"), 64 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT largest_free_bytes FROM oom"), INT64_MIN);
	ck_assert_int_eq(fixture_ask("SELECT device_id FROM oom"), 1);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM oom_holder"), 2);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM oom_holder WHERE kind = 'device' AND "
				     "caller = 4096 AND count = 1"), 100 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM oom_holder WHERE kind = 'pool'"), 30 * MIB);
}
END_TEST

/* A capture was live, say: the rows tell what was live all the same. */
START_TEST(failure_without_a_reading_has_one_too)
{
	put_context();
	put_alloc(3000, 1, 100 * MIB, BLOCK_DEVICE, 0x1000);
	put(refused(4000, 9000 * MIB, FAILURE_DRIVER));
	put(reading(5050, READING_OOM, 20)); /* of the next failure */
	put(refused(5000, 9000 * MIB, FAILURE_DRIVER));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT at_ns FROM oom"), 4000);
	ck_assert_int_eq(fixture_ask("SELECT free_bytes FROM oom"), INT64_MIN);
	ck_assert_int_eq(fixture_ask("SELECT live_bytes FROM oom"), 100 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT device_id FROM oom"), 1);
}
END_TEST

START_TEST(refusals_of_a_limit_count_and_those_of_a_turn_do_not)
{
	put_context();
	put(refused(3000, MIB, FAILURE_NTH));
	put(refused(4000, 2 * MIB, FAILURE_LIMIT));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT requested_bytes FROM oom"), 2 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM oom"), 1);
}
END_TEST

/* An attempt that custody made again, and that then worked, was none of the program's. */
START_TEST(attempts_that_were_repeated_do_not_count)
{
	struct record attempt = refused(3000, MIB, FAILURE_DRIVER);

	put_context();
	attempt.flags |= RECORD_BY_CUSTODY | RECORD_MORE;
	put(attempt);
	put_alloc(3200, 1, MIB, BLOCK_DEVICE, 0x1000);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM failure"), 1);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM oom"), 0);
}
END_TEST

START_TEST(holders_are_the_largest_and_no_more)
{
	put_context();
	for (uint64_t i = 0; i < 30; i++)
		put_alloc(3000 + 20 * i, 1 + i, (1 + i) * MIB, BLOCK_DEVICE, 0x1000 + i);
	put(refused(5000, 9000 * MIB, FAILURE_DRIVER));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM oom_holder"), TOTAL_OOM_HOLDERS);
	ck_assert_int_eq(fixture_ask("SELECT min(bytes) FROM oom_holder"), 11 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT max(bytes) FROM oom_holder"), 30 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT live_bytes FROM oom"), 465 * MIB);
}
END_TEST

START_TEST(every_process_has_its_own)
{
	struct session_writer other;

	put_context();
	put_alloc(3000, 1, 100 * MIB, BLOCK_DEVICE, 0x1000);
	put(refused(4000, 9000 * MIB, FAILURE_DRIVER));
	session_writer_open(&other, fixture_session, FIXTURE_GONE - 1, 1);
	session_writer_put(&other, 1, session_writer_context(2000, 1, 0x99));
	session_writer_put(&other, 1, from(0x5000, session_writer_alloc(2500, 10, 1, 0x700000,
									3 * MIB, BLOCK_DEVICE)));
	session_writer_put(&other, 1, refused(3500, 7000 * MIB, FAILURE_DRIVER));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM oom"), 2);
	ck_assert_int_eq(fixture_ask("SELECT live_bytes FROM oom WHERE at_ns = 4000"), 100 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT live_bytes FROM oom WHERE at_ns = 3500"), 3 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM oom_holder JOIN oom ON id = oom_id "
				     "WHERE at_ns = 3500"), 1);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("collect_oom");
	TCase *box = tcase_create("black box");

	tcase_add_checked_fixture(box, fixture_make_session, fixture_remove_session);
	tcase_add_test(box, first_failure_has_its_black_box);
	tcase_add_test(box, failure_without_a_reading_has_one_too);
	tcase_add_test(box, refusals_of_a_limit_count_and_those_of_a_turn_do_not);
	tcase_add_test(box, attempts_that_were_repeated_do_not_count);
	tcase_add_test(box, holders_are_the_largest_and_no_more);
	tcase_add_test(box, every_process_has_its_own);
	suite_add_tcase(suite, box);
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
