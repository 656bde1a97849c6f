/* SPDX-License-Identifier: Apache-2.0 */
/* What all resources have in common, on those of the plain allocating functions. */
#include "fixture.h"

#include <pthread.h>

static struct custody_resource *device_resource(struct custody_context *context)
{
	struct custody_resource *resource = NULL;

	ck_ok(custody_resource_device(context, &resource));
	ck_assert_ptr_nonnull(resource);
	return resource;
}

static void *allocate(struct custody_resource *resource, size_t bytes)
{
	void *pointer = NULL;

	ck_ok(custody_resource_allocate(resource, bytes, NULL, &pointer));
	ck_assert_ptr_nonnull(pointer);
	return pointer;
}

/* ------------------------------------------------------------ allocating, freeing */

START_TEST(no_bytes_are_no_memory_and_no_call_of_the_driver)
{
	void *pointer = &pointer;

	fixture_watch();
	struct custody_resource *resource = device_resource(fixture_context(0));
	fixture_forget();
	ck_ok(custody_resource_allocate(resource, 0, NULL, &pointer));
	ck_assert_ptr_null(pointer);
	ck_ok(custody_resource_deallocate(resource, NULL, 0, NULL));
	ck_assert_uint_eq(fixture_calls("cuMemAlloc_v2"), 0);
	ck_assert_uint_eq(fixture_calls("cuMemFree_v2"), 0);
}
END_TEST

START_TEST(memory_of_another_is_unknown)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *one = device_resource(context), *other = device_resource(context);
	void *pointer = allocate(one, KIB);

	ck_is(custody_resource_deallocate(other, pointer, KIB, NULL), CUSTODY_E_UNKNOWN);
	ck_is(custody_resource_deallocate(one, (char *)pointer + 256, KIB, NULL),
	      CUSTODY_E_UNKNOWN);
	ck_ok(custody_resource_deallocate(one, pointer, KIB, NULL));
}
END_TEST

START_TEST(another_size_is_a_mismatch_that_names_both)
{
	struct custody_resource *resource = device_resource(fixture_context(0));
	void *pointer = allocate(resource, KIB);

	ck_is(custody_resource_deallocate(resource, pointer, KIB + 1, NULL), CUSTODY_E_MISMATCH);
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), "1024 bytes, not 1025"));
	ck_ok(custody_resource_deallocate(resource, pointer, KIB, NULL));
}
END_TEST

START_TEST(a_second_free_is_refused)
{
	struct custody_resource *resource = device_resource(fixture_context(0));
	void *pointer = allocate(resource, KIB);

	ck_ok(custody_resource_deallocate(resource, pointer, KIB, NULL));
	ck_is(custody_resource_deallocate(resource, pointer, KIB, NULL), CUSTODY_E_DOUBLE_FREE);
}
END_TEST

/* The driver gives a freed address out again at once. */
START_TEST(an_address_that_comes_again_is_memory_again)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = device_resource(context);
	void *first = allocate(resource, MIB), *again;

	ck_ok(custody_resource_deallocate(resource, first, MIB, NULL));
	ck_ok(custody_flush(context, true));
	again = allocate(resource, MIB);
	ck_assert_ptr_eq(again, first);
	ck_ok(custody_resource_deallocate(resource, again, MIB, NULL));
}
END_TEST

struct racer {
	struct custody_resource *resource;
	void *pointer;
	_Atomic int *freed, *refused;
};

static void *race(void *argument)
{
	struct racer *racer = argument;
	int result = custody_resource_deallocate(racer->resource, racer->pointer, KIB, NULL);

	if (!result)
		(*racer->freed)++;
	else if (result == CUSTODY_E_DOUBLE_FREE)
		(*racer->refused)++;
	return NULL;
}

START_TEST(of_threads_that_free_one_block_one_does)
{
	_Atomic int freed = 0, refused = 0;
	struct racer racer = { device_resource(fixture_context(0)), NULL, &freed, &refused };
	pthread_t threads[4];

	racer.pointer = allocate(racer.resource, KIB);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, race, &racer), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(freed, 1);
	ck_assert_int_eq(refused, 3);
}
END_TEST

