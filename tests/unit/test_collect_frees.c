/* SPDX-License-Identifier: Apache-2.0 */
/* How blocks end in a trace: deferred frees, releases in any order, findings, passes. */
#include "collect_fixture.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* What a row of allocation must say of block `number`. */
static void expect(int number, int64_t released_ns, const char *cause, int64_t waited_ns,
		   int64_t ready_ns)
{
	char sql[160];

	snprintf(sql, sizeof(sql), "SELECT released_ns FROM allocation WHERE number = %d", number);
	ck_assert_int_eq(fixture_ask(sql), released_ns);
	snprintf(sql, sizeof(sql), "SELECT release_cause FROM allocation WHERE number = %d",
		 number);
	ck_assert_str_eq(fixture_ask_text(sql), cause);
	snprintf(sql, sizeof(sql), "SELECT free_waited_ns FROM allocation WHERE number = %d",
		 number);
	ck_assert_int_eq(fixture_ask(sql), waited_ns);
	snprintf(sql, sizeof(sql), "SELECT ready_ns FROM allocation WHERE number = %d", number);
	ck_assert_int_eq(fixture_ask(sql), ready_ns);
}

static int64_t live_peak(void)
{
	return fixture_ask("SELECT bytes FROM peak WHERE process_id IS NULL");
}

static int64_t pending_peak(void)
{
	return fixture_ask("SELECT pending_peak_bytes FROM peak WHERE process_id IS NULL");
}

static int64_t held_peak(void)
{
	return fixture_ask("SELECT held_peak_bytes FROM peak WHERE process_id IS NULL");
}

START_TEST(deferred_free_is_pending_from_its_wait_to_its_release)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_alloc(2100, 10, 2, 0x9000, 100, BLOCK_DEVICE));
	fixture_put(1, session_writer_defer(3000, 500, 450, 1));
	fixture_put(1, session_writer_release(5000, 1, 4000, RELEASE_COUNT));
	fixture_put(1, session_writer_free(6000, 10, 2));
	fixture_collect();
	expect(1, 5000, "count", 450, 4000);
	expect(2, 6010, "freed", INT64_MIN, INT64_MIN);
	ck_assert_int_eq(fixture_ask("SELECT free_requested_ns FROM allocation WHERE number = 1"),
			 3000);
	ck_assert_int_eq(fixture_ask("SELECT free_duration_ns FROM allocation WHERE number = 1"),
			 500);
	ck_assert_int_eq(pending_peak(), 4096);
	/* What is pending is live no more. */
	ck_assert_int_eq(live_peak(), 4196);
	ck_assert_int_eq(held_peak(), 4196);
	ck_assert_int_eq(fixture_ask("SELECT max(pending_bytes) FROM sample"), 4096);
	ck_assert_int_eq(
		fixture_ask("SELECT min(live_bytes) FROM sample WHERE pending_bytes = 4096"), 100);
}
END_TEST

START_TEST(bytes_are_live_until_their_free_and_held_until_their_release)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_defer(3000, 10, 0, 1));
	fixture_put(1, session_writer_alloc(4000, 10, 2, 0x9000, 100, BLOCK_DEVICE));
	fixture_put(1, session_writer_release(5000, 1, 3500, RELEASE_IDLE));
	fixture_put(1, session_writer_alloc(6000, 10, 3, 0x7000, 50, BLOCK_DEVICE));
	fixture_collect();
	ck_assert_int_eq(live_peak(), 4096);
	ck_assert_int_eq(fixture_ask("SELECT at_ns FROM peak WHERE process_id IS NULL"), 2010);
	ck_assert_int_eq(fixture_ask("SELECT group_concat(allocation_id) FROM peak_block "
				     "WHERE process_id IS NULL"),
			 1);
	ck_assert_int_eq(held_peak(), 4196);
	ck_assert_int_eq(fixture_ask("SELECT sum(peak_bytes) FROM allocation_total"), 4096);
	ck_assert_int_eq(fixture_ask("SELECT sum(exit_bytes) FROM allocation_total"), 150);
}
END_TEST

