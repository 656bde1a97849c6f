/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/device.h - devices of this machine.
 *
 * A device is known by a pointer that is valid for the life of the process and is
 * never freed.  The driver is loaded and initialised by the first function that
 * needs it, and again by the next where that has failed.  In a child of fork of a
 * process that has done so every function gives CUSTODY_E_FORKED, and once exit() has
 * begun to run handlers CUSTODY_E_EXITING; what destroys then frees host memory alone
 * and returns 0.  All functions may be called from any thread.
 */
#ifndef CUSTODY_DEVICE_H
#define CUSTODY_DEVICE_H

#include <custody/error.h>

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct custody_device;

/*
 * Whether CUDA can be used here: a driver that initialises, and a device.  Never
 * fails; custody_init_error() then says why not.  Documented: cuda.is_available().
 */
CUSTODY_API bool custody_is_available(void);

/* Why not, as one sentence; NULL: it can.  Static.  Documented: cuda.cuda_error(). */
CUSTODY_API const char *custody_init_error(void);

/*
 * Print a summary of all devices to `out`, and store how many are supported (compute
 * capability 5.0 and up; 3.5 and up count as supported but deprecated).  `supported`
 * may be NULL.  Documented: cuda.detect().
 */
CUSTODY_API int custody_detect(FILE *out, int *supported);

/* How many devices there are.  Documented: cuda.list_devices(), len(cuda.gpus). */
CUSTODY_API int custody_device_count(int *count);

/* The device of an ordinal from 0.  Makes nothing current.  Documented: cuda.gpus[i]. */
CUSTODY_API int custody_device_get(int ordinal, struct custody_device **device);

/*
 * The device of the context that is current on this thread; NULL goes to *device
 * where none is.  Documented: cuda.gpus.current, cuda.get_current_device().
 */
CUSTODY_API int custody_device_current(struct custody_device **device);

/*
 * Make the primary context of the device current on this thread, replacing what is
 * on top of its stack; `device` may be NULL.  Documented: cuda.select_device().
 */
CUSTODY_API int custody_device_select(int ordinal, struct custody_device **device);

/*
 * Work on a device for a while: push its primary context, and pop it again.  Pairs
 * nest.  The end fails with CUSTODY_E_CONTEXT_ORDER, and changes nothing, where
 * another context is on top.  Documented: with cuda.gpus[i].
 */
CUSTODY_API int custody_device_begin(struct custody_device *device);
CUSTODY_API int custody_device_end(struct custody_device *device);

struct custody_device_info {
	size_t size; /* sizeof(struct custody_device_info), set by the caller */
	int ordinal;
	int major; /* compute capability */
	int minor;
	char name[256];
	char uuid[48]; /* "GPU-" and 8-4-4-4-12 hexadecimal digits */
	unsigned char uuid_bytes[16];
	uint64_t total_bytes;
	int pci_domain;
	int pci_bus;
	int pci_device;
	bool is_supported;  /* compute capability 3.5 and up ... */
	bool is_deprecated; /* ... but below 5.0 */
	bool supports_float16;	/* 5.3 and up */
	bool supports_bfloat16; /* 8.0 and up */
	bool supports_float8;	/* 8.9 and up */
	bool supports_pools;	/* cuMemAllocAsync */
	bool has_managed_access; /* host and device may use managed memory at one time */
};

/* Documented: Device.id, name, compute_capability, uuid, supports_float16 and others. */
CUSTODY_API int custody_device_info(struct custody_device *device,
				    struct custody_device_info *info);

/* Any attribute of the driver; what has been asked is kept.  Documented: Device.ATTRIBUTE. */
CUSTODY_API int custody_device_attribute(struct custody_device *device,
					 CUdevice_attribute attribute, int *value);

/* The ordinal and the driver's name of a device; -1 for NULL. */
CUSTODY_API int custody_device_ordinal(const struct custody_device *device);
CUSTODY_API CUdevice custody_device_handle(const struct custody_device *device);

/*
 * Destroy the primary context with all that was made in it: what is pending is
 * released first, every handle of libcustody that belongs to the context is stale
 * from then on (CUSTODY_E_STALE), and the next use of the device makes a new context.
 * The caller sees to it that no other thread works on the device meanwhile.  Scopes of
 * custody_defer_begin() end with the context.  After a fault of the device this is what
 * makes it useful again.  During a capture: CUSTODY_E_CAPTURING.  Documented:
 * Device.reset().
 */
CUSTODY_API int custody_device_reset(struct custody_device *device);

/* Whether a kernel on `device` can reach memory of `peer`.  Documented: can_access_peer(). */
CUSTODY_API int custody_device_can_access_peer(struct custody_device *device,
					       struct custody_device *peer, bool *can);

#ifdef __cplusplus
}
#endif
#endif
