/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one process in another.  The test exports; a story, which is a process of
 * its own, imports what stands in its environment, while the test waits for it.
 */
#include "fixture.h"

#include <fcntl.h>
#include <stdio.h>

enum { BYTES = 4096, CHECKSUM_AT = 184, OFFSET_AT = 48, BYTES_AT = 56, WHOLE_AT = 64 };

static char text[65536];

/* ------------------------------------------------------------ what goes over */

static char *describe(const char *name, const struct custody_ipc_descriptor *descriptor)
{
	static char line[16 + 2 * CUSTODY_IPC_BYTES + 1];
	int used = snprintf(line, sizeof(line), "%s=", name);

	for (int i = 0; i < CUSTODY_IPC_BYTES; i++)
		used += snprintf(line + used, sizeof(line) - (size_t)used, "%02x",
				 descriptor->bytes[i]);
	return line;
}

static void receive(struct custody_ipc_descriptor *descriptor)
{
	const char *line = getenv("DESCRIPTOR");
	unsigned int byte;

	story_check(line && strlen(line) == 2 * CUSTODY_IPC_BYTES);
	for (int i = 0; i < CUSTODY_IPC_BYTES; i++) {
		story_check(sscanf(line + 2 * i, "%2x", &byte) == 1);
		descriptor->bytes[i] = (unsigned char)byte;
	}
}

static int tell(const char *story, const struct custody_ipc_descriptor *descriptor,
		const char *more, const char *still_more)
{
	const char *settings[] = { describe("DESCRIPTOR", descriptor), more ? more : still_more,
				   more ? still_more : NULL, NULL };

	return fixture_run(story, settings, text, sizeof(text));
}

#define ck_told(status) ck_assert_msg((status) == 0, "the other process said: %s", text)

static struct custody_buffer *make(struct custody_resource *resource, size_t bytes)
{
	struct custody_buffer *buffer = NULL;

	ck_ok(custody_buffer_create(resource, bytes, NULL, &buffer));
	return buffer;
}

static struct custody_buffer *device_buffer(size_t bytes)
{
	struct custody_resource *resource;

	ck_ok(custody_resource_device(fixture_context(0), &resource));
	return make(resource, bytes);
}

static struct custody_context *context_here(int ordinal)
{
	struct custody_context *context = NULL;
	struct custody_device *device;

	story_check(!custody_device_get(ordinal, &device));
	story_check(!custody_context_of_device(device, &context));
	return context;
}

static unsigned char read_byte(struct custody_buffer *buffer, size_t offset)
{
	unsigned char byte = 0;

	story_check(!custody_buffer_read(buffer, offset, &byte, 1, NULL));
	return byte;
}

/* ------------------------------------------------------------ in the other process */

static int import_twice(void)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *one, *two, *again;
	struct custody_buffer_info info = { .size = sizeof(info) };
	struct custody_context *context;

	fixture_watch();
	context = context_here(0);
	receive(&descriptor);
	story_check(!custody_buffer_import(context, &descriptor, NULL, NULL, &one));
	story_check(!custody_buffer_import(context, &descriptor, NULL, NULL, &two));
	story_check(custody_buffer_pointer(one) == custody_buffer_pointer(two));
	story_check(fixture_calls("cuIpcOpenMemHandle_v2") == 1);
	story_check(!custody_buffer_info(one, &info));
	story_check(info.is_mapped && info.bytes == BYTES && info.is_device_accessible);
	story_check(custody_buffer_resource(one) == NULL);
	story_check(read_byte(one, 0) == 'e');
	story_check(!custody_buffer_close(one, NULL));
	story_check(!custody_buffer_close(one, NULL));
	story_check(fixture_calls("cuIpcCloseMemHandle") == 0);
	story_check(!custody_buffer_write(two, 1, "i", 1, NULL));
	story_check(!custody_buffer_release(one));
	story_check(!custody_buffer_release(two));
	story_check(fixture_calls("cuIpcCloseMemHandle") == 1);
	story_check(!custody_buffer_import(context, &descriptor, NULL, NULL, &again));
	story_check(read_byte(again, 1) == 'i');
	story_check(!custody_buffer_release(again));
	return 0;
}

