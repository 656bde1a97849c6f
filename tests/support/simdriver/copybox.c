/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of two and three dimensions between host, device and arrays. */
#include "sim.h"
#include "entries.h"
#include "copybox.h"

/* The bytes of memory that the box touches, from the start of its base address. */
static bool reach(const struct side *side, const struct extent *extent, size_t *bytes)
{
	size_t rows = side->y + extent->height - 1, slices = side->z + extent->depth - 1;
	size_t slice = side->pitch * side->height;
	size_t row_bytes, slice_bytes;

	return !__builtin_mul_overflow(rows, side->pitch, &row_bytes) &&
	       !__builtin_mul_overflow(slices, slice, &slice_bytes) &&
	       !__builtin_add_overflow(row_bytes, slice_bytes, bytes) &&
	       !__builtin_add_overflow(*bytes, side->x + extent->width, bytes);
}

static CUresult find_array(const struct side *side, const struct extent *extent,
			   struct place *place)
{
	struct array *array = side->array;
	CUresult error = handle_check(OBJECT_ARRAY, array);
	size_t height, depth;

	if (error)
		return error;
	height = array->desc.Height ? array->desc.Height : 1;
	depth = array->desc.Depth ? array->desc.Depth : 1;
	if (side->x + extent->width > array->desc.Width * array->element ||
	    side->y + extent->height > height || side->z + extent->depth > depth)
		return CUDA_ERROR_INVALID_VALUE;
	*place = (struct place){
		.kind = PLACE_ARRAY,
		.array = array,
		.bytes = array->bytes_at + side->z * array->slice + side->y * array->pitch +
			 side->x,
	};
	return CUDA_SUCCESS;
}

static CUresult find_linear(const struct side *side, const struct extent *extent,
			    struct place *place)
{
	size_t bytes, offset;
	CUresult error;

