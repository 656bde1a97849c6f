/* SPDX-License-Identifier: Apache-2.0 */
/* One-dimensional copies, and the rules of who waits for which copy. */
#include "sim.h"
#include "entries.h"

static bool is_host(const struct place *place)
{
	return place->kind == PLACE_PAGEABLE || place->kind == PLACE_PINNED;
}

static bool wants_sync(const struct place *place, const struct context *context)
{
	return (context->flags & CU_CTX_SYNC_MEMOPS) ||
	       (place->block && atomic_load(&place->block->sync_memops));
}

static size_t box_bytes(const struct box *box)
{
	return box->width * box->height * box->depth;
}

/* Device to device returns at once; anything with the host in it waits. */
static bool sync_call_waits(const struct place *dst, const struct place *src)
{
	const bool near = dst->kind == PLACE_DEVICE || dst->kind == PLACE_ARRAY;
	const bool far = src->kind == PLACE_DEVICE || src->kind == PLACE_ARRAY;

	return !(near && far);
}

static bool async_call_waits(const struct place *dst, const struct place *src, size_t bytes)
{
	if (is_host(dst) && is_host(src))
		return true;
	if (dst->kind == PLACE_PAGEABLE)
		return true;
	return src->kind == PLACE_PAGEABLE && bytes > STAGE_MAX;
}

CUresult copy_stage(struct op *op)
{
	struct box *box = &op->box;
	char *bytes = malloc(box_bytes(box)), *to = bytes;

	if (!bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t z = 0; z < box->depth; z++)
		for (size_t y = 0; y < box->height; y++, to += box->width)
			memcpy(to, box->src + z * box->src_slice + y * box->src_pitch, box->width);
	op->staged = bytes;
	box->src = bytes;
	box->src_pitch = box->width;
	box->src_slice = box->width * box->height;
	return CUDA_SUCCESS;
}

/* What captures say; the op is the caller's still when that is nothing. */
static CUresult check_captures(struct stream *stream, bool synchronous)
{
	CUresult error = capture_check_legacy(stream);

	return error || !synchronous ? error : capture_check_stream(stream);
}

static bool call_waits(const struct context *context, const struct place *dst,
		       const struct place *src, size_t bytes, bool synchronous)
{
	if (!synchronous)
		return async_call_waits(dst, src, bytes);
	return sync_call_waits(dst, src) || wants_sync(dst, context) || wants_sync(src, context);
}

CUresult copy_start(struct stream *stream, struct op *op, const struct place *dst,
		    const struct place *src, bool synchronous)
{
	size_t bytes = box_bytes(&op->box);
	CUresult error = check_captures(stream, synchronous);

	op->box.dst = dst->bytes;
	op->box.src = src->bytes;
	if (error || bytes == 0) {
		op_release(op);
		return error;
	}
	if (capture_takes_copy(stream, op, dst, src, &error))
		return error;
	context_pass_gate(stream->context);
	if (call_waits(stream->context, dst, src, bytes, synchronous))
		return queue_run(stream, op);
	if (src->kind == PLACE_PAGEABLE)
		error = copy_stage(op);
	if (!error)
		return queue_submit(stream, op, NULL);
	op_release(op);
	return error;
}

struct op copy_op(const struct place *dst, const struct place *src, size_t bytes)
{
	return (struct op){
		.kind = OP_COPY,
		.box = {
			.dst = dst->bytes,
			.src = src->bytes,
			.width = bytes,
			.height = 1,
			.depth = 1,
		},
	};
}

static CUresult start_flat(const struct place *dst, const struct place *src, size_t bytes,
			   CUstream handle, bool synchronous)
{
	struct op op = copy_op(dst, src, bytes);
	struct stream *stream;
	CUresult error = stream_find(handle, &stream);

	return error ? error : copy_start(stream, &op, dst, src, synchronous);
}

/* ------------------------------------------------------------------ by direction */

