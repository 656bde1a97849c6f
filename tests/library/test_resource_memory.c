/* SPDX-License-Identifier: Apache-2.0 */
/* Running out of memory: what is tried, who is asked, what is said. */
#include "fixture.h"

#include <stdio.h>

/* A device of 256 MiB, of which a context takes 16. */
static struct custody_context *small_device(void)
{
	setenv("SIMCUDA_MEMORY", "256M", 1);
	return fixture_context(0);
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

static void CUDA_CB take_a_while(void *argument)
{
	(void)argument;
	usleep(100000);
}

/* A stream with work in it that ends by itself. */
static struct custody_stream *busy_stream(struct custody_context *context)
{
	const struct custody_stream_options options = { .size = sizeof(options),
							.is_nonblocking = true };
	struct custody_stream *stream = NULL;

	ck_ok(custody_stream_create(context, &options, &stream));
	ck_ok(custody_context_push(context));
	ck_cu(cuLaunchHostFunc(custody_stream_handle(stream), take_a_while, NULL));
	ck_ok(custody_context_pop(context));
	return stream;
}

/* ------------------------------------------------------------ what is tried */

START_TEST(what_waits_in_the_queue_is_released_first)
{
	struct custody_context *context = small_device();
	struct custody_resource *resource = device_of(context);
	struct custody_buffer *buffer = make(resource, 40 * MIB, NULL);

	busy_stream(context);
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(fixture_pending_bytes(context), 40 * MIB);
	ck_ok(custody_buffer_release(make(resource, 230 * MIB, NULL)));
}
END_TEST

/* Out of memory on a device that was nearly empty: frees in streams held it. */
START_TEST(frees_in_the_order_of_streams_are_waited_for_once)
{
	struct custody_context *context = small_device();
	struct custody_stream *stream = busy_stream(context);
	struct custody_resource *pool, *virtual;

	ck_ok(custody_resource_pool(context, NULL, &pool));
	ck_ok(custody_buffer_release(make(pool, 150 * MIB, stream)));
	ck_ok(custody_buffer_release(make(device_of(context), 200 * MIB, NULL)));
	ck_ok(custody_flush(context, true));
	stream = busy_stream(context);
	ck_ok(custody_buffer_release(make(pool, 150 * MIB, stream)));
	ck_ok(custody_resource_virtual(context, NULL, &virtual));
	ck_ok(custody_buffer_release(make(virtual, 200 * MIB, NULL)));
}
END_TEST

/* The pool was not looked at again after the wait. */
START_TEST(a_pool_finds_what_was_freed_on_another_stream)
{
	struct custody_context *context = small_device();
	struct custody_stream *busy = busy_stream(context), *other;
	struct custody_resource *pool;

	ck_ok(custody_stream_create(context, NULL, &other));
	ck_ok(custody_resource_pool(context, NULL, &pool));
	ck_ok(custody_buffer_release(make(pool, 150 * MIB, busy)));
	ck_ok(custody_buffer_release(make(pool, 150 * MIB, other)));
}
END_TEST

/* ------------------------------------------------------------ who is asked */

struct asked {
	unsigned int times;
	size_t bytes;
	struct custody_context *context;
	struct custody_buffer *victim;
	bool answer;
};

static bool ask(struct custody_context *context, size_t bytes, void *argument)
{
	struct asked *asked = argument;

	asked->times++;
	asked->bytes = bytes;
	asked->context = context;
	ck_ok(custody_buffer_close(asked->victim, NULL));
	return asked->answer;
}

START_TEST(the_program_is_asked_and_may_free)
{
	struct custody_context *context = small_device();
	struct custody_resource *resource = device_of(context);
	struct asked asked = { .victim = make(resource, 150 * MIB, NULL), .answer = true };

	ck_ok(custody_set_out_of_memory(ask, &asked));
	ck_ok(custody_buffer_release(make(resource, 200 * MIB, NULL)));
	ck_assert_uint_eq(asked.times, 1);
	ck_assert_uint_eq(asked.bytes, 200 * MIB);
	ck_assert_ptr_eq(asked.context, context);
}
END_TEST

START_TEST(the_program_is_asked_for_memory_of_every_kind)
{
	struct custody_context *context = small_device();
	struct asked asked = { .victim = make(device_of(context), 1, NULL), .answer = false };
	struct custody_resource *pool, *virtual;
	struct custody_buffer *buffer, *old;

	ck_ok(custody_set_out_of_memory(ask, &asked));
	ck_ok(custody_resource_pool(context, NULL, &pool));
	ck_ok(custody_resource_virtual(context, NULL, &virtual));
	ck_is(custody_buffer_create(pool, 300 * MIB, NULL, &buffer), CUDA_ERROR_OUT_OF_MEMORY);
	ck_is(custody_buffer_create(virtual, 300 * MIB, NULL, &buffer), CUDA_ERROR_OUT_OF_MEMORY);
	old = make(virtual, 1, NULL);
	ck_is(custody_virtual_grow(old, 300 * MIB, &buffer), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(asked.times, 3);
}
END_TEST

START_TEST(an_answer_that_never_changes_is_not_believed_for_ever)
{
	struct custody_context *context = small_device();
	struct custody_resource *resource = device_of(context);
	struct asked asked = { .victim = make(resource, 1, NULL), .answer = true };
	struct custody_buffer *buffer;

	ck_ok(custody_set_out_of_memory(ask, &asked));
	ck_is(custody_buffer_create(resource, 300 * MIB, NULL, &buffer),
	      CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(asked.times, 16);
}
END_TEST

/* ------------------------------------------------------------ what is said */

START_TEST(the_failure_is_told_with_its_numbers)
{
	struct custody_context *context = small_device();
	struct custody_resource *resource = device_of(context);
	size_t free_bytes;
	char expected[64];
	void *pointer;

	make(resource, 100 * MIB, NULL);
	free_bytes = fixture_free_bytes(context);
	ck_is(custody_resource_allocate(resource, 200 * MIB, NULL, &pointer),
	      CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), "209715200 bytes of device memory"));
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), "of 268435456 bytes of device 0"));
	snprintf(expected, sizeof(expected), "%zu are free", free_bytes);
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), expected));
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), "and 0 that were freed"));
}
END_TEST

