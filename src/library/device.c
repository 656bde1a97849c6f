/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Made once by library_init() and never freed: pointers into it are in callers' hands. */
static struct custody_device *devices;
static int devices_count;

/* ------------------------------------------------------------------ the table */

static int open_one(struct custody_device *device, int ordinal, struct custody_context *context)
{
	CUresult result = library_cuda.cuDeviceGet(&device->handle, ordinal);

	if (result != CUDA_SUCCESS)
		return error_say((int)result, "the driver does not give device %d", ordinal);
	device->ordinal = ordinal;
	device->context = context;
	context->is_primary = true;
	return 0;
}

static int open_each(struct custody_device *table, struct custody_context *contexts, int count)
{
	int error = 0;

	for (int i = 0; !error && i < count; i++)
		error = open_one(&table[i], i, &contexts[i]);
	for (int i = 0; !error && i < count; i++)
		context_enlist(&contexts[i], &table[i]);
	return error;
}

/* A second initialisation, after one that failed later than here, finds it made. */
int device_open_all(void)
{
	struct custody_device *table;
	struct custody_context *contexts;
	int count = 0, error;
	CUresult result;

	if (devices)
		return 0;
	result = library_cuda.cuDeviceGetCount(&count);
	if (result != CUDA_SUCCESS)
		return error_say((int)result, "the driver does not tell how many devices it has");
	if (count < 1)
		return error_say(CUSTODY_E_NO_DEVICE, "the CUDA driver finds no device");
	table = calloc((size_t)count, sizeof(*table));
	contexts = calloc((size_t)count, sizeof(*contexts));
	error = table && contexts ? open_each(table, contexts, count) :
				    error_say(CUSTODY_E_NO_MEMORY, "no memory for the devices");
	if (error) {
		free(table);
		free(contexts);
		return error;
	}
	devices = table;
	devices_count = count;
	return 0;
}

int device_count(void)
{
	return devices_count;
}

struct custody_device *device_find(int ordinal)
{
	return ordinal >= 0 && ordinal < devices_count ? &devices[ordinal] : NULL;
}

struct custody_device *device_of_handle(CUdevice handle)
{
	for (int i = 0; i < devices_count; i++)
		if (devices[i].handle == handle)
			return &devices[i];
	return NULL;
}

static int find_or_say(int ordinal, struct custody_device **device)
{
	*device = device_find(ordinal);
	if (*device)
		return 0;
	return error_say(CUSTODY_E_NO_DEVICE, "there is no device %d; there are %d, from 0",
			 ordinal, devices_count);
}

/* ------------------------------------------------------------------ what there is */

bool custody_is_available(void)
{
	return library_init() == 0;
}

int custody_device_count(int *count)
{
	struct library_call call;
	int error;

	if (!count)
		return error_null("count");
	error = library_enter(&call);
	if (error)
		return error;
	*count = devices_count;
	return library_leave(&call, 0);
}

int custody_device_get(int ordinal, struct custody_device **device)
{
	struct custody_device *found;
	struct library_call call;
	int error;

	if (!device)
		return error_null("device");
	error = library_enter(&call);
	if (error)
		return error;
	error = find_or_say(ordinal, &found);
	if (!error)
		*device = found;
	return library_leave(&call, error);
}

/* Of a primary context that has ended while it was current here, too. */
static int find_current(struct custody_device **device)
{
	CUdevice handle;
	CUresult result = library_cuda.cuCtxGetDevice(&handle);

	*device = NULL;
	if (result == CUDA_SUCCESS)
		*device = device_of_handle(handle);
	else if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
		*device = context_last_device();
	else if (result != CUDA_ERROR_INVALID_CONTEXT)
		return (int)result;
	return 0;
}

int custody_device_current(struct custody_device **device)
{
	struct custody_device *found;
	struct library_call call;
	int error;

	if (!device)
		return error_null("device");
	error = library_enter(&call);
	if (error)
		return error;
	error = find_current(&found);
	if (!error)
		*device = found;
	return library_leave(&call, error);
}

/* ------------------------------------------------------------------ making one current */

int custody_device_select(int ordinal, struct custody_device **device)
{
	struct custody_device *found;
	struct library_call call;
	int error = library_enter(&call);

	if (error)
		return error;
	error = find_or_say(ordinal, &found);
	if (!error)
		error = context_select(found->context);
	if (!error && device)
		*device = found;
	return library_leave(&call, error);
}

int custody_device_begin(struct custody_device *device)
{
	return device ? custody_context_push(device->context) : error_null("device");
}

int custody_device_end(struct custody_device *device)
{
	return device ? custody_context_pop(device->context) : error_null("device");
}

/* ------------------------------------------------------------------ facts */

