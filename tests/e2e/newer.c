/* SPDX-License-Identifier: Apache-2.0 */
/*
 * newer.c - a program made for a newer driver than custody knows, which comes to
 * its functions by linked symbols, dlsym or either cuGetProcAddress.  A second
 * argument names a plugin that is linked with one more of them.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

CUresult cuMemAlloc_v3(CUdeviceptr *address, size_t bytes);
CUresult cuNewThing(void);

enum { NEWER = 13020 };

static __typeof__(cuMemAlloc_v3) *allocate = NULL;
static __typeof__(cuNewThing) *do_thing = NULL;

static void *look_up(const char *how, const char *base, const char *symbol)
{
	CUdriverProcAddressQueryResult found;
	void *function = NULL, *ask;

	if (!strcmp(how, "dlsym"))
		return dlsym(RTLD_DEFAULT, symbol);
	ask = dlsym(RTLD_DEFAULT, strcmp(how, "getproc4") ? "cuGetProcAddress_v2" :
							      "cuGetProcAddress");
	if (!strcmp(how, "getproc4"))
		((CUresult(*)(const char *, void **, int, cuuint64_t))ask)(base, &function, NEWER,
									   0);
	else
		((CUresult(*)(const char *, void **, int, cuuint64_t,
			      CUdriverProcAddressQueryResult *))ask)(base, &function, NEWER, 0,
								     &found);
	return function;
}

static void find_functions(const char *how)
{
#ifdef LINKED
	(void)how;
	(void)look_up;
	allocate = cuMemAlloc_v3;
	do_thing = cuNewThing;
#else
	*(void **)&allocate = look_up(how, "cuMemAlloc", "cuMemAlloc_v3");
	*(void **)&do_thing = look_up(how, "cuNewThing", "cuNewThing");
#endif
}

/* It comes when all that is linked at the start has been seen. */
static int call_plugin(const char *path)
{
	void *plugin = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	int (*act)(void) = NULL;

	if (plugin)
		*(void **)&act = dlsym(plugin, "plugin_do");
	return act ? act() : -1;
}

int main(int count, char **arguments)
{
	CUdeviceptr address = 0, other = 0;
	CUcontext context;
	CUdevice device;
	int version = 0;

	find_functions(count > 1 ? arguments[1] : "");
	if (!allocate || !do_thing)
		return 90;
	cuDriverGetVersion(&version);
	printf("driver %d, start %d\n", version, cuInit(0));
	cuDeviceGet(&device, 0);
	printf("context %d\n", cuDevicePrimaryCtxRetain(&context, device));
	cuCtxSetCurrent(context);
	printf("new thing %d, newer allocation %d\n", do_thing(), allocate(&address, 1 << 20));
	printf("known allocation %d\n", cuMemAlloc(&other, 4096));
	if (count > 2)
		printf("plugin %d\n", call_plugin(arguments[2]));
	printf("frees %d %d\n", cuMemFree(address), cuMemFree(other));
	return !address;
}
