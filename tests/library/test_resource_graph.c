/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of graphs, and resources of the program's own. */
#include "fixture.h"

/* ------------------------------------------------------------ graphs */

static struct custody_resource *graph_of(struct custody_context *context)
{
	struct custody_resource *resource = NULL;

	ck_ok(custody_resource_graph(context, &resource));
	return resource;
}

static struct custody_stream *stream_of(struct custody_context *context)
{
	const struct custody_stream_options options = { .size = sizeof(options),
							.is_nonblocking = true };
	struct custody_stream *stream = NULL;

	ck_ok(custody_stream_create(context, &options, &stream));
	return stream;
}

static void begin(struct custody_stream *stream)
{
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

/* End the capture, and launch what was captured `times` over. */
static void launch(struct custody_stream *stream, unsigned int times)
{
	CUgraphExec exec;
	CUgraph graph;

	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_ok(custody_context_push(custody_stream_context(stream)));
	ck_cu(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (unsigned int i = 0; i < times; i++)
		ck_cu(cuGraphLaunch(exec, custody_stream_handle(stream)));
	ck_ok(custody_stream_synchronize(stream));
	ck_ok(custody_context_pop(custody_stream_context(stream)));
	ck_cu(cuGraphExecDestroy(exec));
	ck_cu(cuGraphDestroy(graph));
}

START_TEST(allocations_and_frees_become_nodes)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = graph_of(context);
	struct custody_stream *stream = stream_of(context);
	size_t before = fixture_free_bytes(context);
	struct custody_buffer *buffer;

	begin(stream);
	ck_ok(custody_buffer_create(resource, MIB, stream, &buffer));
	ck_ok(custody_buffer_fill(buffer, "g", 1, stream));
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(fixture_free_bytes(context), before);
	launch(stream, 3);
	ck_assert_uint_lt(fixture_free_bytes(context), before);
}
END_TEST

START_TEST(outside_of_a_capture_there_is_no_memory_of_graphs)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = graph_of(context);
	void *pointer;

	ck_is(custody_resource_allocate(resource, KIB, stream_of(context), &pointer),
	      CUSTODY_E_NOT_CAPTURING);
	ck_is(custody_resource_allocate(resource, KIB, NULL, &pointer), CUSTODY_E_NOT_CAPTURING);
}
END_TEST

/* Freeing what a graph owns was an invalid value, and the next launch failed. */
START_TEST(memory_of_a_graph_that_was_not_launched_is_left_to_it)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = graph_of(context);
	struct custody_stream *stream = stream_of(context);
	struct custody_buffer *buffer;
	CUgraph graph;

	begin(stream);
	ck_ok(custody_buffer_create(resource, MIB, stream, &buffer));
	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_is(custody_buffer_close(buffer, NULL), CUSTODY_E_NOT_CAPTURING);
	ck_assert(!custody_buffer_is_closed(buffer));
	ck_ok(custody_buffer_release(buffer));
	ck_cu(cuGraphDestroy(graph));
}
END_TEST

START_TEST(what_a_graph_has_not_freed_is_freed_after_its_launch)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = graph_of(context);
	struct custody_stream *stream = stream_of(context);
	struct custody_buffer *buffer;
	unsigned char byte = 0;

	begin(stream);
	ck_ok(custody_buffer_create(resource, MIB, stream, &buffer));
	ck_ok(custody_buffer_fill(buffer, "h", 1, stream));
	launch(stream, 1);
	ck_ok(custody_buffer_read(buffer, 7, &byte, 1, NULL));
	ck_assert_int_eq(byte, 'h');
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_ok(custody_buffer_release(buffer));
}
END_TEST

START_TEST(a_stream_of_the_same_capture_is_waited_for_inside_of_it)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = graph_of(context);
	struct custody_stream *stream = stream_of(context), *branch = stream_of(context);
	struct custody_stream *outside = stream_of(context);
	struct custody_buffer *buffer, *other;

	begin(stream);
	ck_ok(custody_buffer_create(resource, MIB, stream, &buffer));
	ck_ok(custody_buffer_create(resource, MIB, stream, &other));
	ck_ok(custody_stream_wait_stream(branch, stream));
	ck_ok(custody_buffer_fill(buffer, "b", 1, branch));
	ck_ok(custody_buffer_record_stream(buffer, branch));
	ck_ok(custody_buffer_release(buffer));
	ck_ok(custody_buffer_record_stream(other, outside));
	ck_is(custody_buffer_close(other, NULL), CUSTODY_E_CAPTURING);
	launch(stream, 1);
}
END_TEST