	if (extent->height > 1 && side->pitch < side->x + extent->width)
		return CUDA_ERROR_INVALID_VALUE;
	if (extent->depth > 1 && side->height < side->y + extent->height)
		return CUDA_ERROR_INVALID_VALUE;
	if (!reach(side, extent, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (side->type == CU_MEMORYTYPE_DEVICE)
		error = memory_place(side->address, bytes, place);
	else
		error = memory_host_place((void *)side->address, bytes, place);
	if (error)
		return error;
	offset = side->z * side->pitch * side->height + side->y * side->pitch + side->x;
	place->bytes += offset;
	place->address += offset;
	return CUDA_SUCCESS;
}

static CUresult find_side(struct side *side, const struct extent *extent, struct place *place,
			  size_t *pitch, size_t *slice)
{
	CUresult error;

	if (side->type == CU_MEMORYTYPE_ARRAY) {
		error = find_array(side, extent, place);
		*pitch = error ? 0 : side->array->pitch;
		*slice = error ? 0 : side->array->slice;
		return error;
	}
	if (side->type != CU_MEMORYTYPE_HOST && side->type != CU_MEMORYTYPE_DEVICE &&
	    side->type != CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	/* A pitch of 0 means rows without a gap. */
	side->pitch = side->pitch ? side->pitch : side->x + extent->width;
	side->height = side->height ? side->height : side->y + extent->height;
	*pitch = side->pitch;
	*slice = side->pitch * side->height;
	return find_linear(side, extent, place);
}

CUresult copybox_op(struct boxcopy *copy, struct op *op, struct place *dst, struct place *src)
{
	CUresult error;

	*op = (struct op){
		.kind = OP_COPY,
		.box = {
			.width = copy->extent.width,
			.height = copy->extent.height,
			.depth = copy->extent.depth,
		},
	};
	if (!copy->extent.width || !copy->extent.height || !copy->extent.depth)
		return CUDA_SUCCESS;
	error = find_side(&copy->dst, &copy->extent, dst, &op->box.dst_pitch, &op->box.dst_slice);
	if (error)
		return error;
	error = find_side(&copy->src, &copy->extent, src, &op->box.src_pitch, &op->box.src_slice);
	op->box.dst = dst->bytes;
	op->box.src = src->bytes;
	return error;
}

CUresult copybox_start(struct boxcopy *copy, CUstream handle, bool synchronous)
{
	struct place dst = {0}, src = {0};
	struct stream *stream;
	struct op op;
	CUresult error = copybox_op(copy, &op, &dst, &src);

	if (!error)
		error = stream_find(handle, &stream);
	return error ? error : copy_start(stream, &op, &dst, &src, synchronous);
}

/* ------------------------------------------------------------------ the driver's structures */

static size_t address_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
	return type == CU_MEMORYTYPE_HOST ? (size_t)host : (size_t)device;
}

static struct boxcopy from_2d(const CUDA_MEMCPY2D *c)
{
	return (struct boxcopy){
		.extent = {c->WidthInBytes, c->Height, 1},
		.dst = {
			.type = c->dstMemoryType,
			.address = address_of(c->dstMemoryType, c->dstHost, c->dstDevice),
			.array = (struct array *)c->dstArray,
			.x = c->dstXInBytes, .y = c->dstY, .pitch = c->dstPitch,
		},
		.src = {
			.type = c->srcMemoryType,
			.address = address_of(c->srcMemoryType, c->srcHost, c->srcDevice),
			.array = (struct array *)c->srcArray,
			.x = c->srcXInBytes, .y = c->srcY, .pitch = c->srcPitch,
		},
	};
}

struct boxcopy copybox_from_3d(const CUDA_MEMCPY3D *c)
{
	return (struct boxcopy){
		.extent = {c->WidthInBytes, c->Height, c->Depth},
		.dst = {
			.type = c->dstMemoryType,
			.address = address_of(c->dstMemoryType, c->dstHost, c->dstDevice),
			.array = (struct array *)c->dstArray,
			.x = c->dstXInBytes, .y = c->dstY, .z = c->dstZ,
			.pitch = c->dstPitch, .height = c->dstHeight,
		},
		.src = {
			.type = c->srcMemoryType,
			.address = address_of(c->srcMemoryType, c->srcHost, c->srcDevice),
			.array = (struct array *)c->srcArray,
			.x = c->srcXInBytes, .y = c->srcY, .z = c->srcZ,
			.pitch = c->srcPitch, .height = c->srcHeight,
		},
	};
}

static struct boxcopy from_peer(const CUDA_MEMCPY3D_PEER *c)
{
	return (struct boxcopy){
		.extent = {c->WidthInBytes, c->Height, c->Depth},
		.dst = {
			.type = c->dstMemoryType,
			.address = address_of(c->dstMemoryType, c->dstHost, c->dstDevice),
			.array = (struct array *)c->dstArray,
			.x = c->dstXInBytes, .y = c->dstY, .z = c->dstZ,
			.pitch = c->dstPitch, .height = c->dstHeight,
		},
		.src = {
			.type = c->srcMemoryType,
			.address = address_of(c->srcMemoryType, c->srcHost, c->srcDevice),
			.array = (struct array *)c->srcArray,
			.x = c->srcXInBytes, .y = c->srcY, .z = c->srcZ,
			.pitch = c->srcPitch, .height = c->srcHeight,
		},
	};
}

static CUresult start_2d(const CUDA_MEMCPY2D *pCopy, CUstream stream, bool synchronous)
{
	struct boxcopy copy;

	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	copy = from_2d(pCopy);
	return copybox_start(&copy, stream, synchronous);
}

static CUresult start_3d(const CUDA_MEMCPY3D *pCopy, CUstream stream, bool synchronous)
{
	struct boxcopy copy;

	if (!pCopy || pCopy->srcLOD || pCopy->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	copy = copybox_from_3d(pCopy);
	return copybox_start(&copy, stream, synchronous);
}

CUresult copybox_2d(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return start_2d(pCopy, hStream, true);
}

CUresult copybox_2d_async(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return start_2d(pCopy, hStream, false);
}

CUresult copybox_3d(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return start_3d(pCopy, hStream, true);
}

CUresult copybox_3d_async(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return start_3d(pCopy, hStream, false);
}

CUresult copybox_3d_peer_async(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	struct boxcopy copy;

	if (!pCopy || pCopy->srcLOD || pCopy->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	copy = from_peer(pCopy);
	return copybox_start(&copy, hStream, false);
}

CUresult copybox_3d_peer(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	return copybox_3d_peer_async(pCopy, hStream);
}
