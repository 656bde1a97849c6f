/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/ipc.h - memory of one process in another.
 *
 * A descriptor names an allocation by what the driver gives, an offset and a size, so
 * that parts of an allocation can be shared.  It is plain bytes, to be sent by
 * whatever the program has; what arrives is not trusted: it is checked, and what
 * cannot be is answered by an error.  Memory is imported once per process and counted,
 * however often it is opened.  The exporter keeps it alive, and does not free it before
 * all importers have closed: an exported block is never put off, and its free while
 * it is exported stands in the trace.
 */
#ifndef CUSTODY_IPC_H
#define CUSTODY_IPC_H

#include <custody/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CUSTODY_IPC_BYTES = 192 };

/* To be copied as it is; what is in it is libcustody's business. */
struct custody_ipc_descriptor {
	unsigned char bytes[CUSTODY_IPC_BYTES];
};

/*
 * Describe a buffer (or slice) of the device resource (legacy IPC) or of a shareable
 * pool for another process; CUSTODY_E_UNSUPPORTED for all others.
 */
CUSTODY_API int custody_buffer_export(struct custody_buffer *buffer,
				      struct custody_ipc_descriptor *descriptor);

/*
 * Open what another process has exported.  `resource` is the imported pool it is of,
 * NULL for a descriptor of the device resource.  On another device than `context`'s
 * that cannot reach the exporter's: a copy in memory of its own.  By the process that
 * exported it: CUSTODY_E_OWN_PROCESS.  Freed as any buffer, but for memory without a
 * pool, for whose streams the close waits.
 */
CUSTODY_API int custody_buffer_import(struct custody_context *context,
				      const struct custody_ipc_descriptor *descriptor,
				      struct custody_resource *resource,
				      struct custody_stream *stream,
				      struct custody_buffer **buffer);

/*
 * A shareable pool as a file descriptor, which the caller sends (SCM_RIGHTS) and
 * closes; and the resource it makes in the other process, which can import and never
 * allocates.
 */
CUSTODY_API int custody_resource_export(struct custody_resource *resource, int *descriptor);
CUSTODY_API int custody_resource_import(struct custody_context *context, int descriptor,
					struct custody_resource **resource);

#ifdef __cplusplus
}
#endif
#endif
