/* SPDX-License-Identifier: Apache-2.0 */
/* Where and when the memory of a buffer is freed, and what it waits for. */
#include "fixture.h"

#include <pthread.h>

static struct custody_stream *stream_of(struct custody_context *context)
{
	const struct custody_stream_options options = { .size = sizeof(options),
							.is_nonblocking = true };
	struct custody_stream *stream = NULL;

	ck_ok(custody_stream_create(context, &options, &stream));
	return stream;
}

static struct custody_resource *pool_of(struct custody_context *context)
{
	struct custody_resource *pool = NULL;

	ck_ok(custody_resource_pool(context, NULL, &pool));
	return pool;
}

static struct custody_resource *device_of(struct custody_context *context)
{
	struct custody_resource *resource = NULL;

	ck_ok(custody_resource_device(context, &resource));
	return resource;
}

static struct custody_buffer *make(struct custody_resource *resource, size_t bytes,
				   struct custody_stream *stream)
{
	struct custody_buffer *buffer = NULL;

	ck_ok(custody_buffer_create(resource, bytes, stream, &buffer));
	return buffer;
}

static void hold(struct custody_stream *stream)
{
	ck_ok(custody_context_push(custody_stream_context(stream)));
	fixture_hold(custody_stream_handle(stream));
	ck_ok(custody_context_pop(custody_stream_context(stream)));
}

/* Whether the pool hands the address out again for work in the stream. */
static bool comes_again(struct custody_resource *pool, size_t bytes, struct custody_stream *stream,
			const void *address)
{
	void *pointer;
	bool is_same;

	ck_ok(custody_resource_allocate(pool, bytes, stream, &pointer));
	is_same = pointer == address;
	ck_ok(custody_resource_deallocate(pool, pointer, bytes, stream));
	return is_same;
}

/* ------------------------------------------------------------ the free stream */

/* A destructor freed on the default stream instead of that of the allocation. */
START_TEST(memory_is_freed_on_the_stream_it_was_made_on)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = pool_of(context);
	struct custody_stream *own = stream_of(context), *other = stream_of(context);
	struct custody_buffer *buffer = make(pool, MIB, own);
	void *address = custody_buffer_pointer(buffer);

	hold(own);
	ck_ok(custody_buffer_release(buffer));
	ck_assert(comes_again(pool, MIB, own, address));
	ck_assert(!comes_again(pool, MIB, other, address));
	fixture_release();
}
END_TEST

START_TEST(another_free_stream_can_be_set_or_given)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = pool_of(context);
	struct custody_stream *own = stream_of(context), *other = stream_of(context);
	struct custody_buffer *buffer = make(pool, MIB, own);
	void *address = custody_buffer_pointer(buffer);

	hold(other);
	ck_ok(custody_buffer_set_free_stream(buffer, other));
	ck_ok(custody_buffer_release(buffer));
	ck_assert(comes_again(pool, MIB, other, address));
	ck_assert(!comes_again(pool, MIB, own, address));
	buffer = make(pool, 2 * MIB, own);
	address = custody_buffer_pointer(buffer);
	ck_ok(custody_buffer_close(buffer, other));
	ck_assert(comes_again(pool, 2 * MIB, other, address));
	ck_assert(!comes_again(pool, 2 * MIB, own, address));
	fixture_release();
	ck_is(custody_buffer_set_free_stream(buffer, NULL), CUSTODY_E_INVALID);
}
END_TEST

/* An allocator kept streams of others that were destroyed later. */
START_TEST(a_stream_lives_as_long_as_the_buffers_that_are_freed_on_it)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = pool_of(context);
	struct custody_stream *own = stream_of(context), *other = stream_of(context);
	struct custody_buffer *buffer = make(pool, MIB, own);

	ck_ok(custody_buffer_record_stream(buffer, other));
	ck_ok(custody_stream_destroy(own));
	ck_ok(custody_stream_destroy(other));
	ck_ok(custody_flush(context, true));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_context_synchronize(context));
}
END_TEST

