/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/hook_guard.h"
#include "intercept/box.h"
#include "intercept/capture.h"

/* What an address stands for, by the function that is given it. */
enum role { ON_DEVICE, ON_HOST, UNIFIED, AN_ARRAY };

static bool note(struct call *call, enum finding_kind finding, uint64_t named)
{
	call->finding = (uint8_t)finding;
	call->named = named;
	call->has_taken = false;
	return true;
}

/*
 * Page-locked memory that was freed is pageable memory to the driver, if it is
 * anything.  As the host's side of a copy it is not refused: bare, the copy
 * would crash or read what lies there now, here it reads what was left there.
 */
static bool is_lost(const struct block *block, enum role role)
{
	return block->kind != BLOCK_PINNED || role == ON_DEVICE || role == AN_ARRAY;
}

static bool names_lost(struct call *call, enum role role, uint64_t named)
{
	return pending_find(role == AN_ARRAY ? SPACE_ARRAY : SPACE_ADDRESS, named, &call->taken) &&
	       is_lost(&call->taken, role) && note(call, FINDING_USE_AFTER_FREE, named);
}

bool hook_guard_address(struct call *call, uint64_t address)
{
	return names_lost(call, ON_DEVICE, address);
}

/* An address inside of a block is refused by the driver itself. */
bool hook_guard_free(struct call *call, uint64_t address)
{
	return pending_find(SPACE_ADDRESS, address, &call->taken) &&
	       call->taken.address == address && note(call, FINDING_DOUBLE_FREE, address);
}

static enum role source_role(enum transfer_kind kind)
{
	return kind == TRANSFER_H2D || kind == TRANSFER_H2H ? ON_HOST : ON_DEVICE;
}

static enum role target_role(enum transfer_kind kind)
{
	return kind == TRANSFER_D2H || kind == TRANSFER_H2H ? ON_HOST : ON_DEVICE;
}

bool hook_guard_either(struct call *call, enum transfer_kind kind, uint64_t source, uint64_t target)
{
	return names_lost(call, source_role(kind), source) ||
	       names_lost(call, target_role(kind), target);
}

bool hook_guard_inferred(struct call *call, uint64_t source, uint64_t target, uint64_t bytes)
{
	return bytes && (names_lost(call, UNIFIED, source) || names_lost(call, UNIFIED, target));
}

bool hook_guard_array(struct call *call, uint16_t aux, uint64_t source, uint64_t target,
		      uint64_t bytes)
{
	const struct record record = { .aux = aux };
	enum transfer_kind kind = record_transfer_kind(&record);
	bool is_from = record_source_place(&record) == PLACE_ARRAY;
	bool is_to = record_target_place(&record) == PLACE_ARRAY;

	return bytes && (names_lost(call, is_from ? AN_ARRAY : source_role(kind), source) ||
			 names_lost(call, is_to ? AN_ARRAY : target_role(kind), target));
}

/* Captured, a fill is taken as it is: the driver looks at the address at launch, if ever. */
bool hook_guard_fill(struct call *call, uint64_t target, uint64_t bytes, uint64_t stream)
{
	return bytes && names_lost(call, ON_DEVICE, target) && !capture_flag(stream);
}

static bool side_is_lost(struct call *call, const struct box_side *side)
{
	switch (side->type) {
	case CU_MEMORYTYPE_HOST:
		return names_lost(call, ON_HOST, (uintptr_t)side->host + side->offset);
	case CU_MEMORYTYPE_DEVICE:
		return names_lost(call, ON_DEVICE, side->device + side->offset);
	case CU_MEMORYTYPE_ARRAY:
		return names_lost(call, AN_ARRAY, (uintptr_t)side->array);
	case CU_MEMORYTYPE_UNIFIED:
		return names_lost(call, UNIFIED, side->device + side->offset);
	default:
		return false;
	}
}

static bool box_is_lost(struct call *call, const struct box *box)
{
	return box->bytes && (side_is_lost(call, &box->source) || side_is_lost(call, &box->target));
}

bool hook_guard_2d(struct call *call, const CUDA_MEMCPY2D *copy)
{
	struct box box;

	if (!copy)
		return false;
	box_of_2d(&box, copy);
	return box_is_lost(call, &box);
}

