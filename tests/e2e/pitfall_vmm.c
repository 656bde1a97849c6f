/* SPDX-License-Identifier: Apache-2.0 */
/* pitfall_vmm.c - memory mapped by hand, and multicast objects. */
#include "pitfall.h"

#include <unistd.h>

static size_t step; /* the granularity */

static void start(void)
{
	CUmemAllocationProp properties;

	pitfall_start();
	properties = handle_properties(CU_MEM_HANDLE_TYPE_NONE);
	need(cuMemGetAllocationGranularity(&step, &properties,
					   CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static CUmemGenericAllocationHandle create(CUmemAllocationHandleType type)
{
	CUmemAllocationProp properties = handle_properties(type);
	CUmemGenericAllocationHandle handle;

	need(cuMemCreate(&handle, step, &properties, 0));
	return handle;
}

static CUdeviceptr reserve(size_t bytes)
{
	CUdeviceptr range;

	need(cuMemAddressReserve(&range, bytes, 0, 0, 0));
	return range;
}

static void map(CUdeviceptr at, CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access = full_access();

	need(cuMemMap(at, step, 0, handle, 0));
	need(cuMemSetAccess(at, step, &access, 1));
}

static long long steps_used(size_t before)
{
	return (long long)((used_bytes() - before) / step);
}

/* Memory is there from its making until handles and mappings are gone, in any order. */
static void counts(void)
{
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr range;
	size_t before;

	start();
	before = used_bytes();
	range = reserve(step);
	tell("reserved", steps_used(before));
	handle = create(CU_MEM_HANDLE_TYPE_NONE);
	tell("made", steps_used(before));
	map(range, handle);
	tell("mapped", steps_used(before));
	need(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)range));
	need(cuMemRelease(handle));
	need(cuMemUnmap(range, step));
	tell("unmapped and released once", steps_used(before));
	need(cuMemRelease(again));
	tell("released twice", steps_used(before));
	handle = create(CU_MEM_HANDLE_TYPE_NONE);
	map(range, handle);
	need(cuMemRelease(handle));
	tell("released and mapped", steps_used(before));
	tell("free of it", cuMemFree(range));
	need(cuMemUnmap(range, step));
	tell("unmapped", steps_used(before));
	need(cuMemAddressFree(range, step));
}

/* The same range is mapped again at once: nothing of that may be put off. */
static void unmap(void)
{
	CUmemGenericAllocationHandle first, second;
	CUdeviceptr range;

	start();
	range = reserve(step);
	first = create(CU_MEM_HANDLE_TYPE_NONE);
	second = create(CU_MEM_HANDLE_TYPE_NONE);
	map(range, first);
	need(cuMemsetD32(range, 1, 16));
	need(cuCtxSynchronize());
	hold(pitfall.stream);
	tell("a part of a mapping", cuMemUnmap(range, step / 2) != CUDA_SUCCESS);
	need(cuMemUnmap(range, step));
	tell("held behind the unmapping", !is_done(pitfall.stream));
	map(range, second);
	let_go();
	need(cuStreamSynchronize(pitfall.stream));
	need(cuMemsetD32(range, 2, 16));
	tell("word of the second", read_word(range));
	need(cuMemUnmap(range, step));
	map(range, first);
	tell("word of the first", read_word(range));
	need(cuMemUnmap(range, step));
	need(cuMemRelease(first));
	need(cuMemRelease(second));
	need(cuMemAddressFree(range, step));
}

/* Three answers to "where does it begin". */
static void ranges(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr range, base = 0;
	size_t size = 0;

	start();
	range = reserve(4 * step);
	handle = create(CU_MEM_HANDLE_TYPE_NONE);
	map(range + step, handle);
	need(cuMemGetAddressRange(&base, &size, range + step + 100));
	tell("range starts at step", (long long)((base - range) / step));
	tell("its steps", (long long)(size / step));
	need(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
				   range + step + 100));
	need(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, range + step));
	tell("reservation starts at step", (long long)((base - range) / step));
	tell("its steps", (long long)(size / step));
	need(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
				   range + step + 100));
	need(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, range + step));
	tell("mapping starts at step", (long long)((base - range) / step));
	tell("its steps", (long long)(size / step));
	need(cuMemUnmap(range + step, step));
	need(cuMemRelease(handle));
	need(cuMemAddressFree(range, 4 * step));
}

/* ---------------------------------------------------------------- exported handles */

static void give_handle(void)
{
	CUmemAllocationProp properties =
		handle_properties(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	CUmemGenericAllocationHandle handle;
	CUdeviceptr range;
	int fd;

	need(cuMemGetAllocationGranularity(&step, &properties,
					   CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	handle = create(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	range = reserve(step);
	map(range, handle);
	need(cuMemsetD32(range, 21, 16));
	need(cuCtxSynchronize());
	need(cuMemExportToShareableHandle(&fd, handle,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	need(cuMemUnmap(range, step));
	need(cuMemRelease(handle));
	/* Released here, and alive in the descriptor. */
	send_bytes(&step, sizeof(step), fd);
	close(fd);
	wait_for_turn();
}

static void take_handle(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr range;
	int fd = receive_bytes(&step, sizeof(step));

	need(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	range = reserve(step);
	map(range, handle);
	tell("word of what the other process has released", read_word(range));
	need(cuMemUnmap(range, step));
	need(cuMemRelease(handle));
	hand_over();
}

static void exported(void)
{
	run_two(give_handle, take_handle);
}

/* ---------------------------------------------------------------- multicast */

static CUresult make_multicast(CUmemGenericAllocationHandle *object)
{
	CUmulticastObjectProp team = { .numDevices = 1 };
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;
	int can = 0;

	need(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
				  pitfall.device));
	if (!can)
		return result;
	team.size = step;
	result = cuMulticastGetGranularity(&step, &team, CU_MULTICAST_GRANULARITY_RECOMMENDED);
	team.size = step;
	return result ? result : cuMulticastCreate(object, &team);
}

/* What is bound is held, whoever has released it, until it is unbound. */
static void multicast(void)
{
	CUmemGenericAllocationHandle object, handle;
	CUresult result;
	size_t before;

	start();
	result = make_multicast(&object);
	tell("an object", result);
	if (!result) {
		result = cuMulticastAddDevice(object, pitfall.device);
		tell("the device", result);
	}
	if (result)
		return;
	before = used_bytes();
	handle = create(CU_MEM_HANDLE_TYPE_NONE);
	result = cuMulticastBindMem(object, 0, handle, 0, step, 0);
	tell("bound", result);
	need(cuMemRelease(handle));
	tell("memory is held", used_bytes() > before);
	if (!result)
		tell("unbound", cuMulticastUnbind(object, pitfall.device, 0, step));
	tell("memory is held still", used_bytes() > before);
	need(cuMemRelease(object));
}

const struct pitfall_case pitfall_vmm_cases[] = {
	{ "vmm-counts", counts },
	{ "vmm-unmap", unmap },
	{ "vmm-ranges", ranges },
	{ "vmm-exported", exported },
	{ "vmm-multicast", multicast },
	{ NULL, NULL },
};
