/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private header of the simulated driver: every structure that two of its files
 * share.  What the words mean:
 *
 * handle   what a client holds: the address of an object in an arena (handle.c)
 * block    a range of addresses that the driver knows (registry.c)
 * alias    where the bytes of a block really are; device addresses themselves are
 *          not accessible, as on hardware
 * op       one piece of work of a stream (op.c), run by the stream's worker
 * ticket   a stream and a position in it: passed once the stream got that far
 *
 * Lock order, outermost first: context.api, the capture lock, exec.lock, the lists of
 * pools, mappings and IPC, context.lock, stream.lock, event.lock, pool.lock,
 * device.lock, the registry's stripes, the arenas.  While a stream is waited for only
 * context.api, a device's primary_lock and the exec.lock of a running graph are held.
 */
#ifndef SIM_H
#define SIM_H

/* Makes cuda.h declare the old forms and the per-thread twins as well. */
#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
	SIM_DEVICES_MAX = 8,
	PAGE_BITS = 21,
	STACK_MAX = 64,
	QUEUE_MAX = 1024,
	RULES_MAX = 32,
};
#define PAGE_BYTES ((size_t)1 << PAGE_BITS)
#define SMALL_MAX ((size_t)1 << 20)
#define GRANULE ((size_t)512)
/* An asynchronous copy from pageable memory up to here is staged and does not wait. */
#define STAGE_MAX ((size_t)1 << 20)

static inline size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* ------------------------------------------------------------------ handle.c */

enum object_kind {
	OBJECT_CONTEXT = 1,
	OBJECT_STREAM,
	OBJECT_EVENT,
	OBJECT_BLOCK,
	OBJECT_ARRAY,
	OBJECT_MIPMAP,
	OBJECT_POOL,
	OBJECT_MEMORY,
	OBJECT_MODULE,
	OBJECT_FUNCTION,
	OBJECT_GRAPH,
	OBJECT_NODE,
	OBJECT_EXEC,
	OBJECT_USER,
	OBJECT_EXTERNAL_MEMORY,
	OBJECT_EXTERNAL_SEMAPHORE,
	OBJECT_RESOURCES,
	OBJECT_LINKER,
	OBJECT_TEXTURE,
	OBJECT_KINDS,
};

/* First member of everything that lives in an arena. */
struct object {
	atomic_uint state;	/* OBJECT_FREE, OBJECT_ALIVE, OBJECT_DEAD */
	atomic_uint refs;	/* the arena takes the place back at zero */
	struct object *next_free;
};

enum { OBJECT_FREE, OBJECT_ALIVE = 0x616c6976, OBJECT_DEAD = 0x64656164 };

/* A zeroed object, alive, with one reference; NULL when the arena is full. */
void *handle_new(enum object_kind kind);
void handle_retain(void *object);
/* Gives one reference back; true when it was the last one. */
bool handle_give(enum object_kind kind, void *object);
/* The handle is no longer valid; the place stays until the references are gone. */
void handle_kill(void *object);
/*
 * 0 when the handle is alive.  NULL gives CUDA_ERROR_INVALID_HANDLE; a destroyed or
 * invented handle ends the process with a message when SIMCUDA_STRICT is on.
 */
CUresult handle_check(enum object_kind kind, const void *object);
uint64_t handle_next_id(void);

/* ------------------------------------------------------------------ settings.c */

/* One rule of SIMCUDA_FAIL or SIMCUDA_DELAY. */
struct call_rule {
	char name[64];
	unsigned long first;	/* the first call it holds for; 0: every call */
	bool onward;		/* for all later calls too */
	long value;		/* error code, or microseconds */
	atomic_ulong calls;
};

