/* SPDX-License-Identifier: Apache-2.0 */
#include "report/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_SUCCESS = 0 };

/* nvmlMemory_t */
struct memory {
	unsigned long long total, free, used;
};

/* The functions that are asked once. */
struct entry {
	int (*init)(void);
	int (*get_count)(unsigned int *count);
	int (*get_handle)(unsigned int index, void **handle);
	int (*get_uuid)(void *handle, char *uuid, unsigned int bytes);
};

static bool find(void *library, const char *name, void *function, size_t bytes)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, bytes);
	return found;
}

#define FIND(library, name, function) find(library, name, &(function), sizeof(function))

static bool find_all(struct nvml *nvml, struct entry *entry)
{
	return FIND(nvml->library, "nvmlInit_v2", entry->init) &&
	       FIND(nvml->library, "nvmlDeviceGetCount_v2", entry->get_count) &&
	       FIND(nvml->library, "nvmlDeviceGetHandleByIndex_v2", entry->get_handle) &&
	       FIND(nvml->library, "nvmlDeviceGetUUID", entry->get_uuid) &&
	       FIND(nvml->library, "nvmlDeviceGetMemoryInfo", nvml->get_memory) &&
	       FIND(nvml->library, "nvmlShutdown", nvml->shut_down);
}

/* One that we may not see is not ours to sample. */
static void find_devices(struct nvml *nvml, const struct entry *entry)
{
	unsigned int count = 0;

	if (entry->get_count(&count) != NVML_SUCCESS)
		return;
	for (unsigned int i = 0; i < count && nvml->devices < NVML_DEVICES; i++) {
		struct nvml_device *device = &nvml->device[nvml->devices];

		if (entry->get_handle(i, &device->handle) == NVML_SUCCESS &&
		    entry->get_uuid(device->handle, device->uuid, NVML_UUID) == NVML_SUCCESS)
			nvml->devices++;
	}
}

bool nvml_open(struct nvml *nvml)
{
	const char *name = getenv("CUSTODY_NVML");
	struct entry entry;

	memset(nvml, 0, sizeof(*nvml));
	if (name && !strcmp(name, "none"))
		return false;
	nvml->library = dlopen(name && *name ? name : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library)
		return false;
	if (find_all(nvml, &entry) && entry.init() == NVML_SUCCESS) {
		find_devices(nvml, &entry);
		if (nvml->devices)
			return true;
		nvml->shut_down();
	}
	dlclose(nvml->library);
	nvml->library = NULL;
	return false;
}

bool nvml_free_bytes(const struct nvml *nvml, int device, int64_t *bytes)
{
	struct memory memory = { 0 };

	if (nvml->get_memory(nvml->device[device].handle, &memory) != NVML_SUCCESS)
		return false;
	*bytes = (int64_t)memory.free;
	return true;
}

/* The library stays: the process ends soon, and whatever the library left is safe until then. */
void nvml_close(struct nvml *nvml)
{
	nvml->shut_down();
	nvml->library = NULL;
}
