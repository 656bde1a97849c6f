/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack both ways. */
#include "arrays.h"
#include "dlpack_peer.h"

#include <pthread.h>
#include <stdio.h>

static struct custody_context *context;

static void begin(void)
{
	setenv("SIMCUDA_DEVICES", "2", 1);
	fixture_watch();
	context = fixture_context(0);
	ck_cu(cuCtxSetCurrent(custody_context_handle(context)));
	fixture_forget();
}

static DLManagedTensorVersioned *give(struct custody_array *array)
{
	struct custody_dlpack_versioned *tensor = NULL;

	ck_ok(custody_array_to_dlpack(array, NULL, &tensor));
	return (DLManagedTensorVersioned *)tensor;
}

static int take(DLManagedTensorVersioned *tensor, struct custody_array **array)
{
	return custody_array_from_dlpack(context, (struct custody_dlpack_versioned *)tensor, NULL,
					 array);
}

/* A tensor of somebody's, who counts how often it was let go. */
struct somebody {
	DLManagedTensorVersioned versioned;
	DLManagedTensor old;
	int64_t shape[8], strides[8];
	_Atomic unsigned int deleted;
};

static void delete_versioned(DLManagedTensorVersioned *self)
{
	((struct somebody *)self->manager_ctx)->deleted++;
}

static void delete_old(DLManagedTensor *self)
{
	((struct somebody *)self->manager_ctx)->deleted++;
}

/* Rows of int32 in C order, as both forms; strides are left out. */
static void describe(struct somebody *somebody, void *data, int32_t device_type, int64_t rows,
		     int64_t columns)
{
	memset(somebody, 0, sizeof(*somebody));
	somebody->shape[0] = rows;
	somebody->shape[1] = columns;
	somebody->old.dl_tensor = (DLTensor){ .data = data, .device = { device_type, 0 },
					      .ndim = 2, .dtype = { 0, 32, 1 },
					      .shape = somebody->shape };
	somebody->old.manager_ctx = somebody;
	somebody->old.deleter = delete_old;
	somebody->versioned.version = (DLPackVersion){ 1, 0 };
	somebody->versioned.manager_ctx = somebody;
	somebody->versioned.deleter = delete_versioned;
	somebody->versioned.dl_tensor = somebody->old.dl_tensor;
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address = 0;

	ck_cu(cuMemAlloc(&address, bytes));
	ck_cu(cuMemsetD8(address, 0, bytes));
	return address;
}

/* ------------------------------------------------------------------ out */

START_TEST(structures_are_those_of_dlpack)
{
	ck_assert_uint_eq(sizeof(struct custody_dlpack), sizeof(DLManagedTensor));
	ck_assert_uint_eq(sizeof(struct custody_dlpack_versioned),
			  sizeof(DLManagedTensorVersioned));
	ck_assert_uint_eq(offsetof(struct custody_dlpack_versioned, tensor),
			  offsetof(DLManagedTensorVersioned, dl_tensor));
	ck_assert_uint_eq(offsetof(struct custody_dlpack_tensor, shape), offsetof(DLTensor, shape));
	ck_assert_uint_eq(offsetof(struct custody_dlpack_tensor, type_code),
			  offsetof(DLTensor, dtype));
	ck_assert_uint_eq(offsetof(struct custody_dlpack_tensor, byte_offset),
			  offsetof(DLTensor, byte_offset));
}
END_TEST

