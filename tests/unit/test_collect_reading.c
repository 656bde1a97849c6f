/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of a device's memory: the sums that stand beside them, and which rows are kept. */
#include "collect_fixture.h"

#include "core/api_names.h"
#include "report/ingest_growth.h"
#include "report/ingest_reading.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define TOTAL (UINT64_C(8192) * MIB)

enum { CONTEXT_MIB = 500 };

/* A reading of `used` MiB in use; nothing in pools or graphs. */
static struct record reading(uint64_t at, enum reading_moment moment,
			     enum reading_weighed weighed, uint64_t used)
{
	return session_writer_reading(at, moment, weighed, TOTAL - used * MIB, TOTAL, 0, 0);
}

static void put(struct record record)
{
	fixture_put(1, record);
}

/* Device 0 and a context that takes CONTEXT_MIB, of whose bytes nothing was known before. */
static void put_context(void)
{
	put(session_writer_context(2000, 1, 0x77));
	put(reading(2500, READING_AFTER, WEIGHED_CONTEXT, CONTEXT_MIB));
}

static struct record in_context(struct record record)
{
	record.caller_context |= UINT64_C(1) << RECORD_CALLER_BITS;
	return record;
}

static void put_alloc(uint64_t start, uint64_t id, uint64_t address, uint64_t bytes,
		      enum block_kind kind)
{
	put(in_context(session_writer_alloc(start, 10, id, address, bytes, kind)));
}

/* A column of the reading of that moment. */
static int64_t of_reading(uint64_t at, const char *column)
{
	char sql[320];

	snprintf(sql, sizeof(sql), "SELECT %s FROM reading WHERE at_ns = %llu", column,
		 (unsigned long long)at);
	return fixture_ask(sql);
}

static int64_t of_kind(uint64_t at, const char *kind, const char *column)
{
	char sql[192];

	snprintf(sql, sizeof(sql),
		 "SELECT k.%s FROM reading_kind k JOIN reading ON id = reading_id "
		 "WHERE at_ns = %llu AND kind = '%s'",
		 column, (unsigned long long)at, kind);
	return fixture_ask(sql);
}

/* What nothing explains at that reading. */
static int64_t unexplained(uint64_t at)
{
	return of_reading(at, "total_bytes - free_bytes - held_bytes - pool_bytes - graph_bytes - "
			      "coalesce(context_bytes, 0) - code_bytes - driver_bytes - "
			      "recorded_bytes - foreign_bytes");
}

START_TEST(sums_are_those_of_the_moment)
{
	put_context();
	put_alloc(3000, 1, 0x200000000, 3 * MIB, BLOCK_DEVICE);
	put(reading(4000, READING_QUIET, WEIGHED_NOTHING, CONTEXT_MIB + 4));
	put_alloc(4500, 2, 0x300000000, 10 * MIB, BLOCK_VMM);
	put(session_writer_defer(5000, 10, 0, 1));
	put(reading(5500, READING_QUIET, WEIGHED_NOTHING, CONTEXT_MIB + 14));
	put(session_writer_release(6000, 1, 5900, RELEASE_IDLE));
	put(reading(7000, READING_EXIT, WEIGHED_NOTHING, CONTEXT_MIB + 11));
	fixture_collect();
	ck_assert_int_eq(of_kind(4000, "device", "live_bytes"), 3 * MIB);
	ck_assert_int_eq(of_kind(4000, "device", "held_bytes"), 4 * MIB);
	ck_assert_int_eq(of_kind(4000, "vmm", "live_bytes"), INT64_MIN);
	ck_assert_int_eq(of_kind(5500, "device", "live_bytes"), 0);
	ck_assert_int_eq(of_kind(5500, "device", "pending_bytes"), 3 * MIB);
	ck_assert_int_eq(of_reading(5500, "held_bytes"), 14 * MIB);
	ck_assert_int_eq(of_kind(7000, "device", "held_bytes"), INT64_MIN);
	ck_assert_int_eq(of_reading(7000, "held_bytes"), 10 * MIB);
	ck_assert_int_eq(unexplained(4000), 0);
	ck_assert_int_eq(unexplained(5500), 0);
	ck_assert_int_eq(unexplained(7000), MIB);
	ck_assert_str_eq(fixture_ask_text("SELECT moment FROM reading WHERE at_ns = 7000"),
			 "exit");
}
END_TEST

