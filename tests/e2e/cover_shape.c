/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cover_shape.c - copies with a shape: rows, boxes, arrays, between devices, and
 * many in one call.  Two devices.
 */
#include "cover.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20, PITCH = 512, WIDTH = 300, ROWS = 20, LAYERS = 3 };

static CUdeviceptr left, right, far;
static CUcontext here, there;
static CUarray flat, deep;
static unsigned char host[BYTES];
static CUstream stream;

static uint64_t at(const void *address)
{
	return (uintptr_t)address;
}

static void note(const char *kind, const char *api, size_t bytes, uint64_t source, uint64_t target,
		 const char *on)
{
	struct copy_note copy = {
		.kind = kind,
		.api = api,
		.bytes = bytes,
		.source = source,
		.target = target,
		.stream = on ? on : cover_default_stream(api),
		.is_async = strstr(api, "Async") != NULL,
	};

	note_copy(&copy);
	/* The next may go another way, by a stream that does not wait for this one. */
	must("cuCtxSynchronize", cuCtxSynchronize());
	note_operation("cuCtxSynchronize", "none", 0);
}

/* ---------------------------------------------------------------------- rows */

static const struct {
	const char *api;
	CUresult (*copy)(const CUDA_MEMCPY2D *);
	CUresult (*copy_async)(const CUDA_MEMCPY2D *, CUstream);
} rows[] = {
	{ "cuMemcpy2D_v2", .copy = cuMemcpy2D_v2 },
	{ "cuMemcpy2D_v2_ptds", .copy = cuMemcpy2D_v2_ptds },
	{ "cuMemcpy2DUnaligned_v2", .copy = cuMemcpy2DUnaligned_v2 },
	{ "cuMemcpy2DUnaligned_v2_ptds", .copy = cuMemcpy2DUnaligned_v2_ptds },
	{ "cuMemcpy2DAsync_v2", .copy_async = cuMemcpy2DAsync_v2 },
	{ "cuMemcpy2DAsync_v2_ptsz", .copy_async = cuMemcpy2DAsync_v2_ptsz },
};

static void copy_rows(const char *kind, const CUDA_MEMCPY2D *shape, uint64_t source,
		      uint64_t target)
{
	size_t bytes = shape->WidthInBytes * shape->Height;
	unsigned i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].copy)
			must(rows[i].api, rows[i].copy(shape));
		else
			must(rows[i].api, rows[i].copy_async(shape, stream));
		note(kind, rows[i].api, bytes, source, target, rows[i].copy ? NULL : "own");
	}
}

static void in_rows(void)
{
	CUDA_MEMCPY2D shape = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = WIDTH,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = left,
		.dstPitch = PITCH,
		.WidthInBytes = WIDTH,
		.Height = ROWS,
	};

	copy_rows("H2D", &shape, at(host), left);
	shape.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	shape.srcDevice = right;
	shape.srcPitch = PITCH;
	copy_rows("D2D", &shape, right, left);
	shape.dstMemoryType = CU_MEMORYTYPE_HOST;
	shape.dstHost = host;
	copy_rows("D2H", &shape, right, at(host));
	shape.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	shape.srcArray = flat;
	copy_rows("D2H", &shape, at(flat), at(host));
	shape.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy_rows("D2D", &shape, at(flat), left);
}

/* The direction is not in the shape: both ends are unified addresses. */
static void in_unified_rows(void)
{
	CUDA_MEMCPY2D shape = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = (CUdeviceptr)at(host),
		.srcPitch = WIDTH,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = right,
		.dstPitch = PITCH,
		.WidthInBytes = WIDTH,
		.Height = ROWS,
	};

	copy_rows("H2D", &shape, at(host), right);
	shape.dstDevice = left;
	shape.srcDevice = right;
	shape.srcPitch = PITCH;
	copy_rows("D2D", &shape, right, left);
}

/* --------------------------------------------------------------------- boxes */

static void copy_box(const char *kind, const CUDA_MEMCPY3D *shape, uint64_t source, uint64_t target)
{
	size_t bytes = shape->WidthInBytes * shape->Height * shape->Depth;

	must("cuMemcpy3D_v2", cuMemcpy3D_v2(shape));
	note(kind, "cuMemcpy3D_v2", bytes, source, target, NULL);
	must("cuMemcpy3D_v2_ptds", cuMemcpy3D_v2_ptds(shape));
	note(kind, "cuMemcpy3D_v2_ptds", bytes, source, target, NULL);
	must("cuMemcpy3DAsync_v2", cuMemcpy3DAsync_v2(shape, stream));
	note(kind, "cuMemcpy3DAsync_v2", bytes, source, target, "own");
	must("cuMemcpy3DAsync_v2_ptsz", cuMemcpy3DAsync_v2_ptsz(shape, NULL));
	note(kind, "cuMemcpy3DAsync_v2_ptsz", bytes, source, target, NULL);
}

