/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of arrays on streams, and what the library keeps until a stream has passed. */
#include "arrays.h"

#include <pthread.h>

static struct custody_context *context;

static void begin(void)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	fixture_watch();
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
	fixture_forget();
}

static struct custody_array *make(const struct custody_layout *layout)
{
	return make_array(context, layout);
}

static void destroy(struct custody_array *array)
{
	ck_ok(custody_array_destroy(array));
}

/* Element (i, j) is 10 i + j. */
static void check_table(struct custody_array *array)
{
	struct custody_layout layout = layout_of(array);

	for (size_t i = 0; i < layout.shape[0]; i++)
		for (size_t j = 0; j < layout.shape[1]; j++)
			ck_assert_int_eq(peek(array, (ptrdiff_t)i * layout.strides[0] +
							     (ptrdiff_t)j * layout.strides[1]),
					 (int32_t)(10 * i + j));
}

/* ------------------------------------------------------------------ whose stream */

START_TEST(copy_on_a_stream_returns_before_it_is_done)
{
	struct custody_stream *stream = make_stream(context);
	struct custody_array *source = make_counting(context, 12), *target;
	struct custody_layout layout = line_of(12);
	bool is_done = true;

	target = make(&layout);
	ck_ok(custody_array_fill(target, &(int32_t){ 0 }, NULL));
	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_array_copy(target, source, stream));
	ck_ok(custody_stream_query(stream, &is_done));
	ck_assert(!is_done);
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
	ck_assert_int_eq(peek(target, 44), 11);
	destroy(target);
	destroy(source);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(stream_that_is_bound_is_used_where_none_is_given)
{
	struct custody_stream *stream = make_stream(context), *given = make_stream(context);
	struct custody_array *array = make_counting(context, 12), *bound;
	struct custody_array *target;
	struct custody_layout layout = line_of(12);
	bool is_done = true;

	ck_ok(custody_array_bind(array, stream, &bound));
	ck_ok(custody_array_create(context, &layout, NULL, given, &target));
	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_array_copy(target, bound, NULL)); /* the target's own comes first */
	ck_ok(custody_stream_synchronize(given));
	ck_ok(custody_array_copy(bound, target, NULL));
	ck_ok(custody_stream_query(given, &is_done));
	ck_assert(is_done);
	ck_ok(custody_stream_query(stream, &is_done));
	ck_assert(!is_done);
	fixture_release();
	ck_assert_int_eq(peek(target, 44), 11);
	destroy(bound);
	destroy(target);
	destroy(array);
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_stream_destroy(given));
}
END_TEST

START_TEST(bound_stream_that_was_destroyed_lives_as_long_as_its_arrays)
{
	struct custody_stream *stream = make_stream(context);
	struct custody_array *array = make_counting(context, 12), *bound;
	int32_t values[12];

	ck_ok(custody_array_bind(array, stream, &bound));
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_array_copy_to_host(bound, values, NULL, NULL));
	ck_ok(custody_context_synchronize(context));
	ck_assert_int_eq(values[11], 11);
	destroy(bound);
	destroy(array);
}
END_TEST

static const bool binds[] = { false, true };

START_TEST(pool_memory_was_handed_out_anew_while_another_stream_copied_it)
{
	struct custody_stream *home = make_stream(context), *other = make_stream(context);
	struct custody_layout layout = line_of(MIB);
	struct custody_array *array, *bound = NULL;
	struct custody_resource *resource;
	unsigned int waits;

	ck_ok(custody_resource_pool(context, NULL, &resource));
	ck_ok(custody_array_create(context, &layout, resource, home, &array));
	if (binds[_i])
		ck_ok(custody_array_bind(array, other, &bound));
	else
		ck_ok(custody_array_fill(array, &(int32_t){ 1 }, other));
	ck_ok(custody_array_destroy(bound));
	waits = fixture_calls("cuStreamWaitEvent");
	destroy(array);
	ck_assert_uint_gt(fixture_calls("cuStreamWaitEvent"), waits);
	ck_ok(custody_array_create(context, &layout, resource, home, &array));
	ck_ok(custody_array_fill(array, &(int32_t){ 1 }, home));
	waits = fixture_calls("cuStreamWaitEvent");
	destroy(array);
	ck_assert_uint_eq(fixture_calls("cuStreamWaitEvent"), waits);
	ck_ok(custody_resource_release(resource));
	ck_ok(custody_stream_destroy(home));
	ck_ok(custody_stream_destroy(other));
}
END_TEST

/* ------------------------------------------------------------------ temporaries */

