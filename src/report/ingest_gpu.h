/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest_gpu.h - what devices did, and the transfer it was done for.  CUPTI tells
 * of work some milliseconds after the call: the latest calls are kept in mind until
 * then, by process, thread and start.  Work whose call is not found, kernels and
 * migrations get rows of their own.
 */
#ifndef CUSTODY_REPORT_INGEST_GPU_H
#define CUSTODY_REPORT_INGEST_GPU_H

#include "core/record.h"
#include "report/ingest_table.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct ingest_process;
struct store_row_site;

/* A transfer that a device will do; a call may have several of them. */
struct ingest_gpu_call {
	uint64_t key; /* call_key(); 0: an empty place */
	uint64_t transfer_id;
	uint64_t bytes;
	uint32_t process_id;
	uint8_t kind, source, target;
	bool is_done; /* its work was told of, whole */
};

/* Two tables take turns: when one is full the older is forgotten. */
struct ingest_gpu_calls {
	struct ingest_gpu_call *place;
	uint32_t count;
};

struct ingest_gpu {
	struct ingest_gpu_calls calls[2];
	int latest; /* of the two */
	struct ingest_table sites; /* gpu_work_site.id as a pointer */
	sqlite3_stmt *insert_site, *find_site, *name_site, *insert_row, *insert_transfer,
		*begin, *end, *refuse, *lose;
};

/* A transfer of a process whose devices are heard. */
void ingest_gpu_expect(struct ingest_process *process, uint32_t thread, uint64_t start,
		       const struct store_row_site *site, uint64_t transfer_id, uint64_t bytes);

void ingest_gpu(struct ingest_process *process, const struct record *record, int64_t at_ns);

/* The text of a RECORD_GPU_NAME: a kernel's name, or that GPU times begin or end. */
void ingest_gpu_name(struct ingest_process *process, const struct record *record,
		     const char *text, int64_t at_ns);

void ingest_gpu_free(struct ingest_gpu *gpu);

#endif
