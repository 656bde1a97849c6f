/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc_cache.c - what this process has opened of others.  The driver counts opens of
 * some handles, and gives others out twice, of which the first free then takes both:
 * so each is opened once, and counted here.
 */
#include "library/ipc.h"

#include <stdlib.h>
#include <string.h>

struct ipc_import {
	struct ipc_import *next;
	unsigned char handle[IPC_HANDLE_BYTES];
	struct custody_context *context;
	uint64_t generation;
	struct custody_resource *resource; /* the pool it is of; NULL: by a legacy handle */
	CUdeviceptr address;
	size_t bytes;
	uint32_t references;
};

/*
 * Of the list.  Held across look-up, opening and closing, driver calls included: between
 * the last close and the next open nobody may find what is just being unmapped.
 */
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ipc_import *imports;

void *ipc_cache_pointer(const struct ipc_import *import)
{
	return (void *)(uintptr_t)import->address;
}

struct custody_resource *ipc_cache_resource(const struct ipc_import *import)
{
	return import->resource;
}

size_t ipc_cache_bytes(const struct ipc_import *import)
{
	return import->bytes;
}

/* Under the lock. */
static struct ipc_import *find(const struct ipc_content *content,
			       const struct custody_context *context,
			       const struct custody_resource *resource)
{
	struct ipc_import *import = imports;

	while (import && !(import->context == context && import->resource == resource &&
			   context_is_fresh(context, import->generation) &&
			   !memcmp(import->handle, content->handle, sizeof(import->handle))))
		import = import->next;
	return import;
}

/* ------------------------------------------------------------ the driver's part */

static CUresult open_legacy(struct ipc_import *import)
{
	CUipcMemHandle handle;

	memcpy(&handle, import->handle, sizeof(handle));
	return library_cuda.cuIpcOpenMemHandle(&import->address, handle,
					       CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static CUresult import_once(struct ipc_import *import)
{
	CUmemPoolPtrExportData data;

	memcpy(&data, import->handle, sizeof(data));
	return library_cuda.cuMemPoolImportPointer(&import->address, import->resource->pool.handle,
						   &data);
}

/* A free of the same memory may be on its way still. */
static CUresult import_pooled(struct ipc_import *import)
{
	CUstream waiting = atomic_load(&import->resource->waiting);
	CUresult result = import_once(import);

	if (result == CUDA_SUCCESS || !waiting || stream_finish(waiting, true))
		return result;
	return import_once(import);
}

static bool ask_attributes(CUdeviceptr address, CUdeviceptr *base, size_t *bytes)
{
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
					     CU_POINTER_ATTRIBUTE_RANGE_SIZE };
	void *values[] = { base, bytes };

	return library_cuda.cuPointerGetAttributes(2, attributes, values, address) ==
	       CUDA_SUCCESS;
}

/* Whoever has written the descriptor may say what he likes: the driver has the word. */
static int ask_bytes(struct ipc_import *import)
{
	CUdeviceptr base = 0;
	size_t bytes = 0;

	if (library_cuda.cuMemGetAddressRange(&base, &bytes, import->address) != CUDA_SUCCESS &&
	    !ask_attributes(import->address, &base, &bytes))
		bytes = 0;
	if (base > import->address || bytes <= import->address - base)
		return error_say(CUSTODY_E_UNSUPPORTED, "the driver does not say how large memory "
				 "of other processes is");
	import->bytes = bytes - (import->address - base);
	return 0;
}

static CUresult unmap(struct ipc_import *import, CUstream handle)
{
	return import->resource ? library_cuda.cuMemFreeAsync(import->address, handle) :
				  library_cuda.cuIpcCloseMemHandle(import->address);
}

/* ------------------------------------------------------------ opening */

static struct ipc_import *new_import(const struct ipc_content *content,
				     struct custody_context *context,
				     struct custody_resource *resource)
{
	struct ipc_import *import = calloc(1, sizeof(*import));

	if (!import)
		return NULL;
	memcpy(import->handle, content->handle, sizeof(import->handle));
	import->context = context;
	import->generation = atomic_load(&context->generation);
	import->resource = resource;
	import->references = 1;
	return import;
}

/* Under the lock. */
static int open_new(const struct ipc_content *content, struct custody_context *context,
		    struct custody_resource *resource, struct ipc_import **import)
{
	struct ipc_import *made = new_import(content, context, resource);
	int error;

	if (!made)
		return CUSTODY_E_NO_MEMORY;
	error = resource ? import_pooled(made) : open_legacy(made);
	if (error) {
		free(made);
		return error;
	}
	error = ask_bytes(made);
	if (error) {
		unmap(made, CU_STREAM_PER_THREAD);
		free(made);
		return error;
	}
	made->next = imports;
	imports = made;
	*import = made;
	return 0;
}

int ipc_cache_open(const struct ipc_content *content, struct custody_context *context,
		   struct custody_resource *resource, struct ipc_import **import)
{
	struct resource_mode before;
	int error = 0;

	resource_relax(&before);
	pthread_mutex_lock(&cache_lock);
	*import = find(content, context, resource);
	if (*import)
		(*import)->references++;
	else
		error = open_new(content, context, resource, import);
	pthread_mutex_unlock(&cache_lock);
	resource_restore(&before);
	return error;
}

/* ------------------------------------------------------------ closing */

/* Under the lock. */
static void drop(struct ipc_import *import)
{
	struct ipc_import **place = &imports;

	while (*place != import)
		place = &(*place)->next;
	*place = import->next;
	free(import);
}

/* Under the lock. */
static CUresult close_one(struct ipc_import *import, CUstream handle)
{
	CUresult result = CUDA_SUCCESS;

	if (import->references > 1) {
		import->references--;
		return result;
	}
	result = unmap(import, handle);
	if (result == CUDA_SUCCESS)
		drop(import);
	return result;
}

int ipc_cache_close(struct ipc_import *import, CUstream handle)
{
	struct resource_mode before;
	CUresult result;

	resource_relax(&before);
	pthread_mutex_lock(&cache_lock);
	result = close_one(import, handle);
	pthread_mutex_unlock(&cache_lock);
	resource_restore(&before);
	return result;
}

/* Where the process is ending, or is a child, it is left as it is. */
void ipc_cache_forget(struct ipc_import *import)
{
	if (!library_is_usable())
		return;
	pthread_mutex_lock(&cache_lock);
	if (--import->references == 0)
		drop(import);
	pthread_mutex_unlock(&cache_lock);
}
