/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - how a trace lies in mapped files between the traced program, which
 * writes it, and the collector, which reads it.
 *
 * A session is a directory.  Each program image that makes a recorded call has
 * one directory in it, named "<pid>-<serial>", holding
 *
 *	control		one struct trace_control: who this is, how much there is
 *	segment.<n>	SEGMENT_BYTES each, SEGMENT_CHUNKS chunks
 *
 * A chunk belongs to one thread at a time and is filled from front to back with
 * fixed-size records.  The writer publishes by storing chunk_header.written
 * (release); nothing below that count changes afterwards.  The states of a
 * chunk, and who moves it on:
 *
 *	FREE -> TAKEN	a thread, by compare-and-swap; it then writes the header
 *	TAKEN -> OWNED	the same thread, once the header is complete
 *	OWNED -> CLOSED	the owner (full, or the thread ends), or the collector
 *			when the owner has died without saying so
 *	CLOSED -> FREE	the collector, after the commit that holds its rows
 *
 * Everything here is shared by two processes built at the same time; a reader
 * refuses a control page whose layout number is not its own.
 */
#ifndef CUSTODY_CORE_RECORD_H
#define CUSTODY_CORE_RECORD_H

#include <stdatomic.h>
#include <stdint.h>

#define TRACE_MAGIC UINT64_C(0x3179646f74737563) /* "custody1" in memory */

enum {
	TRACE_LAYOUT = 3,

	SEGMENT_BYTES = 1 << 20,
	CHUNK_BYTES = 1 << 16,
	SEGMENT_CHUNKS = SEGMENT_BYTES / CHUNK_BYTES,
	CHUNK_HEADER_BYTES = 256,
	RECORD_BYTES = 64,
	CHUNK_RECORDS = (CHUNK_BYTES - CHUNK_HEADER_BYTES) / RECORD_BYTES,

	COUNTER_BLOCK_BYTES = 9 * 1024,
	COUNTER_BLOCK_HEADER_BYTES = 64,
	COUNTER_SLOTS = (COUNTER_BLOCK_BYTES - COUNTER_BLOCK_HEADER_BYTES) / 32,
	CHUNK_COUNTER_BLOCKS = (CHUNK_BYTES - CHUNK_HEADER_BYTES) / COUNTER_BLOCK_BYTES,
};

/* One moment on three clocks; conversion from ticks interpolates between these. */
struct clock_triple {
	uint64_t ticks;
	uint64_t monotonic_ns;
	uint64_t real_ns;
};

enum clock_mode {
	CLOCK_TICKS_TSC = 1,	   /* invariant counter of the CPU */
	CLOCK_TICKS_MONOTONIC = 2, /* clock_gettime(CLOCK_MONOTONIC), nanoseconds */
};

enum chunk_state { CHUNK_FREE, CHUNK_TAKEN, CHUNK_OWNED, CHUNK_CLOSED };
enum chunk_use { CHUNK_OF_RECORDS, CHUNK_OF_COUNTERS };

struct chunk_header {
	/* Written by the owner between TAKEN and OWNED, constant afterwards. */
	_Atomic uint32_t state; /* enum chunk_state */
	uint32_t use;		/* enum chunk_use */
	uint64_t sequence;	/* hand-out number, unique in the process, from 1 */
	uint32_t thread;	/* number of the thread in the process, from 1 */
	uint32_t tid;		/* the kernel's id of the thread */
	uint32_t clock;		/* enum clock_mode of every tick in this chunk */
	uint32_t reserved;
	struct clock_triple triple; /* taken at hand-out */
	uint64_t reserved_line;

	/* Written by the owner with every record. */
	_Atomic uint32_t written;    /* published records */
	uint32_t reserved_count;
	_Atomic uint64_t busy_since; /* start of the call in flight, 0 for none */
	uint64_t reserved_writer[6];

	/* Written by the collector. */
	_Atomic uint32_t consumed; /* records whose rows are committed */
	uint32_t reserved_reader[15];
	uint64_t reserved_tail[8];
};

