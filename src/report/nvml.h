/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml.h - how much of each GPU is free, as NVIDIA's management library says it.
 * The library is opened at run time, so that nothing depends on it; the few types and
 * names of it that are needed are declared in nvml.c.
 *
 * NVML's free bytes are those of cuMemGetInfo; its total is not: it has what the
 * driver keeps back for itself.  So free is compared with free, and nothing else asked.
 */
#ifndef CUSTODY_REPORT_NVML_H
#define CUSTODY_REPORT_NVML_H

#include <stdbool.h>
#include <stdint.h>

enum { NVML_DEVICES = 32, NVML_UUID = 48 };

struct nvml {
	void *library;
	int (*get_memory)(void *device, void *memory);
	int (*shut_down)(void);
	struct nvml_device {
		void *handle;
		char uuid[NVML_UUID]; /* "GPU-...", as the driver's own is printed */
	} device[NVML_DEVICES];
	int devices;
};

/*
 * Open the library that CUSTODY_NVML names, or the one of the system.  False: there is
 * none, it does not work, or CUSTODY_NVML is "none".
 */
bool nvml_open(struct nvml *nvml);

/* False where the device does not answer. */
bool nvml_free_bytes(const struct nvml *nvml, int device, int64_t *bytes);

void nvml_close(struct nvml *nvml);

#endif