START_TEST(a_foreign_stream_that_is_gone_is_not_named_any_more)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *wrapped;
	struct custody_buffer *buffer;
	CUstream handle;

	ck_ok(custody_context_push(context));
	ck_cu(cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING));
	ck_ok(custody_stream_wrap(context, handle, &wrapped));
	buffer = make(pool_of(context), MIB, wrapped);
	ck_ok(custody_stream_destroy(wrapped));
	ck_cu(cuStreamDestroy(handle));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_context_synchronize(context));
}
END_TEST

/* Frees on a stream that nobody uses or waits for let memory grow. */
START_TEST(a_pool_that_is_freed_on_its_streams_does_not_grow)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = pool_of(context);
	struct custody_stream *stream = stream_of(context);
	uint64_t reserved = 0, used = 1;

	for (int i = 0; i < 100; i++)
		ck_ok(custody_buffer_release(make(pool, 8 * MIB, stream)));
	ck_ok(custody_pool_attribute(pool, CUSTODY_POOL_RESERVED_HIGH, &reserved));
	ck_ok(custody_pool_attribute(pool, CUSTODY_POOL_USED_CURRENT, &used));
	ck_assert_uint_le(reserved, 64 * MIB);
	ck_assert_uint_eq(used, 0);
	ck_ok(custody_stream_synchronize(stream));
	ck_ok(custody_pool_trim(pool, 0));
	ck_ok(custody_pool_attribute(pool, CUSTODY_POOL_RESERVED_CURRENT, &reserved));
	ck_assert_uint_eq(reserved, 0);
}
END_TEST

/* ------------------------------------------------------------ recorded streams */

/* Nobody had recorded the stream, and a copy read what came next. */
START_TEST(pool_memory_is_not_reused_before_a_recorded_stream_is_done)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = pool_of(context);
	struct custody_stream *own = stream_of(context), *other = stream_of(context);
	struct custody_buffer *buffer = make(pool, MIB, own);
	void *address = custody_buffer_pointer(buffer);
	bool is_done = false;

	ck_ok(custody_buffer_record_stream(buffer, other));
	ck_ok(custody_buffer_record_stream(buffer, other));
	hold(other);
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_stream_query(own, &is_done));
	ck_assert(is_done);
	ck_assert(!comes_again(pool, MIB, own, address));
	fixture_release();
	ck_ok(custody_context_synchronize(context));
	ck_assert(comes_again(pool, MIB, own, address));
}
END_TEST

START_TEST(a_stream_that_is_recorded_on_a_part_uses_the_whole)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pool = pool_of(context);
	struct custody_stream *own = stream_of(context), *other = stream_of(context);
	struct custody_buffer *buffer = make(pool, MIB, own), *part;
	void *address = custody_buffer_pointer(buffer);

	ck_ok(custody_buffer_slice(buffer, 0, 8, &part));
	ck_ok(custody_buffer_record_stream(part, other));
	ck_ok(custody_buffer_release(part));
	hold(other);
	ck_ok(custody_buffer_release(buffer));
	ck_assert(!comes_again(pool, MIB, own, address));
	fixture_release();
}
END_TEST

static void check_waits_for_other_device(struct custody_resource *resource)
{
	struct custody_context *home = custody_resource_context(resource);
	struct custody_stream *strange = stream_of(fixture_context(1));
	struct custody_buffer *buffer = make(resource, MIB, NULL);

	ck_ok(custody_buffer_record_stream(buffer, strange));
	hold(strange);
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_flush(home, false));
	ck_assert_uint_eq(fixture_pending_bytes(home), MIB);
	fixture_release();
	ck_ok(custody_stream_synchronize(strange));
	ck_ok(custody_flush(home, true));
	ck_assert_uint_eq(fixture_pending_bytes(home), 0);
}

START_TEST(queued_memory_waits_for_a_recorded_stream_of_another_device)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	check_waits_for_other_device(device_of(fixture_context(0)));
}
END_TEST

START_TEST(pinned_memory_waits_for_a_recorded_stream_of_another_device)
{
	struct custody_resource *resource;

	setenv("SIMCUDA_DEVICES", "2", 1);
	ck_ok(custody_resource_pinned(fixture_context(0), CUSTODY_HOST_PORTABLE, &resource));
	check_waits_for_other_device(resource);
}
END_TEST