enum record_kind {
	RECORD_NONE = 0, /* never published */
	RECORD_ALLOC,
	RECORD_FREE,
	RECORD_TRANSFER,
	RECORD_OPERATION,
	RECORD_QUERY,	    /* a counted call that failed: only the failure matters */
	RECORD_CONTEXT,	    /* a context seen for the first time */
	RECORD_CONTEXT_END, /* and the end of it, with all that lived in it */
	RECORD_DEVICE,	    /* text follows: the name */
	RECORD_MODULE,	    /* text follows: the path of a file mapped into the program */
	RECORD_COUNTER,	    /* a counter of a thread that ends */
	RECORD_GAP,	    /* records lost by this thread before this one */
	RECORD_UNCOVERED,   /* text follows: a driver symbol handed out unwrapped */
	RECORD_THREAD,	    /* text follows: the name of the thread (may be empty) */
	RECORD_RELEASE,	    /* physical end of a block whose free was deferred */
	RECORD_FLUSH,	    /* one pass over a deferred-free queue */
	RECORD_FINDING,	    /* something the program should not do; the call has its own record */
	RECORD_READING,	    /* what the driver says of a device's memory, at one moment */
	RECORD_GPU,	    /* work that a device has done, as CUPTI saw it */
	RECORD_GPU_NAME,    /* text follows: the name of a kernel */
	RECORD_KINDS
};

enum record_flag {
	RECORD_BY_CUSTODY = 1 << 0, /* our own call, or an attempt the program does not see */
	RECORD_UNTRACKED = 1 << 1,  /* a free of something we never saw */
	RECORD_LONG = 1 << 2,	    /* duration is in units of 1024 ticks */
	RECORD_VIEW = 1 << 3,	    /* alloc: bytes belong to the parent, count them once */
	RECORD_PENDING = 1 << 4,    /* free: requested now, RECORD_RELEASE tells the end */
	RECORD_CAPTURED = 1 << 5,   /* issued into a stream capture: nothing moved yet */
	RECORD_EXPORTED = 1 << 6,   /* operation: the block at `a` was exported to others */
	RECORD_SUM = 1 << 6,	    /* transfer: `a` copies in one, those of a graph's launch;
					0, and CAPTURED: nobody knows how many */
	RECORD_MORE = 1 << 7,	    /* a further record of a call that is counted already */
};

/* allocation.kind; the order is that of the names in trace_names.c. */
enum block_kind {
	BLOCK_UNKNOWN = 0,
	BLOCK_DEVICE,
	BLOCK_PITCH,
	BLOCK_MANAGED,
	BLOCK_PINNED,
	BLOCK_REGISTERED,
	BLOCK_POOL,
	BLOCK_VMM,
	BLOCK_ARRAY,
	BLOCK_IPC,
	BLOCK_EXTERNAL,
	BLOCK_GRAPH,
	BLOCK_MODULE,
	BLOCK_KINDS
};

/* transfer.kind */
enum transfer_kind {
	TRANSFER_UNKNOWN = 0,
	TRANSFER_H2D,
	TRANSFER_D2H,
	TRANSFER_D2D,
	TRANSFER_P2P,
	TRANSFER_H2H,
	TRANSFER_MEMSET,
	TRANSFER_PREFETCH,
	TRANSFER_KINDS
};

/* transfer.source_kind and target_kind; UNKNOWN lets the collector decide from its blocks. */
enum place_kind {
	PLACE_UNKNOWN = 0,
	PLACE_PAGEABLE,
	PLACE_PINNED,
	PLACE_REGISTERED,
	PLACE_DEVICE,
	PLACE_MANAGED,
	PLACE_ARRAY,
	PLACE_KINDS
};

/* allocation.release_cause */
enum release_cause {
	RELEASE_NONE = 0,
	RELEASE_FREED,
	RELEASE_COUNT,
	RELEASE_BYTES,
	RELEASE_OOM,
	RELEASE_IDLE,
	RELEASE_EXPLICIT,
	RELEASE_SCOPE,
	RELEASE_CONTEXT,
	RELEASE_RESET,
	RELEASE_EXIT,
	RELEASE_FAILED,
	RELEASE_CAUSES
};

/* flush.queue, in the bits 8.. of aux */
enum queue_kind { QUEUE_MEMORY, QUEUE_OBJECTS, QUEUE_KINDS };

/* finding.kind */
enum finding_kind {
	FINDING_NONE = 0,
	FINDING_USE_AFTER_FREE, /* a copy or memset named a block that was freed before */
	FINDING_DOUBLE_FREE,	/* a block was freed that was freed before */
	FINDING_KINDS
};

