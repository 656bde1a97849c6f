/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door_lookup.c - the driver's functions by look-up:
 *
 *	door_lookup HOW [per-thread]
 *
 * HOW is dlsym (of a handle of libcuda.so.1), a path (dlsym of a handle of that
 * file), default (dlsym of RTLD_DEFAULT), getproc4 or getproc5.
 */
#include "journal.h"
#include "story.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef CUresult getproc4(const char *, void **, int, cuuint64_t);
typedef CUresult getproc5(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

struct door {
	const char *how;
	void *handle;
	int is_per_thread;
};

/* The twins came with CUDA 7. */
static int version_of(const struct door *door, const struct story_function *function)
{
	return door->is_per_thread && function->version < 7000 ? 7000 : function->version;
}

static void *by_getproc4(const struct door *door, const struct story_function *function)
{
	getproc4 *get = (getproc4 *)dlsym(door->handle, "cuGetProcAddress");
	void *found = NULL;

	must("cuGetProcAddress",
	     get(function->base, &found, version_of(door, function), door->is_per_thread ? 2 : 0));
	return found;
}

static void *by_getproc5(const struct door *door, const struct story_function *function)
{
	getproc5 *get = (getproc5 *)dlsym(door->handle, "cuGetProcAddress_v2");
	CUdriverProcAddressQueryResult status = 7;
	void *found = NULL;

	must("cuGetProcAddress_v2", get(function->base, &found, version_of(door, function),
					door->is_per_thread ? 2 : 0, &status));
	require(status == CU_GET_PROC_ADDRESS_SUCCESS, "the look-up says that it succeeded");
	return found;
}

static void *find(const struct door *door, const struct story_function *function)
{
	const char *symbol = story_symbol(function, door->is_per_thread);

	if (!strcmp(door->how, "getproc4"))
		return by_getproc4(door, function);
	if (!strcmp(door->how, "getproc5"))
		return by_getproc5(door, function);
	return dlsym(door->handle, symbol);
}

static void *open_driver(const char *how)
{
	const char *name = strchr(how, '/') ? how : "libcuda.so.1";
	int is_default = !strcmp(how, "default");
	void *handle;

	if (is_default)
		require(!dlsym(RTLD_DEFAULT, "cuInit"),
			"a driver that is not loaded has no functions");
	handle = dlopen(name, RTLD_NOW | (is_default ? RTLD_GLOBAL : RTLD_LOCAL));
	require(handle != NULL, "libcuda can be opened");
	return is_default ? RTLD_DEFAULT : handle;
}

int main(int count, char **arguments)
{
	struct door door = { .how = count > 1 ? arguments[1] : "dlsym" };
	struct story_driver driver;
	const struct story_function *function;
	void *found;

	door.is_per_thread = count > 2 && !strcmp(arguments[2], "per-thread");
	door.handle = open_driver(door.how);
	for (function = story_functions; function->base; function++) {
		found = find(&door, function);
		require(found != NULL, "every function of the story is found");
		memcpy((char *)&driver + function->offset, &found, sizeof(found));
	}
	story_tell(&driver, door.is_per_thread);
	return 0;
}