static int import_part(void)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *buffer;

	receive(&descriptor);
	story_check(!custody_buffer_import(context_here(0), &descriptor, NULL, NULL, &buffer));
	story_check(custody_buffer_bytes(buffer) == 5);
	story_check(read_byte(buffer, 0) == 'h' && read_byte(buffer, 4) == 'o');
	story_check(custody_buffer_read(buffer, 5, &(char){ 0 }, 1, NULL) == CUSTODY_E_BOUNDS);
	return custody_buffer_release(buffer);
}

/* Silent, whatever is open still. */
static int import_and_exit(void)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *buffer;

	receive(&descriptor);
	story_check(!custody_buffer_import(context_here(0), &descriptor, NULL, NULL, &buffer));
	exit(0);
}

static int import_and_reset(void)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_context *context;
	struct custody_buffer *buffer, *again;

	fixture_watch();
	context = context_here(0);
	receive(&descriptor);
	story_check(!custody_buffer_import(context, &descriptor, NULL, NULL, &buffer));
	story_check(!custody_context_reset(context));
	story_check(fixture_calls("cuIpcCloseMemHandle") == 1);
	story_check(!custody_buffer_import(context, &descriptor, NULL, NULL, &again));
	story_check(!custody_buffer_release(buffer));
	story_check(read_byte(again, 0) == 'e');
	return custody_buffer_release(again);
}

static int import_elsewhere(bool is_mapped)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer_info info = { .size = sizeof(info) };
	struct custody_context *context = context_here(1);
	struct custody_buffer *buffer;

	receive(&descriptor);
	story_check(!custody_buffer_import(context, &descriptor, NULL, NULL, &buffer));
	story_check(!custody_buffer_info(buffer, &info));
	story_check(info.is_mapped == is_mapped);
	story_check(custody_buffer_context(buffer) == context);
	story_check(read_byte(buffer, 0) == 'e');
	story_check(!custody_buffer_write(buffer, 1, "w", 1, NULL));
	return custody_buffer_release(buffer);
}

static int import_on_a_peer(void)
{
	return import_elsewhere(true);
}

static int import_out_of_reach(void)
{
	return import_elsewhere(false);
}

static void forge(struct custody_ipc_descriptor *descriptor, size_t at, uint64_t value)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	memcpy(descriptor->bytes + at, &value, sizeof(value));
	for (int i = 0; i < CHECKSUM_AT; i++)
		sum = (sum ^ descriptor->bytes[i]) * UINT64_C(0x100000001b3);
	memcpy(descriptor->bytes + CHECKSUM_AT, &sum, sizeof(sum));
}

static int import_forged(struct custody_ipc_descriptor descriptor, size_t at, uint64_t value)
{
	struct custody_buffer *buffer;

	forge(&descriptor, at, value);
	return custody_buffer_import(context_here(0), &descriptor, NULL, NULL, &buffer);
}