struct config {
	int version;
	int devices, capability;	/* 90: each is of compute capability 9.0 */
	size_t memory;		/* bytes of each device */
	size_t context_bytes;	/* what a context takes of them */
	size_t pool_chunk;
	size_t others;		/* what other processes have, from the start */
	size_t module_bytes, stream_bytes, graph_bytes;
	bool strict, verbose, pools, vmm, inline_ops, lazy, peer;
	int managed;		/* 2: it counts on the device, too */
	bool managed_access;	/* host and devices may use it at one time */
	int free_plain;		/* what cuMemFreeAsync does with plain blocks, 0 to 2 */
	unsigned quarantine;	/* freed handles kept back per kind */
	double copy_bytes_per_ns, memset_bytes_per_ns;	/* 0: no limit */
	long copy_us, memset_us, kernel_us, host_us;
	size_t global_bytes;
	unsigned long fail_alloc;
	struct call_rule fail[RULES_MAX], delay[RULES_MAX];
	int fails, delays;
	bool fail_profiled;
	char *kernels;
	char *kernel_times;
	char *shared;		/* a file: processes share the devices' memory */
};
extern struct config settings;
/* The version that is played unless SIMCUDA_VERSION says another; weak, see old.c. */
extern int config_version_default;

enum need {
	NEED_NOTHING = 0,
	NEED_INIT = 1,
	NEED_CONTEXT = 2,
	NEED_NO_CAPTURE = 4,
};

/* Set while nothing but the context has to be looked at before a call. */
extern atomic_bool config_plain;
/* The driver goes down: workers stop, waits end. */
extern atomic_bool config_stopping;
extern atomic_int capture_live;

_Noreturn void config_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
CUresult config_check(const char *call, unsigned need);
void config_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* False once per call that SIMCUDA_FAIL_ALLOC wants to fail. */
bool config_may_allocate(void);
uint64_t config_now_ns(void);
void config_sleep_until(uint64_t when_ns);
/* The same to the microsecond: short times are spent turning. */
void config_pass_until(uint64_t when_ns);
CUresult entry_unsupported(const char *call);

/* What a thread holds.  Small: it lies in the static TLS block. */
struct thread {
	const char *call;	/* the driver function the thread is in */
	struct context *current;
	struct context *running;	/* of the kernel that a worker runs */
	struct thread_rest *rest;
	CUstreamCaptureMode capture_mode;
};
extern __thread struct thread sim_thread __attribute__((tls_model("initial-exec")));

struct thread_stream {
	struct context *context;
	uint64_t context_id;
	struct stream *stream;
};

struct thread_rest {
	struct context *stack[STACK_MAX];
	int depth;
	struct thread_stream own[SIM_DEVICES_MAX * 2];	/* per-thread default streams */
};

/* The calling thread's part that is not in TLS; made on first use. */
struct thread_rest *config_thread(void);

/* ------------------------------------------------------------------ lookup.c */

struct lookup_row {
	const char *symbol, *base;
	int since;		/* -1: cuGetProcAddress does not know it */
	bool per_thread;
	void *address;
};
extern const struct lookup_row lookup_rows[];
extern const unsigned lookup_row_count;

/* ------------------------------------------------------------------ device.c */

struct slab;
struct shared_pages;

struct device {
	int index;
	size_t total;
	pthread_mutex_t lock;	/* the address space and the counters below */
	atomic_size_t used;
	char *base;		/* device addresses, no access */
	char *backing;		/* the same distance apart: the bytes */
	size_t pages;
	uint64_t *page_used;	/* bitmap */
	struct slab **slab_of;	/* per page */
	struct slab *slabs[2];	/* those of blocks, those of arrays */
	struct shared_pages *shared;	/* those that are files */
	size_t next_page;
	struct { size_t page, count; } recent[64];
	unsigned recent_count;

	pthread_mutex_t primary_lock;
	struct context *primary;
	unsigned primary_refs, primary_flags;

	struct pool *pools, *default_pool, *managed_pool;
	_Atomic(struct pool *) current_pool, current_managed_pool;
	atomic_bool pools_dirty;
	struct block *graph_blocks;
	/* Reserved for graphs in steps, given back by a trim only; and what they need of it. */
	size_t graph_reserved, graph_reserved_high, graph_needed;
};

/* Of the simulated processor: what attributes say and stacks are counted by. */
enum { DEVICE_PROCESSORS = 16, DEVICE_PROCESSOR_THREADS = 2048 };

CUresult device_find(CUdevice index, struct device **device);
struct device *device_at(int index);
/* Counts bytes against the device's limit; false when they do not fit. */
bool device_charge(struct device *device, size_t bytes);
void device_discharge(struct device *device, size_t bytes);
CUresult device_start(void);
CUuuid device_identity(const struct device *device);

