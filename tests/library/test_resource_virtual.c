/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of hand-made mappings, and buffers that grow. */
#include "fixture.h"

#include <fcntl.h>

enum { GRANULE = 2 * MIB };

static struct custody_resource *virtual_with(struct custody_context *context,
					     const struct custody_virtual_options *options)
{
	struct custody_resource *resource = NULL;

	ck_ok(custody_resource_virtual(context, options, &resource));
	return resource;
}

static struct custody_stream *stream_of(struct custody_context *context)
{
	struct custody_stream *stream = NULL;

	ck_ok(custody_stream_create(context, NULL, &stream));
	return stream;
}

static struct custody_buffer *make(struct custody_resource *resource, size_t bytes)
{
	struct custody_buffer *buffer = NULL;

	ck_ok(custody_buffer_create(resource, bytes, NULL, &buffer));
	return buffer;
}

static unsigned char byte_at(struct custody_buffer *buffer, size_t offset)
{
	unsigned char byte = 0;

	ck_ok(custody_buffer_read(buffer, offset, &byte, 1, NULL));
	return byte;
}

/* ------------------------------------------------------------ memory */

START_TEST(sizes_are_rounded_up_and_reported_so)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = virtual_with(context, NULL);
	size_t before = fixture_free_bytes(context);
	struct custody_buffer *buffer = make(resource, GRANULE + 1);

	ck_assert_uint_eq(custody_buffer_bytes(buffer), 2 * GRANULE);
	ck_assert_uint_eq(before - fixture_free_bytes(context), 2 * GRANULE);
	ck_ok(custody_buffer_fill(buffer, "v", 1, NULL));
	ck_assert_int_eq(byte_at(buffer, 2 * GRANULE - 1), 'v');
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

START_TEST(no_bytes_are_no_call_of_the_driver)
{
	fixture_watch();
	struct custody_resource *resource = virtual_with(fixture_context(0), NULL);

	fixture_forget();
	ck_ok(custody_buffer_release(make(resource, 0)));
	ck_assert_uint_eq(fixture_calls("cuMemCreate") + fixture_calls("cuMemAddressReserve"), 0);
}
END_TEST

START_TEST(raw_memory_is_freed_with_the_size_that_was_asked_for)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = virtual_with(context, NULL);
	size_t before = fixture_free_bytes(context);
	void *pointer;

	ck_ok(custody_resource_allocate(resource, 100, NULL, &pointer));
	ck_is(custody_resource_deallocate(resource, pointer, GRANULE, NULL), CUSTODY_E_MISMATCH);
	ck_ok(custody_resource_deallocate(resource, pointer, 100, NULL));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

START_TEST(addresses_are_aligned_as_wanted)
{
	struct custody_virtual_options options = { .size = sizeof(options),
						   .address_align = 64 * MIB };
	struct custody_buffer *buffer = make(virtual_with(fixture_context(0), &options), 1);
	struct custody_resource *resource;

	ck_assert_uint_eq((uintptr_t)custody_buffer_pointer(buffer) % (64 * MIB), 0);
	options.address_align = 3 * MIB;
	ck_is(custody_resource_virtual(fixture_context(0), &options, &resource),
	      CUSTODY_E_INVALID);
}
END_TEST

START_TEST(more_than_there_are_addresses_is_out_of_memory)
{
	struct custody_resource *resource = virtual_with(fixture_context(0), NULL);
	struct custody_buffer *buffer;

	ck_is(custody_buffer_create(resource, SIZE_MAX, NULL, &buffer),
	      CUDA_ERROR_OUT_OF_MEMORY);
	ck_is(custody_virtual_grow(make(resource, 1), SIZE_MAX, &buffer),
	      CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(a_driver_without_mappings_says_so)
{
	struct custody_resource *resource;

	setenv("SIMCUDA_VMM", "0", 1);
	ck_is(custody_resource_virtual(fixture_context(0), NULL, &resource),
	      CUSTODY_E_UNSUPPORTED);
}
END_TEST

START_TEST(peers_reach_the_memory)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	struct custody_device *peer = fixture_device(1);
	const struct custody_virtual_options options = { .size = sizeof(options),
							 .peers = &peer,
							 .peer_count = 1 };
	struct custody_buffer *buffer = make(virtual_with(fixture_context(0), &options), 1);
	CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 };
	unsigned long long flags = 0;

	ck_cu(cuMemGetAccess(&flags, &location,
			     (CUdeviceptr)(uintptr_t)custody_buffer_pointer(buffer)));
	ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}
