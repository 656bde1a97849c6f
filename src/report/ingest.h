/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest.h - records of traced processes become rows of the trace.
 *
 * Private to the files ingest*.c and collect*.c.  Who does what:
 *
 *	ingest_map	files of a process, mapped
 *	ingest_merge	the records of its threads in the order of time
 *	ingest_record	one record becomes rows
 *	ingest_identity	devices, contexts, streams, events, threads: who is who
 *	ingest_end	how blocks end: frees, deferred or not, releases, findings
 *	ingest_transfer	a copy, and the blocks it touches
 *	ingest_gpu	what devices did, and for which transfer
 *	ingest_counter	calls that were only counted, records that were lost
 *	ingest_block	blocks by number and by address
 *	ingest_total	sums per function, transfer sites and their sums
 *	ingest_peak	use over time
 *	ingest_reading	what the driver says of its memory: which readings are kept,
 *	ingest_ledger	and what that memory goes to
 *	ingest_resume	all of the above, read back after a collector has died
 *	ingest_finish	what is written when recording has ended
 *
 * Rows of blocks, streams and events are written with the commit after they were
 * made or changed, so that what lives short is written once.
 */
#ifndef CUSTODY_REPORT_INGEST_H
#define CUSTODY_REPORT_INGEST_H

#include "report/ingest_block.h"
#include "report/ingest_clock.h"
#include "report/ingest_gpu.h"
#include "report/ingest_map.h"
#include "report/ingest_peak.h"
#include "report/ingest_reading.h"
#include "report/ingest_total.h"
#include "report/store_row.h"

/* A chunk as far as it is known here. */
struct ingest_chunk {
	struct trace_chunk *chunk; /* NULL: its segment cannot be read */
	struct chunk_header *header;
	uint64_t sequence; /* 0: free, or not looked at */
	uint32_t segment, index;
	uint32_t thread, clock;
	uint32_t end;	    /* records published when last looked at */
	uint32_t read;	    /* of them handled */
	uint32_t committed; /* and in the file */
	bool is_closed;	    /* `end` is final */
	bool is_counters;
	bool is_damaged;
	struct ingest_chunk *next; /* of the same thread */
};

/* The chunks of one thread, oldest first. */
struct ingest_queue {
	struct ingest_chunk *first;
	struct ingest_thread *thread;
	int64_t key; /* time of the next record */
	bool is_waiting; /* in the heap */
};

struct ingest_thread {
	uint32_t id; /* thread.id */
	uint32_t number;
	uint32_t tid;
	struct ingest_queue queue;
};

struct ingest_context {
	uint32_t id; /* context.id */
	uint32_t number;
	uint32_t device_id;
	uint64_t handle;
	int64_t created_ns; /* 0: not told */
	bool is_green; /* it has no memory of its own */
	bool is_dead;
};

/* A stream or event: one row for each life of its handle. */
struct ingest_object {
	uint32_t id;
	uint32_t context_id;
	uint32_t thread_id; /* of a per-thread default stream */
	uint64_t handle;
	int64_t created_ns, destroyed_ns; /* 0: not seen */
	bool is_event;
	bool is_stored, is_batched;
};

/* When a thread's frees would have waited, had they waited: the latest such time. */
struct ingest_wait {
	int64_t from_ns, to_ns;
};

struct ingest_process {
	struct ingest *ingest;
	struct ingest_map map;
	struct ingest_clock clock;
	uint32_t id; /* process.id */
	char *name;  /* of its directory */
	int pid;     /* as it sees itself */
	int our_pid; /* as we see it: another one where it lives in a pid namespace; 0: not found */
	int64_t start_ns, end_ns, last_ns; /* last: of the latest record */
	int64_t noticed_ns; /* when it was seen to have ended */
	uint64_t lost;
	bool is_new;   /* to this trace; until its first look */
	bool is_local; /* of this boot: our own clock readings fit */
	bool is_ended; /* nothing more will be written */
	bool is_done;  /* and all of it is read */
	bool never_waits;  /* its policy lets no free wait */
	bool has_gpu_times; /* CUPTI tells of its devices */
	bool has_nonsense; /* numbers that are none of a program's; it was said */

	struct ingest_table threads; /* by number: struct ingest_thread */
	struct ingest_table contexts; /* by number: struct ingest_context */
	struct ingest_table devices; /* by ordinal + 1: device.id as a pointer */
	struct ingest_table streams, events; /* by handle: struct ingest_object */
	struct ingest_table default_streams;
	struct ingest_table waits; /* by thread.id: struct ingest_wait */
	struct ingest_blocks blocks;

	struct ingest_chunk **chunk; /* by segment: SEGMENT_CHUNKS each */
	uint32_t chunk_segments;
	struct ingest_queue **heap;
	uint32_t heap_count, heap_capacity;
	int64_t busy_ns; /* start of the oldest call in flight, INT64_MAX: none */

	struct ingest_block **batch;
	uint32_t batch_count, batch_capacity;
	struct ingest_object **objects; /* to be written */
	uint32_t object_count, object_capacity;

	struct ingest_process *next;
};

struct ingest {
	struct store *store;
	struct store_row rows;
	struct ingest_peak peak;
	struct ingest_readings readings;
	struct ingest_total total;
	struct ingest_gpu gpu;
	struct ingest_process *processes;
	uint64_t next_allocation, next_transfer;
	uint32_t next_process, next_device, next_context, next_stream, next_event, next_thread;
	unsigned char api_known[65536 / 8];
	uint64_t records;     /* handled */
	uint64_t uncommitted; /* of them since the last commit */
	bool is_resumed;      /* sums of transfers and peaks are to be made from rows */
	sqlite3_stmt *insert_device, *insert_context, *insert_thread, *insert_stream,
		*insert_event, *update_stream, *update_event, *name_thread, *describe_device,
		*first_device, *end_context, *insert_process, *update_process;
};

