/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cover_failure.c - calls that the driver refuses though nothing is wrong with
 * them.  The simulated driver is told which by cases.tbl:
 *
 *	cuMemAlloc_v2:2:2	the second allocation finds no memory
 *	cuMemFree_v2:1:999	the first free fails, the block stays
 *	cuMemcpyHtoD_v2:2:1	the second copy does not happen
 *	cuMemHostUnregister:1:999
 *	cuCtxDestroy_v2:1:999	the context lives on, and its blocks with it
 *	cuStreamCreate:1:2
 *	cuMemUnmap:1:1		the mapping stays
 */
#include "cover.h"

#include <stdlib.h>

enum { BYTES = 8192 };

static unsigned char host[BYTES] __attribute__((aligned(4096)));

static void refused(const char *api, CUresult result, CUresult expected)
{
	require(called(api, result) == expected, "the driver refuses what it was told to");
}

static void copy(CUdeviceptr target, CUresult expected)
{
	struct copy_note note = {
		.kind = "H2D",
		.api = "cuMemcpyHtoD_v2",
		.bytes = BYTES,
		.source = (uintptr_t)host,
		.target = target,
		.stream = "legacy",
		.result = expected,
	};

	refused("cuMemcpyHtoD_v2", cuMemcpyHtoD_v2(target, host, BYTES), expected);
	note_copy(&note);
}

static void allocations(void)
{
	CUdeviceptr address, none;
	unsigned block;

	address = cover_alloc(BYTES, &block);
	refused("cuMemAlloc_v2", cuMemAlloc_v2(&none, 2 * BYTES), CUDA_ERROR_OUT_OF_MEMORY);
	copy(address, CUDA_SUCCESS);
	refused("cuMemFree_v2", cuMemFree_v2(address), CUDA_ERROR_UNKNOWN);
	copy(address, CUDA_ERROR_INVALID_VALUE);
	copy(address, CUDA_SUCCESS);
	cover_free(address, block);
}

static void registrations(void)
{
	unsigned block;

	must("cuMemHostRegister_v2", cuMemHostRegister_v2(host, BYTES, 0));
	block = note_alloc("registered", (uintptr_t)host, BYTES, "cuMemHostRegister_v2");
	refused("cuMemHostUnregister", cuMemHostUnregister(host), CUDA_ERROR_UNKNOWN);
	must("cuMemHostUnregister", cuMemHostUnregister(host));
	note_free(block, "cuMemHostUnregister");
}

static void contexts(CUcontext primary)
{
	CUcontext context;
	unsigned block;

	must("cuCtxCreate_v2", cuCtxCreate_v2(&context, 0, 0));
	note_operation("cuCtxCreate_v2", "none", 0);
	cover_alloc(BYTES, &block);
	refused("cuCtxDestroy_v2", cuCtxDestroy_v2(context), CUDA_ERROR_UNKNOWN);
	note_operation("cuCtxDestroy_v2", "none", CUDA_ERROR_UNKNOWN);
	must("cuCtxDestroy_v2", cuCtxDestroy_v2(context));
	note_operation("cuCtxDestroy_v2", "none", 0);
	note_end(block, "context");
	cover_set_current(primary);
}

static void streams(void)
{
	CUstream stream;

	refused("cuStreamCreate", cuStreamCreate(&stream, 0), CUDA_ERROR_OUT_OF_MEMORY);
	note_operation("cuStreamCreate", "none", CUDA_ERROR_OUT_OF_MEMORY);
}

static void mappings(void)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	enum { PAGE = 2 << 20 };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr range;
	unsigned block, view;

	must("cuMemAddressReserve", cuMemAddressReserve(&range, PAGE, 0, 0, 0));
	note_operation("cuMemAddressReserve", "none", 0);
	must("cuMemCreate", cuMemCreate(&handle, PAGE, &properties, 0));
	block = note_alloc("vmm", handle, PAGE, "cuMemCreate");
	must("cuMemMap", cuMemMap(range, PAGE, 0, handle, 0));
	view = note_view("vmm", range, PAGE, "cuMemMap", block);
	refused("cuMemUnmap", cuMemUnmap(range, PAGE), CUDA_ERROR_INVALID_VALUE);
	note_operation("cuMemUnmap", "none", CUDA_ERROR_INVALID_VALUE);
	must("cuMemUnmap", cuMemUnmap(range, PAGE));
	note_free(view, "cuMemUnmap");
	must("cuMemRelease", cuMemRelease(handle));
	note_free(block, "cuMemRelease");
}

int main(void)
{
	CUcontext primary = cover_start(0);

	allocations();
	registrations();
	contexts(primary);
	streams();
	mappings();
	cover_end();
	return 0;
}
