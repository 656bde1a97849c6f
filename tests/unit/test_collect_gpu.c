/* SPDX-License-Identifier: Apache-2.0 */
/* What devices did, and to which transfers it is joined. */
#include "collect_fixture.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREAD = 1, CUPTI = 2 };

static void say(const char *why, uint64_t at)
{
	session_writer_put_text(&fixture_writer, CUPTI,
				(struct record){ .kind = RECORD_GPU_NAME, .start = at }, why);
}

static void copy(uint64_t at, enum transfer_kind kind, uint64_t bytes)
{
	struct record record = session_writer_copy(at, 10, kind, 0x1000, 0x2000, bytes);

	record.api = fixture_api_of("cuMemcpyBatchAsync");
	fixture_put(THREAD, record);
}

static void work(uint64_t call, uint64_t start, uint64_t duration, uint64_t bytes, uint16_t aux)
{
	static uint64_t at = 500000;

	fixture_put(CUPTI, (struct record){
				   .kind = RECORD_GPU,
				   .start = at++,
				   .a = start,
				   .b = duration,
				   .c = bytes,
				   .stream = call ? call_key(THREAD, call) : 0,
				   .aux = aux,
			   });
}

#define UP AUX_GPU(GPU_COPY, TRANSFER_H2D, PLACE_PINNED, PLACE_DEVICE)
#define DOWN AUX_GPU(GPU_COPY, TRANSFER_D2H, PLACE_DEVICE, PLACE_PAGEABLE)

static void expect_time(uint64_t bytes, int64_t start, int64_t duration)
{
	char sql[160];

	snprintf(sql, sizeof(sql), "SELECT gpu_start_ns FROM transfer WHERE bytes = %d",
		 (int)bytes);
	ck_assert_int_eq(fixture_ask(sql), start);
	snprintf(sql, sizeof(sql), "SELECT gpu_duration_ns FROM transfer WHERE bytes = %d",
		 (int)bytes);
	ck_assert_int_eq(fixture_ask(sql), duration);
}

START_TEST(work_is_joined_to_the_copy_that_caused_it)
{
	say("", 1000);
	copy(2000, TRANSFER_H2D, 100);
	copy(3000, TRANSFER_H2D, 200);
	work(3000, 3500, 70, 200, UP);
	work(2000, 2500, 60, 100, UP);
	fixture_collect();
	expect_time(100, 2500, 60);
	expect_time(200, 3500, 70);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM gpu_work WHERE transfer_id IS NULL"), 0);
	ck_assert_int_eq(fixture_ask("SELECT start_ns FROM gpu_times"), 1000);
	ck_assert_int_eq(fixture_ask("SELECT sum(joined) FROM gpu_total"), 2);
	ck_assert_int_eq(fixture_ask("SELECT sum(gpu_ns) FROM gpu_total"), 130);
}
END_TEST

START_TEST(pieces_of_one_copy_are_added_up)
{
	say("", 1000);
	copy(2000, TRANSFER_H2D, 100);
	work(2000, 2700, 60, 60, UP);
	work(2000, 2500, 40, 40, UP);
	fixture_collect();
	expect_time(100, 2500, 100);
}
END_TEST

/* Told of as one copy of the first one's kind, or copy by copy. */
START_TEST(batch_is_divided_by_bytes_or_taken_as_it_comes)
{
	say("", 1000);
	copy(2000, TRANSFER_H2D, 100);
	copy(2000, TRANSFER_H2D, 300);
	copy(2000, TRANSFER_D2H, 600);
	if (_i == 0) {
		work(2000, 2500, 1000, 1000, UP);
	} else {
		work(2000, 2500, 300, 300, UP);
		work(2000, 2500, 600, 600, DOWN);
		work(2000, 2500, 100, 100, UP);
	}
	fixture_collect();
	expect_time(100, 2500, 100);
	expect_time(300, 2500, 300);
	expect_time(600, 2500, 600);
}
END_TEST

static void sum(uint64_t at, uint16_t aux, uint64_t copies, uint64_t bytes)
{
	fixture_put(THREAD, (struct record){
				    .kind = RECORD_TRANSFER,
				    .start = at,
				    .duration = 10,
				    .api = fixture_api_of("cuGraphLaunch"),
				    .flags = RECORD_SUM,
				    .a = copies,
				    .c = bytes,
				    .aux = aux,
			    });
}

