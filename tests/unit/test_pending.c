/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pending.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define BASE UINT64_C(0x7f0000000000)

static void begin(void)
{
	tracker_reset();
	pending_reset();
}

/* Every counter is as at the beginning. */
static void check_nothing_counted(void)
{
	ck_assert_uint_eq(pending_total, 0);
	ck_assert_uint_eq(pending_large, 0);
	for (int i = 0; i < PENDING_SLOTS; i++) {
		ck_assert_uint_eq(pending_small_pages[i], 0);
		ck_assert_uint_eq(pending_large_pages[i], 0);
	}
}

static struct block make(enum block_space space, uint64_t address, uint64_t bytes)
{
	struct block block = { .id = tracker_next_id(), .address = address, .bytes = bytes,
			       .context = 1, .references = 1, .kind = BLOCK_DEVICE,
			       .space = (uint8_t)space };

	ck_assert_int_eq(tracker_add(&block), 0);
	return block;
}

static bool is_pending(uint64_t address)
{
	struct block block;

	return pending_find(SPACE_ADDRESS, address, &block);
}

/* Around the sizes where pages of another size are counted, and over their edges. */
static const struct {
	uint64_t address, bytes;
} places[] = {
	{ BASE, 1 },
	{ BASE, 512 },
	{ BASE + 2 * MIB - 1, 2 },
	{ BASE + 2 * MIB - 256, 512 },
	{ BASE, 2 * MIB },
	{ BASE + 512, 2 * MIB },
	{ BASE + 512, 32 * MIB - 1 },
	{ BASE + 512, 32 * MIB },
	{ BASE + 512, 32 * MIB + 1 },
	{ BASE + GIB - 16 * MIB, 32 * MIB },
	{ BASE + GIB - MIB, 31 * MIB },
	{ BASE + 512, GIB },
	{ BASE + 512, 5 * GIB + 3 },
	{ BASE, 80 * GIB },
	{ 512, 512 },
};

enum { PLACES = sizeof(places) / sizeof(*places) };

START_TEST(no_address_of_a_pending_block_is_ever_denied)
{
	uint64_t address = places[_i].address, bytes = places[_i].bytes;
	struct block block = make(SPACE_ADDRESS, address, bytes);
	uint64_t step = bytes / 1000 + 1;

	ck_assert(!is_pending(address));
	ck_assert(!pending_is_possible(address));
	ck_assert(pending_begin(&block));
	for (uint64_t at = 0; at < bytes; at += step) {
		ck_assert(pending_is_possible(address + at));
		ck_assert(is_pending(address + at));
		ck_assert(pending_may_overlap(address + at, 1));
	}
	ck_assert(is_pending(address + bytes - 1));
	ck_assert(!is_pending(address - 1));
	ck_assert(!is_pending(address + bytes));
	ck_assert_uint_eq(pending_total, 1);

	pending_close(SPACE_ADDRESS, address, bytes, block.id);
	ck_assert(!pending_is_possible(address + bytes / 2));
	ck_assert_uint_eq(tracker_count(), 0);
	check_nothing_counted();
}
END_TEST

START_TEST(a_range_over_a_pending_block_is_told_to_overlap)
{
	uint64_t address = places[_i].address, bytes = places[_i].bytes;
	struct block block = make(SPACE_ADDRESS, address, bytes);

	ck_assert(!pending_may_overlap(address, bytes));
	ck_assert(pending_begin(&block));
	ck_assert(pending_may_overlap(address, bytes));
	ck_assert(pending_may_overlap(address + bytes - 1, 100 * GIB));
	ck_assert(pending_may_overlap(address - 256, 257));
	ck_assert(pending_may_overlap(256, address + bytes));
	ck_assert(pending_may_overlap(0, UINT64_MAX));
	pending_close(SPACE_ADDRESS, address, bytes, block.id);
	ck_assert(!pending_may_overlap(0, UINT64_MAX));
}
END_TEST

START_TEST(a_block_of_no_bytes_may_be_pending)
{
	struct block block = make(SPACE_ADDRESS, BASE, 0);

	ck_assert(pending_begin(&block));
	ck_assert(is_pending(BASE));
	pending_close(SPACE_ADDRESS, BASE, 0, block.id);
	check_nothing_counted();
}
END_TEST

/* Other addresses may be asked for in vain, but mostly are not. */
START_TEST(other_addresses_are_mostly_denied_at_once)
{
	int possible = 0;

	for (int i = 0; i < 20; i++) {
		struct block block = make(SPACE_ADDRESS, BASE + (uint64_t)i * 2 * MIB, MIB);

		pending_begin(&block);
	}
	for (uint64_t i = 1; i <= 1000; i++)
		possible += pending_is_possible(BASE + GIB + i * 2 * MIB);
	ck_assert_int_lt(possible, 100);
}
END_TEST

START_TEST(a_block_is_freed_by_the_first_alone)
{
	struct block block = make(SPACE_ADDRESS, BASE, MIB), other = block, found;

	ck_assert(pending_begin(&block));
	ck_assert(!pending_begin(&block));
	other.id++;
	ck_assert(!pending_begin(&other));
	ck_assert_uint_eq(pending_total, 1);
	ck_assert(!tracker_take(SPACE_ADDRESS, BASE, &found));
	pending_close(SPACE_ADDRESS, BASE, MIB, block.id);
	ck_assert(!pending_begin(&block));
	check_nothing_counted();
}
END_TEST

START_TEST(a_cancelled_free_leaves_the_block_as_it_was)
{
	struct block block = make(SPACE_ADDRESS, BASE, 40 * MIB), found;

	ck_assert(pending_begin(&block));
	pending_cancel(&block);
	check_nothing_counted();
	ck_assert(!is_pending(BASE));
	ck_assert(pending_begin(&block));
	pending_cancel(&block);
	ck_assert(tracker_take(SPACE_ADDRESS, BASE, &found));
	ck_assert_uint_eq(found.id, block.id);
	ck_assert(!found.is_pending);
}
END_TEST

