/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource.h - private: what all kinds of resources have in common, and what tells
 * them apart.
 *
 * A kind is a table of functions.  They run in the resource's context, entered by
 * resource.c, in relaxed capture mode, so that a capture of another thread survives
 * them, and with no lock held.  What other streams still do with memory that is freed
 * is honoured before `deallocate` is called, in the way the kind names.
 *
 * Memory that the program has without a buffer around it stands in the resource's
 * registry; a buffer knows its own.
 */
#ifndef CUSTODY_LIBRARY_RESOURCE_H
#define CUSTODY_LIBRARY_RESOURCE_H

#include "library/library.h"

#include <custody/resource.h>

#include <pthread.h>

/* Memory as its resource has made it. */
struct resource_memory {
	void *pointer;	      /* as copies name it; NULL: no bytes */
	void *host_pointer;   /* NULL: the host cannot reach it */
	void *device_pointer; /* NULL: the device cannot */
	size_t bytes;	      /* as asked for; of virtual memory as they were rounded */
	void *part;	      /* the resource's own: what lies behind it */
	bool is_exported;     /* other processes may use it: its free is not put off */
};

enum { RESOURCE_THREADS_SEVERAL = 1 };

/*
 * A stream as a thread has named it: the default ones of threads have one name, which
 * is another stream on each.
 */
struct resource_use {
	struct custody_stream *stream; /* NULL: the context's default */
	uint64_t thread; /* of resource_thread(); 0: this one; RESOURCE_THREADS_SEVERAL */
};

/* Who may still use memory that is freed, and where it is freed. */
struct resource_uses {
	struct resource_use at;
	const struct resource_use *others;
	size_t other_count;
};

/* How that is honoured. */
enum resource_honour {
	RESOURCE_QUEUED,  /* the queue waits for the context: streams of others are joined to it */
	RESOURCE_ORDERED, /* freed on a stream of the resource's own, behind all of them */
	RESOURCE_JOINED,  /* the stream it is freed on waits for the others */
	RESOURCE_WAITED	  /* the host waits for all of them */
};

struct resource_ops {
	enum resource_honour honour;
	bool is_ordered; /* memory is made in a stream's order, and with none the host waits */

	/*
	 * memory->bytes of memory; `handle` is that of `stream` if they are ordered.
	 * A CUresult or CUSTODY_E_*.
	 */
	int (*allocate)(struct custody_resource *resource, CUstream handle,
			struct custody_stream *stream, struct resource_memory *memory);

	/* All uses are over, or in front of `stream`, or under RESOURCE_ORDERED of `handle`. */
	int (*deallocate)(struct custody_resource *resource, CUstream handle,
			  struct custody_stream *stream, struct resource_memory *memory);

	/*
	 * The context has died before: give back what has not gone with it, in no context.
	 * NULL: all has.
	 */
	void (*lose)(struct resource_memory *memory);

	/* Give back what the driver holds for the resource itself; may be NULL. */
	int (*end)(struct custody_resource *resource);
};

/* ---------------------------------------------------------- resource_registry.c */

struct registry_entry;

enum { REGISTRY_SLOTS = 256, REGISTRY_REMEMBERED = 1024 };

/*
 * What is alive, by address, and the last REGISTRY_REMEMBERED addresses that were freed
 * and not handed out again, so that a second free is known as one.  Any thread.
 */
struct resource_registry {
	pthread_mutex_t lock;
	struct registry_entry **slots; /* NULL: empty; a power of two of them */
	size_t slot_count;
	size_t entry_count;
	struct registry_entry *oldest, *newest; /* freed */
	size_t freed_count;
};

void resource_registry_start(struct resource_registry *registry);
void resource_registry_end(struct resource_registry *registry);

/* Room for one address more, ahead of the driver's call; NULL: no memory. */
struct registry_entry *resource_registry_reserve(struct resource_registry *registry);
void resource_registry_cancel(struct registry_entry *entry);

/* It is alive now; the entry goes into the registry. */
void resource_registry_add(struct resource_registry *registry, struct registry_entry *entry,
			   const struct resource_memory *memory);

/*
 * It is freed: 0, CUSTODY_E_UNKNOWN, _MISMATCH (`*memory` says how many bytes it has) or
 * _DOUBLE_FREE.  Of two threads one succeeds.
 */
int resource_registry_take(struct resource_registry *registry, const void *pointer, size_t bytes,
			   struct resource_memory *memory);

/* The driver did not free it: it is alive as before. */
void resource_registry_put_back(struct resource_registry *registry,
				const struct resource_memory *memory);

/* Take any that is alive; false: none is. */
bool resource_registry_pop(struct resource_registry *registry, struct resource_memory *memory);

/* ------------------------------------------------------------------ resource.c */

enum { RESOURCE_DEVICES = 64 }; /* that a pool's access is kept for */

struct resource_pool {
	CUmemoryPool handle;
	_Atomic uint64_t peers; /* bits of the ordinals that were given access */
	struct custody_resource *next; /* of all, see resource_pool.c */
};

struct resource_virtual {
	CUmemAllocationProp properties;
	size_t granularity;
	size_t address_align;
	CUmemAccessDesc *access;
	size_t access_count;
};

struct custody_resource {
	struct library_object object;
	const struct resource_ops *ops;
	struct custody_resource_info facts;
	_Atomic uint32_t references;
	_Atomic bool is_left; /* nobody has it, but it could not be ended: a reset will */
	struct resource_registry registry;

	pthread_mutex_t lock; /* of making the next; held across its creation */
	_Atomic(CUstream) waiting; /* where frees wait for other streams; NULL: none has yet */

