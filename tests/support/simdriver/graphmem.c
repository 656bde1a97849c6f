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

/* The block's part of what is reserved is free for others, until a trim. */
static void uncharge(struct device *device, struct block *block)
{
	if (block->charged)
		device->graph_needed -= block->span;
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
	uncharge(device, block);
	unlink_block(device, block);
	pthread_mutex_unlock(&device->lock);
	space_unreserve_pages(device, block->base, block->span);
}

/* One owner less: node, executable graph or the client. */
void graphmem_drop(struct block *block)
{
	handle_give(OBJECT_BLOCK, block);
}

/* Measured: memory for graphs comes in the steps that pools grow by, too. */
static bool take_bytes(struct device *device, size_t bytes)
{
	size_t wanted = round_up(device->graph_needed + bytes, settings.pool_chunk);
	size_t had = device->graph_reserved;

	if (wanted > had && !device_charge(device, wanted - had))
		return false;
	device->graph_needed += bytes;
	if (wanted > had)
		device->graph_reserved = wanted;
	if (device->graph_reserved > device->graph_reserved_high)
		device->graph_reserved_high = device->graph_reserved;
	return true;
}

CUresult graphmem_charge(struct block *block)
{
	struct device *device = block->device;
	bool fits = true;

	pthread_mutex_lock(&device->lock);
	if (!block->charged)
		fits = block->charged = take_bytes(device, block->span);
	pthread_mutex_unlock(&device->lock);
	return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void graphmem_show(struct block *block)
{
	struct device *device = block->device;

	pthread_mutex_lock(&device->lock);
	if (!block->live) {
		handle_retain(block);
		block->id = handle_next_id();
		atomic_store(&block->live, true);
	}
	pthread_mutex_unlock(&device->lock);
}

void graphmem_give(struct block *block)
{
	struct device *device = block->device;
	bool was_live;

	pthread_mutex_lock(&device->lock);
	was_live = atomic_exchange(&block->live, false);
	pthread_mutex_unlock(&device->lock);
	if (was_live)
		graphmem_drop(block);
}

/* ------------------------------------------------------------------ calls */

static void give_back(struct device *device)
{
	size_t keep = round_up(device->graph_needed, settings.pool_chunk);

	device_discharge(device, device->graph_reserved - keep);
	device->graph_reserved = keep;
}

CUresult graphmem_trim(CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	if (error)
		return error;
	pthread_mutex_lock(&device->lock);
	for (struct block *block = device->graph_blocks; block; block = block->free_next)
		if (!atomic_load(&block->live))
			uncharge(device, block);
	give_back(device);
	pthread_mutex_unlock(&device->lock);
	return CUDA_SUCCESS;
}

/* Measured: what is reserved is used, whatever the client has freed of it. */
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
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		*number = device->graph_reserved;
		break;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
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
	device->graph_reserved_high = device->graph_reserved;
	pthread_mutex_unlock(&device->lock);
	return CUDA_SUCCESS;
}