/* The peak is that of a block which is allocated while another one is pending. */
START_TEST(figures_of_memory_are_the_same_whatever_is_done_about_frees)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	if (_i == 0)
		fixture_put(1, session_writer_free(3000, 500, 1));
	else
		fixture_put(1, session_writer_defer(3000, 500, _i == 1 ? 490 : 0, 1));
	fixture_put(1, session_writer_alloc(4000, 10, 2, 0x9000, 5000, BLOCK_DEVICE));
	if (_i != 0)
		fixture_put(1, session_writer_release(5000, 1, 4900, RELEASE_COUNT));
	fixture_put(1, session_writer_alloc(6000, 10, 3, 0x7000, 300, BLOCK_DEVICE));
	fixture_collect();
	ck_assert_int_eq(live_peak(), 5300);
	ck_assert_int_eq(fixture_ask("SELECT at_ns FROM peak WHERE process_id IS NULL"), 6010);
	ck_assert_str_eq(fixture_ask_text("SELECT group_concat(id) FROM live_at_peak "
					  "WHERE peak_process_id IS NULL"),
			 "2,3");
	ck_assert_int_eq(fixture_ask("SELECT max(live_bytes) FROM sample"), 5300);
	ck_assert_str_eq(fixture_ask_text(
				 "SELECT sum(peak_count) || ' ' || sum(peak_bytes) || ' ' || "
				 "sum(exit_count) || ' ' || sum(exit_bytes) || ' ' || "
				 "sum(ended_count) || ' ' || sum(frees) FROM allocation_total"),
			 "2 5300 2 5300 0 1");
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM leak"), 2);
	ck_assert_int_eq(pending_peak(), _i == 0 ? 0 : 4096);
	ck_assert_int_eq(held_peak(), _i == 0 ? 5300 : 9096);
}
END_TEST

START_TEST(what_is_pending_at_the_end_is_no_leak)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_alloc(2100, 10, 2, 0x9000, 100, BLOCK_DEVICE));
	fixture_put(1, session_writer_defer(3000, 10, 0, 1));
	fixture_put(1, session_writer_copy(8000, 10, TRANSFER_H2D, 1, 0x9000, 8));
	fixture_collect();
	expect(1, 8010, "exit", 0, INT64_MIN);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM leak"), 1);
	ck_assert_int_eq(fixture_ask("SELECT number FROM leak"), 2);
}
END_TEST

/* A thread that is slow to write its free, while another has released the block. */
START_TEST(release_may_be_met_before_its_free)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_release(5000, 1, 4000, RELEASE_BYTES));
	fixture_put(2, session_writer_defer(6000, 10, 0, 1));
	fixture_collect();
	expect(1, 5000, "bytes", 0, 4000);
	ck_assert_int_eq(fixture_ask("SELECT free_requested_ns FROM allocation"), 6000);
	ck_assert_int_eq(fixture_ask(
				 "SELECT free_thread_id = (SELECT id FROM thread WHERE number = 2) "
				 "FROM allocation"),
			 1);
	ck_assert_int_eq(pending_peak(), 0);
}
END_TEST

START_TEST(time_between_counts_as_pending_in_either_order)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	/* In one chunk records stand as they were written. */
	fixture_put(1, session_writer_release(5000, 1, 4000, RELEASE_BYTES));
	fixture_put(1, session_writer_defer(3000, 10, 0, 1));
	fixture_collect();
	expect(1, 5000, "bytes", 0, 4000);
	ck_assert_int_eq(pending_peak(), 4096);
	ck_assert_int_eq(live_peak(), 4096);
	ck_assert_int_eq(held_peak(), 4096);
	ck_assert_int_eq(
		fixture_ask("SELECT min(live_bytes) FROM sample WHERE pending_bytes = 4096"), 0);
}
END_TEST

START_TEST(release_whose_free_was_lost_stands_alone)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_release(5000, 1, 4000, RELEASE_IDLE));
	fixture_put(1, session_writer_alloc(6000, 10, 2, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_copy(7000, 10, TRANSFER_H2D, 1, 0x7000, 8));
	fixture_collect();
	expect(1, 5000, "idle", INT64_MIN, 4000);
	ck_assert_int_eq(
		fixture_ask("SELECT count(*) FROM allocation WHERE free_requested_ns IS NULL"), 2);
	ck_assert_int_eq(fixture_ask("SELECT target_allocation_id FROM transfer"), 2);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM peak WHERE process_id IS NULL"), 4096);
}
END_TEST

