/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource_pool_host.c - resources of pools whose memory the host reaches too:
 * page-locked and managed memory.
 */
#include "library/resource.h"

static int say_null(void)
{
	return error_say(CUSTODY_E_INVALID, "the context, or where to put the resource, is NULL");
}

/* An attribute that this driver does not know is one that the device does not have. */
static bool has(struct custody_context *context, CUdevice_attribute attribute)
{
	int value = 0;

	return !custody_device_attribute(context->device, attribute, &value) && value;
}

/* ------------------------------------------------------------ page-locked memory */

/* The node that is named, else for memory that is exported that of the device. */
static int find_node(struct custody_context *context,
		     const struct custody_pinned_pool_options *options, int *node)
{
	*node = -1;
	if (options->has_numa_node) {
		*node = options->numa_node;
		return *node >= 0 ? 0 : error_say(CUSTODY_E_INVALID, "there is no NUMA node %d",
						  *node);
	}
	if (!options->is_shareable)
		return 0;
	if (custody_device_attribute(context->device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, node) ||
	    *node < 0)
		return error_say(CUSTODY_E_UNSUPPORTED, "no NUMA node is known to be that of "
				 "device %d, and page-locked memory of none cannot be exported",
				 context->device->ordinal);
	return 0;
}

static CUmemLocation location_of_node(int node)
{
	if (node < 0)
		return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node };
}

static int check_pinned_pool(struct custody_context *context, int node)
{
	int error = resource_pool_check(context);

	if (error)
		return error;
	if (!has(context, node < 0 ? CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED :
				     CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED))
		return error_say(CUSTODY_E_UNSUPPORTED, "device %d or its driver has no pools of "
				 "host memory%s", context->device->ordinal,
				 node < 0 ? "" : " of a NUMA node");
	return 0;
}

/* By itself it is the host's alone. */
static int let_device_in(struct custody_resource *made, struct custody_resource **resource)
{
	struct resource_mode before;
	int error;

	resource_relax(&before);
	error = resource_pool_grant(made, made->object.context->device->ordinal, true);
	resource_restore(&before);
	if (error)
		custody_resource_release(made);
	else
		*resource = made;
	return error;
}

static int create_pinned_pool(struct custody_context *context,
			      const struct custody_pinned_pool_options *options,
			      struct custody_resource **resource)
{
	const struct custody_resource_info facts = {
		.kind = CUSTODY_RESOURCE_PINNED_POOL,
		.device = -1,
		.is_device_accessible = true,
		.is_host_accessible = true,
		.is_shareable = options->is_shareable,
		.is_owned = true,
	};
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = options->is_shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR :
						       CU_MEM_HANDLE_TYPE_NONE,
		.maxSize = options->max_bytes,
	};
	struct custody_resource *made;
	int node, error = find_node(context, options, &node);

	if (!error)
		error = check_pinned_pool(context, node);
	if (error)
		return error;
	properties.location = location_of_node(node);
	error = resource_pool_create(context, &properties, UINT64_MAX, &facts, &made);
	return error ? error : let_device_in(made, resource);
}

int custody_resource_pinned_pool(struct custody_context *context,
				 const struct custody_pinned_pool_options *options,
				 struct custody_resource **resource)
{
	struct custody_pinned_pool_options mine;
	struct library_call call;
	int error;

	if (!context || !resource)
		return say_null();
	error = library_options(&mine, sizeof(mine), options);
	if (!error)
		error = library_enter_context(&call, context);
	return error ? error : library_leave(&call, create_pinned_pool(context, &mine, resource));
}

/* ------------------------------------------------------------ managed memory */

enum { MANAGED_POOLS_SINCE = 13000 };

static int check_managed_pool(struct custody_context *context)
{
	int version = 0;
	int error = resource_pool_check(context);

	if (error)
		return error;
	if (library_cuda.cuDriverGetVersion(&version) == CUDA_SUCCESS &&
	    version >= MANAGED_POOLS_SINCE &&
	    has(context, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
		return 0;
	return error_say(CUSTODY_E_UNSUPPORTED, "device %d or its driver has no pools of managed "
			 "memory", context->device->ordinal);
}

static int convert(const struct custody_location *given, CUmemLocation *location)
{
	static const CUmemLocationType types[] = {
		[CUSTODY_LOCATION_NONE] = CU_MEM_LOCATION_TYPE_NONE,
		[CUSTODY_LOCATION_DEVICE] = CU_MEM_LOCATION_TYPE_DEVICE,
		[CUSTODY_LOCATION_HOST] = CU_MEM_LOCATION_TYPE_HOST,
		[CUSTODY_LOCATION_HOST_NUMA] = CU_MEM_LOCATION_TYPE_HOST_NUMA,
	};

	if ((unsigned int)given->kind >= sizeof(types) / sizeof(types[0]))
		return error_say(CUSTODY_E_INVALID, "there is no kind %d of location",
				 (int)given->kind);
	*location = (CUmemLocation){ .type = types[given->kind], .id = given->id };
	return 0;
}

static int create_managed_pool(struct custody_context *context, const CUmemLocation *preferred,
			       struct custody_resource **resource)
{
	const struct custody_resource_info facts = {
		.kind = CUSTODY_RESOURCE_MANAGED_POOL,
		.device = context->device->ordinal,
		.is_device_accessible = true,
		.is_host_accessible = true,
		.is_managed = true,
		.is_owned = true,
	};
	const CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
		.location = *preferred,
	};
	int error = check_managed_pool(context);

	if (error)
		return error;
	return resource_pool_create(context, &properties, UINT64_MAX, &facts, resource);
}

int custody_resource_managed_pool(struct custody_context *context,
				  struct custody_location preferred,
				  struct custody_resource **resource)
{
	CUmemLocation location = { 0 };
	struct library_call call;
	int error;

	if (!context || !resource)
		return say_null();
	error = convert(&preferred, &location);
	if (!error)
		error = library_enter_context(&call, context);
	return error ? error :
		       library_leave(&call, create_managed_pool(context, &location, resource));
}
