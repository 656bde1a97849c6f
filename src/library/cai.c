/* SPDX-License-Identifier: Apache-2.0 */
#include "library/array.h"

#include <custody/cai.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 3 };

/* ----------------------------------------------------------------- typestr */

/* bfloat16 has no letter there; others print it as two bytes without meaning, too. */
static void print_type(struct custody_type type, char *text)
{
	const char letter = type.kind == CUSTODY_TYPE_BFLOAT ? 'V' : (char)type.kind;
	const bool is_ordered = type.item_bytes > 1 && type.kind != CUSTODY_TYPE_RECORD;

	snprintf(text, CUSTODY_CAI_TYPESTR, "%c%c%u", is_ordered ? '<' : '|', letter,
		 type.item_bytes);
}

static bool read_number(const char *text, uint32_t *number)
{
	uint64_t sum = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		sum = 10 * sum + (uint64_t)(*text - '0');
		if (sum > UINT32_MAX)
			return false;
	}
	*number = (uint32_t)sum;
	return true;
}

static int parse_type(const char *text, struct custody_type *type)
{
	uint32_t bytes;

	if (!memchr(text, 0, CUSTODY_CAI_TYPESTR) || !*text || !strchr("<>|=", text[0]) ||
	    !text[1] || !read_number(text + 2, &bytes))
		return error_say(CUSTODY_E_INVALID, "'%.*s' is no typestr", CUSTODY_CAI_TYPESTR,
				 text);
	*type = (struct custody_type){ (enum custody_type_kind)text[1], bytes };
	if (text[0] == '>' && bytes > 1)
		return error_say(CUSTODY_E_UNSUPPORTED, "'%s' has the other order of bytes", text);
	if (type->kind != CUSTODY_TYPE_BFLOAT && layout_is_type(*type))
		return 0;
	return error_say(CUSTODY_E_UNSUPPORTED, "'%s' is no type of libcustody's", text);
}

/* ---------------------------------------------------------------------- out */

static int show_stream(const struct custody_stream *stream, int64_t *number)
{
	*number = CUSTODY_CAI_NO_STREAM;
	if (!stream)
		return 0;
	if (!stream->is_default &&
	    !context_is_fresh(stream->object.context, stream->object.generation))
		return error_say(CUSTODY_E_STALE, "the context of the array's stream was reset");
	*number = (int64_t)(intptr_t)stream->handle;
	return 0;
}

static int show(const struct custody_array *array, struct custody_cai *shown)
{
	const struct layout *layout = &array->layout;
	const char *base = array->buffer->memory.device_pointer;

	if (layout->count && !base)
		return error_say(CUSTODY_E_UNSUPPORTED, "no device reaches the array's memory");
	shown->version = VERSION;
	shown->ndim = layout->ndim;
	memcpy(shown->shape, layout->shape, sizeof(shown->shape));
	shown->has_strides = !layout_is_contiguous(layout, CUSTODY_ORDER_C);
	if (shown->has_strides)
		memcpy(shown->strides, layout->strides, sizeof(shown->strides));
	print_type(layout->type, shown->typestr);
	shown->data = layout->count ? (uint64_t)(uintptr_t)(base + array->offset) : 0;
	shown->is_read_only = array->is_read_only;
	return show_stream(array->stream, &shown->stream);
}

int custody_array_to_cai(struct custody_array *array, struct custody_cai *cai)
{
	struct custody_cai shown = { .size = sizeof(shown) };
	int error = array_check(array);

	if (!error)
		error = show(array, &shown);
	return error ? error : library_fill(cai, &shown, sizeof(shown));
}

/* ----------------------------------------------------------------- checking */

static int read_layout(const struct custody_cai *cai, struct layout *layout)
{
	struct custody_layout given = { .size = sizeof(given), .ndim = cai->ndim,
					.has_strides = cai->has_strides };
	int error;

	if (cai->version < 0)
		return error_say(CUSTODY_E_INVALID, "version %d", cai->version);
	if (cai->version >= 1 && cai->has_mask)
		return error_say(CUSTODY_E_UNSUPPORTED, "arrays with a mask are not supported");
	if (cai->stream == 0 || cai->stream < CUSTODY_CAI_NO_STREAM)
		return error_say(CUSTODY_E_INVALID, "stream %lld says nothing",
				 (long long)cai->stream);
	error = parse_type(cai->typestr, &given.type);
	if (error)
		return error;
	memcpy(given.shape, cai->shape, sizeof(given.shape));
	memcpy(given.strides, cai->strides, sizeof(given.strides));
	error = layout_make(layout, &given);
	if (error || !layout->count)
		return error;
	if (cai->data > layout->before && cai->data + (layout->extent - layout->before) > cai->data)
		return 0;
	return error_say(CUSTODY_E_INVALID, "%zu elements cannot be at 0x%llx", layout->count,
			 (unsigned long long)cai->data);
}