/* What has a right checksum need not be right. */
static int import_lies(void)
{
	struct custody_ipc_descriptor descriptor, larger;
	struct custody_buffer *buffer;

	receive(&descriptor);
	story_check(import_forged(descriptor, OFFSET_AT, 1) == CUSTODY_E_CORRUPT);
	story_check(import_forged(descriptor, BYTES_AT, BYTES + 1) == CUSTODY_E_CORRUPT);
	story_check(import_forged(descriptor, BYTES_AT, 0) == CUSTODY_E_CORRUPT);
	story_check(import_forged(descriptor, BYTES_AT, UINT64_MAX) == CUSTODY_E_CORRUPT);
	story_check(import_forged(descriptor, 8, 1 | UINT64_C(9) << 32) == CUSTODY_E_CORRUPT);
	story_check(import_forged(descriptor, 8, 2 | UINT64_C(1) << 32) == CUSTODY_E_CORRUPT);
	story_check(import_forged(descriptor, 136, 1) == CUSTODY_E_CORRUPT);
	story_check(import_forged(descriptor, 32, 1) == CUSTODY_E_NO_DEVICE);
	story_check(import_forged(descriptor, 72, 1) > 0);
	larger = descriptor;
	forge(&larger, WHOLE_AT, 8 * BYTES);
	forge(&larger, BYTES_AT, 4 * BYTES);
	story_check(custody_buffer_import(context_here(0), &larger, NULL, NULL, &buffer) ==
		    CUSTODY_E_CORRUPT);
	story_check(!custody_buffer_import(context_here(0), &descriptor, NULL, NULL, &buffer));
	return custody_buffer_release(buffer);
}

static struct custody_resource *receive_pool(struct custody_context *context)
{
	struct custody_resource *pool = NULL;
	const char *descriptor = getenv("POOL");

	story_check(descriptor != NULL);
	story_check(!custody_resource_import(context, atoi(descriptor), &pool));
	return pool;
}

static void check_refusal_while_capturing(struct custody_buffer *buffer,
					  struct custody_stream *stream)
{
	CUgraph graph;

	story_check(!custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	story_check(custody_buffer_close(buffer, NULL) == CUSTODY_E_CAPTURING);
	story_check(!custody_stream_end_capture(stream, &graph));
	story_check(cuGraphDestroy(graph) == CUDA_SUCCESS);
}

static int import_of_a_pool(void)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_resource_info facts = { .size = sizeof(facts) };
	struct custody_context *context;
	struct custody_resource *pool;
	struct custody_buffer *one, *two, *again;
	struct custody_stream *stream;

	fixture_watch();
	context = context_here(0);
	pool = receive_pool(context);
	receive(&descriptor);
	story_check(!custody_resource_info(pool, &facts) && facts.is_imported);
	story_check(custody_buffer_create(pool, 1, NULL, &one) == CUSTODY_E_UNSUPPORTED);
	story_check(custody_resource_export(pool, &(int){ 0 }) == CUSTODY_E_UNSUPPORTED);
	story_check(custody_buffer_import(context, &descriptor, NULL, NULL, &one) ==
		    CUSTODY_E_INVALID);
	story_check(!custody_stream_create(context, NULL, &stream));
	story_check(!custody_buffer_import(context, &descriptor, pool, stream, &one));
	story_check(!custody_buffer_import(context, &descriptor, pool, NULL, &two));
	story_check(fixture_calls("cuMemPoolImportPointer") == 1);
	story_check(custody_buffer_resource(one) == pool);
	story_check(read_byte(one, 0) == 'e');
	check_refusal_while_capturing(one, stream);
	story_check(!custody_buffer_release(one));
	story_check(read_byte(two, 0) == 'e');
	story_check(!custody_buffer_write(two, 1, "i", 1, NULL));
	story_check(!custody_buffer_release(two));
	story_check(fixture_calls("cuMemFreeAsync") == 1);
	story_check(!custody_buffer_import(context, &descriptor, pool, stream, &again));
	story_check(read_byte(again, 1) == 'i');
	story_check(!custody_resource_release(pool));
	return custody_buffer_release(again);
}

static int import_with_the_wrong_resource(void)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_context *context = context_here(0);
	struct custody_resource *own;
	struct custody_buffer *buffer;

	receive(&descriptor);
	story_check(!custody_resource_device(context, &own));
	story_check(custody_buffer_import(context, &descriptor, own, NULL, &buffer) ==
		    CUSTODY_E_MISMATCH);
	return 0;
}