START_TEST(release_the_driver_refused_is_a_failure_of_ours)
{
	struct record release = session_writer_release(5000, 1, 4000, RELEASE_FAILED);

	release.result = 700;
	release.api = fixture_api_of("cuMemFree_v2");
	release.a = 0x7000;
	release.c = 4096;
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_defer(3000, 10, 0, 1));
	fixture_put(1, release);
	fixture_collect();
	expect(1, 5000, "failed", 0, 4000);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM failure"), 1);
	ck_assert_str_eq(fixture_ask_text("SELECT origin FROM failure"), "custody");
	ck_assert_int_eq(fixture_ask("SELECT result FROM failure"), 700);
	ck_assert_int_eq(fixture_ask("SELECT object FROM failure"), 0x7000);
	ck_assert_str_eq(fixture_ask_text("SELECT name FROM failure JOIN api ON api.id = api_id"),
			 "cuMemFree_v2");
	/* The program has made two calls, and none of them failed. */
	ck_assert_int_eq(fixture_ask("SELECT sum(calls) FROM api_call"), 2);
	ck_assert_int_eq(fixture_ask("SELECT sum(errors) FROM api_call"), 0);
}
END_TEST

START_TEST(attempt_that_was_repeated_is_a_failure_of_ours_and_no_call)
{
	struct record first = session_writer_alloc(2000, 10, 0, 0, 4096, BLOCK_DEVICE);
	struct record second = session_writer_alloc(3000, 10, 1, 0x7000, 4096, BLOCK_DEVICE);
	struct record launch = { .kind = RECORD_OPERATION, .start = 4000, .result = 2 };

	first.api = second.api = fixture_api_of("cuMemAlloc_v2");
	first.result = 2;
	first.flags = launch.flags = RECORD_BY_CUSTODY | RECORD_MORE;
	fixture_put(1, first);
	fixture_put(1, second);
	fixture_put(1, launch);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM allocation"), 1);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM failure WHERE origin = 'custody'"), 2);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM failure"), 2);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM operation"), 0);
	ck_assert_int_eq(fixture_ask("SELECT sum(calls) FROM api_call"), 1);
	ck_assert_int_eq(fixture_ask("SELECT sum(errors) FROM api_call"), 0);
}
END_TEST

START_TEST(pass_over_a_queue_is_a_row)
{
	struct record flush = session_writer_flush(4000, 300, 11, 45056, RELEASE_COUNT);

	flush.c = 120;
	flush.stream = 2;
	fixture_put(1, flush);
	flush.aux = RELEASE_OOM | QUEUE_OBJECTS << 8;
	flush.start = 5000;
	fixture_put(2, flush);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM flush"), 2);
	ck_assert_str_eq(
		fixture_ask_text("SELECT queue || ' ' || cause FROM flush WHERE start_ns = 4000"),
		"memory count");
	ck_assert_str_eq(
		fixture_ask_text("SELECT queue || ' ' || cause FROM flush WHERE start_ns = 5000"),
		"objects oom");
	ck_assert_str_eq(fixture_ask_text("SELECT count || ' ' || bytes || ' ' || failed || ' ' || "
					  "duration_ns || ' ' || waited_ns FROM flush LIMIT 1"),
			 "11 45056 2 300 120");
	ck_assert_int_eq(fixture_ask(
				 "SELECT count(*) FROM flush f JOIN thread t ON t.id = f.thread_id "
				 "AND t.number = CASE f.start_ns WHEN 4000 THEN 1 ELSE 2 END"),
			 2);
	ck_assert_int_eq(fixture_ask("SELECT sum(calls) FROM api_call"), INT64_MIN);
}
END_TEST