/* ------------------------------------------------------------------ space.c */

/* Whole 2 MiB pages, charged; 0 when the device is full. */
char *space_take_pages(struct device *device, size_t bytes);
void space_give_pages(struct device *device, char *address, size_t bytes);
/* Up to 1 MiB out of a shared page; arrays share with arrays alone, as measured. */
enum slab_kind { SLAB_BLOCKS, SLAB_ARRAYS };
char *space_take_small(struct device *device, enum slab_kind kind, size_t bytes);
void space_give_small(struct device *device, char *address, size_t bytes);
/* Address space with bytes behind it that count nowhere yet (allocations of graphs). */
char *space_reserve_pages(struct device *device, size_t bytes);
void space_unreserve_pages(struct device *device, char *address, size_t bytes);
char *space_alias(struct device *device, char *address);
/*
 * Makes the pages around a block a file, unless they are one, and says where the block
 * is in it.  The caller sees to it that nobody works on the bytes meanwhile.
 */
bool space_share(struct device *device, char *address, size_t bytes, int *fd, size_t *offset);
/* Puts private zeros where a file was mapped. */
void space_forget(struct device *device, char *address, size_t bytes);
bool space_start(struct device *device);

/* ------------------------------------------------------------------ registry.c */

enum block_kind {
	BLOCK_DEVICE = 1,	/* cuMemAlloc and cuMemAllocPitch */
	BLOCK_MANAGED,
	BLOCK_HOST,
	BLOCK_REGISTERED,
	BLOCK_POOL,
	BLOCK_GRAPH,
	BLOCK_MAPPED,		/* virtual memory management */
	BLOCK_GLOBAL,		/* a variable of a module */
	BLOCK_IPC,
	BLOCK_IMPORTED,		/* another process's pool gave it */
	BLOCK_EXTERNAL,		/* another interface's memory */
};

struct block {
	struct object object;
	char *base;
	size_t size;		/* what was asked for */
	size_t span;		/* what it takes */
	char *alias;
	enum block_kind kind;
	struct device *device;
	struct context *context;	/* NULL: of no context (pool, mapped) */
	uint64_t id;
	unsigned flags;
	atomic_bool sync_memops;
	bool released;		/* given to cuMemFreeAsync, not yet gone */
	bool charged;		/* of a graph: its bytes count */
	atomic_bool live;	/* of a graph: the client may know of it */
	struct block *next, *prev;	/* of the context */

	struct pool *pool;
	bool in_use;
	struct stream *free_stream;	/* a free piece: usable once this passed */
	uint64_t free_seq;
	struct block *left, *right;	/* neighbours in the segment */
	struct block *free_next, *free_prev;
	struct segment *segment;

	struct memory *memory;	/* mapped */
	size_t memory_offset;
	int access[SIM_DEVICES_MAX];
	unsigned opens;		/* ipc */
	struct block *original;	/* NULL: another process's */
	uint64_t foreign_inode, foreign_id;
};

void registry_add(struct block *block);
void registry_remove(struct block *block);
/* The block that holds the address, or NULL. */
struct block *registry_find(const void *address);
/* Also finds what a graph will allocate: work may name it before a launch did. */
struct block *registry_find_any(const void *address);
/* True when a block overlaps the range. */
bool registry_overlaps(const void *address, size_t bytes);

static inline char *block_alias(const struct block *block, const void *address)
{
	return block->alias + ((const char *)address - block->base);
}

/* ------------------------------------------------------------------ context.c */

struct op;
struct green;

struct context {
	struct object object;
	struct device *device;
	uint64_t id;
	unsigned flags;
	bool primary;
	atomic_bool alive;
	atomic_int error;	/* a sticky error, as after a fault on the device */
	unsigned attached;
	size_t limits[16];
	unsigned cache_config, shared_config;
	atomic_uint peers;	/* devices whose memory it may use */
	atomic_size_t own;	/* what the driver took for itself, see own.c */
	size_t limit_bytes[16];

	/*
	 * Held by cuMemFree and its like while they wait: launches, copies, event
	 * records and allocations of other threads stand behind it, as measured.
	 */
	pthread_mutex_t api;

