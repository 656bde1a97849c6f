/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tracker.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define BASE UINT64_C(0x7f0000000000)

static struct block make_block(uint64_t address, uint64_t bytes)
{
	return (struct block){
		.id = tracker_next_id(), .address = address, .bytes = bytes, .references = 1,
		.kind = BLOCK_DEVICE, .space = SPACE_ADDRESS, .context = 1 };
}

static uint64_t add(uint64_t address, uint64_t bytes)
{
	struct block block = make_block(address, bytes);

	ck_assert_int_eq(tracker_add(&block), 0);
	ck_assert(tracker_check());
	return block.id;
}

static uint64_t find(uint64_t address)
{
	struct block block;

	return tracker_find(SPACE_ADDRESS, address, &block) ? block.id : 0;
}

static uint64_t take(uint64_t address)
{
	struct block block;
	bool is_found = tracker_take(SPACE_ADDRESS, address, &block);

	ck_assert(tracker_check());
	return is_found ? block.id : 0;
}

/* One of each level, at and across the edges of pages. */
static const struct {
	uint64_t address, bytes;
} places[] = {
	{ BASE, 1 },
	{ BASE, 512 },
	{ BASE + 64 * KIB - 256, 512 },
	{ BASE + 2 * MIB - 256, 512 },
	{ BASE, 64 * KIB },
	{ BASE + 100, 100 * KIB },
	{ BASE, 2 * MIB },
	{ BASE + 512, 2 * MIB },
	{ BASE + 2 * MIB, 512 * MIB },
	{ BASE, GIB - 1 },
	{ BASE + 2 * MIB, GIB },
	{ BASE + 512, 5 * GIB + 3 },
	{ BASE, 80 * GIB },
	{ 0, 512 },
	{ UINT64_MAX - 512, 512 },
};

enum { PLACES = sizeof(places) / sizeof(places[0]) };

START_TEST(block_is_found_at_all_its_addresses)
{
	uint64_t address = places[_i].address, bytes = places[_i].bytes;
	uint64_t id = add(address, bytes);

	ck_assert_uint_eq(find(address), id);
	ck_assert_uint_eq(find(address + bytes / 2), id);
	ck_assert_uint_eq(find(address + bytes - 1), id);
	if (address)
		ck_assert_uint_eq(find(address - 1), 0);
	if (address + bytes)
		ck_assert_uint_eq(find(address + bytes), 0);
	ck_assert_uint_eq(tracker_count(), 1);
}
END_TEST

START_TEST(block_is_taken_by_its_base_alone)
{
	uint64_t address = places[_i].address, bytes = places[_i].bytes;
	uint64_t id = add(address, bytes);

	if (bytes > 1)
		ck_assert_uint_eq(take(address + bytes - 1), 0);
	ck_assert_uint_eq(take(address), id);
	ck_assert_uint_eq(take(address), 0);
	ck_assert_uint_eq(find(address), 0);
	ck_assert_uint_eq(find(address + bytes - 1), 0);
	ck_assert_uint_eq(tracker_count(), 0);
}
END_TEST

START_TEST(taken_block_can_be_put_back_whole)
{
	struct block block = make_block(BASE + 4096, 3 * MIB), taken, found;

	block.parent = 77;
	block.device = 5;
	block.is_exported = 1;
	tracker_add(&block);
	ck_assert(tracker_take(SPACE_ADDRESS, block.address, &taken));
	ck_assert_int_eq(memcmp(&block, &taken, sizeof(block)), 0);
	tracker_add(&taken);
	ck_assert(tracker_find(SPACE_ADDRESS, block.address + 2 * MIB, &found));
	ck_assert_int_eq(memcmp(&block, &found, sizeof(block)), 0);
}
END_TEST

/* Whatever sizes meet, the newer block has the addresses. */
START_TEST(new_block_drops_what_it_overlaps)
{
	for (int i = 0; i < PLACES; i++) {
		uint64_t old = add(places[_i].address, places[_i].bytes);
		uint64_t end = places[_i].address + places[_i].bytes;
		uint64_t id = add(places[i].address, places[i].bytes);
		bool is_apart = (end && end <= places[i].address) ||
				places[i].address + places[i].bytes - 1 < places[_i].address;

		ck_assert_uint_eq(find(places[i].address), id);
		ck_assert_uint_eq(tracker_count(), is_apart ? 2 : 1);
		ck_assert_uint_eq(take(places[i].address), id);
		ck_assert_uint_eq(take(places[_i].address), is_apart ? old : 0);
		ck_assert_uint_eq(tracker_count(), 0);
	}
}
END_TEST

