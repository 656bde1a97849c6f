/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/copy_end.h"
#include "core/tracker.h"
#include "intercept/real.h"

#include <errno.h>

static void place_by_block(struct copy_end *end, const struct block *block)
{
	bool is_host = block->kind == BLOCK_PINNED || block->kind == BLOCK_REGISTERED;

	end->device = block->device;
	end->side = is_host ? COPY_SIDE_HOST : COPY_SIDE_DEVICE;
	end->place = record_place_of_block(block->kind);
}

/*
 * Three attributes in one call, which is legal during capture.  P2P_TOKENS
 * must never be among them: asking for it changes the block.
 */
static void place_by_driver(struct copy_end *end)
{
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					     CU_POINTER_ATTRIBUTE_IS_MANAGED,
					     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	unsigned int type = 0, is_managed = 0;
	int ordinal = -1;
	void *values[] = { &type, &is_managed, &ordinal };
	int saved_errno = errno;

	if (REAL(driver, cuPointerGetAttributes)(3, attributes, values, end->address) ==
	    CUDA_SUCCESS) {
		end->side = type == CU_MEMORYTYPE_DEVICE ? COPY_SIDE_DEVICE : COPY_SIDE_HOST;
		end->place = type == CU_MEMORYTYPE_DEVICE ? PLACE_DEVICE :
			     type == CU_MEMORYTYPE_HOST	  ? PLACE_PINNED :
							    PLACE_PAGEABLE;
		end->device = type == CU_MEMORYTYPE_DEVICE ? ordinal : -1;
		if (is_managed)
			end->place = PLACE_MANAGED;
	}
	errno = saved_errno;
}

struct copy_end copy_end_infer(uint64_t address)
{
	struct copy_end end = { .address = address, .device = -1 };
	struct block block;

	if (tracker_find(SPACE_ADDRESS, address, &block))
		place_by_block(&end, &block);
	else
		place_by_driver(&end);
	return end;
}

struct copy_end copy_end_of(const struct box_side *side)
{
	struct copy_end end = { .device = -1 };

	switch (side->type) {
	case CU_MEMORYTYPE_HOST:
		end.address = (uintptr_t)side->host + side->offset;
		end.side = COPY_SIDE_HOST;
		break;
	case CU_MEMORYTYPE_DEVICE:
		end.address = side->device + side->offset;
		end.side = COPY_SIDE_DEVICE;
		break;
	case CU_MEMORYTYPE_ARRAY:
		end.address = (uintptr_t)side->array;
		end.side = COPY_SIDE_DEVICE;
		end.place = PLACE_ARRAY;
		break;
	case CU_MEMORYTYPE_UNIFIED:
		return copy_end_infer(side->device + side->offset);
	}
	return end;
}

void copy_end_place(struct copy_end *end)
{
	enum block_space space = end->place == PLACE_ARRAY ? SPACE_ARRAY : SPACE_ADDRESS;
	bool is_known = end->place != PLACE_UNKNOWN;
	struct block block;

	if (tracker_find(space, end->address, &block)) {
		if (end->side == COPY_SIDE_DEVICE)
			end->device = block.device;
		if (!is_known)
			end->place = record_place_of_block(block.kind);
	} else if (!is_known && end->side != COPY_SIDE_UNKNOWN) {
		end->place = end->side == COPY_SIDE_HOST ? PLACE_PAGEABLE : PLACE_DEVICE;
	}
}

enum transfer_kind copy_end_kind(const struct copy_end *source, const struct copy_end *target)
{
	if (source->side == COPY_SIDE_UNKNOWN || target->side == COPY_SIDE_UNKNOWN)
		return TRANSFER_UNKNOWN;
	if (source->side == COPY_SIDE_HOST)
		return target->side == COPY_SIDE_HOST ? TRANSFER_H2H : TRANSFER_H2D;
	if (target->side == COPY_SIDE_HOST)
		return TRANSFER_D2H;
	if (source->device >= 0 && target->device >= 0 && source->device != target->device)
		return TRANSFER_P2P;
	return TRANSFER_D2D;
}