START_TEST(memory_waits_for_the_stream_of_another_device_that_it_is_closed_on)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	struct custody_context *home = fixture_context(0);
	struct custody_stream *strange = stream_of(fixture_context(1));
	struct custody_resource *pool = pool_of(home);
	struct custody_buffer *queued = make(device_of(home), MIB, NULL);
	struct custody_buffer *pooled = make(pool, MIB, NULL);
	void *address = custody_buffer_pointer(pooled);

	hold(strange);
	ck_ok(custody_buffer_close(queued, strange));
	ck_ok(custody_buffer_close(pooled, strange));
	ck_ok(custody_flush(home, false));
	ck_assert_uint_eq(fixture_pending_bytes(home), MIB);
	ck_assert(!comes_again(pool, MIB, NULL, address));
	fixture_release();
	ck_ok(custody_context_synchronize(home));
	ck_assert(comes_again(pool, MIB, NULL, address));
}
END_TEST

START_TEST(streams_of_a_device_that_was_reset_are_over)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	struct custody_context *home = fixture_context(0);
	struct custody_stream *strange = stream_of(fixture_context(1));
	struct custody_buffer *queued = make(device_of(home), MIB, NULL);
	struct custody_buffer *pooled = make(pool_of(home), MIB, NULL);

	ck_ok(custody_buffer_record_stream(queued, strange));
	ck_ok(custody_buffer_record_stream(pooled, strange));
	ck_ok(custody_device_reset(fixture_device(1)));
	ck_is(custody_buffer_record_stream(queued, strange), CUSTODY_E_STALE);
	ck_is(custody_buffer_set_free_stream(queued, strange), CUSTODY_E_STALE);
	ck_ok(custody_buffer_release(queued));
	ck_ok(custody_buffer_release(pooled));
	ck_ok(custody_stream_destroy(strange));
}
END_TEST

static void check_reset_with_younger_streams(struct custody_resource *resource)
{
	struct custody_context *context = custody_resource_context(resource);
	struct custody_buffer *buffer = make(resource, MIB, NULL);
	struct custody_stream *own = stream_of(context), *other = stream_of(context);

	ck_ok(custody_buffer_set_free_stream(buffer, own));
	ck_ok(custody_buffer_record_stream(buffer, other));
	ck_ok(custody_context_reset(context));
	ck_assert(custody_buffer_is_closed(buffer));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_stream_destroy(own));
	ck_ok(custody_stream_destroy(other));
	ck_ok(custody_resource_release(resource));
}

START_TEST(a_reset_copes_with_streams_that_are_younger_than_buffers)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *virtual;

	check_reset_with_younger_streams(pool_of(context));
	check_reset_with_younger_streams(device_of(context));
	ck_ok(custody_resource_virtual(context, NULL, &virtual));
	check_reset_with_younger_streams(virtual);
}
END_TEST

static int releases;
static bool was_done;
static struct custody_stream *watched;

static void look_and_release(void *owner, struct custody_stream *stream)
{
	(void)owner;
	releases++;
	custody_stream_query(stream, &was_done);
}

START_TEST(an_owner_is_told_behind_what_recorded_streams_do)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *own = stream_of(context);
	struct custody_buffer *buffer;
	char bytes[8];

	watched = stream_of(context);
	ck_ok(custody_buffer_wrap(context, bytes, 8, look_and_release, NULL, &buffer));
	ck_ok(custody_buffer_set_free_stream(buffer, own));
	ck_ok(custody_buffer_record_stream(buffer, watched));
	hold(watched);
	was_done = true;
	ck_ok(custody_buffer_release(buffer));
	ck_assert_int_eq(releases, 1);
	ck_assert(!was_done);
	fixture_release();
}
END_TEST

START_TEST(an_owner_is_told_on_a_stream_of_another_device)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	struct custody_stream *own = stream_of(fixture_context(1));
	struct custody_stream *other = stream_of(fixture_context(1));
	struct custody_stream *home = stream_of(fixture_context(0));
	struct custody_buffer *buffer;
	bool is_done = true;
	char bytes[8];

	watched = other;
	ck_ok(custody_buffer_wrap(fixture_context(0), bytes, 8, look_and_release, NULL, &buffer));
	ck_ok(custody_buffer_set_free_stream(buffer, own));
	ck_ok(custody_buffer_record_stream(buffer, other));
	ck_ok(custody_buffer_record_stream(buffer, home));
	hold(other);
	ck_ok(custody_buffer_release(buffer));
	ck_assert_int_eq(releases, 1);
	ck_ok(custody_stream_query(own, &is_done));
	ck_assert(!is_done);
	fixture_release();
}
END_TEST