/* Why an allocation failed, in `b` of its record: the driver had none, or we would not ask. */
enum failure_why { FAILURE_DRIVER, FAILURE_LIMIT, FAILURE_NTH, FAILURE_WHYS };

/* When a device's memory was read, in the bits 8 to 11 of aux. */
enum reading_moment {
	READING_NONE = 0,
	READING_ASKED,	/* the program asked */
	READING_BEFORE, /* just before, and ... */
	READING_AFTER,	/* ... just after a call that makes the driver take memory of its own */
	READING_QUIET,	/* of our own accord, now and then */
	READING_OOM,	/* the program's call has run out of memory */
	READING_EXIT,	/* the process ends */
	READING_MOMENTS
};

/* What the call before or after a reading has the driver keep, in the bits 12 to 15. */
enum reading_weighed {
	WEIGHED_NOTHING = 0,
	WEIGHED_CONTEXT,
	WEIGHED_CODE,	/* modules, libraries, functions at their first use */
	WEIGHED_STREAM, /* streams and events */
	WEIGHED_GRAPH,	/* executable graphs */
	WEIGHED_SETTING, /* limits of a context, access of peers */
	WEIGHED_KINDS
};

/* A reading that does not know what pools or graphs reserve. */
#define READING_UNKNOWN UINT64_MAX

/*
 * In what pools reserve: it is what they keep beside the blocks that live in them.  Told
 * so where blocks have outlived their pool, which cannot be asked any more.
 */
#define READING_CACHED (UINT64_C(1) << 62)

/* What a device was doing, in the bits 0 to 3 of aux; LOST: what CUPTI had no room for. */
enum gpu_work { GPU_LOST, GPU_COPY, GPU_MEMSET, GPU_KERNEL, GPU_MIGRATION, GPU_WORKS };

/* What a context is, in `c` of its record. */
enum { CONTEXT_IS_PRIMARY = 1, CONTEXT_IS_GREEN = 2 };

/* Streams in records: the program's 0 never appears, it means one of two things. */
#define STREAM_NONE UINT64_C(0)
#define STREAM_LEGACY UINT64_C(1)
#define STREAM_PER_THREAD UINT64_C(2)

/*
 * What the fields a, b, c and aux hold:
 *
 * kind         a             b              c             stream         aux
 * ALLOC        address       block id       bytes         stream, or     block kind |
 *              or handle                                  parent's id    device + 1 << 8
 *                                                         if no stream
 * FREE         address       block id,      bytes         stream; when   release_cause (FREED)
 *              or handle     0: untracked                 PENDING ticks
 *                                                         it waited
 * RELEASE      address       block id       bytes         tick at which  release_cause
 *                                                         it was known
 *                                                         to be unused,
 *                                                         0: never
 * FLUSH        released      their bytes    ticks waited  failed         release_cause |
 *                                           for the                      queue_kind << 8
 *                                           device
 * FINDING      address       block id       bytes         0              finding_kind
 * TRANSFER     source        target         bytes         stream         AUX_TRANSFER()
 *              (value of
 *              a memset;
 *              SUM: copies)
 * READING      free bytes    total bytes    pools reserve graphs reserve AUX_READING()
 * GPU          start, ns of  duration, ns   bytes; of a   call_key() of  AUX_GPU()
 *              CLOCK_        (of several    kernel its    the call that
 *              MONOTONIC     migrations     name's        caused it, 0:
 *                            their sum)     number        unknown; how
 *                                                         many
 *                                                         migrations
 * GPU LOST     how many      0              0             0              0
 * GPU_NAME     number; 0:    0              0             0              0
 *              the text is
 *              why GPU times
 *              end, "": they
 *              begin
 * OPERATION,   object        second         bytes, if     stream         0
 * QUERY        handle        object         any
 * CONTEXT      handle        driver's id,   PRIMARY,      0              device + 1
 *                            0 unknown      GREEN
 * CONTEXT_END  handle        0              0             0              release_cause
 * DEVICE       uuid bytes    uuid bytes     total bytes   compute        device + 1
 *              0-7           8-15                         capability
 * MODULE       base          size           0             0              0
 * COUNTER      calls         errors         ticks         largest        0
 *                                                         ticks
 * GAP          lost          first tick     last tick     0              0
 * UNCOVERED    address       version asked  flags asked   0              0
 * THREAD       0             0              0             0              0
 *
 * A deferred free is one FREE flagged PENDING and later one RELEASE, by whichever
 * thread; the collector may meet the two in either order.  A RELEASE with result
 * != 0 is a release the driver refused (cause FAILED).
 *
 * Alloc: the block lives from start + duration.  A failed call (result != 0) of
 * any kind makes a row in `failure` and, of kind ALLOC or FREE, nothing else.
 *
 * DEVICE, MODULE, UNCOVERED, THREAD and GPU_NAME are followed by `text_slots` slots that
 * hold a NUL-padded string (MODULE: the path, NUL, the build id in hexadecimal);
 * all slots of one record are published at once and lie in one chunk.
 */
