/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of graphs in the trace: what they copy, and the memory they leave. */
#include "collect_fixture.h"

#include <check.h>
#include <stdlib.h>

/* All copies of one launch that go the same way. */
static struct record sum(uint64_t start, uint16_t aux, uint64_t copies, uint64_t bytes)
{
	return (struct record){
		.start = start,
		.duration = 500,
		.api = fixture_api_of("cuGraphLaunch"),
		.kind = RECORD_TRANSFER,
		.flags = RECORD_SUM | RECORD_MORE,
		.a = copies,
		.c = bytes,
		.aux = aux,
	};
}

static void launch(uint64_t start)
{
	fixture_put(1, (struct record){
			       .start = start,
			       .duration = 500,
			       .api = fixture_api_of("cuGraphLaunch"),
			       .kind = RECORD_OPERATION,
			       .a = 0x9000,
		       });
}

#define COPY_IN AUX_TRANSFER(TRANSFER_H2D, PLACE_PINNED, PLACE_DEVICE, 1)
#define FILL AUX_TRANSFER(TRANSFER_MEMSET, 0, PLACE_DEVICE, 1)

START_TEST(a_launch_has_a_row_for_each_way)
{
	for (uint64_t i = 0; i < 3; i++) {
		launch(2000 + 1000 * i);
		fixture_put(1, sum(2000 + 1000 * i, COPY_IN, 4, 4096));
		fixture_put(1, sum(2000 + 1000 * i, FILL, 1, 10));
	}
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM transfer"), 6);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM transfer WHERE copies = 4 AND "
				     "bytes = 4096 AND source_kind = 'pinned' AND "
				     "target_kind = 'device' AND source_address IS NULL AND "
				     "target_address IS NULL AND is_async AND duration_ns = 0"),
			 3);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM transfer WHERE kind = 'MEMSET' AND "
				     "source_kind IS NULL AND copies = 1"),
			 3);
	ck_assert_int_eq(fixture_ask("SELECT count FROM transfer_by_kind WHERE kind = 'H2D'"), 12);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM transfer_by_kind WHERE kind = 'H2D'"),
			 12288);
	ck_assert_int_eq(fixture_ask("SELECT sum(host_ns) FROM transfer_total"), 0);
	/* Of four copies of 4 KiB one is of 1 KiB. */
	ck_assert_int_eq(fixture_ask("SELECT size_class FROM transfer_total WHERE kind = 'H2D'"),
			 10);
	ck_assert_int_eq(fixture_ask("SELECT calls FROM api_call"), 3);
	ck_assert_int_eq(fixture_ask("SELECT total_ns FROM api_call"), 1500);
}
END_TEST

START_TEST(what_has_not_moved_is_in_no_sum_of_bytes)
{
	struct record captured = sum(2000, COPY_IN, 4, 4096);
	struct record conditional = sum(3000, COPY_IN, 0, 100);

	captured.flags |= RECORD_CAPTURED;
	conditional.flags |= RECORD_CAPTURED;
	launch(2000);
	fixture_put(1, captured);
	launch(3000);
	fixture_put(1, conditional);
	fixture_put(1, sum(3000, COPY_IN, 1, 7));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM transfer_by_kind"), 7);
	ck_assert_int_eq(fixture_ask("SELECT count FROM transfer_by_kind"), 5);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM transfer WHERE copies = 0"), 100);
}
END_TEST

START_TEST(the_time_of_a_call_is_counted_once)
{
	struct record first = session_writer_copy(2000, 30, TRANSFER_H2D, 1, 2, 3);
	struct record second = first;

	first.api = second.api = fixture_api_of("cuMemcpyBatchAsync");
	second.flags = RECORD_MORE;
	fixture_put(1, first);
	fixture_put(1, second);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT sum(host_ns) FROM transfer_total"), 30);
	ck_assert_int_eq(fixture_ask("SELECT sum(count) FROM transfer_total"), 2);
	ck_assert_int_eq(fixture_ask("SELECT sum(duration_ns) FROM transfer"), 30);
}
END_TEST

/* Launches allocate and free, but their time is none of such calls. */
START_TEST(memory_of_graphs_takes_no_time_of_its_own)
{
	struct record begun = session_writer_alloc(2000, 500, 1, 0x7000, 4096, BLOCK_GRAPH);
	struct record ended = session_writer_free(5000, 500, 1);

	begun.api = ended.api = fixture_api_of("cuGraphLaunch");
	begun.flags = ended.flags = RECORD_MORE;
	launch(2000);
	fixture_put(1, begun);
	launch(5000);
	fixture_put(1, ended);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT released_ns FROM allocation WHERE kind = 'graph'"),
			 5500);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM leak"), 0);
	ck_assert_int_eq(fixture_ask("SELECT alloc_ns FROM allocation_total"), 0);
	ck_assert_int_eq(fixture_ask("SELECT frees FROM allocation_total"), 1);
	ck_assert_int_eq(fixture_ask("SELECT free_ns FROM allocation_total"), 0);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM free_total"), 0);
	ck_assert_int_eq(fixture_ask("SELECT calls FROM api_call"), 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("collect_graph");
	TCase *rows = tcase_create("rows");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(rows, fixture_make_session, fixture_remove_session);
	tcase_set_timeout(rows, 60);
	tcase_add_test(rows, a_launch_has_a_row_for_each_way);
	tcase_add_test(rows, what_has_not_moved_is_in_no_sum_of_bytes);
	tcase_add_test(rows, the_time_of_a_call_is_counted_once);
	tcase_add_test(rows, memory_of_graphs_takes_no_time_of_its_own);
	suite_add_tcase(suite, rows);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