void ingest_start(struct ingest *ingest, struct store *store);
void ingest_free(struct ingest *ingest);

/*
 * A process whose control page is mapped; takes `map` over.  Makes its row, or
 * finds it again after a resume.
 */
struct ingest_process *ingest_process_add(struct ingest *ingest, struct ingest_map *map,
					  const char *name);

/* The process has ended at `end_ns` (0: when it says so itself, else with its last record). */
void ingest_process_end(struct ingest_process *process, int64_t end_ns);

/* Write what the process knows of itself only now (driver version, end). */
void ingest_process_update(struct ingest_process *process);

/* Rows that wait, sums, and how far each chunk was read, then the transaction ends. */
void ingest_commit(struct ingest *ingest);

/* ingest_merge.c */

/* Map new segments and learn the moments in new chunks; before the clock is asked. */
void ingest_merge_learn(struct ingest_process *process);

/*
 * For a process that is new to this trace: how many records, at least, were given
 * back to it by a collector whose trace is gone.  After the first learning.
 */
uint64_t ingest_merge_missing(const struct ingest_process *process);

/* Look at all chunks: what is new, how far each thread has written. */
void ingest_merge_look(struct ingest_process *process);

/*
 * Handle records older than `until_ns`, in the order of time, at most `limit`;
 * returns how many.
 */
uint64_t ingest_merge_run(struct ingest_process *process, int64_t until_ns, uint64_t limit);

/* After a commit: tell the writer, give back chunks that are done with. */
void ingest_merge_give_back(struct ingest_process *process);

/* Close the chunks of threads that died without a word, so that they can be given back. */
void ingest_merge_reclaim(struct ingest_process *process,
			  bool (*is_dead)(const struct ingest_process *process, uint32_t tid));

/* Call before the commit: how far each chunk was read becomes rows. */
void ingest_merge_save(struct ingest_process *process);

/* Whether all that is published has been read. */
bool ingest_merge_is_empty(const struct ingest_process *process);

/* How many records have been seen published and wait. */
uint64_t ingest_merge_left(const struct ingest_process *process);

void ingest_merge_free(struct ingest_process *process);

/* ingest_record.c */
void ingest_record(struct ingest_process *process, struct ingest_thread *thread, uint32_t clock,
		   const struct record *record, const char *text, size_t text_bytes);

/* True where the record holds numbers that no program can have had: it counts as lost. */
bool ingest_record_refuse(struct ingest_process *process, const struct ingest_thread *thread,
			  uint32_t clock, const struct record *record);

/* A writer built with another table counts its rows differently: its names are not ours. */
bool ingest_record_has_our_names(const struct ingest_process *process);

/* The number of an api in the file: its row in driver.tbl + 1; makes its row. */
uint16_t ingest_record_api(struct ingest_process *process, uint16_t api);

/* The curve of use learns that the block's bytes came (1) or went (-1), live and pending. */
void ingest_record_use(struct ingest_process *process, const struct ingest_block *block,
		     int64_t at_ns, int live, int pending);

/* Put the block on the list of those whose rows the next commit writes. */
void ingest_record_batch(struct ingest_process *process, struct ingest_block *block);

/* ingest_identity.c: each finds the one that is meant, or makes it and its row. */
struct ingest_thread *ingest_identity_thread(struct ingest_process *process, uint32_t number,
					     uint32_t tid, int64_t start_ns);
void ingest_identity_name_thread(struct ingest_process *process, struct ingest_thread *thread,
				 const char *name);
uint32_t ingest_identity_device(struct ingest_process *process, int ordinal);
void ingest_identity_describe_device(struct ingest_process *process, int ordinal,
				     const struct record *record, const char *name);
struct ingest_context *ingest_identity_context(struct ingest_process *process, uint32_t number);
void ingest_identity_describe_context(struct ingest_process *process, uint32_t number,
				      const struct record *record, int64_t at_ns);
void ingest_identity_end_context(struct ingest_process *process, struct ingest_context *context,
				 int64_t at_ns, enum release_cause cause);
uint32_t ingest_identity_stream(struct ingest_process *process, struct ingest_thread *thread,
				uint32_t context, uint64_t handle);
/* Of a default stream in process->default_streams; contexts and threads by their numbers. */
uint64_t ingest_identity_default_key(uint32_t context, uint32_t thread, uint64_t handle);
void ingest_identity_create(struct ingest_process *process, bool is_event, uint32_t context_id,
			    uint64_t handle, int64_t at_ns);
void ingest_identity_destroy(struct ingest_process *process, bool is_event, uint64_t handle,
			     int64_t at_ns);
/* Write rows of streams and events that wait. */
void ingest_identity_save(struct ingest_process *process);
void ingest_identity_free(struct ingest_process *process);

/* ingest_resume.c */
void ingest_resume(struct ingest *ingest);
void ingest_resume_process(struct ingest_process *process);

/* The places that copies are made from, which their sums are made by. */
void ingest_resume_sites(struct ingest *ingest);

/* The kind with this name, as it stands in a row. */
enum block_kind ingest_resume_kind(const char *name);

/* ingest_finish.c: samples, peaks, sums; then the file is complete. */
void ingest_finish(struct ingest *ingest);

/* The first two alone, in the transaction that is open or begins here; merge.h has use for it. */
void ingest_finish_totals(struct ingest *ingest);

#endif
