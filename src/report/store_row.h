/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_row.h - one function per kind of row.  An id of 0 stands for NULL.
 */
#ifndef CUSTODY_REPORT_STORE_ROW_H
#define CUSTODY_REPORT_STORE_ROW_H

#include "core/record.h"
#include "report/ingest_block.h"
#include "report/store.h"

enum store_row_name {
	STORE_ROW_API,
	STORE_ROW_TRANSFER,
	STORE_ROW_SITE,
	STORE_ROW_OPERATION,
	STORE_ROW_FAILURE,
	STORE_ROW_FLUSH,
	STORE_ROW_FINDING,
	STORE_ROW_ALLOCATION,
	STORE_ROW_RELEASE,
	STORE_ROW_EXPORTED,
	STORE_ROW_GAP,
	STORE_ROW_UNCOVERED,
	STORE_ROW_MODULE,
	STORE_ROW_CALLS,
	STORE_ROW_INGEST,
	STORE_ROW_COUNT
};

struct store_row {
	struct store *store;
	sqlite3_stmt *statement[STORE_ROW_COUNT];
};

struct store_row_site {
	uint64_t caller;
	uint32_t process_id;
	uint32_t source_device_id, target_device_id;
	uint32_t context_id;
	uint32_t copies; /* in one row */
	uint16_t api; /* + 1 */
	uint16_t result;
	uint8_t kind; /* enum transfer_kind */
	uint8_t source, target; /* enum place_kind */
	uint8_t is_async;
	uint8_t is_captured;
	uint8_t has_source, has_target;
	uint8_t reserved; /* 0, so that two of them compare as bytes */
};

struct store_row_transfer {
	uint64_t id;
	uint64_t site_id;
	uint32_t thread_id, stream_id;
	uint64_t bytes;
	int64_t start_ns, duration_ns;
	uint64_t source_address, target_address;
	uint64_t source_id, target_id; /* allocations */
	bool has_source, has_target;
};

/* A call as operation, failure and their like need it. */
struct store_row_call {
	uint32_t process_id, thread_id, context_id, stream_id;
	uint16_t api; /* + 1 */
	uint16_t result;
	int64_t start_ns, duration_ns;
	uint64_t object, detail;
	uint64_t bytes;
	uint64_t caller;
	bool is_ours;
	uint8_t failure_why; /* enum failure_why */
	bool is_unload; /* of a module */
};

struct store_row_calls {
	uint32_t process_id, thread_id;
	uint16_t api; /* + 1 */
	bool is_timed;
	bool is_changed;
	uint64_t calls, errors;
	int64_t total_ns, max_ns;
};

void store_row_api(struct store_row *rows, uint16_t api, const char *name);
void store_row_site(struct store_row *rows, uint64_t id, const struct store_row_site *site);
void store_row_transfer(struct store_row *rows, const struct store_row_transfer *transfer);
void store_row_operation(struct store_row *rows, const struct store_row_call *call);
void store_row_failure(struct store_row *rows, const struct store_row_call *call);

/* One pass over a queue; all else of the row is in the call. */
struct store_row_flush {
	enum queue_kind queue;
	enum release_cause cause;
	uint64_t count, bytes, failed;
	int64_t waited_ns;
};

void store_row_flush(struct store_row *rows, const struct store_row_call *call,
		     const struct store_row_flush *flush);

/* call->object is the address that was named; of no block where `allocation_id` is 0. */
void store_row_finding(struct store_row *rows, const struct store_row_call *call,
		       enum finding_kind kind, uint64_t allocation_id);
void store_row_calls(struct store_row *rows, const struct store_row_calls *calls);

/* A block without a row gets one; one that has a row gets what its release brought. */
void store_row_block(struct store_row *rows, uint32_t process_id,
		     const struct ingest_block *block);

void store_row_gap(struct store_row *rows, uint32_t process_id, uint32_t thread_id,
		   uint64_t count, int64_t from_ns, int64_t to_ns);
void store_row_uncovered(struct store_row *rows, const struct store_row_call *call,
			 const struct record *record, const char *name);
void store_row_module(struct store_row *rows, const struct store_row_call *call,
		      const char *path, const char *build_id);

/* How far a chunk was read; belongs into the transaction that holds its rows. */
void store_row_ingest(struct store_row *rows, uint32_t process_id, uint32_t segment,
		      uint32_t chunk, uint64_t sequence, uint32_t consumed);

/* What a block takes from its device, by the pages the driver hands out. */
uint64_t store_row_footprint(enum block_kind kind, bool is_view, uint64_t bytes);

#endif