END_TEST

START_TEST(peers_that_cannot_reach_it_are_refused)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	setenv("SIMCUDA_PEER", "0", 1);
	struct custody_device *peer = fixture_device(1);
	struct custody_virtual_options options = { .size = sizeof(options),
						   .peers = &peer,
						   .peer_count = 1 };
	struct custody_resource *resource;

	ck_is(custody_resource_virtual(fixture_context(0), &options, &resource),
	      CUSTODY_E_UNSUPPORTED);
	options.peers = NULL;
	ck_is(custody_resource_virtual(fixture_context(0), &options, &resource),
	      CUSTODY_E_INVALID);
}
END_TEST

/* ------------------------------------------------------------ freeing */


static void CUDA_CB let_go(void *argument)
{
	(void)argument;
	usleep(100000);
}

/* Memory was unmapped under running kernels. */
START_TEST(memory_is_not_unmapped_before_its_streams_are_done)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *own = stream_of(context), *other = stream_of(context);
	struct custody_resource *resource = virtual_with(context, NULL);
	struct custody_buffer *buffer;
	bool is_done = false;

	ck_ok(custody_buffer_create(resource, 1, own, &buffer));
	ck_ok(custody_buffer_record_stream(buffer, other));
	ck_ok(custody_context_push(context));
	ck_cu(cuLaunchHostFunc(custody_stream_handle(own), let_go, NULL));
	ck_cu(cuLaunchHostFunc(custody_stream_handle(other), let_go, NULL));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_stream_query(own, &is_done));
	ck_assert(is_done);
	ck_ok(custody_stream_query(other, &is_done));
	ck_assert(is_done);
}
END_TEST

START_TEST(a_stream_that_is_capturing_is_refused)
{
	struct custody_context *context = fixture_context(0);
	struct custody_stream *stream = stream_of(context);
	struct custody_buffer *buffer;
	CUgraph graph;

	ck_ok(custody_buffer_create(virtual_with(context, NULL), 1, stream, &buffer));
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_is(custody_buffer_close(buffer, NULL), CUSTODY_E_CAPTURING);
	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_ok(custody_buffer_release(buffer));
	ck_cu(cuGraphDestroy(graph));
}
END_TEST