START_TEST(launch_of_a_graph_has_the_work_of_its_nodes_by_kind_and_place)
{
	say("", 1000);
	sum(2000, AUX_TRANSFER(TRANSFER_H2D, PLACE_PINNED, PLACE_DEVICE, 1), 2, 110);
	sum(2000, AUX_TRANSFER(TRANSFER_H2D, PLACE_PAGEABLE, PLACE_DEVICE, 1), 1, 20);
	sum(2000, AUX_TRANSFER(TRANSFER_MEMSET, PLACE_UNKNOWN, PLACE_DEVICE, 1), 1, 30);
	work(2000, 2500, 50, 50, UP);
	work(2000, 2600, 60, 60, UP);
	work(2000, 2400, 7, 20, AUX_GPU(GPU_COPY, TRANSFER_H2D, PLACE_PAGEABLE, PLACE_DEVICE));
	work(2000, 2300, 3, 30, AUX_GPU(GPU_MEMSET, TRANSFER_MEMSET, 0, 0));
	fixture_collect();
	expect_time(110, 2500, 110);
	expect_time(20, 2400, 7);
	expect_time(30, 2300, 3);
	ck_assert_int_eq(fixture_ask("SELECT sum(count) FROM gpu_total"), 4);
}
END_TEST

/* No call, one that was not told of, one that failed or was captured. */
START_TEST(work_of_no_known_call_has_a_row_of_its_own)
{
	struct record failed = session_writer_copy(2000, 10, TRANSFER_H2D, 1, 2, 100);
	struct record captured = session_writer_copy(2100, 10, TRANSFER_H2D, 1, 2, 200);

	failed.result = 1;
	captured.flags = RECORD_CAPTURED;
	say("", 1000);
	fixture_put(THREAD, failed);
	fixture_put(THREAD, captured);
	work(0, 5000, 11, 1, UP);
	work(777, 5000, 12, 2, DOWN);
	work(2000, 5000, 13, 3, UP);
	work(2100, 5000, 14, 4, AUX_GPU(GPU_MEMSET, TRANSFER_MEMSET, 0, 0));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(gpu_start_ns) FROM transfer"), 0);
	ck_assert_str_eq(fixture_ask_text("SELECT group_concat(kind || direction || "
					  "coalesce(source_kind, '') || duration_ns, ' ') FROM "
					  "gpu_work"),
			 "copyH2Dpinned11 copyD2Hdevice12 copyH2Dpinned13 memsetMEMSET14");
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM gpu_work_site"), 3);
	ck_assert_int_eq(fixture_ask("SELECT sum(joined) FROM gpu_total"), 0);
}
END_TEST

START_TEST(calls_of_two_processes_are_not_mixed_up)
{
	struct session_writer other;

	say("", 1000);
	copy(2000, TRANSFER_H2D, 100);
	session_writer_open(&other, fixture_session, FIXTURE_GONE - 1, 0);
	other.control->apis = fixture_writer.control->apis;
	session_writer_put_text(&other, CUPTI,
				(struct record){ .kind = RECORD_GPU_NAME, .start = 1000 }, "");
	session_writer_put(&other, THREAD,
			   session_writer_copy(2000, 10, TRANSFER_H2D, 1, 2, 200));
	work(2000, 2500, 60, 100, UP);
	fixture_collect();
	session_writer_close(&other);
	expect_time(100, 2500, 60);
	expect_time(200, INT64_MIN, INT64_MIN);
}
END_TEST

static void name(uint64_t number, const char *text, uint64_t at)
{
	const struct record record = { .kind = RECORD_GPU_NAME, .start = at, .a = number };

	session_writer_put_text(&fixture_writer, CUPTI, record, text);
}

START_TEST(kernels_have_the_names_they_are_given)
{
	say("", 1000);
	name(1, "_Z5firstv", 1001);
	work(0, 3000, 10, 1, AUX_GPU(GPU_KERNEL, 0, 0, 0));
	work(0, 3010, 20, 1, AUX_GPU(GPU_KERNEL, 0, 0, 0));
	work(0, 3030, 40, 2, AUX_GPU(GPU_KERNEL, 0, 0, 0));
	work(0, 3070, 80, 0, AUX_GPU(GPU_KERNEL, 0, 0, 0));
	name(2, "second", 600000);
	fixture_collect();
	ck_assert_str_eq(fixture_ask_text("SELECT group_concat(coalesce(name, '-') || ' ' || count "
					  "|| ' ' || gpu_ns || ' ' || max_ns, ', ') FROM "
					  "(SELECT * FROM gpu_total ORDER BY gpu_ns)"),
			 "_Z5firstv 2 30 20, second 1 40 40, - 1 80 80");
	ck_assert_int_eq(fixture_ask("SELECT count(bytes) FROM gpu_work"), 0);
}
END_TEST

