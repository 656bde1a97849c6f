/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/hook_copy.h"
#include "core/context.h"
#include "intercept/box.h"
#include "intercept/copy_end.h"
#include "intercept/hook.h"
#include "intercept/real.h"

#include <errno.h>

struct copy {
	struct copy_end source;
	struct copy_end target;
	uint64_t bytes;
};

static void write_copy(struct call *call, const struct copy *copy, uint64_t stream, int is_async)
{
	enum transfer_kind kind = copy_end_kind(&copy->source, &copy->target);

	copy_write(call, AUX_TRANSFER(kind, copy->source.place, copy->target.place, is_async),
		   copy->source.address, copy->target.address, copy->bytes, stream);
}

void hook_copy_inferred(struct call *call, uint64_t source, uint64_t target, uint64_t bytes,
			uint64_t stream, int is_async)
{
	struct copy copy = { copy_end_infer(source), copy_end_infer(target), bytes };

	write_copy(call, &copy, stream, is_async);
}

static int device_of_context(uint64_t handle)
{
	struct context context;

	return context_find(handle, &context) ? context.device : -1;
}

void hook_copy_peer(struct call *call, uint64_t source, uint64_t source_context, uint64_t target,
		    uint64_t target_context, uint64_t bytes, uint64_t stream, int is_async)
{
	int from = device_of_context(source_context), to = device_of_context(target_context);
	bool is_one_device = from >= 0 && from == to;

	copy_write(call, AUX_TRANSFER(is_one_device ? TRANSFER_D2D : TRANSFER_P2P, 0, 0, is_async),
		   source, target, bytes, stream);
}

/* Without a description there is nothing to tell but that the call was made. */
static bool is_described(struct call *call, const void *description, uint64_t stream, int is_async)
{
	static const struct copy nothing = { .source.device = -1, .target.device = -1 };

	if (call->result == CUDA_SUCCESS && description)
		return true;
	write_copy(call, &nothing, stream, is_async);
	return false;
}

static void write_box(struct call *call, const struct box *box, uint64_t stream, int is_async)
{
	struct copy copy = { copy_end_of(&box->source), copy_end_of(&box->target), box->bytes };

	write_copy(call, &copy, stream, is_async);
}

void hook_copy_2d(struct call *call, const CUDA_MEMCPY2D *copy, uint64_t stream, int is_async)
{
	struct box box;

	if (!is_described(call, copy, stream, is_async))
		return;
	box_of_2d(&box, copy);
	write_box(call, &box, stream, is_async);
}

void hook_copy_2d_v1(struct call *call, const CUDA_MEMCPY2D_v1 *copy, uint64_t stream, int is_async)
{
	struct box box;

	if (!is_described(call, copy, stream, is_async))
		return;
	box_of_2d_v1(&box, copy);
	write_box(call, &box, stream, is_async);
}

void hook_copy_3d(struct call *call, const CUDA_MEMCPY3D *copy, uint64_t stream, int is_async)
{
	struct box box;

	if (!is_described(call, copy, stream, is_async))
		return;
	box_of_3d(&box, copy);
	write_box(call, &box, stream, is_async);
}

void hook_copy_3d_v1(struct call *call, const CUDA_MEMCPY3D_v1 *copy, uint64_t stream, int is_async)
{
	struct box box;

	if (!is_described(call, copy, stream, is_async))
		return;
	box_of_3d_v1(&box, copy);
	write_box(call, &box, stream, is_async);
}

/* The contexts decide which devices take part. */
void hook_copy_3d_peer(struct call *call, const CUDA_MEMCPY3D_PEER *peer, uint64_t stream,
		       int is_async)
{
	struct copy copy;
	struct box box;

	if (!is_described(call, peer, stream, is_async))
		return;
	box_of_3d_peer(&box, peer);
	copy = (struct copy){ copy_end_of(&box.source), copy_end_of(&box.target), box.bytes };
	if (copy.source.device < 0)
		copy.source.device = device_of_context((uintptr_t)peer->srcContext);
	if (copy.target.device < 0)
		copy.target.device = device_of_context((uintptr_t)peer->dstContext);
	write_copy(call, &copy, stream, is_async);
}

/* A batch that failed is one call and one failure, whatever it held. */
void hook_copy_batch(struct call *call, const CUdeviceptr *targets, const CUdeviceptr *sources,
		     const size_t *bytes, size_t count, uint64_t stream)
{
	bool is_whole = count && targets && sources && bytes;

	if (!is_described(call, is_whole ? targets : NULL, stream, 1))
		return;
	for (size_t i = 0; i < count; i++) {
		struct copy copy = { copy_end_infer(sources[i]), copy_end_infer(targets[i]),
				     bytes[i] };

		write_copy(call, &copy, stream, 1);
	}
}

/* The extent of a batched copy counts elements; where an array takes part they are its own. */
static uint64_t element_bytes(const CUmemcpy3DOperand *operand)
{
	CUDA_ARRAY3D_DESCRIPTOR shape;
	int saved_errno = errno;
	CUresult result;

	if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return 1;
	result = REAL(driver, cuArray3DGetDescriptor_v2)(&shape, operand->op.array.array);
	errno = saved_errno;
	return result == CUDA_SUCCESS ? hook_array_element_bytes(shape.Format, shape.NumChannels) :
					1;
}

static struct copy_end end_of_operand(const CUmemcpy3DOperand *operand)
{
	if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return copy_end_infer(operand->op.ptr.ptr);
	return (struct copy_end){ (uintptr_t)operand->op.array.array, COPY_SIDE_DEVICE, PLACE_ARRAY,
				  -1 };
}

void hook_copy_3d_batch(struct call *call, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count,
			uint64_t stream)
{
	if (!is_described(call, count ? list : NULL, stream, 1))
		return;
	for (size_t i = 0; i < count; i++) {
		const CUDA_MEMCPY3D_BATCH_OP *op = &list[i];
		uint64_t element = element_bytes(&op->src);
		struct copy copy = { end_of_operand(&op->src), end_of_operand(&op->dst), 0 };

		if (element == 1)
			element = element_bytes(&op->dst);
		copy.bytes = element * op->extent.width * op->extent.height * op->extent.depth;
		write_copy(call, &copy, stream, 1);
	}
}

/* What comes out is known only when the device is done; recorded is what goes in. */
void hook_copy_decompress(struct call *call, const CUmemDecompressParams *list, size_t count,
			  uint64_t stream)
{
	bool is_read = call->result == CUDA_SUCCESS && count && list;
	uint64_t bytes = 0;

	for (size_t i = 0; is_read && i < count; i++)
		bytes += list[i].srcNumBytes;
	hook_operation(call, is_read ? (uintptr_t)list[0].src : 0,
		       is_read ? (uintptr_t)list[0].dst : 0, bytes, stream);
}

void hook_copy_prefetch(struct call *call, uint64_t address, uint64_t bytes, uint64_t stream)
{
	copy_write(call, AUX_TRANSFER(TRANSFER_PREFETCH, 0, 0, 1), address, address, bytes, stream);
}

void hook_copy_prefetch_batch(struct call *call, const CUdeviceptr *addresses, const size_t *bytes,
			      size_t count, uint64_t stream)
{
	if (call->result != CUDA_SUCCESS || !count || !addresses || !bytes) {
		hook_copy_prefetch(call, 0, 0, stream);
		return;
	}
	for (size_t i = 0; i < count; i++)
		hook_copy_prefetch(call, addresses[i], bytes[i], stream);
}