START_TEST(many_blocks_are_known_and_freed)
{
	struct custody_resource *resource = device_resource(fixture_context(0));
	void *blocks[2000];

	for (size_t i = 0; i < 2000; i++)
		blocks[i] = allocate(resource, 256 + i % 3);
	for (size_t i = 0; i < 2000; i++)
		ck_ok(custody_resource_deallocate(resource, blocks[i], 256 + i % 3, NULL));
	ck_is(custody_resource_deallocate(resource, blocks[1999], 256 + 1999 % 3, NULL),
	      CUSTODY_E_DOUBLE_FREE);
}
END_TEST

/* ------------------------------------------------------------ waiting */

static void check_free_waits_for_nothing(struct custody_resource *resource)
{
	struct custody_context *context = custody_resource_context(resource);
	struct custody_stream *stream;
	void *pointer = allocate(resource, MIB);
	bool is_done = true;

	ck_ok(custody_stream_create(context, NULL, &stream));
	ck_ok(custody_context_push(context));
	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_resource_deallocate(resource, pointer, MIB, stream));
	ck_ok(custody_stream_query(stream, &is_done));
	ck_assert(!is_done);
	ck_assert_uint_eq(fixture_pending_bytes(context), MIB);
	fixture_release();
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_pending_bytes(context), 0);
}

START_TEST(a_free_of_device_memory_does_not_wait_for_work)
{
	check_free_waits_for_nothing(device_resource(fixture_context(0)));
}
END_TEST

/* A pinned buffer was freed while a copy still read from it. */
START_TEST(a_free_of_pinned_memory_does_not_wait_and_comes_after_the_copy)
{
	struct custody_resource *resource;

	ck_ok(custody_resource_pinned(fixture_context(0), 0, &resource));
	check_free_waits_for_nothing(resource);
}
END_TEST

START_TEST(a_free_of_managed_memory_does_not_wait_for_work)
{
	struct custody_resource *resource;

	ck_ok(custody_resource_managed(fixture_context(0), true, &resource));
	check_free_waits_for_nothing(resource);
}
END_TEST

/* ------------------------------------------------------------ what they are */

static struct custody_resource_info info_of(struct custody_resource *resource)
{
	struct custody_resource_info info = { .size = sizeof(info) };

	ck_ok(custody_resource_info(resource, &info));
	return info;
}

START_TEST(resources_say_who_reaches_their_memory)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pinned, *managed;
	struct custody_resource_info info = info_of(device_resource(context));

	ck_assert_int_eq(info.kind, CUSTODY_RESOURCE_DEVICE);
	ck_assert_int_eq(info.device, 0);
	ck_assert(info.is_device_accessible && !info.is_host_accessible && info.is_shareable);
	ck_ok(custody_resource_pinned(context, CUSTODY_HOST_MAPPED, &pinned));
	info = info_of(pinned);
	ck_assert_int_eq(info.device, -1);
	ck_assert(info.is_device_accessible && info.is_host_accessible && !info.is_managed);
	ck_ok(custody_resource_managed(context, false, &managed));
	info = info_of(managed);
	ck_assert(info.is_device_accessible && info.is_host_accessible && info.is_managed);
}
END_TEST

START_TEST(flags_of_pinned_memory_reach_the_driver)
{
	struct custody_resource *resource;
	unsigned int flags = 0;
	void *pointer;

	ck_ok(custody_resource_pinned(fixture_context(0),
				      CUSTODY_HOST_PORTABLE | CUSTODY_HOST_WRITE_COMBINED,
				      &resource));
	pointer = allocate(resource, KIB);
	ck_ok(custody_context_push(custody_resource_context(resource)));
	ck_cu(cuMemHostGetFlags(&flags, pointer));
	ck_assert_uint_eq(flags & (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED),
			  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED);
	ck_is(custody_resource_pinned(fixture_context(0), CUSTODY_HOST_READ_ONLY, &resource),
	      CUSTODY_E_INVALID);
}
END_TEST