/* ------------------------------------------------------------ captures */

START_TEST(a_pool_buffer_is_not_freed_on_a_stream_that_is_capturing)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = stream_of(context);
	struct custody_buffer *buffer = make(pool_of(context), MIB, stream);
	bool is_capturing = false;
	CUgraph graph;

	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_is(custody_buffer_close(buffer, NULL), CUSTODY_E_CAPTURING);
	ck_assert(!custody_buffer_is_closed(buffer));
	ck_is(custody_buffer_release(buffer), CUSTODY_E_CAPTURING);
	ck_ok(custody_stream_is_capturing(stream, &is_capturing));
	ck_assert(is_capturing);
	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_assert(!custody_buffer_is_closed(buffer));
	ck_ok(custody_buffer_release(buffer));
	ck_cu(cuGraphDestroy(graph));
}
END_TEST

START_TEST(a_recorded_stream_that_is_capturing_is_not_drawn_in)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *own = stream_of(context), *other = stream_of(context);
	struct custody_buffer *buffer = make(pool_of(context), MIB, own);
	CUgraph graph;

	ck_ok(custody_buffer_record_stream(buffer, other));
	ck_ok(custody_stream_begin_capture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_is(custody_buffer_close(buffer, NULL), CUSTODY_E_CAPTURING);
	ck_ok(custody_stream_end_capture(other, &graph));
	ck_ok(custody_buffer_release(buffer));
	ck_cu(cuGraphDestroy(graph));
}
END_TEST

static void *free_and_allocate(void *argument)
{
	struct custody_buffer **buffers = argument;
	struct custody_context *context = custody_buffer_context(buffers[0]);

	for (int i = 0; i < 3; i++)
		ck_ok(custody_buffer_release(buffers[i]));
	ck_ok(custody_buffer_release(make(device_of(context), MIB, NULL)));
	ck_ok(custody_buffer_release(make(pool_of(context), MIB, stream_of(context))));
	return NULL;
}

/* A free of another thread made a capture worthless, and nobody knew. */
START_TEST(a_capture_survives_what_other_threads_free_and_allocate)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = stream_of(context), *other = stream_of(context);
	struct custody_resource *virtual;
	struct custody_buffer *buffers[3];
	pthread_t thread;
	CUgraph graph;

	ck_ok(custody_resource_virtual(context, NULL, &virtual));
	buffers[0] = make(device_of(context), MIB, other);
	buffers[1] = make(pool_of(context), MIB, other);
	buffers[2] = make(virtual, MIB, other);
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_assert_int_eq(pthread_create(&thread, NULL, free_and_allocate, buffers), 0);
	pthread_join(thread, NULL);
	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_cu(cuGraphDestroy(graph));
}
END_TEST

/* ------------------------------------------------------------ streams of threads */

/* A thread that uses a buffer in its own default stream, held up, and stays. */
struct user {
	struct custody_resource *resource;
	struct custody_buffer *buffer; /* NULL: it makes one, on that stream or on none */
	bool is_freed_there; /* that stream is the one it is freed on, by its name */
	pthread_barrier_t barrier;
	pthread_t thread;
};

static void count_release(void *owner, struct custody_stream *stream)
{
	(void)stream;
	++*(unsigned int *)owner;
}

static void *use(void *argument)
{
	struct user *user = argument;
	struct custody_context *context = custody_resource_context(user->resource);
	struct custody_stream *own = NULL;

	ck_ok(custody_stream_per_thread(context, &own));
	if (!user->buffer)
		user->buffer = make(user->resource, MIB, user->is_freed_there ? own : NULL);
	else if (user->is_freed_there)
		ck_ok(custody_buffer_set_free_stream(user->buffer, own));
	else
		ck_ok(custody_buffer_record_stream(user->buffer, own));
	hold(own);
	pthread_barrier_wait(&user->barrier);
	pthread_barrier_wait(&user->barrier);
	return NULL;
}

static void start(struct user *user)
{
	pthread_barrier_init(&user->barrier, NULL, 2);
	ck_assert_int_eq(pthread_create(&user->thread, NULL, use, user), 0);
	pthread_barrier_wait(&user->barrier);
}

