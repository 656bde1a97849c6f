/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the collector that can be tried alone. */
#include "report/collect_pace.h"
#include "report/ingest_block.h"
#include "report/ingest_clock.h"
#include "report/ingest_peak.h"
#include "report/ingest_table.h"
#include "report/ingest_total.h"

#include "core/record.h"

#include <check.h>
#include <stdlib.h>

static uint32_t draw(void)
{
	static uint32_t state = 12345;

	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

START_TEST(table_finds_what_was_put_and_not_taken)
{
	struct ingest_table table = { 0 };
	static char there[1000];

	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t key = draw() % 1000;

		if (there[key])
			ck_assert_ptr_eq(ingest_table_take(&table, key * 4096), &there[key]);
		else
			ck_assert_ptr_null(ingest_table_put(&table, key * 4096, &there[key]));
		there[key] ^= 1;
	}
	for (uint64_t key = 0; key < 1000; key++)
		ck_assert_ptr_eq(ingest_table_find(&table, key * 4096),
				 there[key] ? &there[key] : NULL);
	ingest_table_free(&table, NULL);
}
END_TEST

START_TEST(clock_goes_through_its_moments)
{
	static struct ingest_clock clock;

	ck_assert(ingest_clock_add(&clock, 1000000, 5000000));
	ck_assert(ingest_clock_add(&clock, 31000000, 15000000));
	ck_assert(ingest_clock_add(&clock, 61000000, 25050000));
	ck_assert_int_eq(ingest_clock_ns(&clock, 1000000, CLOCK_TICKS_TSC), 5000000);
	ck_assert_int_eq(ingest_clock_ns(&clock, 16000000, CLOCK_TICKS_TSC), 10000000);
	ck_assert_int_eq(ingest_clock_ns(&clock, 61000000, CLOCK_TICKS_TSC), 25050000);
	ck_assert_int_eq(ingest_clock_ns(&clock, 46000000, CLOCK_TICKS_TSC), 20025000);
	ck_assert_int_eq(ingest_clock_ns(&clock, 77, CLOCK_TICKS_MONOTONIC), 77);
}
END_TEST

START_TEST(clock_goes_on_beyond_its_last_moment)
{
	static struct ingest_clock clock;

	ingest_clock_add(&clock, 0, 1000000000);
	ingest_clock_add(&clock, 3000000000, 2000000000);
	ck_assert_int_eq(ingest_clock_ns(&clock, 6000000000, CLOCK_TICKS_TSC), 3000000000);
	ck_assert_int_eq(ingest_clock_span(&clock, 300, CLOCK_TICKS_TSC), 100);
}
END_TEST

START_TEST(clock_refuses_moments_that_do_not_fit)
{
	static struct ingest_clock clock;

	ingest_clock_add(&clock, 1000, 1000000000);
	ck_assert(ingest_clock_add(&clock, 3000001000, 2000000000));
	ck_assert(!ingest_clock_add(&clock, 2000000000, 2500000000));
	ck_assert(!ingest_clock_add(&clock, 4000000000, 2000000001));
	ck_assert(!ingest_clock_add(&clock, 6000000000, UINT64_MAX));
	ck_assert(!ingest_clock_add(&clock, 6000000000, 9000000000));
	ck_assert(ingest_clock_add(&clock, 6000001000, 3000000000));
}
END_TEST

START_TEST(clock_keeps_its_bounds_in_a_long_run)
{
	static struct ingest_clock clock;

	for (uint64_t i = 0; i < 50000; i++)
		ck_assert(ingest_clock_add(&clock, i * 30000000, 1000 + i * 10000000));
	ck_assert_uint_le(clock.count, INGEST_CLOCK_ANCHORS);
	for (uint64_t i = 0; i < 50000; i += 77)
		ck_assert_int_eq(ingest_clock_ns(&clock, i * 30000000, CLOCK_TICKS_TSC),
				 (int64_t)(1000 + i * 10000000));
	/* No question has an answer outside of the numbers there are. */
	ck_assert_int_ge(ingest_clock_ns(&clock, UINT64_MAX, CLOCK_TICKS_TSC), 0);
}
END_TEST

static struct ingest_block *add_block(struct ingest_blocks *blocks, uint64_t number,
				      uint64_t address, uint64_t bytes, int64_t live_ns)
{
	struct ingest_block *block = ingest_block_add(blocks, number);

	block->id = number;
	block->kind = BLOCK_DEVICE;
	block->address = address;
	block->bytes = bytes;
	block->live_ns = live_ns;
	ingest_block_place(blocks, block);
	return block;
}

