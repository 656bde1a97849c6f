/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of the driver's pools. */
#include "fixture.h"

static struct custody_resource *pool_with(struct custody_context *context,
					  const struct custody_pool_options *options)
{
	struct custody_resource *pool = NULL;

	ck_ok(custody_resource_pool(context, options, &pool));
	ck_assert_ptr_nonnull(pool);
	return pool;
}

static struct custody_stream *stream_of(struct custody_context *context)
{
	struct custody_stream *stream = NULL;

	ck_ok(custody_stream_create(context, NULL, &stream));
	return stream;
}

static uint64_t ask(struct custody_resource *pool, enum custody_pool_attribute attribute)
{
	uint64_t value = 0;

	ck_ok(custody_pool_attribute(pool, attribute, &value));
	return value;
}

static struct custody_resource_info info_of(struct custody_resource *resource)
{
	struct custody_resource_info info = { .size = sizeof(info) };

	ck_ok(custody_resource_info(resource, &info));
	return info;
}

/* ------------------------------------------------------------ own pools */

START_TEST(a_pool_keeps_its_memory_unless_a_threshold_is_set)
{
	struct custody_context *context = fixture_context(0);
	const struct custody_pool_options options = {
		.size = sizeof(options), .has_release_threshold = true, .release_threshold = 123
	};

	ck_assert_uint_eq(ask(pool_with(context, NULL), CUSTODY_POOL_RELEASE_THRESHOLD),
			  UINT64_MAX);
	ck_assert_uint_eq(ask(pool_with(context, &options), CUSTODY_POOL_RELEASE_THRESHOLD), 123);
}
END_TEST

START_TEST(an_own_pool_ends_with_its_resource)
{
	struct custody_context *context = fixture_context(0);
	size_t before = fixture_free_bytes(context);
	struct custody_resource *pool = pool_with(context, NULL);
	struct custody_stream *stream = stream_of(context);
	struct custody_buffer *buffer;

	ck_assert(info_of(pool).is_owned);
	ck_assert_int_eq(info_of(pool).kind, CUSTODY_RESOURCE_POOL);
	ck_ok(custody_buffer_create(pool, 8 * MIB, stream, &buffer));
	ck_assert_uint_lt(fixture_free_bytes(context), before);
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_resource_release(pool));
	ck_ok(custody_context_synchronize(context));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

