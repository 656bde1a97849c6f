/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLPack, in both of its forms.  What goes out holds a reference on the buffer, not on
 * the array, so that its deleter has nothing to do with who destroys which array when.
 * What comes in is somebody else's memory, whose deleter is the buffer's release.
 */
#include "library/array.h"

#include <custody/dlpack.h>

#include <stdlib.h>

/* ------------------------------------------------------------------ types */

static const struct {
	enum custody_type_kind kind;
	uint8_t code;
} codes[] = {
	{ CUSTODY_TYPE_INT, CUSTODY_DLPACK_INT },
	{ CUSTODY_TYPE_UINT, CUSTODY_DLPACK_UINT },
	{ CUSTODY_TYPE_FLOAT, CUSTODY_DLPACK_FLOAT },
	{ CUSTODY_TYPE_BFLOAT, CUSTODY_DLPACK_BFLOAT },
	{ CUSTODY_TYPE_COMPLEX, CUSTODY_DLPACK_COMPLEX },
	{ CUSTODY_TYPE_BOOL, CUSTODY_DLPACK_BOOL },
};

enum { CODES = sizeof(codes) / sizeof(codes[0]) };

static int type_to_dlpack(struct custody_type type, struct custody_dlpack_tensor *tensor)
{
	for (int i = 0; i < CODES; i++) {
		if (codes[i].kind != type.kind)
			continue;
		if (type.item_bytes > UINT8_MAX / 8)
			break;
		tensor->type_code = codes[i].code;
		tensor->type_bits = (uint8_t)(8 * type.item_bytes);
		tensor->type_lanes = 1;
		return 0;
	}
	return error_say(CUSTODY_E_UNSUPPORTED, "DLPack has no type '%c' of %u bytes",
			 (int)type.kind, type.item_bytes);
}

static int type_from_dlpack(const struct custody_dlpack_tensor *tensor, struct custody_type *type)
{
	for (int i = 0; i < CODES; i++)
		if (codes[i].code == tensor->type_code)
			*type = (struct custody_type){ codes[i].kind, tensor->type_bits / 8u };
	if (type->item_bytes && tensor->type_bits % 8 == 0 && tensor->type_lanes == 1 &&
	    layout_is_type(*type))
		return 0;
	return error_say(CUSTODY_E_UNSUPPORTED, "elements of code %u, %u bits and %u lanes",
			 tensor->type_code, tensor->type_bits, tensor->type_lanes);
}

/* -------------------------------------------------------------------- out */

/* Either form, and what its pointers point to. */
struct exported {
	union {
		struct custody_dlpack_versioned versioned;
		struct custody_dlpack old;
	} as;
	struct custody_buffer *buffer; /* holds a reference */
	int64_t shape[CUSTODY_DIMENSIONS];
	int64_t strides[CUSTODY_DIMENSIONS];
};

/*
 * From any thread and at any time.  A buffer that cannot be freed now, because of a
 * capture, is left to the reset of its context.
 */
static void let_go(void *manager)
{
	struct exported *exported = manager;

	custody_buffer_release(exported->buffer);
	free(exported);
}

static void delete_versioned(struct custody_dlpack_versioned *self)
{
	if (self)
		let_go(self->manager);
}

static void delete_old(struct custody_dlpack *self)
{
	if (self)
		let_go(self->manager);
}

static void show_device(const struct custody_buffer *buffer, struct custody_dlpack_tensor *tensor)
{
	const struct resource_memory *memory = &buffer->memory;
	const int ordinal = buffer->object.context->device->ordinal;

	tensor->device_id = 0;
	if (buffer->is_managed)
		tensor->device_type = CUSTODY_DLPACK_CUDA_MANAGED;
	else if (memory->host_pointer)
		tensor->device_type = memory->device_pointer ? CUSTODY_DLPACK_CUDA_HOST :
							       CUSTODY_DLPACK_CPU;
	else
		tensor->device_type = CUSTODY_DLPACK_CUDA;
	if (!memory->host_pointer || buffer->is_managed)
		tensor->device_id = buffer->device >= 0 ? buffer->device : ordinal;
}

static int show_axes(const struct layout *layout, struct exported *exported)
{
	const ptrdiff_t item = (ptrdiff_t)layout->type.item_bytes;

	for (int i = 0; i < layout->ndim; i++) {
		exported->shape[i] = (int64_t)layout->shape[i];
		exported->strides[i] = layout->strides[i] / item;
		if (layout->strides[i] % item && layout->shape[i] > 1 && layout->count)
			return error_say(CUSTODY_E_UNSUPPORTED,
					 "a stride of %td bytes is no number of elements of %td",
					 layout->strides[i], item);
	}
	return 0;
}