static CUresult host_to_device(CUdeviceptr to, const void *from, size_t bytes, CUstream stream,
			       bool synchronous)
{
	struct place dst, src;
	CUresult error;

	if (bytes == 0)
		return CUDA_SUCCESS;
	error = memory_place(to, bytes, &dst);
	if (!error)
		error = memory_host_place(from, bytes, &src);
	return error ? error : start_flat(&dst, &src, bytes, stream, synchronous);
}

static CUresult device_to_host(void *to, CUdeviceptr from, size_t bytes, CUstream stream,
			       bool synchronous)
{
	struct place dst, src;
	CUresult error;

	if (bytes == 0)
		return CUDA_SUCCESS;
	error = memory_place(from, bytes, &src);
	if (!error)
		error = memory_host_place(to, bytes, &dst);
	return error ? error : start_flat(&dst, &src, bytes, stream, synchronous);
}

static CUresult device_to_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
				 bool synchronous)
{
	struct place dst, src;
	CUresult error;

	if (bytes == 0)
		return CUDA_SUCCESS;
	error = memory_place(to, bytes, &dst);
	if (!error)
		error = memory_place(from, bytes, &src);
	return error ? error : start_flat(&dst, &src, bytes, stream, synchronous);
}

/* Unified addressing: the addresses say which way. */
static CUresult anywhere(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
			 bool synchronous)
{
	struct place dst, src;
	CUresult error;

	if (bytes == 0)
		return CUDA_SUCCESS;
	error = memory_host_place((void *)to, bytes, &dst);
	if (!error)
		error = memory_host_place((void *)from, bytes, &src);
	return error ? error : start_flat(&dst, &src, bytes, stream, synchronous);
}

CUresult copy_htod(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return host_to_device(dstDevice, srcHost, ByteCount, hStream, true);
}

CUresult copy_htod_async(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
			 CUstream hStream)
{
	return host_to_device(dstDevice, srcHost, ByteCount, hStream, false);
}

CUresult copy_dtoh(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return device_to_host(dstHost, srcDevice, ByteCount, hStream, true);
}

CUresult copy_dtoh_async(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return device_to_host(dstHost, srcDevice, ByteCount, hStream, false);
}

CUresult copy_dtod(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return device_to_device(dstDevice, srcDevice, ByteCount, hStream, true);
}

CUresult copy_dtod_async(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
			 CUstream hStream)
{
	return device_to_device(dstDevice, srcDevice, ByteCount, hStream, false);
}

CUresult copy_any(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return anywhere(dst, src, ByteCount, hStream, true);
}

CUresult copy_any_async(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return anywhere(dst, src, ByteCount, hStream, false);
}

/* Peer copies do not hold up the host, whichever form. */
CUresult copy_peer_async(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
			 CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	struct stream *stream;
	CUresult error = context_check(dstContext);

	if (!error)
		error = context_check(srcContext);
	if (!error)
		error = stream_find(hStream, &stream);
	/* Measured: it does not become a node, and the capture is lost. */
	if (!error)
		error = capture_check_stream(stream);
	return error ? error : device_to_device(dstDevice, srcDevice, ByteCount, hStream, false);
}

/* This form also stands behind all work of both contexts. */
CUresult copy_peer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
		   CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	struct place dst, src;
	struct stream *stream;
	struct op op;
	CUresult error = context_check(dstContext);

	if (!error)
		error = context_check(srcContext);
	if (!error)
		error = stream_find(hStream, &stream);
	if (error || ByteCount == 0)
		return error;
	error = memory_place(dstDevice, ByteCount, &dst);
	if (!error)
		error = memory_place(srcDevice, ByteCount, &src);
	if (error)
		return error;
	op = copy_op(&dst, &src, ByteCount);
	context_stand_behind((struct context *)dstContext, &op);
	context_stand_behind((struct context *)srcContext, &op);
	return copy_start(stream, &op, &dst, &src, false);
}
