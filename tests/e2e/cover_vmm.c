/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cover_vmm.c - virtual memory: the bytes belong to the handle, the mapping is a
 * view of it, and the block ends with the last handle and the last mapping.
 */
#include "cover.h"

#include <stdlib.h>
#include <unistd.h>

static const CUmemAllocationProp properties = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
};

static size_t granularity;
static CUdeviceptr range;
static unsigned char host[1024];

static CUmemGenericAllocationHandle create(size_t bytes, unsigned *block)
{
	CUmemGenericAllocationHandle handle;

	must("cuMemCreate", cuMemCreate(&handle, bytes, &properties, 0));
	*block = note_alloc("vmm", handle, bytes, "cuMemCreate");
	return handle;
}

static unsigned map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle,
		    unsigned parent)
{
	CUmemAccessDesc access = {
		.location = properties.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	unsigned view;

	must("cuMemMap", cuMemMap(address, bytes, 0, handle, 0));
	view = note_view("vmm", address, bytes, "cuMemMap", parent);
	must("cuMemSetAccess", cuMemSetAccess(address, bytes, &access, 1));
	note_operation("cuMemSetAccess", "none", 0);
	return view;
}

static void copy_into(CUdeviceptr address)
{
	struct copy_note copy = {
		.kind = "H2D",
		.api = "cuMemcpyHtoD_v2",
		.bytes = sizeof(host),
		.source = (uintptr_t)host,
		.target = address,
		.stream = "legacy",
	};

	must("cuMemcpyHtoD_v2", cuMemcpyHtoD_v2(address, host, sizeof(host)));
	note_copy(&copy);
}

/* `block` ends with this reference; 0: others are left, and it is an operation. */
static void release(CUmemGenericAllocationHandle handle, unsigned block)
{
	must("cuMemRelease", cuMemRelease(handle));
	if (block)
		note_free(block, "cuMemRelease");
	else
		note_operation("cuMemRelease", "none", 0);
}

/* Two ends at one time stand in the order of their allocation. */
static void unmap(CUdeviceptr address, size_t bytes, unsigned view, unsigned block)
{
	must("cuMemUnmap", cuMemUnmap(address, bytes));
	if (block)
		note_free(block, "cuMemUnmap");
	note_free(view, "cuMemUnmap");
}

/* The handle goes first: the mapping holds the block. */
static void release_before_unmap(void)
{
	unsigned block, view;
	CUmemGenericAllocationHandle handle = create(2 * granularity, &block);

	view = map(range, 2 * granularity, handle, block);
	release(handle, 0);
	copy_into(range + granularity);
	unmap(range, 2 * granularity, view, block);
}

static void unmap_before_release(void)
{
	unsigned block, view;
	CUmemGenericAllocationHandle handle = create(granularity, &block);

	view = map(range, granularity, handle, block);
	copy_into(range);
	unmap(range, granularity, view, 0);
	release(handle, block);
}

/* A second reference, and two places where the same bytes are seen. */
static void two_of_each(void)
{
	unsigned block, first, second;
	CUmemGenericAllocationHandle handle = create(granularity, &block), again;

	first = map(range, granularity, handle, block);
	second = map(range + 2 * granularity, granularity, handle, block);
	must("cuMemRetainAllocationHandle",
	     cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)range));
	require(again == handle, "the handle retained is the handle that was mapped");
	note_operation("cuMemRetainAllocationHandle", "none", 0);
	release(handle, 0);
	unmap(range, granularity, first, 0);
	release(again, 0);
	copy_into(range + 2 * granularity);
	unmap(range + 2 * granularity, granularity, second, block);
}

static void never_mapped(void)
{
	unsigned block;
	CUmemGenericAllocationHandle handle = create(granularity, &block);

	release(handle, block);
}

/* Others may have it now: the trace marks the block. */
static void exported(void)
{
	CUmemAllocationProp shared = properties;
	CUmemGenericAllocationHandle handle;
	unsigned block;
	int fd = -1;

	shared.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	must("cuMemCreate", cuMemCreate(&handle, 3 * granularity, &shared, 0));
	block = note_alloc("vmm", handle, 3 * granularity, "cuMemCreate");
	must("cuMemExportToShareableHandle",
	     cuMemExportToShareableHandle(&fd, handle, shared.requestedHandleTypes, 0));
	note_operation("cuMemExportToShareableHandle", "none", 0);
	close(fd);
	release(handle, block);
}

int main(void)
{
	cover_start(0);
	must("cuMemGetAllocationGranularity",
	     cuMemGetAllocationGranularity(&granularity, &properties,
					   CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	must("cuMemAddressReserve", cuMemAddressReserve(&range, 8 * granularity, 0, 0, 0));
	note_operation("cuMemAddressReserve", "none", 0);
	release_before_unmap();
	unmap_before_release();
	two_of_each();
	never_mapped();
	exported();
	must("cuMemAddressFree", cuMemAddressFree(range, 8 * granularity));
	note_operation("cuMemAddressFree", "none", 0);
	cover_end();
	return 0;
}