START_TEST(memory_of_graphs_is_counted_and_trimmed)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = graph_of(context);
	struct custody_stream *stream = stream_of(context);
	struct custody_buffer *buffer;
	uint64_t reserved = 0, high = 0;

	begin(stream);
	ck_ok(custody_buffer_create(resource, MIB, stream, &buffer));
	ck_ok(custody_buffer_release(buffer));
	launch(stream, 1);
	ck_ok(custody_pool_attribute(resource, CUSTODY_POOL_RESERVED_CURRENT, &reserved));
	ck_assert_uint_ge(reserved, MIB);
	ck_ok(custody_pool_trim(resource, 0));
	ck_ok(custody_pool_attribute(resource, CUSTODY_POOL_RESERVED_CURRENT, &reserved));
	ck_assert_uint_eq(reserved, 0);
	ck_ok(custody_pool_attribute(resource, CUSTODY_POOL_RESERVED_HIGH, &high));
	ck_assert_uint_ge(high, MIB);
	ck_ok(custody_pool_set_attribute(resource, CUSTODY_POOL_RESERVED_HIGH, 0));
	ck_ok(custody_pool_attribute(resource, CUSTODY_POOL_RESERVED_HIGH, &high));
	ck_assert_uint_eq(high, 0);
	ck_is(custody_pool_attribute(resource, CUSTODY_POOL_RELEASE_THRESHOLD, &high),
	      CUSTODY_E_INVALID);
	ck_is(custody_pool_set_access(resource, fixture_device(0), true), CUSTODY_E_INVALID);
}
END_TEST

/* ------------------------------------------------------------ the program's own */

struct shelf {
	unsigned int taken, given, destroyed;
	size_t bytes;
	struct custody_stream *stream;
	struct custody_resource *upstream;
	CUcontext current;
	int refusal;
};

static int take_from(void *self, size_t bytes, struct custody_stream *stream, void **pointer)
{
	struct shelf *shelf = self;

	if (shelf->refusal)
		return shelf->refusal;
	shelf->taken++;
	shelf->bytes = bytes;
	shelf->stream = stream;
	cuCtxGetCurrent(&shelf->current);
	return custody_resource_allocate(shelf->upstream, bytes, stream, pointer);
}

static int give_to(void *self, void *pointer, size_t bytes, struct custody_stream *stream)
{
	struct shelf *shelf = self;

	shelf->given++;
	shelf->bytes = bytes;
	shelf->stream = stream;
	return custody_resource_deallocate(shelf->upstream, pointer, bytes, stream);
}

static int describe(void *self, struct custody_resource_info *info)
{
	(void)self;
	info->is_host_accessible = true;
	info->device = -1;
	info->kind = CUSTODY_RESOURCE_PINNED;
	return 0;
}

static void end_shelf(void *self)
{
	((struct shelf *)self)->destroyed++;
}

static const struct custody_resource_ops shelf_ops = {
	.size = sizeof(shelf_ops),
	.allocate = take_from,
	.deallocate = give_to,
	.query = describe,
	.destroy = end_shelf,
};

static struct custody_resource *open_shelf(struct shelf *shelf)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resource = NULL;

	ck_ok(custody_resource_pinned(context, 0, &shelf->upstream));
	ck_ok(custody_resource_custom(context, &shelf_ops, shelf, &resource));
	return resource;
}

START_TEST(the_programs_functions_are_called_in_the_context)
{
	struct shelf shelf = { 0 };
	struct custody_resource *resource = open_shelf(&shelf);
	struct custody_stream *stream = stream_of(fixture_context(0));
	struct custody_buffer *buffer;
	struct custody_buffer_info info = { .size = sizeof(info) };

	ck_ok(custody_buffer_create(resource, 100, stream, &buffer));
	ck_assert_uint_eq(shelf.bytes, 100);
	ck_assert_ptr_eq(shelf.stream, stream);
	ck_assert_ptr_eq(shelf.current, custody_context_handle(fixture_context(0)));
	ck_ok(custody_buffer_info(buffer, &info));
	ck_assert_ptr_eq(info.host_pointer, info.pointer);
	shelf.stream = NULL;
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(shelf.given, 1);
	ck_assert_uint_eq(shelf.bytes, 100);
	ck_assert_ptr_eq(shelf.stream, stream);
	ck_ok(custody_resource_release(resource));
	ck_assert_uint_eq(shelf.destroyed, 1);
}
END_TEST

