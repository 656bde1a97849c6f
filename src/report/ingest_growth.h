/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_growth.h - what calls made the driver keep, of readings whose rows are dropped.
 *
 * Sums that are made again are made of rows.  So growth without a row is kept here, for
 * each context and kind in at most INGEST_GROWTH_STEPS steps: when there are more, pairs
 * of them become one, at the moment of the later.  Their rows are `overhead_step`.
 */
#ifndef CUSTODY_REPORT_INGEST_GROWTH_H
#define CUSTODY_REPORT_INGEST_GROWTH_H

#include "report/ingest_ledger.h"

enum { INGEST_GROWTH_STEPS = 256 };

struct ingest;

struct ingest_growth_step {
	int64_t at_ns, bytes;
	uint64_t calls;
};

/* Of one context and kind, in the order of time. */
struct ingest_growth {
	uint32_t process_id, device_id, context_id;
	enum reading_weighed kind;
	struct ingest_growth_step *step;
	uint32_t steps, capacity;
	int64_t pause_ns; /* growth so soon behind a step goes with it */
	bool is_changed;
};

/* The row of this reading will not tell what grew. */
void ingest_growth_add(struct ingest *ingest, const struct ingest_ledger_entry *entry);

void ingest_growth_save(struct ingest *ingest);

/* What rows tell is known again; and waits for its turn, where sums are made again. */
void ingest_growth_load(struct ingest *ingest, bool is_replayed);

void ingest_growth_forget(struct ingest *ingest);

#endif
