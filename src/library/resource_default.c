/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource_default.c - the resource of a device, from which what names none comes.
 */
#include "library/resource.h"

/* Of every device's field; held across the making of a device resource. */
static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_fresh(const struct custody_resource *resource)
{
	return context_is_fresh(resource->object.context, resource->object.generation);
}

/*
 * Under the lock, with the context entered.  A reset has taken with it what was set:
 * `*stale` is to be released, without the lock.
 */
static int find(struct custody_device *device, struct custody_resource **resource,
		struct custody_resource **stale)
{
	struct custody_resource *found = atomic_load(&device->resource);
	int error;

	*stale = NULL;
	if (!found || !is_fresh(found)) {
		struct custody_resource *made;

		error = resource_device_make(device->context, &made);
		if (error)
			return error;
		*stale = found;
		found = made;
		atomic_store(&device->resource, found);
	}
	*resource = found;
	return 0;
}

static int find_locked(struct custody_device *device, struct custody_resource **resource,
		       bool does_retain)
{
	struct custody_resource *stale;
	struct library_call call;
	int error = library_enter_context(&call, device->context);

	if (error)
		return error;
	pthread_mutex_lock(&default_lock);
	error = find(device, resource, &stale);
	if (!error && does_retain)
		custody_resource_retain(*resource);
	pthread_mutex_unlock(&default_lock);
	custody_resource_release(stale);
	return library_leave(&call, error);
}

int resource_default_take(struct custody_device *device, struct custody_resource **resource)
{
	return find_locked(device, resource, true);
}

int custody_device_resource(struct custody_device *device, struct custody_resource **resource)
{
	if (!device || !resource)
		return error_say(CUSTODY_E_INVALID, "the device, or where to put its resource, "
				 "is NULL");
	return find_locked(device, resource, false);
}

static int say_other_device(const struct custody_device *device,
			    const struct custody_resource *resource)
{
	return error_say(CUSTODY_E_MISMATCH, "the resource is of device %d, not of device %d",
			 resource->object.context->device->ordinal, device->ordinal);
}

int custody_device_set_resource(struct custody_device *device, struct custody_resource *resource)
{
	struct custody_resource *before;
	struct library_call call;
	int error;

	if (!device)
		return error_say(CUSTODY_E_INVALID, "the device is NULL");
	error = resource ? resource_enter(&call, resource) : library_enter(&call);
	if (error)
		return error;
	if (resource && resource->object.context->device != device)
		return library_leave(&call, say_other_device(device, resource));
	custody_resource_retain(resource);
	pthread_mutex_lock(&default_lock);
	before = atomic_exchange(&device->resource, resource);
	pthread_mutex_unlock(&default_lock);
	custody_resource_release(before);
	return library_leave(&call, 0);
}