START_TEST(large_block_drops_many_small_ones)
{
	uint64_t neighbour = add(BASE + 8 * GIB, 512), id;

	for (uint64_t i = 0; i < 4000; i++)
		add(BASE + i * MIB, 512 + i * 16);
	id = add(BASE + 256, 6 * GIB);
	ck_assert_uint_eq(tracker_count(), 2);
	ck_assert_uint_eq(find(BASE), 0);
	ck_assert_uint_eq(find(BASE + 3 * GIB), id);
	ck_assert_uint_eq(find(BASE + 8 * GIB), neighbour);
}
END_TEST

START_TEST(absurd_sizes_do_no_harm)
{
	struct block huge = make_block(1 << 20, UINT64_MAX);
	uint64_t id = add(BASE, 512);

	ck_assert_int_eq(tracker_add(&huge), -1);
	ck_assert_uint_eq(find(BASE), id);
	huge.bytes = UINT64_C(1) << 47;
	ck_assert_int_eq(tracker_add(&huge), 0);
	ck_assert(tracker_check());
	ck_assert_uint_eq(find(BASE), huge.id);
	ck_assert_uint_eq(find((UINT64_C(1) << 47) - 1), huge.id);
	ck_assert_uint_eq(tracker_count(), 1);
	ck_assert_uint_eq(take(1 << 20), huge.id);
	huge.bytes = 0;
	ck_assert_int_eq(tracker_add(&huge), 0);
	ck_assert_uint_eq(find(1 << 20), huge.id);
	ck_assert_uint_eq(find((1 << 20) + 1), 0);
}
END_TEST

START_TEST(handles_are_exact_and_of_their_own_space)
{
	struct block array = make_block(BASE + 64, 4096), handle = make_block(BASE + 64, 2 * MIB);
	uint64_t registered = add(BASE, MIB);
	struct block found;

	array.space = SPACE_ARRAY;
	handle.space = SPACE_HANDLE;
	tracker_add(&array);
	tracker_add(&handle);
	ck_assert(tracker_check());
	ck_assert_uint_eq(find(BASE + 64), registered);
	ck_assert(tracker_find(SPACE_ARRAY, BASE + 64, &found));
	ck_assert_uint_eq(found.id, array.id);
	ck_assert(!tracker_find(SPACE_ARRAY, BASE + 65, &found));
	ck_assert(tracker_take(SPACE_HANDLE, BASE + 64, &found));
	ck_assert_uint_eq(found.id, handle.id);
	ck_assert(!tracker_take(SPACE_HANDLE, BASE + 64, &found));
	array.id = tracker_next_id();
	tracker_add(&array);
	ck_assert(tracker_find(SPACE_ARRAY, BASE + 64, &found));
	ck_assert_uint_eq(found.id, array.id);
	ck_assert_uint_eq(tracker_count(), 2);
}
END_TEST

START_TEST(handle_counts_its_references)
{
	struct block handle = make_block(42, 2 * MIB);
	uint32_t references = 0;

	handle.space = SPACE_HANDLE;
	tracker_add(&handle);
	ck_assert(tracker_reference(SPACE_HANDLE, 42, 1, &references));
	ck_assert_uint_eq(references, 2);
	ck_assert(tracker_reference(SPACE_HANDLE, 42, -2, &references));
	ck_assert_uint_eq(references, 0);
	ck_assert(!tracker_reference(SPACE_HANDLE, 43, 1, &references));
}
END_TEST

START_TEST(export_marks_the_block_for_all_its_pages)
{
	struct block found;

	add(BASE, 64 * MIB);
	ck_assert(!tracker_mark_exported(BASE + 1));
	ck_assert(tracker_mark_exported(BASE));
	ck_assert(tracker_find(SPACE_ADDRESS, BASE + 40 * MIB, &found));
	ck_assert(found.is_exported);
}
END_TEST

START_TEST(context_takes_its_blocks_along)
{
	for (uint64_t i = 0; i < 300; i++) {
		struct block block = make_block(BASE + i * 8 * MIB, 1 + i * 20 * KIB);

		block.context = (uint32_t)(i % 3);
		tracker_add(&block);
	}
	tracker_drop_context(2);
	ck_assert(tracker_check());
	ck_assert_uint_eq(tracker_count(), 200);
	tracker_drop_context(0);
	ck_assert_uint_eq(tracker_count(), 200);
	tracker_drop_context(1);
	ck_assert_uint_eq(tracker_count(), 100);
}
END_TEST

