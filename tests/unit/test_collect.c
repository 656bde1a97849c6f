/* SPDX-License-Identifier: Apache-2.0 */
#include "collect_fixture.h"

#include "core/api_names.h"
#include "report/collect.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(block_has_the_times_of_both_its_calls)
{
	fixture_put(1, session_writer_alloc(2000, 100, 7, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_free(5000, 50, 7));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM allocation"), 1);
	ck_assert_int_eq(fixture_ask("SELECT alloc_ns FROM allocation"), 2000);
	ck_assert_int_eq(fixture_ask("SELECT alloc_duration_ns FROM allocation"), 100);
	ck_assert_int_eq(fixture_ask("SELECT free_requested_ns FROM allocation"), 5000);
	ck_assert_int_eq(fixture_ask("SELECT released_ns FROM allocation"), 5050);
	ck_assert_str_eq(fixture_ask_text("SELECT release_cause FROM allocation"), "freed");
	ck_assert_int_eq(
		fixture_ask("SELECT complete.value FROM meta complete WHERE key = 'complete'"), 1);
}
END_TEST

START_TEST(what_is_live_at_the_end_is_a_leak)
{
	fixture_put(1, session_writer_alloc(2000, 100, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_alloc(3000, 100, 2, 0x9000, 100, BLOCK_PINNED));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM leak"), 2);
	ck_assert_int_eq(fixture_ask("SELECT sum(bytes) FROM leak"), 4196);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM allocation WHERE release_cause IS NULL"),
			 2);
}
END_TEST

START_TEST(copy_belongs_to_the_blocks_it_touches)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_alloc(2100, 10, 2, 0x20000, 4096, BLOCK_PINNED));
	fixture_put(1, session_writer_copy(3000, 10, TRANSFER_H2D, 0x20100, 0x7800, 64));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT source_allocation_id FROM transfer"), 2);
	ck_assert_int_eq(fixture_ask("SELECT target_allocation_id FROM transfer"), 1);
	ck_assert_str_eq(fixture_ask_text("SELECT source_kind FROM transfer"), "pinned");
	ck_assert_str_eq(fixture_ask_text("SELECT target_kind FROM transfer"), "device");
	ck_assert_int_eq(fixture_ask("SELECT target_device_id FROM transfer"), 1);
	ck_assert_int_eq(fixture_ask("SELECT source_device_id FROM transfer"), INT64_MIN);
}
END_TEST

START_TEST(host_memory_that_no_block_covers_is_pageable)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_copy(3000, 10, TRANSFER_D2H, 0x7000, 0x555000, 64));
	fixture_collect();
	ck_assert_str_eq(fixture_ask_text("SELECT target_kind FROM transfer"), "pageable");
	ck_assert_int_eq(fixture_ask("SELECT target_allocation_id FROM transfer"), INT64_MIN);
}
END_TEST

START_TEST(copy_goes_to_the_block_that_was_live_when_it_began)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_free(4000, 10, 1));
	fixture_put(1, session_writer_alloc(5000, 10, 2, 0x7000, 4096, BLOCK_DEVICE));
	/* Two copies of other threads: one blocked over all of that, one came after it. */
	fixture_put(2, session_writer_copy(3000, 9000, TRANSFER_H2D, 0x100, 0x7000, 1));
	fixture_put(3, session_writer_copy(6000, 10, TRANSFER_H2D, 0x100, 0x7000, 2));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT target_allocation_id FROM transfer WHERE bytes = 1"),
			 1);
	ck_assert_int_eq(fixture_ask("SELECT target_allocation_id FROM transfer WHERE bytes = 2"),
			 2);
}
END_TEST

START_TEST(direction_nobody_stated_comes_from_the_blocks)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_alloc(2100, 10, 2, 0x20000, 4096, BLOCK_PINNED));
	fixture_put(1, session_writer_copy(3000, 10, TRANSFER_UNKNOWN, 0x7000, 0x20000, 64));
	fixture_collect();
	ck_assert_str_eq(fixture_ask_text("SELECT kind FROM transfer"), "D2H");
}
END_TEST

