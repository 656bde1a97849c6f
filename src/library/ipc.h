/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc.h - private: what a descriptor says, and the imports of this process.
 */
#ifndef CUSTODY_LIBRARY_IPC_H
#define CUSTODY_LIBRARY_IPC_H

#include "library/buffer.h"

#include <custody/ipc.h>

enum ipc_kind { IPC_LEGACY = 1, IPC_POOL };

enum { IPC_HANDLE_BYTES = 64, IPC_PROCESS_BYTES = 16, IPC_UUID_BYTES = 16 };

/* What the driver's handle names, and which part of it. */
struct ipc_content {
	enum ipc_kind kind;
	unsigned char process[IPC_PROCESS_BYTES]; /* random, of the exporter */
	unsigned char uuid[IPC_UUID_BYTES];	  /* of its device */
	uint64_t offset;
	uint64_t bytes;
	uint64_t whole_bytes; /* of the allocation */
	unsigned char handle[IPC_HANDLE_BYTES];
};

/* ------------------------------------------------------------ ipc_descriptor.c */

/* The name of this process; CUSTODY_E_SYSTEM: there is none to be had. */
int ipc_descriptor_process(unsigned char process[IPC_PROCESS_BYTES]);

void ipc_descriptor_write(const struct ipc_content *content,
			  struct custody_ipc_descriptor *descriptor);

/* CUSTODY_E_CORRUPT for what no such function has written, or says what cannot be. */
int ipc_descriptor_read(const struct custody_ipc_descriptor *descriptor,
			struct ipc_content *content);

/* ----------------------------------------------------------------- ipc_cache.c */

/*
 * An allocation of another process, opened once in a context, or pool, and counted.
 * `resource` NULL: by a legacy handle.
 */
struct ipc_import;

/* Open, or count one more; with the context entered. */
int ipc_cache_open(const struct ipc_content *content, struct custody_context *context,
		   struct custody_resource *resource, struct ipc_import **import);

/*
 * One less; the last unmaps it, a pool's behind what `handle` was given.  Where that
 * fails it is open as before.
 */
int ipc_cache_close(struct ipc_import *import, CUstream handle);

/* One less, without the driver, which has lost it already. */
void ipc_cache_forget(struct ipc_import *import);

void *ipc_cache_pointer(const struct ipc_import *import);
struct custody_resource *ipc_cache_resource(const struct ipc_import *import);

/* As the driver says. */
size_t ipc_cache_bytes(const struct ipc_import *import);

#endif