START_TEST(blocks_share_the_pages_at_their_ends)
{
	put_context();
	put_alloc(3000, 1, 0x200000000, 4096, BLOCK_DEVICE);
	put_alloc(3100, 2, 0x200001000, 4096, BLOCK_PITCH);
	/* From the middle of that page over two more into the fourth. */
	put_alloc(3200, 3, 0x200100000, 6 * MIB, BLOCK_DEVICE);
	put(reading(3500, READING_ASKED, WEIGHED_NOTHING, CONTEXT_MIB));
	put(session_writer_free(4000, 10, 1));
	put(session_writer_free(4100, 10, 2));
	put(reading(4500, READING_ASKED, WEIGHED_NOTHING, CONTEXT_MIB));
	put_alloc(4600, 4, 0x200700000, 4096, BLOCK_DEVICE);
	put(session_writer_free(4700, 10, 3));
	put(reading(5000, READING_ASKED, WEIGHED_NOTHING, CONTEXT_MIB));
	put(session_writer_free(5100, 10, 4));
	put(reading(5500, READING_ASKED, WEIGHED_NOTHING, CONTEXT_MIB));
	fixture_collect();
	ck_assert_int_eq(of_reading(3500, "held_bytes"), 8 * MIB);
	ck_assert_int_eq(of_reading(4500, "held_bytes"), 8 * MIB);
	ck_assert_int_eq(of_reading(5000, "held_bytes"), 2 * MIB);
	ck_assert_int_eq(of_reading(5500, "held_bytes"), 0);
}
END_TEST

START_TEST(small_arrays_share_pages_that_have_no_address)
{
	put_context();
	for (uint64_t i = 0; i < 3; i++)
		put_alloc(3000 + i * 20, 1 + i, 0x5500 + i * 64, MIB, BLOCK_ARRAY);
	put_alloc(3100, 9, 0x9900, 5 * MIB, BLOCK_ARRAY);
	put(reading(3500, READING_ASKED, WEIGHED_NOTHING, CONTEXT_MIB));
	put(session_writer_free(4000, 10, 2));
	put(reading(4500, READING_ASKED, WEIGHED_NOTHING, CONTEXT_MIB));
	fixture_collect();
	ck_assert_int_eq(of_reading(3500, "held_bytes"), 10 * MIB);
	ck_assert_int_eq(of_reading(4500, "held_bytes"), 8 * MIB);
}
END_TEST

START_TEST(what_is_reserved_elsewhere_is_held_by_no_block)
{
	put_context();
	put_alloc(3000, 1, 0x200000000, 3 * MIB, BLOCK_POOL);
	put_alloc(3050, 2, 0x300000000, 5 * MIB, BLOCK_GRAPH);
	put_alloc(3100, 3, 0x400000000, 7 * MIB, BLOCK_MANAGED);
	put_alloc(3150, 4, 0x500000000, 64, BLOCK_MODULE);
	put_alloc(3200, 5, 0x600000000, 64 * MIB, BLOCK_IPC);
	put_alloc(3250, 6, 0x7f0000000, 64 * MIB, BLOCK_PINNED);
	put(session_writer_reading(3500, READING_ASKED, WEIGHED_NOTHING, TOTAL - 596 * MIB, TOTAL,
				   32 * MIB, 64 * MIB));
	/* A capture was live: neither was asked. */
	put(session_writer_reading(4500, READING_ASKED, WEIGHED_NOTHING, TOTAL - 596 * MIB, TOTAL,
				   READING_UNKNOWN, READING_UNKNOWN));
	fixture_collect();
	ck_assert_int_eq(of_reading(3500, "held_bytes"), 0);
	ck_assert_int_eq(of_reading(3500, "pool_bytes"), 32 * MIB);
	ck_assert_int_eq(of_reading(3500, "graph_bytes"), 64 * MIB);
	ck_assert_int_eq(of_kind(3500, "pool", "live_bytes"), 3 * MIB);
	ck_assert_int_eq(of_kind(3500, "managed", "held_bytes"), 8 * MIB);
	ck_assert_int_eq(of_kind(3500, "ipc", "live_bytes"), INT64_MIN);
	ck_assert_int_eq(of_reading(4500, "pools_reserved"), INT64_MIN);
	ck_assert_int_eq(of_reading(4500, "pool_bytes"), 32 * MIB);
	ck_assert_int_eq(of_reading(4500, "graph_bytes"), 64 * MIB);
	ck_assert_int_eq(unexplained(4500), 0);
}
END_TEST

