/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_end.h - how blocks end.  A free is one record, or, where its release was
 * put off, two: FREE, flagged PENDING, and RELEASE, by whichever thread and in
 * either order.  In between the block is pending: the program has it no
 * more, the driver has it not yet.
 */
#ifndef CUSTODY_REPORT_INGEST_END_H
#define CUSTODY_REPORT_INGEST_END_H

#include "report/ingest.h"

/* The program has freed a block; `clock` is that of the record's ticks. */
void ingest_end_free(struct ingest_process *process, uint32_t clock, const struct record *record,
		     const struct store_row_call *call);

/* The release of a deferred free; the block stays known until that free has come too. */
void ingest_end_release(struct ingest_process *process, uint32_t clock, const struct record *record,
			const struct store_row_call *call);

/* One pass over a queue. */
void ingest_end_flush(struct ingest_process *process, uint32_t clock, const struct record *record,
		      const struct store_row_call *call);

/* Released earlier than was thought: another block has got its address at `at_ns`. */
void ingest_end_early(struct ingest_process *process, struct ingest_block *block, int64_t at_ns);

/* The program has used, or freed again, what it had freed. */
void ingest_end_finding(struct ingest_process *process, const struct record *record,
			struct store_row_call *call);

/*
 * All that die with a context are released; for context 0, at the end: all whose
 * free is pending, or was lost, as another block has their address.
 */
void ingest_end_all(struct ingest_process *process, uint32_t context_id, int64_t at_ns,
		    enum release_cause cause);

#endif
