/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages have room for small blocks, and how often all blocks are looked at
 * for that: the linker puts a walk that counts in place of the tracker's.
 */
#include "core/tracker.h"
#include "fake_queue.h"
#include "intercept/current.h"
#include "intercept/limit.h"

#include <check.h>
#include <stdlib.h>

enum { MIB = 1 << 20, PAGE = 2 << 20 };

static uint32_t walks;

void __wrap_tracker_walk(void (*see)(const struct block *block, void *argument), void *argument);
void __real_tracker_walk(void (*see)(const struct block *block, void *argument), void *argument);

void __wrap_tracker_walk(void (*see)(const struct block *block, void *argument), void *argument)
{
	walks++;
	__real_tracker_walk(see, argument);
}

static void start(void)
{
	fake_queue_prepare("immediate", false);
	fake_start();
	fake_look();
	walks = 0;
}

/* So many bytes at the beginning of a page. */
static void add(uint64_t page, uint64_t bytes)
{
	struct block block = {
		.id = tracker_next_id(),
		.address = page * PAGE,
		.bytes = bytes,
		.context = current_number(),
		.references = 1,
		.kind = BLOCK_DEVICE,
	};

	ck_assert_int_eq(tracker_add(&block), 0);
}

static bool take(uint64_t bytes)
{
	return limit_share_take(0, false, bytes);
}

START_TEST(what_was_not_found_is_not_looked_for_again)
{
	add(1000, 3 * MIB / 2);
	for (int i = 0; i < 10; i++)
		ck_assert(!take(MIB));
	ck_assert_uint_eq(walks, 1);
}
END_TEST

START_TEST(a_block_that_leaves_may_have_made_room)
{
	struct block block;

	add(1000, 3 * MIB / 2);
	add(1001, MIB / 2);
	ck_assert(take(3 * MIB / 2));
	ck_assert(!take(MIB));
	ck_assert(tracker_take(SPACE_ADDRESS, UINT64_C(1001) * PAGE, &block));
	add(1001, MIB);
	ck_assert(take(MIB));
	ck_assert_uint_eq(walks, 2);
}
END_TEST

/* As one of another thread, whose page was not there yet at the last look. */
START_TEST(a_block_that_comes_may_have_begun_a_page)
{
	add(1000, 3 * MIB / 2);
	ck_assert(!take(MIB));
	add(1001, MIB / 2);
	ck_assert(take(MIB));
	ck_assert_uint_eq(walks, 2);
}
END_TEST

START_TEST(a_block_that_takes_what_it_was_promised_changes_nothing)
{
	add(1000, MIB / 2);
	ck_assert(take(MIB));
	add(1000 + 1, 512);
	for (int i = 0; i < 10; i++)
		ck_assert(!take(MIB));
	ck_assert(take(MIB / 2));
	ck_assert(!take(MIB / 2));
	ck_assert_uint_eq(walks, 1);
}
END_TEST

START_TEST(after_new_pages_all_is_looked_at)
{
	add(1000, 3 * MIB / 2);
	ck_assert(!take(MIB));
	limit_share_forget();
	ck_assert(!take(MIB));
	ck_assert_uint_eq(walks, 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("limit_share");
	TCase *tests = tcase_create("pages");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, start, fake_stop);
	tcase_add_test(tests, what_was_not_found_is_not_looked_for_again);
	tcase_add_test(tests, a_block_that_leaves_may_have_made_room);
	tcase_add_test(tests, a_block_that_comes_may_have_begun_a_page);
	tcase_add_test(tests, a_block_that_takes_what_it_was_promised_changes_nothing);
	tcase_add_test(tests, after_new_pages_all_is_looked_at);
	suite_add_tcase(suite, tests);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
