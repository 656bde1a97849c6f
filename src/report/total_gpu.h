/* SPDX-License-Identifier: Apache-2.0 */
/*
 * total_gpu.h - sums over what devices did, as total.h has them over blocks.
 */
#ifndef CUSTODY_REPORT_TOTAL_GPU_H
#define CUSTODY_REPORT_TOTAL_GPU_H

#include <sqlite3.h>

/*
 * Fills the empty table gpu_total of `schema` ("main" or "temp") in one pass over
 * gpu_work_row and one over transfer_gpu.  Returns an SQLite result code.
 */
int total_gpu(sqlite3 *db, const char *schema);

/* The columns of the table, for a CREATE TABLE. */
extern const char total_gpu_columns[];

#endif