START_TEST(what_a_strict_scope_keeps_back_is_told)
{
	struct custody_defer_limits limits = { .size = sizeof(limits) };
	struct custody_context *context = small_device();
	struct custody_resource *resource = device_of(context);
	struct custody_buffer *buffer;

	ck_ok(custody_defer_limits(&limits));
	limits.is_strict = true;
	ck_ok(custody_defer_set_limits(&limits));
	ck_ok(custody_defer_begin(context));
	ck_ok(custody_buffer_release(make(resource, 40 * MIB, NULL)));
	ck_is(custody_buffer_create(resource, 230 * MIB, NULL, &buffer),
	      CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), "and 41943040 that were freed"));
	ck_ok(custody_defer_end(context, CUSTODY_LEAVE_ALONE));
	ck_ok(custody_buffer_create(resource, 230 * MIB, NULL, &buffer));
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("out of memory");
	TCase *memory = tcase_create("memory");

	tcase_add_test(memory, what_waits_in_the_queue_is_released_first);
	tcase_add_test(memory, frees_in_the_order_of_streams_are_waited_for_once);
	tcase_add_test(memory, a_pool_finds_what_was_freed_on_another_stream);
	tcase_add_test(memory, the_program_is_asked_and_may_free);
	tcase_add_test(memory, the_program_is_asked_for_memory_of_every_kind);
	tcase_add_test(memory, an_answer_that_never_changes_is_not_believed_for_ever);
	tcase_add_test(memory, the_failure_is_told_with_its_numbers);
	tcase_add_test(memory, what_a_strict_scope_keeps_back_is_told);
	suite_add_tcase(suite, memory);
	return suite;
}