START_TEST(memset_has_no_source)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_copy(3000, 10, TRANSFER_MEMSET, 0x7000, 0x7000, 64));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM transfer WHERE source_address IS NULL "
				     "AND source_kind IS NULL AND source_allocation_id IS NULL"),
			 1);
	ck_assert_int_eq(fixture_ask("SELECT target_allocation_id FROM transfer"), 1);
}
END_TEST

START_TEST(threads_are_merged_by_time)
{
	fixture_put(1, session_writer_copy(3000, 1, TRANSFER_H2D, 1, 2, 30));
	fixture_put(1, session_writer_copy(5000, 1, TRANSFER_H2D, 1, 2, 50));
	fixture_put(2, session_writer_copy(2000, 1, TRANSFER_H2D, 1, 2, 20));
	fixture_put(2, session_writer_copy(4000, 1, TRANSFER_H2D, 1, 2, 40));
	fixture_put(3, session_writer_copy(4500, 1, TRANSFER_H2D, 1, 2, 45));
	fixture_collect();
	ck_assert_str_eq(fixture_ask_text("SELECT group_concat(bytes) FROM transfer_row"),
			 "20,30,40,45,50");
}
END_TEST

START_TEST(peak_is_exact_and_names_its_blocks)
{
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x10000, 1000, BLOCK_DEVICE));
	fixture_put(1, session_writer_alloc(3000, 10, 2, 0x20000, 500, BLOCK_POOL));
	fixture_put(1, session_writer_free(4000, 10, 1));
	fixture_put(1, session_writer_alloc(5000, 10, 3, 0x30000, 700, BLOCK_MANAGED));
	fixture_put(1, session_writer_alloc(5500, 10, 4, 0x40000, 9999, BLOCK_PINNED));
	fixture_put(1, session_writer_free(6000, 10, 2));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM peak WHERE process_id IS NULL"), 1500);
	ck_assert_int_eq(fixture_ask("SELECT at_ns FROM peak WHERE process_id IS NULL"), 3010);
	ck_assert_int_eq(
		fixture_ask("SELECT sum(bytes) FROM live_at_peak WHERE peak_process_id IS NULL"),
		1500);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM live_at_peak WHERE peak_process_id = 1 "
				     "AND peak_device_id = 1"),
			 2);
	ck_assert_int_eq(fixture_ask("SELECT max(live_bytes) FROM sample WHERE kind = 'pinned'"),
			 9999);
	ck_assert_int_eq(fixture_ask("SELECT max(live_bytes) FROM sample WHERE kind = 'device'"),
			 1000);
}
END_TEST

START_TEST(peak_counts_a_release_that_overlaps_an_allocation_once)
{
	/* The free of thread 2 ends before the allocation of thread 1 does. */
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x10000, 1000, BLOCK_DEVICE));
	fixture_put(1, session_writer_alloc(3000, 1000, 2, 0x20000, 800, BLOCK_DEVICE));
	fixture_put(2, session_writer_free(3100, 100, 1));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM peak WHERE process_id IS NULL"), 1000);
}
END_TEST

START_TEST(address_given_away_before_its_free_returned_counts_once)
{
	/* The free ends at 9000, but another thread has the address from 5010 on. */
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x10000, 1000, BLOCK_DEVICE));
	fixture_put(1, session_writer_free(4000, 5000, 1));
	fixture_put(2, session_writer_alloc(5000, 10, 2, 0x10000, 1000, BLOCK_DEVICE));
	/* And one whose free was lost. */
	fixture_put(2, session_writer_alloc(20000, 10, 3, 0x10000, 900, BLOCK_DEVICE));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT released_ns FROM allocation WHERE number = 1"), 5010);
	ck_assert_int_eq(fixture_ask("SELECT released_ns FROM allocation WHERE number = 2"), 20010);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM peak WHERE process_id IS NULL"), 1000);
	ck_assert_int_eq(
		fixture_ask("SELECT sum(bytes) FROM live_at_peak WHERE peak_process_id IS NULL"),
		1000);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM leak"), 1);
}
END_TEST