static void release(struct ingest_blocks *blocks, struct ingest_block *block, int64_t at_ns)
{
	block->released_ns = at_ns;
	ingest_block_retire(blocks, block);
}

START_TEST(address_finds_the_newest_block_live_then)
{
	struct ingest_blocks blocks = { 0 };
	struct ingest_block *first = add_block(&blocks, 1, 0x1000, 0x1000, 10);
	struct ingest_block *range = add_block(&blocks, 2, 0x800, 0x4000, 5);
	struct ingest_block *second;

	ck_assert_ptr_eq(ingest_block_at(&blocks, 0x1800, 20), first);
	ck_assert_ptr_eq(ingest_block_at(&blocks, 0x2000, 20), range);
	ck_assert_ptr_eq(ingest_block_at(&blocks, 0x1800, 7), range);
	ck_assert_ptr_null(ingest_block_at(&blocks, 0x4800, 20));
	release(&blocks, first, 30);
	second = add_block(&blocks, 3, 0x1000, 0x100, 40);
	ck_assert_ptr_eq(ingest_block_at(&blocks, 0x1010, 25), first);
	ck_assert_ptr_eq(ingest_block_at(&blocks, 0x1010, 45), second);
	ck_assert_ptr_eq(ingest_block_at(&blocks, 0x1010, 35), range);
	ck_assert_ptr_null(ingest_block_find(&blocks, 1));
	ck_assert(ingest_block_check(&blocks));
	ingest_block_free_all(&blocks);
}
END_TEST

START_TEST(retired_blocks_are_forgotten_in_time)
{
	struct ingest_blocks blocks = { 0 };

	for (int64_t i = 1; i <= 3 * INGEST_BLOCK_RETIRED_MIN; i++)
		release(&blocks, add_block(&blocks, (uint64_t)i, (uint64_t)i << 12, 4096, i),
			i + 1);
	ingest_block_forget(&blocks, 2 * INGEST_BLOCK_RETIRED_MIN);
	ck_assert_uint_le(blocks.retired, INGEST_BLOCK_RETIRED_MIN + 2);
	ck_assert_uint_ge(blocks.retired, INGEST_BLOCK_RETIRED_MIN);
	ck_assert(ingest_block_check(&blocks));
	ingest_block_free_all(&blocks);
}
END_TEST

START_TEST(long_calls_keep_a_bounded_number_of_retired_blocks)
{
	struct ingest_blocks blocks = { 0 };

	for (int64_t i = 1; i <= INGEST_BLOCK_RETIRED_MAX + 5000; i++)
		release(&blocks, add_block(&blocks, (uint64_t)i, 4096, 4096, i), i + 1);
	ingest_block_forget(&blocks, 0);
	ck_assert_uint_eq(blocks.retired, INGEST_BLOCK_RETIRED_MAX);
	ingest_block_free_all(&blocks);
}
END_TEST

/* What the tree answers, by looking at every block. */
static struct ingest_block *search(struct ingest_block **all, int count, uint64_t address,
				   int64_t at_ns)
{
	struct ingest_block *best = NULL;

	for (int i = 0; i < count; i++) {
		struct ingest_block *block = all[i];

		if (block->address > address || block->address + block->bytes <= address ||
		    block->live_ns > at_ns || (block->released_ns && block->released_ns < at_ns))
			continue;
		if (!best || block->live_ns > best->live_ns)
			best = block;
	}
	return best;
}

START_TEST(tree_agrees_with_a_plain_search)
{
	enum { COUNT = 3000 };
	struct ingest_blocks blocks = { 0 };
	static struct ingest_block *all[COUNT];

	for (int i = 0; i < COUNT; i++) {
		all[i] = add_block(&blocks, (uint64_t)i + 1, draw() % 100000, draw() % 3000 + 1,
				   i + 1);
		if (i > 50 && draw() % 2 && !all[i - 50]->released_ns)
			release(&blocks, all[i - 50], i + 1);
	}
	ck_assert(ingest_block_check(&blocks));
	for (int i = 0; i < 5000; i++) {
		uint64_t address = draw() % 104000;
		int64_t at_ns = draw() % COUNT;

		ck_assert_ptr_eq(ingest_block_at(&blocks, address, at_ns),
				 search(all, COUNT, address, at_ns));
	}
	ingest_block_free_all(&blocks);
}
END_TEST