static void in_boxes(void)
{
	CUDA_MEMCPY3D shape = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = PITCH,
		.srcHeight = ROWS,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = left,
		.dstPitch = PITCH,
		.dstHeight = ROWS,
		.WidthInBytes = WIDTH,
		.Height = ROWS,
		.Depth = LAYERS,
	};

	copy_box("H2D", &shape, at(host), left);
	shape.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	shape.srcDevice = right;
	copy_box("D2D", &shape, right, left);
	shape.dstMemoryType = CU_MEMORYTYPE_HOST;
	shape.dstHost = host;
	copy_box("D2H", &shape, right, at(host));
	shape.WidthInBytes = 16;
	shape.Height = 4;
	shape.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	shape.srcArray = deep;
	copy_box("D2H", &shape, at(deep), at(host));
}

/* -------------------------------------------------------------------- arrays */

static void with_arrays(void)
{
	must("cuMemcpyHtoA_v2", cuMemcpyHtoA_v2(flat, 0, host, 200));
	note("H2D", "cuMemcpyHtoA_v2", 200, at(host), at(flat), NULL);
	must("cuMemcpyHtoA_v2_ptds", cuMemcpyHtoA_v2_ptds(flat, 0, host, 201));
	note("H2D", "cuMemcpyHtoA_v2_ptds", 201, at(host), at(flat), NULL);
	must("cuMemcpyAtoH_v2", cuMemcpyAtoH_v2(host, flat, 0, 202));
	note("D2H", "cuMemcpyAtoH_v2", 202, at(flat), at(host), NULL);
	must("cuMemcpyDtoA_v2", cuMemcpyDtoA_v2(flat, 0, left, 203));
	note("D2D", "cuMemcpyDtoA_v2", 203, left, at(flat), NULL);
	must("cuMemcpyAtoD_v2", cuMemcpyAtoD_v2(left, flat, 0, 204));
	note("D2D", "cuMemcpyAtoD_v2", 204, at(flat), left, NULL);
	must("cuMemcpyAtoA_v2", cuMemcpyAtoA_v2(deep, 0, flat, 0, 64));
	note("D2D", "cuMemcpyAtoA_v2", 64, at(flat), at(deep), NULL);
	must("cuMemcpyHtoAAsync_v2", cuMemcpyHtoAAsync_v2(flat, 0, host, 205, stream));
	note("H2D", "cuMemcpyHtoAAsync_v2", 205, at(host), at(flat), "own");
	must("cuMemcpyAtoHAsync_v2_ptsz", cuMemcpyAtoHAsync_v2_ptsz(host, flat, 0, 206, NULL));
	note("D2H", "cuMemcpyAtoHAsync_v2_ptsz", 206, at(flat), at(host), NULL);
}

/* ----------------------------------------------------------- between devices */

static void between_devices(void)
{
	CUDA_MEMCPY3D_PEER box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = left,
		.srcContext = here,
		.srcPitch = PITCH,
		.srcHeight = ROWS,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = far,
		.dstContext = there,
		.dstPitch = PITCH,
		.dstHeight = ROWS,
		.WidthInBytes = WIDTH,
		.Height = ROWS,
		.Depth = 1,
	};

	must("cuMemcpyPeer", cuMemcpyPeer(far, there, left, here, 3000));
	note("P2P", "cuMemcpyPeer", 3000, left, far, NULL);
	must("cuMemcpyPeer_ptds", cuMemcpyPeer_ptds(left, here, far, there, 3001));
	note("P2P", "cuMemcpyPeer_ptds", 3001, far, left, NULL);
	must("cuMemcpyPeerAsync", cuMemcpyPeerAsync(far, there, left, here, 3002, stream));
	note("P2P", "cuMemcpyPeerAsync", 3002, left, far, "own");
	must("cuMemcpyPeer", cuMemcpyPeer(right, here, left, here, 3003));
	note("D2D", "cuMemcpyPeer", 3003, left, right, NULL);
	must("cuMemcpy3DPeer", cuMemcpy3DPeer(&box));
	note("P2P", "cuMemcpy3DPeer", WIDTH * ROWS, left, far, NULL);
	must("cuMemcpy3DPeerAsync", cuMemcpy3DPeerAsync(&box, stream));
	note("P2P", "cuMemcpy3DPeerAsync", WIDTH * ROWS, left, far, "own");
	must("cuMemcpyDtoD_v2", cuMemcpyDtoD_v2(far, left, 3004));
	note("P2P", "cuMemcpyDtoD_v2", 3004, left, far, NULL);
	must("cuMemcpy", cuMemcpy(far, left, 3005));
	note("P2P", "cuMemcpy", 3005, left, far, NULL);
}