static void finish(struct user *user)
{
	fixture_release();
	pthread_barrier_wait(&user->barrier);
	pthread_join(user->thread, NULL);
	pthread_barrier_destroy(&user->barrier);
}

static bool is_done(struct custody_stream *stream)
{
	bool answer = false;

	ck_ok(custody_stream_query(stream, &answer));
	return answer;
}

/* The token was looked up on the thread that closes, whose own stream had nothing in it. */
START_TEST(pool_memory_waits_for_the_default_stream_of_the_thread_that_recorded_it)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = stream_of(context);
	struct user user = { .resource = pool_of(context) };
	struct custody_stream *own;
	void *address;

	user.buffer = make(user.resource, MIB, stream);
	address = custody_buffer_pointer(user.buffer);
	ck_ok(custody_stream_per_thread(context, &own));
	if (_i)
		ck_ok(custody_buffer_record_stream(user.buffer, own));
	start(&user);
	ck_ok(custody_buffer_close(user.buffer, _i ? own : NULL));
	ck_assert(!comes_again(user.resource, MIB, stream, address));
	ck_assert(!comes_again(user.resource, MIB, own, address));
	finish(&user);
	ck_ok(custody_buffer_release(user.buffer));
}
END_TEST

/* By its name, or as the process's choice. */
START_TEST(pool_memory_waits_for_the_default_stream_of_the_thread_that_made_it)
{
	struct user user = { .is_freed_there = !_i };
	struct custody_stream *own;
	void *address;

	setenv("CUSTODY_PER_THREAD_DEFAULT_STREAM", _i ? "1" : "0", 1);
	user.resource = pool_of(fixture_context(0));
	ck_ok(custody_stream_per_thread(fixture_context(0), &own));
	start(&user);
	address = custody_buffer_pointer(user.buffer);
	ck_ok(custody_buffer_release(user.buffer));
	ck_assert(!comes_again(user.resource, MIB, own, address));
	finish(&user);
}
END_TEST

/* The host waits, and has no name for that stream either. */
START_TEST(virtual_memory_waits_for_the_whole_context)
{
	struct custody_stream *own;
	struct custody_context *context;
	struct user user = { 0 };

	fixture_watch();
	context = fixture_context(0);
	ck_ok(custody_resource_virtual(context, NULL, &user.resource));
	ck_ok(custody_stream_per_thread(context, &own));
	user.buffer = make(user.resource, MIB, own);
	start(&user);
	finish(&user);
	fixture_forget();
	ck_ok(custody_buffer_release(user.buffer));
	ck_assert_uint_eq(fixture_calls("cuCtxSynchronize"), 1);
	ck_assert_uint_eq(fixture_calls("cuMemUnmap"), 1);
}
END_TEST

START_TEST(an_owner_is_told_behind_the_default_streams_of_threads)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = stream_of(context);
	struct user user = { .resource = pool_of(context) };
	unsigned int count = 0;

	ck_ok(custody_buffer_wrap(context, &count, 1, count_release, &count, &user.buffer));
	start(&user);
	ck_ok(custody_buffer_close(user.buffer, stream));
	ck_assert_uint_eq(count, 1);
	ck_assert(!is_done(stream));
	finish(&user);
	ck_ok(custody_stream_synchronize(stream));
}
END_TEST

START_TEST(an_owner_is_told_behind_the_default_stream_it_is_freed_on)
{
	struct custody_context *context = fixture_context(0);
	struct user user = { .resource = pool_of(context), .is_freed_there = _i };
	struct custody_stream *own;
	unsigned int count = 0;

	ck_ok(custody_stream_per_thread(context, &own));
	ck_ok(custody_buffer_wrap(context, &count, 1, count_release, &count, &user.buffer));
	start(&user);
	ck_ok(custody_buffer_close(user.buffer, _i ? NULL : own));
	ck_assert_uint_eq(count, 1);
	ck_assert(!is_done(own));
	finish(&user);
	ck_ok(custody_stream_synchronize(own));
}
END_TEST

