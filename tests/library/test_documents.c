/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The examples of the founding documents, and items of theirs that are several
 * functions here, as they are written there.
 */
#include "fixture.h"

enum { COUNT = 1000 };

static struct custody_context *context;

static void begin(void)
{
	context = fixture_context(0);
}

static struct custody_layout line_of(size_t count)
{
	return (struct custody_layout){
		.size = sizeof(struct custody_layout),
		.ndim = 1,
		.shape = { count },
		.type = { CUSTODY_TYPE_INT, sizeof(int32_t) },
	};
}

static struct custody_array *counting_array(struct custody_stream *stream)
{
	static int32_t numbers[COUNT];
	struct custody_layout layout = line_of(COUNT);
	struct custody_array *array;

	for (int i = 0; i < COUNT; i++)
		numbers[i] = i;
	ck_ok(custody_array_to_device(context, numbers, &layout, stream, true, NULL, &array));
	return array;
}

/* d_ary = cuda.to_device(ary, stream=stream); hary = d_ary.copy_to_host(stream=stream) */
START_TEST(transfers_are_queued_in_a_stream)
{
	struct custody_layout layout = line_of(COUNT);
	struct custody_stream *stream;
	struct custody_array *array;
	int32_t back[COUNT] = { 0 };
	void *new;

	ck_ok(custody_stream_create(context, NULL, &stream));
	array = counting_array(stream);
	ck_assert_ptr_eq(custody_array_stream(array), stream);
	ck_ok(custody_array_copy_to_host(array, back, &layout, stream));
	ck_ok(custody_array_copy_to_new_host(array, &new, stream));
	ck_ok(custody_stream_synchronize(stream));
	for (int i = 0; i < COUNT; i++) {
		ck_assert_int_eq(back[i], i);
		ck_assert_int_eq(((int32_t *)new)[i], i);
	}
	free(new);
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_stream_destroy(stream));
}
END_TEST

/* d_arr = d_arr.reshape(20, 50, order='F') */
START_TEST(a_line_is_reshaped_in_f_order)
{
	struct custody_array *array = counting_array(NULL), *table;
	struct custody_layout layout = { .size = sizeof(layout) };
	int32_t value;

	ck_ok(custody_array_reshape(array, 2, (size_t[]){ 20, 50 }, CUSTODY_ORDER_F, &table));
	ck_ok(custody_array_layout(table, &layout));
	ck_assert_int_eq(layout.strides[0], 4);
	ck_assert_int_eq(layout.strides[1], 80);
	ck_assert(custody_array_is_f_contiguous(table));
	ck_assert(!custody_array_is_c_contiguous(table));
	ck_ok(custody_array_get(table, (size_t[]){ 3, 2 }, &value, NULL));
	ck_assert_int_eq(value, 43);
	ck_ok(custody_array_destroy(table));
	ck_ok(custody_array_destroy(array));
}
END_TEST

static void expect_like(struct custody_array *made, const struct custody_layout *wanted)
{
	struct custody_layout found = { .size = sizeof(found) };

	ck_ok(custody_array_layout(made, &found));
	ck_assert_int_eq(found.ndim, wanted->ndim);
	for (int i = 0; i < found.ndim; i++) {
		ck_assert_uint_eq(found.shape[i], wanted->shape[i]);
		ck_assert_int_eq(found.strides[i], wanted->strides[i]);
	}
	ck_assert_int_eq(found.type.kind, wanted->type.kind);
	ck_assert_uint_eq(found.type.item_bytes, wanted->type.item_bytes);
	ck_assert_ptr_nonnull(custody_array_host_pointer(made));
	ck_ok(custody_array_destroy(made));
}

/* pinned_array_like(ary), mapped_array_like(ary) */
START_TEST(host_arrays_are_made_like_another)
{
	struct custody_array *array = counting_array(NULL), *table, *like;
	struct custody_layout layout = { .size = sizeof(layout) };

	ck_ok(custody_array_reshape(array, 2, (size_t[]){ 20, 50 }, CUSTODY_ORDER_F, &table));
	ck_ok(custody_array_layout(table, &layout));
	ck_ok(custody_array_create_pinned(context, &layout, 0, &like));
	expect_like(like, &layout);
	ck_ok(custody_array_create_pinned(context, &layout, CUSTODY_HOST_MAPPED, &like));
	ck_assert_ptr_nonnull(custody_array_device_pointer(like));
	expect_like(like, &layout);
	ck_ok(custody_array_destroy(table));
	ck_ok(custody_array_destroy(array));
}
END_TEST

/* MappedNDArray: copy_to_device(), copy_to_host(), split() */
START_TEST(mapped_array_is_copied_and_split_as_one_of_the_device)
{
	struct custody_layout layout = line_of(10), part_layout = { .size = sizeof(part_layout) };
	const int32_t numbers[10] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	struct custody_array *mapped, *device, *part;
	int32_t back[10] = { 0 };
	size_t parts;

	ck_ok(custody_array_create_pinned(context, &layout, CUSTODY_HOST_MAPPED, &mapped));
	ck_ok(custody_array_create(context, &layout, NULL, NULL, &device));
	ck_ok(custody_array_copy_from_host(mapped, numbers, &layout, NULL));
	ck_ok(custody_array_copy(device, mapped, NULL));
	ck_ok(custody_array_fill(mapped, &(int32_t){ -1 }, NULL));
	ck_ok(custody_array_copy(mapped, device, NULL));
	ck_ok(custody_array_copy_to_host(mapped, back, &layout, NULL));
	ck_assert_mem_eq(back, numbers, sizeof(back));
	ck_ok(custody_array_split_count(mapped, 4, &parts));
	ck_assert_uint_eq(parts, 3);
	ck_ok(custody_array_split(mapped, 4, 2, &part));
	ck_ok(custody_array_layout(part, &part_layout));
	ck_assert_uint_eq(part_layout.shape[0], 2);
	ck_assert_int_eq(*(int32_t *)custody_array_host_pointer(part), 8);
	ck_ok(custody_array_destroy(part));
	ck_ok(custody_array_destroy(device));
	ck_ok(custody_array_destroy(mapped));
}
END_TEST