START_TEST(view_counts_with_its_parent_only)
{
	struct record handle = session_writer_alloc(2000, 10, 1, 0xaa, 4096, BLOCK_VMM);
	struct record view = session_writer_alloc(2100, 10, 2, 0x7000, 4096, BLOCK_VMM);

	view.flags = RECORD_VIEW;
	view.stream = 1;
	fixture_put(1, handle);
	fixture_put(1, view);
	fixture_put(1, session_writer_copy(3000, 10, TRANSFER_H2D, 0x100, 0x7010, 64));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM peak WHERE process_id IS NULL"), 4096);
	ck_assert_int_eq(fixture_ask("SELECT parent_id FROM allocation WHERE number = 2"), 1);
	ck_assert_int_eq(fixture_ask("SELECT footprint_bytes FROM allocation WHERE number = 2"), 0);
	ck_assert_int_eq(fixture_ask("SELECT target_allocation_id FROM transfer"), 2);
}
END_TEST

/* A handle may have the value of an address; host memory belongs to no device. */
START_TEST(handle_in_host_memory_is_host_memory_and_no_address)
{
	struct record handle = session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_PINNED);
	struct record view = session_writer_alloc(2100, 10, 2, 0x20000, 4096, BLOCK_PINNED);

	handle.api = fixture_api_of("cuMemCreate");
	view.api = fixture_api_of("cuMemMap");
	view.flags = RECORD_VIEW;
	view.stream = 1;
	fixture_put(1, session_writer_alloc(1900, 10, 3, 0x7000, 64, BLOCK_DEVICE));
	fixture_put(1, handle);
	fixture_put(1, view);
	fixture_put(1, session_writer_copy(3000, 10, TRANSFER_UNKNOWN, 0x20010, 0x7010, 32));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM peak WHERE process_id IS NULL"), 64);
	ck_assert_int_eq(fixture_ask("SELECT max(live_bytes) FROM sample WHERE kind = 'pinned'"),
			 4096);
	ck_assert_int_eq(fixture_ask("SELECT target_allocation_id FROM transfer"), 1);
	ck_assert_str_eq(fixture_ask_text("SELECT kind FROM transfer"), "H2D");
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM leak"), 2);
}
END_TEST

START_TEST(context_that_dies_closes_its_blocks_but_not_pool_memory)
{
	struct record context = {
		.kind = RECORD_CONTEXT, .start = 1500, .a = 0xc0, .c = 1, .aux = 1
	};
	struct record device = session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE);
	struct record pool = session_writer_alloc(2100, 10, 2, 0x9000, 4096, BLOCK_POOL);
	struct record end = { .kind = RECORD_CONTEXT_END, .start = 4000, .duration = 10,
			      .a = 0xc0, .aux = RELEASE_RESET };

	context.caller_context = device.caller_context = pool.caller_context =
		end.caller_context = UINT64_C(1) << RECORD_CALLER_BITS;
	fixture_put(1, context);
	fixture_put(1, device);
	fixture_put(1, pool);
	fixture_put(1, end);
	fixture_collect();
	ck_assert_str_eq(fixture_ask_text("SELECT release_cause FROM allocation WHERE number = 1"),
			 "reset");
	ck_assert_int_eq(fixture_ask("SELECT released_ns FROM allocation WHERE number = 1"), 4010);
	ck_assert_int_eq(fixture_ask("SELECT released_ns FROM allocation WHERE number = 2"),
			 INT64_MIN);
	ck_assert_int_eq(fixture_ask("SELECT is_primary FROM context"), 1);
	ck_assert_str_eq(fixture_ask_text("SELECT end_cause FROM context"), "reset");
}
END_TEST