/* Its pool is gone, and another one keeps as much for later. */
START_TEST(blocks_that_outlive_their_pool_are_added_to_what_is_cached)
{
	put_context();
	put_alloc(3000, 1, 0x200000000, 32 * MIB, BLOCK_POOL);
	put(session_writer_reading(3500, READING_ASKED, WEIGHED_NOTHING, TOTAL - 564 * MIB, TOTAL,
				   READING_CACHED | 32 * MIB, 0));
	put(session_writer_reading(4500, READING_ASKED, WEIGHED_NOTHING, TOTAL - 564 * MIB, TOTAL,
				   READING_UNKNOWN, READING_UNKNOWN));
	fixture_collect();
	ck_assert_int_eq(of_reading(3500, "pool_bytes"), 64 * MIB);
	ck_assert_int_eq(of_reading(3500, "pools_reserved"), INT64_MIN);
	ck_assert_int_eq(of_reading(3500, "pools_cached"), 32 * MIB);
	ck_assert_int_eq(of_reading(4500, "pools_cached"), INT64_MIN);
	ck_assert_int_eq(of_reading(4500, "pool_bytes"), 64 * MIB);
}
END_TEST

START_TEST(pairs_tell_what_a_call_made_the_driver_keep)
{
	put_context();
	put(reading(3000, READING_BEFORE, WEIGHED_CODE, 500));
	/* A block that came in between is no code. */
	fixture_put(2, in_context(session_writer_alloc(3100, 10, 1, 0x200000000, 2 * MIB,
						       BLOCK_DEVICE)));
	put(reading(3500, READING_AFTER, WEIGHED_CODE, 512));
	put(reading(4000, READING_BEFORE, WEIGHED_STREAM, 512));
	put(reading(4500, READING_AFTER, WEIGHED_STREAM, 514));
	put(reading(5000, READING_BEFORE, WEIGHED_CODE, 514));
	put(reading(5500, READING_AFTER, WEIGHED_CODE, 508)); /* it was unloaded */
	put(reading(6000, READING_EXIT, WEIGHED_NOTHING, 508));
	fixture_collect();
	ck_assert_int_eq(of_reading(3500, "growth_bytes"), 10 * MIB);
	ck_assert_int_eq(of_reading(3500, "code_bytes"), 10 * MIB);
	ck_assert_int_eq(of_reading(3000, "code_bytes"), 0);
	ck_assert_int_eq(of_reading(5500, "growth_bytes"), -6 * (int64_t)MIB);
	ck_assert_int_eq(of_reading(6000, "code_bytes"), 4 * MIB);
	ck_assert_int_eq(of_reading(6000, "driver_bytes"), 2 * MIB);
	ck_assert_int_eq(unexplained(6000), 0);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM overhead WHERE kind = 'code'"), 4 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT count FROM overhead WHERE kind = 'code'"), 2);
	ck_assert_int_eq(fixture_ask("SELECT created_ns FROM overhead WHERE kind = 'stream'"),
			 4500);
}
END_TEST

/* The device has given the block before the call that makes it returns. */
START_TEST(block_that_is_being_made_is_no_code)
{
	struct record slow = session_writer_alloc(3100, 500, 1, 0x200000000, 64 * MIB,
						  BLOCK_DEVICE);

	put_context();
	put(reading(3000, READING_BEFORE, WEIGHED_CODE, 500));
	fixture_put(2, in_context(slow));
	put(reading(3400, READING_AFTER, WEIGHED_CODE, 566));
	/* And of the next pair it is the BEFORE that has it. */
	put(reading(3500, READING_BEFORE, WEIGHED_CODE, 566));
	put(reading(4000, READING_AFTER, WEIGHED_CODE, 566));
	/* This one has not been given yet. */
	slow.start = 4500;
	slow.b = 2;
	slow.a = 0x300000000;
	put(reading(4400, READING_BEFORE, WEIGHED_CODE, 566));
	fixture_put(2, in_context(slow));
	put(reading(4900, READING_AFTER, WEIGHED_CODE, 570));
	put(reading(6000, READING_EXIT, WEIGHED_NOTHING, 634));
	fixture_collect();
	ck_assert_int_eq(of_reading(3400, "growth_bytes"), 2 * MIB);
	ck_assert_int_eq(of_reading(4000, "growth_bytes"), 0);
	ck_assert_int_eq(of_reading(4900, "growth_bytes"), 4 * MIB);
	ck_assert_int_eq(unexplained(6000), 0);
}
END_TEST

