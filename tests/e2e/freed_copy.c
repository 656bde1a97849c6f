/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freed_copy.c - copies, fills and prefetches that name a freed block, in the
 * direction in which they name it and with nothing to move.
 */
#include "freed.h"

enum { BYTES = 256 };

static void ask_sync(CUdeviceptr address)
{
	tell("cuMemcpyHtoD", cuMemcpyHtoD(address, freed.host, BYTES));
	tell("cuMemcpyHtoD inside", cuMemcpyHtoD(address + 1000, freed.host, BYTES));
	tell("cuMemcpyDtoH", cuMemcpyDtoH(freed.host, address, BYTES));
	tell("cuMemcpyDtoD to", cuMemcpyDtoD(address, freed.alive, BYTES));
	tell("cuMemcpyDtoD from", cuMemcpyDtoD(freed.alive, address, BYTES));
}

static void ask_async(CUdeviceptr address)
{
	tell("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync(address, freed.pinned, BYTES, freed.stream));
	tell("cuMemcpyHtoDAsync pageable",
	     cuMemcpyHtoDAsync(address, freed.host, BYTES, freed.stream));
	tell("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync(freed.pinned, address, BYTES, freed.stream));
	tell("cuMemcpyDtoDAsync to", cuMemcpyDtoDAsync(address, freed.alive, BYTES, freed.stream));
	tell("cuMemcpyDtoDAsync from",
	     cuMemcpyDtoDAsync(freed.alive, address, BYTES, freed.stream));
}

void ask_copy(CUdeviceptr address)
{
	ask_sync(address);
	ask_async(address);
}

void ask_nothing(CUdeviceptr address)
{
	tell("cuMemcpyHtoD", cuMemcpyHtoD(address, freed.host, 0));
	tell("cuMemcpyDtoH", cuMemcpyDtoH(freed.host, address, 0));
	tell("cuMemcpyDtoD", cuMemcpyDtoD(freed.alive, address, 0));
	tell("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync(address, freed.pinned, 0, freed.stream));
	tell("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync(freed.alive, address, 0, freed.stream));
	tell("cuMemcpy", cuMemcpy(freed.alive, address, 0));
	tell("cuMemcpyAsync", cuMemcpyAsync(address, freed.alive, 0, freed.stream));
	tell("cuMemcpyPeer", cuMemcpyPeer(address, freed.context, freed.alive, freed.context, 0));
	tell("cuMemcpyPeerAsync", cuMemcpyPeerAsync(address, freed.context, freed.alive,
						    freed.context, 0, freed.stream));
	tell("cuMemsetD8", cuMemsetD8(address, 1, 0));
	tell("cuMemsetD2D8", cuMemsetD2D8(address, 32, 1, 0, 4));
	tell("cuMemsetD8Async", cuMemsetD8Async(address, 1, 0, freed.stream));
}

void ask_unified(CUdeviceptr address)
{
	tell("cuMemcpy to", cuMemcpy(address, freed.alive, BYTES));
	tell("cuMemcpy from", cuMemcpy(freed.alive, address, BYTES));
	tell("cuMemcpyAsync to", cuMemcpyAsync(address, freed.alive, BYTES, freed.stream));
	tell("cuMemcpyAsync from", cuMemcpyAsync(freed.alive, address, BYTES, freed.stream));
}

static CUDA_MEMCPY2D to_2d(CUdeviceptr address, size_t width)
{
	return (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = freed.host,
		.srcPitch = 16,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = address,
		.dstPitch = 16,
		.WidthInBytes = width,
		.Height = 4,
	};
}

static CUDA_MEMCPY2D from_2d(CUdeviceptr address)
{
	return (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = address,
		.srcPitch = 16,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = freed.host,
		.dstPitch = 16,
		.WidthInBytes = 16,
		.Height = 4,
	};
}

static CUDA_MEMCPY3D to_3d(CUdeviceptr address, size_t width)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = freed.host,
		.srcPitch = 16,
		.srcHeight = 4,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = address,
		.dstPitch = 16,
		.dstHeight = 4,
		.WidthInBytes = width,
		.Height = 4,
		.Depth = 2,
	};
}

static CUDA_MEMCPY3D_PEER to_3d_peer(CUdeviceptr address)
{
	return (CUDA_MEMCPY3D_PEER){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = freed.alive,
		.srcContext = freed.context,
		.srcPitch = 16,
		.srcHeight = 4,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = address,
		.dstContext = freed.context,
		.dstPitch = 16,
		.dstHeight = 4,
		.WidthInBytes = 16,
		.Height = 4,
		.Depth = 2,
	};
}

/* The last: these succeed, and then what waited may be gone. */
static void ask_empty_box(CUdeviceptr address)
{
	CUDA_MEMCPY2D plane = to_2d(address, 0);
	CUDA_MEMCPY3D box = to_3d(address, 0);

	tell("cuMemcpy2D of nothing", cuMemcpy2D(&plane));
	tell("cuMemcpy3D of nothing", cuMemcpy3D(&box));
}

/* Between one context and itself, too. */
static void ask_peer(CUdeviceptr address)
{
	CUDA_MEMCPY3D_PEER peer = to_3d_peer(address);

	tell("cuMemcpy3DPeer", cuMemcpy3DPeer(&peer));
	tell("cuMemcpy3DPeerAsync", cuMemcpy3DPeerAsync(&peer, freed.stream));
	tell("cuMemcpyPeer to",
	     cuMemcpyPeer(address, freed.context, freed.alive, freed.context, BYTES));
	tell("cuMemcpyPeer from",
	     cuMemcpyPeer(freed.alive, freed.context, address, freed.context, BYTES));
	tell("cuMemcpyPeerAsync", cuMemcpyPeerAsync(address, freed.context, freed.alive,
						    freed.context, BYTES, freed.stream));
}

void ask_box(CUdeviceptr address)
{
	CUDA_MEMCPY2D plane = to_2d(address, 16), back = from_2d(address);
	CUDA_MEMCPY3D box = to_3d(address, 16);

	tell("cuMemcpy2D to", cuMemcpy2D(&plane));
	tell("cuMemcpy2D from", cuMemcpy2D(&back));
	tell("cuMemcpy2DUnaligned", cuMemcpy2DUnaligned(&plane));
	tell("cuMemcpy2DAsync", cuMemcpy2DAsync(&plane, freed.stream));
	tell("cuMemcpy3D", cuMemcpy3D(&box));
	tell("cuMemcpy3DAsync", cuMemcpy3DAsync(&box, freed.stream));
	ask_peer(address);
	ask_empty_box(address);
}

void ask_fill(CUdeviceptr address)
{
	CUmemLocation device = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };

	tell("cuMemsetD8", cuMemsetD8(address, 1, BYTES));
	tell("cuMemsetD16", cuMemsetD16(address, 1, BYTES));
	tell("cuMemsetD32", cuMemsetD32(address, 1, BYTES));
	tell("cuMemsetD2D8", cuMemsetD2D8(address, 32, 1, 16, 4));
	tell("cuMemsetD2D16", cuMemsetD2D16(address, 64, 1, 16, 4));
	tell("cuMemsetD2D32", cuMemsetD2D32(address, 64, 1, 16, 4));
	tell("cuMemsetD8Async", cuMemsetD8Async(address, 1, BYTES, freed.stream));
	tell("cuMemsetD2D32Async", cuMemsetD2D32Async(address, 64, 1, 16, 4, freed.stream));
	tell("cuMemPrefetchAsync", cuMemPrefetchAsync(address, BYTES, device, 0, freed.stream));
	tell("cuMemPrefetchAsync of nothing",
	     cuMemPrefetchAsync(address, 0, device, 0, freed.stream));
}

static void ask_3d_batch(CUdeviceptr address)
{
	CUDA_MEMCPY3D_BATCH_OP ops[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		ops[i].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
		ops[i].src.op.ptr.ptr = freed.alive;
		ops[i].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
		ops[i].dst.op.ptr.ptr = i ? address : freed.alive + 1024;
		ops[i].extent = (CUextent3D){ 16, 1, 1 };
		ops[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	}
	tell("cuMemcpy3DBatchAsync", cuMemcpy3DBatchAsync(2, ops, 0, freed.stream));
}

void ask_list(CUdeviceptr address)
{
	CUmemLocation device = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUdeviceptr list[] = { address, address };
	size_t sizes[] = { 16, 16 }, zero = 0;

	tell("cuMemPrefetchBatchAsync",
	     cuMemPrefetchBatchAsync(list, sizes, 2, &device, &zero, 1, 0, freed.stream));
	tell("cuMemDiscardBatchAsync", cuMemDiscardBatchAsync(list, sizes, 2, 0, freed.stream));
	tell("cuMemDiscardAndPrefetchBatchAsync",
	     cuMemDiscardAndPrefetchBatchAsync(list, sizes, 2, &device, &zero, 1, 0, freed.stream));
}

/* The second of two copies names the freed block. */
void ask_batch(CUdeviceptr address)
{
	CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	CUdeviceptr targets[] = { freed.alive, address };
	CUdeviceptr sources[] = { (CUdeviceptr)freed.pinned, freed.alive };
	size_t sizes[] = { 16, 16 }, zero = 0;

	ask_3d_batch(address);
	tell("cuMemcpyBatchAsync",
	     cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, &zero, 1, freed.stream));
}