START_TEST(array_goes_out_with_strides_in_elements)
{
	struct custody_array *array = make_counting(context, 24), *table, *view;
	DLManagedTensorVersioned *tensor;
	const size_t shape[] = { 4, 6 };

	ck_ok(custody_array_reshape(array, 2, shape, CUSTODY_ORDER_C, &table));
	ck_ok(custody_array_slice(table, 1, 1, 6, 2, &view));
	tensor = give(view);
	ck_assert_uint_eq(tensor->version.major, 1);
	ck_assert_uint_eq(tensor->flags, 0);
	ck_assert_int_eq(tensor->dl_tensor.device.device_type, 2);
	ck_assert_int_eq(tensor->dl_tensor.device.device_id, 0);
	ck_assert_int_eq(tensor->dl_tensor.ndim, 2);
	ck_assert_int_eq(tensor->dl_tensor.shape[1], 3);
	ck_assert_int_eq(tensor->dl_tensor.strides[0], 6);
	ck_assert_int_eq(tensor->dl_tensor.strides[1], 2);
	ck_assert_uint_eq(tensor->dl_tensor.byte_offset, 0);
	ck_assert_ptr_eq(tensor->dl_tensor.data, custody_array_pointer(view));
	tensor->deleter(tensor);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_destroy(table));
	ck_ok(custody_array_destroy(array));
}
END_TEST

static const struct {
	struct custody_type type;
	DLDataType dtype;
} types[] = {
	{ { CUSTODY_TYPE_BOOL, 1 }, { 6, 8, 1 } },     { { CUSTODY_TYPE_INT, 8 }, { 0, 64, 1 } },
	{ { CUSTODY_TYPE_UINT, 1 }, { 1, 8, 1 } },     { { CUSTODY_TYPE_FLOAT, 2 }, { 2, 16, 1 } },
	{ { CUSTODY_TYPE_BFLOAT, 2 }, { 4, 16, 1 } },
	{ { CUSTODY_TYPE_COMPLEX, 16 }, { 5, 128, 1 } },
};