/* A launch moves managed memory: no more than there is, and only what was not there before. */
START_TEST(managed_memory_that_comes_is_no_code)
{
	put_context();
	put_alloc(3000, 1, 0x400000000, 300 * MIB, BLOCK_MANAGED);
	put(reading(3100, READING_BEFORE, WEIGHED_CODE, 500));
	put(reading(3200, READING_AFTER, WEIGHED_CODE, 700));
	put(reading(3300, READING_BEFORE, WEIGHED_CODE, 700));
	/* 300 MiB are three steps of 128: of 194 MiB 184 may be managed. */
	put(reading(3400, READING_AFTER, WEIGHED_CODE, 894));
	put(reading(3500, READING_BEFORE, WEIGHED_CODE, 894));
	put(reading(3600, READING_AFTER, WEIGHED_CODE, 896));
	put(session_writer_free(3700, 10, 1));
	put(reading(4000, READING_EXIT, WEIGHED_NOTHING, 512));
	fixture_collect();
	ck_assert_int_eq(of_reading(3200, "growth_bytes"), 0);
	ck_assert_int_eq(of_reading(3400, "growth_bytes"), 10 * MIB);
	ck_assert_int_eq(of_reading(3600, "growth_bytes"), 2 * MIB);
	ck_assert_int_eq(unexplained(4000), 0);
}
END_TEST

/* Managed memory comes in steps: what graphs and streams take beside it is theirs. */
START_TEST(managed_memory_takes_nothing_from_graphs_and_streams)
{
	put_context();
	put_alloc(3000, 1, 0x400000000, 300 * MIB, BLOCK_MANAGED);
	put(reading(3100, READING_BEFORE, WEIGHED_GRAPH, 500));
	put(reading(3200, READING_AFTER, WEIGHED_GRAPH, 501));
	put(reading(3300, READING_BEFORE, WEIGHED_STREAM, 501));
	put(reading(3400, READING_AFTER, WEIGHED_STREAM, 503));
	put(reading(3500, READING_BEFORE, WEIGHED_SETTING, 503));
	put(reading(3600, READING_AFTER, WEIGHED_SETTING, 507));
	/* A graph whose kernels use it. */
	put(reading(3700, READING_BEFORE, WEIGHED_GRAPH, 507));
	put(reading(3800, READING_AFTER, WEIGHED_GRAPH, 507 + 128 + 3));
	fixture_collect();
	ck_assert_int_eq(of_reading(3200, "growth_bytes"), MIB);
	ck_assert_int_eq(of_reading(3400, "growth_bytes"), 2 * MIB);
	ck_assert_int_eq(of_reading(3600, "growth_bytes"), 4 * MIB);
	ck_assert_int_eq(of_reading(3600, "driver_bytes"), 7 * MIB);
	ck_assert_int_eq(of_reading(3800, "growth_bytes"), 3 * MIB);
}
END_TEST

/* As measured: what the device took for managed memory does not all come back with it. */
START_TEST(what_managed_memory_leaves_behind_is_the_drivers)
{
	put_context();
	put(reading(2900, READING_QUIET, WEIGHED_NOTHING, 503)); /* 3 that nothing explains */
	put_alloc(3000, 1, 0x400000000, 100 * MIB, BLOCK_MANAGED);
	put_alloc(3020, 2, 0x500000000, 100 * MIB, BLOCK_MANAGED);
	put(reading(3100, READING_BEFORE, WEIGHED_CODE, 503));
	put(reading(3200, READING_AFTER, WEIGHED_CODE, 759));
	put(reading(3300, READING_BEFORE, WEIGHED_SETTING, 759));
	put(session_writer_free(3310, 10, 1));
	put(reading(3400, READING_AFTER, WEIGHED_SETTING, 677));
	put(reading(3500, READING_BEFORE, WEIGHED_SETTING, 677));
	put(session_writer_free(3510, 10, 2));
	put(reading(3600, READING_AFTER, WEIGHED_SETTING, 577));
	put(reading(4000, READING_EXIT, WEIGHED_NOTHING, 577));
	fixture_collect();
	ck_assert_int_eq(of_reading(3200, "growth_bytes"), 0);
	ck_assert_int_eq(of_reading(3400, "growth_bytes"), 0);
	ck_assert_int_eq(of_reading(3600, "growth_bytes"), 74 * MIB);
	ck_assert_int_eq(of_reading(4000, "driver_bytes"), 74 * MIB);
	ck_assert_int_eq(unexplained(4000), 3 * MIB);
}
END_TEST