static bool is_pending(uint64_t address)
{
	struct block block;

	return tracker_find(SPACE_ADDRESS, address, &block) && block.is_pending;
}

static void check_pending_everywhere(uint64_t address, uint64_t bytes, bool expected)
{
	ck_assert(is_pending(address) == expected);
	ck_assert(is_pending(address + bytes / 2) == expected);
	ck_assert(is_pending(address + bytes - 1) == expected);
	ck_assert(tracker_check());
}

/* Only the copy in the first page is marked; whoever meets another one asks it. */
START_TEST(a_mark_is_seen_at_all_addresses_of_a_block)
{
	uint64_t address = places[_i].address, bytes = places[_i].bytes;
	uint64_t id = add(address, bytes);

	check_pending_everywhere(address, bytes, false);
	ck_assert(tracker_mark_pending(SPACE_ADDRESS, address, id));
	check_pending_everywhere(address, bytes, true);
	ck_assert_uint_eq(find(address + bytes - 1), id);
	tracker_unmark_pending(SPACE_ADDRESS, address, id);
	check_pending_everywhere(address, bytes, false);
	ck_assert_uint_eq(take(address), id);
	ck_assert_uint_eq(tracker_count(), 0);
}
END_TEST

START_TEST(a_pending_block_is_not_taken_but_removed)
{
	uint64_t address = places[_i].address, bytes = places[_i].bytes;
	uint64_t id = add(address, bytes);

	ck_assert(!tracker_remove_pending(SPACE_ADDRESS, address, id));
	ck_assert(tracker_mark_pending(SPACE_ADDRESS, address, id));
	ck_assert_uint_eq(take(address), 0);
	ck_assert(!tracker_remove_pending(SPACE_ADDRESS, address, id + 1));
	ck_assert(tracker_remove_pending(SPACE_ADDRESS, address, id));
	ck_assert(!tracker_remove_pending(SPACE_ADDRESS, address, id));
	ck_assert_uint_eq(find(address), 0);
	ck_assert_uint_eq(find(address + bytes - 1), 0);
	ck_assert_uint_eq(tracker_count(), 0);
	ck_assert(tracker_check());
}
END_TEST

START_TEST(a_mark_needs_the_base_and_the_id_and_is_set_once)
{
	uint64_t id = add(BASE + 512, 5 * MIB);

	ck_assert(!tracker_mark_pending(SPACE_ADDRESS, BASE + 513, id));
	ck_assert(!tracker_mark_pending(SPACE_ADDRESS, BASE + 512, id + 1));
	ck_assert(!tracker_mark_pending(SPACE_ADDRESS, BASE + 4 * MIB, id));
	ck_assert(!tracker_mark_pending(SPACE_ARRAY, BASE + 512, id));
	ck_assert(tracker_mark_pending(SPACE_ADDRESS, BASE + 512, id));
	ck_assert(!tracker_mark_pending(SPACE_ADDRESS, BASE + 512, id));
	tracker_unmark_pending(SPACE_ADDRESS, BASE + 512, id + 1);
	ck_assert(is_pending(BASE + 512));
}
END_TEST

START_TEST(a_new_block_takes_the_place_of_a_pending_one)
{
	uint64_t address = places[_i].address, bytes = places[_i].bytes;
	uint64_t old, id;

	add(address, bytes);
	old = add(address, bytes);
	ck_assert_uint_eq(atomic_load(&tracker_displaced), 0);
	ck_assert(tracker_mark_pending(SPACE_ADDRESS, address, old));
	id = add(address, bytes);
	ck_assert_uint_eq(atomic_load(&tracker_displaced), 1);
	check_pending_everywhere(address, bytes, false);
	ck_assert(!tracker_remove_pending(SPACE_ADDRESS, address, old));
	tracker_unmark_pending(SPACE_ADDRESS, address, old);
	ck_assert_uint_eq(take(address), id);
	ck_assert_uint_eq(tracker_count(), 0);
}
END_TEST