START_TEST(options_that_nobody_knows_are_refused)
{
	struct {
		struct custody_pool_options options;
		uint64_t more;
	} given = { .options = { .size = sizeof(given) } };
	struct custody_resource *pool;

	ck_ok(custody_resource_pool(fixture_context(0), &given.options, &pool));
	given.more = 1;
	ck_is(custody_resource_pool(fixture_context(0), &given.options, &pool), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(without_pools_of_the_driver_there_are_none)
{
	struct custody_resource *pool;

	setenv("SIMCUDA_POOLS", "0", 1);
	ck_is(custody_resource_pool(fixture_context(0), NULL, &pool), CUSTODY_E_UNSUPPORTED);
	ck_is(custody_resource_current_pool(fixture_context(0), &pool), CUSTODY_E_UNSUPPORTED);
	ck_is(custody_resource_graph(fixture_context(0), &pool), CUSTODY_E_UNSUPPORTED);
	ck_is(custody_resource_pinned_pool(fixture_context(0), NULL, &pool), CUSTODY_E_UNSUPPORTED);
}
END_TEST

/* ------------------------------------------------------------ the current pool */

static CUmemoryPool current_pool(void)
{
	CUmemoryPool pool = NULL;

	ck_cu(cuDeviceGetMemPool(&pool, 0));
	return pool;
}

static uint64_t threshold_of(CUmemoryPool pool)
{
	uint64_t threshold = 1;

	ck_cu(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	return threshold;
}

START_TEST(the_current_pool_is_borrowed_and_keeps_its_memory_from_now_on)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool;

	ck_assert_uint_eq(threshold_of(current_pool()), 0);
	ck_ok(custody_resource_current_pool(context, &pool));
	ck_assert(!info_of(pool).is_owned);
	ck_assert_uint_eq(threshold_of(current_pool()), UINT64_MAX);
	ck_ok(custody_resource_release(pool));
	ck_assert_uint_eq(threshold_of(current_pool()), UINT64_MAX);
}
END_TEST

START_TEST(a_threshold_that_somebody_has_set_stays)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool;
	uint64_t threshold = 77;

	ck_cu(cuMemPoolSetAttribute(current_pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	ck_ok(custody_resource_current_pool(context, &pool));
	ck_assert_uint_eq(threshold_of(current_pool()), 77);
}
END_TEST

/* ------------------------------------------------------------ attributes */

START_TEST(attributes_are_read_and_written)
{
	struct custody_resource *pool = pool_with(fixture_context(0), NULL);

	for (int i = CUSTODY_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES;
	     i <= CUSTODY_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES; i++) {
		ck_assert_uint_eq(ask(pool, (enum custody_pool_attribute)i), 1);
		ck_ok(custody_pool_set_attribute(pool, (enum custody_pool_attribute)i, 0));
		ck_assert_uint_eq(ask(pool, (enum custody_pool_attribute)i), 0);
		ck_is(custody_pool_set_attribute(pool, (enum custody_pool_attribute)i, 2),
		      CUSTODY_E_INVALID);
	}
	ck_ok(custody_pool_set_attribute(pool, CUSTODY_POOL_RELEASE_THRESHOLD, 5));
	ck_assert_uint_eq(ask(pool, CUSTODY_POOL_RELEASE_THRESHOLD), 5);
}
END_TEST

START_TEST(use_is_counted_and_its_mark_begins_anew)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = pool_with(context, NULL);
	struct custody_stream *stream = stream_of(context);
	void *pointer;

	ck_ok(custody_resource_allocate(pool, MIB, stream, &pointer));
	ck_assert_uint_eq(ask(pool, CUSTODY_POOL_USED_CURRENT), MIB);
	ck_assert_uint_ge(ask(pool, CUSTODY_POOL_RESERVED_CURRENT), MIB);
	ck_ok(custody_resource_deallocate(pool, pointer, MIB, stream));
	ck_assert_uint_eq(ask(pool, CUSTODY_POOL_USED_CURRENT), 0);
	ck_assert_uint_eq(ask(pool, CUSTODY_POOL_USED_HIGH), MIB);
	ck_is(custody_pool_set_attribute(pool, CUSTODY_POOL_USED_HIGH, 1), CUSTODY_E_INVALID);
	ck_ok(custody_pool_set_attribute(pool, CUSTODY_POOL_USED_HIGH, 0));
	ck_assert_uint_eq(ask(pool, CUSTODY_POOL_USED_HIGH), 0);
	ck_is(custody_pool_set_attribute(pool, CUSTODY_POOL_USED_CURRENT, 0), CUSTODY_E_INVALID);
	ck_is(custody_pool_set_attribute(pool, CUSTODY_POOL_RESERVED_CURRENT, 0),
	      CUSTODY_E_INVALID);
	ck_is(custody_pool_set_attribute(pool, (enum custody_pool_attribute)99, 0),
	      CUSTODY_E_INVALID);
}
END_TEST

START_TEST(what_is_unused_is_given_back_when_asked)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = pool_with(context, NULL);
	struct custody_stream *stream = stream_of(context);
	size_t before = fixture_free_bytes(context);
	void *pointer;

	ck_ok(custody_resource_allocate(pool, MIB, stream, &pointer));
	ck_ok(custody_resource_deallocate(pool, pointer, MIB, stream));
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_uint_lt(fixture_free_bytes(context), before);
	ck_ok(custody_pool_trim(pool, 0));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

/* ------------------------------------------------------------ access */

START_TEST(another_device_is_let_in_and_out)
{
	struct custody_resource *pool;
	bool can_access = true;

	setenv("SIMCUDA_DEVICES", "2", 1);
	pool = pool_with(fixture_context(0), NULL);
	ck_ok(custody_pool_has_access(pool, fixture_device(1), &can_access));
	ck_assert(!can_access);
	ck_ok(custody_pool_has_access(pool, fixture_device(0), &can_access));
	ck_assert(can_access);
	ck_ok(custody_pool_set_access(pool, fixture_device(1), true));
	ck_ok(custody_pool_has_access(pool, fixture_device(1), &can_access));
	ck_assert(can_access);
	ck_ok(custody_pool_set_access(pool, fixture_device(1), false));
	ck_ok(custody_pool_has_access(pool, fixture_device(1), &can_access));
	ck_assert(!can_access);
}
END_TEST

/* A pool inherited the access of the one whose handle it got. */
START_TEST(access_is_taken_away_before_a_pool_is_destroyed)
{
	struct custody_resource *pool;

	setenv("SIMCUDA_DEVICES", "2", 1);
	fixture_watch();
	pool = pool_with(fixture_context(0), NULL);
	ck_ok(custody_pool_set_access(pool, fixture_device(1), true));
	fixture_forget();
	ck_ok(custody_resource_release(pool));
	ck_assert_uint_eq(fixture_calls("cuMemPoolSetAccess"), 1);
	ck_assert_uint_eq(fixture_calls("cuMemPoolDestroy"), 1);
	fixture_forget();
	ck_ok(custody_resource_release(pool_with(fixture_context(0), NULL)));
	ck_assert_uint_eq(fixture_calls("cuMemPoolSetAccess"), 0);
}
END_TEST

/* ------------------------------------------------------------ captures */

START_TEST(a_pool_refuses_a_stream_that_is_capturing)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = pool_with(context, NULL);
	struct custody_stream *stream = stream_of(context);
	void *pointer = &pointer;
	CUgraph graph;

	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_is(custody_resource_allocate(pool, KIB, stream, &pointer), CUSTODY_E_CAPTURING);
	ck_assert_ptr_eq(pointer, &pointer);
	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_cu(cuGraphDestroy(graph));
}
END_TEST

/* The first touch of a pool set an attribute, which a capture did not survive. */
START_TEST(pools_are_made_used_and_asked_while_another_stream_captures)
{
	struct custody_context *context = fixture_context(0);
	const struct custody_stream_options options = { .size = sizeof(options),
							.is_nonblocking = true };
	struct custody_stream *capturing, *other;
	struct custody_resource *pool, *current;
	struct custody_buffer *buffer;
	CUgraph graph;

	ck_ok(custody_stream_create(context, &options, &capturing));
	ck_ok(custody_stream_create(context, &options, &other));
	ck_ok(custody_stream_begin_capture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
	pool = pool_with(context, NULL);
	ck_ok(custody_resource_current_pool(context, &current));
	ck_ok(custody_buffer_create(pool, KIB, other, &buffer));
	ck_assert_uint_ge(ask(pool, CUSTODY_POOL_USED_CURRENT), KIB);
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_pool_trim(pool, 0));
	ck_ok(custody_resource_release(pool));
	ck_ok(custody_stream_end_capture(capturing, &graph));
	ck_cu(cuGraphDestroy(graph));
}
END_TEST

/* ------------------------------------------------------------ streams */

START_TEST(without_a_stream_the_memory_is_there_for_all_of_them)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = pool_with(context, NULL);
	struct custody_buffer *buffer;

	ck_ok(custody_buffer_create(pool, KIB, NULL, &buffer));
	ck_ok(custody_buffer_fill(buffer, "x", 1, stream_of(context)));
	ck_ok(custody_context_synchronize(context));
	ck_ok(custody_buffer_release(buffer));
}
END_TEST