/* Of two threads that load at once, each has its own pair. */
START_TEST(pairs_belong_to_their_threads)
{
	put_context();
	fixture_put(2, reading(3000, READING_BEFORE, WEIGHED_CODE, 500));
	put(reading(3100, READING_BEFORE, WEIGHED_STREAM, 500));
	put(reading(3200, READING_AFTER, WEIGHED_STREAM, 502));
	fixture_put(2, reading(3300, READING_AFTER, WEIGHED_CODE, 506));
	fixture_collect();
	ck_assert_int_eq(of_reading(3200, "growth_bytes"), 2 * MIB);
	ck_assert_int_eq(of_reading(3300, "growth_bytes"), 4 * MIB);
}
END_TEST

START_TEST(contexts_take_with_them_what_was_kept_for_them)
{
	struct record end = { .kind = RECORD_CONTEXT_END, .start = 5000, .a = 0x77,
			      .caller_context = UINT64_C(1) << RECORD_CALLER_BITS };

	put_context();
	put(reading(3000, READING_BEFORE, WEIGHED_CODE, 500));
	put(reading(3500, READING_AFTER, WEIGHED_CODE, 510));
	put(session_writer_context(4000, 2, 0x78));
	struct record second = reading(4500, READING_AFTER, WEIGHED_CONTEXT, 610);
	second.caller_context = UINT64_C(2) << RECORD_CALLER_BITS;
	put(second);
	put(end);
	second = reading(6000, READING_EXIT, WEIGHED_NOTHING, 600);
	second.caller_context = UINT64_C(2) << RECORD_CALLER_BITS;
	put(second);
	fixture_collect();
	ck_assert_int_eq(of_reading(4500, "growth_bytes"), 100 * MIB);
	ck_assert_int_eq(of_reading(4500, "code_bytes"), 10 * MIB);
	ck_assert_int_eq(of_reading(6000, "code_bytes"), 0);
	ck_assert_int_eq(unexplained(6000), 0);
	ck_assert_int_eq(fixture_ask("SELECT ended_ns FROM overhead WHERE kind = 'code'"), 5000);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM overhead WHERE kind = 'context' "
				     "AND context_id = 2"), 100 * MIB);
	/* Of the first nothing was known before it: it is one with what is foreign. */
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM overhead WHERE kind = 'context' "
				     "AND bytes IS NULL"), 1);
	ck_assert_int_eq(of_reading(3500, "context_bytes"), INT64_MIN);
	ck_assert_int_eq(of_reading(3500, "foreign_bytes"), 500 * MIB);
}
END_TEST

static struct record device(uint64_t start)
{
	return (struct record){ .kind = RECORD_DEVICE, .start = start, .a = 0x1111, .b = 0x2222,
				.c = TOTAL, .aux = 1 };
}

START_TEST(processes_of_one_device_know_of_each_other)
{
	struct session_writer other;

	session_writer_put_text(&fixture_writer, 1, device(1900), "GPU");
	put_context();
	put_alloc(3000, 1, 0x200000000, 20 * MIB, BLOCK_VMM);
	put(reading(3500, READING_QUIET, WEIGHED_NOTHING, 520));
	put(reading(9000, READING_QUIET, WEIGHED_NOTHING, 850));
	put(reading(9900, READING_EXIT, WEIGHED_NOTHING, 520));
	session_writer_open(&other, fixture_session, FIXTURE_GONE - 1, 1);
	session_writer_put_text(&other, 1, device(4000), "GPU");
	session_writer_put(&other, 1, session_writer_context(4100, 1, 0x99));
	session_writer_put(&other, 1, reading(4500, READING_AFTER, WEIGHED_CONTEXT, 820));
	session_writer_put(&other, 1, session_writer_alloc(5000, 10, 1, 0x200000000, 30 * MIB,
							   BLOCK_VMM));
	session_writer_put(&other, 1, reading(9500, READING_EXIT, WEIGHED_NOTHING, 850));
	fixture_collect();
	ck_assert_int_eq(of_reading(4500, "growth_bytes"), 300 * MIB);
	ck_assert_int_eq(of_reading(4500, "recorded_bytes"), 20 * MIB);
	ck_assert_int_eq(of_reading(9000, "recorded_bytes"), 330 * MIB);
	ck_assert_int_eq(of_reading(9000, "held_bytes"), 20 * MIB);
	ck_assert_int_eq(unexplained(9000), 0);
	ck_assert_int_eq(unexplained(9500), 0);
	/* The other one has ended. */
	ck_assert_int_eq(of_reading(9900, "recorded_bytes"), 0);
	ck_assert_int_eq(unexplained(9900), 0);
}
END_TEST