START_TEST(the_program_says_what_its_memory_is)
{
	struct shelf shelf = { 0 };
	struct custody_resource *resource = open_shelf(&shelf);
	struct custody_resource_info info = { .size = sizeof(info) };

	ck_ok(custody_resource_info(resource, &info));
	ck_assert_int_eq(info.kind, CUSTODY_RESOURCE_CUSTOM);
	ck_assert_int_eq(info.device, -1);
	ck_assert(info.is_host_accessible && info.is_device_accessible);
	ck_assert_uint_eq(info.size, sizeof(info));
}
END_TEST

START_TEST(what_the_program_returns_is_returned)
{
	struct shelf shelf = { .refusal = CUSTODY_E_BUSY };
	struct custody_resource *resource = open_shelf(&shelf);
	struct custody_buffer *buffer = NULL;
	void *pointer;

	ck_is(custody_buffer_create(resource, 1, NULL, &buffer), CUSTODY_E_BUSY);
	ck_assert_ptr_null(buffer);
	ck_is(custody_resource_allocate(resource, 1, NULL, &pointer), CUSTODY_E_BUSY);
	shelf.refusal = 0;
	ck_ok(custody_resource_allocate(resource, 1, NULL, &pointer));
	ck_is(custody_resource_deallocate(resource, pointer, 2, NULL), CUSTODY_E_MISMATCH);
	ck_assert_uint_eq(shelf.given, 0);
	ck_ok(custody_resource_deallocate(resource, pointer, 1, NULL));
}
END_TEST

START_TEST(a_reset_gives_the_programs_memory_back_to_it)
{
	struct shelf shelf = { 0 };
	struct custody_resource *resource = open_shelf(&shelf);
	struct custody_buffer *buffer;

	ck_ok(custody_buffer_create(resource, 64, NULL, &buffer));
	ck_ok(custody_context_reset(fixture_context(0)));
	ck_assert_uint_eq(shelf.given, 1);
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(shelf.given, 1);
	ck_ok(custody_resource_release(resource));
	ck_assert_uint_eq(shelf.destroyed, 1);
}
END_TEST

START_TEST(a_reset_gives_it_back_though_its_streams_cannot_be_joined)
{
	setenv("SIMCUDA_FAIL", "cuEventCreate:*:999", 1);
	struct shelf shelf = { 0 };
	struct custody_resource *resource = open_shelf(&shelf);
	struct custody_buffer *buffer;

	ck_ok(custody_buffer_create(resource, 64, NULL, &buffer));
	ck_ok(custody_buffer_record_stream(buffer, stream_of(fixture_context(0))));
	ck_is(custody_buffer_release(buffer), CUDA_ERROR_UNKNOWN);
	ck_assert_uint_eq(shelf.given, 0);
	custody_context_reset(fixture_context(0));
	ck_assert_uint_eq(shelf.given, 1);
	ck_ok(custody_resource_release(resource));
	ck_assert_uint_eq(shelf.destroyed, 1);
}
END_TEST

START_TEST(a_table_that_is_not_complete_is_refused)
{
	struct custody_resource_ops ops = { .size = sizeof(ops), .allocate = take_from };
	struct custody_resource *resource;

	ck_is(custody_resource_custom(fixture_context(0), &ops, NULL, &resource),
	      CUSTODY_E_INVALID);
	ops.deallocate = give_to;
	ops.size = 3;
	ck_is(custody_resource_custom(fixture_context(0), &ops, NULL, &resource),
	      CUSTODY_E_INVALID);
	ops.size = sizeof(ops);
	ck_ok(custody_resource_custom(fixture_context(0), &ops, NULL, &resource));
	ck_ok(custody_resource_release(resource));
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("graph and own");
	TCase *graphs = tcase_create("graphs"), *own = tcase_create("own");

	tcase_add_test(graphs, allocations_and_frees_become_nodes);
	tcase_add_test(graphs, outside_of_a_capture_there_is_no_memory_of_graphs);
	tcase_add_test(graphs, memory_of_a_graph_that_was_not_launched_is_left_to_it);
	tcase_add_test(graphs, what_a_graph_has_not_freed_is_freed_after_its_launch);
	tcase_add_test(graphs, a_stream_of_the_same_capture_is_waited_for_inside_of_it);
	tcase_add_test(graphs, memory_of_graphs_is_counted_and_trimmed);
	tcase_add_test(own, the_programs_functions_are_called_in_the_context);
	tcase_add_test(own, the_program_says_what_its_memory_is);
	tcase_add_test(own, what_the_program_returns_is_returned);
	tcase_add_test(own, a_reset_gives_the_programs_memory_back_to_it);
	tcase_add_test(own, a_reset_gives_it_back_though_its_streams_cannot_be_joined);
	tcase_add_test(own, a_table_that_is_not_complete_is_refused);
	suite_add_tcase(suite, graphs);
	suite_add_tcase(suite, own);
	return suite;
}
