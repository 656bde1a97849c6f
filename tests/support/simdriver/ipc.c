/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IPC handles of memory.  In the process that made it a handle opens under an address
 * of its own, elsewhere as a mapping of the same file.  An event is a page that both look at.
 */
#include <unistd.h>

#include "sim.h"
#include "entries.h"
#include "share.h"

enum { MEMORY_MAGIC = 0x6d656d, EVENT_MAGIC = 0x657674 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The bytes move when they are shared first, so nobody may work on them then. */
static CUresult write_ticket(struct share_ticket *ticket, struct block *block)
{
	struct context *owner = block->context;
	CUresult error;

	pthread_mutex_lock(&owner->api);
	context_wait_idle(owner);
	error = share_write_ticket(ticket, MEMORY_MAGIC, block);
	pthread_mutex_unlock(&owner->api);
	return error;
}

CUresult ipc_get(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct block *block = registry_find((void *)dptr);
	struct share_ticket ticket;
	CUresult error;

	if (!pHandle || !block || block->kind != BLOCK_DEVICE || block->base != (char *)dptr ||
	    block->released)
		return CUDA_ERROR_INVALID_VALUE;
	error = write_ticket(&ticket, block);
	if (error)
		return error;
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle, &ticket, sizeof(ticket));
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ opening */

static bool is_open_of(const struct block *block, const struct block *original,
		       const struct share_ticket *ticket)
{
	if (block->kind != BLOCK_IPC || block->original != original)
		return false;
	return original || (block->foreign_inode == ticket->inode &&
			    block->foreign_id == ticket->id);
}

/* One more open of what is open already in this context, or NULL. */
static struct block *open_again(struct context *context, const struct block *original,
				const struct share_ticket *ticket)
{
	struct block *block;

	pthread_mutex_lock(&context->lock);
	block = context->blocks;
	while (block && !is_open_of(block, original, ticket))
		block = block->next;
	if (block)
		block->opens++;
	pthread_mutex_unlock(&context->lock);
	return block;
}

static struct block *open_here(struct block *original)
{
	struct device *device = original->device;
	char *base = space_reserve_pages(device, original->size);
	struct block *block = base ? memory_block(BLOCK_IPC, base, original->size,
						  original->span) : NULL;

	if (block) {
		block->device = device;
		block->alias = original->alias;
		block->original = original;
	}
	return block;
}

static struct block *open_foreign(const struct share_ticket *ticket)
{
	struct device *device = device_at(ticket->device);
	int fd = share_open(ticket);
	char *base = fd >= 0 ? share_map(device, fd, ticket->offset, ticket->size) : NULL;
	struct block *block = base ? memory_block(BLOCK_IPC, base, ticket->size,
						  ticket->size) : NULL;

	if (fd >= 0)
		close(fd);
	if (block) {
		block->device = device;
		block->alias = space_alias(device, base);
		block->foreign_inode = ticket->inode;
		block->foreign_id = ticket->id;
	}
	return block;
}

static struct block *open_block(struct context *context, struct block *original,
				const struct share_ticket *ticket)
{
	struct block *block = open_again(context, original, ticket);

	if (block)
		return block;
	block = original ? open_here(original) : open_foreign(ticket);
	if (block) {
		block->opens = 1;
		context_add_block(context, block);
		registry_add(block);
	}
	return block;
}

/* Memory of another device must be within reach, which the flag asks for, too. */
static CUresult check_device(struct context *context, int index, unsigned flags)
{
	struct device *device;

	if (device_find(index, &device))
		return CUDA_ERROR_INVALID_VALUE;
	if (device == context->device)
		return CUDA_SUCCESS;
	if (!settings.peer || !(flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	atomic_fetch_or(&context->peers, 1u << index);
	return CUDA_SUCCESS;
}

static CUresult find_original(const struct share_ticket *ticket, struct block **original)
{
	*original = NULL;
	if (ticket->process != getpid())
		return CUDA_SUCCESS;
	*original = registry_find((void *)(uintptr_t)ticket->object);
	return *original && (*original)->id == ticket->id ? CUDA_SUCCESS :
							    CUDA_ERROR_INVALID_VALUE;
}

CUresult ipc_open(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	struct context *context = context_current();
	struct block *original, *block;
	struct share_ticket ticket;
	CUresult error;

	memcpy(&ticket, &handle, sizeof(ticket));
	if (!pdptr || (Flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
	    ticket.magic != MEMORY_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	error = check_device(context, ticket.device, Flags);
	if (!error)
		error = find_original(&ticket, &original);
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	block = open_block(context, original, &ticket);
	pthread_mutex_unlock(&lock);
	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (CUdeviceptr)block->base;
	return CUDA_SUCCESS;
}

CUresult ipc_close(CUdeviceptr dptr)
{
	struct block *block;

	pthread_mutex_lock(&lock);
	block = registry_find((void *)dptr);
	if (block && (block->kind != BLOCK_IPC || block->base != (char *)dptr))
		block = NULL;
	if (block && --block->opens == 0)
		memory_drop(block);
	pthread_mutex_unlock(&lock);
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ events */

CUresult ipc_get_event(CUipcEventHandle *pHandle, CUevent handle)
{
	struct event *event = (struct event *)handle;
	struct share_ticket ticket;
	CUresult error = handle_check(OBJECT_EVENT, handle);

	if (error)
		return error;
	if (!pHandle || !event->shared)
		return CUDA_ERROR_INVALID_VALUE;
	error = share_write_file_ticket(&ticket, EVENT_MAGIC, event->fd,
					event->context->device->index);
	if (error)
		return error;
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle, &ticket, sizeof(ticket));
	return CUDA_SUCCESS;
}

/* A real driver refuses the process that made it. */
CUresult ipc_open_event(CUevent *phEvent, CUipcEventHandle handle)
{
	struct share_ticket ticket;
	struct event *event;
	CUresult error;
	int fd;

	memcpy(&ticket, &handle, sizeof(ticket));
	if (!phEvent || ticket.magic != EVENT_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (ticket.process == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	fd = share_open(&ticket);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	error = event_open_shared(fd, &event);
	if (!error)
		*phEvent = (CUevent)event;
	return error;
}