START_TEST(calls_are_not_counted_and_nonsense_is_lost)
{
	struct record nonsense = reading(3000, READING_QUIET, WEIGHED_NOTHING, 500);

	put_context();
	nonsense.a = TOTAL + 1;
	put(nonsense);
	put(reading(4000, READING_QUIET, WEIGHED_NOTHING, 500));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM reading"), 2);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM api_call"), 0);
	ck_assert_int_eq(fixture_ask("SELECT sum(count) FROM gap"), 1);
}
END_TEST

START_TEST(rows_are_bounded_and_even_over_time)
{
	enum { QUIET = 20000, STEP = 1000, TOP = 7777 };

	put_context();
	for (uint64_t i = 0; i < QUIET; i++)
		put(reading(10000 + i * STEP, READING_QUIET, WEIGHED_NOTHING,
			    i == TOP ? 900 : 500));
	put(reading(10000 + (uint64_t)QUIET * STEP, READING_OOM, WEIGHED_NOTHING, 500));
	put(reading(10500 + (uint64_t)QUIET * STEP, READING_QUIET, WEIGHED_NOTHING, 500));
	fixture_collect();
	ck_assert_int_ge(fixture_ask("SELECT count(*) FROM reading"), INGEST_READING_SPACED / 2);
	ck_assert_int_le(fixture_ask("SELECT count(*) FROM reading"), INGEST_READING_SPACED + 5);
	ck_assert_int_eq(of_reading(10000 + TOP * STEP, "total_bytes - free_bytes"), 900 * MIB);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM reading WHERE moment = 'oom'"), 1);
	ck_assert_int_eq(fixture_ask("SELECT max(at_ns) FROM reading"), 10500 + QUIET * STEP);
	ck_assert_int_eq(fixture_ask("SELECT min(at_ns) FROM reading"), 2500);
	/* No hole is larger than a hundredth of the time. */
	ck_assert_int_le(fixture_ask("SELECT max(gap) FROM (SELECT at_ns - lag(at_ns) OVER "
				     "(ORDER BY at_ns) AS gap FROM reading WHERE at_ns > 2500)"),
			 QUIET * STEP / 100);
}
END_TEST

START_TEST(program_that_asks_without_end_fills_no_file)
{
	enum { QUESTIONS = 30000 };

	put_context();
	for (uint64_t i = 0; i < QUESTIONS; i++)
		put(reading(10000 + i * 100, READING_ASKED, WEIGHED_NOTHING, 500));
	put(reading(10000 + QUESTIONS * 100, READING_OOM, WEIGHED_NOTHING, 500));
	fixture_collect();
	ck_assert_int_le(fixture_ask("SELECT count(*) FROM reading"),
			 INGEST_READING_MOST + INGEST_READING_SPACED + 5);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM reading WHERE moment = 'oom'"), 1);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM reading WHERE held_bytes IS NULL"), 0);
}
END_TEST

START_TEST(pairs_without_growth_are_thinned_and_those_with_it_stay)
{
	enum { PAIRS = 9000 };
	uint64_t used = 500;

	put_context();
	for (uint64_t i = 0; i < PAIRS; i++) {
		put(reading(10000 + i * 1000, READING_BEFORE, WEIGHED_CODE, used));
		if (i % 90 == 0)
			used += 2;
		put(reading(10500 + i * 1000, READING_AFTER, WEIGHED_CODE, used));
	}
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM reading WHERE growth_bytes > 0"), 100);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM reading r WHERE growth_bytes > 0 AND "
				     "EXISTS (SELECT 1 FROM reading b WHERE b.moment = 'before' "
				     "AND b.at_ns = r.at_ns - 500)"), 100);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM overhead WHERE kind = 'code'"), 200 * MIB);
	ck_assert_int_le(fixture_ask("SELECT count(*) FROM reading"),
			 INGEST_READING_SPACED + 210);
}
END_TEST

