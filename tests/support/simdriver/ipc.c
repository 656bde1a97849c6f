/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing between processes, as far as one process can tell: a handle opens in the
 * process that made it (under an address of its own) and nowhere else.
 */
#include <unistd.h>

#include "sim.h"
#include "entries.h"

/* What lies in a CUipcMemHandle or CUipcEventHandle. */
struct ticket_text {
	uint64_t magic;
	int64_t process;
	uint64_t object;
	uint64_t id;
};

enum { MEMORY_MAGIC = 0x6d656d, EVENT_MAGIC = 0x657674 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void write_text(void *handle, uint64_t magic, const void *object, uint64_t id)
{
	const struct ticket_text text = {magic, getpid(), (uintptr_t)object, id};

	memset(handle, 0, sizeof(CUipcMemHandle));
	memcpy(handle, &text, sizeof(text));
}

static CUresult read_text(const void *handle, uint64_t magic, struct ticket_text *text)
{
	memcpy(text, handle, sizeof(*text));
	if (text->magic != magic)
		return CUDA_ERROR_INVALID_VALUE;
	return text->process == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ipc_get(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct block *block = registry_find((void *)dptr);

	if (!pHandle || !block || block->kind != BLOCK_DEVICE || block->base != (char *)dptr)
		return CUDA_ERROR_INVALID_VALUE;
	write_text(pHandle, MEMORY_MAGIC, block->base, block->id);
	return CUDA_SUCCESS;
}

/* An open block of the original, in this context's list; counted. */
static struct block *find_open(struct context *context, const struct block *original)
{
	struct block *block = context->blocks;

	while (block && !(block->kind == BLOCK_IPC && block->original == original))
		block = block->next;
	return block;
}

static struct block *open_block(struct context *context, struct block *original)
{
	char *base = space_reserve_pages(context->device, original->size);
	struct block *block = base ? memory_block(BLOCK_IPC, base, original->size,
						  original->span) : NULL;

	if (!block)
		return NULL;
	block->alias = original->alias;
	block->device = context->device;
	block->original = original;
	block->opens = 1;
	context_add_block(context, block);
	registry_add(block);
	return block;
}

CUresult ipc_open(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	struct context *context = context_current();
	struct block *original, *block;
	struct ticket_text text;
	CUresult error = read_text(&handle, MEMORY_MAGIC, &text);

	if (error)
		return error;
	original = registry_find((void *)(uintptr_t)text.object);
	if (!pdptr || (Flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) || !original ||
	    original->id != text.id)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	pthread_mutex_lock(&context->lock);
	block = find_open(context, original);
	if (block)
		block->opens++;
	pthread_mutex_unlock(&context->lock);
	if (!block)
		block = open_block(context, original);
	pthread_mutex_unlock(&lock);
	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
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

CUresult ipc_get_event(CUipcEventHandle *pHandle, CUevent event)
{
	CUresult error = handle_check(OBJECT_EVENT, event);

	if (error)
		return error;
	if (!pHandle || !(((struct event *)event)->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_VALUE;
	write_text(pHandle, EVENT_MAGIC, event, 0);
	return CUDA_SUCCESS;
}

/* A real driver refuses the process that made it, too. */
CUresult ipc_open_event(CUevent *phEvent, CUipcEventHandle handle)
{
	struct ticket_text text;
	CUresult error = read_text(&handle, EVENT_MAGIC, &text);

	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	return error ? error : CUDA_ERROR_INVALID_CONTEXT;
}