	pthread_mutex_t lock;	/* the lists */
	struct stream *streams;
	struct stream *legacy;
	struct stream *barrier;	/* carries cuCtxRecordEvent */
	atomic_int blocking;	/* streams that the legacy stream orders with */
	struct event *events;
	struct block *blocks;
	struct array *arrays;
	struct mipmap *mipmaps;
	struct module *modules;
	struct ticket *waits;	/* cuCtxWaitEvent: new streams start behind these */
	unsigned wait_count;

	struct green *green;	/* it is the view of this one, */
	struct context *parent;	/* and what is made in it belongs to this */
	struct context *views, *next_view;
};

/* Whose memory, modules and events they are that are made in the context. */
static inline struct context *context_owner(struct context *context)
{
	return context->parent ? context->parent : context;
}

/* The current context; entry_check has seen that it is there and alive. */
static inline struct context *context_current(void)
{
	return sim_thread.current;
}

CUresult context_new(struct device *device, unsigned flags, bool primary, struct context **out);
/* Ends everything that belongs to it; the handle stays known as destroyed. */
void context_end(struct context *context);
CUresult context_check(CUcontext handle);
/* Of a green context, with streams alone. */
CUresult context_new_view(struct context *parent, struct context **out);
void context_end_view(struct context *view);
/* 0, or why the context cannot be used. */
CUresult context_usable(struct context *context);
/* Stands behind a cuMemFree that waits in another thread. */
void context_pass_gate(struct context *context);
/* Waits until all work submitted so far in the context is done. */
void context_wait_idle(struct context *context);
/* Adds waits for all of that work to an op. */
void context_stand_behind(struct context *context, struct op *op);
/* After a host-side wait: what was freed behind the wait goes back. */
void context_observe(struct context *context);
void context_add_block(struct context *context, struct block *block);
void context_drop_block(struct block *block);

/* ------------------------------------------------------------------ stream.c */

struct ticket {
	struct stream *stream;	/* referenced */
	uint64_t seq;
};

/* A strided copy or fill; lengths in bytes but for a fill's width. */
struct box {
	char *dst;
	const char *src;
	size_t width, height, depth;
	size_t dst_pitch, dst_slice, src_pitch, src_slice;
};

enum op_kind {
	OP_NOTHING,
	OP_COPY,
	OP_FILL,
	OP_KERNEL,
	OP_HOST,
	OP_CALLBACK,
	OP_EVENT,
	OP_EVENT_WAIT,	/* in graphs only */
	OP_WAIT_VALUE,
	OP_WRITE_VALUE,
	OP_ALLOC,
	OP_FREE,
	OP_GRAPH,
};

struct kernel_call;

struct op {
	enum op_kind kind;
	uint64_t seq;
	struct op *next;
	struct ticket *waits;
	unsigned wait_count, wait_room;
	void *staged;		/* freed when done */
	uint32_t call;		/* the watcher's word for the call that gave it */
	union {
		struct {
			struct box box;
			uint32_t value;		/* of a fill, whose src is the client's address */
			unsigned element;
		};
		struct {
			CUhostFn host;
			CUstreamCallback callback;
			void *data;
			CUstream handle;
		};
		struct event *event;
		struct kernel_call *kernel;
		struct exec *exec;
		struct block *block;
		struct {
			char *word;
			uint64_t word_value;
			unsigned word_bytes, word_flags;
		};
	};
};

struct stream {
	struct object object;
	struct context *context;
	unsigned flags;
	int priority;
	uint64_t id;
	bool legacy, per_thread, internal;
	bool charged;		/* made by the client, and its bytes count */

	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct op *head, *tail, *spare;
	_Atomic uint64_t submitted, completed;
	_Atomic uint64_t wanted;	/* the lowest position that somebody sleeps for */
	bool has_worker, sleeping, closing;

	_Atomic(struct capture *) capture;
	struct graph_node **tails;	/* of the capture: what new work depends on */
	size_t tail_count, tail_room;

	_Atomic(struct block *) released;	/* cuMemFreeAsync of plain blocks, until observed */
	struct stream *next, *prev;	/* of the context */
};

static inline CUstream stream_or(CUstream stream, CUstream otherwise)
{
	return stream ? stream : otherwise;
}

