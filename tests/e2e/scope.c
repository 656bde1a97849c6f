/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scope.c - frees inside a range that is a scope, by NVTX's own header:
 *
 *	scope none|push|start|domain [LIBRARY]
 *
 * LIBRARY is a second module that uses NVTX (this file again, as a plugin).  It
 * opens and closes a range like that around the frees, inside the first one.
 */
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAS_NVTX 1
#else
#define HAS_NVTX 0
#endif

#include "journal.h"

#include <dlfcn.h>
#include <string.h>

enum { BLOCKS = 20, BYTES = 4096, SKIPPED = 77 };

void scope_begin(const char *how);
void scope_end(const char *how);

#if HAS_NVTX
static nvtxRangeId_t started;
static nvtxDomainHandle_t domain;

static void push_in_domain(void)
{
	nvtxEventAttributes_t range = { 0 };

	domain = nvtxDomainCreateA("program");
	range.version = NVTX_VERSION;
	range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	range.message.registered = nvtxDomainRegisterStringA(domain, "custody.defer_cleanup");
	nvtxDomainRangePushEx(domain, &range);
}

void scope_begin(const char *how)
{
	nvtxRangePushA("step");
	if (!strcmp(how, "push"))
		nvtxRangePushA("custody.defer_cleanup");
	else if (!strcmp(how, "start"))
		started = nvtxRangeStartA("custody.defer_cleanup");
	else if (!strcmp(how, "domain"))
		push_in_domain();
	nvtxRangePushA("frees");
}

void scope_end(const char *how)
{
	nvtxRangePop();
	if (!strcmp(how, "push"))
		nvtxRangePop();
	else if (!strcmp(how, "start"))
		nvtxRangeEnd(started);
	else if (!strcmp(how, "domain"))
		nvtxDomainRangePop(domain);
	nvtxRangePop();
}
#else
void scope_begin(const char *how)
{
	(void)how;
}

void scope_end(const char *how)
{
	(void)how;
}
#endif

#ifndef SCOPE_PLUGIN
static CUdeviceptr blocks[BLOCKS];

static void start(void)
{
	CUcontext context;
	CUdevice device;
	int i;

	require(!cuInit(0) && !cuDeviceGet(&device, 0) &&
			!cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context),
		"CUDA starts");
	for (i = 0; i < BLOCKS; i++)
		require(!cuMemAlloc(&blocks[i], BYTES), "an allocation succeeds");
}

static void free_some(int from, int to)
{
	for (int i = from; i < to; i++)
		require(!cuMemFree(blocks[i]), "a free succeeds");
}

static void free_in_plugin(const char *path, const char *how)
{
	void *plugin = dlopen(path, RTLD_NOW);
	void (*begin)(const char *), (*end)(const char *);

	require(plugin != NULL, "the plugin can be loaded");
	begin = (void (*)(const char *))dlsym(plugin, "scope_begin");
	end = (void (*)(const char *))dlsym(plugin, "scope_end");
	require(begin && end, "the plugin has ranges");
	begin(how);
	free_some(0, BLOCKS / 2);
	end(how);
}

int main(int count, char **arguments)
{
	const char *how = count > 1 ? arguments[1] : "none";

	if (!HAS_NVTX)
		return SKIPPED;
	start();
	scope_begin(how);
	if (count > 2)
		free_in_plugin(arguments[2], how);
	free_some(count > 2 ? BLOCKS / 2 : 0, BLOCKS);
	scope_end(how);
	return 0;
}
#endif
