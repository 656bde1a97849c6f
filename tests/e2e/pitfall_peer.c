/* SPDX-License-Identifier: Apache-2.0 */
/* pitfall_peer.c - two devices; with one there is nothing to walk into. */
#include "pitfall.h"

enum { PIECE = 64 * KIB };

static CUcontext there; /* the primary context of the second device */

static int have_two(void)
{
	int count = 0;

	pitfall_start();
	need(cuDeviceGetCount(&count));
	if (count < 2) {
		tell("devices", count);
		return 0;
	}
	need(cuDevicePrimaryCtxRetain(&there, 1));
	return 1;
}

static CUdeviceptr block_there(uint32_t value)
{
	CUdeviceptr block;

	need(cuCtxSetCurrent(there));
	block = new_block(PIECE);
	need(cuMemsetD32(block, value, 16));
	need(cuCtxSynchronize());
	need(cuCtxSetCurrent(pitfall.context));
	return block;
}

/* Access is granted once, one way, and copies do without it. */
static void copies(void)
{
	CUdeviceptr here, far;
	size_t before;
	int can = 0;

	if (!have_two())
		return;
	here = new_block(PIECE);
	before = used_bytes();
	far = block_there(81);
	tell("MiB taken here", (long long)(used_bytes() - before) / MIB);
	need(cuMemcpy(here, far, 6001));
	need(cuCtxSynchronize());
	tell("word by addresses alone", read_word(here));
	need(cuDeviceCanAccessPeer(&can, pitfall.device, 1));
	if (can) {
		tell("disabling", cuCtxDisablePeerAccess(there));
		tell("enabling", cuCtxEnablePeerAccess(there, 0));
		tell("enabling again", cuCtxEnablePeerAccess(there, 0));
	}
	need(cuMemcpyPeerAsync(far, there, here, pitfall.context, 6002, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	tell("word there", read_word(far));
	if (can)
		tell("disabling", cuCtxDisablePeerAccess(there));
	need(cuMemFree(far));
	need(cuMemFree(here));
}

/* A pool asks who may reach it, whatever contexts have enabled. */
static void pools(void)
{
	CUmemAccessDesc access = full_access();
	CUstream stream;
	CUmemoryPool pool;
	CUdeviceptr block;
	int can = 0;

	if (!have_two())
		return;
	need(cuDeviceCanAccessPeer(&can, pitfall.device, 1));
	if (!can) {
		tell("access", can);
		return;
	}
	need(cuCtxEnablePeerAccess(there, 0));
	need(cuCtxSetCurrent(there));
	need(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	need(cuMemAllocAsync(&block, PIECE, stream));
	need(cuMemsetD32Async(block, 82, 16, stream));
	need(cuStreamSynchronize(stream));
	need(cuDeviceGetDefaultMemPool(&pool, 1));
	need(cuMemPoolSetAccess(pool, &access, 1));
	need(cuCtxSetCurrent(pitfall.context));
	tell("word", read_word(block));
	need(cuMemFreeAsync(block, stream));
	need(cuCtxSetCurrent(there));
	need(cuStreamSynchronize(stream));
	need(cuStreamDestroy(stream));
}

/* Memory of the second device is mapped here, and counts there. */
static void mappings(void)
{
	CUmemAllocationProp properties = handle_properties(CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle handle;
	CUmemAccessDesc access;
	CUdeviceptr range;
	size_t before, step;
	int can = 0;

	if (!have_two())
		return;
	need(cuDeviceCanAccessPeer(&can, pitfall.device, 1));
	if (!can) {
		tell("access", can);
		return;
	}
	properties.location.id = 1;
	need(cuMemGetAllocationGranularity(&step, &properties,
					   CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	before = used_bytes();
	need(cuMemCreate(&handle, step, &properties, 0));
	tell("MiB taken here", (long long)(used_bytes() - before) / MIB);
	need(cuMemAddressReserve(&range, step, 0, 0, 0));
	need(cuMemMap(range, step, 0, handle, 0));
	access = full_access();
	need(cuMemSetAccess(range, step, &access, 1));
	need(cuMemsetD32(range, 83, 16));
	tell("word", read_word(range));
	need(cuMemUnmap(range, step));
	need(cuMemRelease(handle));
	need(cuMemAddressFree(range, step));
}

const struct pitfall_case pitfall_peer_cases[] = {
	{ "peer-copies", copies },
	{ "peer-pools", pools },
	{ "peer-mappings", mappings },
	{ NULL, NULL },
};
