/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays have no address: their handle is the block.  What they take is the
 * driver's secret; recorded is what their shape needs at least.
 */
#include "intercept/current.h"
#include "intercept/deferral.h"
#include "intercept/hold.h"
#include "intercept/hook.h"

/* Formats whose element is one number for each channel. */
static unsigned int channel_bits(unsigned int format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 8;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 16;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 32;
	default:
		return 0;
	}
}

/* Formats that say themselves how many bits an element has, all channels and planes together. */
static unsigned int element_bits(unsigned int format)
{
	switch (format) {
	case CU_AD_FORMAT_BC1_UNORM:
	case CU_AD_FORMAT_BC1_UNORM_SRGB:
	case CU_AD_FORMAT_BC4_UNORM:
	case CU_AD_FORMAT_BC4_SNORM:
		return 4;
	case CU_AD_FORMAT_UNORM_INT8X1:
	case CU_AD_FORMAT_SNORM_INT8X1:
		return 8;
	case CU_AD_FORMAT_NV12:
		return 12;
	case CU_AD_FORMAT_UNORM_INT8X2:
	case CU_AD_FORMAT_SNORM_INT8X2:
	case CU_AD_FORMAT_UNORM_INT16X1:
	case CU_AD_FORMAT_SNORM_INT16X1:
	case CU_AD_FORMAT_NV16:
	case CU_AD_FORMAT_YUY2:
		return 16;
	case CU_AD_FORMAT_P010:
	case CU_AD_FORMAT_P016:
	case CU_AD_FORMAT_Y444_PLANAR8:
	case CU_AD_FORMAT_YUV444_8bit_SemiPlanar:
		return 24;
	case CU_AD_FORMAT_Y444_PLANAR10:
	case CU_AD_FORMAT_YUV444_16bit_SemiPlanar:
		return 48;
	case CU_AD_FORMAT_UNORM_INT16X4:
	case CU_AD_FORMAT_SNORM_INT16X4:
	case CU_AD_FORMAT_Y416:
		return 64;
	default: /* the other block-compressed formats have one byte, all the rest four */
		return format >= CU_AD_FORMAT_BC2_UNORM && format <= CU_AD_FORMAT_BC7_UNORM_SRGB ?
			       8 :
			       32;
	}
}

static uint64_t bits_of(unsigned int format, unsigned int channels)
{
	unsigned int bits = channel_bits(format);

	return bits ? (uint64_t)bits * channels : element_bits(format);
}

uint64_t hook_array_element_bytes(unsigned int format, unsigned int channels)
{
	return (bits_of(format, channels) + 7) / 8;
}

static uint64_t at_least_one(uint64_t extent)
{
	return extent ? extent : 1;
}

/* Sparse arrays, and those mapped later, take nothing yet. */
static uint64_t shape_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	if (shape->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	return shape->Width * at_least_one(shape->Height) * at_least_one(shape->Depth) *
	       bits_of(shape->Format, shape->NumChannels) / 8;
}

/* `owner` is the handle of what the bytes belong to, 0: to the array. */
static void begin_array(struct call *call, uint64_t handle, uint64_t bytes, uint64_t owner)
{
	const struct current *now = current_ask();

	block_begin(call, &(struct block_facts){
				  .kind = BLOCK_ARRAY,
				  .space = SPACE_ARRAY,
				  .address = handle,
				  .bytes = bytes,
				  .parent = owner,
				  .context = now->number,
				  .device = now->device,
				  .flags = owner ? RECORD_VIEW : 0,
			  });
}

/* A description is read where the driver is known to have read it. */
static bool is_readable(const struct call *call, const void *shape)
{
	return call->result == CUDA_SUCCESS && shape;
}

void hook_array_create_3d(struct call *call, uint64_t handle, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	begin_array(call, handle, is_readable(call, shape) ? shape_bytes(shape) : 0, 0);
}

void hook_array_create_3d_v1(struct call *call, uint64_t handle,
			     const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR wide = { 0 };

	if (is_readable(call, shape))
		wide = (CUDA_ARRAY3D_DESCRIPTOR){
			.Width = shape->Width,
			.Height = shape->Height,
			.Depth = shape->Depth,
			.Format = shape->Format,
			.NumChannels = shape->NumChannels,
			.Flags = shape->Flags,
		};
	hook_array_create_3d(call, handle, &wide);
}

void hook_array_create(struct call *call, uint64_t handle, const CUDA_ARRAY_DESCRIPTOR *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR deep = { 0 };

	if (is_readable(call, shape))
		deep = (CUDA_ARRAY3D_DESCRIPTOR){
			.Width = shape->Width,
			.Height = shape->Height,
			.Format = shape->Format,
			.NumChannels = shape->NumChannels,
		};
	hook_array_create_3d(call, handle, &deep);
}

void hook_array_create_v1(struct call *call, uint64_t handle, const CUDA_ARRAY_DESCRIPTOR_v1 *shape)
{
	CUDA_ARRAY_DESCRIPTOR wide = { 0 };

	if (is_readable(call, shape))
		wide = (CUDA_ARRAY_DESCRIPTOR){ shape->Width, shape->Height, shape->Format,
						shape->NumChannels };
	hook_array_create(call, handle, &wide);
}

/* Layers of a layered array stay as they are from level to level; other extents halve. */
uint64_t hook_array_bytes(CUDA_ARRAY3D_DESCRIPTOR shape, unsigned int levels)
{
	bool has_layers = shape.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < levels && i < 64; i++) {
		bytes += shape_bytes(&shape);
		shape.Width = at_least_one(shape.Width / 2);
		if (shape.Height)
			shape.Height = at_least_one(shape.Height / 2);
		if (shape.Depth && !has_layers)
			shape.Depth = at_least_one(shape.Depth / 2);
	}
	return bytes;
}

void hook_array_create_mipmapped(struct call *call, uint64_t handle,
				 const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	begin_array(call, handle, is_readable(call, shape) ? hook_array_bytes(*shape, levels) : 0,
		    0);
}

/* The bytes are another interface's: an array that no sum counts. */
void hook_array_external(struct call *call, uint64_t handle, uint64_t memory,
			 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmap)
{
	uint64_t bytes = 0;

	if (is_readable(call, mipmap))
		bytes = hook_array_bytes(mipmap->arrayDesc, mipmap->numLevels);
	begin_array(call, handle, bytes, memory);
}

/* One that holds memory of handles is not put off: they must not seem free before it is. */
bool hook_array_destroy_defer(struct call *call, uint64_t handle)
{
	enum deferq_kind kind = call->api == API_cuMipmappedArrayDestroy ? DEFERQ_MIPMAPPED_ARRAY :
									   DEFERQ_ARRAY;
	struct block block;

	return handle && !hold_has(handle) && tracker_find(SPACE_ARRAY, handle, &block) &&
	       deferral_free(call, &block, kind);
}

void hook_array_destroy_before(struct call *call, uint64_t handle)
{
	block_take(call, SPACE_ARRAY, handle);
}

void hook_array_destroy_after(struct call *call, uint64_t handle)
{
	block_end(call, handle, STREAM_NONE);
	if (call->result == CUDA_SUCCESS)
		hook_hold_end(call, handle, NULL);
}
