/* SPDX-License-Identifier: Apache-2.0 */
/* cover_memory.c - blocks of every kind, got and given back by every function that can. */
#include "cover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

static void linear(void)
{
	CUdeviceptr address;
	unsigned block;
	size_t pitch;

	address = cover_alloc(100, &block);
	cover_free(address, block);
	must("cuMemAllocPitch_v2", cuMemAllocPitch_v2(&address, &pitch, 1000, 33, 4));
	block = note_alloc("pitch", address, pitch * 33, "cuMemAllocPitch_v2");
	cover_free(address, block);
	must("cuMemAllocManaged", cuMemAllocManaged(&address, 5 * MIB, CU_MEM_ATTACH_GLOBAL));
	block = note_alloc("managed", address, 5 * MIB, "cuMemAllocManaged");
	cover_free(address, block);
}

static void host(void)
{
	void *pinned, *mine = aligned_alloc(4096, 64 * KIB);
	unsigned block;

	must("cuMemAllocHost_v2", cuMemAllocHost_v2(&pinned, 3000));
	block = note_alloc("pinned", (uintptr_t)pinned, 3000, "cuMemAllocHost_v2");
	must("cuMemFreeHost", cuMemFreeHost(pinned));
	note_free(block, "cuMemFreeHost");
	must("cuMemHostAlloc", cuMemHostAlloc(&pinned, 7000, CU_MEMHOSTALLOC_PORTABLE));
	block = note_alloc("pinned", (uintptr_t)pinned, 7000, "cuMemHostAlloc");
	must("cuMemFreeHost", cuMemFreeHost(pinned));
	note_free(block, "cuMemFreeHost");
	must("cuMemHostRegister_v2", cuMemHostRegister_v2(mine, 64 * KIB, 0));
	block = note_alloc("registered", (uintptr_t)mine, 64 * KIB, "cuMemHostRegister_v2");
	require(called("cuMemHostRegister_v2", cuMemHostRegister_v2(mine, 64 * KIB, 0)) == 712,
		"a range cannot be registered twice");
	must("cuMemHostUnregister", cuMemHostUnregister(mine));
	note_free(block, "cuMemHostUnregister");
	free(mine);
}

static void pools(void)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUdeviceptr address;
	CUmemoryPool pool;
	unsigned block;

	must("cuMemAllocAsync", cuMemAllocAsync(&address, 10 * KIB, NULL));
	block = note_alloc("pool", address, 10 * KIB, "cuMemAllocAsync");
	must("cuMemFreeAsync_ptsz", cuMemFreeAsync_ptsz(address, NULL));
	note_free(block, "cuMemFreeAsync_ptsz");
	must("cuMemAllocAsync_ptsz", cuMemAllocAsync_ptsz(&address, 20 * KIB, NULL));
	block = note_alloc("pool", address, 20 * KIB, "cuMemAllocAsync_ptsz");
	cover_free(address, block);
	must("cuMemPoolCreate", cuMemPoolCreate(&pool, &properties));
	note_operation("cuMemPoolCreate", "none", 0);
	must("cuMemAllocFromPoolAsync", cuMemAllocFromPoolAsync(&address, 3 * MIB, pool, NULL));
	block = note_alloc("pool", address, 3 * MIB, "cuMemAllocFromPoolAsync");
	must("cuMemFreeAsync", cuMemFreeAsync(address, NULL));
	note_free(block, "cuMemFreeAsync");
	must("cuMemPoolTrimTo", cuMemPoolTrimTo(pool, 0));
	note_operation("cuMemPoolTrimTo", "none", 0);
	must("cuMemPoolDestroy", cuMemPoolDestroy(pool));
	note_operation("cuMemPoolDestroy", "none", 0);
}

/* A block that cuMemAlloc made may go by cuMemFreeAsync, as measured. */
static void plain_block_by_pool_free(void)
{
	CUdeviceptr address;
	unsigned block;

	address = cover_alloc(4096, &block);
	must("cuMemFreeAsync", cuMemFreeAsync(address, NULL));
	note_free(block, "cuMemFreeAsync");
}

static void arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR flat = { 64, 32, CU_AD_FORMAT_FLOAT, 2 };
	CUDA_ARRAY3D_DESCRIPTOR deep = { 16, 8, 4, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0 };
	CUmipmappedArray mipmap;
	CUarray array;
	unsigned block;

	must("cuArrayCreate_v2", cuArrayCreate_v2(&array, &flat));
	block = note_alloc("array", (uintptr_t)array, 64 * 32 * 2 * 4, "cuArrayCreate_v2");
	must("cuArrayDestroy", cuArrayDestroy(array));
	note_free(block, "cuArrayDestroy");
	must("cuArray3DCreate_v2", cuArray3DCreate_v2(&array, &deep));
	block = note_alloc("array", (uintptr_t)array, 16 * 8 * 4 * 4, "cuArray3DCreate_v2");
	must("cuArrayDestroy", cuArrayDestroy(array));
	note_free(block, "cuArrayDestroy");
	must("cuMipmappedArrayCreate", cuMipmappedArrayCreate(&mipmap, &deep, 1));
	block = note_alloc("array", (uintptr_t)mipmap, 16 * 8 * 4 * 4, "cuMipmappedArrayCreate");
	must("cuMipmappedArrayDestroy", cuMipmappedArrayDestroy(mipmap));
	note_free(block, "cuMipmappedArrayDestroy");
}

/* What fails leaves a failure, and what was there stays. */
static void failures(void)
{
	CUdeviceptr address, other = 0;
	void *pinned;
	unsigned block;

	address = cover_alloc(2 * MIB, &block);
	require(called("cuMemAlloc_v2", cuMemAlloc_v2(&other, 0)) == CUDA_ERROR_INVALID_VALUE,
		"nothing cannot be allocated");
	require(called("cuMemAllocHost_v2", cuMemAllocHost_v2(&pinned, (size_t)1 << 50)) ==
			CUDA_ERROR_OUT_OF_MEMORY,
		"1 PiB cannot be pinned");
	require(called("cuMemFree_v2", cuMemFree_v2(address + 512)) == CUDA_ERROR_INVALID_VALUE,
		"the inside of a block cannot be freed");
	cover_free(address, block);
	require(called("cuMemFree_v2", cuMemFree_v2(address)) == CUDA_ERROR_INVALID_VALUE,
		"a block cannot be freed twice");
}

/* The peak is known here too: three blocks, the middle one gone again. */
static void peak(void)
{
	CUdeviceptr a, b, c;
	unsigned block_a, block_b, block_c;

	a = cover_alloc(64 * MIB, &block_a);
	b = cover_alloc(32 * MIB, &block_b);
	cover_free(b, block_b);
	c = cover_alloc(16 * MIB, &block_c);
	cover_free(a, block_a);
	cover_free(c, block_c);
	printf("peak %u\n", 96u * MIB);
}

int main(void)
{
	cover_start(0);
	linear();
	host();
	pools();
	plain_block_by_pool_free();
	arrays();
	failures();
	peak();
	cover_alloc(777, NULL);
	cover_end();
	return 0;
}
