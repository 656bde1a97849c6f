/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_probe.c - the program that `custody doctor` records.  It reaches the driver
 * through each door and says on standard output, in key=value lines, what it
 * found; whether the calls were recorded is for the doctor to find out.
 */
#include "report/command.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool want_memory;

static const struct options_row options[] = {
	{ "memory", 0, OPTIONS_FLAG, NULL, "allocate a block through each door", &want_memory, 0 },
	{ NULL, 0, OPTIONS_FLAG, NULL, NULL, NULL, 0 },
};

/* A driver that hangs must not hang the doctor. */
enum { PATIENCE_SECONDS = 30, PROBE_BYTES = 4096, GET_PROC_VERSION = 12000 };

typedef int function(void);

/* The driver's own types are not needed for a handful of calls. */
struct driver {
	int (*init)(unsigned int flags);
	int (*version)(int *version);
	int (*count)(int *count);
	int (*device)(int *device, int ordinal);
	int (*name)(char *name, int length, int device);
	int (*retain)(void **context, int device);
	int (*release)(int device);
	int (*set_current)(void *context);
	int (*look_up)(const char *name, function **found, int version, uint64_t flags,
		       int *status);
};

struct door {
	const char *name;
	int (*allocate)(uint64_t *address, size_t bytes);
	int (*free)(uint64_t address);
};

static int find_driver(struct driver *driver, void *library)
{
	const struct {
		const char *name;
		void *target;
	} wanted[] = {
		{ "cuInit", &driver->init },
		{ "cuDriverGetVersion", &driver->version },
		{ "cuDeviceGetCount", &driver->count },
		{ "cuDeviceGet", &driver->device },
		{ "cuDeviceGetName", &driver->name },
		{ "cuDevicePrimaryCtxRetain", &driver->retain },
		{ "cuDevicePrimaryCtxRelease_v2", &driver->release },
		{ "cuCtxSetCurrent", &driver->set_current },
		{ "cuGetProcAddress_v2", &driver->look_up },
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		*(void **)wanted[i].target = dlsym(library, wanted[i].name);
		if (!*(void **)wanted[i].target && wanted[i].target != (void *)&driver->look_up) {
			printf("missing=%s\n", wanted[i].name);
			return -1;
		}
	}
	return 0;
}

static void tell_devices(const struct driver *driver)
{
	int version = 0, count = 0, device;
	char name[256];

	driver->version(&version);
	driver->count(&count);
	printf("version=%d\ndevices=%d\n", version, count);
	for (int i = 0; i < count; i++)
		if (!driver->device(&device, i) && !driver->name(name, sizeof(name), device))
			printf("device=%.255s\n", name);
}

static void use_door(const struct door *door)
{
	uint64_t address = 0;
	int result;

	if (!door->allocate || !door->free) {
		printf("closed=%s\n", door->name);
		return;
	}
	result = door->allocate(&address, PROBE_BYTES);
	if (!result)
		result = door->free(address);
	printf(result ? "failed=%s %d\n" : "used=%s\n", door->name, result);
}

/* dlsym on a handle, the global scope that linked programs bind to, the driver's own look-up. */
static void use_doors(const struct driver *driver, void *library)
{
	struct door door[] = {
		{ .name = "dlsym" },
		{ .name = "link" },
		{ .name = "cuGetProcAddress" },
	};
	void *context = NULL;
	int status;

	*(void **)&door[0].allocate = dlsym(library, "cuMemAlloc_v2");
	*(void **)&door[0].free = dlsym(library, "cuMemFree_v2");
	*(void **)&door[1].allocate = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
	*(void **)&door[1].free = dlsym(RTLD_DEFAULT, "cuMemFree_v2");
	if (driver->look_up) {
		driver->look_up("cuMemAlloc", (function **)&door[2].allocate, GET_PROC_VERSION, 0,
				&status);
		driver->look_up("cuMemFree", (function **)&door[2].free, GET_PROC_VERSION, 0,
				&status);
	}
	if (driver->retain(&context, 0) || driver->set_current(context)) {
		puts("failed=context");
		return;
	}
	for (size_t i = 0; i < sizeof(door) / sizeof(*door); i++)
		use_door(&door[i]);
	driver->release(0);
}

static int run(int argc, char **argv)
{
	/* Global, as for a program that is linked with the driver. */
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	struct driver driver;
	Dl_info place;
	int result;

	(void)argc, (void)argv;
	alarm(PATIENCE_SECONDS);
	if (!library) {
		printf("absent=%s\n", dlerror());
		return EXIT_GOOD;
	}
	if (find_driver(&driver, library))
		return EXIT_COULD_NOT;
	result = driver.init(0);
	printf("init=%d\n", result);
	if (dladdr(dlsym(library, "cuInit"), &place) && place.dli_fname)
		printf("cuInit=%s\n", place.dli_fname);
	if (result)
		return EXIT_GOOD;
	tell_devices(&driver);
	if (want_memory)
		use_doors(&driver, library);
	return EXIT_GOOD;
}

const struct command cmd_probe = {
	.name = "probe",
	.summary = "Be the program that 'custody doctor' records",
	.operands = "",
	.options = options,
	.run = run,
	.hidden = true,
};
