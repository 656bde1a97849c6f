/* SPDX-License-Identifier: Apache-2.0 */
/* One-dimensional copies from and to arrays: a part of the first row, by byte offset. */
#include "sim.h"
#include "entries.h"
#include "copybox.h"

static struct side array_side(CUarray array, size_t offset)
{
	return (struct side){
		.type = CU_MEMORYTYPE_ARRAY, .array = (struct array *)array, .x = offset,
	};
}

static struct side linear_side(CUmemorytype type, size_t address)
{
	return (struct side){ .type = type, .address = address };
}

static CUresult start(struct side dst, struct side src, size_t bytes, CUstream stream,
		      bool synchronous)
{
	struct boxcopy copy = { .extent = {bytes, 1, 1}, .dst = dst, .src = src };

	return copybox_start(&copy, stream, synchronous);
}

CUresult copyarray_atod(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
			size_t ByteCount, CUstream hStream)
{
	return start(linear_side(CU_MEMORYTYPE_DEVICE, dstDevice), array_side(srcArray, srcOffset),
		     ByteCount, hStream, true);
}

CUresult copyarray_dtoa(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
			size_t ByteCount, CUstream hStream)
{
	return start(array_side(dstArray, dstOffset), linear_side(CU_MEMORYTYPE_DEVICE, srcDevice),
		     ByteCount, hStream, true);
}

CUresult copyarray_atoa(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
			size_t ByteCount, CUstream hStream)
{
	return start(array_side(dstArray, dstOffset), array_side(srcArray, srcOffset), ByteCount,
		     hStream, true);
}

CUresult copyarray_atoh(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
			CUstream hStream)
{
	return start(linear_side(CU_MEMORYTYPE_HOST, (size_t)dstHost),
		     array_side(srcArray, srcOffset), ByteCount, hStream, true);
}

CUresult copyarray_atoh_async(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
			      CUstream hStream)
{
	return start(linear_side(CU_MEMORYTYPE_HOST, (size_t)dstHost),
		     array_side(srcArray, srcOffset), ByteCount, hStream, false);
}

CUresult copyarray_htoa(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount,
			CUstream hStream)
{
	return start(array_side(dstArray, dstOffset),
		     linear_side(CU_MEMORYTYPE_HOST, (size_t)srcHost), ByteCount, hStream, true);
}

CUresult copyarray_htoa_async(CUarray dstArray, size_t dstOffset, const void *srcHost,
			      size_t ByteCount, CUstream hStream)
{
	return start(array_side(dstArray, dstOffset),
		     linear_side(CU_MEMORYTYPE_HOST, (size_t)srcHost), ByteCount, hStream, false);
}
