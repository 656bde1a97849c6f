/* SPDX-License-Identifier: Apache-2.0 */
/*
 * total.h - sums over the blocks of a trace, so that a report need not walk
 * through them.  The collector stores them when recording ends; the report makes
 * them itself, in TEMP, for a trace whose recording did not end well.
 */
#ifndef CUSTODY_REPORT_TOTAL_H
#define CUSTODY_REPORT_TOTAL_H

#include <sqlite3.h>

/*
 * Fills the empty tables allocation_total, free_total and pending_total of
 * `schema` ("main" or "temp") from allocation and peak_block in one pass.  Returns
 * an SQLite result code.
 */
int total_allocations(sqlite3 *db, const char *schema);

/* The columns of the table, for a CREATE TABLE. */
extern const char total_columns[];

#endif