START_TEST(handles_are_marked_too)
{
	struct block array = make_block(BASE + 64, 4096), found;

	array.space = SPACE_ARRAY;
	tracker_add(&array);
	ck_assert(tracker_mark_pending(SPACE_ARRAY, BASE + 64, array.id));
	ck_assert(tracker_find(SPACE_ARRAY, BASE + 64, &found) && found.is_pending);
	ck_assert(!tracker_take(SPACE_ARRAY, BASE + 64, &found));
	ck_assert(tracker_remove_pending(SPACE_ARRAY, BASE + 64, array.id));
	ck_assert_uint_eq(tracker_count(), 0);
}
END_TEST

START_TEST(context_takes_pending_blocks_along)
{
	uint64_t id = add(BASE, 40 * MIB);

	ck_assert(tracker_mark_pending(SPACE_ADDRESS, BASE, id));
	tracker_drop_context(1);
	ck_assert_uint_eq(tracker_count(), 0);
	ck_assert(!tracker_remove_pending(SPACE_ADDRESS, BASE, id));
}
END_TEST

START_TEST(reset_leaves_a_tracker_that_works)
{
	for (int round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < 5000; i++)
			add(BASE + i * 64 * KIB, 4096);
		tracker_reset();
		ck_assert_uint_eq(tracker_count(), 0);
		ck_assert_uint_eq(find(BASE), 0);
	}
}
END_TEST

START_TEST(addresses_that_never_come_back_cost_no_memory)
{
	for (uint64_t i = 0; i < 300000; i++) {
		struct block block = make_block(BASE + i * 2 * MIB, 1 * MIB);

		tracker_add(&block);
		tracker_take(SPACE_ADDRESS, block.address, &block);
	}
	ck_assert_uint_eq(tracker_count(), 0);
	ck_assert(tracker_check());
}
END_TEST

/* Against an array that knows: random blocks of all sizes, many of them touching. */
enum { SLOTS = 200, STEPS = 20000 };

START_TEST(random_steps_agree_with_a_plain_array)
{
	struct block model[SLOTS] = { 0 };

	srand(12345);
	for (int step = 0; step < STEPS; step++) {
		int slot = rand() % SLOTS;
		uint64_t room = UINT64_C(1) << (8 + slot % 24);
		uint64_t address = BASE + (uint64_t)slot * 16 * GIB + (uint64_t)rand() % 100;
		struct block block;

		if (model[slot].id) {
			uint64_t inside = (uint64_t)rand() % model[slot].bytes;

			ck_assert_uint_eq(find(model[slot].address + inside), model[slot].id);
			ck_assert(tracker_take(SPACE_ADDRESS, model[slot].address, &block));
			ck_assert_uint_eq(block.id, model[slot].id);
			model[slot].id = 0;
		} else {
			model[slot] = make_block(address, 1 + (uint64_t)rand() % room);
			ck_assert_int_eq(tracker_add(&model[slot]), 0);
		}
		if (step % 1000 == 0)
			ck_assert(tracker_check());
	}
}
END_TEST

enum { THREADS = 16, ROUNDS = 4000 };

/* Threads share pages, as those of a program do. */
static void *churn(void *argument)
{
	uint64_t mine = BASE + (uint64_t)(uintptr_t)argument * 512;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t bytes = i % 7 ? 512 : 40 * MIB;
		uint64_t address = i % 7 ? mine + i % 5 * 16 * KIB :
					   mine + (1 + (uint64_t)(uintptr_t)argument) * GIB;
		struct block block = make_block(address, bytes), found;

		if (tracker_add(&block) ||
		    !tracker_find(SPACE_ADDRESS, address + bytes - 1, &found) ||
		    found.id != block.id || !tracker_take(SPACE_ADDRESS, address, &found) ||
		    found.id != block.id)
			return (void *)1;
	}
	return NULL;
}

START_TEST(threads_keep_their_blocks)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, churn, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	ck_assert_uint_eq(tracker_count(), 0);
	ck_assert(tracker_check());
}
END_TEST

static _Atomic uint64_t contended;
static _Atomic uint32_t removals, takes;

/* One of the threads marks, and may change its mind; the others are too late. */
static void *contend(void *argument)
{
	uint64_t id = contended;
	struct block block;

	if (!tracker_mark_pending(SPACE_ADDRESS, BASE, id)) {
		takes += tracker_take(SPACE_ADDRESS, BASE, &block);
		return NULL;
	}
	if ((uintptr_t)argument % 2)
		tracker_unmark_pending(SPACE_ADDRESS, BASE, id);
	removals += tracker_remove_pending(SPACE_ADDRESS, BASE, id);
	return NULL;
}