struct pair {
	int32_t id;
	float weight;
};

/* DeviceRecord: copy_to_device(), copy_to_host() */
START_TEST(record_is_copied_both_ways)
{
	const struct custody_field fields[] = {
		{ "id", { CUSTODY_TYPE_INT, 4 }, offsetof(struct pair, id), 0, { 0 } },
		{ "weight", { CUSTODY_TYPE_FLOAT, 4 }, offsetof(struct pair, weight), 0, { 0 } },
	};
	struct custody_layout layout = {
		.size = sizeof(layout),
		.type = { CUSTODY_TYPE_RECORD, sizeof(struct pair) },
	};
	struct custody_array *record, *other, *weight;
	struct pair pair = { 7, 1.5f }, back = { 0, 0 };

	ck_ok(custody_array_create(context, &layout, NULL, NULL, &record));
	ck_ok(custody_array_create(context, &layout, NULL, NULL, &other));
	ck_ok(custody_array_copy_from_host(record, &pair, &layout, NULL));
	ck_ok(custody_array_copy(other, record, NULL)); /* from CUDA memory */
	ck_ok(custody_array_field(other, fields, 2, "weight", &weight));
	ck_ok(custody_array_set(weight, NULL, &(float){ 2.5f }, NULL));
	ck_ok(custody_array_copy_to_host(other, &back, NULL, NULL));
	ck_assert_int_eq(back.id, 7);
	ck_assert(back.weight == 2.5f);
	ck_ok(custody_array_destroy(weight));
	ck_ok(custody_array_destroy(other));
	ck_ok(custody_array_destroy(record));
}
END_TEST

/* cuda.runtime.get_version(): two numbers where there is a runtime, and a word where not. */
START_TEST(runtime_tells_its_version_or_is_not_there)
{
	struct custody_version version = { 0, 0 };
	int result = custody_runtime_version(&version);

	if (result)
		ck_assert_int_eq(result, CUSTODY_E_UNSUPPORTED);
	ck_assert(result ? !version.major : version.major >= 11);
	if (result)
		ck_assert_ptr_nonnull(strstr(custody_error_detail(), "libcudart"));
}
END_TEST

/* device_buffer.copy_to(pinned_buffer, stream=stream), and the buffers as arrays by DLPack */
START_TEST(buffers_of_the_article_are_arrays)
{
	struct custody_type type = { CUSTODY_TYPE_FLOAT, 4 };
	struct custody_layout layout = { .size = sizeof(layout) };
	struct custody_resource *pinned_memory;
	struct custody_buffer *device, *pinned;
	struct custody_dlpack_versioned *tensor;
	struct custody_array *bytes, *floats;

	ck_ok(custody_resource_pinned(context, 0, &pinned_memory));
	ck_ok(custody_buffer_create(NULL, 4 * COUNT, NULL, &device));
	ck_ok(custody_buffer_create(pinned_memory, 4 * COUNT, NULL, &pinned));
	ck_ok(custody_buffer_fill(device, &(float){ 0.5f }, 4, NULL));
	ck_ok(custody_buffer_copy_to(device, &pinned, NULL));
	ck_ok(custody_buffer_to_dlpack(pinned, &tensor));
	ck_ok(custody_array_from_dlpack(context, tensor, NULL, &bytes));
	ck_ok(custody_array_view_type(bytes, type, &floats));
	ck_ok(custody_array_layout(floats, &layout));
	ck_assert_uint_eq(layout.shape[0], COUNT);
	ck_assert(((float *)custody_array_host_pointer(floats))[COUNT - 1] == 0.5f);
	ck_ok(custody_array_destroy(floats));
	ck_ok(custody_array_destroy(bytes));
	ck_ok(custody_buffer_release(device));
	ck_ok(custody_buffer_release(pinned));
	ck_ok(custody_resource_release(pinned_memory));
}
END_TEST

Suite *library_suite(void)
{
	Suite *suite = suite_create("documents");
	TCase *items = tcase_create("items");

	tcase_add_checked_fixture(items, begin, NULL);
	tcase_add_test(items, transfers_are_queued_in_a_stream);
	tcase_add_test(items, a_line_is_reshaped_in_f_order);
	tcase_add_test(items, host_arrays_are_made_like_another);
	tcase_add_test(items, mapped_array_is_copied_and_split_as_one_of_the_device);
	tcase_add_test(items, record_is_copied_both_ways);
	tcase_add_test(items, runtime_tells_its_version_or_is_not_there);
	tcase_add_test(items, buffers_of_the_article_are_arrays);
	suite_add_tcase(suite, items);
	return suite;
}
