/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/resource.h - memory resources: where memory comes from.
 *
 * One interface over every kind of memory of the driver's.  A resource is counted by
 * reference: who creates one holds a reference, each buffer of it holds another, and
 * it ends with the last.  An allocation that runs out of memory has all queues of the
 * device flushed and is tried again, see custody/defer.h; then what was freed in the
 * order of streams is waited for once and taken from the pools, and then the program is
 * asked.  The error's detail has the numbers.
 *
 * A stream that is capturing gives no memory and frees none, but of the graph resource:
 * CUSTODY_E_CAPTURING.  Captures of other streams and threads survive all of this.
 *
 * Any thread.  Allocations may be freed on another thread than the one that made them.
 */
#ifndef CUSTODY_RESOURCE_H
#define CUSTODY_RESOURCE_H

#include <custody/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

struct custody_resource;
struct custody_buffer;

enum custody_resource_kind {
	CUSTODY_RESOURCE_DEVICE,  /* cuMemAlloc */
	CUSTODY_RESOURCE_POOL,	  /* stream-ordered, of a pool on the device */
	CUSTODY_RESOURCE_PINNED,  /* cuMemHostAlloc */
	CUSTODY_RESOURCE_PINNED_POOL,
	CUSTODY_RESOURCE_MANAGED, /* cuMemAllocManaged */
	CUSTODY_RESOURCE_MANAGED_POOL,
	CUSTODY_RESOURCE_VIRTUAL, /* cuMemCreate, cuMemMap */
	CUSTODY_RESOURCE_GRAPH,	  /* allocations of a graph that is being captured */
	CUSTODY_RESOURCE_CUSTOM	  /* functions of the program's own */
};

struct custody_resource_info {
	size_t size; /* sizeof(struct custody_resource_info), set by the caller */
	enum custody_resource_kind kind;
	int device; /* ordinal; -1: no device */
	bool is_device_accessible;
	bool is_host_accessible;
	bool is_managed;
	bool is_shareable; /* its memory can be exported to other processes */
	bool is_imported;  /* of another process: it receives, and never allocates */
	bool is_owned;	   /* a pool that ends with the resource */
};

CUSTODY_API int custody_resource_info(struct custody_resource *resource,
				      struct custody_resource_info *info);
CUSTODY_API struct custody_context *custody_resource_context(struct custody_resource *resource);

/*
 * One reference more, or less; NULL is fine.  With the last one goes what was allocated
 * without a buffer and not freed, but for memory of the program's own; an error says
 * what the driver did not take back.
 */
CUSTODY_API void custody_resource_retain(struct custody_resource *resource);
CUSTODY_API int custody_resource_release(struct custody_resource *resource);

/*
 * Memory without a buffer around it.  0 bytes: NULL goes to *pointer, without a driver
 * call.  `stream` NULL: the default stream of the resource's context, and what is
 * ordered by streams is there on return.  Only resources that are (pools, graph), and
 * custom ones, use it to allocate.
 *
 * custody_resource_deallocate() is told what custody_resource_allocate() was: memory
 * that is not of this resource, or is a buffer's, is CUSTODY_E_UNKNOWN, another size
 * CUSTODY_E_MISMATCH, a second time CUSTODY_E_DOUBLE_FREE (UNKNOWN after a thousand
 * other frees); nothing happens then.  Work that was given to `stream` before it may
 * still use the memory; device, pinned and managed memory is queued and is not released
 * before all work of its context that was submitted by then is done.
 */
CUSTODY_API int custody_resource_allocate(struct custody_resource *resource, size_t bytes,
					  struct custody_stream *stream, void **pointer);
CUSTODY_API int custody_resource_deallocate(struct custody_resource *resource, void *pointer,
					    size_t bytes, struct custody_stream *stream);

/* Plain device memory, through the deferred-free queue.  Alignment 256. */
CUSTODY_API int custody_resource_device(struct custody_context *context,
					struct custody_resource **resource);

