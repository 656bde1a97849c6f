/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_reading_row.h - a reading while it is known here, and its rows.  Private
 * to ingest_reading*.c: the one decides what is kept, the other writes and reads it.
 */
#ifndef CUSTODY_REPORT_INGEST_READING_ROW_H
#define CUSTODY_REPORT_INGEST_READING_ROW_H

#include "report/ingest.h"

#include <stddef.h>

/* Whose turn has come in the heap of peaks; first in all that waits there. */
struct ingest_point {
	enum ingest_point_what {
		POINT_READING,
		POINT_SAMPLE,
		POINT_GROWTH,
		POINT_CONTEXT_END,
		POINT_PROCESS_END,
	} what;
	uint32_t id; /* of the context or process that ends */
	int64_t free;
	char uuid[INGEST_LEDGER_UUID];
};

/* Why a reading's row stays. */
enum ingest_reading_reason {
	READING_KEPT_FIRST = 1 << 0,
	READING_KEPT_IMPORTANT = 1 << 1,
	READING_KEPT_LAST = 1 << 2, /* for these somebody has a pointer to it */
	READING_KEPT_TOP = 1 << 3,
	READING_KEPT_SPACED = 1 << 4,
	READING_KEPT_OPEN = 1 << 5,
	READING_HELD = READING_KEPT_LAST | READING_KEPT_TOP | READING_KEPT_SPACED |
		       READING_KEPT_OPEN,
};

struct ingest_reading {
	struct ingest_point point;
	struct ingest_ledger_entry entry;
	uint64_t id; /* reading.id */
	unsigned reasons;
	bool is_shown;	/* it has had its turn */
	bool is_stored; /* has a row, */
	bool has_kinds; /* and those of its kinds */
	bool is_listed;
};

static inline struct ingest_reading *ingest_reading_of(struct ingest_ledger_entry *entry)
{
	return (struct ingest_reading *)((char *)entry - offsetof(struct ingest_reading, entry));
}

/* Let it wait for its turn; `id` of its row, 0: it has none yet. */
struct ingest_reading *ingest_reading_push(struct ingest *ingest,
					   const struct ingest_ledger_entry *entry, uint64_t id);
void ingest_reading_push_sample(struct ingest *ingest, const char *uuid, int64_t at_ns,
				int64_t free_bytes);

void ingest_reading_push_growth(struct ingest *ingest, const struct ingest_ledger_entry *entry,
				uint64_t calls);

/* For the rows: this was sampled. */
void ingest_reading_row_sample(struct ingest *ingest, const char *uuid, int64_t at_ns,
			       int64_t free_bytes);

/* What rows tell waits for its turn: readings, samples, the ends of contexts and processes. */
void ingest_reading_row_load(struct ingest *ingest);

#endif
