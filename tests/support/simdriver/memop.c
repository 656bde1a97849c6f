/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that write a word of memory, or wait until one has a value. */
#include "sim.h"
#include "entries.h"

enum { BATCH_MAX = 256 };

static CUresult start(CUstream handle, enum op_kind kind, CUdeviceptr addr, uint64_t value,
		      unsigned bytes, unsigned flags)
{
	struct op op = { .kind = kind, .word_value = value, .word_bytes = bytes,
			 .word_flags = flags };
	struct stream *stream;
	struct place place;
	CUresult error = stream_find(handle, &stream);

	if (!error && addr % bytes)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = memory_place(addr, bytes, &place);
	if (!error)
		error = capture_check_legacy(stream);
	if (error)
		return error;
	op.word = place.bytes;
	if (capture_takes(stream, &op, &error))
		return error;
	context_pass_gate(stream->context);
	return queue_submit(stream, &op, NULL);
}

CUresult memop_wait_32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
	return start(stream, OP_WAIT_VALUE, addr, value, 4, flags);
}

CUresult memop_wait_64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
	return start(stream, OP_WAIT_VALUE, addr, value, 8, flags);
}

CUresult memop_write_32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
	return start(stream, OP_WRITE_VALUE, addr, value, 4, flags);
}

CUresult memop_write_64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
	return start(stream, OP_WRITE_VALUE, addr, value, 8, flags);
}

static CUresult start_one(CUstream stream, const CUstreamBatchMemOpParams *p)
{
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return memop_wait_32(stream, p->waitValue.address, p->waitValue.value,
				     p->waitValue.flags);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return memop_wait_64(stream, p->waitValue.address, p->waitValue.value64,
				     p->waitValue.flags);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return memop_write_32(stream, p->writeValue.address, p->writeValue.value,
				      p->writeValue.flags);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return memop_write_64(stream, p->writeValue.address, p->writeValue.value64,
				      p->writeValue.flags);
	case CU_STREAM_MEM_OP_BARRIER:
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_SUCCESS;	/* ops of a stream are in order here anyway */
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult memop_batch(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
		     unsigned int flags)
{
	CUresult error = CUDA_SUCCESS;

	if (!paramArray || count > BATCH_MAX || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && !error; i++)
		error = start_one(stream, &paramArray[i]);
	return error;
}