START_TEST(migrations_are_counted_in_bundles)
{
	say("", 1000);
	fixture_put(CUPTI, (struct record){
				   .kind = RECORD_GPU,
				   .start = 5000,
				   .a = 3000,
				   .b = 500,
				   .c = 4096 * 7,
				   .stream = 7,
				   .aux = AUX_GPU(GPU_MIGRATION, TRANSFER_D2H, 0, 0),
			   });
	fixture_collect();
	ck_assert_str_eq(fixture_ask_text("SELECT kind || direction || count || ' ' || bytes "
					  "FROM gpu_total"),
			 "migrationD2H7 28672");
}
END_TEST

START_TEST(reasons_and_losses_are_kept)
{
	if (_i == 0)
		say("", 1000);
	say("the program uses CUPTI itself", 4000);
	if (_i == 0)
		work(0, 5, 0, 0, AUX_GPU(GPU_LOST, 0, 0, 0));
	copy(2000, TRANSFER_H2D, 100);
	fixture_collect();
	ck_assert_str_eq(fixture_ask_text("SELECT why FROM gpu_times"),
			 "the program uses CUPTI itself");
	ck_assert_int_eq(fixture_ask("SELECT start_ns FROM gpu_times"), _i ? INT64_MIN : 1000);
	ck_assert_int_eq(fixture_ask("SELECT end_ns FROM gpu_times"), _i ? INT64_MIN : 4000);
	ck_assert_int_eq(fixture_ask("SELECT lost FROM gpu_times"), _i ? 0 : 5);
}
END_TEST

START_TEST(numbers_that_cannot_be_count_as_lost)
{
	say("", 1000);
	work(0, UINT64_C(1) << 63, 1, 1, UP);
	work(0, 1, UINT64_C(1) << 60, 1, UP);
	work(0, 1, 1, UINT64_C(1) << 55, UP);
	work(0, 1, 1, 1, 15);
	work(0, 1, 1, 1, AUX_GPU(GPU_COPY, 15, 15, 15));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT sum(count) FROM gap"), 3);
	ck_assert_str_eq(fixture_ask_text("SELECT group_concat(direction || source_kind) FROM "
					  "gpu_work"),
			 "unknownunknown");
}
END_TEST

/* More transfers than are kept in mind: those of before are told of without their calls. */
START_TEST(call_of_long_ago_is_not_known_any_more)
{
	enum { MANY = 300000 };

	say("", 1000);
	for (uint64_t i = 0; i < MANY; i++)
		copy(2000 + i, TRANSFER_H2D, 10 + i);
	work(2000, 2500, 60, 10, UP);
	work(2000 + MANY - 1, 2500, 60, 10 + MANY - 1, UP);
	fixture_collect();
	expect_time(10, INT64_MIN, INT64_MIN);
	expect_time(10 + MANY - 1, 2500, 60);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM gpu_work WHERE transfer_id IS NULL"), 1);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("collect_gpu");
	TCase *rows = tcase_create("rows");

	tcase_set_timeout(rows, 60);
	tcase_add_checked_fixture(rows, fixture_make_session, fixture_remove_session);
	tcase_add_test(rows, work_is_joined_to_the_copy_that_caused_it);
	tcase_add_test(rows, pieces_of_one_copy_are_added_up);
	tcase_add_loop_test(rows, batch_is_divided_by_bytes_or_taken_as_it_comes, 0, 2);
	tcase_add_test(rows, launch_of_a_graph_has_the_work_of_its_nodes_by_kind_and_place);
	tcase_add_test(rows, work_of_no_known_call_has_a_row_of_its_own);
	tcase_add_test(rows, calls_of_two_processes_are_not_mixed_up);
	tcase_add_test(rows, kernels_have_the_names_they_are_given);
	tcase_add_test(rows, migrations_are_counted_in_bundles);
	tcase_add_loop_test(rows, reasons_and_losses_are_kept, 0, 2);
	tcase_add_test(rows, numbers_that_cannot_be_count_as_lost);
	tcase_add_test(rows, call_of_long_ago_is_not_known_any_more);
	suite_add_tcase(suite, rows);
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