START_TEST(a_block_leaves_once_whoever_marks_it)
{
	pthread_t threads[THREADS];

	for (int round = 0; round < 60; round++) {
		contended = add(BASE, round % 2 ? 512 : 80 * MIB);
		removals = takes = 0;
		for (uintptr_t i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, contend, (void *)i);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		ck_assert_uint_le(removals + takes, 1);
		ck_assert_uint_eq(tracker_count(), 1 - removals - takes);
		ck_assert(tracker_check());
		tracker_unmark_pending(SPACE_ADDRESS, BASE, contended);
		take(BASE);
	}
}
END_TEST

static void *take_ids(void *argument)
{
	uint64_t *ids = argument;

	for (int i = 0; i < ROUNDS; i++)
		ids[i] = tracker_next_id();
	return NULL;
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

	return first < second ? -1 : first > second;
}

START_TEST(ids_are_unique)
{
	static uint64_t ids[THREADS * ROUNDS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, take_ids, &ids[i * ROUNDS]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	qsort(ids, THREADS * ROUNDS, sizeof(uint64_t), compare_ids);
	ck_assert_uint_gt(ids[0], 0);
	for (int i = 1; i < THREADS * ROUNDS; i++)
		ck_assert_uint_ne(ids[i - 1], ids[i]);
}
END_TEST

static void add_up(const struct block *block, void *argument)
{
	uint64_t *sums = argument;

	sums[0]++;
	sums[1] += block->bytes;
	sums[2] ^= block->id * UINT64_C(0x9e3779b97f4a7c15);
}

/* Large blocks have copies in several pages, and handles in no range. */
START_TEST(a_walk_shows_every_block_once)
{
	uint64_t expected[3] = { 0 }, found[3] = { 0 };

	for (uint64_t i = 0; i < 200; i++) {
		struct block block = make_block(BASE + i * 32 * GIB, (i % 5 + 1) << (i % 33));

		if (i % 7 == 0)
			block.space = i % 2 ? SPACE_HANDLE : SPACE_ARRAY;
		ck_assert_int_eq(tracker_add(&block), 0);
		add_up(&block, expected);
	}
	tracker_walk(add_up, found);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(found[i], expected[i]);
	tracker_drop_context(1);
	found[0] = 0;
	tracker_walk(add_up, found);
	ck_assert_uint_eq(found[0], 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tracker");
	TCase *tests = tcase_create("tracker");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, block_is_found_at_all_its_addresses, 0, PLACES);
	tcase_add_loop_test(tests, block_is_taken_by_its_base_alone, 0, PLACES);
	tcase_add_loop_test(tests, new_block_drops_what_it_overlaps, 0, PLACES);
	tcase_add_test(tests, taken_block_can_be_put_back_whole);
	tcase_add_test(tests, large_block_drops_many_small_ones);
	tcase_add_test(tests, absurd_sizes_do_no_harm);
	tcase_add_test(tests, handles_are_exact_and_of_their_own_space);
	tcase_add_test(tests, handle_counts_its_references);
	tcase_add_test(tests, export_marks_the_block_for_all_its_pages);
	tcase_add_test(tests, context_takes_its_blocks_along);
	tcase_add_loop_test(tests, a_mark_is_seen_at_all_addresses_of_a_block, 0, PLACES);
	tcase_add_loop_test(tests, a_pending_block_is_not_taken_but_removed, 0, PLACES);
	tcase_add_test(tests, a_mark_needs_the_base_and_the_id_and_is_set_once);
	tcase_add_loop_test(tests, a_new_block_takes_the_place_of_a_pending_one, 0, PLACES);
	tcase_add_test(tests, handles_are_marked_too);
	tcase_add_test(tests, context_takes_pending_blocks_along);
	tcase_add_test(tests, reset_leaves_a_tracker_that_works);
	tcase_add_test(tests, addresses_that_never_come_back_cost_no_memory);
	tcase_add_test(tests, random_steps_agree_with_a_plain_array);
	tcase_add_test(tests, threads_keep_their_blocks);
	tcase_add_test(tests, a_block_leaves_once_whoever_marks_it);
	tcase_add_test(tests, ids_are_unique);
	tcase_add_test(tests, a_walk_shows_every_block_once);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