const struct fixture_story fixture_stories[] = {
	{ "import_twice", import_twice },
	{ "import_part", import_part },
	{ "import_and_exit", import_and_exit },
	{ "import_and_reset", import_and_reset },
	{ "import_on_a_peer", import_on_a_peer },
	{ "import_out_of_reach", import_out_of_reach },
	{ "import_lies", import_lies },
	{ "import_of_a_pool", import_of_a_pool },
	{ "import_with_the_wrong_resource", import_with_the_wrong_resource },
	{ NULL, NULL },
};

/* ------------------------------------------------------------ memory of the device */

static void check_written(struct custody_buffer *buffer, char expected)
{
	char bytes[2];

	ck_ok(custody_buffer_read(buffer, 0, bytes, 2, NULL));
	ck_assert_int_eq(bytes[0], 'e');
	ck_assert_int_eq(bytes[1], expected);
}

static struct custody_buffer *export_one(struct custody_ipc_descriptor *descriptor)
{
	struct custody_buffer *buffer = device_buffer(BYTES);

	ck_ok(custody_buffer_fill(buffer, "e", 1, NULL));
	ck_ok(custody_buffer_export(buffer, descriptor));
	return buffer;
}

/* Closed twice, or never, or found open already. */
START_TEST(memory_is_opened_once_and_closed_by_the_last)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *buffer = export_one(&descriptor);

	ck_told(tell("import_twice", &descriptor, NULL, NULL));
	check_written(buffer, 'i');
}
END_TEST

/* The handle is that of the whole allocation. */
START_TEST(a_part_arrives_at_its_offset)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *buffer = device_buffer(BYTES), *part;

	ck_ok(custody_buffer_write(buffer, 1000, "hello", 5, NULL));
	ck_ok(custody_buffer_slice(buffer, 1000, 5, &part));
	ck_ok(custody_buffer_export(part, &descriptor));
	ck_told(tell("import_part", &descriptor, NULL, NULL));
}
END_TEST

/* A cache was cleaned up after the driver had ended. */
START_TEST(a_process_may_end_with_memory_open)
{
	struct custody_ipc_descriptor descriptor;

	export_one(&descriptor);
	ck_told(tell("import_and_exit", &descriptor, NULL, NULL));
	ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(a_reset_closes_what_was_imported)
{
	struct custody_ipc_descriptor descriptor;

	export_one(&descriptor);
	ck_told(tell("import_and_reset", &descriptor, NULL, NULL));
}
END_TEST

START_TEST(a_device_that_reaches_the_memory_maps_it)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *buffer;

	setenv("SIMCUDA_DEVICES", "2", 1);
	buffer = export_one(&descriptor);
	ck_told(tell("import_on_a_peer", &descriptor, "SIMCUDA_DEVICES=2", NULL));
	check_written(buffer, 'w');
}
END_TEST

START_TEST(a_device_that_does_not_reach_the_memory_gets_a_copy)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *buffer;

	setenv("SIMCUDA_DEVICES", "2", 1);
	setenv("SIMCUDA_PEER", "0", 1);
	buffer = export_one(&descriptor);
	ck_told(tell("import_out_of_reach", &descriptor, "SIMCUDA_DEVICES=2", "SIMCUDA_PEER=0"));
	check_written(buffer, 'e');
}
END_TEST

/* The exporter freed while importers still had it open. */
START_TEST(exported_memory_is_freed_at_once)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_context *context = fixture_context(0);
	size_t before = fixture_free_bytes(context);
	struct custody_buffer *buffer = device_buffer(8 * MIB);

	ck_ok(custody_buffer_export(buffer, &descriptor));
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_assert_uint_eq(fixture_pending_bytes(context), 0);
	ck_assert_uint_eq(fixture_free_bytes(context), before);
	ck_ok(custody_buffer_release(buffer));
}
END_TEST

