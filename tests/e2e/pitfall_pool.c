/* SPDX-License-Identifier: Apache-2.0 */
/* pitfall_pool.c - stream-ordered memory. */
#include "pitfall.h"

#include <unistd.h>

static long long pool_number(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t number = 0;

	need(cuMemPoolGetAttribute(pool, which, &number));
	return (long long)number;
}

static long long reserved_mib(CUmemoryPool pool)
{
	return pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / MIB;
}

static CUmemoryPool default_pool(void)
{
	CUmemoryPool pool;

	need(cuDeviceGetDefaultMemPool(&pool, pitfall.device));
	return pool;
}

static CUdeviceptr new_pooled(size_t bytes)
{
	CUdeviceptr address;

	need(cuMemAllocAsync(&address, bytes, pitfall.stream));
	return address;
}

/* cuMemFreeAsync takes plain blocks too, but no managed or page-locked ones. */
static void free_async(void)
{
	CUdeviceptr plain, shared;
	void *pinned;

	pitfall_start();
	plain = new_block(4 * MIB);
	need(cuMemAllocManaged(&shared, MIB, CU_MEM_ATTACH_GLOBAL));
	need(cuMemAllocHost(&pinned, MIB));
	tell("plain", cuMemFreeAsync(plain, pitfall.stream));
	tell("managed", cuMemFreeAsync(shared, pitfall.stream));
	tell("page-locked", cuMemFreeAsync((CUdeviceptr)(uintptr_t)pinned, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	need(cuMemFree(shared));
	need(cuMemFreeHost(pinned));
}

/* Bytes go back at a synchronise, and only above the threshold; else at a trim. */
static void threshold(void)
{
	CUmemoryPool pool;
	cuuint64_t keep = 1 << 30;
	CUdeviceptr block;

	pitfall_start();
	pool = default_pool();
	block = new_pooled(4 * MIB);
	need(cuStreamSynchronize(pitfall.stream));
	tell("MiB reserved for 4", reserved_mib(pool));
	need(cuMemFreeAsync(block, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	tell("MiB reserved behind a synchronise", reserved_mib(pool));
	need(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	block = new_pooled(4 * MIB);
	need(cuMemFreeAsync(block, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	tell("MiB reserved below the threshold", reserved_mib(pool));
	need(cuMemPoolTrimTo(pool, 0));
	tell("MiB reserved behind a trim", reserved_mib(pool));
}

/* A trim leaves what the host has not seen done. */
static void trim(void)
{
	CUmemoryPool pool;
	cuuint64_t keep = 1 << 30;
	CUdeviceptr block;

	pitfall_start();
	pool = default_pool();
	need(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	block = new_pooled(4 * MIB);
	hold(pitfall.stream);
	need(cuMemFreeAsync(block, pitfall.stream));
	need(cuMemPoolTrimTo(pool, 0));
	tell("MiB reserved while work is under way", reserved_mib(pool));
	let_go();
	need(cuStreamSynchronize(pitfall.stream));
	need(cuMemPoolTrimTo(pool, 0));
	tell("MiB reserved behind it", reserved_mib(pool));
}

/* cuMemFree of a pool's block is not counted as a free by the pool itself. */
static void used_after_free(void)
{
	CUmemoryPool pool;
	CUdeviceptr block;

	pitfall_start();
	pool = default_pool();
	block = new_pooled(4 * MIB);
	need(cuStreamSynchronize(pitfall.stream));
	need(cuMemFree(block));
	need(cuStreamSynchronize(pitfall.stream));
	tell("MiB used", pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) / MIB);
	tell("MiB reserved", reserved_mib(pool));
	tell("free of it again", cuMemFree(block));
}

/* Blocks outlive their pool. */
static void destroyed(void)
{
	CUmemPoolProps properties;
	CUmemoryPool pool, current;
	CUdeviceptr block;

	pitfall_start();
	properties = pool_properties(CU_MEM_HANDLE_TYPE_NONE);
	need(cuMemPoolCreate(&pool, &properties));
	need(cuDeviceSetMemPool(pitfall.device, pool));
	block = new_pooled(64 * KIB);
	need(cuMemPoolDestroy(pool));
	need(cuDeviceGetMemPool(&current, pitfall.device));
	tell("the default pool is the current one", current == default_pool());
	tell("destroying that", cuMemPoolDestroy(current));
	need(cuMemsetD32Async(block, 5, 16, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	tell("word", read_word(block));
	need(cuMemFreeAsync(block, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
}

/* Such memory belongs to no context, and survives the reset of one. */
static void reset(void)
{
	CUdeviceptr block, plain;
	CUcontext owner = pitfall.context;
	CUmemoryPool pool;

	pitfall_start();
	block = new_pooled(64 * KIB);
	plain = new_block(64 * KIB);
	need(cuMemsetD32Async(block, 6, 16, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	need(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block));
	tell("belongs to a context", owner != NULL);
	need(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block));
	tell("belongs to the default pool", pool == default_pool());
	need(cuDevicePrimaryCtxReset(pitfall.device));
	need(cuDevicePrimaryCtxRetain(&pitfall.context, pitfall.device));
	need(cuCtxSetCurrent(pitfall.context));
	tell("word", read_word(block));
	tell("free of a plain block", cuMemFree(plain));
	tell("free of the pool's", cuMemFree(block));
}

/*
 * A pass of custody's that gives blocks back waits for a stream, which could give a
 * pool's bytes back as well.  Frees alone must not: a pool keeps what is in use.
 */
static void beside_frees(void)
{
	CUmemoryPool pool;
	CUdeviceptr pooled;

	pitfall_start();
	pool = default_pool();
	pooled = new_pooled(4 * MIB);
	need(cuStreamSynchronize(pitfall.stream));
	for (int i = 0; i < 64; i++) {
		CUdeviceptr block = new_block(2 * MIB);

		need(cuMemFree(block));
	}
	tell("MiB reserved", reserved_mib(pool));
	need(cuMemsetD32Async(pooled, 8, 16, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	tell("word", read_word(pooled));
	need(cuMemFreeAsync(pooled, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	tell("MiB reserved behind it", reserved_mib(pool));
}

/* ---------------------------------------------------------------- another process's pool */

struct pool_offer {
	CUmemPoolPtrExportData block;
};

static void give_pool(void)
{
	CUmemPoolProps properties =
		pool_properties(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	struct pool_offer offer;
	CUmemoryPool pool;
	CUdeviceptr block;
	int fd;

	need(cuMemPoolCreate(&pool, &properties));
	need(cuMemAllocFromPoolAsync(&block, 64 * KIB, pool, pitfall.stream));
	need(cuMemsetD32Async(block, 11, 16, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	need(cuMemPoolExportToShareableHandle(
		&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	need(cuMemPoolExportPointer(&offer.block, block));
	send_bytes(&offer, sizeof(offer), fd);
	close(fd);
	wait_for_turn();
	tell("word as the other process left it", read_word(block));
	need(cuMemFreeAsync(block, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	need(cuMemPoolDestroy(pool));
}

static void take_pool(void)
{
	struct pool_offer offer;
	CUdeviceptr block, own;
	CUmemoryPool pool;
	size_t before;
	int fd = receive_bytes(&offer, sizeof(offer));

	before = used_bytes();
	need(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(fd);
	tell("allocating from an imported pool",
	     cuMemAllocFromPoolAsync(&own, 4096, pool, pitfall.stream));
	need(cuMemPoolImportPointer(&block, pool, &offer.block));
	tell("memory for an imported block", (long long)(used_bytes() - before) / MIB);
	tell("word of the other process", read_word(block));
	need(cuMemsetD32(block, 12, 16));
	need(cuCtxSynchronize());
	/* Gone before the giver frees it: that is the header's rule. */
	need(cuMemFree(block));
	need(cuMemPoolDestroy(pool));
	hand_over();
}

static void pool_import(void)
{
	run_two(give_pool, take_pool);
}

const struct pitfall_case pitfall_pool_cases[] = {
	{ "pool-free-async", free_async },
	{ "pool-threshold", threshold },
	{ "pool-trim", trim },
	{ "pool-used", used_after_free },
	{ "pool-destroyed", destroyed },
	{ "pool-reset", reset },
	{ "pool-beside-frees", beside_frees },
	{ "pool-import", pool_import },
	{ NULL, NULL },
};
