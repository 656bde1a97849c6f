/* SPDX-License-Identifier: Apache-2.0 */
/*
 * total_free.h - sums over the frees of a trace, made in the walk of total.h: by
 * process, function and place, and how long deferred ones were pending.
 */
#ifndef CUSTODY_REPORT_TOTAL_FREE_H
#define CUSTODY_REPORT_TOTAL_FREE_H

#include "report/ingest_table.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct total_free {
	int64_t process_id, api_id, caller; /* 0 where not known */
	int64_t bytes;
	int64_t host_ns;
	int64_t waited_ns, saved_ns;
	int64_t pending_ns; /* of one that was released, -1: it was not */
	bool is_deferred;
	bool is_at_exit; /* pending when its process ended */
};

struct total_frees {
	struct ingest_table groups; /* by hash: chains of sums */
	uint64_t *bucket;	    /* how many were pending for about so long; NULL: none */
	uint64_t released;
	uint64_t exit_count, exit_bytes;
	int64_t longest_ns;
};

void total_free_add(struct total_frees *frees, const struct total_free *call);

/* Into the empty tables free_total and pending_total of `schema`; an SQLite result code. */
int total_free_store(const struct total_frees *frees, sqlite3 *db, const char *schema);
void total_free_free(struct total_frees *frees);

/* The columns of the tables, for a CREATE TABLE. */
extern const char total_free_columns[];
extern const char total_free_pending_columns[];

#endif