/* Memory under a green context is not its own. */
START_TEST(green_context_that_ends_takes_its_streams_with_it)
{
	struct record context = { .kind = RECORD_CONTEXT, .start = 1000, .a = 0xc0,
				  .c = CONTEXT_IS_GREEN, .aux = 1 };
	struct record block = session_writer_alloc(2000, 10, 1, 0x1000, 100, BLOCK_DEVICE);
	struct record stream = { .kind = RECORD_OPERATION, .start = 3000, .a = 0x5000,
				 .api = fixture_api_of("cuGreenCtxStreamCreate") };
	struct record end = { .kind = RECORD_CONTEXT_END, .start = 4000, .a = 0xc0,
			      .aux = RELEASE_CONTEXT };

	context.caller_context = block.caller_context = stream.caller_context =
		end.caller_context = UINT64_C(1) << RECORD_CALLER_BITS;
	fixture_put(1, context);
	fixture_put(1, block);
	fixture_put(1, stream);
	fixture_put(1, end);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT destroyed_ns FROM context"), 4000);
	ck_assert_int_eq(fixture_ask("SELECT is_primary FROM context"), 0);
	ck_assert_int_eq(fixture_ask("SELECT released_ns FROM allocation"), INT64_MIN);
	ck_assert_int_eq(fixture_ask("SELECT destroyed_ns FROM stream"), 4000);
}
END_TEST

START_TEST(stream_handle_that_is_reused_names_another_stream)
{
	uint16_t create = fixture_api_of("cuStreamCreate"),
		 destroy = fixture_api_of("cuStreamDestroy_v2");
	struct record record = { .kind = RECORD_OPERATION, .duration = 1, .a = 0x5000 };
	struct record copy = session_writer_copy(0, 1, TRANSFER_H2D, 1, 2, 3);

	copy.stream = 0x5000;
	for (int i = 0; i < 2; i++) {
		record.api = create;
		record.start = copy.start = 2000 + 1000 * (uint64_t)i;
		fixture_put(1, record);
		copy.start += 100;
		fixture_put(1, copy);
		record.api = destroy;
		record.start += 200;
		fixture_put(1, record);
	}
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM stream"), 2);
	ck_assert_int_eq(fixture_ask("SELECT count(DISTINCT stream_id) FROM transfer"), 2);
	ck_assert_int_eq(fixture_ask("SELECT created_ns FROM stream WHERE id = 2"), 3001);
	ck_assert_int_eq(fixture_ask("SELECT destroyed_ns FROM stream WHERE id = 1"), 2201);
}
END_TEST

START_TEST(event_of_another_process_is_an_event)
{
	struct record record = { .kind = RECORD_OPERATION, .start = 2000, .duration = 5,
				 .a = 0xe0, .api = fixture_api_of("cuIpcOpenEventHandle") };

	fixture_put(1, record);
	record.start = 3000;
	record.api = fixture_api_of("cuEventDestroy_v2");
	fixture_put(1, record);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM event"), 1);
	ck_assert_int_eq(fixture_ask("SELECT created_ns FROM event"), 2005);
	ck_assert_int_eq(fixture_ask("SELECT destroyed_ns FROM event"), 3005);
}
END_TEST

/* A handle is no address: the record names the block by its number. */
START_TEST(exported_handle_marks_its_block)
{
	struct record create = session_writer_alloc(2000, 10, 7, 0x33, 2 << 20, BLOCK_VMM);
	struct record export = { .kind = RECORD_OPERATION, .start = 3000, .a = 0x33, .b = 7,
				 .flags = RECORD_EXPORTED,
				 .api = fixture_api_of("cuMemExportToShareableHandle") };

	fixture_put(1, create);
	fixture_put(1, export);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT is_exported FROM allocation"), 1);
}
END_TEST

START_TEST(per_thread_default_stream_is_one_for_each_thread)
{
	struct record copy = session_writer_copy(2000, 1, TRANSFER_H2D, 1, 2, 3);

	copy.stream = STREAM_PER_THREAD;
	fixture_put(1, copy);
	fixture_put(2, copy);
	copy.stream = STREAM_LEGACY;
	fixture_put(1, copy);
	fixture_put(2, copy);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM stream WHERE handle = 2"), 2);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM stream WHERE handle = 1"), 1);
}
END_TEST

