/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource_custom.c - resources of the program's own functions.  They run in the
 * context of the resource, with no lock held, and may call libcustody.
 */
#include "library/resource.h"

static int allocate_custom(struct custody_resource *resource, CUstream handle,
			   struct custody_stream *stream, struct resource_memory *memory)
{
	void *pointer = NULL;
	int error = resource->custom.allocate(resource->self, memory->bytes, stream, &pointer);

	(void)handle;
	if (error)
		return error;
	if (!pointer)
		return error_say(CUSTODY_E_INVALID, "the program's own resource gave no memory "
				 "for %zu bytes, and no error", memory->bytes);
	memory->pointer = pointer;
	if (resource->facts.is_host_accessible)
		memory->host_pointer = pointer;
	if (resource->facts.is_device_accessible)
		memory->device_pointer = pointer;
	return 0;
}

static int free_custom(struct custody_resource *resource, CUstream handle,
		       struct custody_stream *stream, struct resource_memory *memory)
{
	(void)handle;
	return resource->custom.deallocate(resource->self, memory->pointer, memory->bytes, stream);
}

static const struct resource_ops custom_ops = {
	.honour = RESOURCE_JOINED,
	.allocate = allocate_custom,
	.deallocate = free_custom,
};

/* What it is said to be is asked once: memory is marked by it. */
static int describe(struct custody_context *context, const struct custody_resource_ops *ops,
		    void *self, struct custody_resource_info *facts)
{
	int error = 0;

	*facts = (struct custody_resource_info){
		.size = sizeof(*facts),
		.device = context->device->ordinal,
		.is_device_accessible = true,
	};
	if (ops->query)
		error = ops->query(self, facts);
	facts->size = sizeof(*facts);
	facts->kind = CUSTODY_RESOURCE_CUSTOM;
	return error;
}

static int make(struct custody_context *context, const struct custody_resource_ops *ops,
		void *self, struct custody_resource **resource)
{
	struct custody_resource_info facts;
	struct custody_resource *made;
	int error = describe(context, ops, self, &facts);

	if (error)
		return error;
	made = resource_new(&custom_ops, &facts);
	if (!made)
		return CUSTODY_E_NO_MEMORY;
	made->custom = *ops;
	made->self = self;
	resource_add(made, context);
	*resource = made;
	return 0;
}

int custody_resource_custom(struct custody_context *context, const struct custody_resource_ops *ops,
			    void *self, struct custody_resource **resource)
{
	struct custody_resource_ops mine;
	struct library_call call;
	int error;

	if (!context || !ops || !resource)
		return error_say(CUSTODY_E_INVALID, "the context, the functions, or where to put "
				 "the resource, is NULL");
	error = library_options(&mine, sizeof(mine), ops);
	if (error)
		return error;
	if (!mine.allocate || !mine.deallocate)
		return error_say(CUSTODY_E_INVALID, "a resource needs functions to allocate and to "
				 "deallocate");
	error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, make(context, &mine, self, resource));
}
