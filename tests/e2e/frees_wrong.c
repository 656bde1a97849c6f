/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frees_wrong.c - what a program is told that uses what it has freed, or asks
 * for free memory right afterwards:
 *
 *	frees_wrong CASE
 */
#include "frees.h"

#include <stdlib.h>
#include <string.h>

static unsigned char host[4 * MIB];

static void tell(const char *what, CUresult result)
{
	say("%s: %d", what, (int)result);
}

/* ------------------------------------------------------------------ a device block */

static void ask(CUdeviceptr freed)
{
	CUpointer_attribute names[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
					CU_POINTER_ATTRIBUTE_HOST_POINTER };
	unsigned type = 77;
	int ordinal = 77;
	CUdeviceptr own = 77;
	void *answers[] = { &type, &ordinal, &own };
	CUdeviceptr base = 77;
	CUipcMemHandle handle;
	size_t bytes = 77;

	tell("attribute", cuPointerGetAttribute(&type, names[0], freed));
	tell("buffer id", cuPointerGetAttribute(host, CU_POINTER_ATTRIBUTE_BUFFER_ID, freed));
	tell("attributes", cuPointerGetAttributes(3, names, answers, freed));
	say("type %u, device %d, %s", type, ordinal, own == freed ? "itself" : "another address");
	tell("range", cuMemGetAddressRange(&base, &bytes, freed));
	tell("range inside", cuMemGetAddressRange(&base, &bytes, freed + 100));
	tell("export", cuIpcGetMemHandle(&handle, freed));
	tell("set attribute",
	     cuPointerSetAttribute(&type, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, freed));
}

static void copy(CUdeviceptr freed, CUdeviceptr good)
{
	CUDA_MEMCPY2D shape = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				.srcDevice = freed,
				.dstMemoryType = CU_MEMORYTYPE_HOST,
				.dstHost = host,
				.WidthInBytes = 16,
				.Height = 4,
				.srcPitch = 64,
				.dstPitch = 64 };
	CUDA_MEMCPY3D box = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = good,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = freed,
			      .WidthInBytes = 16,
			      .Height = 2,
			      .Depth = 2 };

	tell("to it", cuMemcpyHtoD(freed, host, 64));
	tell("into its middle", cuMemcpyHtoD(freed + 128, host, 64));
	tell("from it", cuMemcpyDtoH(host, freed, 64));
	tell("from it to another", cuMemcpyDtoD(good, freed, 64));
	tell("from another to it", cuMemcpyDtoD(freed, good, 64));
	tell("to it later", cuMemcpyHtoDAsync(freed, host, 64, frees.work));
	tell("from it later", cuMemcpyDtoHAsync(host, freed, 64, frees.work));
	tell("between later", cuMemcpyDtoDAsync(good, freed, 64, frees.work));
	tell("peer", cuMemcpyPeer(freed, frees.context, good, frees.context, 64));
	tell("shape", cuMemcpy2D(&shape));
	tell("unaligned shape", cuMemcpy2DUnaligned(&shape));
	tell("shape later", cuMemcpy2DAsync(&shape, frees.work));
	tell("box", cuMemcpy3D(&box));
	tell("box later", cuMemcpy3DAsync(&box, frees.work));
}

static void set(CUdeviceptr freed)
{
	tell("8", cuMemsetD8(freed, 1, 64));
	tell("16", cuMemsetD16(freed, 1, 32));
	tell("32", cuMemsetD32(freed, 1, 16));
	tell("32 in the middle", cuMemsetD32(freed + 256, 1, 16));
	tell("8 later", cuMemsetD8Async(freed, 1, 64, frees.work));
	tell("32 later", cuMemsetD32Async(freed, 1, 16, frees.work));
	tell("8 in rows", cuMemsetD2D8(freed, 64, 1, 16, 4));
	tell("32 in rows later", cuMemsetD2D32Async(freed, 64, 1, 4, 4, frees.work));
}

static void free_again(CUdeviceptr freed)
{
	tell("again", cuMemFree(freed));
	tell("its middle", cuMemFree(freed + 256));
	tell("in stream order", cuMemFreeAsync(freed, frees.work));
	tell("as host memory", cuMemFreeHost((void *)freed));
	tell("and again", cuMemFree(freed));
}