START_TEST(finding_names_the_call_and_the_block)
{
	struct record copy = session_writer_copy(4000, 10, TRANSFER_H2D, 0x100, 0x7040, 8);
	struct record use = session_writer_finding(4000, 1, 0x7040, FINDING_USE_AFTER_FREE);
	struct record twice = session_writer_finding(4500, 0, 0x7000, FINDING_DOUBLE_FREE);

	copy.api = use.api = fixture_api_of("cuMemcpyHtoD_v2");
	copy.result = use.result = 1;
	copy.caller_context = use.caller_context = 0x4711;
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_defer(3000, 10, 0, 1));
	fixture_put(1, copy);
	fixture_put(1, use);
	fixture_put(1, twice);
	fixture_put(1, session_writer_release(5000, 1, 3500, RELEASE_IDLE));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM finding"), 2);
	ck_assert_str_eq(fixture_ask_text(
				 "SELECT f.kind || ' ' || name || ' ' || allocation_id || ' ' || "
				 "f.address || ' ' || at_ns || ' ' || caller FROM finding f "
				 "JOIN api ON api.id = api_id ORDER BY f.id"),
			 "use after free cuMemcpyHtoD_v2 1 28736 4000 18193");
	/* Its block is found by its address where nobody knew its number. */
	ck_assert_int_eq(
		fixture_ask("SELECT allocation_id FROM finding WHERE kind = 'double free'"), 1);
	/* The call has its own record: it failed once and was made once. */
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM failure"), 1);
	ck_assert_str_eq(fixture_ask_text("SELECT origin FROM failure"), "program");
	ck_assert_int_eq(fixture_ask("SELECT calls FROM api_call JOIN api ON api.id = api_id "
				     "WHERE name = 'cuMemcpyHtoD_v2'"),
			 1);
	ck_assert_int_eq(fixture_ask("SELECT target_allocation_id FROM transfer"), 1);
}
END_TEST

/* The driver gave the address away before anybody told of the release. */
START_TEST(pending_block_whose_address_is_reused_ends_there)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_defer(3000, 10, 0, 1));
	fixture_put(2, session_writer_alloc(4000, 50, 2, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(2, session_writer_release(4060, 1, 0, RELEASE_IDLE));
	fixture_put(1, session_writer_copy(5000, 10, TRANSFER_H2D, 1, 0x7000, 8));
	fixture_put(1, session_writer_defer(6000, 10, 0, 2));
	fixture_put(1, session_writer_release(7000, 2, 6500, RELEASE_IDLE));
	fixture_collect();
	expect(1, 4050, "idle", 0, INT64_MIN);
	expect(2, 7000, "idle", 0, 6500);
	ck_assert_int_eq(fixture_ask("SELECT target_allocation_id FROM transfer"), 2);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM peak WHERE process_id IS NULL"), 4096);
	ck_assert_int_eq(pending_peak(), 4096);
}
END_TEST

/* A block that ends earlier than its release says: pending until then, or never. */
START_TEST(life_of_a_block_whose_address_was_reused_is_counted_again)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_defer(3000, 1500, _i ? 1500 : 0, 1));
	fixture_put(1, session_writer_release(5000, 1, 4600, RELEASE_IDLE));
	fixture_put(1, session_writer_alloc(4000, 50, 2, 0x7000, 4096, BLOCK_DEVICE));
	fixture_collect();
	expect(1, 4050, "idle", _i ? 1500 : 0, 4600);
	ck_assert_int_eq(live_peak(), 4096);
	ck_assert_int_eq(held_peak(), 4096);
	ck_assert_int_eq(pending_peak(), _i ? 0 : 4096);
	ck_assert_int_eq(fixture_ask("SELECT max(live_bytes) FROM sample"), 4096);
	ck_assert_int_eq(fixture_ask("SELECT min(live_bytes) FROM sample"), _i ? 4096 : 0);
}
END_TEST

START_TEST(pending_block_dies_with_its_context)
{
	struct record alloc = session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE);
	struct record end = { .kind = RECORD_CONTEXT_END, .start = 5000, .duration = 40,
			      .aux = RELEASE_RESET };

	alloc.caller_context = end.caller_context = UINT64_C(3) << RECORD_CALLER_BITS;
	fixture_put(1, alloc);
	fixture_put(1, session_writer_defer(3000, 10, 0, 1));
	fixture_put(2, end);
	fixture_put(1, session_writer_release(6000, 1, 0, RELEASE_IDLE));
	fixture_collect();
	expect(1, 5040, "reset", 0, INT64_MIN);
	ck_assert_int_eq(pending_peak(), 4096);
	ck_assert_int_eq(fixture_ask("SELECT sum(ended_count) FROM allocation_total"), 0);
	ck_assert_int_eq(fixture_ask("SELECT min(pending_bytes) FROM sample WHERE at_ns > 5040"),
			 INT64_MIN);
}
END_TEST