START_TEST(types_have_their_codes_both_ways)
{
	struct custody_layout layout = line_of(5);
	struct custody_array *array, *back;
	DLManagedTensorVersioned *tensor;

	layout.type = types[_i].type;
	array = make_array(context, &layout);
	tensor = give(array);
	ck_assert_uint_eq(tensor->dl_tensor.dtype.code, types[_i].dtype.code);
	ck_assert_uint_eq(tensor->dl_tensor.dtype.bits, types[_i].dtype.bits);
	ck_assert_uint_eq(tensor->dl_tensor.dtype.lanes, 1);
	ck_ok(take(tensor, &back));
	ck_assert_int_eq(layout_of(back).type.kind, types[_i].type.kind);
	ck_assert_uint_eq(layout_of(back).type.item_bytes, types[_i].type.item_bytes);
	ck_ok(custody_array_destroy(back));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(device_type_says_who_reaches_the_memory)
{
	struct custody_layout layout = line_of(5);
	struct custody_array *arrays[3];
	static const int wanted[] = { 3, 13, 1 };
	int32_t memory[5];
	struct custody_buffer *buffer;

	ck_ok(custody_array_create_pinned(context, &layout, 0, &arrays[0]));
	ck_ok(custody_array_create_managed(context, &layout, true, NULL, &arrays[1]));
	ck_ok(custody_buffer_wrap(context, memory, sizeof(memory), NULL, NULL, &buffer));
	ck_ok(custody_array_over(buffer, 0, &layout, NULL, &arrays[2]));
	ck_ok(custody_buffer_release(buffer));
	for (int i = 0; i < 3; i++) {
		DLManagedTensorVersioned *tensor = give(arrays[i]);

		ck_assert_int_eq(tensor->dl_tensor.device.device_type, wanted[i]);
		tensor->deleter(tensor);
		ck_ok(custody_array_destroy(arrays[i]));
	}
}
END_TEST

START_TEST(tensor_of_the_second_device_names_it)
{
	struct custody_layout layout = line_of(5);
	struct custody_array *array = make_array(fixture_context(1), &layout), *back;
	DLManagedTensorVersioned *tensor = give(array);

	ck_assert_int_eq(tensor->dl_tensor.device.device_id, 1);
	ck_is(take(tensor, &back), CUSTODY_E_MISMATCH);
	tensor->deleter(tensor);
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(tensor_keeps_the_memory_until_its_deleter)
{
	struct custody_array *array = make_counting(context, 6);
	DLManagedTensorVersioned *tensor = give(array);
	int32_t value = 0;

	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_cu(cuMemcpyDtoH(&value, (CUdeviceptr)tensor->dl_tensor.data + 20, 4));
	ck_assert_int_eq(value, 5);
	tensor->deleter(tensor);
	ck_assert_uint_eq(fixture_pending_count(context), 1);
}
END_TEST

static void *call_deleter(void *argument)
{
	DLManagedTensorVersioned *tensor = argument;

	tensor->deleter(tensor);
	return NULL;
}

START_TEST(deleter_runs_on_a_thread_that_knows_no_context)
{
	struct custody_array *array = make_counting(context, 6);
	DLManagedTensorVersioned *tensor = give(array);
	pthread_t thread;

	ck_ok(custody_array_destroy(array));
	ck_assert_int_eq(pthread_create(&thread, NULL, call_deleter, tensor), 0);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(fixture_pending_count(context), 1);
}
END_TEST

START_TEST(deleter_after_the_death_of_the_context_crashed)
{
	struct custody_array *array = make_counting(context, 6);
	DLManagedTensorVersioned *tensor = give(array), *second = give(array);

	ck_ok(custody_array_destroy(array));
	ck_ok(custody_context_reset(context));
	tensor->deleter(tensor);
	ck_ok(custody_device_reset(fixture_device(0)));
	second->deleter(second);
}
END_TEST

START_TEST(old_form_is_given_too)
{
	struct custody_array *array = make_counting(context, 6);
	struct custody_dlpack *made = NULL;
	DLManagedTensor *tensor;

	ck_ok(custody_array_to_old_dlpack(array, NULL, &made));
	tensor = (DLManagedTensor *)made;
	ck_ok(custody_array_destroy(array));
	ck_assert_int_eq(tensor->dl_tensor.shape[0], 6);
	ck_assert_int_eq(tensor->dl_tensor.strides[0], 1);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	tensor->deleter(tensor);
	ck_assert_uint_eq(fixture_pending_count(context), 1);
}
END_TEST

START_TEST(what_dlpack_cannot_say_is_refused)
{
	struct custody_layout layout = line_of(3);
	const struct custody_field fields[] = { { "a", INT32, 0, 0, { 0 } } };
	struct custody_dlpack_versioned *tensor;
	struct custody_array *array, *view;

	layout.type = (struct custody_type){ CUSTODY_TYPE_COMPLEX, 32 }; /* 256 bits */
	array = make_array(context, &layout);
	ck_is(custody_array_to_dlpack(array, NULL, &tensor), CUSTODY_E_UNSUPPORTED);
	ck_ok(custody_array_destroy(array));
	layout.type = (struct custody_type){ CUSTODY_TYPE_RECORD, 6 };
	array = make_array(context, &layout);
	ck_is(custody_array_to_dlpack(array, NULL, &tensor), CUSTODY_E_UNSUPPORTED);
	ck_ok(custody_array_field(array, fields, 1, "a", &view));
	ck_is(custody_array_to_dlpack(view, NULL, &tensor), CUSTODY_E_UNSUPPORTED);
	ck_is(custody_array_to_dlpack(NULL, NULL, &tensor), CUSTODY_E_INVALID);
	ck_is(custody_array_to_dlpack(view, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_to_old_dlpack(view, NULL, NULL), CUSTODY_E_INVALID);
	ck_ok(custody_buffer_close(custody_array_buffer(array), NULL));
	ck_is(custody_array_to_dlpack(array, NULL, &tensor), CUSTODY_E_CLOSED);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(buffer_goes_out_as_one_axis_of_bytes)
{
	struct custody_dlpack_versioned *made = NULL;
	DLManagedTensorVersioned *tensor;
	struct custody_buffer *buffer;

	ck_ok(custody_buffer_create(NULL, 100, NULL, &buffer));
	ck_ok(custody_buffer_to_dlpack(buffer, &made));
	tensor = (DLManagedTensorVersioned *)made;
	ck_assert_int_eq(tensor->dl_tensor.ndim, 1);
	ck_assert_int_eq(tensor->dl_tensor.shape[0], 100);
	ck_assert_uint_eq(tensor->dl_tensor.dtype.bits, 8);
	ck_assert_ptr_eq(tensor->dl_tensor.data, custody_buffer_pointer(buffer));
	ck_ok(custody_buffer_release(buffer));
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	tensor->deleter(tensor);
	ck_assert_uint_eq(fixture_pending_count(context), 1);
	ck_is(custody_buffer_to_dlpack(NULL, &made), CUSTODY_E_INVALID);
}
END_TEST

/* ------------------------------------------------------------------ whose stream */

START_TEST(consumers_stream_waits_for_the_arrays)
{
	struct custody_stream_options options = { .size = sizeof(options), .is_nonblocking = true };
	struct custody_stream *producer, *consumer;
	struct custody_array *array = make_counting(context, 6), *bound;
	struct custody_dlpack_versioned *tensor;
	bool is_done = true;

	ck_ok(custody_stream_create(context, &options, &producer));
	ck_ok(custody_stream_create(context, &options, &consumer));
	ck_ok(custody_array_bind(array, producer, &bound));
	fixture_hold(custody_stream_handle(producer));
	ck_ok(custody_array_to_dlpack(bound, consumer, &tensor));
	ck_ok(custody_stream_query(consumer, &is_done));
	ck_assert(!is_done);
	fixture_release();
	ck_ok(custody_stream_synchronize(consumer));
	tensor->deleter(tensor);
	fixture_forget();
	ck_ok(custody_array_to_dlpack(bound, producer, &tensor)); /* its own: no wait */
	ck_assert_uint_eq(fixture_calls("cuStreamWaitEvent"), 0);
	tensor->deleter(tensor);
	ck_ok(custody_array_destroy(bound));
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_stream_destroy(producer));
	ck_ok(custody_stream_destroy(consumer));
}
END_TEST

START_TEST(legacy_stream_waits_where_no_consumer_is_named)
{
	struct custody_stream_options options = { .size = sizeof(options), .is_nonblocking = true };
	struct custody_array *array = make_counting(context, 6), *bound;
	struct custody_dlpack_versioned *tensor;
	struct custody_stream *producer;

	ck_ok(custody_stream_create(context, &options, &producer));
	ck_ok(custody_array_bind(array, producer, &bound));
	fixture_hold(custody_stream_handle(producer));
	ck_ok(custody_array_to_dlpack(bound, NULL, &tensor));
	ck_cu_is(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
	fixture_release();
	ck_ok(custody_stream_synchronize(producer));
	tensor->deleter(tensor);
	ck_ok(custody_array_destroy(bound));
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_stream_destroy(producer));
}
END_TEST

START_TEST(host_waits_for_memory_that_it_will_read)
{
	struct custody_layout layout = line_of(6);
	struct custody_array *array, *bound, *device = make_counting(context, 6);
	struct custody_stream *producer = make_stream(context);
	struct custody_dlpack_versioned *tensor;

	ck_ok(custody_array_create_pinned(context, &layout, 0, &array));
	ck_ok(custody_array_bind(array, producer, &bound));
	ck_ok(custody_array_copy(bound, device, NULL));
	fixture_forget();
	ck_ok(custody_array_to_dlpack(bound, NULL, &tensor));
	ck_assert_uint_eq(fixture_calls("cuStreamSynchronize"), 1);
	ck_assert_int_eq(((int32_t *)tensor->tensor.data)[5], 5);
	tensor->deleter(tensor);
	ck_ok(custody_array_destroy(bound));
	ck_ok(custody_array_destroy(array));
	ck_ok(custody_array_destroy(device));
	ck_ok(custody_stream_destroy(producer));
}
END_TEST

/* ------------------------------------------------------------------ in */

START_TEST(tensor_becomes_an_array_and_is_let_go_with_it)
{
	CUdeviceptr address = allocate(96);
	struct custody_array *array, *view;
	struct somebody somebody;
	int32_t value = 9;
	const size_t index[] = { 2, 3 };

	describe(&somebody, (void *)address, 2, 4, 6);
	if (_i)
		ck_ok(custody_array_from_old_dlpack(context, (struct custody_dlpack *)&somebody.old,
						    NULL, &array));
	else
		ck_ok(take(&somebody.versioned, &array));
	ck_ok(custody_array_set(array, index, &value, NULL));
	ck_assert_int_eq(peek(array, (2 * 6 + 3) * 4), 9);
	ck_assert_int_eq(layout_of(array).strides[0], 24);
	ck_assert(!custody_array_is_read_only(array));
	ck_ok(custody_array_index(array, 0, 1, &view));
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(somebody.deleted, 0);
	ck_ok(custody_array_destroy(view));
	ck_assert_uint_eq(somebody.deleted, 1);
	ck_assert_uint_eq(fixture_pending_count(context), 0);
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(byte_offset_was_left_out)
{
	CUdeviceptr address = allocate(96);
	struct custody_array *array;
	struct somebody somebody;

	describe(&somebody, (void *)address, 2, 2, 6);
	somebody.versioned.dl_tensor.byte_offset = 48;
	ck_ok(take(&somebody.versioned, &array));
	ck_assert(custody_array_pointer(array) == (void *)(address + 48));
	ck_ok(custody_array_destroy(array));
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(strides_come_in_elements_and_may_be_negative)
{
	CUdeviceptr address = allocate(96);
	struct custody_array *array;
	struct somebody somebody;

	describe(&somebody, (void *)(address + 92), 2, 4, 6);
	somebody.strides[0] = -6;
	somebody.strides[1] = -1;
	somebody.versioned.dl_tensor.strides = somebody.strides;
	ck_ok(take(&somebody.versioned, &array));
	ck_assert_int_eq(layout_of(array).strides[0], -24);
	ck_assert(custody_array_pointer(array) == (void *)(address + 92));
	ck_assert(custody_buffer_pointer(custody_array_buffer(array)) == (void *)address);
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(somebody.deleted, 1);
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(read_only_tensor_is_not_written_and_stays_read_only)
{
	CUdeviceptr address = allocate(96);
	struct custody_array *array, *view;
	DLManagedTensorVersioned *tensor;
	struct custody_dlpack *old;
	struct somebody somebody;
	int32_t values[24] = { 0 };
	const size_t index[] = { 0, 0 };

	describe(&somebody, (void *)address, 2, 4, 6);
	somebody.versioned.flags = 1;
	ck_ok(take(&somebody.versioned, &array));
	ck_assert(custody_array_is_read_only(array));
	ck_ok(custody_array_bind(array, NULL, &view));
	ck_is(custody_array_set(view, index, values, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_fill(view, values, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_copy_from_host(view, values, NULL, NULL), CUSTODY_E_INVALID);
	ck_is(custody_array_copy(view, array, NULL), CUSTODY_E_INVALID);
	ck_ok(custody_array_copy_to_host(view, values, NULL, NULL));
	tensor = give(view);
	ck_assert_uint_eq(tensor->flags, 1);
	tensor->deleter(tensor);
	ck_is(custody_array_to_old_dlpack(view, NULL, &old), CUSTODY_E_UNSUPPORTED);
	ck_ok(custody_array_destroy(view));
	ck_ok(custody_array_destroy(array));
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(tensor_of_the_host_is_an_array_that_no_device_reaches)
{
	int32_t memory[24] = { 0 }, values[24];
	struct custody_array *array, *device;
	struct custody_layout layout = table_of(4, 6);
	struct somebody somebody;

	memory[23] = 23;
	describe(&somebody, memory, 1, 4, 6);
	ck_ok(take(&somebody.versioned, &array));
	ck_assert_ptr_eq(custody_array_host_pointer(array), memory);
	ck_assert_ptr_null(custody_array_device_pointer(array));
	device = make_array(context, &layout);
	ck_ok(custody_array_copy(device, array, NULL));
	ck_ok(custody_array_copy_to_host(device, values, NULL, NULL));
	ck_assert_int_eq(values[23], 23);
	ck_ok(custody_array_destroy(device));
	ck_ok(custody_array_destroy(array));
}
END_TEST

START_TEST(tensor_without_a_deleter_or_elements_is_fine)
{
	struct custody_array *array;
	struct somebody somebody;

	describe(&somebody, NULL, 2, 0, 6);
	ck_ok(take(&somebody.versioned, &array));
	ck_assert_ptr_null(custody_array_pointer(array));
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(somebody.deleted, 1);
	somebody.versioned.deleter = NULL;
	ck_ok(take(&somebody.versioned, &array));
	ck_ok(custody_array_destroy(array));
}
END_TEST

/* Each spoils a tensor in one way. */
static void spoil(struct somebody *somebody, int how)
{
	DLTensor *tensor = &somebody->versioned.dl_tensor;

	switch (how) {
	case 0: somebody->versioned.version.major = 2; break;
	case 1: tensor->device.device_type = 10; break;
	case 2: tensor->dtype.lanes = 4; break;
	case 3: tensor->dtype.bits = 4; break;
	case 4: tensor->dtype.code = 3; break;
	case 5: tensor->ndim = 9; break;
	case 6: tensor->ndim = -1; break;
	case 7: somebody->shape[1] = -1; break;
	case 8: tensor->data = NULL; break;
	case 9: tensor->shape = NULL; break;
	case 10: tensor->data = somebody; break; /* no memory of the driver's */
	case 11: somebody->strides[0] = INT64_MAX / 2; tensor->strides = somebody->strides; break;
	case 12: somebody->shape[0] = INT64_MAX; break;
	case 13: tensor->device.device_id = 1; break;
	}
}

static const int spoilt[] = {
	CUSTODY_E_UNSUPPORTED, CUSTODY_E_UNSUPPORTED, CUSTODY_E_UNSUPPORTED, CUSTODY_E_UNSUPPORTED,
	CUSTODY_E_UNSUPPORTED, CUSTODY_E_INVALID,     CUSTODY_E_INVALID,     CUSTODY_E_INVALID,
	CUSTODY_E_INVALID,     CUSTODY_E_INVALID,     CUSTODY_E_INVALID,     CUSTODY_E_INVALID,
	CUSTODY_E_INVALID,     CUSTODY_E_MISMATCH,
};

START_TEST(tensor_that_is_refused_stays_the_callers)
{
	CUdeviceptr address = allocate(96);
	struct custody_array *array = NULL;
	struct somebody somebody;

	describe(&somebody, (void *)address, 2, 4, 6);
	spoil(&somebody, _i);
	ck_is(take(&somebody.versioned, &array), spoilt[_i]);
	ck_assert_ptr_null(array);
	ck_assert_uint_eq(somebody.deleted, 0);
	ck_is(custody_array_from_dlpack(NULL, NULL, NULL, &array), CUSTODY_E_INVALID);
	ck_cu(cuMemFree(address));
}
END_TEST

START_TEST(array_goes_out_and_comes_back_over_the_same_memory)
{
	struct custody_array *array = make_counting(context, 6), *back;
	DLManagedTensorVersioned *tensor = give(array);

	ck_ok(take(tensor, &back));
	ck_assert_ptr_eq(custody_array_pointer(back), custody_array_pointer(array));
	ck_ok(custody_array_destroy(array));
	ck_assert_int_eq(peek(back, 20), 5);
	ck_ok(custody_array_destroy(back));
	ck_assert_uint_eq(fixture_pending_count(context), 1);
}
END_TEST

START_TEST(reset_lets_go_of_tensors_that_came_in)
{
	CUdeviceptr address = allocate(96);
	struct custody_array *array;
	struct somebody somebody;

	describe(&somebody, (void *)address, 2, 4, 6);
	ck_ok(take(&somebody.versioned, &array));
	ck_ok(custody_context_reset(context));
	ck_assert_uint_eq(somebody.deleted, 1);
	ck_ok(custody_array_destroy(array));
	ck_assert_uint_eq(somebody.deleted, 1);
}
END_TEST

/* ------------------------------------------------------------------ at the end */

static DLManagedTensorVersioned *late;

static void delete_late(void)
{
	late->deleter(late);
	fputs("deleted late\n", stdout);
	fflush(stdout);
}

/* Registered first, and therefore run after the library has seen that the process ends. */
static int tell_of_late_deleter(void)
{
	struct custody_layout layout = line_of(6);
	struct custody_dlpack_versioned *tensor;
	struct custody_array *array;
	struct custody_device *device;
	struct custody_context *here;

	atexit(delete_late);
	story_check(custody_device_get(0, &device) == 0);
	story_check(custody_context_of_device(device, &here) == 0);
	story_check(custody_array_create(here, &layout, NULL, NULL, &array) == 0);
	story_check(custody_array_to_dlpack(array, NULL, &tensor) == 0);
	late = (DLManagedTensorVersioned *)tensor;
	story_check(custody_array_destroy(array) == 0);
	return 0;
}

const struct fixture_story fixture_stories[] = { { "late", tell_of_late_deleter },
						 { NULL, NULL } };

START_TEST(deleter_at_exit_makes_no_call)
{
	const char *const settings[] = { "SIMCUDA_VERBOSE=1", NULL };
	char text[65536];

	ck_assert_int_eq(fixture_run("late", settings, text, sizeof(text)), 0);
	ck_assert_ptr_nonnull(strstr(text, "deleted late"));
	ck_assert_uint_eq(fixture_count(text, "cuMemFree_v2"), 0);
}
END_TEST

static void add_out(Suite *suite)
{
	TCase *tests = add_case(suite, "out", begin);

	tcase_add_test(tests, structures_are_those_of_dlpack);
	tcase_add_test(tests, array_goes_out_with_strides_in_elements);
	tcase_add_loop_test(tests, types_have_their_codes_both_ways, 0,
			    sizeof(types) / sizeof(types[0]));
	tcase_add_test(tests, device_type_says_who_reaches_the_memory);
	tcase_add_test(tests, tensor_of_the_second_device_names_it);
	tcase_add_test(tests, tensor_keeps_the_memory_until_its_deleter);
	tcase_add_test(tests, deleter_runs_on_a_thread_that_knows_no_context);
	tcase_add_test(tests, deleter_after_the_death_of_the_context_crashed);
	tcase_add_test(tests, old_form_is_given_too);
	tcase_add_test(tests, what_dlpack_cannot_say_is_refused);
	tcase_add_test(tests, buffer_goes_out_as_one_axis_of_bytes);
	tcase_add_test(tests, consumers_stream_waits_for_the_arrays);
	tcase_add_test(tests, legacy_stream_waits_where_no_consumer_is_named);
	tcase_add_test(tests, host_waits_for_memory_that_it_will_read);
}

static void add_in(Suite *suite)
{
	TCase *tests = add_case(suite, "in", begin);

	tcase_add_loop_test(tests, tensor_becomes_an_array_and_is_let_go_with_it, 0, 2);
	tcase_add_test(tests, byte_offset_was_left_out);
	tcase_add_test(tests, strides_come_in_elements_and_may_be_negative);
	tcase_add_test(tests, read_only_tensor_is_not_written_and_stays_read_only);
	tcase_add_test(tests, tensor_of_the_host_is_an_array_that_no_device_reaches);
	tcase_add_test(tests, tensor_without_a_deleter_or_elements_is_fine);
	tcase_add_loop_test(tests, tensor_that_is_refused_stays_the_callers, 0,
			    sizeof(spoilt) / sizeof(spoilt[0]));
	tcase_add_test(tests, array_goes_out_and_comes_back_over_the_same_memory);
	tcase_add_test(tests, reset_lets_go_of_tensors_that_came_in);
}

Suite *library_suite(void)
{
	Suite *suite = suite_create("dlpack");
	TCase *tests;

	add_out(suite);
	add_in(suite);
	tests = tcase_create("end");
	tcase_add_test(tests, deleter_at_exit_makes_no_call);
	suite_add_tcase(suite, tests);
	return suite;
}
