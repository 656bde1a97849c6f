/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of copies.  The legacy stream is refused, as measured. */
#include "sim.h"
#include "entries.h"
#include "copybox.h"

/* attrs[k] holds from entry attrsIdxs[k] on, to the next one's first. */
static CUresult check_attributes(const CUmemcpyAttributes *attrs, const size_t *attrsIdxs,
				 size_t numAttrs, size_t count)
{
	if (!attrs || !attrsIdxs || numAttrs == 0 || numAttrs > count || attrsIdxs[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t k = 0; k < numAttrs; k++) {
		if (k && attrsIdxs[k] <= attrsIdxs[k - 1])
			return CUDA_ERROR_INVALID_VALUE;
		if (attrsIdxs[k] >= count ||
		    attrs[k].srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_INVALID ||
		    attrs[k].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/*
 * A pageable source to be read in stream order holds the caller up; read during the
 * call, or at any time, it does not.  A pageable target never does, unlike that of
 * cuMemcpyDtoHAsync.
 */
static CUresult start_one(struct stream *stream, CUdeviceptr to, CUdeviceptr from, size_t bytes,
			  CUmemcpySrcAccessOrder order)
{
	struct place dst, src;
	struct op op;
	CUresult error = memory_host_place((void *)to, bytes, &dst);

	if (!error)
		error = memory_host_place((void *)from, bytes, &src);
	if (error)
		return error;
	op = copy_op(&dst, &src, bytes);
	context_pass_gate(stream->context);
	if (src.kind != PLACE_PAGEABLE)
		return queue_submit(stream, &op, NULL);
	if (order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
		return queue_run(stream, &op);
	error = copy_stage(&op);
	return error ? error : queue_submit(stream, &op, NULL);
}

static CUresult find_stream(CUstream handle, struct stream **stream)
{
	CUresult error;

	if (handle == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	error = stream_find(handle, stream);
	/* Refused on a stream that captures; the capture survives it, as measured. */
	if (!error && atomic_load(&(*stream)->capture))
		error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return error;
}

static CUresult start(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
		      CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
		      size_t *failIdx, CUstream handle)
{
	struct stream *stream;
	CUresult error = find_stream(handle, &stream);
	size_t k = 0, i;

	if (!error && (!dsts || !srcs || !sizes || count == 0))
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = check_attributes(attrs, attrsIdxs, numAttrs, count);
	if (failIdx)
		*failIdx = SIZE_MAX;
	for (i = 0; i < count && !error; i++) {
		while (k + 1 < numAttrs && attrsIdxs[k + 1] <= i)
			k++;
		if (sizes[i])
			error = start_one(stream, dsts[i], srcs[i], sizes[i],
					  attrs[k].srcAccessOrder);
		if (error && failIdx)
			*failIdx = i;
	}
	return error;
}

CUresult copybatch_start(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			 CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
			 CUstream hStream)
{
	return start(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, NULL, hStream);
}

CUresult copybatch_start_old(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			     CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
			     size_t *failIdx, CUstream hStream)
{
	return start(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream);
}

/* ------------------------------------------------------------------ three dimensions */

static struct side side_of(const CUmemcpy3DOperand *operand)
{
	if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return (struct side){
			.type = CU_MEMORYTYPE_ARRAY,
			.array = (struct array *)operand->op.array.array,
			.x = operand->op.array.offset.x, .y = operand->op.array.offset.y,
			.z = operand->op.array.offset.z,
		};
	return (struct side){
		.type = CU_MEMORYTYPE_UNIFIED, .address = operand->op.ptr.ptr,
		.pitch = operand->op.ptr.rowLength, .height = operand->op.ptr.layerHeight,
	};
}

static CUresult start_boxes(size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failIdx,
			    unsigned long long flags, CUstream handle)
{
	struct stream *stream;
	CUresult error = find_stream(handle, &stream);

	if (!error && (!list || count == 0 || flags))
		error = CUDA_ERROR_INVALID_VALUE;
	if (failIdx)
		*failIdx = SIZE_MAX;
	for (size_t i = 0; i < count && !error; i++) {
		struct boxcopy copy = {
			.extent = {list[i].extent.width, list[i].extent.height,
				   list[i].extent.depth},
			.dst = side_of(&list[i].dst),
			.src = side_of(&list[i].src),
		};

		error = copybox_start(&copy, (CUstream)stream, false);
		if (error && failIdx)
			*failIdx = i;
	}
	return error;
}

CUresult copybatch_start_3d(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
			    unsigned long long flags, CUstream hStream)
{
	return start_boxes(numOps, opList, NULL, flags, hStream);
}

CUresult copybatch_start_3d_old(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
				unsigned long long flags, CUstream hStream)
{
	return start_boxes(numOps, opList, failIdx, flags, hStream);
}