/* -------------------------------------------------------------- many at once */

static void many_at_once(void)
{
	CUdeviceptr targets[3] = { left, right, (CUdeviceptr)at(host) };
	CUdeviceptr sources[3] = { (CUdeviceptr)at(host), left, right };
	size_t sizes[3] = { 1000, 2000, 3000 };
	CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	size_t first = 0, failed = 0;
	static const char *const kinds[3] = { "H2D", "D2D", "D2H" };
	unsigned i;

	must("cuMemcpyBatchAsync_v2",
	     cuMemcpyBatchAsync_v2(targets, sources, sizes, 3, &attributes, &first, 1, stream));
	for (i = 0; i < 3; i++)
		note(kinds[i], "cuMemcpyBatchAsync_v2", sizes[i], sources[i], targets[i], "own");
	must("cuMemcpyBatchAsync", cuMemcpyBatchAsync(targets, sources, sizes, 3, &attributes,
						      &first, 1, &failed, stream));
	for (i = 0; i < 3; i++)
		note(kinds[i], "cuMemcpyBatchAsync", sizes[i], sources[i], targets[i], "own");
}

/* A batch of nothing is refused; there is a copy, but nothing to tell of it. */
static void nothing_at_once(void)
{
	require(called("cuMemcpyBatchAsync_v2",
		       cuMemcpyBatchAsync_v2(NULL, NULL, NULL, 0, NULL, NULL, 0, stream)) ==
			CUDA_ERROR_INVALID_VALUE,
		"a batch of nothing is refused");
	journal_line("transfer UNKNOWN 0 cuMemcpyBatchAsync_v2 async unknown:0:- unknown:0:- own "
		     "1 0 %d",
		     CUDA_ERROR_INVALID_VALUE);
}

static CUmemcpy3DOperand plain(CUdeviceptr address)
{
	return (CUmemcpy3DOperand){
		.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
		.op.ptr = { .ptr = address },
	};
}

/* Extents are elements: of bytes, or where an array takes part of its own. */
static void boxes_at_once(void)
{
	CUDA_MEMCPY3D_BATCH_OP boxes[2] = {
		{
			.src = plain((CUdeviceptr)at(host)),
			.dst = plain(left),
			.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
			.extent = { 100, 4, 2 },
		},
		{
			.src = plain(left),
			.dst = { .type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array.array = flat },
			.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
			.extent = { 16, 4, 1 },
		},
	};
	size_t failed = 0;

	must("cuMemcpy3DBatchAsync_v2", cuMemcpy3DBatchAsync_v2(2, boxes, 0, stream));
	note("H2D", "cuMemcpy3DBatchAsync_v2", 100 * 4 * 2, at(host), left, "own");
	note("D2D", "cuMemcpy3DBatchAsync_v2", 16 * 4 * 4, left, at(flat), "own");
	must("cuMemcpy3DBatchAsync", cuMemcpy3DBatchAsync(1, boxes, &failed, 0, stream));
	note("H2D", "cuMemcpy3DBatchAsync", 100 * 4 * 2, at(host), left, "own");
}

static void set_up(void)
{
	CUDA_ARRAY_DESCRIPTOR rows_of_floats = { 128, 32, CU_AD_FORMAT_FLOAT, 1 };
	CUDA_ARRAY3D_DESCRIPTOR box = { 64, 8, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0 };

	here = cover_start(0);
	must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&there, 1));
	note_operation("cuDevicePrimaryCtxRetain", "none", 0);
	cover_set_current(there);
	far = cover_alloc(BYTES, NULL);
	cover_set_current(here);
	left = cover_alloc(BYTES, NULL);
	right = cover_alloc(BYTES, NULL);
	must("cuArrayCreate_v2", cuArrayCreate_v2(&flat, &rows_of_floats));
	note_alloc("array", at(flat), 128 * 32 * 4, "cuArrayCreate_v2");
	must("cuArray3DCreate_v2", cuArray3DCreate_v2(&deep, &box));
	note_alloc("array", at(deep), 64 * 8 * 4, "cuArray3DCreate_v2");
	must("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	note_operation("cuStreamCreate", "none", 0);
}

int main(void)
{
	set_up();
	in_rows();
	in_unified_rows();
	in_boxes();
	with_arrays();
	between_devices();
	many_at_once();
	boxes_at_once();
	nothing_at_once();
	must("cuStreamSynchronize", cuStreamSynchronize(stream));
	note_operation("cuStreamSynchronize", "own", 0);
	cover_end();
	return 0;
}