/* The driver has handed the address out again before the old block was closed. */
START_TEST(closing_an_old_block_leaves_the_new_one_at_its_address)
{
	struct block old = make(SPACE_ADDRESS, BASE, MIB), block, found;

	ck_assert(pending_begin(&old));
	block = make(SPACE_ADDRESS, BASE, 2 * MIB);
	ck_assert(!is_pending(BASE));
	pending_close(SPACE_ADDRESS, BASE, MIB, old.id);
	ck_assert(tracker_find(SPACE_ADDRESS, BASE, &found));
	ck_assert_uint_eq(found.id, block.id);
	check_nothing_counted();
	ck_assert(pending_begin(&block));
}
END_TEST

START_TEST(handles_are_found_by_handle_and_block_no_address)
{
	struct block array = make(SPACE_ARRAY, BASE, 64 * MIB), found;

	ck_assert(pending_begin(&array));
	ck_assert(pending_find(SPACE_ARRAY, BASE, &found));
	ck_assert_uint_eq(found.id, array.id);
	ck_assert(!pending_find(SPACE_ARRAY, BASE + 1, &found));
	ck_assert(!pending_is_possible(BASE));
	ck_assert(!pending_may_overlap(BASE, MIB));
	pending_close(SPACE_ARRAY, BASE, 64 * MIB, array.id);
	ck_assert(!pending_find(SPACE_ARRAY, BASE, &found));
	check_nothing_counted();
}
END_TEST

START_TEST(blocks_that_share_a_page_are_counted_each)
{
	struct block one = make(SPACE_ADDRESS, BASE, 512);
	struct block two = make(SPACE_ADDRESS, BASE + 512, 512);

	ck_assert(pending_begin(&one));
	ck_assert(pending_begin(&two));
	pending_close(SPACE_ADDRESS, BASE, 512, one.id);
	ck_assert(is_pending(BASE + 600));
	ck_assert(!is_pending(BASE + 100));
	pending_close(SPACE_ADDRESS, BASE + 512, 512, two.id);
	check_nothing_counted();
}
END_TEST

START_TEST(a_reset_forgets_all)
{
	struct block small = make(SPACE_ADDRESS, BASE, 512);
	struct block large = make(SPACE_ADDRESS, BASE + GIB, GIB);

	pending_begin(&small);
	pending_begin(&large);
	pending_reset();
	tracker_reset();
	check_nothing_counted();
}
END_TEST

enum { THREADS = 16, ROUNDS = 2000 };

/* Each has its own address, and its neighbours' pages. */
static void *churn(void *argument)
{
	uint64_t number = (uint64_t)(uintptr_t)argument;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t bytes = i % 5 ? 4 * KIB : 33 * MIB;
		uint64_t address = i % 5 ? BASE + number * 64 * KIB + i % 3 * 8 * KIB :
					   BASE + GIB + number * 64 * MIB;
		struct block block = { .id = tracker_next_id(), .address = address,
				       .bytes = bytes, .kind = BLOCK_DEVICE, .references = 1 };

		if (tracker_add(&block) || is_pending(address) || !pending_begin(&block) ||
		    !is_pending(address + bytes - 1) || !pending_may_overlap(address, 1))
			return (void *)1;
		if (i % 7 == 0) {
			pending_cancel(&block);
			if (is_pending(address) || !pending_begin(&block))
				return (void *)1;
		}
		pending_close(SPACE_ADDRESS, address, bytes, block.id);
		if (is_pending(address))
			return (void *)1;
	}
	return NULL;
}

START_TEST(threads_are_never_denied_their_own_blocks)
{
	pthread_t threads[THREADS];
	void *failed;

	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	check_nothing_counted();
	ck_assert_uint_eq(tracker_count(), 0);
}
END_TEST

static struct block contended;
static _Atomic uint32_t winners;

static void *free_contended(void *argument)
{
	if (pending_begin(&contended))
		atomic_fetch_add(&winners, 1);
	return argument;
}

START_TEST(of_threads_that_free_one_block_one_wins)
{
	pthread_t threads[THREADS];

	for (int round = 0; round < 50; round++) {
		contended = make(SPACE_ADDRESS, BASE, 33 * MIB);
		atomic_store(&winners, 0);
		for (int i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, free_contended, NULL);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		ck_assert_uint_eq(winners, 1);
		pending_close(SPACE_ADDRESS, BASE, 33 * MIB, contended.id);
		check_nothing_counted();
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pending");
	TCase *tests = tcase_create("pending");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, begin, NULL);
	tcase_add_loop_test(tests, no_address_of_a_pending_block_is_ever_denied, 0, PLACES);
	tcase_add_loop_test(tests, a_range_over_a_pending_block_is_told_to_overlap, 0, PLACES);
	tcase_add_test(tests, a_block_of_no_bytes_may_be_pending);
	tcase_add_test(tests, other_addresses_are_mostly_denied_at_once);
	tcase_add_test(tests, a_block_is_freed_by_the_first_alone);
	tcase_add_test(tests, a_cancelled_free_leaves_the_block_as_it_was);
	tcase_add_test(tests, closing_an_old_block_leaves_the_new_one_at_its_address);
	tcase_add_test(tests, handles_are_found_by_handle_and_block_no_address);
	tcase_add_test(tests, blocks_that_share_a_page_are_counted_each);
	tcase_add_test(tests, a_reset_forgets_all);
	tcase_add_test(tests, threads_are_never_denied_their_own_blocks);
	tcase_add_test(tests, of_threads_that_free_one_block_one_wins);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