START_TEST(page_locked_memory_that_is_pending_is_none_of_the_devices)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_PINNED));
	fixture_put(1, session_writer_alloc(2000, 10, 2, 0x9000, 100, BLOCK_DEVICE));
	fixture_put(1, session_writer_defer(3000, 10, 0, 1));
	fixture_put(1, session_writer_release(9000, 1, 8000, RELEASE_IDLE));
	fixture_collect();
	ck_assert_int_eq(pending_peak(), 0);
	ck_assert_int_eq(fixture_ask("SELECT max(pending_bytes) FROM sample WHERE kind = 'pinned'"),
			 4096);
}
END_TEST

/* Frees of two threads, in the order of their starts, and when the work before each was done. */
static const struct {
	uint32_t thread;
	uint64_t at, ready, saved;
} waits[] = {
	{ 1, 3000, 5000, 2000 },
	{ 2, 3100, 4000, 900 }, /* threads wait each for itself */
	{ 1, 3500, 5200, 200 }, /* the first wait would have outlasted all but this */
	{ 1, 3600, 5100, 0 },
	{ 1, 6000, 6100, 100 },
	{ 1, 7000, 0, 0 }, /* nobody has seen it done */
};

enum { WAITS = sizeof(waits) / sizeof(*waits) };

static void put_waits(const char *policy)
{
	snprintf(fixture_writer.control->policy, CONTROL_TEXT_BYTES, "%s", policy);
	for (uint64_t id = 1; id <= WAITS; id++)
		fixture_put(1, session_writer_alloc(1000 + id * 100, 10, id, id << 20, 4096,
						    BLOCK_DEVICE));
	for (uint64_t id = 1; id <= WAITS; id++) {
		struct record free = session_writer_defer(waits[id - 1].at, 10, 0, id);

		free.api = fixture_api_of("cuMemFree_v2");
		free.caller_context = 0x4711;
		fixture_put(waits[id - 1].thread, free);
	}
	for (uint64_t id = 1; id <= WAITS; id++)
		fixture_put(1, session_writer_release(9000 + id * 100, id, waits[id - 1].ready,
						      RELEASE_IDLE));
}

START_TEST(wait_that_was_saved_counts_once_in_a_thread)
{
	char sql[96];

	put_waits("nowait");
	fixture_collect();
	for (int id = 1; id <= WAITS; id++) {
		snprintf(sql, sizeof(sql),
			 "SELECT coalesce(free_saved_ns, 0) FROM allocation WHERE number = %d", id);
		ck_assert_int_eq(fixture_ask(sql), (int64_t)waits[id - 1].saved);
	}
	ck_assert_str_eq(fixture_ask_text(
				 "SELECT count || ' ' || host_ns || ' ' || max_ns || ' ' || "
				 "forwarded_ns || ' ' || deferred || ' ' || "
				 "deferred_bytes || ' ' || waited_ns || ' ' || "
				 "saved_ns || ' ' || caller FROM free_total"),
			 "6 60 10 0 6 24576 0 3200 18193");
}
END_TEST

/* What one call does to several variables is one call. */
START_TEST(unloading_of_a_module_is_a_free_that_can_wait)
{
	struct record unload = { .kind = RECORD_OPERATION, .start = 3000, .duration = 700,
				 .caller_context = 0x4711, .a = 0x55 };
	struct record other = unload, variable = session_writer_free(3000, 700, 1);

	unload.api = variable.api = fixture_api_of("cuModuleUnload");
	other.api = fixture_api_of("cuModuleLoad");
	variable.flags = RECORD_MORE;
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_MODULE));
	fixture_put(1, session_writer_alloc(2100, 10, 2, 0x9000, 4096, BLOCK_MODULE));
	fixture_put(1, other);
	fixture_put(1, unload);
	fixture_put(1, variable);
	variable.b = 2;
	fixture_put(1, variable);
	unload.result = 400;
	fixture_put(1, unload);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM free_total"), 1);
	ck_assert_str_eq(fixture_ask_text(
				 "SELECT count || ' ' || host_ns || ' ' || caller || ' ' || name "
				 "FROM free_total JOIN api ON api.id = api_id"),
			 "1 700 18193 cuModuleUnload");
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM leak"), 0);
}
END_TEST

