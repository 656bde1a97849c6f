/* SPDX-License-Identifier: Apache-2.0 */
/*
 * total_oom.h - what a device looked like when the program first ran out of its
 * memory: how much was free, what was live or pending, and who held most of it.  The
 * collector stores it when recording ends; the report makes it in TEMP otherwise.
 */
#ifndef CUSTODY_REPORT_TOTAL_OOM_H
#define CUSTODY_REPORT_TOTAL_OOM_H

#include <sqlite3.h>

/*
 * Fills the empty tables oom and oom_holder of `schema` ("main" or "temp") from rows:
 * the first failure of each process, of the first TOTAL_OOM_PROCESSES that had one.
 * Returns an SQLite result code.
 */
int total_oom(sqlite3 *db, const char *schema);

enum { TOTAL_OOM_PROCESSES = 8, TOTAL_OOM_HOLDERS = 20 };

/* The columns of the tables, for a CREATE TABLE. */
extern const char total_oom_columns[];
extern const char total_oom_holder_columns[];

#endif