START_TEST(failed_call_is_a_failure_and_no_block)
{
	struct record alloc = session_writer_alloc(2000, 10, 1, 0, UINT64_C(1) << 40, BLOCK_DEVICE);
	struct record wait = { .kind = RECORD_QUERY, .start = 3000, .result = 600 };

	alloc.result = 2;
	alloc.api = fixture_api_of("cuMemAlloc_v2");
	fixture_put(1, alloc);
	fixture_put(1, wait);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM allocation"), 0);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM failure"), 1);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM failure"), INT64_C(1) << 40);
	ck_assert_str_eq(
		fixture_ask_text("SELECT a.name FROM failure f JOIN api a ON a.id = f.api_id"),
		"cuMemAlloc_v2");
	ck_assert_int_eq(fixture_ask("SELECT errors FROM api_call"), 1);
}
END_TEST

START_TEST(calls_are_summed_by_function_and_thread)
{
	struct record copy = session_writer_copy(2000, 30, TRANSFER_H2D, 1, 2, 3);
	struct record more = copy;

	copy.api = more.api = fixture_api_of("cuMemcpyHtoD_v2");
	more.flags = RECORD_MORE;
	fixture_put(1, copy);
	copy.start = 3000;
	copy.duration = 50;
	fixture_put(1, copy);
	fixture_put(1, more);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT calls FROM api_call"), 2);
	ck_assert_int_eq(fixture_ask("SELECT total_ns FROM api_call"), 80);
	ck_assert_int_eq(fixture_ask("SELECT max_ns FROM api_call"), 50);
	ck_assert_int_eq(fixture_ask("SELECT sum(count) FROM transfer_total"), 3);
	ck_assert_int_eq(fixture_ask("SELECT sum(bytes) FROM transfer_total"), 9);
}
END_TEST

START_TEST(counters_of_a_thread_that_was_killed_are_read)
{
	uint16_t api = fixture_api_of("cuCtxGetCurrent");
	struct counter_block *block = session_writer_counters(&fixture_writer, 1);
	struct record told = { .kind = RECORD_COUNTER, .start = 2000, .api = api, .a = 10, .b = 1 };

	ck_assert_int_ge(api_names[api].slot, 0);
	atomic_store(&block->counter[api_names[api].slot].calls, 32);
	atomic_store(&block->lost, 5);
	atomic_store(&block->lost_from, 2500);
	fixture_put(1, told);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT calls FROM api_call"), 42);
	ck_assert_int_eq(fixture_ask("SELECT errors FROM api_call"), 1);
	ck_assert_int_eq(fixture_ask("SELECT total_ns FROM api_call"), INT64_MIN);
	ck_assert_int_eq(fixture_ask("SELECT count FROM gap"), 5);
	ck_assert_int_eq(fixture_ask("SELECT lost_records FROM process"), 5);
}
END_TEST