START_TEST(a_device_without_managed_memory_says_so)
{
	struct custody_resource *resource;

	setenv("SIMCUDA_MANAGED", "0", 1);
	ck_is(custody_resource_managed(fixture_context(0), true, &resource),
	      CUSTODY_E_UNSUPPORTED);
}
END_TEST

/* A method on a resource that has no such thing ended the process. */
START_TEST(arguments_are_checked_on_every_call)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = device_resource(context);
	struct custody_resource_info info = { .size = sizeof(info) };
	struct custody_location nowhere = { CUSTODY_LOCATION_NONE, 0 };
	struct custody_buffer *buffer;
	uint64_t value;
	int descriptor;

	ck_is(custody_resource_device(NULL, &resource), CUSTODY_E_INVALID);
	ck_is(custody_resource_device(context, NULL), CUSTODY_E_INVALID);
	ck_is(custody_resource_pool(NULL, NULL, &resource), CUSTODY_E_INVALID);
	ck_is(custody_resource_current_pool(context, NULL), CUSTODY_E_INVALID);
	ck_is(custody_resource_pinned(NULL, 0, &resource), CUSTODY_E_INVALID);
	ck_is(custody_resource_pinned_pool(context, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_resource_managed(NULL, true, &resource), CUSTODY_E_INVALID);
	ck_is(custody_resource_managed_pool(context, nowhere, NULL), CUSTODY_E_INVALID);
	ck_is(custody_resource_virtual(context, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_resource_graph(NULL, &resource), CUSTODY_E_INVALID);
	ck_is(custody_resource_custom(context, NULL, NULL, &resource), CUSTODY_E_INVALID);
	ck_is(custody_resource_info(NULL, &info), CUSTODY_E_INVALID);
	ck_is(custody_resource_info(resource, NULL), CUSTODY_E_INVALID);
	ck_is(custody_resource_allocate(NULL, 1, NULL, (void **)&buffer), CUSTODY_E_INVALID);
	ck_is(custody_resource_allocate(resource, 1, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_resource_deallocate(NULL, NULL, 0, NULL), CUSTODY_E_INVALID);
	ck_is(custody_pool_attribute(resource, CUSTODY_POOL_USED_HIGH, &value), CUSTODY_E_INVALID);
	ck_is(custody_pool_set_attribute(NULL, CUSTODY_POOL_USED_HIGH, 0), CUSTODY_E_INVALID);
	ck_is(custody_pool_trim(resource, 0), CUSTODY_E_INVALID);
	ck_is(custody_pool_set_access(resource, fixture_device(0), true), CUSTODY_E_INVALID);
	ck_is(custody_pool_set_access(resource, NULL, true), CUSTODY_E_INVALID);
	ck_is(custody_virtual_grow(NULL, 1, &buffer), CUSTODY_E_INVALID);
	ck_is(custody_resource_export(resource, &descriptor), CUSTODY_E_UNSUPPORTED);
	ck_is(custody_resource_export(NULL, &descriptor), CUSTODY_E_INVALID);
	ck_is(custody_resource_import(context, -1, &resource), CUSTODY_E_INVALID);
	ck_is(custody_device_resource(NULL, &resource), CUSTODY_E_INVALID);
	ck_is(custody_device_set_resource(NULL, NULL), CUSTODY_E_INVALID);
	ck_ok(custody_resource_release(NULL));
	custody_resource_retain(NULL);
	ck_assert_ptr_null(custody_resource_context(NULL));
}
END_TEST

/* ------------------------------------------------------------ references */

START_TEST(a_resource_ends_with_its_last_buffer)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = device_resource(context);
	struct custody_buffer *buffer;

	ck_ok(custody_buffer_create(resource, KIB, NULL, &buffer));
	ck_ok(custody_resource_release(resource));
	ck_assert_ptr_eq(custody_buffer_resource(buffer), resource);
	ck_ok(custody_buffer_fill(buffer, "x", 1, NULL));
	ck_ok(custody_buffer_release(buffer));
}
END_TEST

START_TEST(what_was_allocated_without_a_buffer_ends_with_the_resource)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = device_resource(context);
	size_t before = fixture_free_bytes(context);

	allocate(resource, 8 * MIB);
	allocate(resource, 8 * MIB);
	ck_assert_uint_lt(fixture_free_bytes(context), before);
	ck_ok(custody_resource_release(resource));
	ck_ok(custody_flush(context, true));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

/* ------------------------------------------------------------ resets */

START_TEST(a_reset_frees_and_makes_stale)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = device_resource(context);
	size_t before = fixture_free_bytes(context);
	void *pointer = allocate(resource, 8 * MIB);

	ck_ok(custody_context_reset(context));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
	ck_is(custody_resource_allocate(resource, KIB, NULL, &pointer), CUSTODY_E_STALE);
	ck_is(custody_resource_deallocate(resource, pointer, 8 * MIB, NULL), CUSTODY_E_STALE);
	ck_ok(custody_resource_release(resource));
}
END_TEST