static int fill_tensor(const struct custody_array *array, struct exported *exported,
		       struct custody_dlpack_tensor *tensor)
{
	int error = type_to_dlpack(array->layout.type, tensor);

	if (!error)
		error = show_axes(&array->layout, exported);
	if (error)
		return error;
	show_device(array->buffer, tensor);
	tensor->data = (void *)(uintptr_t)array_address(array);
	tensor->ndim = array->layout.ndim;
	tensor->shape = exported->shape;
	tensor->strides = exported->strides;
	tensor->byte_offset = 0;
	return 0;
}

/* Who reads on the host knows of no stream; who reads on a stream has it wait. */
static int order_consumer(const struct custody_array *array, struct custody_stream *consumer)
{
	struct custody_context *context = array->buffer->object.context;
	struct custody_stream *producer = array->stream;
	int error = 0;

	if (array->buffer->memory.host_pointer && !consumer)
		return producer ? custody_stream_synchronize(producer) : 0;
	if (!consumer)
		error = custody_stream_legacy(context, &consumer);
	if (!error && !producer)
		error = custody_stream_default(context, &producer);
	if (error || (consumer->handle == producer->handle &&
		      consumer->object.context == producer->object.context))
		return error;
	return custody_stream_wait_stream(consumer, producer);
}

/* The parts that both forms have; *tensor is inside of *exported. */
static int export_array(const struct custody_array *array, struct custody_stream *consumer,
			struct exported *exported, struct custody_dlpack_tensor *tensor)
{
	int error = fill_tensor(array, exported, tensor);

	if (!error && array->layout.count)
		error = order_consumer(array, consumer);
	if (error)
		return error;
	custody_buffer_retain(array->buffer);
	exported->buffer = array->buffer;
	return 0;
}

static int begin_export(const struct custody_array *array, const void *tensor,
			struct exported **exported)
{
	int error = array_check(array);

	if (!error && !tensor)
		error = error_say(CUSTODY_E_INVALID, "where to put the tensor is NULL");
	if (error)
		return error;
	*exported = calloc(1, sizeof(**exported));
	return *exported ? 0 : CUSTODY_E_NO_MEMORY;
}

int custody_array_to_dlpack(struct custody_array *array, struct custody_stream *consumer,
			    struct custody_dlpack_versioned **tensor)
{
	struct custody_dlpack_versioned *made;
	struct exported *exported;
	int error = begin_export(array, tensor, &exported);

	if (error)
		return error;
	made = &exported->as.versioned;
	error = export_array(array, consumer, exported, &made->tensor);
	if (error) {
		free(exported);
		return error;
	}
	made->major = CUSTODY_DLPACK_MAJOR;
	made->minor = CUSTODY_DLPACK_MINOR;
	made->manager = exported;
	made->deleter = delete_versioned;
	made->flags = array->is_read_only ? CUSTODY_DLPACK_READ_ONLY : 0;
	*tensor = made;
	return 0;
}

int custody_array_to_old_dlpack(struct custody_array *array, struct custody_stream *consumer,
				struct custody_dlpack **tensor)
{
	struct exported *exported;
	int error = begin_export(array, tensor, &exported);

	if (error)
		return error;
	if (array->is_read_only)
		error = error_say(CUSTODY_E_UNSUPPORTED,
				  "the old form cannot say that memory is read only");
	if (!error)
		error = export_array(array, consumer, exported, &exported->as.old.tensor);
	if (error) {
		free(exported);
		return error;
	}
	exported->as.old.manager = exported;
	exported->as.old.deleter = delete_old;
	*tensor = &exported->as.old;
	return 0;
}

int custody_buffer_to_dlpack(struct custody_buffer *buffer,
			     struct custody_dlpack_versioned **tensor)
{
	struct custody_layout bytes = { .size = sizeof(bytes), .ndim = 1,
					.type = { CUSTODY_TYPE_INT, 1 } };
	struct custody_array *array;
	int error;

	bytes.shape[0] = custody_buffer_bytes(buffer);
	error = custody_array_over(buffer, 0, &bytes, NULL, &array);
	if (error)
		return error;
	error = custody_array_to_dlpack(array, NULL, tensor);
	custody_array_destroy(array);
	return error;
}

/* --------------------------------------------------------------------- in */

static int check_device(const struct custody_context *context,
			const struct custody_dlpack_tensor *tensor)
{
	switch (tensor->device_type) {
	case CUSTODY_DLPACK_CPU:
	case CUSTODY_DLPACK_CUDA_HOST:
	case CUSTODY_DLPACK_CUDA_MANAGED:
		return 0;
	case CUSTODY_DLPACK_CUDA:
		if (tensor->device_id == context->device->ordinal)
			return 0;
		return error_say(CUSTODY_E_MISMATCH,
				 "the tensor is on device %d, the context on device %d",
				 (int)tensor->device_id, context->device->ordinal);
	default:
		return error_say(CUSTODY_E_UNSUPPORTED, "memory of device type %d",
				 (int)tensor->device_type);
	}
}

