/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast objects: handles like those of physical memory, to which memory of several
 * devices is bound.  They hold what is bound; bytes written through them stay in the
 * object itself, no switch spreads them here.
 */
#include <unistd.h>

#include "sim.h"
#include "entries.h"
#include "share.h"
#include "vmm.h"

/* One binding; memory NULL: of a pool, which outlives it anyway. */
struct binding {
	struct memory *memory;
	struct device *device;
	size_t offset, size;
	struct binding *next;
};

struct team {
	unsigned wanted;
	atomic_uint added;	/* bits of devices */
	struct binding *bindings;	/* under the lock of vmm.c */
};

static CUresult find(CUmemGenericAllocationHandle handle, struct memory **memory)
{
	CUresult error = vmm_find(handle, memory);

	return error || (*memory)->team ? error : CUDA_ERROR_INVALID_VALUE;
}

static bool is_whole(size_t bytes)
{
	return bytes % PAGE_BYTES == 0;
}

static CUresult check_prop(const CUmulticastObjectProp *prop)
{
	if (!prop || prop->numDevices == 0 || prop->flags ||
	    (prop->handleTypes &
	     ~(unsigned long long)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_INVALID_VALUE;
	if (!settings.vmm)
		return CUDA_ERROR_NOT_SUPPORTED;
	return prop->numDevices > (unsigned)settings.devices ? CUDA_ERROR_INVALID_VALUE :
							       CUDA_SUCCESS;
}

CUresult multicast_granularity(size_t *granularity, const CUmulticastObjectProp *prop,
			       CUmulticastGranularity_flags option)
{
	CUresult error = check_prop(prop);

	(void)option;	/* minimum and recommended are the same */
	if (!error && !granularity)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*granularity = PAGE_BYTES;
	return error;
}

CUresult multicast_create(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
	CUresult error = check_prop(prop);
	struct memory *memory = NULL;
	struct team *team;
	int fd;

	if (error)
		return error;
	if (!mcHandle || !prop->size || !is_whole(prop->size))
		return CUDA_ERROR_INVALID_VALUE;
	team = calloc(1, sizeof(*team));
	fd = team ? share_new_file("multicast", 0, prop->size) : -1;
	if (fd >= 0)
		memory = vmm_new(device_at(0), fd, prop->size);
	if (!memory) {
		if (fd >= 0)
			close(fd);
		free(team);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	team->wanted = prop->numDevices;
	memory->team = team;
	*mcHandle = (CUmemGenericAllocationHandle)(uintptr_t)memory;
	return CUDA_SUCCESS;
}

CUresult multicast_add(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
	struct device *device;
	struct memory *memory;
	CUresult error = find(mcHandle, &memory);
	unsigned added;

	if (!error)
		error = device_find(dev, &device);
	if (error)
		return error;
	added = atomic_load(&memory->team->added);
	if ((added >> dev & 1) || (unsigned)__builtin_popcount(added) == memory->team->wanted)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_fetch_or(&memory->team->added, 1u << dev);
	return CUDA_SUCCESS;
}

/* Binding and mapping wait for the last device, says the header. */
void multicast_wait(const struct team *team)
{
	while ((unsigned)__builtin_popcount(atomic_load(&team->added)) < team->wanted &&
	       !atomic_load(&config_stopping))
		config_sleep_until(config_now_ns() + 100000);
}

static CUresult bind(struct memory *object, size_t offset, struct memory *memory,
		     struct device *device, size_t size)
{
	struct team *team = object->team;
	struct binding *binding;

	if (!size || !is_whole(size) || !is_whole(offset) || offset + size > object->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	multicast_wait(team);
	if (!(atomic_load(&team->added) >> device->index & 1))
		return CUDA_ERROR_INVALID_DEVICE;
	binding = calloc(1, sizeof(*binding));
	if (!binding)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*binding = (struct binding){memory, device, offset, size, NULL};
	vmm_lock();
	binding->next = team->bindings;
	team->bindings = binding;
	if (memory)
		memory->mappings++;
	vmm_unlock();
	return CUDA_SUCCESS;
}

CUresult multicast_bind(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
			CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
			unsigned long long flags)
{
	struct memory *object, *memory;
	CUresult error = find(mcHandle, &object);

	if (!error)
		error = vmm_find(memHandle, &memory);
	if (error)
		return error;
	if (flags || memory->team || !is_whole(memOffset) || memOffset + size > memory->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return bind(object, mcOffset, memory, memory->device, size);
}

CUresult multicast_bind_address(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
				CUdeviceptr memptr, size_t size, unsigned long long flags)
{
	struct block *block = registry_find((void *)memptr);
	struct memory *object;
	CUresult error = find(mcHandle, &object);

	if (error)
		return error;
	if (flags || !block || (block->kind != BLOCK_MAPPED && block->kind != BLOCK_POOL) ||
	    !is_whole(memptr) || (char *)memptr + size > block->base + block->size)
		return CUDA_ERROR_INVALID_VALUE;
	return bind(object, mcOffset, block->memory, block->device, size);
}

/* Takes the binding off the list; the lock is held. */
static void drop_binding(struct binding **place)
{
	struct binding *binding = *place;

	*place = binding->next;
	if (binding->memory)
		vmm_drop_mapping(binding->memory);
	free(binding);
}

CUresult multicast_unbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
			  size_t size)
{
	struct binding **place;
	struct device *device;
	struct memory *object;
	CUresult error = find(mcHandle, &object);

	if (!error)
		error = device_find(dev, &device);
	if (error)
		return error;
	vmm_lock();
	place = &object->team->bindings;
	while (*place && !((*place)->device == device && (*place)->offset == mcOffset &&
			   (*place)->size == size))
		place = &(*place)->next;
	if (*place)
		drop_binding(place);
	else
		error = CUDA_ERROR_INVALID_VALUE;
	vmm_unlock();
	return error;
}

void multicast_end(struct team *team)
{
	while (team->bindings)
		drop_binding(&team->bindings);
	free(team);
}