START_TEST(a_stream_of_another_context_gives_no_memory)
{
	struct custody_resource *pool;
	void *pointer;

	setenv("SIMCUDA_DEVICES", "2", 1);
	pool = pool_with(fixture_context(0), NULL);
	ck_is(custody_resource_allocate(pool, KIB, stream_of(fixture_context(1)), &pointer),
	      CUSTODY_E_MISMATCH);
}
END_TEST

/* ------------------------------------------------------------ pools of host memory */

START_TEST(memory_of_a_pinned_pool_is_reached_by_host_and_device)
{
	struct custody_context *context = fixture_context(0);
	const struct custody_pinned_pool_options options = { .size = sizeof(options),
							     .has_numa_node = true };
	struct custody_stream *stream = stream_of(context);
	struct custody_resource *pools[2];
	struct custody_buffer *buffer;
	struct custody_buffer_info info = { .size = sizeof(info) };
	bool can_access = false;

	ck_ok(custody_resource_pinned_pool(context, NULL, &pools[0]));
	ck_ok(custody_resource_pinned_pool(context, &options, &pools[1]));
	for (int i = 0; i < 2; i++) {
		ck_ok(custody_pool_has_access(pools[i], fixture_device(0), &can_access));
		ck_assert(can_access);
		ck_ok(custody_buffer_create(pools[i], KIB, stream, &buffer));
		ck_ok(custody_buffer_fill(buffer, "p", 1, stream));
		ck_ok(custody_stream_synchronize(stream));
		ck_ok(custody_buffer_info(buffer, &info));
		ck_assert_int_eq(((char *)info.host_pointer)[KIB - 1], 'p');
		ck_assert_int_eq(info.device, -1);
		ck_assert_int_eq(info_of(pools[i]).kind, CUSTODY_RESOURCE_PINNED_POOL);
		ck_ok(custody_buffer_release(buffer));
		ck_ok(custody_resource_release(pools[i]));
	}
}
END_TEST