	unsigned int flags; /* of the kind's allocating function */
	struct resource_pool pool;
	struct resource_virtual space;
	struct custody_resource_ops custom;
	void *self;
};

/* A resource of a kind, with one reference, that `facts` describe; not yet in its context. */
struct custody_resource *resource_new(const struct resource_ops *ops,
				      const struct custody_resource_info *facts);

/* It is complete: enter it into the context, which is entered. */
void resource_add(struct custody_resource *resource, struct custody_context *context);

/* It never became one. */
void resource_discard(struct custody_resource *resource);

/*
 * Memory of the resource, whose context is entered; with the waits and retries of
 * running out of it, and the sentence that tells of it.  0 bytes: none.
 */
int resource_take(struct custody_resource *resource, size_t bytes, struct custody_stream *stream,
		  struct resource_memory *memory);

/* The same around any attempt, whose result is CUDA_ERROR_OUT_OF_MEMORY where there is none. */
int resource_insist(struct custody_resource *resource, size_t bytes,
		    int (*attempt)(void *argument), void *argument);

/*
 * Free it.  Where that fails it is alive as before, unless its pointer is NULL then:
 * something behind it was lost.
 */
int resource_give(struct custody_resource *resource, struct resource_memory *memory,
		  const struct resource_uses *uses);

/* The context has died before: what has not gone with it is given back. */
void resource_lose(struct custody_resource *resource, struct resource_memory *memory);

/*
 * resource_give() ended like this, and nobody will try again.  Mappings are no context's:
 * where a fault let it fail, when nothing uses them any more, they go all the same.
 */
void resource_give_up(struct custody_resource *resource, struct resource_memory *memory, int error);

/* "device memory", "managed memory of a pool" and so on. */
const char *resource_name(const struct custody_resource *resource);

/* Enter the context of a resource; NULL is CUSTODY_E_INVALID. */
int resource_enter(struct library_call *call, struct custody_resource *resource);

/*
 * Around driver calls that a capture on another thread would not survive in any other
 * mode.  Cheap.
 */
struct resource_mode {
	CUstreamCaptureMode mode;
	bool has_exchanged;
};

void resource_relax(struct resource_mode *before);
void resource_restore(struct resource_mode *before);

/* ---------------------------------------------------------- resource_default.c */

/* The resource that a device's buffers come from, with a reference for the caller. */
int resource_default_take(struct custody_device *device, struct custody_resource **resource);

/* ----------------------------------------------------------- resource_device.c */

/* The device resource of a context, which is entered. */
int resource_device_make(struct custody_context *context, struct custody_resource **resource);

/* ------------------------------------------------------------- resource_wait.c */

/*
 * What streams do with memory is in front of something.  The context is the memory's,
 * and is entered; the streams may be of others.  A stream that is capturing is refused
 * with CUSTODY_E_CAPTURING, before anything is done; one that died with its context is
 * over.
 */

/* The number of this thread, which is never that of another. */
uint64_t resource_thread(void);

/*
 * Whether it is the default stream of another thread, which has no name on this one:
 * all work of its context is waited for instead, and a live capture is refused.
 */
bool resource_is_elsewhere(const struct resource_use *use);

/* ... before the host goes on. */
int resource_wait_host(struct custody_context *context, const struct resource_uses *uses);

/* ... before what the stream it is freed on is given next. */
int resource_wait_freeing(struct custody_context *context, const struct resource_uses *uses);

/* ... before what the context's next event covers, where they are of other contexts. */
int resource_wait_context(struct custody_resource *resource, const struct resource_uses *uses);

/*
 * The stream on which memory is freed in order: that of `uses` where no other stream
 * and no other context has a part in it, else one of the resource's own that waits.
 */
int resource_wait_order(struct custody_resource *resource, const struct resource_uses *uses,
			CUstream *handle);

/* One of the resource's own in any case. */
int resource_wait_own(struct custody_resource *resource, const struct resource_uses *uses,
		      CUstream *handle);

/* ------------------------------------------------------------- resource_pool.c */

/* Whether the resource's memory is of a pool of the driver's. */
bool resource_pool_is(const struct custody_resource *resource);

/* 0, or CUSTODY_E_UNSUPPORTED where the context's device and driver have no pools. */
int resource_pool_check(struct custody_context *context);

/*
 * A resource of a pool that `properties` describe, in the context that is entered;
 * all of its memory stays with it if `threshold` is UINT64_MAX.
 */
int resource_pool_create(struct custody_context *context, const CUmemPoolProps *properties,
			 uint64_t threshold, const struct custody_resource_info *facts,
			 struct custody_resource **resource);

/* The same of a pool that is there; it is destroyed with the resource if that owns it. */
int resource_pool_adopt(struct custody_context *context, CUmemoryPool pool,
			const struct custody_resource_info *facts,
			struct custody_resource **resource);

/* It ends, and is trimmed no more. */
void resource_pool_forget(struct custody_resource *resource);

/* Take back what the pools of a device keep unused, for an allocation that has failed. */
void resource_pool_trim_all(const struct custody_device *device);

/* The device may use the pool's memory from now on, or no longer. */
int resource_pool_grant(struct custody_resource *resource, int ordinal, bool can_access);

/* ---------------------------------------------------------- resource_virtual.c */

/* Round up to the granularity; 0: it is more than there are addresses. */
size_t resource_virtual_round(const struct custody_resource *resource, size_t bytes);

/* Memory that `range` is, of a virtual resource. */
struct virtual_range;
void resource_virtual_describe(struct virtual_range *range, struct resource_memory *memory);

#endif