/* The simulated driver reads ahead; that the temporary stays is told by the event behind it. */
START_TEST(temporary_of_a_reordering_copy_was_dropped_while_the_copy_ran)
{
	struct custody_stream *stream = make_stream(context);
	struct custody_layout layout = table_of(64, 32), host = layout;
	struct custody_array *array = make(&layout);
	int32_t *values = malloc(64 * 32 * 4);

	host.order = CUSTODY_ORDER_F;
	for (size_t i = 0; i < 64; i++)
		for (size_t j = 0; j < 32; j++)
			values[j * 64 + i] = (int32_t)(10 * i + j);
	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_array_copy_from_host(array, values, &host, stream));
	memset(values, 0xff, 64 * 32 * 4); /* the library has read it */
	free(values);
	for (int i = 0; i < 64; i++) {
		void *other = malloc(64 * 32 * 4);

		memset(other, 0xee, 64 * 32 * 4);
		free(other);
	}
	ck_assert_uint_eq(fixture_calls("cuEventCreate"), 1);
	ck_assert_uint_eq(fixture_calls("cuEventRecord"), 1);
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
	check_table(array);
	destroy(array);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

static unsigned int reorder(struct custody_array *array, struct custody_stream *stream)
{
	static int32_t values[1 << 18];
	struct custody_layout host = layout_of(array);

	host.has_strides = false;
	host.order = CUSTODY_ORDER_F;
	ck_ok(custody_array_copy_from_host(array, values, &host, stream));
	return fixture_calls("cuEventDestroy_v2");
}

