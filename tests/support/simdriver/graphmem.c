/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of graph allocation nodes.  The address exists from the node on; the bytes
 * count from the first launch until a trim; the client sees the block while a launch
 * has allocated it and nobody has freed it.
 */
#include "sim.h"
#include "entries.h"
#include "graph.h"

/* ------------------------------------------------------------------ blocks */

static void link_block(struct device *device, struct block *block)
{
	pthread_mutex_lock(&device->lock);
	block->free_prev = NULL;
	block->free_next = device->graph_blocks;
	if (block->free_next)
		block->free_next->free_prev = block;
	device->graph_blocks = block;
	pthread_mutex_unlock(&device->lock);
}

static void unlink_block(struct device *device, struct block *block)
{
	if (block->free_prev)
		block->free_prev->free_next = block->free_next;
	else
		device->graph_blocks = block->free_next;
	if (block->free_next)
		block->free_next->free_prev = block->free_prev;
}

struct block *graphmem_new(struct device *device, size_t bytes)
{
	char *base = space_reserve_pages(device, bytes);
	struct block *block = base ? memory_block(BLOCK_GRAPH, base, bytes,
						  round_up(bytes, PAGE_BYTES)) : NULL;

	if (!block)
		return NULL;
	block->device = device;
	block->alias = space_alias(device, base);
	link_block(device, block);
	registry_add(block);
	return block;
}

static void uncharge(struct device *device, struct block *block)
{
	if (!block->charged)
		return;
	block->charged = false;
	device->graph_reserved -= block->span;
	device_discharge(device, block->span);
}

/* Its graphs are gone, but the device keeps the memory for others until a trim. */
static void leave_idle(struct device *device, struct block *block)
{
	if (block->charged)
		device->graph_idle += block->span;
	block->charged = false;
}

/* Blocks of other kinds own nothing that is not taken from them before. */
void graphmem_finish(void *object)
{
	struct block *block = object;
	struct device *device = block->device;

	if (block->kind != BLOCK_GRAPH)
		return;
	registry_remove(block);
	pthread_mutex_lock(&device->lock);
	leave_idle(device, block);
	unlink_block(device, block);
	pthread_mutex_unlock(&device->lock);
	space_unreserve_pages(device, block->base, block->span);
}

/* One owner less: node, executable graph or the client. */
void graphmem_drop(struct block *block)
{
	handle_give(OBJECT_BLOCK, block);
}

/* What lies idle first, then what is new to the device. */
static bool take_bytes(struct device *device, size_t bytes)
{
	size_t idle = device->graph_idle < bytes ? device->graph_idle : bytes;

	if (!device_charge(device, bytes - idle))
		return false;
	device->graph_idle -= idle;
	device->graph_reserved += bytes - idle;
	return true;
}

CUresult graphmem_charge(struct block *block)
{
	struct device *device = block->device;
	CUresult error = CUDA_SUCCESS;

	pthread_mutex_lock(&device->lock);
	if (!block->charged) {
		block->charged = take_bytes(device, block->span);
		error = block->charged ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		if (device->graph_reserved > device->graph_reserved_high)
			device->graph_reserved_high = device->graph_reserved;
	}
	pthread_mutex_unlock(&device->lock);
	return error;
}

void graphmem_show(struct block *block)
{
	struct device *device = block->device;

	pthread_mutex_lock(&device->lock);
	if (!block->live) {
		handle_retain(block);
		block->id = handle_next_id();
		atomic_store(&block->live, true);
		device->graph_used += block->span;
		if (device->graph_used > device->graph_used_high)
			device->graph_used_high = device->graph_used;
	}
	pthread_mutex_unlock(&device->lock);
}

void graphmem_give(struct block *block)
{
	struct device *device = block->device;
	bool was_live;

	pthread_mutex_lock(&device->lock);
	was_live = atomic_exchange(&block->live, false);
	if (was_live)
		device->graph_used -= block->span;
	pthread_mutex_unlock(&device->lock);
	if (was_live)
		graphmem_drop(block);
}

/* ------------------------------------------------------------------ calls */

CUresult graphmem_trim(CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	pthread_mutex_lock(&device->lock);
	device->graph_reserved -= device->graph_idle;
	device_discharge(device, device->graph_idle);
	device->graph_idle = 0;
	for (struct block *block = device->graph_blocks; block; block = block->free_next)
		if (!atomic_load(&block->live))
			uncharge(device, block);
	pthread_mutex_unlock(&device->lock);
	return CUDA_SUCCESS;
}

CUresult graphmem_attribute(CUdevice dev, CUgraphMem_attribute attr, void *value)
{
	struct device *device;
	CUresult error = device_find(dev, &device);
	cuuint64_t *number = value;

	if (error || !value)
		return error ? error : CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&device->lock);
	switch (attr) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		*number = device->graph_used;
		break;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		*number = device->graph_used_high;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		*number = device->graph_reserved;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		*number = device->graph_reserved_high;
		break;
	default:
		error = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&device->lock);
	return error;
}

/* High-water marks can be set to 0, which means: to what is current. */
CUresult graphmem_set_attribute(CUdevice dev, CUgraphMem_attribute attr, void *value)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	if (!value || *(cuuint64_t *)value || (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
					       attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&device->lock);
	if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		device->graph_used_high = device->graph_used;
	else
		device->graph_reserved_high = device->graph_reserved;
	pthread_mutex_unlock(&device->lock);
	return CUDA_SUCCESS;
}