START_TEST(a_node_that_there_is_not_is_refused)
{
	struct custody_pinned_pool_options options = { .size = sizeof(options),
						       .has_numa_node = true,
						       .numa_node = -3 };
	struct custody_resource *pool = NULL;

	ck_is(custody_resource_pinned_pool(fixture_context(0), &options, &pool),
	      CUSTODY_E_INVALID);
	options.numa_node = 7;
	ck_is(custody_resource_pinned_pool(fixture_context(0), &options, &pool),
	      CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_ptr_null(pool);
}
END_TEST

START_TEST(memory_of_a_managed_pool_is_managed)
{
	static const struct custody_location places[] = { { CUSTODY_LOCATION_NONE, 0 },
							  { CUSTODY_LOCATION_DEVICE, 0 },
							  { CUSTODY_LOCATION_HOST, 0 } };
	const struct custody_location wrong = { (enum custody_location_kind)9, 0 };
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = NULL;
	struct custody_buffer *buffer;
	struct custody_buffer_info info = { .size = sizeof(info) };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		ck_ok(custody_resource_managed_pool(context, places[i], &pool));
		ck_ok(custody_buffer_create(pool, KIB, stream_of(context), &buffer));
		ck_ok(custody_buffer_info(buffer, &info));
		ck_assert(info.is_managed && info.is_host_accessible && info.is_device_accessible);
		memset(info.host_pointer, 1, KIB);
		ck_ok(custody_managed_prefetch(buffer, places[1], NULL));
		ck_ok(custody_buffer_release(buffer));
		ck_ok(custody_resource_release(pool));
	}
	ck_is(custody_resource_managed_pool(context, wrong, &pool), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(a_driver_before_managed_pools_says_so)
{
	const struct custody_location nowhere = { CUSTODY_LOCATION_NONE, 0 };
	struct custody_resource *pool = NULL;

	setenv("SIMCUDA_VERSION", "12090", 1);
	ck_is(custody_resource_managed_pool(fixture_context(0), nowhere, &pool),
	      CUSTODY_E_UNSUPPORTED);
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("pool");
	TCase *pools = tcase_create("pools"), *streams = tcase_create("streams");

	tcase_add_test(pools, a_pool_keeps_its_memory_unless_a_threshold_is_set);
	tcase_add_test(pools, an_own_pool_ends_with_its_resource);
	tcase_add_test(pools, options_that_nobody_knows_are_refused);
	tcase_add_test(pools, without_pools_of_the_driver_there_are_none);
	tcase_add_test(pools, the_current_pool_is_borrowed_and_keeps_its_memory_from_now_on);
	tcase_add_test(pools, a_threshold_that_somebody_has_set_stays);
	tcase_add_test(pools, attributes_are_read_and_written);
	tcase_add_test(pools, use_is_counted_and_its_mark_begins_anew);
	tcase_add_test(pools, what_is_unused_is_given_back_when_asked);
	tcase_add_test(pools, another_device_is_let_in_and_out);
	tcase_add_test(pools, access_is_taken_away_before_a_pool_is_destroyed);
	tcase_add_test(pools, memory_of_a_pinned_pool_is_reached_by_host_and_device);
	tcase_add_test(pools, a_node_that_there_is_not_is_refused);
	tcase_add_test(pools, memory_of_a_managed_pool_is_managed);
	tcase_add_test(pools, a_driver_before_managed_pools_says_so);
	tcase_add_test(streams, a_pool_refuses_a_stream_that_is_capturing);
	tcase_add_test(streams, pools_are_made_used_and_asked_while_another_stream_captures);
	tcase_add_test(streams, without_a_stream_the_memory_is_there_for_all_of_them);
	tcase_add_test(streams, a_stream_of_another_context_gives_no_memory);
	suite_add_tcase(suite, pools);
	suite_add_tcase(suite, streams);
	return suite;
}
