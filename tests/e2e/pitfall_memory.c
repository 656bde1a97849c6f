/* SPDX-License-Identifier: Apache-2.0 */
/* pitfall_memory.c - linear, page-locked, registered and managed memory, and arrays. */
#include "pitfall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* cuMemFree takes linear memory of every kind, by its base alone, and nothing else. */
static void free_takes(void)
{
	CUdeviceptr linear, pitched, shared, pooled;
	size_t pitch;
	void *pinned;

	pitfall_start();
	linear = new_block(4 * MIB);
	need(cuMemAllocPitch(&pitched, &pitch, 1000, 100, 4));
	need(cuMemAllocManaged(&shared, MIB, CU_MEM_ATTACH_GLOBAL));
	need(cuMemAllocAsync(&pooled, MIB, pitfall.stream));
	need(cuMemAllocHost(&pinned, MIB));
	tell("free of an interior address", cuMemFree(linear + 512));
	tell("free of page-locked memory", cuMemFree((CUdeviceptr)(uintptr_t)pinned));
	tell("free of nothing", cuMemFree(0));
	tell("free of linear memory", cuMemFree(linear));
	tell("free of it again", cuMemFree(linear));
	tell("free of pitched memory", cuMemFree(pitched));
	tell("free of managed memory", cuMemFree(shared));
	tell("free of a pool's block", cuMemFree(pooled));
	tell("free of page-locked memory as such", cuMemFreeHost(pinned));
	tell("free of it again", cuMemFreeHost(pinned));
}

/* A pool's block goes at once; what the plain free waits for is only seen as time. */
static void free_waits(void)
{
	CUdeviceptr plain, pooled;

	pitfall_start();
	plain = new_block(4 * MIB);
	need(cuMemAllocAsync(&pooled, MIB, pitfall.other));
	need(cuStreamSynchronize(pitfall.other));
	hold(pitfall.stream);
	need(cuMemFree(pooled));
	tell("held behind the free of a pool's block", !is_done(pitfall.stream));
	let_go_after(500);
	need(cuMemFree(plain));
	join_letting_go();
	need(cuStreamSynchronize(pitfall.stream));
}

/* The range is as large as was asked for, the memory as large as its pages. */
static void footprint(void)
{
	CUdeviceptr small, second, large, base;
	size_t before, size;

	pitfall_start();
	small = new_block(1000);
	before = used_bytes();
	second = new_block(1000);
	tell("a second small block takes", (long long)(used_bytes() - before));
	large = new_block(3 * MIB);
	tell("3 MiB take MiB", (long long)(used_bytes() - before) / MIB);
	need(cuMemGetAddressRange(&base, &size, large + MIB));
	tell("size of its range", (long long)size);
	need(cuMemGetAddressRange(&base, &size, small));
	tell("size of the small one's", (long long)size);
	need(cuMemFree(large));
	need(cuMemFree(second));
	tell("all back", used_bytes() == before);
}

/* Memory of the driver's own: what is free is not the total less what one asked for. */
static void hidden_memory(void)
{
	static const char code[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				   ".visible .entry touch()\n{\n\tret;\n}\n";
	CUfunction function;
	CUmodule module;

	pitfall_start();
	tell("used without a block", used_bytes() > 0);
	need(cuModuleLoadData(&module, code));
	need(cuModuleGetFunction(&function, module, "touch"));
	need(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, pitfall.stream, NULL, NULL));
	need(cuStreamSynchronize(pitfall.stream));
	need(cuModuleUnload(module));
}

/* The client's own memory: it may go, and come back, right behind the call. */
static void registered(void)
{
	size_t bytes = 3 * 4096 + 100;
	char *memory = mmap(NULL, 16384, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr base;
	size_t size;

	pitfall_start();
	need(cuMemHostRegister(memory + 60, bytes, 0));
	need(cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)memory + 100));
	tell("offset of the range", (long long)(base - (CUdeviceptr)(uintptr_t)memory));
	tell("size of the range", (long long)size);
	tell("registering it twice", cuMemHostRegister(memory + 60, bytes, 0));
	need(cuMemHostUnregister(memory + 60));
	tell("registering it anew at once", cuMemHostRegister(memory + 60, bytes, 0));
	need(cuMemHostUnregister(memory + 60));
	tell("unregistering it twice", cuMemHostUnregister(memory + 60));
	tell("unmapped", munmap(memory, 16384));
}

/* Managed memory is "device memory" to who asks for the type alone. */
static void managed(void)
{
	unsigned type = 0, is_managed = 0;
	uint32_t words[16];
	CUdeviceptr block, plain;

	pitfall_start();
	plain = new_block(4096);
	need(cuMemAllocManaged(&block, 64 * KIB, CU_MEM_ATTACH_GLOBAL));
	need(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
	need(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, block));
	tell("type", type);
	tell("managed", is_managed);
	memset((void *)(uintptr_t)block, 7, 4096);
	need(cuMemcpy(plain, block, 4096));
	need(cuMemcpy((CUdeviceptr)(uintptr_t)words, block, sizeof(words)));
	tell("word", words[3]);
	tell("word on the device", read_word(plain));
	need(cuMemFree(block));
	need(cuMemFree(plain));
}

/* Nobody asks for tokens behind the client's back: that would change the block. */
static void tokens(void)
{
	CUdeviceptr block, copy;
	unsigned waits = 9;

	pitfall_start();
	block = new_block(64 * KIB);
	copy = new_block(64 * KIB);
	need(cuMemsetD32(block, 1, 16));
	need(cuMemcpyDtoD(copy, block, 64 * KIB));
	need(cuMemcpy(copy, block, 64 * KIB));
	need(cuCtxSynchronize());
	need(cuPointerGetAttribute(&waits, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
	tell("operations on the block wait", waits);
	need(cuMemFree(block));
	need(cuMemFree(copy));
}

/* An address comes back, the number of the buffer does not. */
static void identity(void)
{
	unsigned long long first = 0, second = 0;
	CUdeviceptr block;

	pitfall_start();
	block = new_block(4 * MIB);
	need(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
	need(cuMemFree(block));
	block = new_block(4 * MIB);
	need(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
	tell("another buffer", first != second);
	need(cuMemFree(block));
}

/* An array has no address, and its levels are no arrays of their own. */
static void arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = 1000, .Height = 1000,
					  .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	CUDA_ARRAY_MEMORY_REQUIREMENTS wants;
	size_t before;
	CUmipmappedArray mipmap;
	CUarray array, level;
	unsigned type;

	pitfall_start();
	before = used_bytes();
	need(cuArray3DCreate(&array, &shape));
	tell("1000 x 1000 floats take MiB", (long long)(used_bytes() - before) / MIB);
	tell("attribute of the handle",
	     cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				   (CUdeviceptr)(uintptr_t)array));
	tell("requirements", cuArrayGetMemoryRequirements(&wants, array, pitfall.device));
	need(cuMipmappedArrayCreate(&mipmap, &shape, 3));
	need(cuMipmappedArrayGetLevel(&level, mipmap, 1));
	tell("destroying a level", cuArrayDestroy(level));
	need(cuMipmappedArrayDestroy(mipmap));
	need(cuArrayDestroy(array));
	tell("all back", used_bytes() == before);
}

const struct pitfall_case pitfall_memory_cases[] = {
	{ "free-takes", free_takes },
	{ "free-waits", free_waits },
	{ "footprint", footprint },
	{ "hidden-memory", hidden_memory },
	{ "registered", registered },
	{ "managed", managed },
	{ "tokens", tokens },
	{ "identity", identity },
	{ "arrays", arrays },
	{ NULL, NULL },
};
