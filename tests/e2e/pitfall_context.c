/* SPDX-License-Identifier: Apache-2.0 */
/* pitfall_context.c - contexts that end, are counted, or are parts of others. */
#include "pitfall.h"

#include <stdlib.h>

/* A context takes its memory along, but not that which belongs to no context. */
static void destroy(void)
{
	CUmemAllocationProp properties;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr linear, pitched, shared, pooled;
	size_t pitch, step;
	CUcontext context;
	void *pinned;

	pitfall_start();
	properties = handle_properties(CU_MEM_HANDLE_TYPE_NONE);
	need(cuMemGetAllocationGranularity(&step, &properties,
					   CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	need(cuCtxCreate(&context, NULL, 0, pitfall.device));
	linear = new_block(MIB);
	need(cuMemAllocPitch(&pitched, &pitch, 1000, 100, 4));
	need(cuMemAllocManaged(&shared, MIB, CU_MEM_ATTACH_GLOBAL));
	need(cuMemAllocHost(&pinned, MIB));
	need(cuMemAllocAsync(&pooled, MIB, NULL));
	need(cuCtxSynchronize());
	need(cuMemCreate(&handle, step, &properties, 0));
	need(cuCtxDestroy(context));
	need(cuCtxSetCurrent(pitfall.context));
	tell("free of linear memory", cuMemFree(linear));
	tell("free of pitched memory", cuMemFree(pitched));
	tell("free of managed memory", cuMemFree(shared));
	tell("free of page-locked memory", cuMemFreeHost(pinned));
	tell("free of a pool's block", cuMemFree(pooled));
	tell("release of a handle", cuMemRelease(handle));
}

/* A reset does not count, and the next context has the old one's handle. */
static void reset(void)
{
	CUcontext again;
	CUdeviceptr block;
	unsigned flags;
	int active;

	pitfall_start();
	block = new_block(MIB);
	need(cuDevicePrimaryCtxReset(pitfall.device));
	tell("synchronise behind the reset", cuCtxSynchronize());
	tell("free behind the reset", cuMemFree(block));
	need(cuDevicePrimaryCtxGetState(pitfall.device, &flags, &active));
	tell("active", active);
	need(cuDevicePrimaryCtxRetain(&again, pitfall.device));
	tell("the same handle", again == pitfall.context);
	need(cuCtxSetCurrent(again));
	block = new_block(MIB);
	tell("free in the next context", cuMemFree(block));
	/* Two references by now. */
	need(cuDevicePrimaryCtxRelease(pitfall.device));
	need(cuDevicePrimaryCtxGetState(pitfall.device, &flags, &active));
	tell("active behind one release", active);
	need(cuDevicePrimaryCtxRelease(pitfall.device));
	need(cuDevicePrimaryCtxGetState(pitfall.device, &flags, &active));
	tell("active behind two", active);
	tell("a third release", cuDevicePrimaryCtxRelease(pitfall.device));
}

/* Nobody else holds a primary context, whatever was freed in it. */
static void release(void)
{
	unsigned flags;
	int active;

	pitfall_start();
	for (int i = 0; i < 4; i++) {
		CUdeviceptr block = new_block(2 * MIB);

		need(cuMemsetD32(block, 1, 16));
		need(cuMemFree(block));
	}
	need(cuDevicePrimaryCtxRelease(pitfall.device));
	need(cuDevicePrimaryCtxGetState(pitfall.device, &flags, &active));
	tell("active", active);
}

static CUgreenCtx make_green(void)
{
	CUdevResource all, part, rest;
	CUdevResourceDesc description;
	unsigned groups = 1;
	CUgreenCtx green;

	need(cuDeviceGetDevResource(pitfall.device, &all, CU_DEV_RESOURCE_TYPE_SM));
	need(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, 8));
	need(cuDevResourceGenerateDesc(&description, &part, 1));
	need(cuGreenCtxCreate(&green, description, pitfall.device,
			      CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

/* A green context has streams of its own and the memory of the primary one. */
static void green(void)
{
	CUgreenCtx part;
	CUcontext view, owner = NULL;
	CUdeviceptr block;
	CUstream stream;
	size_t before;

	pitfall_start();
	before = used_bytes();
	part = make_green();
	need(cuCtxFromGreenCtx(&view, part));
	tell("another handle", view != pitfall.context);
	need(cuGreenCtxStreamCreate(&stream, part, CU_STREAM_NON_BLOCKING, 0));
	need(cuCtxSetCurrent(view));
	block = new_block(2 * MIB);
	need(cuMemsetD32Async(block, 51, 16, stream));
	need(cuStreamSynchronize(stream));
	need(cuCtxSetCurrent(pitfall.context));
	tell("word seen from the primary context", read_word(block));
	need(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block));
	tell("of the primary context", owner == pitfall.context);
	need(cuStreamDestroy(stream));
	need(cuGreenCtxDestroy(part));
	tell("free of its block", cuMemFree(block));
	tell("a context's worth is left", used_bytes() > before + 256 * MIB);
}

const struct pitfall_case pitfall_context_cases[] = {
	{ "context-destroy", destroy },
	{ "context-reset", reset },
	{ "context-release", release },
	{ "context-green", green },
	{ NULL, NULL },
};
