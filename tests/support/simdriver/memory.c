/* SPDX-License-Identifier: Apache-2.0 */
/* Linear and managed memory: cuMemAlloc and its relatives, cuMemFree, what is free. */
#include <sys/mman.h>

#include "sim.h"
#include "account.h"
#include "entries.h"
#include "share.h"
#include "vmm.h"

struct block *memory_block(enum block_kind kind, char *base, size_t size, size_t span)
{
	struct block *block = handle_new(OBJECT_BLOCK);

	if (!block)
		return NULL;
	block->kind = kind;
	block->base = block->alias = base;
	block->size = size;
	block->span = span;
	block->id = handle_next_id();
	return block;
}

/* ------------------------------------------------------------------ allocating */

static bool is_small(size_t bytes)
{
	return bytes <= SMALL_MAX;
}

static char *try_bytes(struct device *device, size_t bytes)
{
	return is_small(bytes) ? space_take_small(device, SLAB_BLOCKS, bytes) :
				 space_take_pages(device, bytes);
}

/* Measured: what pools keep idle is taken from them before memory is out. */
static char *take_bytes(struct device *device, size_t bytes)
{
	char *base = try_bytes(device, bytes);

	if (base)
		return base;
	pool_give_idle(device);
	return try_bytes(device, bytes);
}

static CUresult take_device(struct context *context, size_t bytes, struct block **out)
{
	struct device *device = context->device;
	char *base = take_bytes(device, bytes);
	struct block *block;

	if (!base)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block = memory_block(BLOCK_DEVICE, base, bytes,
			     round_up(bytes, is_small(bytes) ? GRANULE : PAGE_BYTES));
	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block->alias = space_alias(device, base);
	block->device = device;
	context_add_block(context, block);
	registry_add(block);
	*out = block;
	return CUDA_SUCCESS;
}

CUresult memory_alloc(CUdeviceptr *dptr, size_t bytesize)
{
	struct block *block;
	CUresult error;

	if (!dptr || bytesize == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!config_may_allocate())
		return CUDA_ERROR_OUT_OF_MEMORY;
	context_pass_gate(context_current());
	/* What was freed in stream order and has passed comes back without a synchronise. */
	if (settings.free_plain > 1)
		context_observe(context_current());
	error = take_device(context_current(), bytesize, &block);
	if (!error)
		*dptr = (CUdeviceptr)block->base;
	return error;
}

