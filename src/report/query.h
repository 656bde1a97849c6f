/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - the trace as the reports read it.  All SQL of the reports stands in
 * the files query*.c; each part appends its sections to a struct report.
 *
 * A trace is untrusted: it is opened read-only and hardened, and whatever is
 * wrong with it ends the program with one sentence and exit code 1.
 */
#ifndef CUSTODY_REPORT_QUERY_H
#define CUSTODY_REPORT_QUERY_H

#include "report/report.h"
#include "report/rows.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct query {
	sqlite3 *db;
	char *path;
	bool is_complete;  /* recording ended, totals are there */
	int64_t lost;	   /* records that are missing: nothing can be said not to have been */
	int64_t start_ns;  /* of the first process */
	int64_t end_ns;	   /* of the last one, or the last thing known */
	size_t most_rows;  /* of the lists that can be long */
	struct symbol_map *symbols;
};

/*
 * Waits for a collector that is still at work, reads what a dead one left
 * behind, refuses what is not a trace of this version or older.
 */
void query_open(struct query *query, const char *trace);
void query_close(struct query *query);

/* NULL never comes back: what cannot be prepared or stepped ends the program. */
sqlite3_stmt *query_prepare(struct query *query, const char *sql);
bool query_step(struct query *query, sqlite3_stmt *statement);

/* Statements without rows. */
void query_run(struct query *query, const char *sql);

/* First column of the first row; `otherwise` when there is none or it is NULL. */
int64_t query_number(struct query *query, const char *sql, int64_t otherwise);

/* The same as text, which the caller frees; NULL when there is none. */
char *query_text(struct query *query, const char *sql);

/* Column i of the statement into column i of the rows, as many as the statement has. */
void query_fill(struct query *query, struct rows *rows, const char *sql);
void query_set(struct rows_value *value, enum rows_type type, sqlite3_stmt *statement, int column);

/* query_total.c: makes the tables of sums in TEMP where recording did not end well. */
void query_total(struct query *query);

/* The sections, in the order of the report. */
void query_process(struct query *query, struct report *report);
void query_memory(struct query *query, struct report *report);
void query_free(struct query *query, struct report *report);
void query_ledger(struct query *query, struct report *report);
void query_oom(struct query *query, struct report *report);
void query_leak(struct query *query, struct report *report);
void query_transfer(struct query *query, struct report *report);
void query_gpu(struct query *query, struct report *report);
void query_call(struct query *query, struct report *report);
void query_trouble(struct query *query, struct report *report);
void query_finding(struct query *query, struct report *report);
void query_uncovered(struct query *query, struct report *report);

#endif
