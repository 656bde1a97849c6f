/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a buffer: made, wrapped, cut, closed, released, reset. */
#include "fixture.h"

static struct custody_resource *resource_of(struct custody_context *context)
{
	struct custody_resource *resource = NULL;

	ck_ok(custody_resource_device(context, &resource));
	return resource;
}

static struct custody_buffer *make(struct custody_resource *resource, size_t bytes)
{
	struct custody_buffer *buffer = NULL;

	ck_ok(custody_buffer_create(resource, bytes, NULL, &buffer));
	ck_assert_ptr_nonnull(buffer);
	return buffer;
}

static struct custody_buffer_info info_of(const struct custody_buffer *buffer)
{
	struct custody_buffer_info info = { .size = sizeof(info) };

	ck_ok(custody_buffer_info(buffer, &info));
	return info;
}

/* ------------------------------------------------------------ what it is */

START_TEST(a_buffer_without_bytes_has_no_memory_and_makes_no_call)
{
	fixture_watch();
	struct custody_resource *resource = resource_of(fixture_context(0));
	struct custody_buffer *buffer;

	fixture_forget();
	buffer = make(resource, 0);
	ck_assert_ptr_null(custody_buffer_pointer(buffer));
	ck_assert_uint_eq(custody_buffer_bytes(buffer), 0);
	ck_assert(!info_of(buffer).is_closed);
	ck_ok(custody_buffer_fill(buffer, "x", 1, NULL));
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(fixture_calls("cuMemAlloc_v2") + fixture_calls("cuMemFree_v2") +
				  fixture_calls("cuMemsetD8Async"),
			  0);
}
END_TEST

START_TEST(a_buffer_says_who_reaches_it)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *pinned, *managed;
	struct custody_buffer_info info = info_of(make(resource_of(context), KIB));

	ck_assert_ptr_nonnull(info.pointer);
	ck_assert_ptr_eq(info.device_pointer, info.pointer);
	ck_assert_ptr_null(info.host_pointer);
	ck_assert(info.is_device_accessible && !info.is_host_accessible && !info.is_managed);
	ck_assert_uint_eq(info.bytes, KIB);
	ck_assert_int_eq(info.device, 0);
	ck_ok(custody_resource_pinned(context, CUSTODY_HOST_MAPPED, &pinned));
	info = info_of(make(pinned, KIB));
	ck_assert_ptr_eq(info.host_pointer, info.pointer);
	ck_assert_ptr_nonnull(info.device_pointer);
	ck_assert_int_eq(info.device, -1);
	memset(info.host_pointer, 7, KIB);
	ck_ok(custody_resource_managed(context, true, &managed));
	info = info_of(make(managed, KIB));
	ck_assert(info.is_device_accessible && info.is_host_accessible && info.is_managed);
	memset(info.host_pointer, 7, KIB);
}
END_TEST

START_TEST(a_buffer_knows_where_it_is_from)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = resource_of(context);
	struct custody_buffer *buffer = make(resource, KIB);

	ck_assert_ptr_eq(custody_buffer_resource(buffer), resource);
	ck_assert_ptr_eq(custody_buffer_context(buffer), context);
	ck_assert_ptr_null(custody_buffer_resource(NULL));
	ck_assert_ptr_null(custody_buffer_context(NULL));
	ck_assert_ptr_null(custody_buffer_pointer(NULL));
	ck_assert_uint_eq(custody_buffer_bytes(NULL), 0);
}
END_TEST

START_TEST(an_info_of_an_older_program_is_not_overrun)
{
	struct custody_buffer_info info[2];
	struct custody_buffer *buffer = make(resource_of(fixture_context(0)), KIB);

	memset(info, 0x55, sizeof(info));
	info[0].size = offsetof(struct custody_buffer_info, host_pointer);
	ck_ok(custody_buffer_info(buffer, info));
	ck_assert_ptr_eq(info[0].pointer, custody_buffer_pointer(buffer));
	ck_assert_uint_eq((uintptr_t)info[0].host_pointer, UINT64_C(0x5555555555555555));
}
END_TEST

