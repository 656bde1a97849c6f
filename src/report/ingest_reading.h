/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_reading.h - readings of a device's memory become rows, at most some
 * thousands for a process and device, whatever a program asks and for how long.
 *
 * Kept are: the first and the last, the one with the highest use, those of an
 * out-of-memory failure and of the end, what the program asked for and the pairs
 * around calls that made the driver keep memory - of these, and of those that were
 * asked, up to INGEST_READING_MOST.  Of all others INGEST_READING_SPACED are kept, evenly over
 * time: when there are more, every second one goes and the pause doubles.  What is
 * dropped has been counted, and what grew by it goes on in ingest_growth.h.
 */
#ifndef CUSTODY_REPORT_INGEST_READING_H
#define CUSTODY_REPORT_INGEST_READING_H

#include "report/ingest_ledger.h"
#include "report/store_row.h"

enum { INGEST_READING_MOST = 4000, INGEST_READING_SPACED = 1000 };

struct ingest;
struct ingest_process;
struct ingest_thread;
struct ingest_reading;

/* What is kept of one process on one device. */
struct ingest_reading_kept {
	bool has_first;
	struct ingest_reading *last, *top;
	struct ingest_reading *spaced[INGEST_READING_SPACED];
	uint32_t spaces;
	uint32_t asked, important; /* kept because the program asked; and for another reason */
	int64_t pause_ns; /* between two that are spaced */
	int64_t spaced_ns;
};

/* What NVML has said last of a device. */
struct ingest_reading_sample {
	char uuid[INGEST_LEDGER_UUID];
	int64_t at_ns, free;
	uint64_t row;	   /* id of its newest row, 0: none */
	int64_t row_ns, row_free; /* what that row says */
};

struct ingest_readings {
	struct ingest_ledger ledger;
	struct ingest_table kept; /* by device.id: struct ingest_reading_kept */
	struct ingest_table growths; /* by (context, kind): struct ingest_growth */
	struct ingest_reading **listed; /* their rows are to be written or to go */
	uint32_t listed_count, listed_capacity;
	uint64_t next_id;
	bool is_final;	/* the rows are not to be made again: those of traces that are merged */
	struct ingest_reading_sample *sample; /* by device, the newest */
	uint32_t samples;
	uint64_t next_sample;
	sqlite3_stmt *insert_step, *remove_steps;
	sqlite3_stmt *insert, *remove, *remove_kinds, *insert_kind, *insert_own, *insert_sample;
};

/* Call once, before anything else. */
void ingest_reading_start(struct ingest *ingest);

/* The record of a reading. */
void ingest_reading(struct ingest_process *process, struct ingest_thread *thread,
		    const struct record *record, const struct store_row_call *call);

/* NVML's word on a device. */
void ingest_reading_sample(struct ingest *ingest, const char *uuid, int64_t at_ns,
			   int64_t free_bytes);

/* What the driver kept for them is given back. */
void ingest_reading_end_context(struct ingest *ingest, uint32_t context_id, int64_t at_ns);
void ingest_reading_end_process(struct ingest *ingest, uint32_t process_id, int64_t at_ns);

/* Write the rows that wait; in ingest_reading_row.c. */
void ingest_reading_row_save(struct ingest *ingest);

/*
 * The sums are to be made again: the readings that have rows wait in the heap of
 * peaks for their turn, as if they had just come; it is decided anew which are kept.
 */
void ingest_reading_rebuild(struct ingest *ingest);

void ingest_reading_free(struct ingest *ingest);

#endif
