/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management.  Physical memory is a file in memory; a reservation is a
 * range of device addresses with a range of the same size beside it, into which the
 * file is mapped where the client maps the memory.  So neighbours stay neighbours, and
 * memory mapped twice is the same memory.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"
#include "entries.h"
#include "share.h"
#include "vmm.h"

struct reservation {
	char *base, *alias;
	size_t bytes;
	unsigned mappings;
	struct reservation *next;
};

/* Guards reservations, and the counts of every memory handle. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct reservation *reservations;

/* Bytes that nobody here has a handle to: a descriptor that was exported keeps them. */
struct outlived {
	struct device *device;
	size_t bytes;
	int fd;
	struct outlived *next;
};

static pthread_mutex_t outlived_lock = PTHREAD_MUTEX_INITIALIZER;
static struct outlived *_Atomic outlived;

void vmm_lock(void)
{
	pthread_mutex_lock(&lock);
}

void vmm_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static struct reservation *find_reservation(const char *address, size_t bytes)
{
	struct reservation *found = reservations;

	while (found && !(address >= found->base && address < found->base + found->bytes &&
			  bytes <= (size_t)(found->base + found->bytes - address)))
		found = found->next;
	return found;
}

char *vmm_range_start(const struct block *block)
{
	struct reservation *found = NULL;

	if (block->kind == BLOCK_MAPPED) {
		pthread_mutex_lock(&lock);
		found = find_reservation(block->base, block->size);
		pthread_mutex_unlock(&lock);
	}
	return found ? found->base : block->base;
}

size_t vmm_range_size(const struct block *block)
{
	struct reservation *found = NULL;

	if (block->kind == BLOCK_MAPPED) {
		pthread_mutex_lock(&lock);
		found = find_reservation(block->base, block->size);
		pthread_mutex_unlock(&lock);
	}
	return found ? found->bytes : block->size;
}

static bool is_whole(size_t bytes)
{
	return bytes && bytes % PAGE_BYTES == 0;
}

/* ------------------------------------------------------------------ reservations */