CUresult stream_find(CUstream handle, struct stream **stream);
CUresult stream_new(struct context *context, unsigned flags, int priority, struct stream **out);
/* As the client asks for it. */
CUresult stream_create_in(struct context *context, CUstream *out, unsigned flags, int priority);
/* Queues the op (copied) and its waits; the op's resources pass to the stream. */
CUresult queue_submit(struct stream *stream, struct op *op, uint64_t *seq);
/* The same, and returns when it is done; runs it here when the stream is idle. */
CUresult queue_run(struct stream *stream, struct op *op);
bool queue_passed(const struct stream *stream, uint64_t seq);
void queue_wait(struct stream *stream, uint64_t seq);
bool queue_idle(struct stream *stream);
/* Adds "wait for that" to an op; a ticket that has passed is left out. */
CUresult queue_op_wait(struct op *op, struct stream *stream, uint64_t seq);
/* Queues without ordering against the legacy stream; gives the op's position. */
uint64_t queue_append(struct stream *stream, struct op *op);
/* Idle, and nothing ahead of it that it would have to wait for. */
bool stream_has_nothing(struct stream *stream);
/* Takes the stream off its context's list. */
void stream_unlink(struct stream *stream);
void stream_finish(void *stream);
/* Closes the stream: its worker finishes what is queued and then leaves. */
void stream_close(struct stream *stream);
void stream_give(struct stream *stream);
/* At the end of its thread. */
void stream_close_own(struct thread_stream *own);

/* ------------------------------------------------------------------ op.c */

/* Does the work of one op, with its simulated time, on the calling thread. */
void op_run(struct op *op, struct stream *stream);
void op_release(struct op *op);
/* Whether running it here would take no simulated time. */
bool op_is_quick(const struct op *op);

/* ------------------------------------------------------------------ watch.c */

/* Where nobody watches, one look at a word each. */
void watch_given(struct op *op);
uint64_t watch_begin(const struct op *op);
void watch_end(const struct op *op, uint64_t begin);

/* ------------------------------------------------------------------ event.c */

struct event {
	struct object object;
	struct context *context;
	unsigned flags;
	pthread_mutex_t lock;
	struct stream *stream;	/* where it was last recorded; NULL: never, or idle then */
	uint64_t seq;
	uint64_t time_ns;
	bool recorded;
	atomic_bool captured;	/* its last record went into a capture */
	uint64_t capture_id;
	struct graph_node **nodes;
	size_t node_count;
	struct shared_event *shared;	/* of several processes; see share.h */
	uint64_t turn;			/* its number in there */
	int fd;
	struct event *next, *prev;
};

/* The event's new position; stream NULL: it has passed, now. */
void event_place(struct event *event, struct stream *stream, uint64_t seq);
void event_passed(struct event *event, struct stream *stream, uint64_t seq);
void event_give(struct event *event);
void event_finish(void *event);
void event_end_all(struct context *context);
/* Takes the event's position; stream NULL when it has passed.  Referenced. */
void event_ticket(struct event *event, struct ticket *ticket);
CUresult event_mark(struct event *event, struct stream *stream, struct op *waits);

/* ------------------------------------------------------------------ memory.c */

enum place_kind { PLACE_PAGEABLE, PLACE_PINNED, PLACE_DEVICE, PLACE_MANAGED, PLACE_ARRAY };

/* One end of a copy: where the bytes are and what sort of memory it is. */
struct place {
	char *bytes;
	enum place_kind kind;
	struct block *block;
	struct array *array;
	size_t address;		/* as the client knows the bytes */
};

/* For a device-side argument: fails for what the driver does not know. */
CUresult memory_place(CUdeviceptr address, size_t bytes, struct place *place);
/* For a host-side argument: what is unknown is pageable. */
CUresult memory_host_place(const void *address, size_t bytes, struct place *place);
/* A new registered block of the context. */
struct block *memory_block(enum block_kind kind, char *base, size_t size, size_t span);
/* Takes a device block away: registry, context, pages. */
void memory_drop(struct block *block);
char *memory_map_host(size_t bytes);
/* Bytes of managed memory, NULL where there are none; `span` is in pages of the host. */
char *memory_take_managed(struct device *device, size_t span);
void memory_give_managed(struct device *device, char *base, size_t span);
/* Gives the memory of every kind of a context's blocks back. */
void memory_end_all(struct context *context);
/* Blocks handed to cuMemFreeAsync on the stream, as far as it got. */
void memory_observe(struct stream *stream);