/* Whether the driver knows the address, as memory that a device reaches. */
static int check_address(uint64_t address)
{
	CUdeviceptr device_pointer = 0;

	if (library_cuda.cuPointerGetAttribute(&device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
					       (CUdeviceptr)address) == CUDA_SUCCESS &&
	    device_pointer)
		return 0;
	return error_say(CUSTODY_E_INVALID, "the driver knows no memory at 0x%llx",
			 (unsigned long long)address);
}

/* The first and the last byte: memory in between may be several mappings. */
static int check_memory(const struct custody_cai *cai, const struct layout *layout)
{
	int error;

	if (!layout->count)
		return 0;
	error = check_address(cai->data - layout->before);
	return error ? error : check_address(cai->data + (layout->extent - layout->before) - 1);
}

static int check_all(const struct custody_cai *given, struct custody_cai *mine,
		     struct layout *layout)
{
	struct library_call call;
	int error;

	if (!given)
		return error_say(CUSTODY_E_INVALID, "the array interface is NULL");
	error = library_enter(&call);
	if (error)
		return error;
	error = library_options(mine, sizeof(*mine), given);
	if (!error)
		error = read_layout(mine, layout);
	if (!error)
		error = check_memory(mine, layout);
	return library_leave(&call, error);
}

bool custody_cai_check(const struct custody_cai *cai)
{
	struct custody_cai mine;
	struct layout layout;

	return check_all(cai, &mine, &layout) == 0;
}

/* ----------------------------------------------------------------------- in */

/* What keeps an exporter's memory and, where it named one, his stream. */
struct import {
	void (*release)(void *owner);
	void *owner;
	struct custody_stream *stream; /* made for his handle; NULL: none was needed */
};

static void release_import(void *argument, struct custody_stream *stream)
{
	struct import *import = argument;

	(void)stream;
	custody_stream_destroy(import->stream);
	if (import->release)
		import->release(import->owner);
	free(import);
}

/* The exporter's stream; NULL goes to *found where he names none. */
static int find_stream(struct custody_context *context, const struct custody_cai *cai,
		       struct import *import, struct custody_stream **found)
{
	int error;

	*found = NULL;
	switch (cai->stream) {
	case CUSTODY_CAI_NO_STREAM:
		return 0;
	case 1:
		return custody_stream_legacy(context, found);
	case 2:
		return custody_stream_per_thread(context, found);
	default:
		error = custody_stream_wrap(context, (CUstream)(intptr_t)cai->stream,
					    &import->stream);
		*found = import->stream;
		return error;
	}
}

/* Numba's switch, read each time; what is no number leaves it on. */
static bool does_host_wait(void)
{
	const char *text = getenv("NUMBA_CUDA_ARRAY_INTERFACE_SYNC");
	char *end;
	long value;

	if (!text || !*text)
		return true;
	value = strtol(text, &end, 10);
	return *end || value != 0;
}

static int synchronize(struct custody_context *context, struct custody_stream *exporter,
		       enum custody_sync sync, struct custody_stream *stream)
{
	int error = 0;

	if (!exporter || sync == CUSTODY_SYNC_NONE)
		return 0;
	if (sync == CUSTODY_SYNC_HOST)
		return does_host_wait() ? custody_stream_synchronize(exporter) : 0;
	if (!stream)
		error = custody_stream_default(context, &stream);
	if (error || (stream->handle == exporter->handle &&
		      stream->object.context == exporter->object.context))
		return error;
	return custody_stream_wait_stream(stream, exporter);
}

static int import_array(struct custody_context *context, const struct custody_cai *cai,
			const struct layout *layout, enum custody_sync sync,
			struct custody_stream *stream, struct import *import,
			struct custody_array **array)
{
	void *lowest = (void *)(uintptr_t)(cai->data - layout->before);
	struct custody_stream *exporter;
	int error = find_stream(context, cai, import, &exporter);

	if (!error)
		error = synchronize(context, exporter, sync, stream);
	if (!error)
		error = array_wrap(context, lowest, layout, exporter ? exporter : stream,
				   release_import, import, array);
	if (!error)
		(*array)->is_read_only = cai->is_read_only;
	return error;
}

int custody_array_from_cai(struct custody_context *context, const struct custody_cai *cai,
			   enum custody_sync sync, struct custody_stream *stream,
			   void (*release)(void *owner), void *owner, struct custody_array **array)
{
	struct custody_array *made = NULL;
	struct custody_cai mine;
	struct error_kept kept;
	struct layout layout;
	struct import *import;
	int error;

	error_forget();
	if (!context || !array || sync < CUSTODY_SYNC_HOST || sync > CUSTODY_SYNC_NONE)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the array, is "
				 "NULL, or the way to synchronise is none");
	error = check_all(cai, &mine, &layout);
	if (error)
		return error;
	import = calloc(1, sizeof(*import));
	if (!import)
		return CUSTODY_E_NO_MEMORY;
	*import = (struct import){ release, owner, NULL };
	error = import_array(context, &mine, &layout, sync, stream, import, &made);
	if (!error) {
		*array = made;
		return 0;
	}
	error_keep(&kept);
	custody_stream_destroy(import->stream);
	free(import);
	return error_say_kept(error, &kept);
}