START_TEST(policy_that_waits_has_saved_nothing)
{
	put_waits("deferred");
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(free_saved_ns) FROM allocation"), 0);
	ck_assert_int_eq(fixture_ask("SELECT sum(saved_ns) FROM free_total"), 0);
	ck_assert_str_eq(fixture_ask_text("SELECT policy FROM process"), "deferred");
}
END_TEST

/* The block is pending from 3000 + its wait: for 100, 200 ... 20,000 ns. */
START_TEST(pending_times_are_told_by_their_middle_and_their_end)
{
	enum { BLOCKS = 200 };

	for (uint64_t id = 1; id <= BLOCKS + 2; id++)
		fixture_put(1,
			    session_writer_alloc(1000 + id, 1, id, id << 20, 4096, BLOCK_DEVICE));
	for (uint64_t id = 1; id <= BLOCKS + 2; id++)
		fixture_put(1, session_writer_defer(3000 + id, 60, 50, id));
	for (uint64_t id = 1; id <= BLOCKS; id++)
		fixture_put(1,
			    session_writer_release(3050 + id + id * 100, id, 3050, RELEASE_IDLE));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT released FROM pending_total"), BLOCKS);
	ck_assert_int_eq(fixture_ask("SELECT median_ns BETWEEN 9990 AND 10000 FROM pending_total"),
			 1);
	ck_assert_int_eq(fixture_ask("SELECT p99_ns BETWEEN 19781 AND 19800 FROM pending_total"),
			 1);
	ck_assert_int_eq(fixture_ask("SELECT longest_ns FROM pending_total"), 20000);
	ck_assert_int_eq(fixture_ask("SELECT exit_count FROM pending_total"), 2);
	ck_assert_int_eq(fixture_ask("SELECT exit_bytes FROM pending_total"), 2 * 4096);
}
END_TEST

/* What a collector of before there were deferred frees has left behind. */
START_TEST(trace_that_an_older_version_began_is_gone_on_with)
{
	char command[4 * PATH_MAX];
	struct store *store;
	bool is_new;

	if (sqlite3_libversion_number() < 3035000)
		return; /* it cannot drop a column */
	store = store_open(fixture_trace, fixture_session, &is_new);
	ck_assert(is_new);
	store_run(store, "DROP TABLE finding; DROP TABLE free_total; DROP TABLE pending_total;"
			 "ALTER TABLE allocation DROP COLUMN free_waited_ns;"
			 "ALTER TABLE allocation DROP COLUMN ready_ns;"
			 "ALTER TABLE allocation DROP COLUMN free_saved_ns;"
			 "DROP INDEX operation_unload;"
			 "ALTER TABLE operation DROP COLUMN caller;"
			 "ALTER TABLE operation DROP COLUMN detail;"
			 "ALTER TABLE operation DROP COLUMN bytes;"
			 "ALTER TABLE process DROP COLUMN note;"
			 "ALTER TABLE peak DROP COLUMN held_peak_bytes;"
			 "DROP VIEW gpu_work; DROP VIEW transfer; DROP TABLE transfer_gpu;"
			 "ALTER TABLE transfer_site DROP COLUMN copies;"
			 "CREATE VIEW transfer AS SELECT id, bytes FROM transfer_row;");
	store_close(store);
	snprintf(command, sizeof(command), "echo trace=%s >>%s/session", fixture_trace,
		 fixture_session);
	ck_assert_int_eq(system(command), 0);
	put_waits("nowait");
	fixture_put(1, (struct record){ .kind = RECORD_OPERATION,
					.start = 9900,
					.a = 1,
					.b = 7,
					.c = 8,
					.api = fixture_api_of("cuModuleUnload"),
					.caller_context = 5 });
	fixture_put(1, session_writer_finding(9950, 1, 1 << 20, FINDING_DOUBLE_FREE));
	fixture_put(1, session_writer_copy(9960, 10, TRANSFER_H2D, 1, 2, 3));
	fixture_collect();
	expect(1, 9100, "idle", 0, 5000);
	ck_assert_int_eq(fixture_ask("SELECT sum(saved_ns) FROM free_total"), 3200);
	ck_assert_int_eq(fixture_ask("SELECT released FROM pending_total"), WAITS);
	ck_assert_int_eq(fixture_ask("SELECT caller FROM operation"), 5);
	ck_assert_int_eq(fixture_ask("SELECT detail * 10 + bytes FROM operation"), 78);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM finding"), 1);
	ck_assert_int_eq(fixture_ask("SELECT sum(copies) FROM transfer WHERE gpu_start_ns IS NULL"),
			 1);
}
END_TEST

