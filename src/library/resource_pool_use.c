/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource_pool_use.c - what a pool says of itself, its settings, and who may use its
 * memory.  The memory of graphs has four of the numbers too, and is trimmed as a pool.
 */
#include "library/resource.h"

/* What the driver calls an attribute, how wide it is, and whether it is to be written. */
struct attribute {
	CUmemPool_attribute of_pool;
	int of_graphs; /* enum CUgraphMem_attribute; -1: they have none */
	bool is_switch; /* an int, 0 or 1 */
	bool is_mark;	/* written with 0 alone */
	bool is_read_only;
};

static const struct attribute attributes[] = {
	[CUSTODY_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES] = {
		CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, -1, .is_switch = true },
	[CUSTODY_POOL_REUSE_ALLOW_OPPORTUNISTIC] = {
		CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, -1, .is_switch = true },
	[CUSTODY_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES] = {
		CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, -1, .is_switch = true },
	[CUSTODY_POOL_RELEASE_THRESHOLD] = { .of_pool = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
					     .of_graphs = -1 },
	[CUSTODY_POOL_RESERVED_CURRENT] = { CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
					    CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
					    .is_read_only = true },
	[CUSTODY_POOL_RESERVED_HIGH] = { CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
					 CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, .is_mark = true },
	[CUSTODY_POOL_USED_CURRENT] = { CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
					CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, .is_read_only = true },
	[CUSTODY_POOL_USED_HIGH] = { CU_MEMPOOL_ATTR_USED_MEM_HIGH,
				     CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, .is_mark = true },
};

static bool is_of_graphs(const struct custody_resource *resource)
{
	return resource->facts.kind == CUSTODY_RESOURCE_GRAPH;
}

/* Enter the context of a pool, or of the memory of graphs. */
static int enter(struct library_call *call, struct custody_resource *resource)
{
	int error = resource_enter(call, resource);

	if (!error && !resource_pool_is(resource) && !is_of_graphs(resource))
		error = library_leave(call, error_say(CUSTODY_E_INVALID, "the resource is one of "
						      "%s, and has no pool",
						      resource_name(resource)));
	return error;
}

static const struct attribute *find(const struct custody_resource *resource,
				    enum custody_pool_attribute attribute)
{
	const size_t count = sizeof(attributes) / sizeof(attributes[0]);
	const struct attribute *found;

	if ((unsigned int)attribute >= count) {
		error_say(CUSTODY_E_INVALID, "a pool has no attribute %d", (int)attribute);
		return NULL;
	}
	found = &attributes[attribute];
	if (!is_of_graphs(resource) || found->of_graphs >= 0)
		return found;
	error_say(CUSTODY_E_INVALID, "the memory of graphs has no attribute %d", (int)attribute);
	return NULL;
}

/* ------------------------------------------------------------ reading */

static int read_pool(const struct custody_resource *resource, const struct attribute *attribute,
		     uint64_t *value)
{
	cuuint64_t wide = 0;
	int narrow = 0;
	int error = library_cuda.cuMemPoolGetAttribute(
		resource->pool.handle, attribute->of_pool,
		attribute->is_switch ? (void *)&narrow : (void *)&wide);

	if (!error)
		*value = attribute->is_switch ? (uint64_t)narrow : wide;
	return error;
}

static int read_graphs(const struct custody_resource *resource, const struct attribute *attribute,
		       uint64_t *value)
{
	cuuint64_t wide = 0;
	int error = library_cuda.cuDeviceGetGraphMemAttribute(
		resource->object.context->device->handle,
		(CUgraphMem_attribute)attribute->of_graphs, &wide);

	if (!error)
		*value = wide;
	return error;
}

static int read_attribute(const struct custody_resource *resource,
			  enum custody_pool_attribute attribute, uint64_t *value)
{
	const struct attribute *found = find(resource, attribute);
	struct resource_mode before;
	int error;

	if (!found)
		return CUSTODY_E_INVALID;
	resource_relax(&before);
	error = is_of_graphs(resource) ? read_graphs(resource, found, value) :
					 read_pool(resource, found, value);
	resource_restore(&before);
	return error;
}

int custody_pool_attribute(struct custody_resource *resource,
			   enum custody_pool_attribute attribute, uint64_t *value)
{
	struct library_call call;
	int error = value ? enter(&call, resource) :
			    error_say(CUSTODY_E_INVALID, "where to put the value is NULL");

	return error ? error : library_leave(&call, read_attribute(resource, attribute, value));
}