START_TEST(texts_name_devices_modules_threads_and_gaps)
{
	struct record device = { .kind = RECORD_DEVICE, .start = 2000, .a = 0x0706050403020100,
				 .b = 0x0f0e0d0c0b0a0908, .c = 1 << 30, .aux = 1 };
	struct record module = { .kind = RECORD_MODULE, .start = 2001, .a = 0x400000, .b = 8192 };
	struct record thread = { .kind = RECORD_THREAD, .start = 2002 };
	struct record uncovered = { .kind = RECORD_UNCOVERED, .start = 2003, .b = 13000, .c = 2 };
	struct record gap = { .kind = RECORD_GAP, .start = 2004, .a = 9, .b = 1500, .c = 1600 };

	session_writer_put_text(&fixture_writer, 1, device, "Synthetic H200");
	session_writer_put_text(&fixture_writer, 1, module,
				"/usr/lib/a-rather-long-directory/with/a/path/"
				"that/needs/two/slots/libx.so");
	session_writer_put_text(&fixture_writer, 1, thread, "loader");
	session_writer_put_text(&fixture_writer, 1, uncovered, "cuFromTheFuture");
	fixture_put(1, gap);
	fixture_collect();
	ck_assert_str_eq(fixture_ask_text("SELECT name FROM device"), "Synthetic H200");
	ck_assert_str_eq(fixture_ask_text("SELECT uuid FROM device"),
			 "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
	ck_assert_int_eq(fixture_ask("SELECT size FROM module WHERE path LIKE '%/libx.so'"), 8192);
	ck_assert_str_eq(fixture_ask_text("SELECT name FROM thread"), "loader");
	ck_assert_int_eq(
		fixture_ask("SELECT version FROM uncovered WHERE name = 'cuFromTheFuture'"), 13000);
	ck_assert_int_eq(fixture_ask("SELECT from_ns FROM gap"), 1500);
	ck_assert_int_eq(fixture_ask("SELECT lost_records FROM process"), 9);
}
END_TEST

START_TEST(long_calls_have_long_durations)
{
	struct record copy = session_writer_copy(2000, 5, TRANSFER_H2D, 1, 2, 3);

	copy.flags = RECORD_LONG;
	fixture_put(1, copy);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT duration_ns FROM transfer"), 5 * 1024);
}
END_TEST

START_TEST(many_chunks_of_many_threads_arrive_whole)
{
	enum { THREADS = 40, EACH = 3000 };

	for (uint64_t i = 0; i < EACH; i++)
		for (uint32_t thread = 1; thread <= THREADS; thread++)
			fixture_put(thread, session_writer_copy(2000 + i * 100 + thread, 10,
								TRANSFER_H2D, 1, 2, 1));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM transfer"), THREADS * EACH);
	ck_assert_int_eq(fixture_ask("SELECT count(DISTINCT thread_id) FROM transfer"), THREADS);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM transfer_row a JOIN transfer_row b "
				     "ON b.id = a.id + 1 WHERE b.start_ns < a.start_ns"),
			 0);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM ingest"), 0);
	ck_assert_int_ne(access(fixture_session, F_OK), 0);
}
END_TEST

START_TEST(trace_that_is_complete_already_is_not_read_into_again)
{
	char copy[4 * PATH_MAX];

	fixture_put(1, session_writer_alloc(2000, 100, 7, 0x7000, 4096, BLOCK_DEVICE));
	snprintf(copy, sizeof(copy), "cp -r %s %s.copy && echo trace=%s >>%s.copy/session",
		 fixture_session, fixture_session, fixture_trace, fixture_session);
	ck_assert_int_eq(system(copy), 0);
	fixture_collect();
	sqlite3_close(fixture_db);
	strcat(fixture_session, ".copy");
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM allocation"), 1);
	ck_assert_int_ne(access(fixture_session, F_OK), 0);
}
END_TEST

START_TEST(processes_share_one_trace)
{
	struct session_writer child;

	session_writer_open(&child, fixture_session, FIXTURE_GONE + 1, 1);
	snprintf(child.control->parent, CONTROL_TEXT_BYTES, "%d-0", FIXTURE_GONE);
	session_writer_put(&child, 1, session_writer_alloc(2500, 10, 1, 0x7000, 300, BLOCK_DEVICE));
	fixture_put(1, session_writer_alloc(2000, 10, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_copy(3000, 10, TRANSFER_H2D, 1, 0x7000, 8));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM process"), 2);
	ck_assert_int_eq(fixture_ask("SELECT parent_id FROM process WHERE exec_serial = 1"), 1);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM allocation"), 2);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM peak WHERE process_id IS NULL"), 4396);
	session_writer_close(&child);
}
END_TEST

/* Damage.  Every one of these may come from a full disk, a crash, or bad will. */