START_TEST(what_cannot_be_unmapped_can_be_closed_again)
{
	setenv("SIMCUDA_FAIL", "cuMemUnmap:1:1", 1);
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = virtual_with(context, NULL);
	size_t before = fixture_free_bytes(context);
	struct custody_buffer *buffer = make(resource, 1);

	ck_is(custody_buffer_close(buffer, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_assert(!custody_buffer_is_closed(buffer));
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

/* ------------------------------------------------------------ growing */

static void check_growth(struct custody_resource *resource)
{
	struct custody_context *context = custody_resource_context(resource);
	size_t before = fixture_free_bytes(context);
	struct custody_buffer *old = make(resource, GRANULE), *grown, *again;

	ck_ok(custody_buffer_fill(old, "o", 1, NULL));
	ck_ok(custody_virtual_grow(old, 3 * GRANULE, &grown));
	ck_assert_uint_eq(custody_buffer_bytes(grown), 3 * GRANULE);
	ck_assert_int_eq(byte_at(grown, GRANULE - 1), 'o');
	ck_ok(custody_buffer_write(old, 5, "n", 1, NULL));
	ck_assert_int_eq(byte_at(grown, 5), 'n');
	ck_ok(custody_buffer_write(grown, 6, "m", 1, NULL));
	ck_assert_int_eq(byte_at(old, 6), 'm');
	ck_ok(custody_virtual_grow(grown, 4 * GRANULE, &again));
	ck_assert_uint_eq(before - fixture_free_bytes(context), 4 * GRANULE);
	ck_ok(custody_buffer_release(old));
	ck_assert_int_eq(byte_at(again, 6), 'm');
	ck_ok(custody_buffer_write(again, 4 * GRANULE - 1, "z", 1, NULL));
	ck_ok(custody_buffer_release(grown));
	ck_assert_int_eq(byte_at(again, 6), 'm');
	ck_assert_int_eq(byte_at(again, 4 * GRANULE - 1), 'z');
	ck_ok(custody_buffer_release(again));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}

START_TEST(a_buffer_grows_and_the_old_one_shows_the_same_memory)
{
	check_growth(virtual_with(fixture_context(0), NULL));
}
END_TEST

/* A wide alignment leaves addresses free behind a range. */
static struct custody_resource *sparse_of(struct custody_context *context)
{
	const struct custody_virtual_options options = { .size = sizeof(options),
							 .address_align = 64 * MIB };

	return virtual_with(context, &options);
}

START_TEST(a_buffer_grows_in_place_where_the_addresses_behind_it_are_free)
{
	struct custody_resource *resource = sparse_of(fixture_context(0));
	struct custody_buffer *old, *grown;
	bool is_in_place = false;

	for (int i = 0; i < 50 && !is_in_place; i++) {
		old = make(resource, GRANULE);
		ck_ok(custody_virtual_grow(old, 3 * GRANULE, &grown));
		is_in_place = custody_buffer_pointer(grown) == custody_buffer_pointer(old);
	}
	ck_assert(is_in_place);
	ck_ok(custody_buffer_fill(grown, "p", 1, NULL));
	ck_assert_int_eq(byte_at(old, GRANULE - 1), 'p');
	ck_ok(custody_buffer_release(old));
	ck_assert_int_eq(byte_at(grown, 0), 'p');
	ck_assert_int_eq(byte_at(grown, 3 * GRANULE - 1), 'p');
	ck_ok(custody_buffer_release(grown));
	check_growth(resource);
}
END_TEST

START_TEST(a_buffer_grows_elsewhere_where_they_are_not)
{
	struct custody_resource *resource = sparse_of(fixture_context(0));
	struct custody_buffer *old = make(resource, GRANULE), *grown, *other;
	CUdeviceptr behind = (CUdeviceptr)(uintptr_t)custody_buffer_pointer(old) + GRANULE, taken;

	ck_cu(cuMemAddressReserve(&taken, GRANULE, GRANULE, behind, 0));
	ck_ok(custody_virtual_grow(old, 3 * GRANULE, &grown));
	ck_assert_ptr_ne(custody_buffer_pointer(grown), custody_buffer_pointer(old));
	ck_ok(custody_buffer_write(old, 9, "k", 1, NULL));
	ck_assert_int_eq(byte_at(grown, 9), 'k');
	ck_ok(custody_virtual_grow(old, 2 * GRANULE, &other));
	ck_ok(custody_buffer_release(old));
	ck_assert_int_eq(byte_at(other, 9), 'k');
}
END_TEST

START_TEST(a_buffer_that_needs_no_more_is_there_twice)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = virtual_with(context, NULL);
	size_t before = fixture_free_bytes(context);
	struct custody_buffer *old = make(resource, GRANULE), *grown;

	ck_ok(custody_virtual_grow(old, 1, &grown));
	ck_assert_ptr_eq(custody_buffer_pointer(grown), custody_buffer_pointer(old));
	ck_ok(custody_buffer_release(old));
	ck_ok(custody_buffer_fill(grown, "g", 1, NULL));
	ck_ok(custody_buffer_release(grown));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

START_TEST(of_a_range_that_is_half_gone_the_rest_goes_too)
{
	setenv("SIMCUDA_FAIL", "cuMemUnmap:2:1", 1);
	struct custody_resource *resource = sparse_of(fixture_context(0));
	struct custody_buffer *old = make(resource, GRANULE), *grown, *again;
	CUdeviceptr behind = (CUdeviceptr)(uintptr_t)custody_buffer_pointer(old) + GRANULE;
	struct custody_virtual_piece piece;
	size_t count;

	ck_cu(cuMemAddressReserve(&behind, GRANULE, GRANULE, behind, 0));
	ck_ok(custody_virtual_grow(old, 2 * GRANULE, &grown));
	ck_is(custody_buffer_close(grown, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_assert(custody_buffer_is_closed(grown));
	ck_is(custody_virtual_grow(grown, 3 * GRANULE, &again), CUSTODY_E_CLOSED);
	ck_is(custody_virtual_export(grown, &piece, 1, &count), CUSTODY_E_CLOSED);
	ck_ok(custody_buffer_release(grown));
	ck_ok(custody_buffer_fill(old, "o", 1, NULL));
	ck_ok(custody_buffer_release(old));
}
END_TEST

START_TEST(only_whole_buffers_of_virtual_memory_grow)
{
	struct custody_context *context = fixture_context(0);
	struct custody_buffer *whole = make(virtual_with(context, NULL), 1), *part, *plain, *grown;
	struct custody_resource *device;

	ck_ok(custody_buffer_slice(whole, 0, 8, &part));
	ck_is(custody_virtual_grow(part, MIB, &grown), CUSTODY_E_INVALID);
	ck_ok(custody_resource_device(context, &device));
	plain = make(device, 1);
	ck_is(custody_virtual_grow(plain, MIB, &grown), CUSTODY_E_INVALID);
	ck_is(custody_virtual_grow(whole, MIB, NULL), CUSTODY_E_INVALID);
	ck_ok(custody_buffer_close(whole, NULL));
	ck_is(custody_virtual_grow(whole, MIB, &grown), CUSTODY_E_CLOSED);
}
END_TEST

START_TEST(growth_that_runs_out_of_memory_leaves_the_old_buffer)
{
	setenv("SIMCUDA_MEMORY", "256M", 1);
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = virtual_with(context, NULL);
	struct custody_buffer *old = make(resource, GRANULE), *grown = NULL;
	size_t before = fixture_free_bytes(context);

	ck_ok(custody_buffer_fill(old, "o", 1, NULL));
	ck_is(custody_virtual_grow(old, 1024UL * MIB, &grown), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_ptr_null(grown);
	ck_assert_ptr_nonnull(strstr(custody_error_detail(), "virtual memory"));
	ck_assert_int_eq(byte_at(old, 0), 'o');
	ck_assert_uint_eq(fixture_free_bytes(context), before);
}
END_TEST

/* ------------------------------------------------------------ in other processes */

static int count_descriptors(void)
{
	int count = 0;

	for (int i = 0; i < 256; i++)
		count += fcntl(i, F_GETFD) >= 0;
	return count;
}

/* A handle was released while what was exported of it still lived. */
START_TEST(pieces_are_exported_and_imported)
{
	const struct custody_virtual_options options = { .size = sizeof(options),
							 .is_shareable = true };
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = virtual_with(context, &options);
	struct custody_virtual_piece pieces[4];
	struct custody_buffer *old = make(resource, GRANULE), *grown, *imported;
	size_t count = 0;

	ck_ok(custody_virtual_grow(old, 3 * GRANULE, &grown));
	ck_ok(custody_buffer_fill(grown, "e", 1, NULL));
	ck_is(custody_virtual_export(grown, pieces, 1, &count), CUSTODY_E_BOUNDS);
	ck_ok(custody_virtual_export(grown, pieces, 4, &count));
	ck_assert_uint_eq(count, 2);
	ck_assert_uint_eq(pieces[0].bytes + pieces[1].bytes, 3 * GRANULE);
	ck_ok(custody_buffer_release(old));
	ck_ok(custody_buffer_release(grown));
	ck_ok(custody_virtual_import(resource, pieces, count, NULL, &imported));
	close(pieces[0].descriptor);
	close(pieces[1].descriptor);
	ck_assert_uint_eq(custody_buffer_bytes(imported), 3 * GRANULE);
	ck_assert_int_eq(byte_at(imported, 0), 'e');
	ck_assert_int_eq(byte_at(imported, 3 * GRANULE - 1), 'e');
	ck_ok(custody_buffer_release(imported));
}
END_TEST

START_TEST(pieces_that_cannot_be_are_refused)
{
	const struct custody_virtual_options options = { .size = sizeof(options),
							 .is_shareable = true };
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = virtual_with(context, &options);
	struct custody_virtual_piece piece;
	struct custody_buffer *buffer = make(resource, GRANULE), *imported = NULL;
	struct custody_buffer *private = make(virtual_with(context, NULL), GRANULE);
	size_t count = 0;
	int before;

	ck_is(custody_virtual_export(private, &piece, 1, &count), CUSTODY_E_UNSUPPORTED);
	ck_ok(custody_virtual_export(buffer, &piece, 1, &count));
	before = count_descriptors();
	piece.bytes = GRANULE / 2;
	ck_is(custody_virtual_import(resource, &piece, 1, NULL, &imported), CUSTODY_E_CORRUPT);
	piece.bytes = 2 * GRANULE;
	ck_is(custody_virtual_import(resource, &piece, 1, NULL, &imported),
	      CUDA_ERROR_INVALID_VALUE);
	ck_is(custody_virtual_import(resource, NULL, 1, NULL, &imported), CUSTODY_E_INVALID);
	ck_is(custody_virtual_import(resource, &piece, 0, NULL, &imported), CUSTODY_E_INVALID);
	ck_assert_ptr_null(imported);
	ck_assert_int_eq(count_descriptors(), before);
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("virtual memory");
	TCase *memory = tcase_create("memory"), *growth = tcase_create("growth");

	tcase_add_test(memory, sizes_are_rounded_up_and_reported_so);
	tcase_add_test(memory, no_bytes_are_no_call_of_the_driver);
	tcase_add_test(memory, raw_memory_is_freed_with_the_size_that_was_asked_for);
	tcase_add_test(memory, addresses_are_aligned_as_wanted);
	tcase_add_test(memory, more_than_there_are_addresses_is_out_of_memory);
	tcase_add_test(memory, a_driver_without_mappings_says_so);
	tcase_add_test(memory, peers_reach_the_memory);
	tcase_add_test(memory, peers_that_cannot_reach_it_are_refused);
	tcase_add_test(memory, memory_is_not_unmapped_before_its_streams_are_done);
	tcase_add_test(memory, a_stream_that_is_capturing_is_refused);
	tcase_add_test(memory, what_cannot_be_unmapped_can_be_closed_again);
	tcase_add_test(growth, a_buffer_grows_and_the_old_one_shows_the_same_memory);
	tcase_add_test(growth, a_buffer_grows_in_place_where_the_addresses_behind_it_are_free);
	tcase_add_test(growth, a_buffer_grows_elsewhere_where_they_are_not);
	tcase_add_test(growth, a_buffer_that_needs_no_more_is_there_twice);
	tcase_add_test(growth, of_a_range_that_is_half_gone_the_rest_goes_too);
	tcase_add_test(growth, only_whole_buffers_of_virtual_memory_grow);
	tcase_add_test(growth, growth_that_runs_out_of_memory_leaves_the_old_buffer);
	tcase_add_test(growth, pieces_are_exported_and_imported);
	tcase_add_test(growth, pieces_that_cannot_be_are_refused);
	suite_add_tcase(suite, memory);
	suite_add_tcase(suite, growth);
	return suite;
}