/* The driver need not wait in its free, and the simulated one always does. */
START_TEST(exported_memory_is_not_freed_under_its_streams)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *buffer, *other;

	fixture_watch();
	other = device_buffer(BYTES);
	buffer = export_one(&descriptor);
	fixture_forget();
	ck_ok(custody_buffer_close(other, NULL));
	ck_assert_uint_eq(fixture_calls("cuCtxSynchronize"), 0);
	ck_ok(custody_buffer_close(buffer, NULL));
	ck_assert_uint_eq(fixture_calls("cuCtxSynchronize"), 1);
	ck_assert_uint_eq(fixture_calls("cuMemFree_v2"), 1);
}
END_TEST

START_TEST(exported_memory_is_not_freed_while_a_capture_is_live)
{
	const struct custody_stream_options options = { .size = sizeof(options),
							.is_nonblocking = true };
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *buffer = export_one(&descriptor);
	struct custody_stream *stream;
	CUgraph graph;

	ck_ok(custody_stream_create(fixture_context(0), &options, &stream));
	ck_ok(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_is(custody_buffer_close(buffer, NULL), CUSTODY_E_CAPTURING);
	ck_is(custody_buffer_release(buffer), CUSTODY_E_CAPTURING);
	ck_ok(custody_stream_end_capture(stream, &graph));
	ck_ok(custody_buffer_release(buffer));
	ck_cu(cuGraphDestroy(graph));
}
END_TEST

/* ------------------------------------------------------------ what is refused */

START_TEST(the_exporter_cannot_import)
{
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *imported;

	export_one(&descriptor);
	ck_is(custody_buffer_import(fixture_context(0), &descriptor, NULL, NULL, &imported),
	      CUSTODY_E_OWN_PROCESS);
}
END_TEST

START_TEST(every_damaged_bit_is_found)
{
	struct custody_ipc_descriptor descriptor, damaged;
	struct custody_context *context = fixture_context(0);
	struct custody_buffer *imported;

	export_one(&descriptor);
	for (int i = 0; i < 8 * CUSTODY_IPC_BYTES; i++) {
		damaged = descriptor;
		damaged.bytes[i / 8] ^= (unsigned char)(1 << i % 8);
		ck_is(custody_buffer_import(context, &damaged, NULL, NULL, &imported),
		      CUSTODY_E_CORRUPT);
	}
	memset(&damaged, 0, sizeof(damaged));
	ck_is(custody_buffer_import(context, &damaged, NULL, NULL, &imported), CUSTODY_E_CORRUPT);
	memset(&damaged, 0xff, sizeof(damaged));
	ck_is(custody_buffer_import(context, &damaged, NULL, NULL, &imported), CUSTODY_E_CORRUPT);
}
END_TEST

START_TEST(a_descriptor_that_lies_is_refused)
{
	struct custody_ipc_descriptor descriptor;

	export_one(&descriptor);
	ck_told(tell("import_lies", &descriptor, NULL, NULL));
}
END_TEST

START_TEST(only_device_memory_and_shareable_pools_are_exported)
{
	struct custody_context *context = fixture_context(0);
	struct custody_resource *resources[4];
	struct custody_ipc_descriptor descriptor;
	struct custody_buffer *wrapped, *whole = device_buffer(BYTES);

	ck_ok(custody_resource_pool(context, NULL, &resources[0]));
	ck_ok(custody_resource_pinned(context, 0, &resources[1]));
	ck_ok(custody_resource_managed(context, true, &resources[2]));
	ck_ok(custody_resource_virtual(context, NULL, &resources[3]));
	for (int i = 0; i < 4; i++)
		ck_is(custody_buffer_export(make(resources[i], BYTES), &descriptor),
		      CUSTODY_E_UNSUPPORTED);
	ck_ok(custody_buffer_wrap(context, custody_buffer_pointer(whole), 8, NULL, NULL, &wrapped));
	ck_is(custody_buffer_export(wrapped, &descriptor), CUSTODY_E_UNSUPPORTED);
	ck_is(custody_buffer_export(device_buffer(0), &descriptor), CUSTODY_E_INVALID);
	ck_is(custody_buffer_export(NULL, &descriptor), CUSTODY_E_INVALID);
	ck_is(custody_buffer_export(whole, NULL), CUSTODY_E_INVALID);
	ck_ok(custody_buffer_close(whole, NULL));
	ck_is(custody_buffer_export(whole, &descriptor), CUSTODY_E_CLOSED);
	ck_is(custody_buffer_import(NULL, &descriptor, NULL, NULL, &wrapped), CUSTODY_E_INVALID);
	ck_is(custody_buffer_import(context, NULL, NULL, NULL, &wrapped), CUSTODY_E_INVALID);
}
END_TEST

START_TEST(a_resource_for_memory_of_none_is_refused)
{
	struct custody_ipc_descriptor descriptor;

	export_one(&descriptor);
	ck_told(tell("import_with_the_wrong_resource", &descriptor, NULL, NULL));
}
END_TEST

/* ------------------------------------------------------------ pools */

/* One pointer was imported twice, and the first free took both. */
START_TEST(memory_of_a_pool_is_imported_once_and_freed_by_the_last)
{
	const struct custody_pool_options options = { .size = sizeof(options),
						      .is_shareable = true };
	struct custody_ipc_descriptor descriptor;
	struct custody_resource *pool;
	struct custody_buffer *buffer;
	char setting[32];
	int file = -1;

	ck_ok(custody_resource_pool(fixture_context(0), &options, &pool));
	buffer = make(pool, BYTES);
	ck_ok(custody_buffer_fill(buffer, "e", 1, NULL));
	ck_ok(custody_buffer_export(buffer, &descriptor));
	ck_ok(custody_resource_export(pool, &file));
	ck_assert_int_eq(fcntl(file, F_SETFD, 0), 0);
	snprintf(setting, sizeof(setting), "POOL=%d", file);
	ck_told(tell("import_of_a_pool", &descriptor, setting, NULL));
	check_written(buffer, 'i');
	close(file);
}
END_TEST

START_TEST(a_file_that_is_no_pool_is_refused)
{
	struct custody_resource *pool;
	int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ck_is(custody_resource_import(fixture_context(0), file, &pool), CUDA_ERROR_INVALID_VALUE);
	close(file);
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("ipc");
	TCase *memory = tcase_create("memory"), *refused = tcase_create("refused");
	TCase *pools = tcase_create("pools");

	tcase_add_test(memory, memory_is_opened_once_and_closed_by_the_last);
	tcase_add_test(memory, a_part_arrives_at_its_offset);
	tcase_add_test(memory, a_process_may_end_with_memory_open);
	tcase_add_test(memory, a_reset_closes_what_was_imported);
	tcase_add_test(memory, a_device_that_reaches_the_memory_maps_it);
	tcase_add_test(memory, a_device_that_does_not_reach_the_memory_gets_a_copy);
	tcase_add_test(memory, exported_memory_is_freed_at_once);
	tcase_add_test(memory, exported_memory_is_not_freed_under_its_streams);
	tcase_add_test(memory, exported_memory_is_not_freed_while_a_capture_is_live);
	tcase_add_test(refused, the_exporter_cannot_import);
	tcase_add_test(refused, every_damaged_bit_is_found);
	tcase_add_test(refused, a_descriptor_that_lies_is_refused);
	tcase_add_test(refused, only_device_memory_and_shareable_pools_are_exported);
	tcase_add_test(refused, a_resource_for_memory_of_none_is_refused);
	tcase_add_test(pools, memory_of_a_pool_is_imported_once_and_freed_by_the_last);
	tcase_add_test(pools, a_file_that_is_no_pool_is_refused);
	suite_add_tcase(suite, memory);
	suite_add_tcase(suite, refused);
	suite_add_tcase(suite, pools);
	return suite;
}
