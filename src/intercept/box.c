/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/box.h"

void box_of_2d(struct box *box, const CUDA_MEMCPY2D *copy)
{
	box->source = (struct box_side){ copy->srcMemoryType, copy->srcHost, copy->srcDevice,
					 copy->srcArray,
					 copy->srcY * copy->srcPitch + copy->srcXInBytes };
	box->target = (struct box_side){ copy->dstMemoryType, copy->dstHost, copy->dstDevice,
					 copy->dstArray,
					 copy->dstY * copy->dstPitch + copy->dstXInBytes };
	box->bytes = (uint64_t)copy->WidthInBytes * copy->Height;
}

void box_of_2d_v1(struct box *box, const CUDA_MEMCPY2D_v1 *copy)
{
	box_of_2d(box, &(CUDA_MEMCPY2D){
			       .srcXInBytes = copy->srcXInBytes,
			       .srcY = copy->srcY,
			       .srcMemoryType = copy->srcMemoryType,
			       .srcHost = copy->srcHost,
			       .srcDevice = copy->srcDevice,
			       .srcArray = copy->srcArray,
			       .srcPitch = copy->srcPitch,
			       .dstXInBytes = copy->dstXInBytes,
			       .dstY = copy->dstY,
			       .dstMemoryType = copy->dstMemoryType,
			       .dstHost = copy->dstHost,
			       .dstDevice = copy->dstDevice,
			       .dstArray = copy->dstArray,
			       .dstPitch = copy->dstPitch,
			       .WidthInBytes = copy->WidthInBytes,
			       .Height = copy->Height,
		       });
}

static uint64_t offset_3d(uint64_t x, uint64_t y, uint64_t z, uint64_t pitch, uint64_t height)
{
	return (z * height + y) * pitch + x;
}

/* One side of a copy within a context or between two: two types with the same names. */
#define SIDE_3D(copy, side)                                                                        \
	{ copy->side##MemoryType, copy->side##Host, copy->side##Device, copy->side##Array,         \
	  offset_3d(copy->side##XInBytes, copy->side##Y, copy->side##Z, copy->side##Pitch,         \
		    copy->side##Height) }

void box_of_3d(struct box *box, const CUDA_MEMCPY3D *copy)
{
	box->source = (struct box_side)SIDE_3D(copy, src);
	box->target = (struct box_side)SIDE_3D(copy, dst);
	box->bytes = (uint64_t)copy->WidthInBytes * copy->Height * copy->Depth;
}

void box_of_3d_v1(struct box *box, const CUDA_MEMCPY3D_v1 *copy)
{
	box_of_3d(box, &(CUDA_MEMCPY3D){
			       .srcXInBytes = copy->srcXInBytes,
			       .srcY = copy->srcY,
			       .srcZ = copy->srcZ,
			       .srcMemoryType = copy->srcMemoryType,
			       .srcHost = copy->srcHost,
			       .srcDevice = copy->srcDevice,
			       .srcArray = copy->srcArray,
			       .srcPitch = copy->srcPitch,
			       .srcHeight = copy->srcHeight,
			       .dstXInBytes = copy->dstXInBytes,
			       .dstY = copy->dstY,
			       .dstZ = copy->dstZ,
			       .dstMemoryType = copy->dstMemoryType,
			       .dstHost = copy->dstHost,
			       .dstDevice = copy->dstDevice,
			       .dstArray = copy->dstArray,
			       .dstPitch = copy->dstPitch,
			       .dstHeight = copy->dstHeight,
			       .WidthInBytes = copy->WidthInBytes,
			       .Height = copy->Height,
			       .Depth = copy->Depth,
		       });
}

void box_of_3d_peer(struct box *box, const CUDA_MEMCPY3D_PEER *copy)
{
	box->source = (struct box_side)SIDE_3D(copy, src);
	box->target = (struct box_side)SIDE_3D(copy, dst);
	box->bytes = (uint64_t)copy->WidthInBytes * copy->Height * copy->Depth;
}