/*
 * 4000 pairs with growth have rows.  Of what grows behind them there are sums, which
 * stand the same where all is made again: two processes have used the device before
 * they said which one that is.
 */
START_TEST(growth_beyond_the_rows_is_not_forgotten)
{
	enum { PAIRS = INGEST_READING_MOST + 3000, LAST = 1000, END = 10000 + PAIRS * 1000 };
	struct session_writer second;
	uint64_t used = 500;

	put(session_writer_alloc(900, 10, 1, 0x100000000, 64, BLOCK_DEVICE));
	put(session_writer_free(950, 10, 1));
	session_writer_put_text(&fixture_writer, 1, device(1000), "GPU");
	put_context();
	for (uint64_t i = 0; i < PAIRS; i++) {
		put(reading(10000 + i * 1000, READING_BEFORE, WEIGHED_STREAM, used));
		/* It comes and goes, and in the end it stays. */
		used = i >= PAIRS - LAST ? used + 2 : i % 2 ? used - 2 : used + 2;
		put(reading(10500 + i * 1000, READING_AFTER, WEIGHED_STREAM, used));
	}
	put(reading(END, READING_EXIT, WEIGHED_NOTHING, used));
	if (_i) {
		session_writer_open(&second, fixture_session, FIXTURE_GONE - 1, 1);
		session_writer_put(&second, 1, session_writer_alloc(3000, 10, 1, 0x200000000, 64,
								    BLOCK_DEVICE));
		session_writer_put_text(&second, 1, device(3100), "GPU");
	}
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM overhead WHERE kind = 'stream'"),
			 2 * LAST * MIB);
	ck_assert_int_eq(fixture_ask("SELECT count FROM overhead WHERE kind = 'stream'"), PAIRS);
	ck_assert_int_eq(of_reading(END, "driver_bytes"), 2 * LAST * MIB);
	ck_assert_int_eq(fixture_ask("SELECT sum(calls) FROM overhead_step"),
			 PAIRS - INGEST_READING_MOST);
	ck_assert_int_le(fixture_ask("SELECT count(*) FROM overhead_step"), INGEST_GROWTH_STEPS);
	/* What is in between is late by a step at most. */
	ck_assert_int_le(fixture_ask("SELECT max(abs(total_bytes - free_bytes - held_bytes - "
				     "driver_bytes - foreign_bytes - coalesce(context_bytes, 0))) "
				     "FROM reading"),
			 2 * LAST * MIB / 32);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("collect_reading");
	TCase *sums = tcase_create("sums"), *rows = tcase_create("rows");

	tcase_add_checked_fixture(sums, fixture_make_session, fixture_remove_session);
	tcase_add_checked_fixture(rows, fixture_make_session, fixture_remove_session);
	tcase_set_timeout(rows, 60);
	tcase_add_test(sums, sums_are_those_of_the_moment);
	tcase_add_test(sums, blocks_share_the_pages_at_their_ends);
	tcase_add_test(sums, small_arrays_share_pages_that_have_no_address);
	tcase_add_test(sums, what_is_reserved_elsewhere_is_held_by_no_block);
	tcase_add_test(sums, blocks_that_outlive_their_pool_are_added_to_what_is_cached);
	tcase_add_test(sums, pairs_tell_what_a_call_made_the_driver_keep);
	tcase_add_test(sums, block_that_is_being_made_is_no_code);
	tcase_add_test(sums, managed_memory_that_comes_is_no_code);
	tcase_add_test(sums, managed_memory_takes_nothing_from_graphs_and_streams);
	tcase_add_test(sums, what_managed_memory_leaves_behind_is_the_drivers);
	tcase_add_test(sums, pairs_belong_to_their_threads);
	tcase_add_test(sums, contexts_take_with_them_what_was_kept_for_them);
	tcase_add_test(sums, processes_of_one_device_know_of_each_other);
	tcase_add_test(rows, calls_are_not_counted_and_nonsense_is_lost);
	tcase_add_test(rows, rows_are_bounded_and_even_over_time);
	tcase_add_test(rows, program_that_asks_without_end_fills_no_file);
	tcase_add_test(rows, pairs_without_growth_are_thinned_and_those_with_it_stay);
	tcase_add_loop_test(rows, growth_beyond_the_rows_is_not_forgotten, 0, 2);
	suite_add_tcase(suite, sums);
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