struct custody_pool_options {
	size_t size; /* sizeof(struct custody_pool_options), set by the caller */
	size_t max_bytes; /* 0: the driver's own limit */
	bool is_shareable; /* its memory can be exported, see custody/ipc.h */
	bool has_release_threshold;
	uint64_t release_threshold; /* bytes kept beyond a synchronise; not set: all of them */
};

/* A pool of its own on the context's device; `options` may be NULL. */
CUSTODY_API int custody_resource_pool(struct custody_context *context,
				      const struct custody_pool_options *options,
				      struct custody_resource **resource);

/*
 * The device's current pool, which is not owned; its release threshold is raised from
 * 0 to the maximum, so that memory stays.
 */
CUSTODY_API int custody_resource_current_pool(struct custody_context *context,
					      struct custody_resource **resource);

enum custody_pool_attribute {
	CUSTODY_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, /* 0 or 1; read and write */
	CUSTODY_POOL_REUSE_ALLOW_OPPORTUNISTIC,
	CUSTODY_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
	CUSTODY_POOL_RELEASE_THRESHOLD, /* bytes; read and write */
	CUSTODY_POOL_RESERVED_CURRENT,	/* bytes; read */
	CUSTODY_POOL_RESERVED_HIGH,	/* bytes; read, and written with 0 */
	CUSTODY_POOL_USED_CURRENT,
	CUSTODY_POOL_USED_HIGH
};

/* Of pools, and of the graph resource (the four byte counts). */
CUSTODY_API int custody_pool_attribute(struct custody_resource *resource,
				       enum custody_pool_attribute attribute, uint64_t *value);
CUSTODY_API int custody_pool_set_attribute(struct custody_resource *resource,
					   enum custody_pool_attribute attribute, uint64_t value);

/* Give back what is unused beyond `keep_bytes`; of the graph resource all. */
CUSTODY_API int custody_pool_trim(struct custody_resource *resource, size_t keep_bytes);

/* Let the devices use memory of the pool, or no longer; it is taken from all at its end. */
CUSTODY_API int custody_pool_set_access(struct custody_resource *resource,
					struct custody_device *device, bool can_access);
CUSTODY_API int custody_pool_has_access(struct custody_resource *resource,
					struct custody_device *device, bool *can_access);

enum custody_host_flags {
	CUSTODY_HOST_PORTABLE = 1 << 0, /* pinned for all contexts */
	CUSTODY_HOST_MAPPED = 1 << 1,	/* devices reach it by its device address */
	CUSTODY_HOST_WRITE_COMBINED = 1 << 2, /* fast to write for the host, slow to read */
	CUSTODY_HOST_READ_ONLY = 1 << 3,      /* registration only: the device reads */
	CUSTODY_HOST_IO_MEMORY = 1 << 4	      /* registration only: of another device */
};

/* Page-locked host memory; enum custody_host_flags. */
CUSTODY_API int custody_resource_pinned(struct custody_context *context, unsigned int flags,
					struct custody_resource **resource);

struct custody_pinned_pool_options {
	size_t size; /* sizeof(struct custody_pinned_pool_options), set by the caller */
	size_t max_bytes;
	bool is_shareable; /* lies on the NUMA node of the device then, unless one is named */
	bool has_numa_node;
	int numa_node;
};

/* A pool of page-locked host memory; CUSTODY_E_UNSUPPORTED where the driver has none. */
CUSTODY_API int custody_resource_pinned_pool(struct custody_context *context,
					     const struct custody_pinned_pool_options *options,
					     struct custody_resource **resource);

/* Managed memory; attached to the host where `is_global` is false.  managed_array(). */
CUSTODY_API int custody_resource_managed(struct custody_context *context, bool is_global,
					 struct custody_resource **resource);

enum custody_location_kind {
	CUSTODY_LOCATION_NONE,
	CUSTODY_LOCATION_DEVICE, /* `id` is its ordinal */
	CUSTODY_LOCATION_HOST,
	CUSTODY_LOCATION_HOST_NUMA /* `id` is the node */
};

