/* SPDX-License-Identifier: Apache-2.0 */
/* resource_raw.c - memory of a resource without a buffer around it. */
#include "library/resource.h"

static int allocate(struct custody_resource *resource, size_t bytes,
		    struct custody_stream *stream, void **pointer)
{
	struct registry_entry *entry = resource_registry_reserve(&resource->registry);
	struct resource_memory memory;
	int result;

	if (!entry)
		return CUSTODY_E_NO_MEMORY;
	result = resource_take(resource, bytes, stream, &memory);
	if (result || !memory.pointer) {
		resource_registry_cancel(entry);
		if (!result)
			*pointer = NULL;
		return result;
	}
	*pointer = memory.pointer;
	memory.bytes = bytes;
	resource_registry_add(&resource->registry, entry, &memory);
	return 0;
}

int custody_resource_allocate(struct custody_resource *resource, size_t bytes,
			      struct custody_stream *stream, void **pointer)
{
	struct library_call call;
	int error = pointer ? resource_enter(&call, resource) :
			      error_say(CUSTODY_E_INVALID, "where to put the pointer is NULL");

	return error ? error : library_leave(&call, allocate(resource, bytes, stream, pointer));
}

static int say_not_freed(int error, const void *pointer, size_t bytes, size_t known)
{
	switch (error) {
	case CUSTODY_E_UNKNOWN:
		return error_say(error, "%p is no memory that this resource has allocated, or it "
				 "is a buffer's", pointer);
	case CUSTODY_E_MISMATCH:
		return error_say(error, "%p has %zu bytes, not %zu", pointer, known, bytes);
	default:
		return error_say(error, "%p, of %zu bytes, was freed before", pointer, bytes);
	}
}

static int deallocate(struct custody_resource *resource, void *pointer, size_t bytes,
		      struct custody_stream *stream)
{
	const struct resource_uses uses = { .at = { .stream = stream } };
	struct resource_memory memory = { 0 };
	int result = resource_registry_take(&resource->registry, pointer, bytes, &memory);

	if (result)
		return say_not_freed(result, pointer, bytes, memory.bytes);
	result = resource_give(resource, &memory, &uses);
	if (result)
		resource_registry_put_back(&resource->registry, &memory);
	return result;
}

int custody_resource_deallocate(struct custody_resource *resource, void *pointer, size_t bytes,
				struct custody_stream *stream)
{
	struct library_call call;
	int error = resource_enter(&call, resource);

	if (error)
		return error;
	return library_leave(&call, pointer ? deallocate(resource, pointer, bytes, stream) : 0);
}
