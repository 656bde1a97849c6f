/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_counter.h - what was only counted: calls of functions that make no
 * record, and records that were lost.
 */
#ifndef CUSTODY_REPORT_INGEST_COUNTER_H
#define CUSTODY_REPORT_INGEST_COUNTER_H

#include "report/ingest.h"

/* A RECORD_COUNTER, or a counter that was still in use, joins the sums of its thread. */
void ingest_counter_add(struct ingest_process *process, uint32_t clock,
			const struct record *record, const struct store_row_call *call);

/* Records were lost between two ticks; thread_id 0: of unknown threads. */
void ingest_counter_lost(struct ingest_process *process, uint32_t thread_id, uint32_t clock,
			 uint64_t count, uint64_t from, uint64_t to);

/* What counters of threads that still lived held, and what was lost without a record. */
void ingest_counter_leftovers(struct ingest_process *process);

#endif