/* ------------------------------------------------------------------ copy.c */

/*
 * Starts a copy whose box has pitches but no addresses yet, waiting for it as long as
 * the real driver would for these kinds of memory.
 */
CUresult copy_start(struct stream *stream, struct op *op, const struct place *dst,
		    const struct place *src, bool synchronous);
/* Takes the source's bytes now, so that the client may reuse them after the call. */
CUresult copy_stage(struct op *op);
struct op copy_op(const struct place *dst, const struct place *src, size_t bytes);

/* ------------------------------------------------------------------ pool.c */

CUresult pool_start(struct device *device);
void pool_give(struct block *block, struct stream *stream, uint64_t seq, bool counted);
/* What pools have and do not need goes back: somebody else has run out of memory. */
void pool_give_idle(struct device *device);
/* After a synchronise: what lies above the threshold goes back to the device. */
void pool_observe(struct device *device);

/* ------------------------------------------------------------------ capture.c */

/* 900 and a lost capture when a live capture forbids an unsafe call here. */
CUresult capture_check_unsafe(void);
/* The same for calls that every capture of the context forbids. */
CUresult capture_check_context(struct context *context);
/* For the legacy stream: 906 when a blocking stream of the context captures. */
CUresult capture_check_legacy(struct stream *stream);
/* True when the op went into a graph (or failed to) instead of a queue. */
bool capture_takes(struct stream *stream, struct op *op, CUresult *result);
bool capture_takes_copy(struct stream *stream, struct op *op, const struct place *dst,
			const struct place *src, CUresult *result);
bool capture_takes_record(struct stream *stream, struct event *event, CUresult *result);
bool capture_takes_wait(struct stream *stream, struct event *event, CUresult *result);
/* The two stream-ordered memory calls; an allocation gets its address at once. */
bool capture_takes_alloc(struct stream *stream, struct device *device, size_t bytes,
			 CUdeviceptr *address, CUresult *result);
bool capture_takes_free(struct stream *stream, CUdeviceptr address, CUresult *result);
/* A synchronise or query of the capturing stream itself. */
CUresult capture_check_stream(struct stream *stream);
/* True on a thread that began a capture which is still live. */
bool capture_is_own(void);
/* A query or wait for an event that was recorded into a capture. */
CUresult capture_check_event(struct event *event);
void capture_drop_stream(struct stream *stream);

/* ------------------------------------------------------------------ graphmem.c */

/* The address leaves the registry; its memory stays with the graphs of the device. */
void graphmem_give(struct block *block);
/* The last owner of a block let go. */
void graphmem_finish(void *block);

/* ------------------------------------------------------------------ array.c */

struct array {
	struct object object;
	struct context *context;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	size_t element, pitch, slice, bytes;
	char *bytes_at;
	char *pages;		/* device address of the footprint */
	struct mipmap *mipmap;	/* a level: lives with it */
	bool external;
	struct array *next, *prev;
};

void array_end_all(struct context *context);

/* ------------------------------------------------------------------ peer.c */

/* Whether work of the context may touch the block itself. */
bool peer_reaches(const struct block *block, const struct context *context);

/* ------------------------------------------------------------------ module.c */

void module_end_all(struct context *context);

/*
 * One look at what the call needs; about two nanoseconds when all is well.  The
 * rest (failure rules, tracing, captures, dead contexts) is in config_check.
 */
static inline CUresult entry_check(const char *call, unsigned need)
{
	struct context *context = sim_thread.current;

	sim_thread.call = call;
	if (!atomic_load_explicit(&config_plain, memory_order_relaxed))
		return config_check(call, need);
	if ((need & NEED_CONTEXT) &&
	    !(context && atomic_load_explicit(&context->alive, memory_order_relaxed)))
		return config_check(call, need);
	if ((need & NEED_NO_CAPTURE) && atomic_load_explicit(&capture_live, memory_order_relaxed))
		return config_check(call, need);
	return CUDA_SUCCESS;
}

#endif