struct custody_location {
	enum custody_location_kind kind;
	int id;
};

/* A pool of managed memory; CUSTODY_E_UNSUPPORTED before CUDA 13. */
CUSTODY_API int custody_resource_managed_pool(struct custody_context *context,
					      struct custody_location preferred,
					      struct custody_resource **resource);

struct custody_virtual_options {
	size_t size; /* sizeof(struct custody_virtual_options), set by the caller */
	bool is_shareable;	   /* physical memory with a file descriptor to export */
	bool has_minimum_granularity; /* else the recommended one */
	size_t address_align;	   /* 0: the granularity */
	struct custody_device *const *peers; /* that get access beside the own device */
	size_t peer_count;
};

/*
 * Virtual memory: an address range with physical memory mapped into it.  Sizes are
 * rounded up to the granularity.  Its release waits for the free stream and those that
 * were recorded, since unmapping is not ordered by streams.
 */
CUSTODY_API int custody_resource_virtual(struct custody_context *context,
					 const struct custody_virtual_options *options,
					 struct custody_resource **resource);

/*
 * Make a buffer of the virtual resource larger, to `bytes` or more: in place where
 * the addresses behind it are free, else by mapping the same physical memory at other
 * addresses too.  The new buffer holds the old bytes; the old one stays valid until
 * it is closed, and both show the same memory.
 */
CUSTODY_API int custody_virtual_grow(struct custody_buffer *buffer, size_t bytes,
				     struct custody_buffer **grown);

/* A piece of the physical memory of a buffer: as it was allocated, or grown by. */
struct custody_virtual_piece {
	size_t bytes;
	int descriptor; /* of a file, which stands for it */
};

/*
 * The memory of a buffer of a shareable virtual resource, for other processes: its
 * pieces, first to last, whose descriptors the caller sends (SCM_RIGHTS) and closes.
 * More than `most`: CUSTODY_E_BOUNDS.  The memory lives until they are closed, too.
 */
CUSTODY_API int custody_virtual_export(struct custody_buffer *buffer,
				       struct custody_virtual_piece *pieces, size_t most,
				       size_t *count);

/*
 * And there: a buffer that shows the same memory.  The descriptors stay the caller's.
 * Sizes that are not those of the memory are an error of the driver's, or
 * CUSTODY_E_CORRUPT.
 */
CUSTODY_API int custody_virtual_import(struct custody_resource *resource,
				       const struct custody_virtual_piece *pieces, size_t count,
				       struct custody_stream *stream,
				       struct custody_buffer **buffer);

/*
 * Memory of a graph: allocations and frees become nodes of the graph that `stream`
 * is capturing; CUSTODY_E_NOT_CAPTURING else.
 */
CUSTODY_API int custody_resource_graph(struct custody_context *context,
				       struct custody_resource **resource);

/* A resource of the program's own.  The functions return what libcustody's do. */
struct custody_resource_ops {
	size_t size; /* sizeof(struct custody_resource_ops), set by the caller */
	int (*allocate)(void *self, size_t bytes, struct custody_stream *stream, void **pointer);
	int (*deallocate)(void *self, void *pointer, size_t bytes, struct custody_stream *stream);
	int (*query)(void *self, struct custody_resource_info *info); /* NULL: device memory */
	void (*destroy)(void *self); /* with the last reference; may be NULL */
};

CUSTODY_API int custody_resource_custom(struct custody_context *context,
					const struct custody_resource_ops *ops, void *self,
					struct custody_resource **resource);

/*
 * The resource that a device's buffers and arrays come from where none is named; at
 * first, and after a reset, the device resource.  The device holds a reference.  NULL:
 * as at first.  The getter gives no reference.
 */
CUSTODY_API int custody_device_resource(struct custody_device *device,
					struct custody_resource **resource);
CUSTODY_API int custody_device_set_resource(struct custody_device *device,
					    struct custody_resource *resource);

#ifdef __cplusplus
}
#endif
#endif