struct record {
	uint64_t start;	   /* ticks at entry */
	uint32_t duration; /* ticks; see RECORD_LONG */
	uint16_t api;	   /* row of driver.tbl */
	uint8_t kind;	   /* enum record_kind */
	uint8_t flags;	   /* enum record_flag */
	uint64_t a;
	uint64_t b;
	uint64_t c;
	uint64_t stream;
	uint64_t caller_context; /* RECORD_CALLER_BITS of address, context number above */
	union {
		uint32_t stack;	     /* number of the call stack, 0: none */
		uint32_t text_slots; /* for the kinds that carry a text */
	};
	uint16_t result; /* CUresult */
	uint16_t aux;
};

enum { RECORD_CALLER_BITS = 48 };

static inline uint64_t record_caller(const struct record *record)
{
	return record->caller_context & ((UINT64_C(1) << RECORD_CALLER_BITS) - 1);
}

static inline uint32_t record_context(const struct record *record)
{
	return (uint32_t)(record->caller_context >> RECORD_CALLER_BITS);
}

static inline uint64_t record_ticks(const struct record *record)
{
	return (uint64_t)record->duration << (record->flags & RECORD_LONG ? 10 : 0);
}

/* aux of a transfer: 4 bits each of kind, source place, target place, then "returned early". */
#define AUX_TRANSFER(kind, source, target, is_async)                                               \
	((uint16_t)((kind) | (source) << 4 | (target) << 8 | ((is_async) ? 1 << 12 : 0)))

static inline enum transfer_kind record_transfer_kind(const struct record *record)
{
	return (enum transfer_kind)(record->aux & 15);
}

static inline enum place_kind record_source_place(const struct record *record)
{
	return (enum place_kind)(record->aux >> 4 & 15);
}

static inline enum place_kind record_target_place(const struct record *record)
{
	return (enum place_kind)(record->aux >> 8 & 15);
}

/* What the bytes of a block are to a copy. */
static inline enum place_kind record_place_of_block(enum block_kind kind)
{
	switch (kind) {
	case BLOCK_MANAGED:
		return PLACE_MANAGED;
	case BLOCK_PINNED:
		return PLACE_PINNED;
	case BLOCK_REGISTERED:
		return PLACE_REGISTERED;
	case BLOCK_ARRAY:
		return PLACE_ARRAY;
	case BLOCK_UNKNOWN:
		return PLACE_UNKNOWN;
	default:
		return PLACE_DEVICE;
	}
}

static inline int record_is_async(const struct record *record)
{
	return record->aux >> 12 & 1;
}

#define AUX_READING(device, moment, weighed)                                                       \
	((uint16_t)(((device) + 1) | (moment) << 8 | (weighed) << 12))

static inline enum reading_moment record_moment(const struct record *record)
{
	return (enum reading_moment)(record->aux >> 8 & 15);
}

static inline enum reading_weighed record_weighed(const struct record *record)
{
	return (enum reading_weighed)(record->aux >> 12 & 15);
}

#define AUX_GPU(work, kind, source, target)                                                        \
	((uint16_t)((work) | (kind) << 4 | (source) << 8 | (target) << 12))

static inline enum gpu_work record_gpu_work(const struct record *record)
{
	return (enum gpu_work)(record->aux & 15);
}

static inline enum transfer_kind record_gpu_kind(const struct record *record)
{
	return (enum transfer_kind)(record->aux >> 4 & 15);
}

/* Names one call in a process: the number of its thread, and the ticks of its start. */
static inline uint64_t call_key(uint32_t thread, uint64_t start)
{
	return (uint64_t)thread << 48 | (start & ((UINT64_C(1) << 48) - 1));
}