START_TEST(a_resource_is_released_after_the_device_was_reset)
{
	struct custody_resource *resource = device_resource(fixture_context(0)), *pool;

	ck_ok(custody_resource_pool(fixture_context(0), NULL, &pool));
	allocate(resource, KIB);
	allocate(pool, KIB);
	ck_ok(custody_device_reset(fixture_device(0)));
	ck_ok(custody_resource_release(resource));
	ck_ok(custody_resource_release(pool));
	ck_ok(custody_context_synchronize(fixture_context(0)));
}
END_TEST

static void note_end(void *owner, struct custody_stream *stream)
{
	(void)stream;
	++*(int *)owner;
}

/* The driver does not take back what is of pools and mappings then. */
START_TEST(what_outlives_a_context_that_somebody_else_has_ended_is_given_back)
{
	struct custody_context *context = fixture_context(0);
	size_t before = fixture_free_bytes(context);
	struct custody_resource *pool, *virtual, *device = device_resource(context);
	struct custody_buffer *buffers[4];
	int ends = 0;

	ck_ok(custody_resource_pool(context, NULL, &pool));
	ck_ok(custody_resource_virtual(context, NULL, &virtual));
	ck_ok(custody_buffer_create(pool, 8 * MIB, NULL, &buffers[0]));
	ck_ok(custody_buffer_create(virtual, 8 * MIB, NULL, &buffers[1]));
	ck_ok(custody_buffer_create(device, 8 * MIB, NULL, &buffers[2]));
	ck_ok(custody_buffer_wrap(context, &ends, sizeof(ends), note_end, &ends, &buffers[3]));
	allocate(pool, MIB);
	ck_cu(cuDevicePrimaryCtxReset(0));
	ck_assert_int_ne(custody_buffer_fill(buffers[0], "x", 1, NULL), 0);
	ck_is(custody_buffer_fill(buffers[1], "x", 1, NULL), CUSTODY_E_STALE);
	for (int i = 0; i < 4; i++)
		ck_ok(custody_buffer_release(buffers[i]));
	ck_ok(custody_resource_release(pool));
	ck_ok(custody_resource_release(virtual));
	ck_ok(custody_resource_release(device));
	ck_assert_int_eq(ends, 1);
	ck_ok(custody_context_synchronize(context));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

/* ------------------------------------------------------------ the device's resource */

START_TEST(a_device_has_the_device_resource_at_first)
{
	struct custody_resource *resource, *again;

	ck_ok(custody_device_resource(fixture_device(0), &resource));
	ck_assert_int_eq(info_of(resource).kind, CUSTODY_RESOURCE_DEVICE);
	ck_ok(custody_device_resource(fixture_device(0), &again));
	ck_assert_ptr_eq(resource, again);
}
END_TEST

START_TEST(what_names_no_resource_comes_from_that_of_the_device)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool;
	struct custody_buffer *buffer;

	ck_ok(custody_resource_pool(context, NULL, &pool));
	ck_ok(custody_device_set_resource(fixture_device(0), pool));
	ck_ok(custody_resource_release(pool));
	ck_ok(custody_buffer_create(NULL, KIB, NULL, &buffer));
	ck_assert_ptr_eq(custody_buffer_resource(buffer), pool);
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_device_set_resource(fixture_device(0), NULL));
	ck_ok(custody_buffer_create(NULL, KIB, NULL, &buffer));
	ck_assert_int_eq(info_of(custody_buffer_resource(buffer)).kind, CUSTODY_RESOURCE_DEVICE);
	ck_ok(custody_buffer_release(buffer));
}
END_TEST