START_TEST(peak_does_not_depend_on_the_order_of_arrival)
{
	struct ingest_peak peak = { 0 };
	uint32_t series = ingest_peak_series(&peak, 1, 1, BLOCK_DEVICE);

	ingest_peak_change(&peak, series, 300, 500, 0);
	ingest_peak_change(&peak, series, 100, 1000, 0);
	ingest_peak_change(&peak, series, 400, -500, 0);
	ingest_peak_change(&peak, series, 200, -1000, 0);
	ingest_peak_apply(&peak, INT64_MAX);
	ck_assert_int_eq(peak.group[0].peak, 1000);
	ck_assert_int_eq(peak.group[0].peak_ns, 100);
	ck_assert_int_eq(peak.group[0].live, 0);
	ck_assert_uint_eq(peak.disordered, 0);
	ingest_peak_free(&peak);
}
END_TEST

START_TEST(changes_of_one_moment_count_together)
{
	struct ingest_peak peak = { 0 };
	uint32_t series = ingest_peak_series(&peak, 1, 1, BLOCK_DEVICE);

	ingest_peak_change(&peak, series, 100, 1000, 0);
	ingest_peak_change(&peak, series, 200, 700, 0);
	ingest_peak_change(&peak, series, 200, -1000, 1000);
	ingest_peak_change(&peak, series, 300, -700, 700);
	ingest_peak_change(&peak, series, 300, 0, -1000);
	ingest_peak_change(&peak, series, 400, 100, 0);
	ingest_peak_change(&peak, series, 400, -100, 0);
	ingest_peak_apply(&peak, INT64_MAX);
	ck_assert_int_eq(peak.group[0].peak, 1000);
	ck_assert_int_eq(peak.group[0].peak_ns, 100);
	ck_assert_int_eq(peak.group[0].pending_peak, 1000);
	ck_assert_int_eq(peak.group[0].held_peak, 1700);
	ck_assert_int_eq(peak.group[0].live, 0);
	ck_assert_int_eq(peak.group[0].pending, 700);
	ingest_peak_free(&peak);
}
END_TEST

/* Its last call may be the allocation that makes its peak. */
START_TEST(what_a_process_had_in_its_last_moment_counts)
{
	struct ingest_peak peak = { 0 };
	uint32_t series = ingest_peak_series(&peak, 1, 1, BLOCK_DEVICE);

	ingest_peak_change(&peak, series, 100, 1000, 0);
	ingest_peak_end(&peak, 1, 200);
	ingest_peak_change(&peak, series, 200, 500, 0);
	ingest_peak_apply(&peak, INT64_MAX);
	ck_assert_int_eq(peak.group[0].peak, 1500);
	ck_assert_int_eq(peak.group[0].peak_ns, 200);
	ck_assert_int_eq(peak.group[0].live, 0);
	ck_assert_int_eq(peak.series[series].slice[0].live, 1500);
	ingest_peak_free(&peak);
}
END_TEST

START_TEST(change_that_comes_too_late_is_noticed)
{
	struct ingest_peak peak = { 0 };
	uint32_t series = ingest_peak_series(&peak, 1, 1, BLOCK_DEVICE);

	ingest_peak_change(&peak, series, 300, 500, 0);
	ingest_peak_apply(&peak, 301);
	ingest_peak_change(&peak, series, 100, 1000, 0);
	ck_assert_uint_eq(peak.disordered, 1);
	ingest_peak_free(&peak);
}
END_TEST

START_TEST(curve_keeps_spikes_however_long_the_run)
{
	struct ingest_peak peak = { 0 };
	uint32_t series = ingest_peak_series(&peak, 1, 1, BLOCK_DEVICE);
	int64_t highest = 0;

	for (int64_t i = 0; i < 1000000; i++) {
		int64_t bytes = i == 123456 ? 99999 : 100;

		ingest_peak_change(&peak, series, i * 1000000, bytes, 0);
		ingest_peak_change(&peak, series, i * 1000000 + 1000, -bytes, 0);
		ingest_peak_apply(&peak, i * 1000000);
	}
	ingest_peak_apply(&peak, INT64_MAX);
	ck_assert_uint_le(peak.series[series].slices, INGEST_PEAK_SLICES);
	ck_assert_uint_gt(peak.series[series].slices, INGEST_PEAK_SLICES / 3);
	for (uint32_t i = 0; i < peak.series[series].slices; i++)
		if (peak.series[series].slice[i].live > highest)
			highest = peak.series[series].slice[i].live;
	ck_assert_int_eq(highest, 99999);
	ck_assert_int_eq(peak.group[0].peak, 99999);
	ingest_peak_free(&peak);
}
END_TEST