START_TEST(records_that_say_nonsense_do_no_harm)
{
	struct record record;

	for (unsigned int kind = 0; kind < 256; kind++) {
		memset(&record, 0xff, sizeof(record));
		record.kind = (uint8_t)kind;
		fixture_put(1, record);
		memset(&record, 0x55, sizeof(record));
		record.kind = (uint8_t)kind;
		record.result = 0;
		fixture_put(1, record);
	}
	fixture_put(2, session_writer_alloc(2000, 100, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM allocation WHERE bytes = 4096"), 1);
}
END_TEST

/* Sums over all rows must stay numbers, whatever one record says. */
START_TEST(size_that_cannot_be_counts_as_lost)
{
	struct record refused = session_writer_alloc(2600, 100, 3, 0x9000, UINT64_MAX, BLOCK_POOL);
	struct counter_block *counters = session_writer_counters(&fixture_writer, 1);
	uint16_t query = fixture_api_of("cuCtxGetCurrent");

	refused.api = fixture_api_of("cuMemAllocAsync");
	refused.result = 2;
	fixture_put(1, session_writer_alloc(2000, 100, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_put(1, session_writer_alloc(2200, 100, 2, 0x8000, UINT64_C(1) << 63, BLOCK_DEVICE));
	fixture_put(1, session_writer_copy(2400, 100, TRANSFER_H2D, 1, 0x7000, UINT64_C(1) << 62));
	fixture_put(1, session_writer_copy(2500, 100, TRANSFER_H2D, 1, 0x7000, 64));
	fixture_put(1, refused);
	atomic_store(&counters->counter[api_names[query].slot].calls, UINT64_MAX);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT sum(bytes) FROM allocation"), 4096);
	ck_assert_int_eq(fixture_ask("SELECT sum(bytes) FROM transfer"), 64);
	ck_assert_int_eq(fixture_ask("SELECT sum(calls) FROM api_call"), 3);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM peak WHERE process_id IS NULL"), 4096);
	ck_assert_int_eq(fixture_ask("SELECT sum(count) FROM gap"), 3);
	ck_assert_int_eq(fixture_ask("SELECT lost_records FROM process"), 3);
	ck_assert_int_eq(fixture_ask("SELECT bytes FROM failure"), INT64_C(1) << 50);
}
END_TEST

START_TEST(count_of_written_records_is_bounded)
{
	fixture_put(1, session_writer_alloc(2000, 100, 1, 0x7000, 4096, BLOCK_DEVICE));
	atomic_store(&fixture_writer.chunk[1]->header.written, 4000000000u);
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM allocation WHERE bytes = 4096"), 1);
}
END_TEST

START_TEST(segment_that_is_cut_short_costs_its_own_records_only)
{
	char path[PATH_MAX + 16];

	for (uint64_t i = 0; i < CHUNK_RECORDS * SEGMENT_CHUNKS + 10; i++)
		fixture_put(1, session_writer_copy(2000 + i, 1, TRANSFER_H2D, 1, 2, 3));
	snprintf(path, sizeof(path), "%s/segment.0", fixture_writer.directory);
	ck_assert_int_eq(truncate(path, 5000), 0);
	fixture_writer.segment[0] = NULL;
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM transfer"), 10);
}
END_TEST

/* The chunks between were read into another trace, given back and taken again. */
START_TEST(hole_in_the_numbers_of_chunks_is_told)
{
	fixture_put(1, session_writer_alloc(2000, 100, 1, 0x7000, 4096, BLOCK_DEVICE));
	fixture_writer.sequence += 7;
	fixture_put(2, session_writer_copy(3000, 1, TRANSFER_H2D, 1, 0x7000, 3));
	fixture_collect();
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM allocation"), 1);
	ck_assert_int_eq(fixture_ask("SELECT count(*) FROM transfer"), 1);
	ck_assert_int_eq(fixture_ask("SELECT count FROM gap"), 1);
}
END_TEST

START_TEST(text_that_claims_too_much_is_cut)
{
	struct record record = { .kind = RECORD_MODULE, .start = 2000 };

	session_writer_put_text(&fixture_writer, 1, record, "/lib/x");
	fixture_writer.chunk[1]->record[0].text_slots = UINT32_MAX;
	fixture_collect();
	ck_assert_str_eq(fixture_ask_text("SELECT path FROM module"), "/lib/x");
}
END_TEST

static int settle_status(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		free(collect_settle(fixture_session));
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(control_page_of_another_layout_is_refused)
{
	fixture_writer.control->layout = TRACE_LAYOUT + 1;
	ck_assert_int_eq(settle_status(), 1);
}
END_TEST

START_TEST(control_page_that_is_cut_short_is_refused)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/control", fixture_writer.directory);
	ck_assert_int_eq(truncate(path, 100), 0);
	ck_assert_int_eq(settle_status(), 1);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("collect");
	TCase *rows = tcase_create("rows"), *damage = tcase_create("damage");

	tcase_add_checked_fixture(rows, fixture_make_session, fixture_remove_session);
	tcase_add_checked_fixture(damage, fixture_make_session, fixture_remove_session);
	tcase_set_timeout(rows, 60);
	tcase_add_test(rows, block_has_the_times_of_both_its_calls);
	tcase_add_test(rows, what_is_live_at_the_end_is_a_leak);
	tcase_add_test(rows, copy_belongs_to_the_blocks_it_touches);
	tcase_add_test(rows, host_memory_that_no_block_covers_is_pageable);
	tcase_add_test(rows, copy_goes_to_the_block_that_was_live_when_it_began);
	tcase_add_test(rows, direction_nobody_stated_comes_from_the_blocks);
	tcase_add_test(rows, memset_has_no_source);
	tcase_add_test(rows, threads_are_merged_by_time);
	tcase_add_test(rows, peak_is_exact_and_names_its_blocks);
	tcase_add_test(rows, peak_counts_a_release_that_overlaps_an_allocation_once);
	tcase_add_test(rows, address_given_away_before_its_free_returned_counts_once);
	tcase_add_test(rows, view_counts_with_its_parent_only);
	tcase_add_test(rows, handle_in_host_memory_is_host_memory_and_no_address);
	tcase_add_test(rows, context_that_dies_closes_its_blocks_but_not_pool_memory);
	tcase_add_test(rows, green_context_that_ends_takes_its_streams_with_it);
	tcase_add_test(rows, stream_handle_that_is_reused_names_another_stream);
	tcase_add_test(rows, event_of_another_process_is_an_event);
	tcase_add_test(rows, exported_handle_marks_its_block);
	tcase_add_test(rows, per_thread_default_stream_is_one_for_each_thread);
	tcase_add_test(rows, failed_call_is_a_failure_and_no_block);
	tcase_add_test(rows, calls_are_summed_by_function_and_thread);
	tcase_add_test(rows, counters_of_a_thread_that_was_killed_are_read);
	tcase_add_test(rows, texts_name_devices_modules_threads_and_gaps);
	tcase_add_test(rows, long_calls_have_long_durations);
	tcase_add_test(rows, many_chunks_of_many_threads_arrive_whole);
	tcase_add_test(rows, trace_that_is_complete_already_is_not_read_into_again);
	tcase_add_test(rows, processes_share_one_trace);
	tcase_add_test(damage, records_that_say_nonsense_do_no_harm);
	tcase_add_test(damage, size_that_cannot_be_counts_as_lost);
	tcase_add_test(damage, count_of_written_records_is_bounded);
	tcase_add_test(damage, segment_that_is_cut_short_costs_its_own_records_only);
	tcase_add_test(damage, hole_in_the_numbers_of_chunks_is_told);
	tcase_add_test(damage, text_that_claims_too_much_is_cut);
	tcase_add_test(damage, control_page_of_another_layout_is_refused);
	tcase_add_test(damage, control_page_that_is_cut_short_is_refused);
	suite_add_tcase(suite, rows);
	suite_add_tcase(suite, damage);
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
