/* SPDX-License-Identifier: Apache-2.0 */
/* Memsets of every width; width and pitch as the driver counts them. */
#include "sim.h"
#include "entries.h"

struct fill {
	CUdeviceptr to;
	size_t pitch, width, height;	/* width in elements */
	uint32_t value;
	unsigned element;
};

/* The synchronous form returns at once on device memory and waits on host memory. */
static bool waits(const struct place *place, const struct context *context)
{
	return place->kind != PLACE_DEVICE || (context->flags & CU_CTX_SYNC_MEMOPS) ||
	       atomic_load(&place->block->sync_memops);
}

static CUresult find_place(const struct fill *fill, struct place *place)
{
	size_t row = fill->width * fill->element, bytes;

	if (fill->to % fill->element || fill->width > SIZE_MAX / fill->element)
		return CUDA_ERROR_INVALID_VALUE;
	if (fill->height > 1 && (fill->pitch < row || fill->pitch % fill->element))
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(fill->height - 1, fill->pitch, &bytes) ||
	    __builtin_add_overflow(bytes, row, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return memory_place(fill->to, bytes, place);
}

static CUresult start(const struct fill *fill, CUstream handle, bool synchronous)
{
	struct op op = { .kind = OP_FILL };
	struct stream *stream;
	struct place place;
	CUresult error = stream_find(handle, &stream);

	if (!error)
		error = capture_check_legacy(stream);
	if (!error && synchronous)
		error = capture_check_stream(stream);
	if (error || fill->width == 0 || fill->height == 0)
		return error;
	error = find_place(fill, &place);
	if (error)
		return error;
	op.box.dst = place.bytes;
	op.box.src = (const char *)fill->to;
	op.box.dst_pitch = fill->pitch;
	op.box.width = fill->width;
	op.box.height = fill->height;
	op.box.depth = 1;
	op.value = fill->value;
	op.element = fill->element;
	if (capture_takes(stream, &op, &error))
		return error;
	context_pass_gate(stream->context);
	if (synchronous && waits(&place, stream->context))
		return queue_run(stream, &op);
	return queue_submit(stream, &op, NULL);
}

static CUresult start_flat(CUdeviceptr to, uint32_t value, unsigned element, size_t n,
			   CUstream stream, bool synchronous)
{
	const struct fill fill = {to, 0, n, 1, value, element};

	return start(&fill, stream, synchronous);
}

CUresult memset_8(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return start_flat(dstDevice, uc, 1, N, hStream, true);
}

CUresult memset_8_async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return start_flat(dstDevice, uc, 1, N, hStream, false);
}

CUresult memset_16(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return start_flat(dstDevice, us, 2, N, hStream, true);
}

CUresult memset_16_async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return start_flat(dstDevice, us, 2, N, hStream, false);
}

CUresult memset_32(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return start_flat(dstDevice, ui, 4, N, hStream, true);
}

CUresult memset_32_async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return start_flat(dstDevice, ui, 4, N, hStream, false);
}

CUresult memset_2d_8(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
		     size_t Height, CUstream hStream)
{
	const struct fill fill = {dstDevice, dstPitch, Width, Height, uc, 1};

	return start(&fill, hStream, true);
}

CUresult memset_2d_8_async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
			   size_t Height, CUstream hStream)
{
	const struct fill fill = {dstDevice, dstPitch, Width, Height, uc, 1};

	return start(&fill, hStream, false);
}

CUresult memset_2d_16(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
		      size_t Height, CUstream hStream)
{
	const struct fill fill = {dstDevice, dstPitch, Width, Height, us, 2};

	return start(&fill, hStream, true);
}

CUresult memset_2d_16_async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
			    size_t Width, size_t Height, CUstream hStream)
{
	const struct fill fill = {dstDevice, dstPitch, Width, Height, us, 2};

	return start(&fill, hStream, false);
}

CUresult memset_2d_32(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
		      size_t Height, CUstream hStream)
{
	const struct fill fill = {dstDevice, dstPitch, Width, Height, ui, 4};

	return start(&fill, hStream, true);
}

CUresult memset_2d_32_async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
			    size_t Height, CUstream hStream)
{
	const struct fill fill = {dstDevice, dstPitch, Width, Height, ui, 4};

	return start(&fill, hStream, false);
}