/* Totals of one driver function in one thread, for calls that make no record. */
struct trace_counter {
	_Atomic uint64_t calls;
	_Atomic uint64_t errors;
	_Atomic uint64_t ticks;	    /* 0 where calls are only counted */
	_Atomic uint64_t max_ticks;
};

/* The counters of one living thread; the slot of a function is in driver_table.h. */
struct counter_block {
	_Atomic uint32_t in_use;
	uint32_t thread;
	uint32_t tid;
	uint32_t clock;
	_Atomic uint64_t lost; /* records not yet told of by a RECORD_GAP */
	_Atomic uint64_t lost_from;
	_Atomic uint64_t lost_to;
	uint64_t reserved[3];
	struct trace_counter counter[COUNTER_SLOTS];
};

struct trace_chunk {
	struct chunk_header header;
	union {
		struct record record[CHUNK_RECORDS];
		struct {
			_Alignas(64) unsigned char block[CHUNK_COUNTER_BLOCKS][COUNTER_BLOCK_BYTES];
		};
	};
};

enum {
	CONTROL_BYTES = 1 << 16,
	CONTROL_PATH_BYTES = 4096,
	CONTROL_ARGUMENT_BYTES = 16384,
	CONTROL_TEXT_BYTES = 64,
};

enum control_end {
	CONTROL_RUNNING = 0,
	CONTROL_EXITED = 1, /* exit handlers ran: `end` is the time */
	CONTROL_EXECED = 2, /* this image is about to be replaced */
};

/* What of a process is not recorded, and why. */
enum control_note {
	CONTROL_NOT_PRELOADED = 1 << 0, /* all of it: the driver did not find the preload ... */
	CONTROL_SECURE = 1 << 1,	/* ... because the program gains rights when it starts */
	CONTROL_NO_VARIABLE = 1 << 2,	/* ... because LD_PRELOAD does not name it */
	CONTROL_PAST = 1 << 3,		/* some: the driver was started past the preload */
};

/* What a process says of itself, and the few numbers both sides share. */
struct trace_control {
	uint64_t magic;
	uint32_t layout;
	uint32_t clock; /* enum clock_mode at the start */
	int32_t pid;
	int32_t parent_pid;
	uint32_t exec_serial; /* how many images of this pid the session had before */
	uint32_t apis;	      /* rows of driver.tbl the writer was built with */
	uint64_t start_time;  /* field 22 of /proc/<pid>/stat: tells a reused pid */
	struct clock_triple start;
	_Atomic uint32_t segments; /* files that exist */
	_Atomic uint32_t threads;  /* thread numbers given out */
	_Atomic uint64_t lost;	   /* records lost by threads that have no counter block */
	_Atomic uint64_t lost_from;
	_Atomic uint64_t lost_to;
	_Atomic uint64_t end;	      /* ticks */
	_Atomic uint32_t end_state;   /* enum control_end */
	_Atomic uint32_t driver;      /* cuDriverGetVersion once known */
	_Atomic uint64_t collector_beat; /* CLOCK_MONOTONIC ns, stored by the collector */
	_Atomic uint32_t notes;	      /* enum control_note, or-ed */
	uint32_t reserved;
	uint64_t buffer_bytes;	      /* CUSTODY_BUFFER in force */
	char version[CONTROL_TEXT_BYTES]; /* of the preload */
	char policy[CONTROL_TEXT_BYTES];  /* --frees */
	char parent[CONTROL_TEXT_BYTES];  /* directory name of the process that forked this one */
	char boot_id[CONTROL_TEXT_BYTES]; /* ticks mean nothing on another boot */
	char host[CONTROL_TEXT_BYTES];
	char executable[CONTROL_PATH_BYTES];
	uint32_t argument_bytes;
	char arguments[CONTROL_ARGUMENT_BYTES]; /* NUL after each; cut where they do not fit */
};

_Static_assert(sizeof(struct record) == RECORD_BYTES, "a record is one cache line");
_Static_assert(sizeof(struct chunk_header) == CHUNK_HEADER_BYTES, "chunk header");
_Static_assert(sizeof(struct trace_chunk) <= CHUNK_BYTES, "chunk");
_Static_assert(sizeof(struct counter_block) <= COUNTER_BLOCK_BYTES, "counter block");
_Static_assert(sizeof(struct trace_control) <= CONTROL_BYTES, "control page");

#endif
