/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freed.c - what the driver says about memory that is no longer there:
 *
 *	freed FAMILY KIND
 *
 * asks everything of a family about a block of a kind after it was freed, and
 * writes one line "question answer" each.  Bare and under every policy the
 * lines must be the same, on the simulated driver and on a GPU.
 *
 * FAMILY	question, twice, copy, nothing, box, fill, wait, graph, capture;
 *		what the simulated driver has not or answers otherwise: node, list,
 *		captured; what a driver does not survive bare, because it takes an
 *		address that is nobody's for one of the host's: unified, batch
 * KIND		device, small, pitch, managed, pinned; nobody: an address in the first
 *		page, which was never anybody's
 */
#include "freed.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 4 << 20, SMALL = 4096 };

struct freed freed;

void tell(const char *question, CUresult answer)
{
	printf("%s %d\n", question, (int)answer);
	fflush(stdout);
}

void need(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "freed: %s: %d\n", what, (int)result);
	exit(1);
}

static void free_block(const char *kind)
{
	size_t pitch;

	if (!strcmp(kind, "device") || !strcmp(kind, "small"))
		need(cuMemAlloc(&freed.address, *kind == 's' ? SMALL : BYTES), "cuMemAlloc");
	else if (!strcmp(kind, "pitch"))
		need(cuMemAllocPitch(&freed.address, &pitch, 4096, 1024, 4), "cuMemAllocPitch");
	else if (!strcmp(kind, "managed"))
		need(cuMemAllocManaged(&freed.address, BYTES, CU_MEM_ATTACH_GLOBAL), "managed");
	else if (!strcmp(kind, "pinned"))
		need(cuMemAllocHost((void **)&freed.address, BYTES), "cuMemAllocHost");
	else
		freed.address = FREED_NOBODY;
	if (!strcmp(kind, "pinned"))
		need(cuMemFreeHost((void *)freed.address), "cuMemFreeHost");
	else if (freed.address != FREED_NOBODY)
		need(cuMemFree(freed.address), "cuMemFree");
}

/* Each attribute for itself, but the one that changes a block by being asked for. */
static void ask_attributes(CUdeviceptr address)
{
	static const CUpointer_attribute ids[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,	       CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER,   CU_POINTER_ATTRIBUTE_HOST_POINTER,
		CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,      CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_MAPPED,	       CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
		CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	};
	char question[64];
	uint64_t value;

	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		value = 0;
		snprintf(question, sizeof(question), "cuPointerGetAttribute(%d)", (int)ids[i]);
		tell(question, cuPointerGetAttribute(&value, ids[i], address));
	}
}

static void ask_attributes_together(CUdeviceptr address)
{
	CUpointer_attribute ids[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				      CU_POINTER_ATTRIBUTE_IS_MANAGED,
				      CU_POINTER_ATTRIBUTE_CONTEXT };
	unsigned type = 77, is_managed = 77;
	CUcontext context = (CUcontext)77;
	void *values[] = { &type, &is_managed, &context };

	tell("cuPointerGetAttributes", cuPointerGetAttributes(3, ids, values, address));
	printf("type %u managed %u context %d\n", type, is_managed, context != NULL);
}

static void ask_ranges(CUdeviceptr address)
{
	CUmem_range_attribute id = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
	uint32_t value = 0;
	void *values = &value;
	size_t bytes = sizeof(value), size;
	CUdeviceptr base;

	tell("cuMemGetAddressRange", cuMemGetAddressRange(&base, &size, address));
	tell("cuMemGetAddressRange inside", cuMemGetAddressRange(NULL, &size, address + 16));
	tell("cuMemRangeGetAttribute", cuMemRangeGetAttribute(&value, bytes, id, address, SMALL));
	tell("cuMemRangeGetAttributes",
	     cuMemRangeGetAttributes(&values, &bytes, &id, 1, address, SMALL));
}

