/* SPDX-License-Identifier: Apache-2.0 */
#include "cover.h"

#include <string.h>

CUcontext cover_start(CUdevice device)
{
	CUcontext context;

	must("cuInit", cuInit(0));
	note_operation("cuInit", "none", 0);
	must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
	note_operation("cuDevicePrimaryCtxRetain", "none", 0);
	cover_set_current(context);
	return context;
}

void cover_set_current(CUcontext context)
{
	must("cuCtxSetCurrent", cuCtxSetCurrent(context));
	note_operation("cuCtxSetCurrent", "none", 0);
}

CUdeviceptr cover_alloc(size_t bytes, unsigned *ordinal)
{
	CUdeviceptr address;
	unsigned noted;

	must("cuMemAlloc_v2", cuMemAlloc_v2(&address, bytes));
	noted = note_alloc("device", address, bytes, "cuMemAlloc_v2");
	if (ordinal)
		*ordinal = noted;
	return address;
}

void cover_free(CUdeviceptr address, unsigned ordinal)
{
	must("cuMemFree_v2", cuMemFree_v2(address));
	note_free(ordinal, "cuMemFree_v2");
}

const char *cover_default_stream(const char *api)
{
	return strstr(api, "_pts") || strstr(api, "_ptds") ? "per-thread" : "legacy";
}

void cover_end(void)
{
	note_end_of_all("-");
	journal_end();
}