/* ------------------------------------------------------------ closing */

START_TEST(closing_twice_frees_once)
{
	struct custody_context *context = fixture_context(0);
	struct custody_buffer *buffer = make(resource_of(context), MIB);

	ck_ok(custody_buffer_close(buffer, NULL));
	ck_assert_uint_eq(fixture_pending_bytes(context), MIB);
	ck_assert(custody_buffer_is_closed(buffer));
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_assert_uint_eq(fixture_pending_bytes(context), MIB);
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(fixture_pending_bytes(context), MIB);
}
END_TEST

START_TEST(a_closed_buffer_does_nothing_any_more)
{
	struct custody_resource *resource = resource_of(fixture_context(0));
	struct custody_buffer *buffer = make(resource, KIB), *other = make(resource, KIB), *part;
	struct custody_stream *stream;
	char byte;

	ck_ok(custody_stream_create(fixture_context(0), NULL, &stream));
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_assert_ptr_null(custody_buffer_pointer(buffer));
	ck_assert_ptr_null(info_of(buffer).pointer);
	ck_assert(info_of(buffer).is_closed);
	ck_is(custody_buffer_fill(buffer, "x", 1, NULL), CUSTODY_E_CLOSED);
	ck_is(custody_buffer_copy_to(buffer, &other, NULL), CUSTODY_E_CLOSED);
	ck_is(custody_buffer_copy_from(other, buffer, NULL), CUSTODY_E_CLOSED);
	ck_is(custody_buffer_write(buffer, 0, "x", 1, NULL), CUSTODY_E_CLOSED);
	ck_is(custody_buffer_read(buffer, 0, &byte, 1, NULL), CUSTODY_E_CLOSED);
	ck_is(custody_buffer_slice(buffer, 0, 1, &part), CUSTODY_E_CLOSED);
	ck_is(custody_buffer_set_free_stream(buffer, stream), CUSTODY_E_CLOSED);
	ck_is(custody_buffer_record_stream(buffer, stream), CUSTODY_E_CLOSED);
}
END_TEST