static void ask_exports(CUdeviceptr address)
{
	CUmemGenericAllocationHandle handle;
	CUmemLocation location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemPoolPtrExportData data;
	CUipcMemHandle ipc;
	unsigned long long flags;
	int file;

	tell("cuIpcGetMemHandle", cuIpcGetMemHandle(&ipc, address));
	tell("cuMemGetHandleForAddressRange",
	     cuMemGetHandleForAddressRange(&file, address, SMALL,
					   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	tell("cuMemRetainAllocationHandle", cuMemRetainAllocationHandle(&handle, (void *)address));
	tell("cuMemPoolExportPointer", cuMemPoolExportPointer(&data, address));
	tell("cuMemGetAccess", cuMemGetAccess(&flags, &location, address));
}

static void ask_settings(CUdeviceptr address)
{
	CUmemLocation location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	unsigned flag = 1, flags;
	CUdeviceptr device;

	tell("cuPointerSetAttribute",
	     cuPointerSetAttribute(&flag, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
	tell("cuMemAdvise", cuMemAdvise(address, SMALL, CU_MEM_ADVISE_SET_READ_MOSTLY, location));
	tell("cuStreamAttachMemAsync",
	     cuStreamAttachMemAsync(freed.stream, address, 0, CU_MEM_ATTACH_GLOBAL));
	tell("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer(&device, (void *)address, 0));
	tell("cuMemHostGetFlags", cuMemHostGetFlags(&flags, (void *)address));
	tell("cuMemHostUnregister", cuMemHostUnregister((void *)address));
}

static void ask_question(CUdeviceptr address)
{
	ask_attributes(address);
	ask_attributes_together(address);
	ask_ranges(address);
	ask_exports(address);
	ask_settings(address);
}

static void ask_twice(CUdeviceptr address)
{
	tell("cuMemFree inside", cuMemFree(address + 16));
	tell("cuMemFreeAsync", cuMemFreeAsync(address, freed.stream));
	tell("cuMemFree", cuMemFree(address));
	tell("cuMemFreeHost", cuMemFreeHost((void *)address));
}

static const struct family {
	const char *name;
	void (*ask)(CUdeviceptr address);
} families[] = {
	{ "question", ask_question }, { "twice", ask_twice }, { "copy", ask_copy },
	{ "nothing", ask_nothing },   { "box", ask_box },     { "fill", ask_fill },
	{ "wait", ask_wait },	      { "graph", ask_graph }, { "capture", ask_capture },
	{ "node", ask_node },	      { "list", ask_list },   { "captured", ask_captured },
	{ "unified", ask_unified },   { "batch", ask_batch },
};

/* As long as a copy takes, the device has work that began before the free. */
static void keep_busy(void)
{
	CUstream stream;

	need(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	need(cuMemcpyDtoHAsync(freed.pinned, freed.alive, SMALL, stream), "cuMemcpyDtoHAsync");
}

/* A block that lives beside the freed one, so that pages and contexts stay. */
static void start(void)
{
	CUdevice device;

	need(cuInit(0), "cuInit");
	need(cuDeviceGet(&device, 0), "cuDeviceGet");
	need(cuDevicePrimaryCtxRetain(&freed.context, device), "cuDevicePrimaryCtxRetain");
	need(cuCtxSetCurrent(freed.context), "cuCtxSetCurrent");
	need(cuStreamCreate(&freed.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	need(cuMemAlloc(&freed.alive, SMALL), "cuMemAlloc");
	need(cuMemAllocHost(&freed.pinned, SMALL), "cuMemAllocHost");
	freed.host = calloc(1, SMALL);
	make_graph();
	keep_busy();
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	start();
	free_block(arguments[2]);
	for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
		if (!strcmp(families[i].name, arguments[1]))
			families[i].ask(freed.address);
	tell("cuCtxSynchronize", cuCtxSynchronize());
	tell("cuMemFree of the living", cuMemFree(freed.alive));
	return 0;
}