/* A 4 KiB block of a page that is still held answers like a large one. */
static void wrong_device(char **arguments)
{
	CUdeviceptr good = frees_block(4 * KIB), block;
	size_t bytes;

	(void)arguments;
	for (bytes = 4 * KIB; bytes <= 4 * MIB; bytes *= KIB) {
		block = frees_block(bytes);
		do_call(cuMemFree(block));
		say("%zu bytes", bytes);
		ask(block);
		copy(block, good);
		set(block);
		free_again(block);
		tell("synchronise", cuCtxSynchronize());
	}
	do_call(cuMemcpyHtoD(good, host, 64));
}

/* A bare driver takes an unknown address for the host's: not for a bare run. */
static void wrong_unified(char **arguments)
{
	CUdeviceptr good = frees_block(4 * KIB), block = frees_block(MIB);

	(void)arguments;
	do_call(cuMemFree(block));
	tell("to it", cuMemcpy(block, good, 64));
	tell("from it later", cuMemcpyAsync(good, block, 64, frees.work));
}

/* ------------------------------------------------------------------ other kinds */

static void wrong_kinds(char **arguments)
{
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = frees.device };
	CUdeviceptr managed, pitched;
	unsigned int flags;
	CUdeviceptr mapped;
	size_t pitch;
	void *pinned;

	(void)arguments;
	do_call(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	do_call(cuMemFree(managed));
	say("managed");
	ask(managed);
	tell("prefetch", cuMemPrefetchAsync(managed, MIB, here, 0, frees.work));
	set(managed);
	free_again(managed);
	do_call(cuMemAllocPitch(&pitched, &pitch, 100, 10, 4));
	do_call(cuMemFree(pitched));
	say("pitch");
	set(pitched);
	free_again(pitched);
	do_call(cuMemAllocHost(&pinned, MIB));
	do_call(cuMemFreeHost(pinned));
	say("pinned");
	ask((CUdeviceptr)pinned);
	tell("flags", cuMemHostGetFlags(&flags, pinned));
	tell("device address", cuMemHostGetDevicePointer(&mapped, pinned, 0));
	tell("set", cuMemsetD8((CUdeviceptr)pinned, 1, 64));
	tell("again", cuMemFreeHost(pinned));
	tell("as device memory", cuMemFree((CUdeviceptr)pinned));
	tell("as registered memory", cuMemHostUnregister(pinned));
	tell("synchronise", cuCtxSynchronize());
}

/* Addresses that were never freed, and a good free of what was given again. */
static void wrong_never(char **arguments)
{
	CUdeviceptr block = frees_block(4 * MIB);
	int local, i;

	(void)arguments;
	tell("nothing", cuMemFree(0));
	tell("no block", cuMemFree(12345));
	tell("own memory", cuMemFree((CUdeviceptr)&local));
	tell("middle", cuMemFree(block + 512));
	for (i = 0; i < 40; i++) {
		do_call(cuMemFree(block));
		block = frees_block(4 * MIB);
		do_call(cuMemsetD8(block, 1, 4 * MIB));
	}
	tell("block", cuMemFree(block));
	tell("block again", cuMemFree(block));
}

/* ------------------------------------------------------------------ free memory */

static size_t free_bytes(void)
{
	size_t free, total;

	do_call(cuMemGetInfo(&free, &total));
	require(free <= total, "no more is free than there is");
	return free;
}

static void wrong_info(char **arguments)
{
	const size_t sizes[] = { 2 * MIB, 3 * MIB, 4 * MIB + 1, 64 * MIB, 257 * (size_t)MIB };
	size_t before, i, k;
	CUdeviceptr blocks[15];

	(void)arguments;
	before = free_bytes();
	for (i = 0; i < 15; i++)
		blocks[i] = frees_block(sizes[i % 5]);
	for (k = 0; k < 15; k++) {
		say("%zu MiB less", (before - free_bytes()) / MIB);
		do_call(cuMemFree(blocks[k]));
	}
	say("%zu MiB less", (before - free_bytes()) / MIB);
	do_call(cuCtxSynchronize());
	say("%zu MiB less", (before - free_bytes()) / MIB);
}

int main(int count, char **arguments)
{
	static const struct frees_case cases[] = {
		{ "device", wrong_device }, { "kinds", wrong_kinds }, { "never", wrong_never },
		{ "info", wrong_info },	    { "unified", wrong_unified }, { NULL, NULL },
	};

	(void)count;
	return frees_main(cases, arguments);
}