START_TEST(the_last_reference_closes)
{
	struct custody_context *context = fixture_context(0);
	struct custody_buffer *buffer = make(resource_of(context), MIB);

	custody_buffer_retain(buffer);
	ck_ok(custody_buffer_release(buffer));
	ck_assert(!custody_buffer_is_closed(buffer));
	ck_assert_uint_eq(fixture_pending_bytes(context), 0);
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(fixture_pending_bytes(context), MIB);
	ck_ok(custody_buffer_release(NULL));
	custody_buffer_retain(NULL);
	ck_is(custody_buffer_close(NULL, NULL), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(a_buffer_that_cannot_be_freed_can_be_closed_again)
{
	setenv("SIMCUDA_FAIL", "cuMemFreeAsync:1:1", 1);
	struct custody_resource *pool;
	struct custody_buffer *buffer;

	ck_ok(custody_resource_pool(fixture_context(0), NULL, &pool));
	buffer = make(pool, KIB);
	ck_is(custody_buffer_close(buffer, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_assert(!custody_buffer_is_closed(buffer));
	ck_ok(custody_buffer_fill(buffer, "x", 1, NULL));
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_ok(custody_buffer_release(buffer));
}
END_TEST

/* ------------------------------------------------------------ memory of somebody else */

struct owner {
	int releases;
	struct custody_stream *stream;
	CUcontext current;
};

static void note_release(void *argument, struct custody_stream *stream)
{
	struct owner *owner = argument;

	owner->releases++;
	owner->stream = stream;
	cuCtxGetCurrent(&owner->current);
}

START_TEST(an_owner_is_told_once_in_the_context_and_with_the_stream)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream;
	struct custody_buffer *buffer;
	struct owner owner = { 0 };
	CUdeviceptr address = fixture_allocate(context, KIB);

	ck_ok(custody_stream_create(context, NULL, &stream));
	ck_ok(custody_buffer_wrap(context, (void *)address, KIB, note_release, &owner, &buffer));
	ck_assert_ptr_null(custody_buffer_resource(buffer));
	ck_assert(info_of(buffer).is_device_accessible);
	ck_ok(custody_buffer_set_free_stream(buffer, stream));
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_ok(custody_buffer_release(buffer));
	ck_assert_int_eq(owner.releases, 1);
	ck_assert_ptr_eq(owner.stream, stream);
	ck_assert_ptr_eq(owner.current, custody_context_handle(context));
	ck_assert_uint_eq(fixture_pending_bytes(context), 0);
	fixture_free(context, address);
}
END_TEST

struct holder {
	struct custody_buffer *buffer;
	int releases;
};

static void let_go(void *argument, struct custody_stream *stream)
{
	struct holder *holder = argument;

	(void)stream;
	holder->releases++;
	ck_ok(custody_buffer_release(holder->buffer));
}

START_TEST(an_owner_may_let_go_of_the_buffer_while_it_is_told)
{
	struct custody_context *context = fixture_context(0);
	struct holder closed = { 0 }, reset = { 0 };
	char bytes[8];

	ck_ok(custody_buffer_wrap(context, bytes, 8, let_go, &closed, &closed.buffer));
	ck_ok(custody_buffer_wrap(context, bytes, 8, let_go, &reset, &reset.buffer));
	ck_ok(custody_buffer_close(closed.buffer, NULL));
	ck_assert_int_eq(closed.releases, 1);
	ck_ok(custody_context_reset(context));
	ck_assert_int_eq(reset.releases, 1);
}
END_TEST

START_TEST(an_owner_is_told_though_the_device_cannot_be_waited_for)
{
	setenv("SIMCUDA_FAIL", "cuEventCreate:*:999", 1);
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream;
	struct custody_buffer *buffer;
	struct owner owner = { 0 };
	char bytes[8];

	ck_ok(custody_stream_create(context, NULL, &stream));
	ck_ok(custody_buffer_wrap(context, bytes, 8, note_release, &owner, &buffer));
	ck_ok(custody_buffer_record_stream(buffer, stream));
	ck_is(custody_buffer_close(buffer, NULL), CUDA_ERROR_UNKNOWN);
	ck_assert_int_eq(owner.releases, 0);
	ck_ok(custody_buffer_release(buffer));
	ck_assert_int_eq(owner.releases, 1);
}
END_TEST

START_TEST(memory_of_the_host_is_the_hosts)
{
	struct custody_buffer *buffer, *empty;
	char bytes[64];
	struct custody_buffer_info info;

	ck_ok(custody_buffer_wrap(fixture_context(0), bytes, sizeof(bytes), NULL, NULL, &buffer));
	info = info_of(buffer);
	ck_assert(info.is_host_accessible && !info.is_device_accessible);
	ck_assert_ptr_eq(info.host_pointer, bytes);
	ck_assert_int_eq(info.device, -1);
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_buffer_wrap(fixture_context(0), NULL, 0, NULL, NULL, &empty));
	ck_ok(custody_buffer_release(empty));
	ck_is(custody_buffer_wrap(fixture_context(0), NULL, 1, NULL, NULL, &empty),
	      CUSTODY_E_INVALID);
	ck_is(custody_buffer_wrap(NULL, bytes, 1, NULL, NULL, &empty), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(wrapped_memory_is_what_the_driver_says)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *managed;
	struct custody_buffer *buffer;
	void *pinned = fixture_allocate_pinned(context, KIB), *pointer;
	struct custody_buffer_info info;

	ck_ok(custody_buffer_wrap(context, pinned, KIB, NULL, NULL, &buffer));
	info = info_of(buffer);
	ck_assert(info.is_host_accessible && info.is_device_accessible && !info.is_managed);
	ck_ok(custody_resource_managed(context, true, &managed));
	ck_ok(custody_resource_allocate(managed, KIB, NULL, &pointer));
	ck_ok(custody_buffer_wrap(context, pointer, KIB, NULL, NULL, &buffer));
	ck_assert(info_of(buffer).is_managed && info_of(buffer).is_host_accessible);
}
END_TEST

/* ------------------------------------------------------------ parts */

START_TEST(a_part_shows_the_bytes_of_the_whole)
{
	struct custody_buffer *whole = make(resource_of(fixture_context(0)), 64), *part, *inner;
	unsigned char bytes[64];

	ck_ok(custody_buffer_fill(whole, "a", 1, NULL));
	ck_ok(custody_buffer_slice(whole, 16, 32, &part));
	ck_ok(custody_buffer_slice(part, 8, 8, &inner));
	ck_ok(custody_buffer_fill(inner, "b", 1, NULL));
	ck_ok(custody_buffer_read(whole, 0, bytes, 64, NULL));
	ck_assert_int_eq(bytes[23], 'a');
	ck_assert_int_eq(bytes[24], 'b');
	ck_assert_int_eq(bytes[31], 'b');
	ck_assert_int_eq(bytes[32], 'a');
	ck_assert_ptr_eq(custody_buffer_resource(inner), custody_buffer_resource(whole));
}
END_TEST

/* A view of 999 bytes of 8 was accepted. */
START_TEST(a_part_beyond_the_end_is_refused)
{
	struct custody_buffer *whole = make(resource_of(fixture_context(0)), 64), *part;

	ck_ok(custody_buffer_slice(whole, 64, 0, &part));
	ck_assert_ptr_null(custody_buffer_pointer(part));
	ck_is(custody_buffer_slice(whole, 0, 65, &part), CUSTODY_E_BOUNDS);
	ck_is(custody_buffer_slice(whole, 65, 0, &part), CUSTODY_E_BOUNDS);
	ck_is(custody_buffer_slice(whole, 8, SIZE_MAX, &part), CUSTODY_E_BOUNDS);
	ck_is(custody_buffer_slice(whole, SIZE_MAX, 8, &part), CUSTODY_E_BOUNDS);
	ck_is(custody_buffer_slice(NULL, 0, 1, &part), CUSTODY_E_INVALID);
	ck_is(custody_buffer_slice(whole, 0, 1, NULL), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(a_part_keeps_the_whole_and_frees_nothing)
{
	struct custody_context *context = fixture_context(0);
	struct custody_buffer *whole = make(resource_of(context), MIB), *part, *other;

	ck_ok(custody_buffer_slice(whole, 0, KIB, &part));
	ck_ok(custody_buffer_slice(whole, 0, KIB, &other));
	ck_ok(custody_buffer_release(whole));
	ck_ok(custody_buffer_close(part, NULL));
	ck_assert(custody_buffer_is_closed(part) && !custody_buffer_is_closed(other));
	ck_ok(custody_buffer_fill(other, "x", 1, NULL));
	ck_ok(custody_buffer_release(part));
	ck_assert_uint_eq(fixture_pending_bytes(context), 0);
	ck_ok(custody_buffer_release(other));
	ck_assert_uint_eq(fixture_pending_bytes(context), MIB);
}
END_TEST

START_TEST(closing_the_whole_closes_its_parts)
{
	struct custody_buffer *whole = make(resource_of(fixture_context(0)), MIB), *part;

	ck_ok(custody_buffer_slice(whole, 0, KIB, &part));
	ck_ok(custody_buffer_close(whole, NULL));
	ck_assert(custody_buffer_is_closed(part));
	ck_is(custody_buffer_fill(part, "x", 1, NULL), CUSTODY_E_CLOSED);
	ck_ok(custody_buffer_release(whole));
	ck_ok(custody_buffer_release(part));
}
END_TEST

/* ------------------------------------------------------------ resets, ends */

/* Allocations with an outstanding view were not freed by a reset. */
START_TEST(a_reset_frees_buffers_with_parts_too)
{
	struct custody_context *context = fixture_context(0);
	size_t before = fixture_free_bytes(context);
	struct custody_buffer *whole = make(resource_of(context), 8 * MIB), *part;
	struct owner owner = { 0 };
	struct custody_buffer *foreign;

	ck_ok(custody_buffer_slice(whole, 0, KIB, &part));
	ck_ok(custody_buffer_wrap(context, custody_buffer_pointer(whole), 8, note_release, &owner,
				  &foreign));
	ck_ok(custody_context_reset(context));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
	ck_assert_int_eq(owner.releases, 1);
	ck_is(custody_buffer_fill(whole, "x", 1, NULL), CUSTODY_E_STALE);
	ck_is(custody_buffer_fill(part, "x", 1, NULL), CUSTODY_E_STALE);
	ck_assert_ptr_null(custody_buffer_pointer(whole));
	ck_ok(custody_buffer_release(part));
	ck_ok(custody_buffer_release(whole));
	ck_ok(custody_buffer_release(foreign));
	ck_assert_int_eq(owner.releases, 1);
}
END_TEST

START_TEST(what_could_not_be_freed_with_the_last_reference_is_freed_by_a_reset)
{
	setenv("SIMCUDA_FAIL", "cuMemUnmap:1:999", 1);
	struct custody_context *context = fixture_context(0);
	size_t before = fixture_free_bytes(context);
	struct custody_resource *resource;

	ck_ok(custody_resource_virtual(context, NULL, &resource));
	ck_is(custody_buffer_release(make(resource, MIB)), CUDA_ERROR_UNKNOWN);
	ck_assert_uint_lt(fixture_free_bytes(context), before);
	ck_ok(custody_context_reset(context));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
	ck_ok(custody_resource_release(resource));
}
END_TEST

/* A buffer's destructor after the death of its context crashed. */
START_TEST(a_buffer_is_released_after_its_device_was_reset)
{
	struct custody_context *context = fixture_context(0);
	struct custody_buffer *buffer = make(resource_of(context), MIB), *later;
	struct custody_stream *stream;

	ck_ok(custody_stream_create(context, NULL, &stream));
	ck_ok(custody_buffer_set_free_stream(buffer, stream));
	ck_ok(custody_device_reset(fixture_device(0)));
	later = make(resource_of(context), MIB);
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_stream_destroy(stream));
	ck_ok(custody_buffer_fill(later, "x", 1, NULL));
	ck_ok(custody_buffer_release(later));
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("buffer");
	TCase *life = tcase_create("life"), *parts = tcase_create("parts");

	tcase_add_test(life, a_buffer_without_bytes_has_no_memory_and_makes_no_call);
	tcase_add_test(life, a_buffer_says_who_reaches_it);
	tcase_add_test(life, a_buffer_knows_where_it_is_from);
	tcase_add_test(life, an_info_of_an_older_program_is_not_overrun);
	tcase_add_test(life, closing_twice_frees_once);
	tcase_add_test(life, a_closed_buffer_does_nothing_any_more);
	tcase_add_test(life, the_last_reference_closes);
	tcase_add_test(life, a_buffer_that_cannot_be_freed_can_be_closed_again);
	tcase_add_test(life, an_owner_is_told_once_in_the_context_and_with_the_stream);
	tcase_add_test(life, an_owner_may_let_go_of_the_buffer_while_it_is_told);
	tcase_add_test(life, an_owner_is_told_though_the_device_cannot_be_waited_for);
	tcase_add_test(life, memory_of_the_host_is_the_hosts);
	tcase_add_test(life, wrapped_memory_is_what_the_driver_says);
	tcase_add_test(parts, a_part_shows_the_bytes_of_the_whole);
	tcase_add_test(parts, a_part_beyond_the_end_is_refused);
	tcase_add_test(parts, a_part_keeps_the_whole_and_frees_nothing);
	tcase_add_test(parts, closing_the_whole_closes_its_parts);
	tcase_add_test(parts, a_reset_frees_buffers_with_parts_too);
	tcase_add_test(parts, what_could_not_be_freed_with_the_last_reference_is_freed_by_a_reset);
	tcase_add_test(parts, a_buffer_is_released_after_its_device_was_reset);
	suite_add_tcase(suite, life);
	suite_add_tcase(suite, parts);
	return suite;
}