static char *reserve_exactly(char *wanted, size_t bytes)
{
	void *base = mmap(wanted, bytes, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (base == MAP_FAILED || base == wanted)
		return base == wanted ? base : NULL;
	munmap(base, bytes);
	return NULL;
}

/* A range on a 2 MiB border, or a larger one that is asked for. */
static char *reserve_at(size_t bytes, size_t alignment)
{
	char *base = mmap(NULL, bytes + alignment, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), *start;

	if (base == MAP_FAILED)
		return NULL;
	start = (char *)round_up((size_t)base, alignment);
	if (start > base)
		munmap(base, (size_t)(start - base));
	munmap(start + bytes, (size_t)(base + alignment - start));
	return start;
}

/* Two ranges in two places; false: neither is there. */
static bool reserve_both(struct reservation *made, char *base, char *alias)
{
	made->base = base;
	made->alias = alias;
	if (base && alias)
		return true;
	if (base)
		munmap(base, made->bytes);
	if (alias)
		munmap(alias, made->bytes);
	return false;
}

/*
 * The hint is followed right behind a reservation, where both ranges are free: so the
 * two are one to a copy that crosses the border.  Other hints are left alone.
 */
static bool reserve_behind(struct reservation *made, CUdeviceptr hint)
{
	struct reservation *before;
	char *alias = NULL;

	pthread_mutex_lock(&lock);
	before = hint ? find_reservation((char *)hint - 1, 1) : NULL;
	if (before && before->base + before->bytes == (char *)hint)
		alias = before->alias + before->bytes;
	pthread_mutex_unlock(&lock);
	return alias && reserve_both(made, reserve_exactly((char *)hint, made->bytes),
				     reserve_exactly(alias, made->bytes));
}

CUresult vmm_reserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
		     unsigned long long flags)
{
	struct reservation *made;

	if (!ptr || !is_whole(size) || flags || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (!settings.vmm)
		return CUDA_ERROR_NOT_SUPPORTED;
	alignment = alignment < PAGE_BYTES ? PAGE_BYTES : alignment;
	made = calloc(1, sizeof(*made));
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->bytes = size;
	if (!(addr % alignment == 0 && reserve_behind(made, addr)) &&
	    !reserve_both(made, reserve_at(size, alignment), reserve_at(size, alignment))) {
		free(made);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&lock);
	made->next = reservations;
	reservations = made;
	pthread_mutex_unlock(&lock);
	*ptr = (CUdeviceptr)made->base;
	return CUDA_SUCCESS;
}

CUresult vmm_unreserve(CUdeviceptr ptr, size_t size)
{
	struct reservation **place, *found;

	pthread_mutex_lock(&lock);
	place = &reservations;
	while (*place && (*place)->base != (char *)ptr)
		place = &(*place)->next;
	found = *place;
	if (found && (found->bytes != size || found->mappings))
		found = NULL;
	if (found)
		*place = found->next;
	pthread_mutex_unlock(&lock);
	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	munmap(found->base, found->bytes);
	munmap(found->alias, found->bytes);
	free(found);
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ physical memory */

static CUresult check_prop(const CUmemAllocationProp *prop, struct device **device)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!settings.vmm || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
	    prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	return device_find(prop->location.id, device);
}

struct memory *vmm_new(struct device *device, int fd, size_t bytes)
{
	struct memory *memory = handle_new(OBJECT_MEMORY);

	if (!memory)
		return NULL;
	memory->device = device;
	memory->fd = fd;
	memory->bytes = bytes;
	memory->handles = 1;
	memory->id = handle_next_id();
	return memory;
}

CUresult vmm_create(CUmemGenericAllocationHandle *handle, size_t size,
		    const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct device *device;
	struct memory *memory;
	CUresult error = check_prop(prop, &device);
	int fd;

	if (error)
		return error;
	if (!handle || !is_whole(size) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!config_may_allocate() || !device_charge(device, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	fd = share_new_file("memory", device->index, size);
	memory = fd >= 0 ? vmm_new(device, fd, size) : NULL;
	if (!memory) {
		if (fd >= 0)
			close(fd);
		device_discharge(device, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memory->prop = *prop;
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)memory;
	return CUDA_SUCCESS;
}

static void end_outlived(struct outlived *found)
{
	close(found->fd);
	device_discharge(found->device, found->bytes);
	free(found);
}

/* Nobody says that a descriptor was closed, so one looks whenever the bytes may be missed. */
void vmm_sweep(void)
{
	struct outlived *left, *next;

	if (!outlived)
		return;
	pthread_mutex_lock(&outlived_lock);
	left = atomic_exchange(&outlived, NULL);
	for (; left; left = next) {
		next = left->next;
		if (share_is_handed_out(left->fd)) {
			left->next = outlived;
			outlived = left;
		} else {
			end_outlived(left);
		}
	}
	pthread_mutex_unlock(&outlived_lock);
}

static void end_bytes(const struct memory *memory)
{
	struct outlived *made = malloc(sizeof(*made));

	if (!made)
		config_die("no memory to end memory");
	*made = (struct outlived){ memory->device, memory->bytes, memory->fd, NULL };
	pthread_mutex_lock(&outlived_lock);
	made->next = outlived;
	outlived = made;
	pthread_mutex_unlock(&outlived_lock);
	vmm_sweep();
}

/* The memory goes when it has neither handles nor mappings, in whichever order. */
static void drop_if_unused(struct memory *memory)
{
	if (memory->handles || memory->mappings)
		return;
	if (memory->team || memory->imported)
		close(memory->fd);
	else
		end_bytes(memory);
	if (memory->team)
		multicast_end(memory->team);
	handle_give(OBJECT_MEMORY, memory);
}

void vmm_drop_mapping(struct memory *memory)
{
	memory->mappings--;
	drop_if_unused(memory);
}

CUresult vmm_find(CUmemGenericAllocationHandle handle, struct memory **memory)
{
	CUresult error;

	*memory = (struct memory *)(uintptr_t)handle;
	error = handle_check(OBJECT_MEMORY, *memory);
	return error ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult vmm_release(CUmemGenericAllocationHandle handle)
{
	struct memory *memory;
	CUresult error = vmm_find(handle, &memory);

	if (error)
		return error;
	pthread_mutex_lock(&lock);
	if (memory->handles == 0)
		error = CUDA_ERROR_INVALID_VALUE;
	else
		memory->handles--;
	if (!error)
		drop_if_unused(memory);
	pthread_mutex_unlock(&lock);
	return error;
}

CUresult vmm_retain(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct block *block = registry_find(addr);

	if (!handle || !block || block->kind != BLOCK_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	block->memory->handles++;
	pthread_mutex_unlock(&lock);
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)block->memory;
	return CUDA_SUCCESS;
}

CUresult vmm_properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	struct memory *memory;
	CUresult error = vmm_find(handle, &memory);

	if (!error && !prop)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*prop = memory->prop;
	return error;
}

CUresult vmm_granularity(size_t *granularity, const CUmemAllocationProp *prop,
			 CUmemAllocationGranularity_flags option)
{
	struct device *device;
	CUresult error = check_prop(prop, &device);

	(void)option;	/* minimum and recommended are the same */
	if (!error && !granularity)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*granularity = PAGE_BYTES;
	return error;
}

/* ------------------------------------------------------------------ mappings */

static bool map_bytes(struct reservation *in, struct block *block, size_t offset)
{
	char *at = in->alias + (block->base - in->base);

	block->alias = at;
	return mmap(at, block->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		    block->memory->fd, (off_t)offset) != MAP_FAILED;
}

static CUresult map(struct reservation *in, char *base, size_t size, size_t offset,
		    struct memory *memory)
{
	struct block *block = memory_block(BLOCK_MAPPED, base, size, size);

	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block->device = memory->device;
	block->memory = memory;
	block->id = memory->id;
	if (!map_bytes(in, block, offset)) {
		handle_give(OBJECT_BLOCK, block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memory->mappings++;
	in->mappings++;
	registry_add(block);
	return CUDA_SUCCESS;
}

CUresult vmm_map(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		 unsigned long long flags)
{
	struct reservation *in;
	struct memory *memory;
	CUresult error = vmm_find(handle, &memory);

	if (error)
		return error;
	/* An offset other than 0 is not allowed today. */
	if (!is_whole(size) || ptr % PAGE_BYTES || offset || flags || size != memory->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (memory->team)
		multicast_wait(memory->team);
	pthread_mutex_lock(&lock);
	in = find_reservation((char *)ptr, size);
	if (!in || registry_overlaps((char *)ptr, size))
		error = CUDA_ERROR_INVALID_VALUE;
	else
		error = map(in, (char *)ptr, size, offset, memory);
	pthread_mutex_unlock(&lock);
	return error;
}

/* Nothing is accessible there any more; who still works on it reads zeros. */
static void unmap(struct reservation *in, struct block *block)
{
	mmap(block->alias, block->size, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	registry_remove(block);
	in->mappings--;
	vmm_drop_mapping(block->memory);
	handle_give(OBJECT_BLOCK, block);
}

/* Whole mappings must fill the range. */
static bool is_filled(const char *at, const char *end)
{
	while (at < end) {
		struct block *block = registry_find(at);

		if (!block || block->kind != BLOCK_MAPPED || block->base != at)
			return false;
		at += block->size;
	}
	return at == end;
}

CUresult vmm_unmap(CUdeviceptr ptr, size_t size)
{
	char *at = (char *)ptr, *end = at + size;
	struct reservation *in;
	bool fits;

	pthread_mutex_lock(&lock);
	in = find_reservation(at, size);
	fits = in && size && is_filled(at, end);
	while (fits && at < end) {
		struct block *block = registry_find(at);

		at += block->size;
		unmap(in, block);
	}
	pthread_mutex_unlock(&lock);
	return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ access */

static CUresult set_access(char *at, char *end, const CUmemAccessDesc *desc)
{
	struct device *device;
	CUresult error;

	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	error = device_find(desc->location.id, &device);
	while (!error && at < end) {
		struct block *block = registry_find(at);

		block->access[device->index] = (int)desc->flags;
		at += block->size;
	}
	return error;
}

CUresult vmm_set_access(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult error = CUDA_SUCCESS;

	if (!desc || count == 0 || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (!is_filled((char *)ptr, (char *)ptr + size))
		error = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !error; i++)
		error = set_access((char *)ptr, (char *)ptr + size, &desc[i]);
	pthread_mutex_unlock(&lock);
	return error;
}

CUresult vmm_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	struct block *block = registry_find((void *)ptr);
	struct device *device;

	if (!flags || !location || !block || block->kind != BLOCK_MAPPED ||
	    device_find(location->id, &device))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = (unsigned long long)block->access[device->index];
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ sharing */

CUresult vmm_export(void *shareableHandle, CUmemGenericAllocationHandle handle,
		    CUmemAllocationHandleType handleType, unsigned long long flags)
{
	struct memory *memory;
	CUresult error = vmm_find(handle, &memory);
	int fd;

	if (error || !shareableHandle || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    memory->prop.requestedHandleTypes != handleType)
		return CUDA_ERROR_INVALID_VALUE;
	fd = share_hand_out(memory->fd);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)shareableHandle = fd;
	return CUDA_SUCCESS;
}

/* The memory stays the exporter's: it is not counted a second time. */
CUresult vmm_import(CUmemGenericAllocationHandle *handle, void *osHandle,
		    CUmemAllocationHandleType shHandleType)
{
	struct memory *memory;
	struct stat status;
	int fd, device;

	if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	fd = fcntl((int)(intptr_t)osHandle, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	memory = share_is_file(fd, "memory", &device) && fstat(fd, &status) == 0 ?
		 vmm_new(device_at(device), fd, (size_t)status.st_size) : NULL;
	if (!memory) {
		close(fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	memory->imported = true;
	memory->prop = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = shHandleType,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
	};
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)memory;
	return CUDA_SUCCESS;
}