START_TEST(memory_of_a_process_is_gone_with_it)
{
	struct ingest_peak peak = { 0 };
	uint32_t first = ingest_peak_series(&peak, 1, 1, BLOCK_DEVICE);
	uint32_t second = ingest_peak_series(&peak, 2, 2, BLOCK_DEVICE);

	ingest_peak_change(&peak, first, 100, 1000, 0);
	ingest_peak_end(&peak, 1, 200);
	ingest_peak_change(&peak, second, 300, 600, 0);
	ingest_peak_apply(&peak, INT64_MAX);
	ck_assert_int_eq(peak.group[0].peak, 1000);
	ck_assert_int_eq(peak.group[0].live, 600);
	ingest_peak_free(&peak);
}
END_TEST

/* Asked every `wait` it gave itself, while so many records come in a millisecond. */
static int settle_pace(uint64_t records_per_ms, uint64_t buffer_bytes)
{
	struct collect_pace pace = { 0 };
	int64_t now_ns = 1000000000;
	int wait_ms = 5;

	for (int i = 0; i < 20; i++) {
		now_ns += wait_ms * INT64_C(1000000);
		wait_ms = collect_pace_wait(&pace, now_ns, records_per_ms * (unsigned int)wait_ms,
					    buffer_bytes);
	}
	return wait_ms;
}

/* A collector that is killed early leaves the sites of most transfers to the next one. */
START_TEST(place_of_transfers_is_found_by_its_row_whoever_made_it)
{
	struct store_row_site read_back = { .process_id = 1, .kind = TRANSFER_H2D, .copies = 1 };
	struct store_row_site made = { .process_id = 1, .kind = TRANSFER_D2H, .copies = 1 };
	struct ingest_total total = { 0 };
	uint32_t first, second;
	bool is_new;

	ingest_total_load_site(&total, 7, &read_back);
	ingest_total_load_site(&total, 9, &read_back);
	first = ingest_total_site(&total, &read_back, &is_new);
	ck_assert(!is_new);
	second = ingest_total_site(&total, &made, &is_new);
	ck_assert(is_new);
	ck_assert_uint_eq(ingest_total_site_row(&total, second), 10);
	ck_assert_uint_eq(ingest_total_find_site(&total, 7), first);
	ck_assert_uint_eq(ingest_total_find_site(&total, 9), first);
	ck_assert_uint_eq(ingest_total_find_site(&total, 10), second);
	ck_assert_uint_eq(ingest_total_find_site(&total, 8), 0);
	ingest_total_free(&total);
}
END_TEST

START_TEST(collector_sleeps_longer_the_less_there_is_to_read)
{
	const uint64_t mebibyte = 1 << 20;

	ck_assert_int_eq(settle_pace(0, 256 * mebibyte), 100);
	ck_assert_int_eq(settle_pace(0, 0), 50);
	ck_assert_int_eq(settle_pace(2, 256 * mebibyte), 25);
	ck_assert_int_eq(settle_pace(5000, 256 * mebibyte), 5);
	/* A small buffer is full soon, whatever came before. */
	ck_assert_int_eq(settle_pace(0, mebibyte), 5);
	ck_assert_int_eq(settle_pace(2, mebibyte), 5);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("ingest");
	TCase *parts = tcase_create("parts");

	tcase_set_timeout(parts, 60);
	tcase_add_test(parts, table_finds_what_was_put_and_not_taken);
	tcase_add_test(parts, clock_goes_through_its_moments);
	tcase_add_test(parts, clock_goes_on_beyond_its_last_moment);
	tcase_add_test(parts, clock_refuses_moments_that_do_not_fit);
	tcase_add_test(parts, clock_keeps_its_bounds_in_a_long_run);
	tcase_add_test(parts, address_finds_the_newest_block_live_then);
	tcase_add_test(parts, retired_blocks_are_forgotten_in_time);
	tcase_add_test(parts, long_calls_keep_a_bounded_number_of_retired_blocks);
	tcase_add_test(parts, tree_agrees_with_a_plain_search);
	tcase_add_test(parts, peak_does_not_depend_on_the_order_of_arrival);
	tcase_add_test(parts, changes_of_one_moment_count_together);
	tcase_add_test(parts, what_a_process_had_in_its_last_moment_counts);
	tcase_add_test(parts, change_that_comes_too_late_is_noticed);
	tcase_add_test(parts, curve_keeps_spikes_however_long_the_run);
	tcase_add_test(parts, memory_of_a_process_is_gone_with_it);
	tcase_add_test(parts, place_of_transfers_is_found_by_its_row_whoever_made_it);
	tcase_add_test(parts, collector_sleeps_longer_the_less_there_is_to_read);
	suite_add_tcase(suite, parts);
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