static int read_axes(const struct custody_dlpack_tensor *tensor, struct custody_layout *given)
{
	const int64_t item = given->type.item_bytes;
	int64_t stride;

	if (tensor->ndim < 0 || tensor->ndim > CUSTODY_DIMENSIONS ||
	    (tensor->ndim && !tensor->shape))
		return error_say(CUSTODY_E_INVALID, "%d axes; there are 0 to %d, with a shape",
				 (int)tensor->ndim, CUSTODY_DIMENSIONS);
	given->ndim = tensor->ndim;
	given->has_strides = tensor->strides != NULL;
	for (int i = 0; i < tensor->ndim; i++) {
		if (tensor->shape[i] < 0)
			return error_say(CUSTODY_E_INVALID, "%lld elements on axis %d",
					 (long long)tensor->shape[i], i);
		given->shape[i] = (size_t)tensor->shape[i];
		stride = tensor->strides ? tensor->strides[i] : 0;
		if (__builtin_mul_overflow(stride, item, &stride))
			return error_say(CUSTODY_E_INVALID, "the stride of axis %d is none", i);
		given->strides[i] = (ptrdiff_t)stride;
	}
	return 0;
}

static int read_tensor(const struct custody_context *context,
		       const struct custody_dlpack_tensor *tensor, struct layout *layout)
{
	struct custody_layout given = { .size = sizeof(given) };
	int error = check_device(context, tensor);

	if (!error)
		error = type_from_dlpack(tensor, &given.type);
	if (!error)
		error = read_axes(tensor, &given);
	if (!error)
		error = layout_make(layout, &given);
	if (!error && layout->count && !tensor->data)
		error = error_say(CUSTODY_E_INVALID, "%zu elements at NULL", layout->count);
	return error;
}

/* The memory, whose lowest byte may lie below its first element. */
static int import_tensor(struct custody_context *context,
			 const struct custody_dlpack_tensor *tensor, struct custody_stream *stream,
			 void (*release)(void *owner, struct custody_stream *stream), void *owner,
			 struct custody_array **array)
{
	struct layout layout;
	uintptr_t first;
	int error = read_tensor(context, tensor, &layout);

	if (error)
		return error;
	first = (uintptr_t)tensor->data + tensor->byte_offset;
	error = array_wrap(context, (void *)(first - layout.before), &layout, stream, release,
			   owner, array);
	if (error || !layout.count || tensor->device_type == CUSTODY_DLPACK_CPU ||
	    (*array)->buffer->memory.device_pointer)
		return error;
	(*array)->buffer->release = NULL;
	custody_array_destroy(*array);
	return error_say(CUSTODY_E_INVALID, "the driver knows no memory at %p", (void *)first);
}

static void release_versioned(void *owner, struct custody_stream *stream)
{
	struct custody_dlpack_versioned *tensor = owner;

	(void)stream;
	if (tensor->deleter)
		tensor->deleter(tensor);
}

static void release_old(void *owner, struct custody_stream *stream)
{
	struct custody_dlpack *tensor = owner;

	(void)stream;
	if (tensor->deleter)
		tensor->deleter(tensor);
}

static int check_import(const struct custody_context *context, const void *tensor,
			struct custody_array *const *array)
{
	error_forget();
	if (context && tensor && array)
		return 0;
	return error_say(CUSTODY_E_INVALID, "the context, the tensor, or where to put the array, "
			 "is NULL");
}

int custody_array_from_dlpack(struct custody_context *context,
			      struct custody_dlpack_versioned *tensor,
			      struct custody_stream *stream, struct custody_array **array)
{
	struct custody_array *made;
	int error = check_import(context, tensor, array);

	if (error)
		return error;
	if (tensor->major != CUSTODY_DLPACK_MAJOR)
		return error_say(CUSTODY_E_UNSUPPORTED, "the tensor is of DLPack %u.%u",
				 tensor->major, tensor->minor);
	error = import_tensor(context, &tensor->tensor, stream, release_versioned, tensor, &made);
	if (error)
		return error;
	made->is_read_only = tensor->flags & CUSTODY_DLPACK_READ_ONLY;
	*array = made;
	return 0;
}

int custody_array_from_old_dlpack(struct custody_context *context, struct custody_dlpack *tensor,
				  struct custody_stream *stream, struct custody_array **array)
{
	struct custody_array *made;
	int error = check_import(context, tensor, array);

	if (!error)
		error = import_tensor(context, &tensor->tensor, stream, release_old, tensor, &made);
	if (!error)
		*array = made;
	return error;
}