/* ------------------------------------------------------------ writing */

static int check_value(const struct attribute *attribute, uint64_t value)
{
	if (attribute->is_read_only)
		return error_say(CUSTODY_E_INVALID, "that attribute of a pool is not to be set");
	if (attribute->is_mark && value)
		return error_say(CUSTODY_E_INVALID, "a pool's highest number is set to 0, which "
				 "starts it anew, not to %llu", (unsigned long long)value);
	if (attribute->is_switch && value > 1)
		return error_say(CUSTODY_E_INVALID, "that attribute of a pool is 0 or 1, not %llu",
				 (unsigned long long)value);
	return 0;
}

static int write_pool(const struct custody_resource *resource, const struct attribute *attribute,
		      uint64_t value)
{
	cuuint64_t wide = value;
	int narrow = (int)value;

	return library_cuda.cuMemPoolSetAttribute(resource->pool.handle, attribute->of_pool,
						  attribute->is_switch ? (void *)&narrow :
									 (void *)&wide);
}

static int write_graphs(const struct custody_resource *resource,
			const struct attribute *attribute, uint64_t value)
{
	cuuint64_t wide = value;

	return library_cuda.cuDeviceSetGraphMemAttribute(
		resource->object.context->device->handle,
		(CUgraphMem_attribute)attribute->of_graphs, &wide);
}

static int write_attribute(const struct custody_resource *resource,
			   enum custody_pool_attribute attribute, uint64_t value)
{
	const struct attribute *found = find(resource, attribute);
	struct resource_mode before;
	int error = found ? check_value(found, value) : CUSTODY_E_INVALID;

	if (error)
		return error;
	resource_relax(&before);
	error = is_of_graphs(resource) ? write_graphs(resource, found, value) :
					 write_pool(resource, found, value);
	resource_restore(&before);
	return error;
}

int custody_pool_set_attribute(struct custody_resource *resource,
			       enum custody_pool_attribute attribute, uint64_t value)
{
	struct library_call call;
	int error = enter(&call, resource);

	return error ? error : library_leave(&call, write_attribute(resource, attribute, value));
}

int custody_pool_trim(struct custody_resource *resource, size_t keep_bytes)
{
	struct resource_mode before;
	struct library_call call;
	int error = enter(&call, resource);

	if (error)
		return error;
	resource_relax(&before);
	if (is_of_graphs(resource))
		error = library_cuda.cuDeviceGraphMemTrim(
			resource->object.context->device->handle);
	else
		error = library_cuda.cuMemPoolTrimTo(resource->pool.handle, keep_bytes);
	resource_restore(&before);
	return library_leave(&call, error);
}

/* ------------------------------------------------------------ access of other devices */

static int check_access(const struct custody_resource *resource,
			const struct custody_device *device)
{
	if (!resource_pool_is(resource))
		return error_say(CUSTODY_E_INVALID, "access to the memory of graphs is not to be "
				 "set");
	if (device->ordinal < RESOURCE_DEVICES)
		return 0;
	return error_say(CUSTODY_E_UNSUPPORTED, "access of device %d cannot be kept",
			 device->ordinal);
}

static int say_no_device(void)
{
	return error_say(CUSTODY_E_INVALID, "the device, or where to put the answer, is NULL");
}

int custody_pool_set_access(struct custody_resource *resource, struct custody_device *device,
			    bool can_access)
{
	struct resource_mode before;
	struct library_call call;
	int error = device ? enter(&call, resource) : say_no_device();

	if (error)
		return error;
	error = check_access(resource, device);
	if (error)
		return library_leave(&call, error);
	resource_relax(&before);
	error = resource_pool_grant(resource, device->ordinal, can_access);
	resource_restore(&before);
	return library_leave(&call, error);
}

int custody_pool_has_access(struct custody_resource *resource, struct custody_device *device,
			    bool *can_access)
{
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	struct resource_mode before;
	struct library_call call;
	int error = device && can_access ? enter(&call, resource) : say_no_device();

	if (error)
		return error;
	error = check_access(resource, device);
	if (error)
		return library_leave(&call, error);
	resource_relax(&before);
	error = library_cuda.cuMemPoolGetAccess(&flags, resource->pool.handle,
						&(CUmemLocation){
							.type = CU_MEM_LOCATION_TYPE_DEVICE,
							.id = device->ordinal,
						});
	resource_restore(&before);
	if (!error)
		*can_access = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return library_leave(&call, error);
}