/* Of its own stream a thread knows what is in it, and waits for nothing else. */
START_TEST(a_thread_frees_in_its_own_default_stream)
{
	struct custody_resource *pool;
	struct custody_context *context;
	struct custody_buffer *buffer;
	struct custody_stream *own;
	void *address;

	fixture_watch();
	context = fixture_context(0);
	pool = pool_of(context);
	ck_ok(custody_stream_per_thread(context, &own));
	buffer = make(pool, MIB, own);
	address = custody_buffer_pointer(buffer);
	ck_ok(custody_buffer_record_stream(buffer, own));
	hold(own);
	fixture_forget();
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(fixture_calls("cuCtxRecordEvent"), 0);
	ck_assert_uint_eq(fixture_calls("cuCtxSynchronize"), 0);
	ck_assert_uint_eq(fixture_calls("cuEventRecord"), 0);
	ck_assert(comes_again(pool, MIB, own, address));
	fixture_release();
}
END_TEST

START_TEST(a_default_stream_of_another_thread_cannot_be_waited_for_in_a_capture)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = stream_of(context), *other = stream_of(context);
	struct user user = { .resource = pool_of(context) };
	CUgraph graph;

	user.buffer = make(user.resource, MIB, other);
	start(&user);
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_is(custody_buffer_close(user.buffer, NULL), CUSTODY_E_CAPTURING);
	ck_is(custody_buffer_release(user.buffer), CUSTODY_E_CAPTURING);
	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_cu(cuGraphDestroy(graph));
	ck_ok(custody_buffer_release(user.buffer));
	finish(&user);
}
END_TEST

static TCase *threads_case(void)
{
	TCase *threads = tcase_create("threads");

	tcase_add_loop_test(threads,
			    pool_memory_waits_for_the_default_stream_of_the_thread_that_recorded_it,
			    0, 2);
	tcase_add_loop_test(threads,
			    pool_memory_waits_for_the_default_stream_of_the_thread_that_made_it, 0,
			    2);
	tcase_add_test(threads, virtual_memory_waits_for_the_whole_context);
	tcase_add_test(threads, an_owner_is_told_behind_the_default_streams_of_threads);
	tcase_add_loop_test(threads, an_owner_is_told_behind_the_default_stream_it_is_freed_on, 0,
			    2);
	tcase_add_test(threads, a_thread_frees_in_its_own_default_stream);
	tcase_add_test(threads,
		       a_default_stream_of_another_thread_cannot_be_waited_for_in_a_capture);
	return threads;
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("buffer free");
	TCase *streams = tcase_create("streams"), *captures = tcase_create("captures");

	tcase_add_test(streams, memory_is_freed_on_the_stream_it_was_made_on);
	tcase_add_test(streams, another_free_stream_can_be_set_or_given);
	tcase_add_test(streams, a_stream_lives_as_long_as_the_buffers_that_are_freed_on_it);
	tcase_add_test(streams, a_foreign_stream_that_is_gone_is_not_named_any_more);
	tcase_add_test(streams, a_pool_that_is_freed_on_its_streams_does_not_grow);
	tcase_add_test(streams, pool_memory_is_not_reused_before_a_recorded_stream_is_done);
	tcase_add_test(streams, a_stream_that_is_recorded_on_a_part_uses_the_whole);
	tcase_add_test(streams, queued_memory_waits_for_a_recorded_stream_of_another_device);
	tcase_add_test(streams, pinned_memory_waits_for_a_recorded_stream_of_another_device);
	tcase_add_test(streams, memory_waits_for_the_stream_of_another_device_that_it_is_closed_on);
	tcase_add_test(streams, streams_of_a_device_that_was_reset_are_over);
	tcase_add_test(streams, a_reset_copes_with_streams_that_are_younger_than_buffers);
	tcase_add_test(streams, an_owner_is_told_behind_what_recorded_streams_do);
	tcase_add_test(streams, an_owner_is_told_on_a_stream_of_another_device);
	tcase_add_test(captures, a_pool_buffer_is_not_freed_on_a_stream_that_is_capturing);
	tcase_add_test(captures, a_recorded_stream_that_is_capturing_is_not_drawn_in);
	tcase_add_test(captures, a_capture_survives_what_other_threads_free_and_allocate);
	suite_add_tcase(suite, streams);
	suite_add_tcase(suite, threads_case());
	suite_add_tcase(suite, captures);
	return suite;
}