CUresult memory_alloc_pitch(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
			    unsigned int ElementSizeBytes)
{
	size_t pitch = round_up(WidthInBytes, 512), bytes;
	CUresult error;

	if (!pPitch || WidthInBytes == 0 || Height == 0 || pitch > INT32_MAX ||
	    (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(pitch, Height, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = memory_alloc(dptr, bytes);
	if (!error)
		*pPitch = pitch;
	return error;
}

char *memory_map_host(size_t bytes)
{
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return base == MAP_FAILED ? NULL : base;
}

/* With SIMCUDA_MANAGED=2 as if all of it lay on the device, from the start. */
static bool count_managed(struct device *device, size_t span)
{
	return settings.managed < 2 || device_charge(device, round_up(span, PAGE_BYTES));
}

static void uncount_managed(struct device *device, size_t span)
{
	if (settings.managed > 1)
		device_discharge(device, round_up(span, PAGE_BYTES));
}

/* Reachable from host and device; in the simulation it lies with the host. */
char *memory_take_managed(struct device *device, size_t span)
{
	char *base;

	if (!count_managed(device, span))
		return NULL;
	base = memory_map_host(span);
	if (!base)
		uncount_managed(device, span);
	return base;
}

void memory_give_managed(struct device *device, char *base, size_t span)
{
	uncount_managed(device, span);
	munmap(base, span);
}

CUresult memory_alloc_managed(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct context *context = context_current();
	size_t span = round_up(bytesize, 4096);
	struct block *block;
	char *base;

	if (!dptr || bytesize == 0 ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	if (!settings.managed)
		return CUDA_ERROR_NOT_SUPPORTED;
	context_pass_gate(context);
	if (!config_may_allocate() || span < bytesize)
		return CUDA_ERROR_OUT_OF_MEMORY;
	base = memory_take_managed(context->device, span);
	block = base ? memory_block(BLOCK_MANAGED, base, bytesize, span) : NULL;
	if (!block) {
		if (base)
			memory_give_managed(context->device, base, span);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	block->device = context->device;
	context_add_block(context, block);
	registry_add(block);
	*dptr = (CUdeviceptr)base;
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ freeing */

static void give_bytes(struct block *block)
{
	switch (block->kind) {
	case BLOCK_DEVICE:
		if (is_small(block->size))
			space_give_small(block->device, block->base, block->size);
		else
			space_give_pages(block->device, block->base, block->size);
		break;
	case BLOCK_GLOBAL:
		space_unreserve_pages(block->device, block->base, block->size);
		break;
	case BLOCK_IPC:
		if (block->original)
			space_unreserve_pages(block->device, block->base, block->size);
		else
			share_unmap(block->device, block->base, block->size);
		break;
	case BLOCK_IMPORTED:
		share_unmap(block->device, block->base, block->size);
		handle_give(OBJECT_POOL, block->pool);
		break;
	case BLOCK_EXTERNAL:
		share_unmap(block->device, block->base, block->size);
		break;
	case BLOCK_MANAGED:
		memory_give_managed(block->device, block->base, block->span);
		break;
	case BLOCK_HOST:
		munmap(block->base, block->span);
		break;
	default:
		break;
	}
}

void memory_drop(struct block *block)
{
	registry_remove(block);
	if (block->context)
		context_drop_block(block);
	give_bytes(block);
	handle_give(OBJECT_BLOCK, block);
}

/* What was given to cuMemFreeAsync on a stream of another context stays that one's. */
void memory_end_all(struct context *context)
{
	while (context->blocks) {
		struct block *block = context->blocks;

		if (block->released) {
			context_drop_block(block);
			block->context = NULL;
		} else {
			memory_drop(block);
		}
	}
}

/* The block at exactly this address, or NULL. */
static struct block *find_base(CUdeviceptr dptr)
{
	struct block *block = registry_find((void *)dptr);

	return block && block->base == (char *)dptr ? block : NULL;
}

/*
 * Waits for all work of the owning context with its gate shut.  Looks for the block
 * again afterwards: another thread may have freed it meanwhile.
 */
static CUresult free_plain(struct block *block, CUdeviceptr dptr)
{
	struct context *owner = block->context;
	CUresult error = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&owner->api);
	context_wait_idle(owner);
	if (find_base(dptr) == block && !block->released) {
		memory_drop(block);
		error = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&owner->api);
	return error;
}

CUresult memory_free(CUdeviceptr dptr)
{
	struct block *block;

	if (!dptr)
		return CUDA_SUCCESS;
	if (sim_thread.current && context_usable(sim_thread.current))
		return context_usable(sim_thread.current);
	block = find_base(dptr);
	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	switch (block->kind) {
	case BLOCK_DEVICE:
		/* On its way out through cuMemFreeAsync: measured to be no error. */
		if (block->released)
			return CUDA_SUCCESS;
		return free_plain(block, dptr);
	case BLOCK_MANAGED:
		if (!block->pool)
			return free_plain(block, dptr);
		pool_give(block, NULL, 0, false);
		return CUDA_SUCCESS;
	case BLOCK_EXTERNAL:
		return free_plain(block, dptr);
	case BLOCK_IMPORTED:
		if (block->released)
			return CUDA_ERROR_INVALID_VALUE;
		memory_drop(block);
		return CUDA_SUCCESS;
	case BLOCK_POOL:
		pool_give(block, NULL, 0, false);
		return CUDA_SUCCESS;
	case BLOCK_GRAPH:
		graphmem_give(block);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Takes the blocks off the list whose position the stream has passed. */
static struct block *take_passed(struct stream *stream)
{
	struct block *block, *next, *passed = NULL, *left = NULL;

	pthread_mutex_lock(&stream->lock);
	for (block = atomic_load(&stream->released); block; block = next) {
		struct block **list = queue_passed(stream, block->free_seq) ? &passed : &left;

		next = block->free_next;
		block->free_next = *list;
		*list = block;
	}
	atomic_store(&stream->released, left);
	pthread_mutex_unlock(&stream->lock);
	return passed;
}

void memory_observe(struct stream *stream)
{
	struct block *list, *next;

	if (!atomic_load(&stream->released))
		return;
	for (list = take_passed(stream); list; list = next) {
		next = list->free_next;
		memory_drop(list);
	}
}

/* ------------------------------------------------------------------ places of copies */

static enum place_kind kind_of_place(const struct block *block)
{
	switch (block->kind) {
	case BLOCK_MANAGED:
		return PLACE_MANAGED;
	case BLOCK_HOST:
	case BLOCK_REGISTERED:
		return PLACE_PINNED;
	default:
		return PLACE_DEVICE;
	}
}

/* Mapped ranges may continue in the next mapping; their bytes lie side by side too. */
static bool is_covered(const struct block *block, const char *end)
{
	const struct context *context = sim_thread.current;

	if (block && block->pool && context && !peer_reaches(block, context))
		return false;
	while (block && block->kind == BLOCK_MAPPED) {
		if (!context || !peer_reaches(block, context))
			return false;
		if (end <= block->base + block->size)
			return true;
		block = registry_find(block->base + block->size);
	}
	return block && end <= block->base + block->size && end > block->base;
}

CUresult memory_place(CUdeviceptr address, size_t bytes, struct place *place)
{
	struct block *block = registry_find_any((void *)address);

	if (!block || !is_covered(block, (char *)address + bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*place = (struct place){
		.bytes = block_alias(block, (void *)address),
		.kind = kind_of_place(block),
		.block = block,
		.address = address,
	};
	return CUDA_SUCCESS;
}

CUresult memory_host_place(const void *address, size_t bytes, struct place *place)
{
	if (!address)
		return CUDA_ERROR_INVALID_VALUE;
	if (registry_find_any(address))
		return memory_place((CUdeviceptr)address, bytes, place);
	*place = (struct place){
		.bytes = (char *)(uintptr_t)address,
		.kind = PLACE_PAGEABLE,
		.address = (size_t)address,
	};
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ questions */

CUresult memory_info(size_t *free, size_t *total)
{
	struct device *device = context_current()->device;

	if (!free || !total)
		return CUDA_ERROR_INVALID_VALUE;
	vmm_sweep();
	*free = device->total - account_used(device);
	*total = device->total;
	return CUDA_SUCCESS;
}

CUresult memory_info_old(unsigned int *free, unsigned int *total)
{
	size_t free_bytes, total_bytes;
	CUresult error = memory_info(&free_bytes, &total_bytes);

	if (!error && (!free || !total))
		error = CUDA_ERROR_INVALID_VALUE;
	if (error)
		return error;
	*free = free_bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)free_bytes;
	*total = total_bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)total_bytes;
	return CUDA_SUCCESS;
}

CUresult memory_range(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct block *block = registry_find((void *)dptr);

	if (!block)
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = (CUdeviceptr)block->base;
	if (psize)
		*psize = block->size;
	return CUDA_SUCCESS;
}