/* Numbers that no queue can have had count as lost, and do not reach a sum. */
START_TEST(deferred_frees_that_cannot_be_count_as_lost)
{
	struct record flush = session_writer_flush(4000, 300, UINT64_MAX, 1, RELEASE_COUNT);

	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_defer(3000, 10, UINT64_MAX, 1));
	fixture_put(1, flush);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT sum(count) FROM gap"), 2);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM flush"), 0);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM leak"), 1);
}
END_TEST

/* A block that is refused has no id: what stands there is the reason. */
START_TEST(refusals_of_ours_have_their_own_origin)
{
	for (uint64_t why = FAILURE_DRIVER; why <= FAILURE_WHYS; why++) {
		struct record record = session_writer_alloc(1000 * (why + 1), 10, why, 0,
							    100 + why, BLOCK_DEVICE);

		record.result = 2;
		fixture_put(1, record);
	}
	fixture_collect();
	ck_assert_str_eq(fixture_ask_text("SELECT group_concat(origin || ' ' || bytes, ', ') FROM "
					  "(SELECT * FROM failure ORDER BY at_ns)"),
			 "program 100, limit 101, fail-nth 102, program 103");
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM allocation"), 0);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("collect_frees");
	TCase *rows = tcase_create("rows");

	tcase_add_checked_fixture(rows, fixture_make_session, fixture_remove_session);
	tcase_set_timeout(rows, 60);
	tcase_add_test(rows, deferred_free_is_pending_from_its_wait_to_its_release);
	tcase_add_test(rows, bytes_are_live_until_their_free_and_held_until_their_release);
	tcase_add_loop_test(rows, figures_of_memory_are_the_same_whatever_is_done_about_frees, 0,
			    3);
	tcase_add_test(rows, what_is_pending_at_the_end_is_no_leak);
	tcase_add_test(rows, release_may_be_met_before_its_free);
	tcase_add_test(rows, time_between_counts_as_pending_in_either_order);
	tcase_add_test(rows, release_whose_free_was_lost_stands_alone);
	tcase_add_test(rows, release_the_driver_refused_is_a_failure_of_ours);
	tcase_add_test(rows, attempt_that_was_repeated_is_a_failure_of_ours_and_no_call);
	tcase_add_test(rows, pass_over_a_queue_is_a_row);
	tcase_add_test(rows, finding_names_the_call_and_the_block);
	tcase_add_test(rows, pending_block_whose_address_is_reused_ends_there);
	tcase_add_loop_test(rows, life_of_a_block_whose_address_was_reused_is_counted_again, 0, 2);
	tcase_add_test(rows, pending_block_dies_with_its_context);
	tcase_add_test(rows, page_locked_memory_that_is_pending_is_none_of_the_devices);
	tcase_add_test(rows, wait_that_was_saved_counts_once_in_a_thread);
	tcase_add_test(rows, unloading_of_a_module_is_a_free_that_can_wait);
	tcase_add_test(rows, policy_that_waits_has_saved_nothing);
	tcase_add_test(rows, pending_times_are_told_by_their_middle_and_their_end);
	tcase_add_test(rows, trace_that_an_older_version_began_is_gone_on_with);
	tcase_add_test(rows, deferred_frees_that_cannot_be_count_as_lost);
	tcase_add_test(rows, refusals_of_ours_have_their_own_origin);
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
