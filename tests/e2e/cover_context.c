/* SPDX-License-Identifier: Apache-2.0 */
/* cover_context.c - what contexts take with them when they end. */
#include "cover.h"

#include <stdio.h>
#include <stdlib.h>

static CUcontext create(void)
{
	CUcontext context;

	must("cuCtxCreate_v2", cuCtxCreate_v2(&context, 0, 0));
	note_operation("cuCtxCreate_v2", "none", 0);
	return context;
}

static void destroy(CUcontext context)
{
	must("cuCtxDestroy_v2", cuCtxDestroy_v2(context));
	note_operation("cuCtxDestroy_v2", "none", 0);
}

/* Two contexts: the blocks of the one that dies end, those of the other do not. */
static void a_context_dies(CUcontext primary)
{
	CUcontext doomed = create();
	CUdeviceptr kept;
	unsigned lost_one, lost_two, kept_block, mine;
	void *pinned;

	cover_alloc(3000, &lost_one);
	cover_set_current(primary);
	kept = cover_alloc(5000, &kept_block);
	cover_set_current(doomed);
	cover_alloc(4000, &lost_two);
	must("cuMemHostAlloc", cuMemHostAlloc(&pinned, 6000, 0));
	mine = note_alloc("pinned", (uintptr_t)pinned, 6000, "cuMemHostAlloc");
	destroy(doomed);
	note_end(lost_one, "context");
	note_end(lost_two, "context");
	note_end(mine, "context");
	cover_set_current(primary);
	cover_free(kept, kept_block);
}

/* A handle may come back for another context: ids may not. */
static void handles_come_back(CUcontext primary)
{
	unsigned round, block;

	for (round = 0; round < 5; round++) {
		CUcontext context = create();

		cover_alloc(1000 + round, &block);
		destroy(context);
		note_end(block, "context");
	}
	cover_set_current(primary);
}

static void release_primary(CUdevice device)
{
	must("cuDevicePrimaryCtxRelease_v2", cuDevicePrimaryCtxRelease_v2(device));
	note_operation("cuDevicePrimaryCtxRelease_v2", "none", 0);
}

/* Only the last release ends the primary context. */
static void primary_is_counted(CUdevice device)
{
	CUcontext context;
	CUdeviceptr address;
	unsigned block, lost;

	must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
	note_operation("cuDevicePrimaryCtxRetain", "none", 0);
	address = cover_alloc(8000, &block);
	release_primary(device);
	cover_free(address, block);
	cover_alloc(9000, &lost);
	release_primary(device);
	note_end(lost, "context");
	require(called("cuDevicePrimaryCtxRelease_v2", cuDevicePrimaryCtxRelease_v2(device)) != 0,
		"what is not retained cannot be released");
	note_operation("cuDevicePrimaryCtxRelease_v2", "none", CUDA_ERROR_INVALID_CONTEXT);
}

static void primary_is_reset(CUdevice device)
{
	CUcontext context;
	unsigned lost;

	must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
	note_operation("cuDevicePrimaryCtxRetain", "none", 0);
	cover_set_current(context);
	cover_alloc(10000, &lost);
	must("cuDevicePrimaryCtxReset_v2", cuDevicePrimaryCtxReset_v2(device));
	note_operation("cuDevicePrimaryCtxReset_v2", "none", 0);
	note_end(lost, "reset");
}

int main(void)
{
	CUcontext primary = cover_start(0);

	a_context_dies(primary);
	handles_come_back(primary);
	primary_is_counted(0);
	primary_is_reset(0);
	cover_end();
	return 0;
}