START_TEST(a_reset_leaves_a_device_with_the_device_resource)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool, *found;

	ck_ok(custody_resource_pool(context, NULL, &pool));
	ck_ok(custody_device_set_resource(fixture_device(0), pool));
	ck_ok(custody_context_reset(context));
	ck_ok(custody_device_resource(fixture_device(0), &found));
	ck_assert_int_eq(info_of(found).kind, CUSTODY_RESOURCE_DEVICE);
	ck_ok(custody_resource_release(pool));
}
END_TEST

START_TEST(a_resource_of_another_device_is_refused)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	ck_is(custody_device_set_resource(fixture_device(0), device_resource(fixture_context(1))),
	      CUSTODY_E_MISMATCH);
}
END_TEST

/* A buffer was freed with another device current. */
START_TEST(memory_comes_and_goes_in_the_context_of_its_resource)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	struct custody_context *first = fixture_context(0), *second = fixture_context(1);
	struct custody_resource *resource = device_resource(second);
	size_t before = fixture_free_bytes(second);
	CUcontext current = NULL;
	void *pointer;

	ck_ok(custody_context_push(first));
	pointer = allocate(resource, 8 * MIB);
	ck_assert_uint_lt(fixture_free_bytes(second), before);
	ck_ok(custody_resource_deallocate(resource, pointer, 8 * MIB, NULL));
	ck_ok(custody_flush(second, true));
	ck_assert_uint_eq(fixture_free_bytes(second), before);
	ck_cu(cuCtxGetCurrent(&current));
	ck_assert_ptr_eq(current, custody_context_handle(first));
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("resource");
	TCase *memory = tcase_create("memory"), *life = tcase_create("life");

	tcase_add_test(memory, no_bytes_are_no_memory_and_no_call_of_the_driver);
	tcase_add_test(memory, memory_of_another_is_unknown);
	tcase_add_test(memory, another_size_is_a_mismatch_that_names_both);
	tcase_add_test(memory, a_second_free_is_refused);
	tcase_add_test(memory, an_address_that_comes_again_is_memory_again);
	tcase_add_test(memory, of_threads_that_free_one_block_one_does);
	tcase_add_test(memory, many_blocks_are_known_and_freed);
	tcase_add_test(memory, a_free_of_device_memory_does_not_wait_for_work);
	tcase_add_test(memory, a_free_of_pinned_memory_does_not_wait_and_comes_after_the_copy);
	tcase_add_test(memory, a_free_of_managed_memory_does_not_wait_for_work);
	tcase_add_test(memory, resources_say_who_reaches_their_memory);
	tcase_add_test(memory, flags_of_pinned_memory_reach_the_driver);
	tcase_add_test(memory, a_device_without_managed_memory_says_so);
	tcase_add_test(memory, arguments_are_checked_on_every_call);
	tcase_add_test(life, a_resource_ends_with_its_last_buffer);
	tcase_add_test(life, what_was_allocated_without_a_buffer_ends_with_the_resource);
	tcase_add_test(life, a_reset_frees_and_makes_stale);
	tcase_add_test(life, a_resource_is_released_after_the_device_was_reset);
	tcase_add_test(life, what_outlives_a_context_that_somebody_else_has_ended_is_given_back);
	tcase_add_test(life, a_device_has_the_device_resource_at_first);
	tcase_add_test(life, what_names_no_resource_comes_from_that_of_the_device);
	tcase_add_test(life, a_reset_leaves_a_device_with_the_device_resource);
	tcase_add_test(life, a_resource_of_another_device_is_refused);
	tcase_add_test(life, memory_comes_and_goes_in_the_context_of_its_resource);
	suite_add_tcase(suite, memory);
	suite_add_tcase(suite, life);
	return suite;
}