static int read_attribute(struct custody_device *device, CUdevice_attribute attribute, int *value)
{
	bool is_kept = attribute >= 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX;
	int64_t kept = is_kept ? atomic_load_explicit(&device->attributes[attribute],
						      memory_order_relaxed) :
				 0;
	CUresult result;

	if (kept) {
		*value = (int)(uint32_t)kept;
		return 0;
	}
	result = library_cuda.cuDeviceGetAttribute(value, attribute, device->handle);
	if (result != CUDA_SUCCESS)
		return error_say((int)result, "the driver has no attribute %d for device %d",
				 (int)attribute, device->ordinal);
	if (is_kept)
		atomic_store_explicit(&device->attributes[attribute],
				      INT64_C(1) << 32 | (uint32_t)*value, memory_order_relaxed);
	return 0;
}

int custody_device_attribute(struct custody_device *device, CUdevice_attribute attribute,
			     int *value)
{
	struct library_call call;
	int error, found;

	if (!device || !value)
		return error_null(device ? "value" : "device");
	error = library_enter(&call);
	if (error)
		return error;
	error = read_attribute(device, attribute, &found);
	if (!error)
		*value = found;
	return library_leave(&call, error);
}

static int read_numbers(struct custody_device *device, struct custody_device_info *info)
{
	const struct {
		CUdevice_attribute attribute;
		int *value;
	} wanted[] = {
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info->major },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info->minor },
		{ CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &info->pci_domain },
		{ CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &info->pci_bus },
		{ CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &info->pci_device },
	};
	int error = 0;

	for (size_t i = 0; !error && i < sizeof(wanted) / sizeof(wanted[0]); i++)
		error = read_attribute(device, wanted[i].attribute, wanted[i].value);
	return error;
}

/* An attribute that an older driver does not have counts as no. */
static bool has(struct custody_device *device, CUdevice_attribute attribute)
{
	int value = 0;

	return read_attribute(device, attribute, &value) == 0 && value != 0;
}

static void write_uuid(struct custody_device_info *info)
{
	const unsigned char *b = info->uuid_bytes;

	snprintf(info->uuid, sizeof(info->uuid),
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
}

static int read_names(struct custody_device *device, struct custody_device_info *info)
{
	size_t bytes = 0;
	CUuuid uuid;
	CUresult result = library_cuda.cuDeviceGetName(info->name, sizeof(info->name),
						       device->handle);

	if (result == CUDA_SUCCESS)
		result = library_cuda.cuDeviceTotalMem(&bytes, device->handle);
	info->total_bytes = bytes;
	if (result == CUDA_SUCCESS && library_cuda.cuDeviceGetUuid) {
		result = library_cuda.cuDeviceGetUuid(&uuid, device->handle);
		if (result == CUDA_SUCCESS) {
			memcpy(info->uuid_bytes, uuid.bytes, sizeof(info->uuid_bytes));
			write_uuid(info);
		}
	}
	if (result != CUDA_SUCCESS)
		return error_say((int)result, "the driver does not describe device %d",
				 device->ordinal);
	return 0;
}

static void judge(struct custody_device *device, struct custody_device_info *info)
{
	int capability = info->major * 10 + info->minor;

	info->is_supported = capability >= 35;
	info->is_deprecated = info->is_supported && capability < 50;
	info->supports_float16 = capability >= 53;
	info->supports_bfloat16 = capability >= 80;
	info->supports_float8 = capability >= 89;
	info->supports_pools = has(device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
	info->has_managed_access = has(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
}

int custody_device_info(struct custody_device *device, struct custody_device_info *info)
{
	struct custody_device_info mine = { .size = sizeof(mine) };
	struct library_call call;
	int error;

	if (!device || !info)
		return error_null(device ? "info" : "device");
	error = library_enter(&call);
	if (error)
		return error;
	mine.ordinal = device->ordinal;
	error = read_numbers(device, &mine);
	if (!error)
		error = read_names(device, &mine);
	if (!error) {
		judge(device, &mine);
		error_forget();
		error = library_fill(info, &mine, sizeof(mine));
	}
	return library_leave(&call, error);
}

int custody_device_ordinal(const struct custody_device *device)
{
	return device ? device->ordinal : -1;
}

CUdevice custody_device_handle(const struct custody_device *device)
{
	return device ? device->handle : -1;
}

int custody_device_can_access_peer(struct custody_device *device, struct custody_device *peer,
				   bool *can)
{
	struct library_call call;
	CUresult result;
	int error, answer = 0;

	if (!device || !peer || !can)
		return error_null(!device ? "device" : !peer ? "peer" : "can");
	error = library_enter(&call);
	if (error)
		return error;
	result = library_cuda.cuDeviceCanAccessPeer(&answer, device->handle, peer->handle);
	if (result == CUDA_SUCCESS)
		*can = answer != 0;
	return library_leave(&call, (int)result);
}