START_TEST(temporaries_go_with_the_next_copy_after_the_stream_has_passed)
{
	struct custody_stream *stream = make_stream(context);
	struct custody_layout layout = table_of(512, 512);
	struct custody_array *array = make(&layout);
	unsigned int queries;

	fixture_hold(custody_stream_handle(stream));
	reorder(array, stream);
	ck_assert_uint_eq(fixture_calls("cuEventCreate"), 1);
	fixture_forget();
	reorder(array, stream);
	queries = fixture_calls("cuEventQuery");
	ck_assert_uint_eq(queries, 1);
	fixture_release();
	ck_ok(custody_stream_synchronize(stream));
	ck_ok(custody_array_fill(array, &(int32_t){ 0 }, NULL));
	ck_assert_uint_eq(fixture_calls("cuEventQuery"), queries + 2);
	fixture_forget();
	ck_ok(custody_array_fill(array, &(int32_t){ 0 }, NULL));
	ck_assert_uint_eq(fixture_calls("cuEventQuery"), 0);
	destroy(array);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(temporaries_end_with_their_context)
{
	struct custody_stream *stream = make_stream(context);
	struct custody_layout layout = table_of(512, 512);
	struct custody_array *array = make(&layout);

	reorder(array, stream);
	fixture_forget();
	ck_ok(custody_context_reset(context));
	ck_assert_uint_ge(fixture_calls("cuEventDestroy_v2"), 1);
	destroy(array);
	array = make(&layout);
	reorder(array, NULL);
	ck_ok(custody_device_reset(fixture_device(0)));
	destroy(array);
	ck_ok(custody_stream_destroy(stream));
	array = make(&layout);
	fixture_forget();
	ck_ok(custody_array_fill(array, &(int32_t){ 0 }, NULL));
	ck_assert_uint_eq(fixture_calls("cuEventQuery"), 0);
	destroy(array);
	array = make(&layout);
	reorder(array, stream = make_stream(context));
	ck_ok(custody_shutdown());
	destroy(array);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

START_TEST(temporary_of_a_context_that_was_lost_is_not_asked_about)
{
	struct custody_stream *stream = make_stream(context);
	struct custody_layout layout = table_of(512, 512);
	struct custody_array *array = make(&layout);

	reorder(array, stream);
	ck_cu(cuDevicePrimaryCtxReset(custody_device_handle(fixture_device(0))));
	ck_is(custody_array_fill(array, &(int32_t){ 0 }, NULL), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_is(custody_array_fill(array, &(int32_t){ 0 }, NULL), CUSTODY_E_STALE);
	destroy(array);
	ck_ok(custody_stream_destroy(stream));
	array = make(&layout);
	fixture_forget();
	reorder(array, NULL);
	ck_assert_uint_eq(fixture_calls("cuEventQuery"), 0);
	ck_assert_uint_eq(fixture_calls("cuEventDestroy_v2"), 0);
	destroy(array);
}
END_TEST

START_TEST(synchronous_reordering_copy_keeps_nothing)
{
	struct custody_layout layout = table_of(512, 512);
	struct custody_array *array = make(&layout);

	fixture_forget();
	reorder(array, NULL);
	ck_assert_uint_eq(fixture_calls("cuEventCreate"), 0);
	destroy(array);
}
END_TEST

START_TEST(graph_would_have_kept_a_temporary_for_ever)
{
	struct custody_stream_options options = { .size = sizeof(options), .is_nonblocking = true };
	struct custody_layout layout = table_of(8, 8), host = layout;
	struct custody_array *array = make(&layout);
	struct custody_stream *stream;
	int32_t values[64] = { 0 };
	CUgraph graph;

	ck_ok(custody_stream_create(context, &options, &stream));
	host.order = CUSTODY_ORDER_F;
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_is(custody_array_copy_from_host(array, values, &host, stream), CUSTODY_E_CAPTURING);
	ck_ok(custody_array_fill(array, &(int32_t){ 3 }, stream));
	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_cu(cuGraphDestroy(graph));
	destroy(array);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

/* ------------------------------------------------------------------ threads */

enum { THREADS = 8, TURNS = 40, ROWS = 48, COLUMNS = 32 };

/* Each has a device, a stream and an array of its own; the list of temporaries is all theirs. */
static void *copy_and_check(void *argument)
{
	const int number = *(int *)argument;
	struct custody_context *mine = fixture_context(number % 2);
	struct custody_stream *stream = make_stream(mine);
	struct custody_layout layout = table_of(ROWS, COLUMNS), host = layout;
	struct custody_array *array = make_array(mine, &layout);
	int32_t values[ROWS * COLUMNS], back[ROWS * COLUMNS];

	host.order = CUSTODY_ORDER_F;
	for (int turn = 0; turn < TURNS; turn++) {
		for (int i = 0; i < ROWS * COLUMNS; i++)
			values[i] = number * 1000000 + turn * 10000 + i;
		ck_ok(custody_array_copy_from_host(array, values, &host, stream));
		memset(values, 0, sizeof(values));
		ck_ok(custody_array_copy_to_host(array, back, NULL, stream));
		ck_ok(custody_stream_synchronize(stream));
		for (int i = 0; i < ROWS * COLUMNS; i++)
			ck_assert_int_eq(back[i % ROWS * COLUMNS + i / ROWS],
					 number * 1000000 + turn * 10000 + i);
	}
	destroy(array);
	ck_ok(custody_stream_destroy(stream));
	return NULL;
}

START_TEST(threads_share_the_list_of_temporaries)
{
	pthread_t threads[THREADS];
	int numbers[THREADS];

	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		ck_assert_int_eq(pthread_create(&threads[i], NULL, copy_and_check, &numbers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_ok(custody_shutdown());
}
END_TEST

static void begin_without_events(void)
{
	setenv("SIMCUDA_FAIL", "cuEventCreate:1:2", 1);
	begin();
}

START_TEST(stream_that_cannot_be_followed_is_waited_for)
{
	struct custody_stream *stream = make_stream(context);
	struct custody_layout layout = table_of(8, 8);
	struct custody_array *array = make(&layout);
	bool is_done = false;

	reorder(array, stream);
	ck_ok(custody_stream_query(stream, &is_done));
	ck_assert(is_done);
	destroy(array);
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("array_stream");
	TCase *tests = add_case(suite, "streams", begin);

	tcase_add_test(tests, copy_on_a_stream_returns_before_it_is_done);
	tcase_add_test(tests, stream_that_is_bound_is_used_where_none_is_given);
	tcase_add_test(tests, bound_stream_that_was_destroyed_lives_as_long_as_its_arrays);
	tcase_add_loop_test(tests,
			    pool_memory_was_handed_out_anew_while_another_stream_copied_it, 0, 2);
	tcase_add_test(tests, temporary_of_a_reordering_copy_was_dropped_while_the_copy_ran);
	tcase_add_test(tests, temporaries_go_with_the_next_copy_after_the_stream_has_passed);
	tcase_add_test(tests, temporaries_end_with_their_context);
	tcase_add_test(tests, temporary_of_a_context_that_was_lost_is_not_asked_about);
	tcase_add_test(tests, synchronous_reordering_copy_keeps_nothing);
	tcase_add_test(tests, graph_would_have_kept_a_temporary_for_ever);
	tests = add_case(suite, "threads", begin);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, threads_share_the_list_of_temporaries);
	tests = add_case(suite, "without events", begin_without_events);
	tcase_add_test(tests, stream_that_cannot_be_followed_is_waited_for);
	return suite;
}