bool hook_guard_2d_v1(struct call *call, const CUDA_MEMCPY2D_v1 *copy)
{
	struct box box;

	if (!copy)
		return false;
	box_of_2d_v1(&box, copy);
	return box_is_lost(call, &box);
}

bool hook_guard_3d(struct call *call, const CUDA_MEMCPY3D *copy)
{
	struct box box;

	if (!copy)
		return false;
	box_of_3d(&box, copy);
	return box_is_lost(call, &box);
}

bool hook_guard_3d_v1(struct call *call, const CUDA_MEMCPY3D_v1 *copy)
{
	struct box box;

	if (!copy)
		return false;
	box_of_3d_v1(&box, copy);
	return box_is_lost(call, &box);
}

bool hook_guard_3d_peer(struct call *call, const CUDA_MEMCPY3D_PEER *copy)
{
	struct box box;

	if (!copy)
		return false;
	box_of_3d_peer(&box, copy);
	return box_is_lost(call, &box);
}

static bool tell_number(size_t *failed, size_t number)
{
	if (failed)
		*failed = number;
	return true;
}

bool hook_guard_batch(struct call *call, const CUdeviceptr *targets, const CUdeviceptr *sources,
		      size_t count, size_t *failed)
{
	for (size_t i = 0; targets && sources && i < count; i++)
		if (names_lost(call, UNIFIED, sources[i]) || names_lost(call, UNIFIED, targets[i]))
			return tell_number(failed, i);
	return false;
}

static bool operand_is_lost(struct call *call, const CUmemcpy3DOperand *operand)
{
	if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return names_lost(call, AN_ARRAY, (uintptr_t)operand->op.array.array);
	return names_lost(call, UNIFIED, operand->op.ptr.ptr);
}

bool hook_guard_3d_batch(struct call *call, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count,
			 size_t *failed)
{
	for (size_t i = 0; list && i < count; i++)
		if (operand_is_lost(call, &list[i].src) || operand_is_lost(call, &list[i].dst))
			return tell_number(failed, i);
	return false;
}

bool hook_guard_decompress(struct call *call, const CUmemDecompressParams *list, size_t count,
			   size_t *failed)
{
	for (size_t i = 0; list && i < count; i++)
		if (names_lost(call, ON_DEVICE, (uintptr_t)list[i].src) ||
		    names_lost(call, ON_DEVICE, (uintptr_t)list[i].dst) ||
		    names_lost(call, ON_DEVICE, (uintptr_t)list[i].dstActBytes))
			return tell_number(failed, i);
	return false;
}

bool hook_guard_list(struct call *call, const CUdeviceptr *addresses, size_t count)
{
	for (size_t i = 0; addresses && i < count; i++)
		if (names_lost(call, ON_DEVICE, addresses[i]))
			return true;
	return false;
}

/* Barriers and flushes have no address. */
static bool operation_is_lost(struct call *call, const CUstreamBatchMemOpParams *operation)
{
	switch (operation->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return names_lost(call, ON_DEVICE, operation->waitValue.address);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return names_lost(call, ON_DEVICE, operation->writeValue.address);
	default:
		return false;
	}
}

bool hook_guard_memory_ops(struct call *call, const CUstreamBatchMemOpParams *list,
			   unsigned int count)
{
	for (unsigned int i = 0; list && i < count; i++)
		if (operation_is_lost(call, &list[i]))
			return true;
	return false;
}

bool hook_guard_node_fill(struct call *call, const CUDA_MEMSET_NODE_PARAMS *fill)
{
	return fill && names_lost(call, ON_DEVICE, fill->dst);
}

bool hook_guard_node(struct call *call, const CUgraphNodeParams *node)
{
	if (!node)
		return false;
	if (node->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		return hook_guard_3d(call, &node->memcpy.copyParams);
	return node->type == CU_GRAPH_NODE_TYPE_MEMSET &&
	       names_lost(call, ON_DEVICE, node->memset.dst);
}

void hook_guard_attributes(struct call *call, unsigned int count,
			   const CUpointer_attribute *attributes, void **values,
			   uint64_t address)
{
	if (!guard_is_needed() || call->result != CUDA_SUCCESS || !attributes || !values)
		return;
	for (unsigned int i = 0; i < count; i++) {
		uint64_t *value = values[i];

		if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER && value &&
		    *value == GUARD_NOBODY)
			*value = address;
	}
}
