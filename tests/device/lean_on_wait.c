/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lean_on_wait.c - a program that is right only because a release waits for all
 * work of its context: after each kind of release it reads, without a synchronise,
 * what a busy stream was told to write before, by host from mapped memory, and by
 * a second stream that nothing else orders.  Bare, and wherever frees must not be
 * told from those of the driver, it prints the same.
 *
 *	lean_on_wait [COPIES]	so many copies from host memory keep the stream busy [10]
 */
#include "client.h"

enum { WORDS = 1024, VICTIM = 1 << 20 };

static int copies = 10;
static size_t copy_bytes;
static CUstream busy, other;
static CUdeviceptr sink, cell, mapped_cell;
static void *source;
static volatile uint32_t *mapped;
static uint32_t *read_back;

static const char kernel_text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				  ".visible .entry empty() { ret; }\n";

/* One of these is released behind the work. */
struct victim {
	CUdeviceptr block;
	void *pinned;
	CUarray array;
	CUmipmappedArray levels;
	CUmodule module;
};

static const CUDA_ARRAY3D_DESCRIPTOR shape = {
	.Width = 512, .Height = 256, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4
};

static CUresult make_plain(struct victim *it)
{
	return cuMemAlloc(&it->block, VICTIM);
}

static CUresult make_managed(struct victim *it)
{
	return cuMemAllocManaged(&it->block, VICTIM, CU_MEM_ATTACH_GLOBAL);
}

static CUresult free_block(struct victim *it)
{
	return cuMemFree(it->block);
}

static CUresult make_pinned(struct victim *it)
{
	return cuMemAllocHost(&it->pinned, VICTIM);
}

static CUresult free_pinned(struct victim *it)
{
	return cuMemFreeHost(it->pinned);
}

static CUresult make_array(struct victim *it)
{
	return cuArray3DCreate(&it->array, &shape);
}

static CUresult free_array(struct victim *it)
{
	return cuArrayDestroy(it->array);
}

static CUresult make_levels(struct victim *it)
{
	return cuMipmappedArrayCreate(&it->levels, &shape, 2);
}

static CUresult free_levels(struct victim *it)
{
	return cuMipmappedArrayDestroy(it->levels);
}

static CUresult make_module(struct victim *it)
{
	return cuModuleLoadData(&it->module, kernel_text);
}

static CUresult free_module(struct victim *it)
{
	return cuModuleUnload(it->module);
}

static const struct release {
	const char *name;
	CUresult (*make)(struct victim *it);
	CUresult (*release)(struct victim *it);
} release[] = {
	{ "cuMemFree", make_plain, free_block },
	{ "cuMemFree, managed", make_managed, free_block },
	{ "cuMemFreeHost", make_pinned, free_pinned },
	{ "cuArrayDestroy", make_array, free_array },
	{ "cuMipmappedArrayDestroy", make_levels, free_levels },
	{ "cuModuleUnload", make_module, free_module },
};

enum { RELEASES = sizeof(release) / sizeof(release[0]) };

static void start_work(CUdeviceptr target, uint32_t value)
{
	for (int i = 0; i < copies; i++)
		CALL(cuMemcpyHtoDAsync, sink, source, copy_bytes, busy);
	CALL(cuMemsetD32Async, target, value, WORDS, busy);
}

static const char *age(uint32_t value, uint32_t expected)
{
	return value == expected ? "what was written before it" : "something older";
}

static void read_by_host(const struct release *one, uint32_t value)
{
	struct victim victim;
	CUresult result = one->make(&victim);

	if (result != CUDA_SUCCESS) {
		printf("%s: %d, none to be had here\n", one->name, (int)result);
		return;
	}
	start_work(mapped_cell, value);
	result = one->release(&victim);
	printf("%s: %d, then the host reads %s\n", one->name, (int)result,
	       age(mapped[WORDS - 1], value));
	CALL(cuStreamSynchronize, busy);
}

static void read_by_stream(const struct release *one, uint32_t value)
{
	struct victim victim;
	CUresult result = one->make(&victim);

	if (result != CUDA_SUCCESS)
		return;
	start_work(cell, value);
	result = one->release(&victim);
	CALL(cuMemcpyDtoHAsync, read_back, cell, WORDS * 4, other);
	CALL(cuStreamSynchronize, other);
	printf("%s: %d, then another stream reads %s\n", one->name, (int)result,
	       age(read_back[WORDS - 1], value));
	CALL(cuStreamSynchronize, busy);
}

static void open_device(void)
{
	size_t free_bytes, device_bytes;
	void *block;

	client_open();
	CALL(cuMemGetInfo, &free_bytes, &device_bytes);
	copy_bytes = device_bytes / 512 > (size_t)256 << 20 ? (size_t)256 << 20 :
							      device_bytes / 512 / 4096 * 4096;
	CALL(cuMemAllocHost, &source, copy_bytes);
	memset(source, 1, copy_bytes);
	CALL(cuMemAlloc, &sink, copy_bytes);
	CALL(cuMemAlloc, &cell, WORDS * 4);
	CALL(cuMemHostAlloc, &block, WORDS * 4, CU_MEMHOSTALLOC_DEVICEMAP);
	mapped = block;
	CALL(cuMemHostGetDevicePointer, &mapped_cell, block, 0);
	CALL(cuMemAllocHost, (void **)&read_back, WORDS * 4);
	CALL(cuStreamCreate, &busy, CU_STREAM_NON_BLOCKING);
	CALL(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
	CALL(cuMemsetD32, cell, 0, WORDS);
	memset(block, 0, WORDS * 4);
	CALL(cuCtxSynchronize);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		copies = atoi(argv[1]);
	if (argc > 2 || copies < 1) {
		fprintf(stderr, "usage: lean_on_wait [COPIES]\n");
		return 2;
	}
	open_device();
	for (int i = 0; i < RELEASES; i++) {
		read_by_host(&release[i], 100u + (uint32_t)i);
		read_by_stream(&release[i], 200u + (uint32_t)i);
	}
	return 0;
}
